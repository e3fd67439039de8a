"""The local model next to pure-ldp and multi-freq-ldpy: errors of counts from reports, and rows
written in a second next to a direct INSERT and COPY.

    python3 -m venv venv
    venv/bin/pip install pure-ldp==1.2.0 scikit-learn statsmodels \
        multi-freq-ldpy==0.2.5 psycopg2-binary
    cargo build --release
    venv/bin/python benches/peers/local.py --pgveil target/release/pgveil

Errors: for lists of 2, 16 and 128 values and epsilons from 0.5 to 3, true values are written
through pgveil, which randomises them, and counted through pgveil at an epsilon of the question so
large that its own noise is nothing. Each peer draws as many reports of the same values with its own
client; its counts are unbiased ones, without the cut at zero that multi-freq-ldpy adds. The root of
the mean squared error over all values and runs is printed next to the formula's. It should agree
within some 3 % where --runs times the values are 1,000 and more: `--people 10000 --runs 20` takes
about an hour. A peer that is not installed has an empty column.

Rates: the same rows by single INSERTs, in transactions of 100, by INSERTs of 1,000 rows and by
COPY, with a memo: once to PostgreSQL, once through pgbouncer, which changes nothing, and once
through pgveil. PostgreSQL syncs each commit. Give it a machine with nothing else on it.
"""

import argparse
import contextlib
import io
import math
import os
import random
import socket
import subprocess
import time
import urllib.parse

import psycopg2

from peers import cluster, postgres
from serve import free_port, serving, verifier

SIZES, EPSILONS = (2, 16, 128), (0.5, 1.0, 2.0, 3.0)
MECHANISMS = ("krr", "unary")

HEAD = """
version: 1
database: {{url: "{url}", write_url: "{write_url}"}}
ledger: {{url: "sqlite://{directory}/ledger.db"}}
shadow: {{url: "{shadow}"}}
local: {local}
privacy:
  unit: person
  budget: {{epsilon: 1000000000, delta: 1e-3}}
  per_query: {{epsilon: 100000, max_epsilon: 100000}}
  accounting: gdp
  data_version: "1"
roles:
  - {{name: bench, password: "{password}", budget: {{epsilon: 900000000, delta: 1e-4}}}}
  - {{name: collector, password: "{password}", budget: none, writes: [public.answers]}}
limits: {{groups: 100000, failures: 10, statement_timeout: 600s, connections: 20}}
tables:
  public.answers:
    unit: person
    constraints: shown
    columns:
"""


def channel(mechanism, k, epsilon):
    """How likely a report is a value that is the true one, and one that is not."""
    e = math.exp(epsilon)
    return (e / (e + k - 1), 1 / (e + k - 1)) if mechanism == "krr" else (0.5, 1 / (e + 1))


def formula(mechanism, k, epsilon, counts):
    """The root of the mean variance of the counts of values that so many people have."""
    p, q = channel(mechanism, k, epsilon)
    n = sum(counts)
    each = [(c * p * (1 - p) + (n - c) * q * (1 - q)) / (p - q) ** 2 for c in counts]
    return math.sqrt(sum(each) / k)


def true_values(k, people):
    """Frequencies that fall, in an order that says nothing."""
    values = random.Random(k).choices(range(k), [1 / (at + 1) for at in range(k)], k=people)
    return values, [values.count(value) for value in range(k)]


def rms(squares):
    return math.sqrt(sum(squares) / len(squares))


def off(estimates, counts):
    return [(estimate - count) ** 2 for estimate, count in zip(estimates, counts, strict=True)]


class Proxy:
    """pgveil over one table, for an analyst and a collector."""

    def __init__(self, program, directory, urls, local, columns):
        self.program, self.directory = program, directory
        os.makedirs(directory)
        password = verifier(program)
        self.policy = os.path.join(directory, "policy.yaml")
        url, shadow = urls
        write_url = "postgresql://writer@" + url.split("@", 1)[1]
        with open(self.policy, "w") as file:
            file.write(HEAD.format(**vars_of(url, write_url, directory, shadow, local, password)))
            file.writelines(f"      {column}\n" for column in columns)

    def running(self):
        """A function that connects as a role."""
        return serving(self.program, self.policy, os.path.join(self.directory, "log"))


def vars_of(url, write_url, directory, shadow, local, password):
    return dict(
        url=url,
        write_url=write_url,
        directory=directory,
        shadow=shadow,
        local=local,
        password=password,
    )


