"""Coefficients of pgveil's regressions next to those of diffprivlib, AdaSSP and OpenDP; the first
principal component next to OpenDP's.

    python3 -m venv venv
    venv/bin/pip install psycopg2-binary diffprivlib==0.6.6 'scikit-learn<1.6'
    venv/bin/pip install 'opendp[scikit-learn]==0.16.0'
    cargo build --release
    venv/bin/python benches/peers/regression.py --pgveil target/release/pgveil

Printed are root mean square errors of the coefficients, without the constant, against the fit of
the same rows without noise, over `--runs` draws; features are scaled to [-1, 1] by their bounds,
and so is y of a linear regression. The logistic ones also have the area under the curve, on fresh
rows where there are any. All have the same bounds. Delta is 1e-6 for pgveil and AdaSSP; diffprivlib
and OpenDP pay pure epsilon. They and AdaSSP protect one row: for the demo's interviews, of which a
woman may have 15, they get a fifteenth of epsilon (and AdaSSP of delta at most), so that a woman is
protected as by pgveil. OpenDP has one feature, by Theil and Sen: its slope is another than that of
least squares, even without noise. "All 0" is the error of coefficients that are 0.

Of principal components the error is the sine of the angle between the first one and that without
noise: 1 where it says nothing. OpenDP is told the number of rows and a bound of their norm, and
gets rows less their exact means: with other means its component stays far off, whatever epsilon is.
"""

import argparse
import contextlib
import math
import os
import sys
import warnings

import numpy as np
import psycopg2

from adult import SIZES, Proxy, load, made_up, tables
from limits import ROOT
from limits import load as load_demo
from peers import postgres

DELTA = 1e-6
JOINED = "nls.interviews JOIN nls.women USING (woman_id)"

# Each is a column or a condition.
BOUNDS = {column: (0, size - 1) for column, size in SIZES.items()} | {
    "hourly_wage": (0, 30),
    "years_of_school": (0, 18),
    "tenure_years": (0, 30),
    "nls.interviews.age": (14, 46),
    "south": (0, 1),
    "married": (0, 1),
    "hours_per_week": (0, 100),
}

# Kind, source, y, features.
QUESTIONS = [
    ("linear", "people", "education", ["age"]),
    ("linear", "people", "education", ["age", "sex", "marital = 0", "marital = 1", "income"]),
    (
        "logistic",
        "people",
        "income",
        ["age", "sex", "education = 0", "education = 1", "marital = 0", "marital = 1"],
    ),
    ("linear", JOINED, "hourly_wage", ["years_of_school"]),
    (
        "linear",
        JOINED,
        "hourly_wage",
        ["years_of_school", "tenure_years", "nls.interviews.age", "south"],
    ),
    ("logistic", JOINED, "married", ["nls.interviews.age", "hours_per_week", "south"]),
]

# Whose first component is compared.
COMPONENTS = ["age", "education", "marital", "occupation", "relationship"]


def in_sql(feature):
    return f"CASE WHEN {feature} THEN 1 ELSE 0 END" if "=" in feature else feature


def bounds_of(columns):
    return np.array([BOUNDS.get(column, (0, 1)) for column in columns], dtype=float)


def scaled(values, bounds):
    """To [-1, 1], by column; values past their bounds count as the bound."""
    low, high = bounds.T
    return 2 * (np.clip(values, low, high) - low) / (high - low) - 1


def logistic(x, y):
    """The coefficients of largest likelihood, the constant first: Newton's method."""
    x = np.column_stack([np.ones(len(x)), x])
    coef = np.zeros(x.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-x @ coef))
        hessian = (x.T * (chance * (1 - chance))) @ x
        coef += np.linalg.solve(hessian, x.T @ (y - chance))
    return coef[1:]


def linear(x, y):
    x = np.column_stack([np.ones(len(x)), x])
    return np.linalg.lstsq(x, y, rcond=None)[0][1:]


def adassp(x, y, epsilon, delta):
    """AdaSSP with bounds |x|, |y|: Wang, "Revisiting differentially private linear regression",
    UAI 2018, algorithm 2, with failure probability 0.05.
    """
    dice = np.random.default_rng()
    x = np.column_stack([np.ones(len(x)), x])
    width = x.shape[1]
    square, third = float(width), epsilon / 3
    log = math.log(6 / delta)
    moments = x.T @ x
    least = np.linalg.eigvalsh(moments)[0]
    least += (math.sqrt(log) * dice.normal() - log) * square / third
    wanted = math.sqrt(width * log * math.log(2 * width**2 / 0.05)) * square / third
    ridge = max(0.0, wanted - max(least, 0.0))
    scale = math.sqrt(log) * square / third
    noise = np.triu(dice.normal(scale=scale, size=(width, width)))
    moments = moments + noise + np.triu(noise, 1).T + ridge * np.eye(width)
    products = x.T @ y + dice.normal(scale=scale / math.sqrt(square), size=width)
    return np.linalg.lstsq(moments, products, rcond=None)[0][1:]


