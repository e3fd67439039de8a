"""A dashboard that asks each day: what a year costs, how exact running totals are, and what twelve
values of a filter cost, next to peers.

    python3 -m venv venv && venv/bin/pip install psycopg2-binary numpy smartnoise-sql==1.0.10
    python3 -m venv tumult && tumult/bin/pip install tmlt.analytics==0.21.0
    python3 -m venv jax && jax/bin/pip install jax-privacy==2.0.0
    cargo build --release
    venv/bin/python benches/peers/daily.py --pgveil target/release/pgveil \\
        --tumult tumult/bin/python --jax jax/bin/python

Tumult Analytics needs Java, and jax-privacy other versions than SmartNoise: each is asked by a
separate interpreter, in the same run. What is not given is left out. `--parts` picks from the
three parts:

year     A count for each of 365 days, asked day by day, at the same noise. 3,000 people have a
         visit on at most 30 days. Errors are those of the answers; the epsilon is that of each
         program's account after the last day, at delta 1e-6. Of Tumult Analytics, which is asked
         for every twelfth day, the account is multiplied.
totals   Root mean square errors of the running totals of a horizon, in terms of the noise of one
         count at the same price: as pgveil states them, and as jax-privacy computes for the best
         Toeplitz matrix for as many steps.
regions  `WHERE region = …` for twelve regions, one by one, at the same noise.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from datetime import date, timedelta

import numpy as np
import psycopg2

from adult import Proxy, run_parts
from summaries import SmartNoiseSql, delta_of, least
from synthetic import rho

DAYS, ACTIVE, PEOPLE, DELTA = 365, 30, 3000, 1e-6
# Tumult Analytics takes seconds for a count. It is asked for every twelfth day.
TUMULT_STEP = 12
REGIONS = [f"r{at:02}" for at in range(12)]
# The standard error of a day at which one price for the horizon is epsilon 1.
MU = least(lambda mu: delta_of(mu, 1.0) >= DELTA, 10.0)
DEVIATION = math.sqrt(ACTIVE) / MU

POLICY = """
tables:
  public.people:
    unit: person
    columns:
      region: {{values: [{regions}], complete: true}}
  public.visits:
    unit: {{path: [person -> public.people.person]}}
    periods: {{column: seen, by: day, from: 2025-01-01, close_after: 1d{more}}}
    columns:
      nth: {{bounds: [0, 364]}}
      seen: visible
"""


def made_up(url):
    """The visits, how many each day has, and how many people each region has."""
    dice = np.random.default_rng(3)
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS visits; DROP TABLE IF EXISTS people")
        cursor.execute("CREATE TABLE people (person int PRIMARY KEY, region text NOT NULL)")
        cursor.execute(
            "CREATE TABLE visits (person int NOT NULL REFERENCES people, nth int NOT NULL, "
            "seen date NOT NULL)"
        )
        chosen = dice.integers(len(REGIONS), size=PEOPLE)
        people = [f"({at}, '{REGIONS[region]}')" for at, region in enumerate(chosen)]
        cursor.execute(f"INSERT INTO people VALUES {', '.join(people)}")
        visits = []
        for person in range(PEOPLE):
            days = dice.choice(DAYS, dice.integers(1, ACTIVE + 1), replace=False)
            visits += [(person, int(day)) for day in days]
        rows = [f"({person}, {day}, DATE '2025-01-01' + {day})" for person, day in visits]
        cursor.execute(f"INSERT INTO visits VALUES {', '.join(rows)}")
    counts = np.bincount([day for _, day in visits], minlength=DAYS)
    return visits, counts, np.bincount(chosen, minlength=len(REGIONS))


def epsilon_of(mu):
    return least(lambda epsilon: delta_of(mu, epsilon) <= DELTA)


def rms(errors):
    return math.sqrt(np.mean(np.square(errors)))


@contextlib.contextmanager
def asking(arguments, name, urls, more, mu):
    """A session whose questions each cost mu, and a function that says what its role has spent."""
    directory, url, shadow = urls
    policy = POLICY.format(regions=", ".join(REGIONS), more=more)
    where = os.path.join(directory, name)
    proxy = Proxy(arguments.pgveil, where, (url, shadow), policy, 5, DELTA, budget=1e6)
    with proxy.connected() as cursor:
        cursor.execute("SET pgveil.notices = off; SET pgveil.clip = fixed")
        epsilon = least(lambda epsilon: delta_of(mu, epsilon) <= DELTA)
        cursor.execute(f"SET pgveil.epsilon = {epsilon:.12f}")

        def spent():
            cursor.execute("SELECT mu_spent FROM pgveil.budget")
            return float(cursor.fetchone()[0])

        yield cursor, spent


def by_pgveil(arguments, name, urls, more, mu, counts, asked="count(*)"):
    """The error of a day, and the mu of the year."""
    start, errors = date(2025, 1, 1), []
    with asking(arguments, name, urls, more, mu) as (cursor, spent):
        for day, count in enumerate(counts):
            first, end = start + timedelta(day), start + timedelta(day + 1)
            cursor.execute(
                f"SELECT {asked}, pgveil.stderr({asked}) FROM visits "
                f"WHERE seen >= '{first}' AND seen < '{end}' GROUP BY seen"
            )
            [(answer, deviation)] = cursor.fetchall()
            assert abs(deviation / DEVIATION - 1) < 0.02, deviation
            errors.append(float(answer) - count)
        return rms(errors), spent()


def by_smartnoise(url, counts):
    """As many counts, with Laplace noise of that deviation. Its SQL has no column named day."""
    columns = {"nth": ("int", {"lower": 0, "upper": DAYS - 1})}
    peer = SmartNoiseSql(url, columns, "person", "public.visits")
    reader = peer.reader(math.sqrt(2) / DEVIATION, DELTA)
    errors = []
    for day, count in enumerate(counts):
        text = f"SELECT COUNT(*) AS n FROM public.visits WHERE nth = {day}"
        errors.append(float(reader.execute(text)[1][0]) - count)
    return rms(errors), reader.odometer.spent


TUMULT = """
import json, math, sys
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID, KeySet, MaxGroupsPerID, MaxRowsPerGroupPerID, MaxRowsPerID, QueryBuilder,
    RhoZCDPBudget, Session,
)
visits, days, some, active, deviation = json.load(sys.stdin)
builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", 1)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.createDataFrame(visits, ["person", "day"]).cache()

