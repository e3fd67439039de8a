"""Relative errors of pgveil next to SmartNoise SQL and Qrlew: the same questions, the same data,
the same total epsilon and delta, in one run.

    python3 -m venv venv
    venv/bin/pip install smartnoise-sql==1.0.10 pyqrlew==0.9.27 psycopg2-binary
    cargo build --release
    venv/bin/python benches/peers/peers.py --pgveil target/release/pgveil --pums PUMS_pid.csv

It starts a PostgreSQL of its own (binaries on PATH or under /usr/lib/postgresql), loads the census
sample and a generated table of 20,000 people with ten rows each, and prints one table: the median
relative error over runs and all groups (one that is missing counts as 100 %), and how many groups
came back. A peer that is not installed has an empty column.
"""

import argparse
import contextlib
import csv
import getpass
import glob
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

import psycopg2

from serve import free_port, session, verifier

EPSILON, DELTA = 1.0, 1e-6

SCHEMA = """
CREATE SCHEMA pums;
CREATE TABLE pums.pums (
    age int NOT NULL, sex text NOT NULL, educ text NOT NULL, race text NOT NULL,
    income float8 NOT NULL, married text NOT NULL, pid int PRIMARY KEY);
CREATE SCHEMA shop;
CREATE TABLE shop.orders (
    order_id int PRIMARY KEY, pid int NOT NULL, status text NOT NULL, amount float8 NOT NULL,
    day int NOT NULL);
"""

POLICY = """
version: 1
database: {{url: "{url}"}}
ledger: {{url: "sqlite://{directory}/ledger.db"}}
shadow: {{url: "{shadow}"}}
privacy:
  unit: person
  budget: {{epsilon: {epsilon}, delta: {delta}}}
  per_query: {{epsilon: {epsilon}, max_epsilon: 100}}
  accounting: gdp
  data_version: "1"
roles:
  - name: bench
    password: "{password}"
    budget: {{epsilon: {epsilon}, delta: {delta}}}
tables:
  pums.pums:
    unit: pid
    columns:
      age: {{bounds: [0, 100]}}
      sex: {{values: ["0", "1"]}}
      educ:
        values:
          ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"]
      race: {{values: ["1", "2", "3", "4", "5", "6"]}}
      income: {{bounds: [0, 500000]}}
      married: {{values: ["0", "1"]}}
  shop.orders:
    unit: pid
    rows_per_unit: 10
    columns:
      status: {{values: [new, paid, shipped, returned]}}
      amount: {{bounds: [0, 500]}}
      day: {{bounds: [1, 30]}}
limits:
  groups_per_unit: 20
  rows_per_unit: 10
  groups: 100000
  failures: 10
  statement_timeout: 60s
  connections: 20
"""

# (name, table, key or None, aggregates). Each is asked alone, for the whole of EPSILON and DELTA.
QUESTIONS = [
    ("count", "pums.pums", None, ["COUNT(*)"]),
    ("sum", "pums.pums", None, ["SUM(income)"]),
    ("average", "pums.pums", None, ["AVG(income)"]),
    ("count by married", "pums.pums", "married", ["COUNT(*)"]),
    ("average by married", "pums.pums", "married", ["AVG(income)"]),
    ("count by educ", "pums.pums", "educ", ["COUNT(*)"]),
    ("average by educ", "pums.pums", "educ", ["AVG(income)"]),
    (
        "count, sum, average",
        "pums.pums",
        None,
        ["COUNT(*)", "SUM(income)", "AVG(income)", "AVG(age)"],
    ),
    (
        "count, sum, average by married",
        "pums.pums",
        "married",
        ["COUNT(*)", "SUM(income)", "AVG(income)", "AVG(age)"],
    ),
    ("count", "shop.orders", None, ["COUNT(*)"]),
    ("sum", "shop.orders", None, ["SUM(amount)"]),
    ("average", "shop.orders", None, ["AVG(amount)"]),
    ("count by status", "shop.orders", "status", ["COUNT(*)"]),
    ("average by status", "shop.orders", "status", ["AVG(amount)"]),
    (
        "count, sum, average by status",
        "shop.orders",
        "status",
        ["COUNT(*)", "SUM(amount)", "AVG(amount)"],
    ),
    ("average by day", "shop.orders", "day", ["AVG(amount)"]),
]


def sql(question):
    _, table, key, aggregates = question
    columns = [f"{a} AS a{i}" for i, a in enumerate(aggregates)]
    if key:
        return f"SELECT {key} AS k, {', '.join(columns)} FROM {table} GROUP BY {key}"
    return f"SELECT {', '.join(columns)} FROM {table}"


def grouped(rows, question):
    """Rows as {key: values}."""
    if question[2]:
        return {str(row[0]): list(row[1:]) for row in rows}
    return {"": list(row) for row in rows}


def program(name):
    found = shutil.which(name)
    return found or sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))[-1]