def diffprivlib_of(kind):
    from diffprivlib import models

    def fit(x, y, epsilon, _delta):
        if kind == "linear":
            bounds = {"bounds_X": (-1, 1), "bounds_y": (-1, 1)}
            return models.LinearRegression(epsilon=epsilon, **bounds).fit(x, y).coef_.ravel()
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=math.sqrt(x.shape[1]), max_iter=1000
        )
        return model.fit(x, y).coef_.ravel()

    return fit


def opendp_of():
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")

    def model(scale):
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), x_bounds=[(-1, 1)], y_bounds=(-1, 1), scale=scale
        )

    def fit(x, y, epsilon, _delta):
        if x.shape[1] > 1:
            return None
        scale = dp.binary_search(
            lambda scale: model(scale).measurement.map(1) <= epsilon, bounds=(1e-3, 1e6)
        )
        return model(scale).fit(x, y).coef_

    return fit


def peers_of(kind):
    """The peers that are installed."""
    found = {"AdaSSP": adassp} if kind == "linear" else {}
    makers = {"diffprivlib": diffprivlib_of, "OpenDP": opendp_of}
    if kind == "logistic":
        del makers["OpenDP"]
    for name, make in makers.items():
        try:
            found[name] = make(kind) if name == "diffprivlib" else make()
        except ImportError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
    return found


def first_component(x):
    """The direction in which rows vary most."""
    return np.linalg.eigh(np.cov(x.T))[1][:, -1]


def opendp_component(x, epsilon):
    """By make_private_pca, of pure epsilon."""
    import opendp.prelude as dp
    from opendp.extras.sklearn.decomposition import PCA

    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    rows, features = x.shape
    norm = math.sqrt(features)
    bounds = dict(epsilon=epsilon, row_norm=norm, n_samples=rows, n_features=features)
    return PCA(**bounds, n_components=1).fit(x).components_[0]


def compare_components(epsilon, cursors, runs):
    """The line of the first component at an epsilon."""
    widths = bounds_of(COMPONENTS)
    names = ", ".join(COMPONENTS)
    cursors["direct"].execute(f"SELECT {names} FROM people")
    x = scaled(np.array(cursors["direct"].fetchall(), dtype=float), widths)
    true = first_component(x)
    middles, halves = widths.mean(axis=1), np.diff(widths).ravel() / 2
    parts = zip(COMPONENTS, middles, halves, strict=True)
    array = ", ".join(f"({name} - {middle}) / {half}" for name, middle, half in parts)

    def asked():
        cursors["pgveil"].execute(f"SET pgveil.epsilon = {epsilon}")
        cursors["pgveil"].execute(
            f"SELECT (pgveil.pca(ARRAY[{array}], 1)).loadings FROM people"
        )
        return np.array(cursors["pgveil"].fetchone()[0], dtype=float).ravel()

    def off(component):
        cosine = component @ true / np.linalg.norm(component)
        return math.sqrt(max(0.0, 1 - cosine**2))

    def cell_of(make):
        errors = [off(make()) for _ in range(runs)]
        return f"{math.sqrt(np.mean(np.square(errors))):.2g}"

    cells = [cell_of(asked), "-", "-"]
    try:
        cells.append(cell_of(lambda: opendp_component(x - x.mean(axis=0), epsilon)))
    except ImportError as error:
        print(f"OpenDP left out: {error}", file=sys.stderr)
        cells.append("-")
    print(f"| component | people: {names} | {epsilon:g} | {' | '.join(cells)} | 1 | |", flush=True)


def area(x, y, coef):
    """The area under the curve: the chance that a row with y = 1 has the higher score."""
    scores = x @ coef
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    ones = y.sum()
    return (ranks[y == 1].sum() - ones * (ones + 1) / 2) / (ones * (len(y) - ones))


def asked(cursor, question, epsilon):
    """The coefficients that pgveil answers, scaled."""
    kind, source, y, features = question
    function, left = ("linregr", y) if kind == "linear" else ("logregr", f"{y} = 1")
    array = ", ".join(map(in_sql, features))
    cursor.execute(f"SET pgveil.epsilon = {epsilon}")
    cursor.execute(f"SELECT (pgveil.{function}({left}, ARRAY[1, {array}])).coef FROM {source}")
    coef = cursor.fetchone()[0]
    if coef is None or None in coef:
        return None
    widths = np.diff(bounds_of([*features, y])).ravel() / 2
    over = widths[-1] if kind == "linear" else 1
    return np.array(coef, dtype=float)[1:] * widths[:-1] / over


