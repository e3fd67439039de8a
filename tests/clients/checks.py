"""What the Python clients share: where to connect, the statements to compare, and a list of checks
that reports each by name.
"""

import os
import sys
import threading
import time
import traceback

HOST = "127.0.0.1"
VEILED = int(os.environ["VEILED_PORT"])
DIRECT = int(os.environ["DIRECT_PORT"])
USER = PASSWORD = "analyst"
DATABASE = "nls"
# A role with a budget for a few questions.
POOR = os.environ["POOR"]
# The tables of tests/clients/shop instead of the demo's.
SHOP = os.environ.get("STAGE") == "shop"

# Names, types, rows and, since the stage draws no noise, values must be PostgreSQL's own.
COMPARED = [
    "SELECT count(*) FROM nls.women",
    "SELECT race, count(*) AS n, avg(years_of_school) FROM nls.women GROUP BY race ORDER BY race",
    "SELECT year, count(*), sum(weeks_unemployed) FROM nls.interviews GROUP BY year ORDER BY year",
    (
        "SELECT year, avg(age), avg(age)::float8 AS f, count(*) > 1000 AS many "
        "FROM nls.interviews GROUP BY 1 ORDER BY 1"
    ),
    (
        "SELECT race || '!' AS shout, count(*) * 2, round(avg(birth_year), 2), "
        "CASE WHEN count(*) > 5 THEN 1 END FROM nls.women GROUP BY race ORDER BY 1"
    ),
    "SELECT industry_code, industry FROM nls.industries ORDER BY 1",
    (
        "SELECT 1, 'a', true, NULL, 1.50, 12345678901, 1.5::float8 AS f, date '2020-02-29', "
        "'x'::text, 2::int2, 7::int8 AS big"
    ),
    "SELECT date '1988-01-01' AS d, count(*) FROM nls.women",
    "SELECT * FROM nls.women LIMIT 0",
    "SELECT birth_year, count(*) FROM nls.women WHERE 1 = 0 GROUP BY birth_year",
]

# The backend works for minutes on this one.
SLOW = (
    "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), "
    "nls.industries a, nls.occupations b, nls.industries c"
)
if SHOP:
    SLOW = (
        "SELECT count(*) FROM orders i JOIN orders j USING (customer), countries a, countries b, "
        "countries c"
    )

_checks = []


def check(first, *more):
    """`@check`, or `@check("tls", "scram")` where it does these items of every client's list."""
    if callable(first):
        _checks.append((first, ()))
        return first

    def named(function):
        _checks.append((function, (first, *more)))
        return function

    return named