@contextlib.contextmanager
def cluster(fsync="off"):
    """A directory, the user and the port of a cluster of its own, gone at the end. PostgreSQL does
    not run as root: there it is run as the user postgres. Without `fsync` nothing waits for a disk.
    """
    directory = tempfile.mkdtemp(prefix="peers-")
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(directory, "postgres")
    user = "postgres" if as_user else getpass.getuser()
    port, data = free_port(), os.path.join(directory, "data")
    quiet = {"stdout": subprocess.DEVNULL, "check": True, "cwd": directory}
    subprocess.run(
        [*as_user, program("initdb"), "-D", data, "-A", "trust", "-E", "UTF8", "-U", user], **quiet
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {directory} -c fsync={fsync}"
    subprocess.run(
        [
            *as_user,
            program("pg_ctl"),
            "-D",
            data,
            "-w",
            "-o",
            options,
            "-l",
            os.path.join(directory, "log"),
            "start",
        ],
        **quiet,
    )
    try:
        yield directory, f"postgresql://{user}@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run(
            [*as_user, program("pg_ctl"), "-D", data, "-m", "immediate", "stop"],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def postgres():
    """A directory, the URL of a server for the data, and that of one for the shadows of all
    proxies: quicker than one of its own for each proxy.
    """
    with cluster() as (directory, url), cluster() as (_, shadow):
        yield directory, url, shadow


def load(connection, pums):
    with connection.cursor() as cursor:
        cursor.execute(SCHEMA)
        with open(pums, newline="") as file:
            for row in csv.DictReader(file):
                columns = ["age", "sex", "educ", "race", "income", "married", "pid"]
                cursor.execute(
                    f"INSERT INTO pums.pums VALUES ({', '.join(['%s'] * 7)})",
                    [row[c] for c in columns],
                )
        dice = random.Random(1)
        rows = []
        for order in range(200_000):
            status = dice.choices(["paid", "shipped", "new", "returned"], [50, 30, 15, 5])[0]
            amount = min(500.0, dice.lognormvariate(3.6, 0.9))
            rows.append(
                f"({order}, {order // 10}, '{status}', {amount:.2f}, {dice.randint(1, 30)})"
            )
        for start in range(0, len(rows), 5000):
            cursor.execute("INSERT INTO shop.orders VALUES " + ",".join(rows[start : start + 5000]))
    connection.commit()


class Pgveil:
    """Each run is a proxy of its own, whose owner has EPSILON and DELTA in all and spends them on
    one question: EXPLAIN, which is free, tells the most to ask for.
    """

    # Of (1, 1e-6), less the share of delta that is kept for thresholds: Dong, Roth, Su 2019,
    # Corollary 2.13.
    MU_SQUARED = 0.05595

    def __init__(self, program, directory, url, shadow):
        self.verifier = verifier(program)
        self.program, self.directory, self.url, self.shadow, self.runs, self.asked_for = (
            program,
            directory,
            url,
            shadow,
            0,
            {},
        )

    @contextlib.contextmanager
    def connected(self):
        self.runs += 1
        directory = os.path.join(self.directory, f"run{self.runs}")
        os.mkdir(directory)
        policy = os.path.join(directory, "policy.yaml")
        with open(policy, "w") as file:
            file.write(
                POLICY.format(
                    url=self.url,
                    shadow=self.shadow,
                    directory=directory,
                    epsilon=EPSILON,
                    delta=DELTA,
                    password=self.verifier,
                )
            )
        with session(self.program, policy, directory) as cursor:
            yield cursor

    def most(self, cursor, text):
        """The largest pgveil.epsilon whose charge fits the budget: by pure epsilon, or by mu."""

        def fits(epsilon):
            cursor.execute(f"SET pgveil.epsilon = {epsilon}")
            cursor.execute(f"EXPLAIN (FORMAT JSON) {text}")
            plan = cursor.fetchall()[0][0]
            cost = (json.loads(plan) if isinstance(plan, str) else plan)[0]["cost"]
            return (cost["epsilon"] is not None and cost["epsilon"] <= EPSILON) or cost[
                "mu_squared"
            ] <= self.MU_SQUARED

        low, high = EPSILON / 2, 20.0
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def ask(self, question):
        with self.connected() as cursor:
            text = sql(question)
            if text not in self.asked_for:
                self.asked_for[text] = self.most(cursor, text)
            cursor.execute(f"SET pgveil.epsilon = {self.asked_for[text]}")
            cursor.execute(text)
            return grouped(cursor.fetchall(), question)


class SmartNoise:
    """Its epsilon is one of each column: it is lowered until what it reports as the whole query's
    cost is EPSILON.
    """

    def __init__(self, url):
        from snsql import Privacy, from_connection

        self.reader = lambda epsilon: from_connection(
            psycopg2.connect(url),
            engine="postgres",
            privacy=Privacy(epsilon=epsilon, delta=DELTA),
            metadata=self.metadata(),
        )
        self.readers = {}

    @staticmethod
    def metadata():
        number = lambda lower, upper, kind="float": {"type": kind, "lower": lower, "upper": upper}
        text = {"type": "string"}
        pums = {
            "max_ids": 1,
            "row_privacy": False,
            "rows": 1000,
            "age": number(0, 100, "int"),
            "sex": text,
            "educ": text,
            "race": text,
        }
        pums |= {
            "income": number(0, 500000),
            "married": text,
            "pid": {"type": "int", "private_id": True},
        }
        orders = {
            "max_ids": 10,
            "row_privacy": False,
            "rows": 200000,
            "pid": {"type": "int", "private_id": True},
            "status": text,
        }
        orders |= {"amount": number(0, 500), "day": number(1, 30, "int")}
        return {"": {"pums": {"pums": pums}, "shop": {"orders": orders}}}

    def ask(self, question):
        text = sql(question)
        if text not in self.readers:
            cost, _ = self.reader(1.0).get_privacy_cost(text)
            self.readers[text] = self.reader(EPSILON / cost)
        return grouped(self.readers[text].execute(text)[1:], question)


class Qrlew:
    """With bounds, values and multiplicities declared as well as for the others."""

    def __init__(self, url):
        import pyqrlew
        from sqlalchemy import create_engine

        self.qrlew, self.connection = pyqrlew, psycopg2.connect(url)
        self.connection.autocommit = True
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg2://"))
        pums = pyqrlew.Dataset.from_database("pums", engine, "pums").with_range(
            "pums", "pums", "age", 0.0, 100.0
        )
        pums = pums.with_range("pums", "pums", "income", 0.0, 500000.0)
        pums = pums.with_possible_values("pums", "pums", "married", ["0", "1"])
        pums = pums.with_possible_values("pums", "pums", "educ", [str(i) for i in range(1, 17)])
        shop = pyqrlew.Dataset.from_database("shop", engine, "shop").with_range(
            "shop", "orders", "amount", 0.0, 500.0
        )
        shop = shop.with_range("shop", "orders", "day", 1.0, 30.0)
        shop = shop.with_possible_values(
            "shop", "orders", "status", ["new", "paid", "shipped", "returned"]
        )
        self.known = {
            "pums.pums": (pums, [("pums", [], "pid")], 1.0),
            "shop.orders": (shop, [("orders", [], "pid")], 10.0),
        }
        self.rewritten = {}

    def ask(self, question):
        text = sql(question)
        if text not in self.rewritten:
            dataset, unit, multiplicity = self.known[question[1]]
            budget = {"epsilon": EPSILON, "delta": DELTA}
            answer = dataset.relation(text).rewrite_with_differential_privacy(
                dataset, unit, budget, multiplicity, 1.0
            )
            self.rewritten[text] = answer.relation().to_query(self.qrlew.Dialect.PostgreSql)
        with self.connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '60s'")
            cursor.execute(self.rewritten[text])
            return grouped(cursor.fetchall(), question)


def errors(answers, exact):
    """The median relative error over all groups and aggregates, and the share of groups shown. A
    group or value that is missing is all wrong: 100 %.
    """
    found, shown = [], 0
    for answer in answers:
        for key, values in exact.items():
            shown += key in answer
            for mine, true in zip(answer.get(key, [None] * len(values)), values):
                if true:
                    found.append(
                        1.0 if mine is None else abs(float(mine) - float(true)) / abs(float(true))
                    )
    return statistics.median(found) if found else None, (
        shown / (len(answers) * len(exact)) if answers else 0
    )


def cell(peer, question, exact, runs):
    if peer is None:
        return "-"
    answers = []
    try:
        for _ in range(runs):
            answers.append(peer.ask(question))
    except BaseException as refusal:  # Qrlew's refusals are panics of its native part.
        if isinstance(refusal, KeyboardInterrupt):
            raise
        return f"refused ({type(refusal).__name__})"
    error, shown = errors(answers, exact)
    if error is None:
        return "no value"
    return f"{100 * error:.3g} %" + ("" if shown > 0.999 else f", {100 * shown:.0f} % of groups")


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--pgveil", required=True, help="the program")
    arguments.add_argument(
        "--pums", required=True, help="PUMS_pid.csv of the SmartNoise project's data sets"
    )
    arguments.add_argument("--runs", type=int, default=21)
    arguments = arguments.parse_args()
    with postgres() as (directory, url, shadow):
        connection = psycopg2.connect(url)
        load(connection, arguments.pums)
        peers = {"pgveil": Pgveil(arguments.pgveil, directory, url, shadow)}
        for name, make in [("SmartNoise", SmartNoise), ("Qrlew", Qrlew)]:
            try:
                peers[name] = make(url)
            except Exception as error:
                print(f"{name} left out: {error!r}", file=sys.stderr)
                peers[name] = None
        print(
            f"epsilon {EPSILON}, delta {DELTA}, {arguments.runs} runs a question; "
            "median relative error over all groups and aggregates, a missing one 100 %\n"
        )
        print(f"| table | question | {' | '.join(peers)} |\n|---|---|{'---:|' * len(peers)}")
        for question in QUESTIONS:
            with connection.cursor() as cursor:
                cursor.execute(sql(question))
                exact = grouped(cursor.fetchall(), question)
            cells = [cell(peer, question, exact, arguments.runs) for peer in peers.values()]
            print(f"| {question[1]} | {question[0]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