def session(rho):
    builder = Session.Builder().with_privacy_budget(RhoZCDPBudget(rho)).with_id_space("people")
    protected = AddRowsWithID("person", "people")
    return builder.with_private_dataframe("visits", rows, protected_change=protected).build()

daily = 1 / (2 * deviation**2)
asked, single = session(days * daily * 1.000001), []
for day in some:
    query = QueryBuilder("visits").filter(f"day = {day}").enforce(MaxRowsPerID(1)).count()
    single.append(asked.evaluate(query, RhoZCDPBudget(daily)).collect()[0][0])
spent = days * daily - asked.remaining_privacy_budget.value.to_float(round_up=False)
query = QueryBuilder("visits").enforce(MaxGroupsPerID("day", active))
query = query.enforce(MaxRowsPerGroupPerID("day", 1))
query = query.groupby(KeySet.from_dict({"day": list(range(days))})).count()
whole = active * daily
found = session(whole).evaluate(query, RhoZCDPBudget(whole)).collect()
at_once = {row["day"]: row["count"] for row in found}
print(json.dumps([single, spent, [at_once[d] for d in range(days)], whole]))
"""


def by_tumult(python, directory, visits, counts):
    """Two lines: day by day, and all days at once when the year is over."""
    some = list(range(0, DAYS, TUMULT_STEP))
    given = json.dumps([visits, DAYS, some, ACTIVE, DEVIATION])
    done = subprocess.run(
        [python, "-c", TUMULT],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        env=os.environ | {"PYSPARK_PYTHON": python},
    )
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    single, spent, at_once, whole = json.loads(done.stdout.splitlines()[-1])
    as_epsilon = lambda budget: least(lambda epsilon: rho(epsilon, DELTA) >= budget)
    error, of_year = rms(np.array(single) - counts[some]), spent * DAYS / len(some)
    yield "Tumult Analytics, day by day", error, as_epsilon(of_year)
    name = "Tumult Analytics, once when the year is over, 30 days a person"
    yield name, rms(np.array(at_once) - counts), as_epsilon(whole)


def year(arguments, urls):
    visits, counts, _ = made_up(urls[1])
    print("| | error of a day | epsilon of the year |\n|---|---:|---:|")

    def printed(name, error, epsilon):
        print(f"| {name} | {error:.1f} | {epsilon:.2f} |", flush=True)

    horizon = f", per_unit: {ACTIVE}, horizon: {DAYS}, rows: 1, append_only: true"
    error, mu = by_pgveil(arguments, "horizon", urls, horizon, MU, counts)
    printed("pgveil, one price for the horizon, drawn day by day", error, epsilon_of(mu))
    # As many as there are visits, and known to be at most one a person without a limit of rows.
    people = "count(DISTINCT person)"
    error, mu = by_pgveil(arguments, "days", urls, "", 1 / DEVIATION, counts, people)
    printed("pgveil, each day bought", error, epsilon_of(mu))
    if arguments.tumult:
        for line in by_tumult(os.path.abspath(arguments.tumult), urls[0], visits, counts):
            printed(*line)
    try:
        error, (epsilon, _) = by_smartnoise(urls[1], counts)
        printed("SmartNoise SQL, day by day", error, epsilon)
    except ImportError as failure:
        print(f"SmartNoise SQL left out: {failure!r}", file=sys.stderr)


TOEPLITZ = """
import json, sys
import numpy as np
from jax_privacy.matrix_factorization import toeplitz
found = []
for steps in json.load(sys.stdin):
    coefficients = toeplitz.optimal_max_error_strategy_coefs(steps)
    errors = np.array(toeplitz.per_query_error(strategy_coef=coefficients, n=steps))
    found.append(float(np.sqrt(errors.mean() * toeplitz.sensitivity_squared(coefficients, steps))))
