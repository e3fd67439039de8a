"""`pgveil serve` under a policy, and sessions through it, for the programs of this folder."""

import contextlib
import os
import socket
import subprocess
import sys
import time

import psycopg2


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def verifier(program):
    """What a policy has of the password `bench`."""
    made = subprocess.run(
        [program, "password"], input="bench\n", capture_output=True, text=True, check=True
    )
    return next(word for word in made.stdout.split() if word.startswith("SCRAM-SHA-256$"))


@contextlib.contextmanager
def serving(program, policy, log, environment=None):
    """A function that connects as a role, and waits until the proxy answers. A proxy that ends
    instead shows its log and ends all.
    """
    port = free_port()
    with open(log, "w") as file:
        server = subprocess.Popen(
            [program, "serve", "--policy", policy, "--listen", f"127.0.0.1:{port}"],
            env=environment,
            stderr=file,
        )

    def connect(role="bench", password="bench"):
        while True:
            try:
                return psycopg2.connect(
                    host="127.0.0.1", port=port, user=role, password=password, dbname="postgres"
                )
            except psycopg2.OperationalError:
                if server.poll() is not None:
                    with open(log) as file:
                        sys.exit(file.read())
                time.sleep(0.05)

    try:
        yield connect
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def session(program, policy, directory, login=(), environment=None):
    """A cursor of a session through a proxy, whose log is in the directory."""
    log = os.path.join(directory, "log")
    with serving(program, policy, log, environment) as connect:
        with contextlib.closing(connect(*login)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            yield cursor
