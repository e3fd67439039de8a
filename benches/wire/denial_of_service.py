"""Denial of service: each attack at full force by one role or stranger, while another role logs in
and asks, and reads its pages. What the attack met, what the other role waited, and what memory the
proxy took.

    cargo build --release
    python3 benches/wire/denial_of_service.py [seconds of each attack, 15] [names of attacks]
"""

import contextlib
import multiprocessing
import resource
import socket
import statistics
import struct
import sys
import threading
import time

import pages
from stage import Client, Stage, free_port

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 15
ATTEMPTS = 10_000
FORK = multiprocessing.get_context("fork")
WOMEN = "SELECT count(*) FROM nls.women"
SLOW = (
    "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), "
    "nls.industries a, nls.occupations b, nls.industries c"
)


class DenialOfService(Stage):
    """200 sessions, as in the demo, a second role, an operator, the console and the desk."""

    def policy(self):
        policy = super().policy().replace("connections: 1500 ", "connections: 200 ")
        verifier = policy.split("password: ")[1].split()[0]
        role = (
            f"  - name: honest\n    password: {verifier}\n"
            "    budget: {epsilon: 90000, delta: 1e-7}\n"
        )
        operators = "".join(
            f"  - {{name: {name}, password: '{verifier}', may: [watch, own]}}\n"
            for name in ["olga", "hope"]
        )
        return policy.replace("\ntables:", f"\n{role}\noperators:\n{operators}\ntables:", 1)

    def pgveil(self):
        self.console, self.desk = free_port(), free_port()
        sites = [
            "--admin",
            f"127.0.0.1:{self.admin}",
            "--console",
            f"127.0.0.1:{self.console}",
            "--desk",
            f"127.0.0.1:{self.desk}",
        ]
        self.proxy = self.veil("pgveil", self.policy(), self.veiled, "nls", sites)

    def pgbouncer(self):
        pass


class Honest(FORK.Process):
    """Comes, asks for a constant and for a count afresh, and goes; again and again. A process of
    its own: the attacker's threads are no part of what it waits for.
    """

    def __init__(self, stage):
        super().__init__(daemon=True)
        self.stage, self.over, self.reported = stage, FORK.Event(), FORK.Queue()

    def run(self):
        milliseconds, failed, peak = [], 0, 0
        while not self.over.wait(0.05):
            began = time.perf_counter()
            try:
                client = Client(self.stage.veiled, "honest")
                client.ask("SELECT 1")
                client.ask("SET pgveil.reuse = off; SET pgveil.epsilon = 0.01")
                client.ask(WOMEN)
                client.close()
                milliseconds.append((time.perf_counter() - began) * 1e3)
            except (OSError, RuntimeError, struct.error, AssertionError):
                failed += 1
            peak = max(peak, self.stage.memory())
        self.reported.put((milliseconds, failed, peak))


class Visitor(FORK.Process):
    """Reads a page of the console and one of the desk, in sessions that it has: logged in before
    the attack.
    """

    def __init__(self, stage):
        super().__init__(daemon=True)
        self.over, self.reported = FORK.Event(), FORK.Queue()
        self.sites = [pages.Browser(stage.console), pages.Browser(stage.desk)]
        for browser, name in zip(self.sites, ["hope", "honest"]):
            assert browser.log_in(name) == 303

    def run(self):
        milliseconds, failed = [], 0
        while not self.over.wait(0.5):
            for browser in self.sites:
                began = time.perf_counter()
                try:
                    assert browser.request("GET", "/")[0] == 200
                    milliseconds.append((time.perf_counter() - began) * 1e3)
                except (OSError, AssertionError):
                    failed += 1
        self.reported.put((milliseconds, failed))


def refusal(error):
    fields = dict((field[:1], field[1:].decode()) for field in error.args[0].split(b"\0") if field)
    return f"{fields[b'C']} {fields[b'M']}"


def repeated(stage, sessions, work):
    """Sessions that do their work over and over; gives what the proxy reported to them, counted."""
    reported, over = {}, time.monotonic() + SECONDS

    def one(number):
        while time.monotonic() < over:
            try:
                client = Client(stage.veiled, "analyst")
                client.socket.settimeout(SECONDS + 60)
                while time.monotonic() < over:
                    try:
                        work(client, number)
                        reported["answered"] = reported.get("answered", 0) + 1
                    except RuntimeError as error:
                        reported[refusal(error)] = reported.get(refusal(error), 0) + 1
            except RuntimeError as error:
                reported[refusal(error)] = reported.get(refusal(error), 0) + 1
                time.sleep(0.2)
            except (OSError, struct.error) as error:
                reported[type(error).__name__] = reported.get(type(error).__name__, 0) + 1
                time.sleep(0.2)
            finally:
                with contextlib.suppress(Exception):
                    client.close()

    threads = [
        threading.Thread(target=one, args=(number,), daemon=True) for number in range(sessions)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, over - time.monotonic()) + 1)
    return reported


def nothing(stage):
    time.sleep(SECONDS)
    return {}