print(json.dumps(found))
"""


def totals(arguments, urls):
    made_up(urls[1])
    horizons, found = [30, 90, 365], []
    for days in horizons:
        more = f", per_unit: 1, horizon: {days}, rows: 1, append_only: true, answers: totals"
        with asking(arguments, f"totals{days}", urls, more, MU) as (cursor, _):
            end = date(2025, 1, 1) + timedelta(days)
            cursor.execute(
                "SELECT pgveil.stderr(sum(count(*)) OVER (ORDER BY seen)) FROM visits "
                f"WHERE seen >= '2025-01-01' AND seen < '{end}' GROUP BY seen ORDER BY seen"
            )
            found.append(rms([float(of) for (of,) in cursor.fetchall()]) * MU)
    lines = {"pgveil": found}
    if arguments.jax:
        done = subprocess.run(
            [arguments.jax, "-c", TOEPLITZ],
            input=json.dumps(horizons),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        lines["jax-privacy, the best Toeplitz matrix"] = json.loads(done.stdout)
    lines["a sum of separate days"] = [math.sqrt((days + 1) / 2) for days in horizons]
    print(f"| | {' | '.join(f'{days} days' for days in horizons)} |\n|---|---:|---:|---:|")
    for name, of in lines.items():
        print(f"| {name} | {' | '.join(f'{one:.3f}' for one in of)} |", flush=True)


def regions(arguments, urls):
    counts, deviation = made_up(urls[1])[2], 10.0
    print("| | error of a count | mu | epsilon |\n|---|---:|---:|---:|")

    def printed(name, errors, mu, epsilon):
        spent = f"{mu:.3f}" if mu else ""
        print(f"| {name} | {rms(errors):.1f} | {spent} | {epsilon:.2f} |", flush=True)

    for widen in ["on", "off"]:
        with asking(arguments, f"widen_{widen}", urls, "", 1 / deviation) as (cursor, spent):
            cursor.execute(f"SET pgveil.widen = {widen}")
            errors = []
            for region, count in zip(REGIONS, counts, strict=True):
                cursor.execute(f"SELECT count(*) FROM people WHERE region = '{region}'")
                errors.append(float(cursor.fetchone()[0]) - count)
            mu = spent()
            printed(f"pgveil, `pgveil.widen = {widen}`", errors, mu, epsilon_of(mu))
    try:
        columns = {"region": ("string", {})}
        reader = SmartNoiseSql(urls[1], columns, "person", "public.people").reader(
            math.sqrt(2) / deviation, DELTA
        )
        text = "SELECT COUNT(*) AS n FROM public.people WHERE region = '{}'"
        answers = [float(reader.execute(text.format(of))[1][0]) for of in REGIONS]
        printed("SmartNoise SQL", np.array(answers) - counts, None, reader.odometer.spent[0])
    except ImportError as failure:
        print(f"SmartNoise SQL left out: {failure!r}", file=sys.stderr)


run_parts(
    {"year": year, "totals": totals, "regions": regions},
    __doc__,
    {
        "--tumult": {"help": "a Python that has Tumult Analytics"},
        "--jax": {"help": "a Python that has jax-privacy"},
    },
)
