"""psycopg2 against pgveil: the simple protocol alone."""

import datetime
import decimal
import io

import psycopg2
from psycopg2 import errors

from checks import (
    COMPARED,
    DATABASE,
    DIRECT,
    HOST,
    PASSWORD,
    POOR,
    SLOW,
    USER,
    VEILED,
    State,
    check,
    close,
    run,
    same,
    standard,
)

WOMEN = "SELECT count(*) FROM nls.women"


def veiled(autocommit=True, **changed):
    connection = psycopg2.connect(
        **dict(
            host=HOST, port=VEILED, user=USER, password=PASSWORD, dbname=DATABASE, sslmode="require"
        )
        | changed
    )
    connection.autocommit = autocommit
    return connection


def ask(connection, sql, values=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall()


def refused(error, connection, sql):
    try:
        ask(connection, sql)
    except error as found:
        return found
    raise AssertionError(f"{sql} was not refused")


@check("tls", "scram")
def connects():
    for mode in ["require", "disable"]:
        same(ask(veiled(sslmode=mode), "SELECT 1"), [(1,)])
    for changed, text in [
        (dict(password="wrong"), "password authentication failed"),
        (dict(dbname="elsewhere"), "does not exist"),
    ]:
        try:
            veiled(**changed)
        except psycopg2.OperationalError as error:
            assert text in str(error), error
            continue
        raise AssertionError(f"{changed} was let in")


@check("text")
def names_types_and_rows_are_postgresqls():
    mine = veiled()
    theirs = psycopg2.connect(host=HOST, port=DIRECT, user="postgres", dbname=DATABASE)
    for sql in COMPARED:
        with mine.cursor() as a, theirs.cursor() as b:
            a.execute(sql)
            b.execute(sql)
            same(
                [(c.name, c.type_code, c.internal_size) for c in a.description],
                [(c.name, c.type_code, c.internal_size) for c in b.description],
                sql,
            )
            close(a.fetchall(), b.fetchall(), sql)
    sql = (
        "SELECT race, count(*) FROM nls.women WHERE birth_year > %s AND race <> %s "
        "AND %s < %s::date AND %s < 2.5 GROUP BY race ORDER BY race"
    )
    values = [
        1947,
        "it's \\ ä",
        datetime.date(2020, 1, 1),
        datetime.date(2021, 1, 1),
        decimal.Decimal("1.50"),
    ]
    for _ in range(10):
        same(ask(mine, sql, values), ask(theirs, sql, values))


@check
def errors_transactions_and_notices():
    connection = veiled(autocommit=False)
    same(ask(connection, WOMEN), [(4711,)])
    error = refused(errors.InsufficientPrivilege, connection, "SELECT * FROM nls.women LIMIT 5")
    assert "count(*)" in error.diag.message_detail
    refused(errors.InFailedSqlTransaction, connection, "SELECT 1")
    connection.rollback()
    same(ask(connection, "SELECT 1"), [(1,)])
    connection.commit()
    connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
    same(ask(connection, "SHOW transaction_isolation"), [("repeatable read",)])
    connection.rollback()
    assert any("privacy cost" in notice for notice in connection.notices), connection.notices
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT 1; {WOMEN}")
        same(cursor.fetchall(), [(4711,)])
    connection.rollback()
    connection.autocommit = True
    ask(connection, "SET statement_timeout = 300; SELECT 1")
    refused(errors.QueryCanceled, connection, SLOW)
    connection.reset()


@check
def named_cursors_and_copies():
    sql = (
        "SELECT year, race, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) "
        "WHERE year > %s GROUP BY year, race ORDER BY year, race"
    )
    found = []
    for connection in [
        veiled(autocommit=False),
        psycopg2.connect(host=HOST, port=DIRECT, user="postgres", dbname=DATABASE),
    ]:
        with connection.cursor(name="c", scrollable=True) as cursor:
            cursor.itersize = 7
            cursor.execute(sql, [1970])
            rows = list(cursor)
            cursor.scroll(2, mode="absolute")
            rows.append(cursor.fetchone())
        connection.commit()
        with connection.cursor(name="h", withhold=True) as cursor:
            cursor.execute(sql, [1970])
            connection.commit()
            rows += cursor.fetchall()
        out = io.StringIO()
        with connection.cursor() as cursor:
            cursor.copy_expert(
                (
                    "COPY (SELECT race, count(*) FROM nls.women GROUP BY race "
                    "ORDER BY race) TO STDOUT CSV HEADER"
                ),
                out,
            )
        connection.close()
        found.append((rows, out.getvalue()))
    same(found[0], found[1])


@check
def an_exhausted_budget():
    connection = veiled(user=POOR)
    try:
        for year in range(50):
            ask(connection, f"{WOMEN} WHERE birth_year > {year}")
    except errors.ConfigurationLimitExceeded as error:
        assert "needs" in str(error) and "left" in str(error)
    else:
        raise AssertionError("never exhausted")
    same(ask(connection, "SELECT 1"), [(1,)])


def session(user=USER):
    connection = veiled(user=user)

    def ask(sql):
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()] if cursor.description else None
        except psycopg2.Error as error:
            raise State(error.pgcode) from None

    ask.connection = connection
    return ask


standard(session, cancel=lambda ask: ask.connection.cancel())
run()
