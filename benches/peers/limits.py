"""What a look is worth where the policy's limits are tight: errors with clips chosen from a look
(`auto`) as multiples of those with clips by the limits (`fixed`), on the demo's data.

    python3 -m venv venv && venv/bin/pip install psycopg2-binary
    venv/bin/python benches/peers/limits.py --pgveil target/release/pgveil --rows 15 30

Ten aggregates of interviews are asked by six keys, at the demo's price. A woman has at most 15
interviews: `--rows` is what the policy declares. It starts a PostgreSQL of its own and loads the
demo's data.
"""

import argparse
import contextlib
import math
import os
import statistics
import tempfile

import psycopg2

from peers import postgres
from serve import session

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
DATA = os.path.join(ROOT, "data", "nls_young_women")

AGGREGATES = {
    "counts": ["count(*)", "count(*) FILTER (WHERE never_married = 1)"],
    "sums": ["sum(hourly_wage)", "sum(tenure_years)", "sum(weeks_unemployed)"],
    "averages": ["avg(hourly_wage)", "avg(married)", "avg(hourly_wage), avg(hours_per_week)"],
    "a count with an average": ["count(*), avg(hourly_wage)"],
    "quotients": [
        "count(*) FILTER (WHERE union_member = 1) / nullif(count(union_member), 0)::float8"
    ],
}
KEYS = ["", "year", "race", "year / 10 * 10", "industry_code", "south"]


def load(connection):
    with open(os.path.join(DATA, "schema.sql")) as schema:
        statements = "".join(line for line in schema if not line.startswith("\\"))
    with connection.cursor() as cursor:
        cursor.execute(statements)
        for table in ["industries", "occupations", "women", "interviews"]:
            with open(os.path.join(DATA, f"{table}.csv")) as rows:
                cursor.copy_expert(f"COPY nls.{table} FROM STDIN (FORMAT csv, HEADER)", rows)
    connection.commit()


@contextlib.contextmanager
def asked(program, url, shadow, rows):
    """A session through a proxy of the demo's policy, with this many rows declared and a budget
    that does not end.
    """
    with open(os.path.join(ROOT, "policies", "demo.yaml")) as file:
        policy = file.read()
    changes = [
        ("rows_per_unit: 15 ", f"rows_per_unit: {rows} "),
        ("epsilon: 8, delta: 1e-6", "epsilon: 100000, delta: 1e-6"),
        ("epsilon: 3, delta: 1e-7", "epsilon: 100000, delta: 1e-7"),
    ]
    for old, new in changes:
        assert old in policy, old
        policy = policy.replace(old, new)
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "policy.yaml")
        with open(path, "w") as file:
            file.write(policy + f'\nshadow: {{url: "{shadow}"}}\n')
        environment = dict(
            os.environ, DATABASE_URL=url, PGVEIL_LEDGER=f"sqlite://{directory}/ledger.db"
        )
        login = ("analyst", "analyst")
        with session(program, path, directory, login, environment) as cursor:
            cursor.execute(
                "SET pgveil.reuse = off; SET pgveil.notices = off; SET pgveil.useless = allow"
            )
            yield cursor


def values(cursor, question, keys):
    """The first aggregate of each group, as a number."""
    cursor.execute(question)
    return {
        row[:keys]: None if row[keys] is None else float(row[keys]) for row in cursor.fetchall()
    }


def error(cursor, clip, draws, question, exact, keys):
    """Of the groups that have a value, over all draws."""
    cursor.execute(f"SET pgveil.clip = {clip}")
    squares = []
    for _ in range(draws):
        for key, value in values(cursor, question, keys).items():
            if value is not None and exact.get(key) is not None:
                squares.append((value - exact[key]) ** 2)
    return math.sqrt(statistics.mean(squares))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--rows", type=int, nargs="+", default=[15])
    parser.add_argument("--draws", type=int, default=8)
    arguments = parser.parse_args()
    with postgres() as (_, url, shadow):
        direct = psycopg2.connect(url)
        load(direct)
        direct.autocommit = True
        print(
            "| rows declared | aggregates | geometric mean | least | most |\n"
            "|---:|---|---:|---:|---:|"
        )
        for rows in arguments.rows:
            with asked(arguments.pgveil, url, shadow, rows) as cursor:
                for kind, aggregates in AGGREGATES.items():
                    ratios = []
                    for aggregate in aggregates:
                        for key in KEYS:
                            source = "nls.interviews" + (
                                " JOIN nls.women USING (woman_id)" if key == "race" else ""
                            )
                            question = (
                                (
                                    f"SELECT {key}, {aggregate} FROM {source} "
                                    f"WHERE {key} IS NOT NULL GROUP BY 1"
                                )
                                if key
                                else f"SELECT {aggregate} FROM {source}"
                            )
                            keys = int(bool(key))
                            exact = values(direct.cursor(), question, keys)
                            auto, fixed = (
                                error(cursor, clip, arguments.draws, question, exact, keys)
                                for clip in ("auto", "fixed")
                            )
                            ratios.append(auto / fixed)
                    mean = math.exp(statistics.mean(map(math.log, ratios)))
                    print(
                        f"| {rows} | {kind} | {mean:.2f} | {min(ratios):.2f} | {max(ratios):.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
