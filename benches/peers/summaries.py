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
        OpenDP is asked for a contingency table by the same sets, and SmartNoise SQL for the eight
        groupings one by one. A group that is missing is 0. The last lines pay pure epsilon: there
        the finest groups alone have so little noise that the others are best added up from them.
year    A count a day for a year, at equal noise: what it costs in all. Computed, not measured.
"""

import itertools
import math
import os
import shutil
import sys
import time

import numpy as np
import psycopg2

import synthetic
from adult import COLUMNS, ROWS, SIZES, Proxy, load, made_up, run_parts, summary, tables
from interviews import delta_of, least

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


def counts(arguments, urls):
    directory, url, _ = urls
    if arguments.keep:
        os.makedirs(arguments.keep, exist_ok=True)
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
                arguments, directory, urls[1:], price, questions, marginals
            )
            answered = np.count_nonzero(~np.isnan(answers))
            which = f", {answered:,} answered" if answered < len(questions) else ""
            printed(f"pgveil, a summary with {marginals}, in SQL{which}", answers, seconds)
        methods = synthetic.methods_of(arguments, os.path.join(directory, "fits"), urls[1:])
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


def cube_by_pgveil(arguments, urls, sizes, price):
    keys = ", ".join(sizes)
    path = os.path.join(urls[0], "cube")
    proxy = Proxy(arguments.pgveil, path, urls[1:], tables(sizes), *price, budget=1e6)
    with proxy.connected() as cursor:
        cursor.execute("SET pgveil.reuse = off; SET pgveil.notices = off")
        for _ in range(arguments.runs):
            cursor.execute(f"SELECT {keys}, count(*) FROM people GROUP BY CUBE ({keys})")
            yield answers_of(cursor.fetchall())


def finest_by_pgveil(arguments, urls, sizes, price):
    """The finest groups, bought for all of a budget of pure epsilon; then CUBE, which is free."""
    keys = ", ".join(sizes)
    for run in range(arguments.runs):
        path = os.path.join(urls[0], f"finest{run}")
        rest = tables(sizes)
        proxy = Proxy(arguments.pgveil, path, urls[1:], rest, *price, accounting="pure")
        with proxy.connected() as cursor:
            cursor.execute("SET pgveil.notices = off")
            cursor.execute(f"SELECT {keys}, count(*) FROM people GROUP BY {keys}")
            cursor.execute(f"SELECT {keys}, count(*) FROM people GROUP BY CUBE ({keys})")
            yield answers_of(cursor.fetchall())


def answers_of(rows):
    """Counts by columns and values, of rows that are NULL where a column is not grouped by."""
    found = {}
    for *values, count in rows:
        columns = tuple(at for at, value in enumerate(values) if value is not None)
        found[columns, tuple(values[at] for at in columns)] = count
    return found


def cube_by_opendp(algorithm, pure=False):
    """A function that asks OpenDP for a contingency table, and reads the groups off. All values are
    given, so it has no delta: it is asked for pure epsilon, or for the zCDP that epsilon and delta
    buy, which is all of them by its own conversion (`make_zCDP_to_approxDP`). It keeps a place for
    values that are not given, which has noise too. So the last value of each column is not given,
    and has that place.
    """

    def ask(arguments, _, sizes, price):
        import opendp.prelude as dp
        import polars as pl

        dp.enable_features("contrib")
        women = columns_of_women(sizes)
        frame = pl.DataFrame({c: women[:, at] for at, c in enumerate(sizes)}).lazy()
        spent = {"epsilon": price[0]} if pure else {"rho": synthetic.rho(*price)}
        keys = {column: list(range(size - 1)) for column, size in sizes.items()}
        names = {s: [list(sizes)[at] for at in s] for s in groupings(len(sizes)) if s}
        sets = [dp.mbi.Count(by=of) for of in names.values()]
        for _ in range(arguments.runs):
            context = dp.Context.compositor(
                data=frame,
                privacy_unit=dp.unit_of(contributions=1),
                privacy_loss=dp.loss_of(**spent),
            )
            query = context.query(**spent).select(*sizes)
            query = query.contingency_table(keys=keys, algorithm=algorithm(dp.mbi, sets))
            table = query.release()
            found = {((), ()): float(table.model.total)}
            for columns, of in names.items():
                counts = np.ndenumerate(table.project(of))
                found |= {(columns, values): float(count) for values, count in counts}
            yield found

    return ask


def cube_by_smartnoise(arguments, urls, sizes, price):
    """It has no CUBE: the groupings one by one."""
    columns = {c: ("int", {"lower": 0, "upper": size - 1}) for c, size in sizes.items()}
    peer, sets = SmartNoiseSql(urls[1], columns, "person", "public.people"), groupings(len(sizes))
    text = "SELECT COUNT(*) AS n FROM public.people"
    reader = peer.reader(*peer.split(text, len(sets), *price))
    for _ in range(arguments.runs):
        found = {}
        for grouping in sets:
            names = ", ".join(list(sizes)[at] for at in grouping)
            text = f"SELECT {names}{', ' * bool(names)}COUNT(*) AS n FROM public.people"
            rows = reader.execute(text + (f" GROUP BY {names}" if names else ""))[1:]
            found |= {(grouping, tuple(row[:-1])): row[-1] for row in rows}
        yield found


# The name, whether only pure epsilon is paid, and how the answers of each run are had.
CUBES = [
    ("pgveil, CUBE", False, cube_by_pgveil),
    (
        "OpenDP, `Fixed` by the seven sets",
        False,
        cube_by_opendp(lambda mbi, sets: mbi.Fixed(queries=sets)),
    ),
    (
        "OpenDP, `AIM` for the seven sets",
        False,
        cube_by_opendp(lambda mbi, sets: mbi.AIM(queries=sets)),
    ),
    ("OpenDP, `MST`", False, cube_by_opendp(lambda mbi, _: mbi.MST())),
    ("SmartNoise SQL, one by one", False, cube_by_smartnoise),
    ("pgveil, three columns, then CUBE free", True, finest_by_pgveil),
    (
        "OpenDP, `Fixed` by three columns",
        True,
        cube_by_opendp(lambda mbi, sets: mbi.Fixed(queries=sets[-1:]), pure=True),
    ),
]


def columns_of_women(sizes):
    """The demo's women as value numbers of these columns."""
    return synthetic.women()[:, [list(synthetic.WOMEN).index(column) for column in sizes]]


