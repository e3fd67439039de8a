"""How the price of a logistic regression is best divided over Newton's steps, and how near to the
least possible error that is. A simulation without a database; the rows are those of regression.py,
and made-up ones whose features nearly determine y.

    venv/bin/pip install numpy scipy diffprivlib==0.6.6 'scikit-learn<1.6'
    venv/bin/python benches/peers/newton.py

A line is one way to divide: the number of steps, the ratio of mu squared from one step to the next,
how many of the last coefficients are averaged (weighed by mu squared), and the weight of the second
derivatives in the step's vector (1 is the same noise as the gradient's). Printed is the root mean
square error of the coefficients, without the constant, as a multiple of the *floor*: one gradient
with all of mu, at the optimum, and the second derivatives known exactly. No method that releases a
gradient of these rows with Gaussian noise is below it, but by shrinking. diffprivlib is a multiple
of the same floor. A run takes half an hour; `--sources strong --runs 12 --peer-runs 3` is the part
of many rows.
"""

import argparse
import csv
import math
import os
import warnings

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from adult import made_up

DELTA = 1e-6
DATA = os.path.join(os.path.dirname(__file__), "..", "..", "data", "nls_young_women")

# Steps, ratio, averaged, weight of the second derivatives; pgveil's own first.
WAYS = [
    (6, 2, 2, 1),
    (6, 2, 3, 1),
    (6, 2, 2, 0.5),
    (6, 2, 2, 2),
    (6, 3, 2, 1),
    (5, 2, 2, 1),
    (4, 2, 2, 1),
    (3, 4, 2, 1),
]


def mu_of(epsilon):
    def over(mu):
        one, two = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
        return norm.cdf(one) - math.exp(epsilon) * norm.cdf(two) - DELTA

    return brentq(over, 1e-6, 50)


def people():
    """As in regression.py: income by six features. One row a unit."""
    values = made_up()
    names = ["sex", "race", "age", "education", "marital", "occupation", "relationship", "income"]
    column = {name: values[:, at] for at, name in enumerate(names)}
    features = [
        2 * column["age"] / 7 - 1,
        2 * column["sex"] - 1,
        *(2 * (column["education"] == value) - 1 for value in (0, 1)),
        *(2 * (column["marital"] == value) - 1 for value in (0, 1)),
    ]
    return np.column_stack(features).astype(float), column["income"].astype(float), 1


def interviews():
    """As in regression.py: married by three features. 15 rows a unit."""
    with open(os.path.join(DATA, "interviews.csv")) as file:
        rows = list(csv.DictReader(file))
    columns = [("age", 14, 46), ("hours_per_week", 0, 100), ("south", 0, 1), ("married", 0, 1)]
    rows = [row for row in rows if all(row[name] for name, _, _ in columns)]
    scaled = [
        [2 * (min(max(float(row[name]), low), high) - low) / (high - low) - 1 for row in rows]
        for name, low, high in columns
    ]
    return np.column_stack(scaled[:3]), (np.array(scaled[3]) + 1) / 2, 15


def strong():
    """Features that nearly determine y, of many people. One row a unit."""
    dice = np.random.default_rng(3)
    x = dice.uniform(-1, 1, (500_000, 4))
    chance = 1 / (1 + np.exp(1 - x @ np.array([3, -2, 2, 1])))
    return x, (dice.uniform(size=len(x)) < chance).astype(float), 1


def wide():
    """As many features as pgveil takes, the constant among them. One row a unit."""
    dice = np.random.default_rng(4)
    x = dice.uniform(-1, 1, (100_000, 15))
    chance = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 15)))
    return x, (dice.uniform(size=len(x)) < chance).astype(float), 1


def derivatives(x, y, coef):
    chance = 1 / (1 + np.exp(-x @ coef))
    return x.T @ (y - chance), (x.T * (chance * (1 - chance))) @ x


def optimum(x, y):
    coef = np.zeros(x.shape[1])
    for _ in range(30):
        gradient, hessian = derivatives(x, y, coef)
        coef += np.linalg.solve(hessian, gradient)
    return coef, hessian


def newton(x, y, rows, mu, way, dice):
    steps, ratio, averaged, weight = way
    size = x.shape[1]
    shares = ratio ** np.arange(steps, dtype=float)
    shares /= shares.sum()
    length = rows * math.sqrt(size + weight**2 * size * (size + 1) / 32 + 1 / 16)
    coef, each = np.zeros(size), []
    for share in shares:
        gradient, hessian = derivatives(x, y, coef)
        deviation = length / mu / math.sqrt(share)
        gradient = gradient + deviation * dice.normal(size=size)
        noise = np.tril(deviation / weight * dice.normal(size=(size, size)))
        hessian = hessian + noise + np.tril(noise, -1).T
        values, vectors = np.linalg.eigh(hessian)
        values = np.maximum(values, 2 * deviation / weight * math.sqrt(size))
        step = vectors @ ((vectors.T @ gradient) / values)
        long = np.linalg.norm(step)
        coef = coef + step * min(1, 2 / long)
        each.append(coef)
    last = shares[-averaged:]
    return np.average(each[-averaged:], axis=0, weights=last)


def diffprivlib(x, y, rows, epsilon):
    from diffprivlib.models import LogisticRegression

    norm_of_row = math.sqrt(x.shape[1] - 1)
    model = LogisticRegression(epsilon=epsilon / rows, data_norm=norm_of_row, max_iter=1000)
    return model.fit(x[:, 1:], y).coef_.ravel()


SOURCES = {"people": people, "interviews": interviews, "strong": strong, "wide": wide}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=150)
    parser.add_argument("--peer-runs", type=int, default=20)
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.sources:
        x, y, rows = SOURCES[name]()
        x = np.column_stack([np.ones(len(x)), x])
        true, hessian = optimum(x, y)
        inverse = np.linalg.inv(hessian)
        spread = math.sqrt(np.mean(np.diag(inverse @ inverse)[1:]))
        print(f"{name}: {len(x)} rows, {x.shape[1]} coefficients")
        for epsilon in (0.1, 1.0, 3.0):
            mu = mu_of(epsilon)
            floor = rows * math.sqrt(x.shape[1]) / mu * spread

            def error(fits):
                return math.sqrt(np.mean([(fit - true[1:]) ** 2 for fit in fits])) / floor

            print(f"  epsilon {epsilon:g}: mu {mu:.4f}, floor {floor:.3g}")
            for way in WAYS:
                dice = np.random.default_rng(1)
                fits = [newton(x, y, rows, mu, way, dice)[1:] for _ in range(arguments.runs)]
                print("    steps %d, ratio %d, averaged %d, weight %g: " % way, end="")
                print(f"{error(fits):.2f}", flush=True)
            try:
                fits = [diffprivlib(x, y, rows, epsilon) for _ in range(arguments.peer_runs)]
                print(f"    diffprivlib: {error(fits):.2f}", flush=True)
            except ImportError:
                pass


if __name__ == "__main__":
    main()
