"""Answers of SmartNoise SQL and Qrlew to the questions of `cargo bench --bench worth`, which starts
this with `--peers PYTHON`.

    python3 -m venv venv
    venv/bin/pip install smartnoise-sql==1.0.10 pyqrlew==0.9.27 psycopg2-binary
    cargo bench --bench worth -- --peers venv/bin/python

It reads one JSON object: the database's URL, delta, draws, what the policy declares, and the
questions with their exact values. It prints a JSON object a line: the peer, the question, epsilon
and the root mean square error over the groups and draws that have a value, or why there is none. A
peer that is not installed says so on stderr.
"""

import json
import math
import sys
import warnings

PRIVATE = ["lines", "baskets", "households"]


class SmartNoise:
    """Its epsilon is one of each column: it is lowered until what it reports as the whole query's
    cost is what may be spent.
    """

    def __init__(self, task):
        import psycopg2
        from snsql import Privacy, from_connection

        connection = psycopg2.connect(task["url"])
        number = lambda bounds, kind="float": {"type": kind, "lower": bounds[0], "upper": bounds[1]}
        tables = {}
        for table in PRIVATE:
            columns = {
                name: number(bounds, "int" if name in task["whole"] else "float")
                for name, bounds in task["bounds"].items()
                if name in task["columns"][table]
            }
            columns |= {
                name: {"type": "string"} for name in task["columns"][table] if name in task["lists"]
            }
            columns |= {
                name: {"type": "int"} for name in task["columns"][table] if name not in columns
            }
            columns["household_id"] = {"type": "int", "private_id": True}
            tables[table] = {
                "max_ids": task["rows_per_unit"][table],
                "row_privacy": False,
                "rows": task["rows"][table],
            } | columns
        # Where keys are listed, or there are none, no group needs a threshold.
        metadata = lambda is_listed: {
            "": {
                "shop": {
                    name: {"censor_dims": not is_listed} | table for name, table in tables.items()
                }
            }
        }
        privacy = lambda epsilon: Privacy(epsilon=epsilon, delta=task["delta"])
        self.reader = lambda epsilon, is_listed: from_connection(
            connection, engine="postgres", privacy=privacy(epsilon), metadata=metadata(is_listed)
        )
        self.readers = {}

    def ask(self, question):
        text, epsilon = question["sql"], question["epsilon"]
        if (text, epsilon) not in self.readers:
            cost, _ = self.reader(1.0, question["is_listed"]).get_privacy_cost(text)
            self.readers[text, epsilon] = self.reader(epsilon / cost, question["is_listed"])
        return self.readers[text, epsilon].execute(text)[1:]


class Qrlew:
    """With bounds, values and multiplicities declared as well as in the policy."""

    def __init__(self, task):
        import psycopg2
        import pyqrlew
        from sqlalchemy import create_engine

        self.qrlew, self.connection, self.task = pyqrlew, psycopg2.connect(task["url"]), task
        self.connection.autocommit = True
        engine = create_engine(task["url"].replace("postgresql://", "postgresql+psycopg2://"))
        dataset = pyqrlew.Dataset.from_database("shop", engine, "shop")
        for table in PRIVATE:
            for name, (low, high) in task["bounds"].items():
                if name in task["columns"][table]:
                    dataset = dataset.with_range("shop", table, name, float(low), float(high))
            for name, values in task["lists"].items():
                if name in task["columns"][table]:
                    dataset = dataset.with_possible_values("shop", table, name, values)
        self.dataset, self.rewritten = dataset, {}

    def ask(self, question):
        text, epsilon = question["sql"], question["epsilon"]
        if (text, epsilon) not in self.rewritten:
            unit = [(table, [], "household_id") for table in PRIVATE]
            budget = {"epsilon": epsilon, "delta": self.task["delta"]}
            rows = float(max(self.task["rows_per_unit"].values()))
            answer = self.dataset.relation(text).rewrite_with_differential_privacy(
                self.dataset, unit, budget, rows, 1.0
            )
            self.rewritten[text, epsilon] = answer.relation().to_query(
                self.qrlew.Dialect.PostgreSql
            )
        with self.connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '20s'")
            cursor.execute(self.rewritten[text, epsilon])
            return cursor.fetchall()


def text(key):
    """As PostgreSQL prints it; Qrlew may have made a whole number a real one."""
    if key is None:
        return "NULL"
    if isinstance(key, str) or float(key) != int(key):
        return str(key)
    return str(int(key))


def rms(question, answers):
    squares = []
    for row in (row for answer in answers for row in answer):
        keys = question["keys"]
        group = "|".join(text(value) for value in row[:keys])
        exact = question["exact"].get(group, 0.0 if question["is_additive"] else None)
        value = row[keys]
        if exact is not None and value is not None and math.isfinite(float(value)):
            squares.append((float(value) - exact) ** 2)
    return math.sqrt(sum(squares) / len(squares)) if squares else None


def measured(peer, question, draws):
    try:
        found = rms(question, [peer.ask(question) for _ in range(draws)])
        return {"rms": found, "error": None if found is not None else "no value"}
    except BaseException as refusal:  # Qrlew's refusals are panics of its native part.
        if isinstance(refusal, KeyboardInterrupt):
            raise
        return {"rms": None, "error": f"{type(refusal).__name__}: {str(refusal)[:200]}"}


def main():
    warnings.filterwarnings("ignore")
    task = json.load(sys.stdin)
    for name, make in [("SmartNoise", SmartNoise), ("Qrlew", Qrlew)]:
        try:
            peer = make(task)
        except Exception as error:
            print(f"{name} left out: {error!r}", file=sys.stderr)
            continue
        for question in task["questions"]:
            answer = measured(peer, question, task["draws"])
            print(
                json.dumps(
                    {"peer": name, "question": question["name"], "epsilon": question["epsilon"]}
                    | answer
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
