"""What pgveil adds to a statement, beside pgbouncer: p50 and p99 of `SELECT 1` and of a private aggregate, simple and prepared, with and without TLS; and
the throughput of an aggregate of more than 10 ms at 1, 8 and 50 connections.

    cargo build --release && python3 benches/wire/latency.py [seconds of each measurement, 5]
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from stage import BINARIES, Client, Stage

SECONDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
# A fresh answer each time, so that the backend works and the ledger writes.
FRESH = "SET pgveil.reuse = off; SET pgveil.epsilon = 0.05; SET pgveil.notices = off"
SMALL = "SELECT count(*) FROM nls.women WHERE birth_year > 1947"
LARGE = "SELECT industry_code, count(*), avg(hourly_wage) FROM nls.interviews GROUP BY industry_code"


def pgbench(stage, port, user, sql, mode="simple", tls=False, clients=1):
    """Latencies in milliseconds, sorted, and transactions per second."""
    script = stage.home / "script.sql"
    script.write_text(sql.rstrip(";") + ";\n")
    for old in stage.home.glob("log.*"):
        old.unlink()
    environment = os.environ | {"PGSSLMODE": "require" if tls else "disable", "PGPASSWORD": "analyst"}
    if port == stage.veiled and sql != "SELECT 1" and not sql.startswith("--reused"):
        settings = [part.split("SET ")[1].replace(" = ", "=") for part in FRESH.split("; ")]
        environment["PGOPTIONS"] = " ".join(f"-c {setting}" for setting in settings)
    command = [BINARIES / "pgbench", "-n", "-M", mode, "-c", clients, "-j", min(clients, 2), "-T", SECONDS, "-l", f"--log-prefix={stage.home}/log", "-f", script]
    command += ["-h", "127.0.0.1", "-p", port, "-U", user, "nls"]
    ran = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, cwd=stage.home)
    if ran.returncode != 0:
        raise SystemExit(ran.stderr + (stage.home / "pgveil.log").read_text()[-2000:])
    took = sorted(int(line.split()[2]) / 1000 for log in stage.home.glob("log.*") for line in log.read_text().splitlines())
    tps = float(next(line for line in ran.stdout.splitlines() if line.startswith("tps")).split()[2])
    return took, tps


def quantile(took, q):
    return took[min(len(took) - 1, int(len(took) * q))]


def emitted(stage, sql):
    """The statement that pgveil runs on the database for this one."""
    client = Client(stage.veiled, "analyst")
    client.ask(FRESH)
    plan = json.loads(client.ask(f"EXPLAIN (FORMAT JSON) {sql}")[0][0])
    client.close()
    return plan[0]["releases"][0]["sql"][0]


def machine():
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} × {model}; load {load:.1f} at the start"


def main():
    print(machine())
    with Stage() as stage:
        ways = [("direct", stage.direct, "postgres"), ("pgbouncer", stage.bounced, "postgres"), ("pgveil", stage.veiled, "analyst")]
        print("\n| statement | protocol | TLS | through | p50 ms | p99 ms |\n|---|---|---|---|---:|---:|")
        for mode in ["simple", "prepared"]:
            for tls in [False, True]:
                for name, port, user in ways:
                    took, _ = pgbench(stage, port, user, "SELECT 1", mode, tls)
                    print(f"| `SELECT 1` | {mode} | {'on' if tls else 'off'} | {name} | {quantile(took, 0.5):.3f} | {quantile(took, 0.99):.3f} |", flush=True)
        own = emitted(stage, SMALL)
        for mode in ["simple", "prepared"]:
            for tls in [False, True]:
                rows = [("the emitted statement, direct", stage.direct, "postgres", own), ("the emitted statement, pgbouncer", stage.bounced, "postgres", own)]
                rows += [("pgveil, fresh", stage.veiled, "analyst", SMALL), ("pgveil, answered before", stage.veiled, "analyst", f"--reused\n{SMALL}")]
                for name, port, user, sql in rows:
                    took, _ = pgbench(stage, port, user, sql, mode, tls)
                    print(f"| private count | {mode} | {'on' if tls else 'off'} | {name} | {quantile(took, 0.5):.3f} | {quantile(took, 0.99):.3f} |", flush=True)
        own = emitted(stage, LARGE)
        print("\n| connections | the emitted statement, direct, per second | pgveil, fresh, per second | ratio | p50 direct ms | p50 pgveil ms |\n|---:|---:|---:|---:|---:|---:|")
        for clients in [1, 8, 50]:
            direct, direct_tps = pgbench(stage, stage.direct, "postgres", own, clients=clients)
            veiled, veiled_tps = pgbench(stage, stage.veiled, "analyst", LARGE, clients=clients)
            halves = quantile(direct, 0.5), quantile(veiled, 0.5)
            print(f"| {clients} | {direct_tps:.1f} | {veiled_tps:.1f} | {veiled_tps / direct_tps:.2f} | {halves[0]:.1f} | {halves[1]:.1f} |", flush=True)


main()
