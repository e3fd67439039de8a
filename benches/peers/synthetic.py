"""Made-up rows of pgveil's summaries next to those of OpenDP's and SmartNoise's AIM and MST: the
same data, epsilon and delta.

    python3 -m venv venv
    venv/bin/pip install psycopg2-binary scikit-learn smartnoise-synth==1.0.8
    venv/bin/pip install 'opendp[mbi,polars]==0.16.0'
    cargo build --release
    venv/bin/python benches/peers/synthetic.py --pgveil target/release/pgveil --keep fits

`--data` picks what is made up:

people      48,842 made-up people in eight columns named after UCI Adult's (adult.py), new ones in
            each run.
neighbours  two such people in a row, who have nothing to do with each other: 16 columns, of whose
            120 pairs no more than 56 can depend. `all 3` is not asked: a summary has 128 sets at
            most.
women       The demo's women.
interviews  The demo's interviews, up to 15 of each woman, joined with their women (interviews.py).
            pgveil makes up both tables.

pip says in the end that smartnoise-sql wants an older OpenDP; what is used here works with this
one. A peer that is not installed has no line.

Printed are the mean and the worst total variation, over all pairs of columns, between made-up and
true rows; for the people the accuracy and the area under the curve of a logistic regression for
`income`, trained on made-up rows and tested on fresh true ones; for interviews the total variation
of the number of rows a woman; and the seconds from the data to the rows. The last line has fresh
true rows in place of made-up ones. With `--keep`, fits are kept in that directory, and are not made
again. A fit of AIM takes many minutes: `--only` picks methods.

Generative networks, such as PATE-CTGAN, are not asked: smartnoise-synth's need PyTorch, and in the
published comparisons of docs/techniques.md they are farther off than MST.
"""

import argparse
import contextlib
import csv
import itertools
import math
import os
import shutil
import statistics
import sys
import time
import warnings
from importlib import import_module

import numpy as np
import psycopg2

import interviews
from adult import COLUMNS, SIZES, Proxy, load, made_up, summary, tables
from peers import postgres

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
DELTA = 1e-6
ATTEMPTS = 5
WOMEN = {"race": 3, "birth_year": 14, "years_of_school": 19, "college_graduate": 2}


def women():
    """The demo's women as value numbers."""
    race = {"white": 0, "black": 1, "other": 2}
    with open(os.path.join(ROOT, "data", "nls_young_women", "women.csv"), newline="") as file:
        return np.array(
            [
                [
                    race[row["race"]],
                    int(row["birth_year"]) - 1941,
                    int(row["years_of_school"]),
                    int(row["college_graduate"]),
                ]
                for row in csv.DictReader(file)
                if row["years_of_school"]
            ]
        )


def rho(epsilon, delta):
    """The zCDP that epsilon and delta buy. Canonne, Kamath, Steinke 2020, proposition 12."""
    orders = 1 + np.logspace(-4, 4, 4001)

    def is_enough(rho):
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders)
        return np.min(logs - np.log(orders - 1)) <= np.log(delta)

    low, high = 0.0, epsilon + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_enough(middle) else (low, middle)
    return low


class Shuffled:
    """NumPy for mbi 1.1.0, which divides rows that agree among the values of a column in the order
    of the rows: then columns that have nothing to do with each other depend on each other. Here
    rows that agree are in a random order first.
    """

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def argsort(values, kind=None):
        return np.lexsort((np.random.rand(len(values)), values))


def opendp(algorithm, rows_per_unit=1):
    def fit(values, sizes, epsilon, delta):
        import opendp.prelude as dp
        import polars as pl

        dp.enable_features("contrib")
        dice = np.random.default_rng()
        frame = pl.DataFrame({c: values[:, at] for at, c in enumerate(sizes)}).lazy()
        # Its MST adds its shares of some budgets up to a little more than the budget, and fails.
        price = rho(epsilon, delta) * (1 - dice.uniform(0, 1e-3))
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=rows_per_unit),
            privacy_loss=dp.loss_of(rho=price),
        )
        query = context.query(rho=price).select(*sizes)
        table = query.contingency_table(
            keys={column: list(range(size)) for column, size in sizes.items()},
            algorithm=getattr(dp.mbi, algorithm)(),
        )
        rows = table.release().synthesize()
        # It keeps a place for values that are not listed; there are none.
        columns = [rows[column].fill_null(-1).to_numpy() for column in sizes]
        return np.column_stack(
            [
                np.where(column < 0, dice.integers(0, size, len(column)), column)
                for column, size in zip(columns, sizes.values())
            ]
        )

    import_module("mbi.markov_random_field").np = Shuffled()
    import_module("opendp.prelude")
    return fit