def standard(open_session, has_savepoints_of_its_own=False, cancel=None):
    """Checks for any driver, before those of its own: `open_session(user)` gives a function that
    runs one statement and returns its rows, or raises its SQLSTATE as `State`. A driver that sets a
    savepoint before each statement goes on in a transaction after an error. `cancel(ask)` cancels
    what that session runs, from another thread.
    """
    women, number = (
        ("SELECT count(*) FROM nls.women", 4711)
        if not SHOP
        else ("SELECT count(*) FROM orders", 20000)
    )
    rows = "SELECT * FROM nls.women LIMIT 5" if not SHOP else "SELECT * FROM orders LIMIT 5"
    own = len(_checks)

    def refused(ask, state, sql):
        try:
            ask(sql)
        except State as found:
            same(found.args[0], state, sql)
            return
        raise AssertionError(f"{sql} was not refused")

    def spent(ask):
        return ask("SELECT delta_spent, mu_spent, epsilon_spent, rho_spent FROM pgveil.budget")

    @check("list", "describe")
    def tables_and_columns_are_listed():
        ask = open_session()
        if SHOP:
            columns = ask(
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_name = 'Customers' ORDER BY ordinal_position"
            )
            same([str(value) for value in columns[1]], ["Country", "character"])
            return
        tables = ask(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'nls' ORDER BY 1"
        )
        same([str(row[0]) for row in tables], ["industries", "interviews", "occupations", "women"])
        columns = ask(
            "SELECT column_name, data_type FROM information_schema.columns "
            "WHERE table_schema = 'nls' AND table_name = 'women' ORDER BY ordinal_position"
        )
        same([str(value) for value in columns[0]], ["woman_id", "integer"])

    @check("prepared")
    def ten_times_the_same_question_is_one():
        # A role that no other client has, so that its account tells of this alone.
        ask = open_session(POOR)
        if SHOP:
            ask(
                "PREPARE again AS SELECT country, count(*) FROM orders WHERE price > $1 "
                "GROUP BY country ORDER BY country"
            )
        else:
            ask(
                "PREPARE again AS SELECT race, count(*) FROM nls.women WHERE birth_year > $1 "
                "GROUP BY race ORDER BY race"
            )
        first = ask("EXECUTE again(1946)")
        paid = spent(ask)
        for _ in range(10):
            same(ask("EXECUTE again(1946)"), first)
        same(spent(ask), paid)
        ask("DEALLOCATE again")

    @check("cursor")
    def a_cursor_is_read_in_batches():
        ask = open_session()
        ask("BEGIN")
        if SHOP:
            ask(
                "DECLARE c CURSOR FOR SELECT country, state, count(*) FROM orders "
                "WHERE country IN ('DE', 'FR', 'IT', 'NL', 'AT') GROUP BY 1, 2 ORDER BY 1, 2"
            )
        else:
            ask(
                "DECLARE c CURSOR FOR SELECT year, count(*) FROM nls.interviews "
                "GROUP BY year ORDER BY year"
            )
        same([len(ask("FETCH 7 FROM c")) for _ in range(3)], [7, 7, 1])
        ask("CLOSE c")
        ask("COMMIT")

    @check("refused", "transaction", "savepoint")
    def a_refusal_is_recovered_from():
        ask = open_session()
        refused(ask, "42501", rows)
        same(ask(women), [(number,)])
        ask("BEGIN")
        ask("SAVEPOINT s")
        refused(ask, "42501", rows)
        if not has_savepoints_of_its_own:
            refused(ask, "25P02", women)
        ask("ROLLBACK TO SAVEPOINT s")
        same(ask(women), [(number,)])
        ask("COMMIT")

    @check("cancel")
    def a_slow_statement_is_left():
        ask = open_session()
        ask("SET statement_timeout = 300")
        refused(ask, "57014", SLOW)
        ask("SET statement_timeout = 0")
        same(ask(women), [(number,)])

    @check
    def a_slow_statement_is_cancelled():
        if cancel is None:
            return
        ask = open_session()
        ended = threading.Event()

        def insist():
            # One that comes too early finds nothing to cancel.
            while not ended.wait(0.4):
                try:
                    cancel(ask)
                except Exception:
                    # Nothing runs yet, or no longer; or there was no connection, and the next one
                    # may be there.
                    pass

        canceller = threading.Thread(target=insist)
        canceller.start()
        try:
            refused(ask, "57014", SLOW)
        finally:
            ended.set()
            canceller.join()
        same(ask(women), [(number,)])

    @check("pool")
    def a_session_is_reset():
        ask = open_session()
        ask("SET application_name = 'lent'")
        ask("DISCARD ALL")
        assert str(ask("SHOW application_name")[0][0]) != "lent"
        for statement in ["CLOSE ALL", "UNLISTEN *", "RESET ALL"]:
            ask(statement)
        same(ask(women), [(number,)])

    _checks[:] = _checks[own:] + _checks[:own]


class State(Exception):
    """A statement was refused with this SQLSTATE."""


def run(only=os.environ.get("ONLY")):
    failed = 0
    for function, items in _checks:
        if only and only not in function.__name__:
            continue
        started = time.monotonic()
        try:
            function()
            print(f"ok     {function.__name__} {time.monotonic() - started:.2f} s", flush=True)
            if items:
                print("does", *items, flush=True)
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
                assert abs(float(x) - float(y)) <= 1e-9 * max(
                    1.0, abs(float(y))
                ), f"{what}: {x!r}, wanted {y!r}"
            else:
                assert x == y, f"{what}: {x!r}, wanted {y!r}"
