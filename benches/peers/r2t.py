"""R2T's six TPC-H queries with one private relation, at epsilon 0.8 and with bounds of twice the
true maximum, next to the errors that its authors report.

    python3 -m venv venv && venv/bin/pip install psycopg2-binary tpchgen-cli
    cargo build --release
    venv/bin/python benches/peers/r2t.py --pgveil target/release/pgveil --scale 1

The queries are those of Dong, Fang, Yi, Tao, Machanavajjhala 2022 (R2T), section 10: TPC-H without
most conditions and without GROUP BY. Their errors, at scale 1, are the means of ten runs less the
two best and the two worst; so are those printed here. Both follow the heaviest unit and not the
size of the data: absolute errors of unlike scales may be held against each other. Next to them are
the errors with nothing declared: `rows_per_unit: auto` and `bounds: [0, auto]`, found by `pgveil
bounds` at a fifth of the epsilon in all, the query at the rest. Each run there searches on a fresh
ledger; what was found is printed as of the last run. It starts a PostgreSQL of its own and loads
what the queries read.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys

import psycopg2

from peers import postgres
from serve import session, verifier

EPSILON = 0.8
# What of it all searches of a query take together, where nothing is declared.
SEARCHED = 0.2

SCHEMA = """
CREATE TABLE customer (c_custkey int PRIMARY KEY);
CREATE TABLE supplier (s_suppkey int PRIMARY KEY);
CREATE TABLE orders (o_orderkey int PRIMARY KEY, o_custkey int NOT NULL, o_orderdate date NOT NULL);
CREATE TABLE lineitem (
    l_orderkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int NOT NULL,
    l_quantity numeric(12,2) NOT NULL, l_shipdate date NOT NULL);
CREATE TABLE partsupp (
    ps_partkey int NOT NULL, ps_suppkey int NOT NULL, ps_availqty int NOT NULL,
    ps_supplycost numeric(12,2) NOT NULL);
"""

KEYS = """
ALTER TABLE orders ADD FOREIGN KEY (o_custkey) REFERENCES customer;
ALTER TABLE lineitem
    ADD PRIMARY KEY (l_orderkey, l_linenumber),
    ADD FOREIGN KEY (l_orderkey) REFERENCES orders,
    ADD FOREIGN KEY (l_suppkey) REFERENCES supplier;
ALTER TABLE partsupp
    ADD PRIMARY KEY (ps_partkey, ps_suppkey),
    ADD FOREIGN KEY (ps_suppkey) REFERENCES supplier;
ANALYZE;
"""

# What each table's columns are among those that tpchgen-cli writes.
COLUMNS = {
    "customer": [0],
    "supplier": [0],
    "orders": [0, 1, 4],
    "lineitem": [0, 2, 3, 4, 10],
    "partsupp": [0, 1, 2, 3],
}

POLICY = """
version: 1
database: {{url: "{url}"}}
ledger: {{url: "sqlite://{directory}/ledger.db"}}
shadow: {{url: "{shadow}"}}
privacy:
  unit: {unit}
  budget: {{epsilon: 1000000, delta: 1e-6}}
  per_query: {{epsilon: {epsilon}, max_epsilon: {epsilon}}}
  accounting: pure
  data_version: "1"
roles:
  - name: bench
    password: "{password}"
    budget: {{epsilon: 1000000, delta: 1e-6}}
    settings: {{reuse: "off"}}
tables:
{tables}
limits:
  groups_per_unit: 20
  rows_per_unit: 1000000
  groups: 100000
  failures: 10
  statement_timeout: 600s
  connections: 20