def smartnoise(module, name):
    synthesizer = getattr(import_module(f"snsynth.{module}"), name)
    import_module("mbi.markov_random_field").np = Shuffled()
    from snsynth.transform import LabelTransformer, TableTransformer

    def fit(values, sizes, epsilon, delta):
        import pandas as pd

        transformers = []
        for size in sizes.values():
            transformer = LabelTransformer(nullable=False)
            transformer.fit(list(range(size)))
            transformers.append(transformer)
        frame = pd.DataFrame(values, columns=list(sizes))
        synth = synthesizer(epsilon=float(epsilon), delta=delta)
        with contextlib.redirect_stdout(sys.stderr):
            synth.fit(frame, transformer=TableTransformer(transformers))
        return np.asarray(synth.sample(len(values)), dtype=int)

    return fit


def say_selected(printed):
    """Which sets `marginals: auto` has, of what `pgveil summarize` prints."""
    for line in printed.splitlines():
        if ": selected " in line:
            print(line, file=sys.stderr, flush=True)


def pgveil(program, directory, urls, marginals):
    """The rows of `pgveil synth` after `pgveil summarize`."""

    def fit(values, sizes, epsilon, delta):
        with contextlib.closing(psycopg2.connect(urls[0])) as connection:
            load(connection, values, sizes)
        path = os.path.join(directory, "fit")
        shutil.rmtree(path, ignore_errors=True)
        rest = tables(sizes) + summary(epsilon, marginals, sizes)
        proxy = Proxy(program, path, urls, rest, epsilon, delta)
        say_selected(proxy.run("summarize", "--yes"))
        proxy.run("synth", "--out", os.path.join(path, "rows"))
        # The person's number comes first.
        rows = os.path.join(path, "rows", "01-public.people.csv")
        return np.loadtxt(rows, delimiter=",", quotechar='"', dtype=int)[:, 1:]

    return fit


PEERS = {
    "OpenDP AIM": lambda: opendp("AIM"),
    "OpenDP MST": lambda: opendp("MST"),
    "SmartNoise AIM": lambda: smartnoise("aim", "AIMSynthesizer"),
    "SmartNoise MST": lambda: smartnoise("mst", "MSTSynthesizer"),
}


def kept(directory, name, fit):
    """The rows and the seconds of a fit, of the directory if they are there."""
    path = directory and os.path.join(directory, name.replace(" ", "_") + ".npz")
    if path and os.path.exists(path):
        found = np.load(path)
        return found["rows"], float(found["seconds"])
    started = time.time()
    rows = fit()
    seconds = time.time() - started
    if path:
        np.savez_compressed(path, rows=rows, seconds=seconds)
    return rows, seconds


def shares(values, sizes, columns):
    """The share of each combination of values."""
    shape = [list(sizes.values())[at] for at in columns]
    places = np.ravel_multi_index([values[:, at] for at in columns], shape)
    return np.bincount(places, minlength=np.prod(shape)) / len(values)


def variations(made, true, sizes):
    """The total variation of each pair of columns."""
    return [
        np.abs(shares(made, sizes, pair) - shares(true, sizes, pair)).sum() / 2
        for pair in itertools.combinations(range(len(sizes)), 2)
    ]