def made_table(url, columns):
    """The table of answers anew, for a login that may only insert."""
    with contextlib.closing(psycopg2.connect(url)) as owner, owner.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS answers")
        cursor.execute(f"CREATE TABLE answers (person int PRIMARY KEY, {columns})")
        cursor.execute("SELECT FROM pg_roles WHERE rolname = 'writer'")
        if not cursor.fetchall():
            cursor.execute("CREATE ROLE writer LOGIN")
        cursor.execute("GRANT INSERT ON answers TO writer")
        owner.commit()


def with_pgveil(options, place, mechanism, k, epsilon, values):
    """The counts of all values, written and counted through pgveil."""
    directory, url, shadow = place
    name = f"{mechanism}-{k}-{epsilon}-{random.random()}"
    if mechanism == "krr":
        columns, header = "v text NOT NULL", "person, v"
        listed = ", ".join(f"v{value}" for value in range(k))
        policy = [f"v: {{values: [{listed}], local: {{mechanism: krr, epsilon: {epsilon}}}}}"]
        rows = (f"{person}\tv{value}\n" for person, value in enumerate(values))
        counted = [f"v = 'v{value}'" for value in range(k)]
    else:
        bits = [f"b{value}" for value in range(k)]
        columns, header = " bool NOT NULL, ".join(bits) + " bool NOT NULL", ", ".join(bits)
        header = f"person, {header}"
        also = f", also: [{', '.join(bits[1:])}]"
        policy = [
            f"b0: {{visible: true{also}, local: {{mechanism: unary, epsilon: {epsilon}}}}}"
        ]
        row = {value: "\t".join("ft"[value == at] for at in range(k)) for value in range(k)}
        rows = (f"{person}\t{row[value]}\n" for person, value in enumerate(values))
        counted = bits
    made_table(url, columns)
    where = os.path.join(directory, name)
    proxy = Proxy(options.pgveil, where, (url, shadow), "{memo: false}", policy)
    with proxy.running() as connected:
        with contextlib.closing(connected("collector")) as collector:
            with collector.cursor() as cursor:
                lines = io.StringIO("".join(rows))
                cursor.copy_expert(f"COPY answers ({header}) FROM STDIN", lines)
            collector.commit()
        with contextlib.closing(connected("bench")) as analyst, analyst.cursor() as cursor:
            found = []
            for first in range(0, k, 16):
                asked = [f"count(*) FILTER (WHERE {of})" for of in counted[first : first + 16]]
                cursor.execute(f"SELECT {', '.join(asked)} FROM answers")
                found.extend(map(float, cursor.fetchone()))
                analyst.commit()
    return found


def unbiased(mechanism, k, epsilon, people, reported):
    p, q = channel(mechanism, k, epsilon)
    return [(count - people * q) / (p - q) for count in reported]


def with_pure_ldp(mechanism, k, epsilon, values):
    from pure_ldp.frequency_oracles.direct_encoding import DEClient
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    # Its own mapper counts values from 1.
    if mechanism == "krr":
        client = DEClient(epsilon, k, index_mapper=lambda value: value)
        reported = [0] * k
        for value in values:
            reported[client.privatise(value)] += 1
    else:
        client = UEClient(epsilon, k, use_oue=True, index_mapper=lambda value: value)
        reported = sum(client.privatise(value) for value in values)
    return unbiased(mechanism, k, epsilon, len(values), reported)


def with_multi_freq(mechanism, k, epsilon, values):
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

    if mechanism == "krr":
        reported = [0] * k
        for value in values:
            reported[GRR_Client(value, k, epsilon)] += 1
    else:
        reported = sum(UE_Client(value, k, epsilon, True) for value in values)
    return unbiased(mechanism, k, epsilon, len(values), reported)


def errors(options, place):
    peers = {"pure-ldp": with_pure_ldp, "multi-freq-ldpy": with_multi_freq}
    print(f"\n{'':24}{'formula':>10}{'pgveil':>10}" + "".join(f"{name:>18}" for name in peers))
    for mechanism in MECHANISMS:
        for k in options.sizes:
            values, counts = true_values(k, options.people)
            for epsilon in options.epsilons:
                squares = {name: [] for name in ("pgveil", *peers)}
                for _ in range(options.runs):
                    found = with_pgveil(options, place, mechanism, k, epsilon, values)
                    squares["pgveil"] += off(found, counts)
                    for name, draw in peers.items():
                        try:
                            squares[name] += off(draw(mechanism, k, epsilon, values), counts)
                        except ImportError:
                            pass
                line = f"{mechanism}, {k} values, {epsilon}"
                wanted = formula(mechanism, k, epsilon, counts)
                print(f"{line:24}{wanted:10.1f}{rms(squares['pgveil']):10.1f}", end="")
                for name in peers:
                    print(f"{rms(squares[name]):18.1f}" if squares[name] else f"{'':18}", end="")
                print(flush=True)


