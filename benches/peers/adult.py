"""Made-up people with columns like those of UCI Adult, a proxy over them, and a program of several
parts: what synthetic.py, regression.py, summaries.py and daily.py share.

Nothing is copied from the real data: a seed makes a Bayesian network, and the network the rows. So
true dependences, and fresh rows of the same law, can be had at will.
"""

import argparse
import csv
import io
import os
import subprocess
import sys
import warnings

import numpy as np

from peers import postgres
from serve import session, verifier

ROWS = 48_842

# Column: number of values, how skewed, and the columns that it depends on, each with how much.
NETWORK = {
    "sex": (2, 0.7, {}),
    "race": (5, 2.2, {}),
    "age": (8, 0.4, {}),
    "education": (16, 0.7, {"age": 0.6, "race": 0.4}),
    "marital": (7, 1.2, {"age": 1.2, "sex": 0.5}),
    "occupation": (14, 0.5, {"education": 0.9, "sex": 0.8}),
    "relationship": (6, 0.8, {"marital": 1.6, "sex": 1.2}),
    "income": (2, 2.2, {"education": 1.1, "marital": 0.9, "occupation": 0.7, "age": 0.6}),
}
COLUMNS = list(NETWORK)
SIZES = {column: size for column, (size, _, _) in NETWORK.items()}
FEATURES = [column for column in COLUMNS if column != "income"]


def made_up(rows=ROWS, seed=1, network=7):
    """An array of value numbers, a column for each of COLUMNS."""
    law, dice, drawn = np.random.default_rng(network), np.random.default_rng(seed), {}
    for column, (size, skew, parents) in NETWORK.items():
        scores = np.tile(-skew * np.arange(size) ** 0.7, (rows, 1))
        for parent, weight in parents.items():
            scores += weight * law.normal(size=(SIZES[parent], size))[drawn[parent]]
        scores += dice.gumbel(size=scores.shape)
        drawn[column] = scores.argmax(axis=1)
    return np.column_stack([drawn[column] for column in COLUMNS])


def load(connection, values, columns):
    """The rows as table public.people, with a number for each person."""
    declared = ", ".join(f"{column} int NOT NULL" for column in columns)
    text = io.StringIO()
    csv.writer(text).writerows([at, *row] for at, row in enumerate(values.tolist()))
    text.seek(0)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS people")
        cursor.execute(f"CREATE TABLE people (person int PRIMARY KEY, {declared})")
        cursor.copy_expert("COPY people FROM STDIN (FORMAT csv)", text)
        cursor.execute("ANALYZE people")
    connection.commit()


HEAD = """
version: 1
database: {{url: "{url}"}}
ledger: {{url: "sqlite://{directory}/ledger.db"}}
shadow: {{url: "{shadow}"}}
privacy:
  unit: person
  budget: {{epsilon: 10000000, delta: 1e-3}}
  per_query: {{epsilon: {epsilon}, max_epsilon: {epsilon}}}
  accounting: {accounting}
  threshold_share: 1e-9
  data_version: "1"
roles:
  - name: bench
    password: "{password}"
    budget: {{epsilon: {budget}, delta: {delta}}}
limits:
  groups_per_unit: 20
  rows_per_unit: 15
  groups: 10000000
  failures: 10
  statement_timeout: 600s
  connections: 20
"""


def tables(sizes, bounds=False):
    """The policy's part on public.people; with bounds, the columns are numbers to add up."""
    lines = ["tables:", "  public.people:", "    unit: person", "    columns:"]
    for column, size in sizes.items():
        listed = f"values: [{', '.join(map(str, range(size)))}], complete: true"
        lines.append(f"      {column}: {{{f'bounds: [0, {size - 1}]' if bounds else listed}}}")
    return "\n".join(lines) + "\n"


def summary(epsilon, marginals, keys):
    return (
        f"summaries:\n  people:\n    of: public.people\n    keys: [{', '.join(keys)}]\n"
        f"    marginals: {marginals}\n    epsilon: {epsilon}\n"
    )


class Proxy:
    """The files of one policy, and the programs that read them."""

    def __init__(
        self, program, directory, urls, rest, epsilon, delta, budget=None, accounting="gdp"
    ):
        self.program, self.directory = program, directory
        os.makedirs(directory)
        self.policy = os.path.join(directory, "policy.yaml")
        head = HEAD.format(
            url=urls[0],
            shadow=urls[1],
            directory=directory,
            epsilon=epsilon,
            budget=budget or epsilon,
            delta=delta,
            accounting=accounting,
            password=verifier(program),
        )
        with open(self.policy, "w") as file:
            file.write(head + rest)

    def run(self, *words):
        """What a command of pgveil prints; its failure ends all."""
        command = [self.program, words[0], self.policy, *words[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    def connected(self):
        return session(self.program, self.policy, self.directory)


def run_parts(parts, description, options):
    """A program that runs all of its parts, or those of `--parts`. Each takes the arguments, and
    what `postgres` yields.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--parts", choices=parts, nargs="+", default=list(parts))
    for name, option in options.items():
        parser.add_argument(name, **option)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with postgres() as urls:
        for part in arguments.parts:
            parts[part](arguments, urls)
            print(flush=True)
