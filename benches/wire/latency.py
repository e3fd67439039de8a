"""What pgveil adds to a statement, next to pgbouncer: p50 and p99 of `SELECT 1` and of a private
aggregate, simple and prepared, with and without TLS; and the throughput of an aggregate of more
than 10 ms at 1, 8 and 50 connections.

    cargo build --release && python3 benches/wire/latency.py [seconds of each measurement, 5]
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from stage import BINARIES, Client, Stage

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
# A fresh answer each time, so that the backend works and the ledger writes.
FRESH = "SET pgveil.reuse = off; SET pgveil.epsilon = 0.05; SET pgveil.notices = off"
# At a smaller epsilon a look at the large question sees too few units.
FRESH_LARGE = FRESH.replace("0.05", "0.5")
REUSED = "SET pgveil.epsilon = 0.05; SET pgveil.notices = off"
SMALL = "SELECT count(*) FROM nls.women WHERE birth_year > 1947"
LARGE = (
    "SELECT industry_code, count(*), avg(hourly_wage) FROM nls.interviews GROUP BY industry_code"
)


def latencies(port, user, sql, mode="simple", tls=False, settings=FRESH):
    """Milliseconds, sorted: one session of a bare client, whose own time is the same for all."""
    client = Client(port, user, tls=tls)
    if user == "analyst":
        client.ask(settings)
    if mode == "prepared":
        client.prepare(sql)
    ask = client.execute if mode == "prepared" else lambda: client.ask(sql)
    took = []
    ends = time.perf_counter() + SECONDS
    while time.perf_counter() < ends:
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1e3)
    client.close()
    # The first ones open connections and fill caches.
    return sorted(took[len(took) // 20 :])


def throughput(stage, port, user, sql, clients):
    """Transactions per second and average milliseconds, by pgbench."""
    script = stage.home / "script.sql"
    script.write_text(sql.rstrip(";") + ";\n")
    environment = os.environ | {"PGSSLMODE": "disable", "PGPASSWORD": "analyst"}
    if user == "analyst":
        settings = FRESH_LARGE.split("; ")
        environment["PGOPTIONS"] = " ".join(
            f"-c {part.removeprefix('SET ').replace(' = ', '=')}" for part in settings
        )
    command = [
        BINARIES / "pgbench",
        "-n",
        "-c",
        clients,
        "-j",
        min(clients, 2),
        "-T",
        SECONDS,
        "-f",
        script,
        "-h",
        "127.0.0.1",
        "-p",
        port,
        "-U",
        user,
        "nls",
    ]
    ran = subprocess.run(
        [str(word) for word in command],
        env=environment,
        capture_output=True,
        text=True,
        cwd=stage.home,
    )
    if ran.returncode != 0:
        raise SystemExit(ran.stderr + (stage.home / "pgveil.log").read_text()[-2000:])
    number = lambda start: next(
        (
            float(line.split(" = ")[1].split()[0])
            for line in ran.stdout.splitlines()
            if line.startswith(start)
        ),
        float("nan"),
    )
    return number("tps"), number("latency average")


def quantile(took, q):
    return took[min(len(took) - 1, int(len(took) * q))] if took else float("nan")


def emitted(stage, sql):
    """The statement that pgveil runs on the database for this one."""
    client = Client(stage.veiled, "analyst")
    client.ask(FRESH)
    plan = json.loads(client.ask(f"EXPLAIN (FORMAT JSON) {sql}")[0][0])
    client.close()
    return plan[0]["releases"][0]["sql"][0]


def machine():
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        "?",
    )
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} × {model}; load {load:.1f} at the start"


def row(name, mode, tls, through, took):
    print(
        (
            f"| {name} | {mode} | {'on' if tls else 'off'} | {through} | "
            f"{quantile(took, 0.5):.3f} | {quantile(took, 0.99):.3f} | {len(took)} |"
        ),
        flush=True,
    )


def main():
    print(machine())
    with Stage() as stage:
        ways = [
            ("direct", stage.direct, "postgres"),
            ("pgbouncer", stage.bounced, "postgres"),
            ("pgveil", stage.veiled, "analyst"),
        ]
        print(
            "\n| statement | protocol | TLS | through | p50 ms | p99 ms | of |\n"
            "|---|---|---|---|---:|---:|---:|"
        )
        own = emitted(stage, SMALL)
        for mode in ["simple", "prepared"]:
            for tls in [False, True]:
                for name, port, user in ways:
                    row("`SELECT 1`", mode, tls, name, latencies(port, user, "SELECT 1", mode, tls))
                for name, port, user in ways[:2]:
                    row(
                        "private count",
                        mode,
                        tls,
                        f"{name}, the emitted statement",
                        latencies(port, user, own, mode, tls),
                    )
                row(
                    "private count",
                    mode,
                    tls,
                    "pgveil, fresh",
                    latencies(stage.veiled, "analyst", SMALL, mode, tls),
                )
                row(
                    "private count",
                    mode,
                    tls,
                    "pgveil, answered before",
                    latencies(stage.veiled, "analyst", SMALL, mode, tls, REUSED),
                )
        own = emitted(stage, LARGE)
        print(
            "\n| connections | the emitted statement, direct, a second | "
            "pgveil, fresh, a second | ratio | direct ms | pgveil ms |\n"
            "|---:|---:|---:|---:|---:|---:|"
        )
        for clients in [1, 8, 50]:
            direct, direct_took = throughput(stage, stage.direct, "postgres", own, clients)
            veiled, veiled_took = throughput(stage, stage.veiled, "analyst", LARGE, clients)
            print(
                (
                    f"| {clients} | {direct:.1f} | {veiled:.1f} | {veiled / direct:.2f} | "
                    f"{direct_took:.1f} | {veiled_took:.1f} |"
                ),
                flush=True,
            )


main()