COLUMNS = "person, smoked, illness, income"


def row(person):
    return (person, ("no", "yes")[person % 3 == 0], ("flu", "cold")[person % 2], person % 5000)


def singly(cursor, rows, commit, together):
    sql = f"INSERT INTO answers ({COLUMNS}) VALUES (%s, %s, %s, %s)"
    for at, values in enumerate(rows):
        cursor.execute(sql, values)
        if (at + 1) % together == 0:
            commit()
    commit()


def in_batches(cursor, rows, commit):
    for first in range(0, len(rows), 1000):
        values = ", ".join(map(str, rows[first : first + 1000]))
        cursor.execute(f"INSERT INTO answers ({COLUMNS}) VALUES {values}")
        commit()


def by_copy(cursor, rows, commit):
    lines = "".join("\t".join(map(str, values)) + "\n" for values in rows)
    cursor.copy_expert(f"COPY answers ({COLUMNS}) FROM STDIN", io.StringIO(lines))
    commit()


WAYS = {
    "single rows": (1, lambda *given: singly(*given, 1)),
    "transactions of 100": (4, lambda *given: singly(*given, 100)),
    "INSERTs of 1,000 rows": (40, in_batches),
    "COPY": (40, by_copy),
}


@contextlib.contextmanager
def bouncing(directory, url):
    """The URL of pgbouncer in front of a server."""
    server, port = urllib.parse.urlsplit(url), free_port()
    config = os.path.join(directory, "pgbouncer.ini")
    with open(config, "w") as file:
        file.write(
            f"[databases]\npostgres = host=127.0.0.1 port={server.port} user={server.username}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = session\n"
        )
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    with subprocess.Popen(
        [*as_user, "pgbouncer", "--quiet", config], stderr=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(100):
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield f"postgresql://{server.username}@127.0.0.1:{port}/postgres"
        finally:
            process.terminate()


def rates(options, place):
    directory, url, shadow = place
    columns = "smoked text NOT NULL, illness text NOT NULL, income int NOT NULL"
    policy = [
        "smoked: {values: [no, yes], local: {mechanism: coin, truth: 1/2, yes: 1/2}}",
        "illness: {values: [flu, cold], local: {mechanism: krr, epsilon: 1}}",
        "income: {bounds: [0, 5000], local: {mechanism: mean, epsilon: 1}}",
    ]
    made_table(url, columns)
    local = "{secret: 0123456789abcdef0123456789abcdef}"
    proxy = Proxy(options.pgveil, os.path.join(directory, "rates"), (url, shadow), local, policy)
    print(f"\n{'rows a second':24}{'PostgreSQL':>12}{'pgbouncer':>12}{'pgveil':>12}{'share':>8}")
    with proxy.running() as connected, bouncing(directory, url) as bounced:
        roles = (
            lambda: psycopg2.connect(url),
            lambda: psycopg2.connect(bounced),
            lambda: connected("collector"),
        )
        first = 0
        for name, (times, write) in WAYS.items():
            found = []
            for connect in roles:
                rows = [row(first + at) for at in range(times * options.rows)]
                first += len(rows)
                with contextlib.closing(connect()) as connection:
                    with connection.cursor() as cursor:
                        began = time.perf_counter()
                        write(cursor, rows, connection.commit)
                        found.append(len(rows) / (time.perf_counter() - began))
            direct, bounced_too, veiled = found
            rates = f"{direct:12.0f}{bounced_too:12.0f}{veiled:12.0f}{veiled / direct:8.2f}"
            print(f"{name:24}{rates}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pgveil", required=True)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000, help="single rows; others by multiples")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    options = parser.parse_args()
    options.pgveil = os.path.abspath(options.pgveil)
    with cluster("on") as (directory, url), cluster() as (_, shadow):
        rates(options, (directory, url, shadow))
    with postgres() as place:
        errors(options, place)


main()