def stalled_logins(stage):
    body = struct.pack("!i", 196608) + b"user\0analyst\0database\0nls\0\0"
    startup = struct.pack("!i", len(body) + 4) + body
    tls = struct.pack("!ii", 8, 80877103)
    beginnings = [b"", startup[:3], startup[:12], tls, tls + b"\x16\x03\x01\x02\x00\x01", startup]
    counts = {"opened": 0}
    began = time.monotonic()

    def one(number):
        held = []
        for attempt in range(number, ATTEMPTS, 4):
            try:
                stream = socket.create_connection(("127.0.0.1", stage.veiled), 10)
                stream.sendall(beginnings[attempt % len(beginnings)])
                held.append(stream)
                counts["opened"] += 1
            except OSError as error:
                counts[type(error).__name__] = counts.get(type(error).__name__, 0) + 1
            if len(held) > 150:
                held.pop(0).close()
        for stream in held:
            stream.close()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts | {"connections a second": round(counts["opened"] / (time.monotonic() - began))}


def large_statements(stage):
    texts = [
        "SELECT 1" + ",1" * 24_000,
        "SELECT 1" + ",1" * 500_000,
        "SELECT 1" + "+1" * 400_000,
        "SELECT " + "(" * 500_000,
        "SELECT count(*) FROM nls.women WHERE birth_year IN (1" + ",1" * 24_000 + ")",
        "SELECT " + ",".join(["sum(birth_year)"] * 5_000) + " FROM nls.women",
        "SELECT 1;" * 110_000,
        "SHOW timezone;" * 1_000,
        "SELECT '" + "x" * 1_000_000 + "'",
        "SELECT count(*) FROM nls.women WHERE "
        + " OR ".join(f"birth_year = {year}" for year in range(100)),
    ]
    return repeated(
        stage, 20, lambda client, number: [ask(client, text) for text in texts[number % 10 :][:1]]
    )


def ask(client, text):
    client.send(b"Q", text.encode() + b"\0")
    return client.answer()


def hoarded_rows(stage):
    def work(client, number):
        for cursor in range(300):
            client.ask(
                f"DECLARE c{number}_{cursor}_{time.monotonic_ns()} CURSOR WITH HOLD FOR "
                "SELECT n, repeat('x', 100) FROM generate_series(1, 200000) n"
            )

    return repeated(stage, 20, work)


def deaf_clients(stage):
    over = time.monotonic() + SECONDS
    clients = [Client(stage.veiled, "analyst") for _ in range(100)]
    for client in clients:
        client.send(b"Q", b"SELECT n, repeat('x', 200) FROM generate_series(1, 300000) n\0")
    time.sleep(max(0.0, over - time.monotonic()))
    for client in clients:
        client.socket.close()
    return {"asked": len(clients)}


def half_messages(stage):
    over = time.monotonic() + SECONDS
    clients = [Client(stage.veiled, "analyst") for _ in range(150)]
    for client in clients:
        client.socket.sendall(b"B" + struct.pack("!i", 4 << 20) + bytes(3 << 20))
    time.sleep(max(0.0, over - time.monotonic()))
    for client in clients:
        client.socket.close()
    return {"half sent": len(clients)}


def expensive_public_statements(stage):
    return repeated(
        stage,
        30,
        lambda client, _: client.ask("SELECT count(*) FROM generate_series(1, 1000000000)"),
    )


def expensive_private_joins(stage):
    def work(client, number):
        client.ask("SET pgveil.reuse = off; SET pgveil.epsilon = 0.01")
        client.ask(f"{SLOW} WHERE i.year > {number}")

    return repeated(stage, 30, work)


def on_pages(attack):
    def run(stage):
        return attack(stage, SECONDS)

    run.__name__ = attack.__name__
    return run


def row(attack, stage):
    """One line of the table."""
    before = stage.memory()
    honest, visitor = Honest(stage), Visitor(stage)
    honest.start()
    visitor.start()
    met = attack(stage)
    honest.over.set()
    visitor.over.set()
    milliseconds, failed, peak = honest.reported.get(timeout=90)
    seen, missed = visitor.reported.get(timeout=90)
    time.sleep(2)
    times = sorted(milliseconds) or [float("nan")]
    met = (
        ", ".join(
            f"{count} {what}" if what != "connections a second" else f"{count} a second"
            for what, count in sorted(met.items())
        )
        or "-"
    )
    memory = ", ".join(f"{size >> 20}" for size in (before, peak, stage.memory()))
    ended = "" if stage.proxy.poll() is None else " PROXY ENDED"
    percentile = times[min(len(times) - 1, int(len(times) * 0.99))]
    served = (
        f"{len(milliseconds)}, {failed} | {statistics.median(times):.0f} | {percentile:.0f} | "
        f"{times[-1]:.0f}"
    )
    read = f"{len(seen)}, {missed} | {statistics.median(seen or [float('nan')]):.0f}"
    return f"| {attack.__name__.replace('_', ' ')} | {met}{ended} | {served} | {read} | {memory} |"


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    print(
        "| attack | what it met | another role: served, failed | p50 ms | p99 ms | "
        "longest ms | its pages: read, failed | p50 ms | MiB before, most, after |"
    )
    print("|---|---|---|---:|---:|---:|---|---:|---|", flush=True)
    attacks = [
        nothing,
        stalled_logins,
        large_statements,
        hoarded_rows,
        deaf_clients,
        half_messages,
        expensive_public_statements,
        expensive_private_joins,
    ]
    attacks += map(on_pages, pages.ATTACKS)
    wanted = sys.argv[2:]
    for attack in attacks:
        if not wanted or attack.__name__ in wanted:
            with DenialOfService() as stage:
                print(row(attack, stage), flush=True)


main()
