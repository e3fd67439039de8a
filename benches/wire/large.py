"""Large answers: how long they take and how much memory pgveil needs for them, next to the exact
query.

cargo build --release && python3 benches/wire/large.py [answers of each size, 5]
"""

import re
import statistics
import sys
import time
from pathlib import Path

from stage import Client, Stage

TURNS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
GROUPS = [1_000, 10_000, 100_000]
ROWS = 1_000_000
SETTINGS = "SET pgveil.reuse = off; SET pgveil.epsilon = 0.5; SET pgveil.useless = allow"


class Large(Stage):
    """With a table of a million women in each of as many areas as an answer has groups."""

    def policy(self):
        columns = ", ".join(f"of_{n}: {{bounds: [1, {n}]}}" for n in GROUPS)
        table = f"  nls.people: {{unit: woman_id, columns: {{{columns}}}}}\n"
        policy = super().policy().replace("\ntables:\n", f"\ntables:\n{table}", 1)
        return re.sub(r"\n  groups: \d+", "\n  groups: 100000", policy)

    def postgresql(self):
        super().postgresql()
        columns = ", ".join(f"of_{n} int NOT NULL" for n in GROUPS)
        values = ", ".join(f"1 + g % {n}" for n in GROUPS)
        self.psql(
            f"CREATE TABLE nls.people (woman_id int PRIMARY KEY, {columns});\n"
            f"INSERT INTO nls.people SELECT g, {values} FROM generate_series(1, {ROWS}) g;\n"
            "ANALYZE nls.people;"
        )

    def peak(self):
        """The most resident bytes of pgveil itself since the last reset."""
        text = Path(f"/proc/{self.proxy.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) * 1024

    def reset_peak(self):
        Path(f"/proc/{self.proxy.pid}/clear_refs").write_text("5")


def seconds(client, sql, groups):
    """The median, after a first time."""
    took = []
    for _ in range(TURNS + 1):
        began = time.perf_counter()
        rows = client.ask(sql)
        took.append(time.perf_counter() - began)
        assert len(rows) == groups, len(rows)
    return statistics.median(took[1:])


def main():
    print("| groups | exact, s | bought, s | answered before, s | memory before, MiB | most, MiB |")
    print("|---:|---:|---:|---:|---:|---:|")
    with Large() as stage:
        direct, client = Client(stage.direct, "postgres"), Client(stage.veiled, "analyst")
        for groups in GROUPS:
            sql = f"SELECT of_{groups}, count(*) FROM nls.people GROUP BY 1 ORDER BY 1"
            exact = seconds(direct, sql, groups)
            stage.reset_peak()
            before = stage.memory()
            client.ask(SETTINGS)
            bought = seconds(client, sql, groups)
            client.ask("SET pgveil.reuse = on")
            held = seconds(client, sql, groups)
            mib = [f"{size / (1 << 20):.0f}" for size in (before, stage.peak())]
            print(
                f"| {groups:,} | {exact:.3f} | {bought:.3f} | {held:.3f} | {' | '.join(mib)} |",
                flush=True,
            )
        client.close()
        direct.close()


if __name__ == "__main__":
    main()
