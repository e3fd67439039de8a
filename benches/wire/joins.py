"""How much longer does an answer take because of one woman who has far more rows than are declared?
Questions that are expensive for her rows alone: in a scan, and in what multiplies rows; asked of a
database with her rows and of one without them, in turns, with and without a quantum of time.

    cargo build --release && python3 benches/wire/joins.py [answers of each, 20]

Of each question there are as many tables, terms or rows as are let through (54001 beyond): an
EXPLAIN tells, and is free.
"""

import contextlib
import os
import random
import statistics
import sys
import time
from pathlib import Path

from stage import Client, Stage, free_port

ANSWERS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
NEEDLE, ROWS = 1, 300
QUANTA = [None, "100ms"]
TABLE = f"""
CREATE TABLE nls.visits (
    woman_id int NOT NULL REFERENCES nls.women, n int NOT NULL, t text NOT NULL);
INSERT INTO nls.visits SELECT woman_id, g, 'x' || g FROM nls.women, generate_series(1, 5) g
    WHERE woman_id <> {NEEDLE};
INSERT INTO nls.visits SELECT {NEEDLE}, g, repeat('visit ', 600) || g
    FROM generate_series(1, {ROWS}) g;
CREATE INDEX ON nls.visits (woman_id);
"""
RULE = """
  nls.visits:
    unit: {path: [woman_id -> nls.women.woman_id]}
    rows_per_unit: 15
    columns: {n: {bounds: [0, 1000]}, t: visible}
"""


def joined(count):
    """Her rows next to each other, `count` of them in a row."""
    return "nls.visits v0" + "".join(
        f" JOIN nls.visits v{i} ON v{i}.woman_id = v0.woman_id" for i in range(1, count)
    )


def expensive(count, text):
    """So many texts of 4,000 characters and their digests."""
    terms = " OR ".join(
        f"md5(lpad({text}, 4000, '{chr(97 + at % 26)}{at}')) = 'x'" for at in range(count)
    )
    return f"({terms})" if count else "false"


HERS = f"v0.woman_id = {NEEDLE}"
# Each as a function of how much there is of it.
QUESTIONS = {
    "a scan of her rows": lambda count: (
        f"SELECT count(*) FROM nls.visits v0 WHERE {HERS} AND v0.n > 1" if count == 1 else None
    ),
    "joins": lambda count: f"SELECT count(*) FROM {joined(count)} WHERE {HERS}",
    "one join, with expressions": lambda count: (
        f"SELECT count(*) FROM {joined(2)} WHERE {HERS} AND {expensive(count, 'v0.t || v1.n')}"
    ),
    "EXISTS, with expressions": lambda count: "SELECT count(*) FROM nls.visits v0 WHERE "
    f"{HERS} AND EXISTS (SELECT 1 FROM nls.visits v1 WHERE v1.woman_id = v0.woman_id "
    f"AND {expensive(count, 'v0.t || v1.n')})",
    "sorts of joined rows": lambda count: "SELECT sum(least(r, 9)) FROM (SELECT "
    + " + ".join(
        f"row_number() OVER (PARTITION BY v0.woman_id ORDER BY v1.t || {at}, v0.n)"
        for at in range(count)
    )
    + f" AS r FROM {joined(2)} WHERE {HERS}) q",
    "hashes of joined rows": lambda count: "SELECT sum(least(n, 9)) FROM ("
    "SELECT woman_id, count(*) AS n FROM (SELECT DISTINCT v0.woman_id, v0.t, v1.n"
    + "".join(f", v{at}.t AS t{at}" for at in range(1, count))
    + f" FROM {joined(max(count, 2))} WHERE {HERS}) d GROUP BY woman_id) q",
    "windows whose frames move": lambda count: "SELECT sum(least(greatest(r, 0), 9)) FROM (SELECT "
    + " + ".join(
        (
            f"max(v0.n + {at}) OVER (PARTITION BY v0.woman_id "
            "ORDER BY v0.n ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)"
        )
        for at in range(count)
    )
    + f" AS r FROM nls.visits v0 WHERE {HERS}) q",
    "a scan, with expressions": lambda count: (
        f"SELECT count(*) FROM nls.visits v0 WHERE {HERS} AND {expensive(count, 'v0.t')}"
    ),
}


class Pair(Stage):
    """A proxy for each quantum before each of the two databases."""

    def pgveil(self):
        self.psql(TABLE)
        self.psql("CREATE DATABASE without TEMPLATE nls")
        self.psql(f"\\c without\nDELETE FROM nls.visits WHERE woman_id = {NEEDLE}; VACUUM ANALYZE")
        self.psql("VACUUM ANALYZE")
        self.ports = {}
        for quantum in QUANTA:
            for database in ("nls", "without"):
                policy = self.policy().replace(
                    "\n  nls.industries: public", RULE + "\n  nls.industries: public", 1
                )
                policy += f"\ntiming: {{quantum: {quantum}}}\n" if quantum else ""
                self.ports[quantum, database] = port = free_port()
                self.veil(f"pgveil-{quantum}-{database}", policy, port, database)

    def pgbouncer(self):
        pass

    def processor(self):
        """Milliseconds that the database has worked, in processes that run or have ended."""
        server = self.processes[0].pid
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(stat.parent.name) == server:
                    ticks += sum(map(int, fields[11:15]))
                elif int(fields[1]) == server:
                    ticks += sum(map(int, fields[11:13]))
        return ticks * 1000 / os.sysconf("SC_CLK_TCK")


def refusal(client, sql):
    try:
        client.ask("EXPLAIN " + sql)
        return None
    except RuntimeError as refused:
        return refused.args[0]


def largest(client, question):
    """The most of it that is answered, by halving."""

    def fits(count):
        sql = question(count)
        return sql is not None and refusal(client, sql) is None

    if not fits(1):
        raise SystemExit(refusal(client, question(1)))
    low, high = 1, 2
    while high < 4096 and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def sample(stage, quantum, sql):
    """Milliseconds of answers with and without her rows, and of the processor for her rows."""
    clients = {
        database: Client(stage.ports[quantum, database], "analyst", database=database)
        for database in ("nls", "without")
    }
    for client in clients.values():
        client.ask("SET pgveil.reuse = off; SET pgveil.epsilon = 0.01; SET pgveil.notices = off")
        client.ask(sql)
    times, worked = {database: [] for database in clients}, dict.fromkeys(clients, 0.0)
    rng = random.Random(11)
    for _ in range(ANSWERS):
        for database in rng.sample(sorted(clients), 2):
            busy, began = stage.processor(), time.perf_counter()
            clients[database].ask(sql)
            times[database].append((time.perf_counter() - began) * 1e3)
            worked[database] += stage.processor() - busy
    for client in clients.values():
        client.close()
    return times["nls"], times["without"], (worked["nls"] - worked["without"]) / ANSWERS


def main():
    with Pair() as stage:
        print(
            "| expensive for her rows | how many | quantum | median with them, ms | without | "
            "processor time that they take |\n|---|---:|---|---:|---:|---:|"
        )
        client = Client(stage.ports[None, "nls"], "analyst", database="nls")
        for name, question in QUESTIONS.items():
            count = largest(client, question)
            for quantum in QUANTA:
                a, b, more = sample(stage, quantum, question(count))
                medians = f"{statistics.median(a):.0f} | {statistics.median(b):.0f} | {more:.0f}"
                print(f"| {name} | {count} | {quantum or 'none'} | {medians} |", flush=True)
        client.close()


main()
