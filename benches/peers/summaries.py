"""Many counts for one price: pgveil's summaries, its CUBE and its horizons next to what peers have.

    python3 -m venv venv
    venv/bin/pip install psycopg2-binary scikit-learn smartnoise-synth==1.0.8
    venv/bin/pip install 'opendp[mbi,polars]==0.16.0'
    cargo build --release
    venv/bin/python benches/peers/summaries.py --pgveil target/release/pgveil --keep fits

`--parts` picks from the three parts:

counts  2,000 random counts, `WHERE` three columns have given values, over the made-up people of
        adult.py: from a summary, in SQL; from made-up rows of pgveil, OpenDP and SmartNoise
        (synthetic.py, whose `--keep` is the same directory); and asked one by one of SmartNoise
        SQL, whose epsilon is split by its own account of 2,000 questions. Of these it asks
        `--questions`, since they take long. A summary with `auto` answers only what its sets
        answer, and how many counts that are is printed. The error of a count is relative to it, or
        to 0.1 % of the rows if it is smaller.
cube    CUBE over three columns of the demo's women, by number of columns: root mean square errors.
        SmartNoise SQL is asked for the eight groupings one by one. A group that is missing is 0.
year    A count a day for a year, at equal noise: what it costs in all. Computed, not measured.
"""

import argparse
import itertools
import math
import os
import shutil
import sys
import time
import warnings

import numpy as np
import psycopg2

import synthetic
from adult import COLUMNS, ROWS, SIZES, Proxy, load, made_up, summary, tables
from interviews import delta_of, least
from peers import postgres

RUN = 1
PRICES = [(0.5, 1e-6), (1.0, 1e-6), (3.0, 1e-6), (1.0, 1e-9)]


def questions_of(number):
    """Columns and values: those of a random person of the same law, so that few counts are 0."""
    dice, people = np.random.default_rng(5), made_up(seed=77)
    found = []
    for person in people[dice.choice(len(people), number, replace=False)]:
        columns = sorted(dice.choice(len(COLUMNS), 3, replace=False))
        found.append([(at, int(person[at])) for at in columns])
    return found


def condition(question):
    return " AND ".join(f"{COLUMNS[at]} = {value}" for at, value in question)


def counts_of(values, questions):
    every = np.ones(len(values), dtype=bool)
    return np.array(
        [
            np.all([every, *(values[:, at] == value for at, value in q)], axis=0).sum()
            for q in questions
        ]
    )


def relative(answers, true):
    """The mean relative error, in percent, of those that are answered."""
    answers = np.asarray(answers, dtype=float)
    bound = np.maximum(true[: len(answers)], ROWS / 1000)
    return 100 * np.nanmean(np.abs(answers - true[: len(answers)]) / bound)


def by_summary(arguments, directory, urls, price, questions, marginals):
    """The answers of a summary, in SQL, and the seconds with making it. Not a number where no set
    has the three columns.
    """
    started = time.time()
    path = os.path.join(directory, "counts")
    shutil.rmtree(path, ignore_errors=True)
    rest = tables(SIZES) + summary(price[0], marginals, SIZES)
    proxy = Proxy(arguments.pgveil, path, urls, rest, *price)
    proxy.run("summarize", "--yes")
    answers = []
    with proxy.connected() as cursor:
        cursor.execute("SET pgveil.reuse = summary; SET pgveil.notices = off")
        for question in questions:
            try:
                cursor.execute(f"SELECT count(*) FROM people WHERE {condition(question)}")
                answers.append(cursor.fetchone()[0])
            except psycopg2.errors.FeatureNotSupported:
                answers.append(math.nan)
    return answers, time.time() - started