def rows_of(cursor, question, source=None):
    """x and y, scaled; y of a logistic regression is 0 or 1."""
    kind, of_question, y, features = question
    columns = [*features, y]
    known = " AND ".join(f"({column}) IS NOT NULL" for column in columns)
    cursor.execute(
        f"SELECT {', '.join(map(in_sql, columns))} FROM {source or of_question} WHERE {known}"
    )
    values = np.array(cursor.fetchall(), dtype=float)
    found = scaled(values, bounds_of(columns))
    return found[:, :-1], values[:, -1] if kind == "logistic" else found[:, -1]


def cell(fits, true, test):
    """Root mean square error, the area under the curve, and how many gave none."""
    found = [fit for fit in fits if fit is not None]
    if not found:
        return "-"
    error = math.sqrt(np.mean([(fit - true) ** 2 for fit in found]))
    text = f"{error:.2g}"
    if test is not None:
        text += f"; {100 * np.mean([area(*test, fit) for fit in found]):.1f} %"
    lost = len(fits) - len(found)
    return text + (f" ({lost} of {len(fits)} NULL)" if lost else "")


def compare(question, epsilon, cursors, runs):
    """The line of a question at an epsilon."""
    kind, source, y, features = question
    x, of_y = rows_of(cursors["direct"], question)
    true = (linear if kind == "linear" else logistic)(x, of_y)
    test = None
    if kind == "logistic":
        fresh = source == "people"
        test = rows_of(cursors["direct"], question, "fresh") if fresh else (x, of_y)
    cells = [cell([asked(cursors["pgveil"], question, epsilon) for _ in range(runs)], true, test)]
    peers = peers_of(kind)
    # Of one row, so that all rows of a unit together have epsilon and DELTA.
    each = epsilon / (1 if source == "people" else 15)
    delta = DELTA * math.expm1(each) / math.expm1(epsilon)
    for name in ["AdaSSP", "diffprivlib", "OpenDP"]:
        fits = [peers[name](x, of_y, each, delta) for _ in range(runs)] if name in peers else []
        cells.append(cell(fits, true, test))
    cells.append(cell([0 * true], true, None))
    cells.append(f"{100 * area(*test, true):.1f} %" if test is not None else "")
    name = f"{source.split()[0]}: {y} by {', '.join(features)}".replace("nls.interviews.", "")
    print(f"| {kind} | {name} | {epsilon:g} | {' | '.join(cells)} |", flush=True)


def policy_of_demo():
    """The demo's tables, as the policy declares them."""
    with open(os.path.join(ROOT, "policies", "demo.yaml")) as file:
        text = file.read()
    return text[text.index("tables:") + len("tables:\n") : text.index("limits:")]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pgveil", required=True, help="the program")
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 3.0])
    parser.add_argument("--runs", type=int, default=15)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with postgres() as (directory, url, shadow):
        direct = psycopg2.connect(url)
        load(direct, made_up(seed=2), SIZES)
        with direct.cursor() as cursor:
            cursor.execute("ALTER TABLE people RENAME TO fresh")
        load(direct, made_up(), SIZES)
        load_demo(direct)
        direct.autocommit = True
        # A policy has one unit: the people and the women are two.
        policies = {"people": tables(SIZES, bounds=True), JOINED: "tables:\n" + policy_of_demo()}
        print(f"{arguments.runs} runs\n")
        peers = "pgveil | AdaSSP | diffprivlib | OpenDP | all 0 | without noise"
        print(f"| regression | | epsilon | {peers} |\n|---|---|{'---:|' * 7}")
        for source, rest in policies.items():
            proxy = Proxy(
                arguments.pgveil,
                os.path.join(directory, source.split()[0]),
                (url, shadow),
                rest,
                max(arguments.epsilon),
                DELTA,
                budget=1e6,
            )
            with proxy.connected() as cursor, contextlib.closing(direct.cursor()) as plain:
                cursor.execute(
                    "SET pgveil.reuse = off; SET pgveil.notices = off; SET pgveil.useless = allow"
                )
                cursors = {"direct": plain, "pgveil": cursor}
                for question in (one for one in QUESTIONS if one[1] == source):
                    for epsilon in arguments.epsilon:
                        compare(question, epsilon, cursors, arguments.runs)
                if source == "people":
                    for epsilon in arguments.epsilon:
                        compare_components(epsilon, cursors, arguments.runs)


if __name__ == "__main__":
    main()
