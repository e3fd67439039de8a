"""What the Python clients share: where to connect, the statements to compare, and a list of checks that reports each by name."""

import os
import sys
import time
import traceback

HOST = "127.0.0.1"
VEILED = int(os.environ["VEILED_PORT"])
DIRECT = int(os.environ["DIRECT_PORT"])
USER = PASSWORD = "analyst"
DATABASE = "nls"
# A role with a budget for a few questions.
POOR = os.environ["POOR"]

# Names, types, rows and, since the stage draws no noise, values must be PostgreSQL's own.
COMPARED = [
    "SELECT count(*) FROM nls.women",
    "SELECT race, count(*) AS n, avg(years_of_school) FROM nls.women GROUP BY race ORDER BY race",
    "SELECT year, count(*), sum(weeks_unemployed) FROM nls.interviews GROUP BY year ORDER BY year",
    "SELECT year, avg(age), avg(age)::float8 AS f, count(*) > 1000 AS many FROM nls.interviews GROUP BY 1 ORDER BY 1",
    "SELECT race || '!' AS shout, count(*) * 2, round(avg(birth_year), 2), CASE WHEN count(*) > 5 THEN 1 END FROM nls.women GROUP BY race ORDER BY 1",
    "SELECT industry_code, industry FROM nls.industries ORDER BY 1",
    "SELECT 1, 'a', true, NULL, 1.50, 12345678901, 1.5::float8 AS f, date '2020-02-29', 'x'::text, 2::int2, 7::int8 AS big",
    "SELECT date '1988-01-01' AS d, count(*) FROM nls.women",
    "SELECT * FROM nls.women LIMIT 0",
    "SELECT birth_year, count(*) FROM nls.women WHERE 1 = 0 GROUP BY birth_year",
]

# The backend works for minutes on this one.
SLOW = "SELECT count(*) FROM nls.interviews i, nls.industries a, nls.occupations b, nls.industries c, nls.occupations d, nls.industries e"

_checks = []


def check(function):
    _checks.append(function)
    return function


def run(only=os.environ.get("ONLY")):
    failed = 0
    for function in _checks:
        if only and only not in function.__name__:
            continue
        started = time.monotonic()
        try:
            function()
            print(f"ok     {function.__name__} {time.monotonic() - started:.2f} s", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {function.__name__}", flush=True)
            traceback.print_exc(limit=-3, chain=False, file=sys.stdout)
    sys.exit(1 if failed else 0)


def same(found, wanted, what=""):
    assert found == wanted, f"{what}: found {found!r}, wanted {wanted!r}"


def close(found, wanted, what=""):
    """Equal rows; numbers to nine digits, since an average is a ratio of two released sums."""
    import decimal

    assert len(found) == len(wanted), f"{what}: {len(found)} rows, wanted {len(wanted)}"
    for a, b in zip(found, wanted):
        for x, y in zip(a, b, strict=True):
            assert type(x) is type(y), f"{what}: {x!r} and {y!r}"
            if isinstance(x, (float, decimal.Decimal)):
                assert abs(float(x) - float(y)) <= 1e-9 * max(1.0, abs(float(y))), f"{what}: {x!r}, wanted {y!r}"
            else:
                assert x == y, f"{what}: {x!r}, wanted {y!r}"
