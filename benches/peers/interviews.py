"""Several rows a unit, for synthetic.py: the demo's interviews, up to 15 of each woman.

pgveil makes up women and, below them, their interviews (docs/summaries.md "Several tables"), from
two summaries that share one price: WOMEN_SHARE of mu squared is for the women's own. The peers know
one table, in which a woman has up to 15 rows: interviews with the columns of their woman. OpenDP
takes that number as its unit's contributions. SmartNoise knows none, so its price is divided by
group privacy, for 15 neighbours in a row.

Missing values are one more value.
"""

import contextlib
import csv
import io
import math
import os
import shutil

import numpy as np
import psycopg2

from adult import Proxy

DATA = os.path.join(os.path.dirname(__file__), "..", "..", "data", "nls_young_women")
MOST = 15
WOMEN_SHARE = 0.2
YEARS = [1968, 1969, 1970, 1971, 1972, 1973, 1975, 1977, 1978, 1980, 1982, 1983, 1985, 1987, 1988]
YES = ["0", "1", ""]
# The values of each column as in the files; their places are the numbers that methods see.
OF_INTERVIEWS = {
    "year": [str(year) for year in YEARS],
    "married": YES,
    "metro": YES,
    "south": YES,
    "union_member": YES,
    "occupation_code": [*(str(code) for code in range(1, 14)), ""],
}
OF_WOMEN = {"race": ["white", "black", "other"], "college_graduate": ["0", "1"]}
SIZES = {column: len(values) for column, values in (OF_INTERVIEWS | OF_WOMEN).items()}


def of_file(name, columns):
    """The rows of a file: the woman's number, then value numbers."""
    with open(os.path.join(DATA, name), newline="") as file:
        return np.array(
            [
                [int(row["woman_id"]), *(columns[c].index(row[c]) for c in columns)]
                for row in csv.DictReader(file)
            ]
        )


def joined(women, rows):
    """Rows, with the columns of their women, without the women's numbers."""
    order = women[np.argsort(women[:, 0])]
    places = np.searchsorted(order[:, 0], rows[:, 0])
    return np.hstack([rows[:, 1:], order[places, 1:]])


def flat():
    return joined(of_file("women.csv", OF_WOMEN), of_file("interviews.csv", OF_INTERVIEWS))


def numbers_of_rows(women):
    """The share of each number of interviews, of women who have any."""
    _, found = np.unique(women, return_counts=True)
    return np.bincount(found, minlength=MOST + 1) / len(found)


def true_numbers():
    return numbers_of_rows(of_file("interviews.csv", OF_INTERVIEWS)[:, 0])


def in_group(epsilon, delta):
    """What one row may cost so that a woman's 15 cost no more: group privacy (Vadhan 2017, lemma
    2.2).
    """
    own = epsilon / MOST
    return own, delta * math.expm1(own) / math.expm1(epsilon)


def load(connection):
    def copied(cursor, table, rows):
        text = io.StringIO()
        csv.writer(text).writerows(rows.tolist())
        text.seek(0)
        cursor.copy_expert(f"COPY {table} FROM STDIN (FORMAT csv)", text)

    declared = lambda columns: ", ".join(f"{column} int NOT NULL" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS interviews, women")
        cursor.execute(f"CREATE TABLE women (woman_id int PRIMARY KEY, {declared(OF_WOMEN)})")
        cursor.execute(
            "CREATE TABLE interviews (interview_id serial PRIMARY KEY, "
            f"woman_id int NOT NULL REFERENCES women, {declared(OF_INTERVIEWS)}, "
            "UNIQUE (woman_id, year))"
        )
        copied(cursor, "women", of_file("women.csv", OF_WOMEN))
        names = ", ".join(["woman_id", *OF_INTERVIEWS])
        copied(cursor, f"interviews ({names})", of_file("interviews.csv", OF_INTERVIEWS))
        cursor.execute("ANALYZE women, interviews")
    connection.commit()


def policy(marginals, prices):
    """The policy's tables, and a summary of each."""
    lines = ["tables:"]
    for table, unit, columns in [
        ("women", "woman_id", OF_WOMEN),
        ("interviews", "{path: [woman_id -> public.women.woman_id]}", OF_INTERVIEWS),
    ]:
        lines += [f"  public.{table}:", f"    unit: {unit}"]
        lines += [f"    rows_per_unit: {MOST}"] if table == "interviews" else []
        lines += ["    columns:"]
        for column, values in columns.items():
            listed = ", ".join(str(at) for at in range(len(values)))
            lines.append(f"      {column}: {{values: [{listed}], complete: true}}")
    keys = [*OF_INTERVIEWS, *(f"women.{column}" for column in OF_WOMEN)]
    of_women = [*OF_WOMEN, "rows(public.interviews)"]
    lines += ["summaries:"]
    for table, of_table, sets, epsilon in [
        ("women", of_women, "all 2", prices[0]),
        ("interviews", keys, marginals, prices[1]),
    ]:
        lines += [f"  {table}:", f"    of: public.{table}", f"    keys: [{', '.join(of_table)}]"]
        lines += [f"    marginals: {sets}", f"    epsilon: {epsilon}"]
    return "\n".join(lines) + "\n"


def delta_of(mu, epsilon):
    """The delta of mu-GDP at an epsilon. Dong, Roth, Su 2019, corollary 2.13."""
    below = lambda x: math.erfc(-x / math.sqrt(2)) / 2
    return below(-epsilon / mu + mu / 2) - math.exp(epsilon) * below(-epsilon / mu - mu / 2)


def least(holds, high=200.0):
    """The least number at which this holds."""
    low = 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def shared(epsilon, delta):
    """The epsilons of two summaries that together cost this much: of women, and of interviews."""
    whole = least(lambda mu: delta_of(mu, epsilon) >= delta, 10.0)
    parts = [whole * math.sqrt(share) for share in [WOMEN_SHARE, 1 - WOMEN_SHARE]]
    return [round(0.9999 * least(lambda e: delta_of(mu, e) <= delta), 6) for mu in parts]


def pgveil(program, directory, urls, marginals, say):
    """Joined rows of `pgveil synth`; the woman's number comes first."""

    def fit(_values, _sizes, epsilon, delta):
        with contextlib.closing(psycopg2.connect(urls[0])) as connection:
            load(connection)
        path = os.path.join(directory, "interviews")
        shutil.rmtree(path, ignore_errors=True)
        rest = policy(marginals, shared(epsilon, delta))
        proxy = Proxy(program, path, urls, rest, epsilon, delta)
        say(proxy.run("summarize", "--yes"))
        proxy.run("synth", "women", "interviews", "--out", os.path.join(path, "rows"))
        women, rows = (
            np.loadtxt(os.path.join(path, "rows", name), delimiter=",", quotechar='"', dtype=int)
            for name in ["01-public.women.csv", "02-public.interviews.csv"]
        )
        return np.hstack([rows[:, :1], joined(women, rows)])

    return fit