class SmartNoiseSql:
    """Questions that together cost a price, by SmartNoise's own account of them."""

    def __init__(self, url, columns, key, table):
        self.url = url
        rows = {c: {"type": kind} | bounds for c, (kind, bounds) in columns.items()}
        rows |= {key: {"type": "int", "private_id": True}, "rows": 5000, "row_privacy": False}
        rows |= {"max_ids": 1, "censor_dims": False}
        schema, name = table.split(".")
        self.metadata = {"": {schema: {name: rows}}}

    def reader(self, epsilon, delta):
        from snsql import Privacy, from_connection

        return from_connection(
            psycopg2.connect(self.url),
            engine="postgres",
            privacy=Privacy(epsilon=epsilon, delta=delta),
            metadata=self.metadata,
        )

    def split(self, question, number, epsilon, delta):
        """The epsilon of each mechanism at which this many such questions cost epsilon and delta,
        of which their composition takes one half and all questions the other.
        """
        from snsql import Privacy
        from snsql.sql.odometer import OdometerHeterogeneous

        of_one, _ = self.reader(1.0, delta).get_privacy_cost(question)
        steps = number * max(1, round(of_one))
        low, high = 0.0, epsilon
        for _ in range(40):
            middle = (low + high) / 2
            odometer = OdometerHeterogeneous(Privacy(epsilon=middle, delta=0.0))
            odometer.tol = delta / 2
            odometer.steps = [(middle, 0.0)] * steps
            low, high = (middle, high) if odometer.spent[0] <= epsilon else (low, middle)
        return low, delta / 2 / steps


def one_by_one(url, price, questions, asked):
    """SmartNoise's answers to the first questions, at the price of all."""
    columns = {c: ("int", {"lower": 0, "upper": size - 1}) for c, size in SIZES.items()}
    peer = SmartNoiseSql(url, columns, "person", "public.people")
    texts = [f"SELECT COUNT(*) AS n FROM public.people WHERE {condition(q)}" for q in questions]
    reader = peer.reader(*peer.split(texts[0], len(texts), *price))
    started = time.time()
    answers = [reader.execute(text)[1][0] for text in texts[:asked]]
    return answers, (time.time() - started) * len(texts) / asked


def counts(arguments, directory, url, shadow):
    true_rows = made_up(seed=RUN)
    direct = psycopg2.connect(url)
    load(direct, true_rows, SIZES)
    questions = questions_of(2000)
    true = counts_of(true_rows, questions)
    print(f"the middle count is {np.median(true):.0f}\n")
    print("| epsilon | delta | answers of | mean relative error | seconds |")
    print("|---:|---:|---|---:|---:|")
    for price in PRICES:

        def printed(name, answers, seconds, price=price):
            cells = f"{relative(answers, true):.1f} % | {seconds:.0f}"
            print(f"| {price[0]:g} | {price[1]:g} | {name} | {cells} |", flush=True)

        for marginals in ["all 3", "auto"]:
            answers, seconds = by_summary(
                arguments, directory, (url, shadow), price, questions, marginals
            )
            answered = np.count_nonzero(~np.isnan(answers))
            which = f", {answered:,} answered" if answered < len(questions) else ""
            printed(f"pgveil, a summary with {marginals}, in SQL{which}", answers, seconds)
        methods = synthetic.methods_of(arguments, os.path.join(directory, "fits"), (url, shadow))
        for name, fit in methods.items():
            label = f"{name} people {price[0]} {price[1]} {RUN}"
            for attempt in range(synthetic.ATTEMPTS):
                try:
                    rows, seconds = synthetic.kept(
                        arguments.keep, label, lambda: fit(true_rows, SIZES, *price)
                    )
                    printed(f"{name}, made-up rows", counts_of(rows, questions), seconds)
                    break
                except Exception as error:
                    print(f"{label} failed: {repr(error)[:200]}", file=sys.stderr)
        try:
            found = one_by_one(url, price, questions, arguments.questions)
            printed(f"SmartNoise SQL, {arguments.questions} asked", *found)
        except ImportError as error:
            print(f"SmartNoise SQL left out: {error!r}", file=sys.stderr)