"""

# Where nothing is declared: the query (the same, or without the clip that the analyst would write),
# and the tables.
AUTO = {
    "Q3": (
        None,
        "  public.customer: {unit: c_custkey, other_columns: visible}\n"
        "  public.orders: {unit: {path: [o_custkey -> public.customer.c_custkey]}, "
        "other_columns: visible, rows_per_unit: 1000}\n"
        "  public.lineitem: {unit: {path: [l_orderkey -> public.orders.o_orderkey, "
        "o_custkey -> public.customer.c_custkey]}, other_columns: visible, rows_per_unit: auto}\n",
    ),
    "Q10": (
        None,
        (
            "  public.customer: {unit: c_custkey, other_columns: visible}\n"
            "  public.orders: {unit: {path: [o_custkey -> public.customer.c_custkey]}, "
            "other_columns: visible, rows_per_unit: auto}\n"
        ),
    ),
    "Q12": (
        None,
        (
            "  public.orders: {unit: o_orderkey, other_columns: visible}\n"
            "  public.lineitem: {unit: {path: [l_orderkey -> public.orders.o_orderkey]}, "
            "other_columns: visible, rows_per_unit: auto}\n"
        ),
    ),
    "Q18": (
        "SELECT sum(l_quantity) FROM lineitem",
        "  public.customer: {unit: c_custkey, other_columns: visible}\n"
        "  public.orders: {unit: {path: [o_custkey -> public.customer.c_custkey]}, "
        "other_columns: visible, rows_per_unit: 1000}\n"
        "  public.lineitem: {unit: {path: [l_orderkey -> public.orders.o_orderkey, "
        "o_custkey -> public.customer.c_custkey]}, other_columns: visible, rows_per_unit: auto, "
        "columns: {l_quantity: {bounds: [0, auto]}}}\n",
    ),
    "Q20": (
        None,
        (
            "  public.supplier: {unit: s_suppkey, other_columns: visible}\n"
            "  public.lineitem: {unit: {path: [l_suppkey -> public.supplier.s_suppkey]}, "
            "other_columns: visible, rows_per_unit: auto}\n"
        ),
    ),
    "Q11": (
        "SELECT sum(ps_supplycost * ps_availqty) FROM partsupp",
        "  public.supplier: {unit: s_suppkey, other_columns: visible}\n"
        "  public.partsupp: {unit: {path: [ps_suppkey -> public.supplier.s_suppkey]}, "
        "other_columns: visible, rows_per_unit: auto, columns: "
        "{ps_supplycost: {bounds: [0, auto]}, ps_availqty: {bounds: [0, auto]}}}\n",
    ),
}

# Name, unit, the query, each unit's part of it, tables of the policy by the bound, and R2T's mean
# absolute error at scale 1: what it reports of the true answer.
QUERIES = [
    (
        "Q3",
        "customer",
        (
            "SELECT count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey "
            "WHERE o_orderdate < date '1995-03-15'"
        ),
        (
            "SELECT count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey "
            "WHERE o_orderdate < date '1995-03-15' GROUP BY o_custkey"
        ),
        "  public.customer: {{unit: c_custkey, other_columns: visible}}\n"
        "  public.orders: {{unit: {{path: [o_custkey -> public.customer.c_custkey]}}, "
        "other_columns: visible, rows_per_unit: {bound}}}\n"
        "  public.lineitem: {{unit: {{path: [l_orderkey -> public.orders.o_orderkey, "
        "o_custkey -> public.customer.c_custkey]}}, other_columns: visible, "
        "rows_per_unit: {bound}}}\n",
        0.00254 * 2_888_656,
    ),
    (
        "Q10",
        "customer",
        "SELECT count(*) FROM orders",
        "SELECT count(*) FROM orders GROUP BY o_custkey",
        (
            "  public.customer: {{unit: c_custkey, other_columns: visible}}\n"
            "  public.orders: {{unit: {{path: [o_custkey -> public.customer.c_custkey]}}, "
            "other_columns: visible, rows_per_unit: {bound}}}\n"
        ),
        0.00174 * 1_500_000,
    ),
    (
        "Q12",
        "orders",
        "SELECT count(*) FROM lineitem",
        "SELECT count(*) FROM lineitem GROUP BY l_orderkey",
        (
            "  public.orders: {{unit: o_orderkey, other_columns: visible}}\n"
            "  public.lineitem: {{unit: {{path: [l_orderkey -> public.orders.o_orderkey]}}, "
            "other_columns: visible, rows_per_unit: {bound}}}\n"
        ),
        0.000229 * 6_001_215,
    ),
    (
        "Q18",
        "customer",
        (
            "SELECT sum(least(quantity, {bound})) FROM ("
            "SELECT o_custkey, sum(l_quantity) AS quantity FROM orders "
            "JOIN lineitem ON l_orderkey = o_orderkey GROUP BY o_custkey) AS c"
        ),
        (
            "SELECT sum(l_quantity) FROM orders JOIN lineitem ON l_orderkey = o_orderkey "
            "GROUP BY o_custkey"
        ),
        "  public.customer: {{unit: c_custkey, other_columns: visible}}\n"
        "  public.orders: {{unit: {{path: [o_custkey -> public.customer.c_custkey]}}, "
        "other_columns: visible, rows_per_unit: 1000}}\n"
        "  public.lineitem: {{unit: {{path: [l_orderkey -> public.orders.o_orderkey, "
        "o_custkey -> public.customer.c_custkey]}}, other_columns: visible, rows_per_unit: 1000, "
        "columns: {{l_quantity: {{bounds: [0, 50]}}}}}}\n",
        0.00132 * 153_078_795,
    ),
    (
        "Q20",
        "supplier",
        "SELECT count(*) FROM lineitem",
        "SELECT count(*) FROM lineitem GROUP BY l_suppkey",
        (
            "  public.supplier: {{unit: s_suppkey, other_columns: visible}}\n"
            "  public.lineitem: {{unit: {{path: [l_suppkey -> public.supplier.s_suppkey]}}, "
            "other_columns: visible, rows_per_unit: {bound}}}\n"
        ),
        0.00579 * 6_001_215,
    ),
    (
        "Q11",
        "supplier",
        (
            "SELECT sum(least(value, {bound})) FROM ("
            "SELECT ps_suppkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp "
            "GROUP BY ps_suppkey) AS s"
        ),
        "SELECT sum(ps_supplycost * ps_availqty) FROM partsupp GROUP BY ps_suppkey",
        "  public.supplier: {{unit: s_suppkey, other_columns: visible}}\n"
        "  public.partsupp: {{unit: {{path: [ps_suppkey -> public.supplier.s_suppkey]}}, "
        "other_columns: visible, rows_per_unit: 1000, columns: "
        "{{ps_supplycost: {{bounds: [0, 1000]}}, ps_availqty: {{bounds: [0, 9999]}}}}}}\n",
        0.01819 * 2_003_609e6,
    ),
]


def load(connection, directory, scale):
    generate = os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
    subprocess.run(
        [generate, "-s", str(scale), "-q", "-o", directory, "-T", ",".join(COLUMNS)], check=True
    )
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        for table, columns in COLUMNS.items():
            path = os.path.join(directory, f"{table}.tbl")
            cut = subprocess.Popen(
                ["cut", "-d|", f"-f{','.join(str(c + 1) for c in columns)}", path],
                stdout=subprocess.PIPE,
            )
            cursor.copy_expert(f"COPY {table} FROM STDIN (DELIMITER '|')", cut.stdout)
            cut.wait()
            os.remove(path)
        cursor.execute(KEYS)
    connection.commit()


@contextlib.contextmanager
def connected(program, policy, directory, searched=None):
    """A session through a proxy under the policy; `searched` receives what the searches found, each
    of which spends that epsilon.
    """
    path = os.path.join(directory, "policy.yaml")
    with open(path, "w") as file:
        file.write(policy(verifier(program)))
    if searched is not None:
        epsilon, tell = searched
        ran = subprocess.run(
            [program, "bounds", path, "--epsilon", str(epsilon)],
            capture_output=True,
            text=True,
            check=True,
        )
        tell([line.split(" (")[0] for line in ran.stdout.splitlines() if " (new" in line])
    with session(program, path, directory) as cursor:
        yield cursor


def trimmed(errors):
    """The mean without the fifth that is best and the fifth that is worst."""
    cut = len(errors) // 5
    return statistics.mean(sorted(errors)[cut : len(errors) - cut])


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--pgveil", required=True, help="the program")
    arguments.add_argument("--scale", type=float, default=1, help="TPC-H's scale factor")
    arguments.add_argument("--runs", type=int, default=10)
    arguments = arguments.parse_args()
    with postgres() as (directory, url, shadow):
        connection = psycopg2.connect(url)
        load(connection, directory, arguments.scale)
        print(
            f"epsilon {EPSILON}, pure; scale {arguments.scale}; "
            f"{arguments.runs} runs, trimmed means of the absolute errors"
        )
        print(
            f"auto: searches at {EPSILON * SEARCHED:.2f} in all, "
            f"the query at {EPSILON * (1 - SEARCHED):.2f}\n"
        )
        print(
            "| query | true answer | largest part of a unit | bound | pgveil errs by | "
            "R2T errs by (reported) | ratio | pgveil with auto errs by | ratio | found |\n"
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|"
        )
        for name, unit, text, parts, tables, reported in QUERIES:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT sum(v), max(v) FROM ({parts}) AS t (v)")
                exact, most = (float(v) for v in cursor.fetchone())
            connection.rollback()
            bound = int(2 * most)

            def policy(run, epsilon, tables):
                return lambda verifier: POLICY.format(
                    url=url,
                    shadow=shadow,
                    directory=run,
                    unit=unit,
                    epsilon=epsilon,
                    password=verifier,
                    tables=tables,
                )

            def folder(of):
                path = os.path.join(directory, f"{name}-{of}")
                os.mkdir(path)
                return path

            run = folder("declared")
            with connected(
                arguments.pgveil, policy(run, EPSILON, tables.format(bound=bound)), run
            ) as cursor:
                errors = []
                for _ in range(arguments.runs):
                    cursor.execute(text.format(bound=bound))
                    errors.append(abs(float(cursor.fetchone()[0]) - exact))
            error = trimmed(errors)
            automatic, tables = AUTO[name]
            errors, found = [], []
            each = EPSILON * SEARCHED / tables.count("auto")
            for at in range(arguments.runs):
                run = folder(at)
                report = lambda lines: found.__setitem__(slice(None), lines)
                with connected(
                    arguments.pgveil,
                    policy(run, EPSILON * (1 - SEARCHED), tables),
                    run,
                    (each, report),
                ) as cursor:
                    cursor.execute(automatic or text)
                    errors.append(abs(float(cursor.fetchone()[0]) - exact))
            auto = trimmed(errors)
            found = "; ".join(line.replace("public.", "") for line in found)
            print(
                (
                    f"| {name} | {exact:,.0f} | {most:,.0f} | {bound:,} | {error:,.1f} | "
                    f"{reported:,.0f} | {reported / error:.1f} | {auto:,.1f} | "
                    f"{reported / auto:.1f} | {found} |"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