def groupings(number):
    """The sets of a CUBE, as places of columns."""
    return [s for size in range(number + 1) for s in itertools.combinations(range(number), size)]


def cube(arguments, urls):
    """RMSE by number of columns of the grouping."""
    sizes = {c: synthetic.WOMEN[c] for c in ["race", "birth_year", "college_graduate"]}
    women, true = columns_of_women(sizes), {}
    load(psycopg2.connect(urls[1]), women, sizes)
    for columns in groupings(len(sizes)):
        for values in itertools.product(*(range(list(sizes.values())[at]) for at in columns)):
            true[columns, values] = counts_of(women, [list(zip(columns, values))])[0]
    print("| | epsilon, delta | no column | one | two | three |\n|---|---|---:|---:|---:|---:|")
    for name, pure, ask in CUBES:
        errors = {size: [] for size in range(len(sizes) + 1)}
        try:
            for answers in ask(arguments, urls, sizes, (1.0, 1e-6)):
                for (columns, values), count in true.items():
                    found = float(answers.get((columns, values), 0))
                    errors[len(columns)].append(found - count)
        except ImportError as error:
            print(f"{name} left out: {error!r}", file=sys.stderr)
            continue
        cells = [f"{math.sqrt(np.mean(np.square(of))):.1f}" for of in errors.values()]
        print(f"| {name} | {'1, 0' if pure else '1, 1e-6'} | {' | '.join(cells)} |", flush=True)


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


if __name__ == "__main__":
    run_parts(
        {"counts": counts, "cube": cube, "year": year},
        __doc__,
        {
            "--keep": {"help": "a directory for fits"},
            "--questions": {"type": int, "default": 200, "help": "asked of SmartNoise SQL"},
            "--runs": {"type": int, "default": 20, "help": "of CUBE"},
            "--only": {"nargs": "+", "help": "peers, such as 'OpenDP MST'"},
        },
    )