def cube(arguments, directory, url, shadow):
    """RMSE by number of columns of the grouping."""
    sizes = {c: synthetic.WOMEN[c] for c in ["race", "birth_year", "college_graduate"]}
    women = synthetic.women()[:, [0, 1, 3]]
    load(psycopg2.connect(url), women, sizes)
    price = (1.0, 1e-6)
    sets = [s for size in range(4) for s in itertools.combinations(range(3), size)]
    true = {}
    for columns in sets:
        for values in itertools.product(*(range(list(sizes.values())[at]) for at in columns)):
            true[columns, values] = counts_of(women, [list(zip(columns, values))])[0]
    path = os.path.join(directory, "cube")
    proxy = Proxy(arguments.pgveil, path, (url, shadow), tables(sizes), *price, budget=1e6)
    keys = ", ".join(sizes)
    errors = {"pgveil": {size: [] for size in range(4)}}

    def keep(name, answers):
        for (columns, values), count in true.items():
            errors[name][len(columns)].append(float(answers.get((columns, values), 0)) - count)

    with proxy.connected() as cursor:
        cursor.execute("SET pgveil.reuse = off; SET pgveil.notices = off")
        for _ in range(arguments.runs):
            cursor.execute(f"SELECT {keys}, count(*) FROM people GROUP BY CUBE ({keys})")
            answers = {}
            for *values, count in cursor.fetchall():
                columns = tuple(at for at, value in enumerate(values) if value is not None)
                answers[columns, tuple(values[at] for at in columns)] = count
            keep("pgveil", answers)
    try:
        columns = {c: ("int", {"lower": 0, "upper": size - 1}) for c, size in sizes.items()}
        peer = SmartNoiseSql(url, columns, "person", "public.people")
        reader = peer.reader(*peer.split("SELECT COUNT(*) AS n FROM public.people", 8, *price))
        errors["SmartNoise SQL, one by one"] = {size: [] for size in range(4)}
        for _ in range(arguments.runs):
            answers = {}
            for grouping in sets:
                names = ", ".join(list(sizes)[at] for at in grouping)
                text = f"SELECT {names}{', ' * bool(names)}COUNT(*) AS n FROM public.people"
                rows = reader.execute(text + (f" GROUP BY {names}" if names else ""))[1:]
                answers |= {(grouping, tuple(row[:-1])): row[-1] for row in rows}
            keep("SmartNoise SQL, one by one", answers)
    except ImportError as error:
        print(f"SmartNoise SQL left out: {error!r}", file=sys.stderr)
    print("| | no column | one | two | three |\n|---|---:|---:|---:|---:|")
    for name, found in errors.items():
        cells = [f"{math.sqrt(np.mean(np.square(found[size]))):.1f}" for size in range(4)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def year(*_):
    """A count of rows by day, of which a person has at most one a day, on at most 30 days."""
    days, active, delta = 365, 30, 1e-6
    whole = least(lambda mu: delta_of(mu, 1.0) >= delta, 10.0)
    deviation = math.sqrt(active) / whole
    of_gaussian = lambda mu: least(lambda epsilon: delta_of(mu, epsilon) <= delta)
    of_zcdp = lambda rho: least(lambda epsilon: synthetic.rho(epsilon, delta) >= rho)
    laplace = math.sqrt(2) / deviation
    advanced = laplace * math.sqrt(2 * days * math.log(1 / delta))
    advanced += days * laplace * math.tanh(laplace / 2)
    daily = math.sqrt(days) / deviation
    lines = [
        ("pgveil, one price for 365 days, `per_unit: 30`", whole, 1.0),
        ("pgveil, each day bought", daily, of_gaussian(daily)),
        ("zCDP, Gaussian noise, each day (as Tumult Analytics)", daily, of_zcdp(daily**2 / 2)),
        ("Laplace noise, advanced composition (as SmartNoise SQL)", None, advanced),
        ("Laplace noise, epsilons added up", None, days * laplace),
    ]
    print(f"standard error of a day {deviation:.1f}, delta {delta}\n")
    print("| | mu of the year | epsilon of the year |\n|---|---:|---:|")
    for name, mu, epsilon in lines:
        print(f"| {name} | {f'{mu:.3f}' if mu else ''} | {epsilon:.2f} |")


PARTS = {"counts": counts, "cube": cube, "year": year}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--keep", help="a directory for fits")
    parser.add_argument("--questions", type=int, default=200, help="asked of SmartNoise SQL")
    parser.add_argument("--runs", type=int, default=20, help="of CUBE")
    parser.add_argument("--only", nargs="+", help="made-up rows of these, such as 'OpenDP MST'")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
    with postgres() as (directory, url, shadow):
        for part in arguments.parts:
            PARTS[part](arguments, directory, url, shadow)
            print(flush=True)


if __name__ == "__main__":
    main()
