"""A throw-away PostgreSQL with the demo's data, pgveil and pgbouncer before it, and a client of
bare sockets. Standard library only.
"""

import base64
import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PGVEIL = os.environ.get("PGVEIL", str(ROOT / "target/release/pgveil"))
BINARIES = Path(
    os.environ.get("PGVEIL_PG_BIN") or sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
)
PGBOUNCER = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def unprivileged(command):
    """PostgreSQL and pgbouncer refuse to run as root."""
    return (
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        if os.getuid() == 0
        else []
    ) + [str(word) for word in command]


def until_open(port, process, log):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit(f"nothing listens on {port}:\n{Path(log).read_text()}")


class Stage:
    """`direct`, `bounced` and `veiled` are ports; all take TLS or none. The direct user is
    postgres, pgveil's is analyst.
    """

    def __enter__(self):
        self.home = Path(tempfile.mkdtemp(prefix="pgveil-bench-"))
        os.chmod(self.home, 0o777)
        self.processes = []
        self.direct, self.bounced, self.veiled, self.admin = (free_port() for _ in range(4))
        try:
            self.certificate()
            self.postgresql()
            self.pgbouncer()
            self.pgveil()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, name, command, port, environment=None):
        log = self.home / f"{name}.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=os.environ | (environment or {}),
                cwd=self.home,
            )
        self.processes.append(process)
        until_open(port, process, log)
        return process

    def certificate(self):
        self.cert, self.key = self.home / "cert.pem", self.home / "key.pem"
        made = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ]
        subprocess.run(
            made
            + ["-addext", "subjectAltName=DNS:localhost", "-keyout", self.key, "-out", self.cert],
            check=True,
            capture_output=True,
        )
        os.chmod(self.key, 0o600)
        if os.getuid() == 0:
            shutil.chown(self.key, 65534, 65534)

    def psql(self, text):
        command = [
            BINARIES / "psql",
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            f"host=127.0.0.1 port={self.direct} user=postgres dbname=nls",
        ]
        return subprocess.run(
            [str(word) for word in command],
            input=text,
            text=True,
            check=True,
            capture_output=True,
            cwd=ROOT / "data/nls_young_women",
        ).stdout

    def postgresql(self):
        data = self.home / "data"
        subprocess.run(
            unprivileged(
                [
                    BINARIES / "initdb",
                    "-A",
                    "trust",
                    "-U",
                    "postgres",
                    "-E",
                    "UTF8",
                    "--locale=C.UTF-8",
                    "-D",
                    data,
                ]
            ),
            check=True,
            capture_output=True,
        )
        options = [
            "-c",
            "max_connections=200",
            "-c",
            "ssl=on",
            "-c",
            f"ssl_cert_file={self.cert}",
            "-c",
            f"ssl_key_file={self.key}",
            "-c",
            f"port={self.direct}",
        ]
        server = unprivileged([BINARIES / "postgres", "-D", data, "-k", self.home, *options])
        self.start("postgresql", server, self.direct)
        for _ in range(100):
            ready = subprocess.run(
                [
                    str(BINARIES / "createdb"),
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(self.direct),
                    "-U",
                    "postgres",
                    "nls",
                ],
                capture_output=True,
            )
            if ready.returncode == 0:
                break
            time.sleep(0.2)
        schema = (ROOT / "data/nls_young_women/schema.sql").read_text()
        self.psql(schema)
        if self.psql("\\t\nSELECT count(*) FROM nls.women").strip() == "0":
            for table in ["industries", "occupations", "women", "interviews"]:
                self.psql(
                    f"\\copy nls.{table} FROM '{ROOT}/data/nls_young_women/{table}.csv' CSV HEADER"
                )
        self.psql("ANALYZE")

    def pgbouncer(self):
        users = self.home / "users.txt"
        users.write_text('"postgres" "postgres"\n')
        config = self.home / "pgbouncer.ini"
        config.write_text(
            f"[databases]\nnls = host=127.0.0.1 port={self.direct} dbname=nls user=postgres\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.bounced}\n"
            f"unix_socket_dir =\nauth_type = trust\nauth_file = {users}\npool_mode = session\n"
            "max_client_conn = 2000\ndefault_pool_size = 60\n"
            f"client_tls_sslmode = allow\nclient_tls_cert_file = {self.cert}\n"
            f"client_tls_key_file = {self.key}\n"
        )
        if not Path(PGBOUNCER).exists():
            raise SystemExit("pgbouncer is not here: apt-get install pgbouncer")
        self.start("pgbouncer", unprivileged([PGBOUNCER, config]), self.bounced)

    def policy(self):
        """The demo's, with enough of everything, so that the numbers are those of the machine."""
        policy = (ROOT / "policies/demo.yaml").read_text()
        policy = policy.replace("epsilon: 8,", "epsilon: 1000000,").replace(
            "epsilon: 3,", "epsilon: 900000,"
        )
        return policy.replace("failures: 10 ", "failures: 100000 ").replace(
            "connections: 200 ", "connections: 1500 "
        )

    def pgveil(self):
        self.proxy = self.veil(
            "pgveil", self.policy(), self.veiled, "nls", ["--admin", f"127.0.0.1:{self.admin}"]
        )

    def veil(self, name, policy, port, database, more=()):
        """A proxy of this policy before this database."""
        (self.home / f"{name}.yaml").write_text(policy)
        environment = {
            "DATABASE_URL": (
                f"postgresql://postgres@127.0.0.1:{self.direct}/{database}" "?sslmode=disable"
            ),
            "PGVEIL_LEDGER": f"sqlite://{self.home}/{name}.db",
            "PGVEIL_LOG": "warn",
        }
        options = [
            "--listen",
            f"127.0.0.1:{port}",
            "--tls-cert",
            self.cert,
            "--tls-key",
            self.key,
            *more,
        ]
        return self.start(
            name,
            [PGVEIL, "serve", "--policy", self.home / f"{name}.yaml", *options],
            port,
            environment,
        )

    def memory(self):
        """Resident bytes of pgveil itself; its shadow is a PostgreSQL of its own."""
        for line in Path(f"/proc/{self.proxy.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


class Client:
    """One session, by SCRAM where the server asks for it."""

    def __init__(self, port, user, password="analyst", tls=False, database="nls"):
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.socket.sendall(struct.pack("!ii", 8, 80877103))
            assert self.socket.recv(1) == b"S"
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self.file = self.socket.makefile("rb")
        body = struct.pack("!i", 196608) + f"user\0{user}\0database\0{database}\0\0".encode()
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.log_in(password)

    def receive(self):
        kind, length = struct.unpack("!ci", self.file.read(5))
        return kind, self.file.read(length - 4)

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def log_in(self, password):
        nonce = base64.b64encode(secrets.token_bytes(18)).decode()
        bare = f"n=,r={nonce}"
        while True:
            kind, body = self.receive()
            if kind == b"E":
                raise RuntimeError(body)
            if kind == b"Z":
                return
            if kind != b"R":
                continue
            code = struct.unpack("!i", body[:4])[0]
            if code == 10:
                first = f"n,,{bare}".encode()
                self.send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
            elif code == 11:
                challenge = body[4:].decode()
                parts = dict(part.split("=", 1) for part in challenge.split(","))
                salted = hashlib.pbkdf2_hmac(
                    "sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
                )
                key = hmac.digest(salted, b"Client Key", "sha256")
                last = f"c=biws,r={parts['r']}"
                signature = hmac.digest(
                    hashlib.sha256(key).digest(), f"{bare},{challenge},{last}".encode(), "sha256"
                )
                proof = bytes(a ^ b for a, b in zip(key, signature))
                self.send(b"p", f"{last},p={base64.b64encode(proof).decode()}".encode())

    def ask(self, sql):
        """The rows as tuples of text; raises for an error."""
        self.send(b"Q", sql.encode() + b"\0")
        return self.answer()

    def prepare(self, sql):
        """A statement without parameters, as `s`."""
        self.send(b"P", b"s\0" + sql.encode() + b"\0\0\0")
        self.send(b"S", b"")
        self.answer()

    def execute(self):
        """Bind and Execute of `s`, in one packet."""
        bind = b"B" + struct.pack("!i", 4 + 3 + 6) + b"\0s\0" + bytes(6)
        self.socket.sendall(
            bind + b"E" + struct.pack("!i", 9) + bytes(5) + b"S" + struct.pack("!i", 4)
        )
        return self.answer()

    def answer(self):
        rows, error = [], None
        while True:
            kind, body = self.receive()
            if kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack("!h", body[:2])[0]):
                    length = struct.unpack("!i", body[at : at + 4])[0]
                    at += 4
                    row.append(None if length < 0 else body[at : at + length].decode())
                    at += max(length, 0)
                rows.append(tuple(row))
            elif kind == b"E":
                error = body
            elif kind == b"Z":
                if error:
                    raise RuntimeError(error)
                return rows

    def close(self):
        with contextlib.suppress(OSError):
            self.send(b"X", b"")
            self.socket.close()