def classifier(train, test):
    """Accuracy and area under the curve for the last column."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(categories=[range(size) for size in list(SIZES.values())[:-1]])
    encoder.fit(test[:, :-1])
    if len(set(train[:, -1])) < 2:
        return np.mean(test[:, -1] == train[0, -1]), 0.5
    model = LogisticRegression(max_iter=1000).fit(encoder.transform(train[:, :-1]), train[:, -1])
    chances = model.predict_proba(encoder.transform(test[:, :-1]))[:, 1]
    return np.mean((chances > 0.5) == test[:, -1]), roc_auc_score(test[:, -1], chances)


def scored(rows, sizes, test):
    """Rows without the number of their unit, and what is measured of them but pairs of columns. A
    method that knows no unit has rows without a number.
    """
    if test is not None:
        return rows, classifier(rows, test)
    if sizes is not interviews.SIZES:
        return rows, ()
    if rows.shape[1] == len(sizes):
        return rows, [math.nan]
    numbers = interviews.numbers_of_rows(rows[:, 0])
    return rows[:, 1:], [np.abs(numbers - interviews.true_numbers()).sum() / 2]


def measured(name, fit, data, epsilon, arguments):
    """The figures of a method: means over the runs. `None` if it cannot do it."""
    found = []
    for run in range(1, arguments.runs + 1):
        sizes, true, test = data(run)
        label = f"{name} {arguments.data} {epsilon} {DELTA} {run}"
        for attempt in range(ATTEMPTS):
            try:
                rows, seconds = kept(
                    arguments.keep, label, lambda: fit(true, sizes, epsilon, DELTA)
                )
                break
            except Exception as error:
                print(f"{label} failed: {repr(error)[-200:]}", file=sys.stderr)
        else:
            return None
        rows, scores = scored(rows, sizes, test)
        off = variations(rows, true, sizes)
        found.append([np.mean(off), max(off), *scores, seconds])
    return [statistics.mean(column) for column in zip(*found)]


def printed(epsilon, name, figures):
    mean, worst, *scores, seconds = figures
    shown = ["" if math.isnan(score) else f"{100 * score:.1f} %" for score in scores]
    cells = [f"{mean:.4f}", f"{worst:.4f}", *shown]
    print(f"| {epsilon:g} | {name} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


def people_of(run):
    return SIZES, made_up(seed=run), made_up(seed=1000 + run)


def women_of(_run):
    return WOMEN, women(), None


def neighbours_of(run):
    sizes = SIZES | {f"{column}_of_neighbour": size for column, size in SIZES.items()}
    return sizes, np.hstack([made_up(seed=run), made_up(seed=3000 + run)]), None


def interviews_of(_run):
    return interviews.SIZES, interviews.flat(), None


SCORES = {"people": ["accuracy", "area under the curve"], "interviews": ["rows a woman"]}
DATA = {
    "people": people_of,
    "neighbours": neighbours_of,
    "women": women_of,
    "interviews": interviews_of,
}


def by_group(fit):
    """A method that knows one row a unit, for units of several."""
    return lambda values, sizes, *price: fit(values, sizes, *interviews.in_group(*price))


def methods_of(arguments, directory, urls, data="people"):
    """The methods by name; those that are not installed are left out."""
    pairs = itertools.combinations(COLUMNS[:-1], 2)
    marginals = {"all 2": "all 2", "all 3": "all 3", "auto": "auto"}
    if data == "people":
        sets = ", ".join(f"[{a}, {b}, income]" for a, b in pairs)
        marginals["pairs with income"] = f"[{sets}]"
    if data == "neighbours":
        del marginals["all 3"]
    methods = {}
    for name, sets in marginals.items():
        shared = (arguments.pgveil, directory, urls, sets)
        several = data == "interviews"
        fit = interviews.pgveil(*shared, say_selected) if several else pgveil(*shared)
        methods[f"pgveil, {name}"] = fit
    for name, make in PEERS.items():
        try:
            methods[name] = make()
        except ImportError as error:
            print(f"{name} left out: {error!r}", file=sys.stderr)
            continue
        if data == "interviews" and name.startswith("OpenDP"):
            methods[name] = opendp(name.split()[1], interviews.MOST)
        elif data == "interviews":
            methods[name] = by_group(methods[name])
    return {
        name: fit for name, fit in methods.items() if not arguments.only or name in arguments.only
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 3.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", help="a directory for fits")
    parser.add_argument("--data", choices=DATA, default="people")
    parser.add_argument("--only", nargs="+", help="methods, such as 'OpenDP MST'")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
    data = DATA[arguments.data]
    scores = SCORES.get(arguments.data, [])
    head = ["epsilon", "rows of", "mean variation", "worst", *scores, "seconds"]
    print(f"{arguments.runs} runs, delta {DELTA}\n\n| {' | '.join(head)} |")
    print("|---:|---|" + "---:|" * (len(head) - 2))
    with postgres() as (directory, url, shadow):
        fits = os.path.join(directory, "fits")
        methods = methods_of(arguments, fits, (url, shadow), arguments.data)
        for epsilon in arguments.epsilon:
            for name, fit in methods.items():
                if figures := measured(name, fit, data, epsilon, arguments):
                    printed(epsilon, name, figures)
    if arguments.data == "people":
        runs = range(1, arguments.runs + 1)
        fresh = [(made_up(seed=2000 + run), people_of(run)) for run in runs]
        found = [
            [np.mean(off := variations(rows, true, sizes)), max(off), *classifier(true, test), 0.0]
            for rows, (sizes, true, test) in fresh
        ]
        printed(math.inf, "fresh true rows", [statistics.mean(column) for column in zip(*found)])


if __name__ == "__main__":
    main()
