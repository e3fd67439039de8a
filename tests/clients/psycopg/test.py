"""psycopg 3 against pgveil."""

import datetime
import decimal
import threading
import time

import psycopg
from psycopg import errors

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


def veiled(**changed):
    options = (
        dict(
            host=HOST,
            port=VEILED,
            user=USER,
            password=PASSWORD,
            dbname=DATABASE,
            autocommit=True,
            sslmode="disable",
        )
        | changed
    )
    return psycopg.connect(**options)


def direct():
    return psycopg.connect(
        host=HOST, port=DIRECT, user="postgres", dbname=DATABASE, autocommit=True
    )


def refused(error, connection, sql, *arguments, **options):
    """The error is of this class, and the connection goes on after it."""
    try:
        connection.execute(sql, *arguments, **options).fetchall()
    except error as found:
        return found.diag
    raise AssertionError(f"{sql} was not refused")


@check("tls", "scram")
def connects_with_and_without_tls():
    for mode, tls in [("require", True), ("disable", False), ("prefer", True)]:
        with veiled(sslmode=mode) as connection:
            same(connection.pgconn.ssl_in_use, tls, mode)
            same(connection.execute("SELECT 1").fetchone(), (1,))
    with veiled(sslmode="require", channel_binding="require") as connection:
        same(connection.execute("SELECT 1").fetchone(), (1,))


@check
def wrong_passwords_users_and_databases_are_refused():
    for changed, text in [
        (dict(password="wrong"), 'FATAL:  password authentication failed for user "analyst"'),
        (dict(user="nobody"), 'FATAL:  password authentication failed for user "nobody"'),
        (dict(dbname="elsewhere"), 'FATAL:  database "elsewhere" does not exist'),
    ]:
        try:
            veiled(**changed)
        except psycopg.OperationalError as error:
            assert text in str(error), error
            continue
        raise AssertionError(f"{changed} was let in")


@check
def says_what_server_it_is():
    with (
        veiled(
            application_name="a test", options="-c search_path=nls,public -c statement_timeout=50s"
        ) as connection,
        direct() as real,
    ):
        assert connection.execute("SELECT version()").fetchone()[0].startswith("PostgreSQL ")
        same(
            connection.execute("SHOW server_version").fetchone()[0].split()[0],
            real.execute("SHOW server_version").fetchone()[0].split()[0],
        )
        same(connection.info.server_version, real.info.server_version)
        same(connection.execute("SHOW transaction_isolation").fetchone(), ("read committed",))
        same(connection.execute("SHOW application_name").fetchone(), ("a test",))
        same(connection.execute("SHOW statement_timeout").fetchone(), ("50s",))
        same(connection.execute("SELECT current_database()").fetchone(), (DATABASE,))
        same(
            connection.execute("SELECT count(*) FROM women").fetchone(),
            real.execute(WOMEN).fetchone(),
        )
        for name in [
            "client_encoding",
            "DateStyle",
            "TimeZone",
            "integer_datetimes",
            "standard_conforming_strings",
            "IntervalStyle",
        ]:
            same(connection.info.parameter_status(name), real.info.parameter_status(name), name)


@check
def names_types_and_rows_are_postgresqls():
    with veiled() as connection, direct() as real:
        for sql in COMPARED:
            for binary in [False, True]:
                with connection.cursor(binary=binary) as mine, real.cursor(binary=binary) as theirs:
                    mine.execute(sql)
                    theirs.execute(sql)
                    # Names, type OIDs, sizes and modifiers.
                    columns = lambda cursor: [
                        (c.name, c.type_code, c.internal_size, c.precision, c.scale)
                        for c in cursor.description
                    ]
                    same(columns(mine), columns(theirs), sql)
                    close(mine.fetchall(), theirs.fetchall(), sql)
                    same(mine.statusmessage, theirs.statusmessage, sql)


@check("text", "binary")
def binds_parameters_of_many_types_in_text_and_binary():
    cases = [
        ("SELECT count(*) FROM nls.women WHERE birth_year >= %s", [1948]),
        ("SELECT count(*) FROM nls.women WHERE birth_year >= %s AND race = %s", [1948, "black"]),
        ("SELECT count(*) FROM nls.women WHERE race = %s", ["it's"]),
        ("SELECT count(*) FROM nls.women WHERE race = %s", [None]),
        ("SELECT count(*) FROM nls.interviews WHERE hourly_wage < %s", [decimal.Decimal("7.25")]),
        ("SELECT count(*) FROM nls.interviews WHERE experience_years < %s", [7.25]),
        ("SELECT count(*) FROM nls.women WHERE %s", [True]),
        (
            "SELECT count(*) FROM nls.women WHERE birth_year > extract(year from %s::date)",
            [datetime.date(1947, 2, 28)],
        ),
        (
            (
                "SELECT race, count(*) FROM nls.women WHERE birth_year BETWEEN %s AND %s "
                "GROUP BY race ORDER BY race"
            ),
            [1945, 1950],
        ),
        ("SELECT count(*) + %s FROM nls.women", [10**12]),
        (
            "SELECT %s::int, %s::text, %s::date, %s::numeric, %s::int8",
            [1, "ä", datetime.date(2020, 2, 29), decimal.Decimal("1.50"), None],
        ),
        ("SELECT birth_year + %s AS k, count(*) FROM nls.women GROUP BY 1 ORDER BY 1", [1]),
    ]
    with veiled() as connection, direct() as real:
        for sql, values in cases:
            for mark in ["%s", "%b", "%t"]:
                if mark == "%b" and None in values:
                    continue
                marked = sql.replace("%s", mark)
                mine, theirs = connection.execute(marked, values), real.execute(marked, values)
                same(
                    [(c.name, c.type_code) for c in mine.description],
                    [(c.name, c.type_code) for c in theirs.description],
                    marked,
                )
                close(mine.fetchall(), theirs.fetchall(), f"{marked} {values}")


@check
def a_prepared_statement_runs_again_and_again():
    with veiled() as connection, direct() as real:
        for year in range(1944, 1954):
            sql = (
                "SELECT race, count(*) FROM nls.women WHERE birth_year < %s GROUP BY race "
                "ORDER BY race"
            )
            same(
                connection.execute(sql, [year], prepare=True).fetchall(),
                real.execute(sql, [year]).fetchall(),
            )
        for _ in range(10):
            same(
                connection.execute(
                    "SELECT count(*) FROM nls.women WHERE race = %s", ["other"]
                ).fetchone(),
                (57,),
            )
        connection.execute("DEALLOCATE ALL")
        same(connection.execute("SELECT 1", prepare=True).fetchone(), (1,))


@check
def rows_stream():
    sql = (
        "SELECT year, race, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) "
        "GROUP BY year, race ORDER BY year, race"
    )
    with veiled() as connection, direct() as real:
        wanted = real.execute(sql).fetchall()
        with connection.cursor() as cursor:
            same(list(cursor.stream(sql)), wanted)
            same(list(cursor.stream(sql, size=7)), wanted)
            cursor.execute(sql)
            same(cursor.fetchmany(10) + cursor.fetchall(), wanted)


@check
def a_refused_preview_leaves_the_connection_whole():
    with veiled(autocommit=False) as connection:
        connection.rollback()
        connection.autocommit = True
        diag = refused(errors.InsufficientPrivilege, connection, "SELECT * FROM nls.women LIMIT 5")
        assert (
            "rows of a private table" in diag.message_primary and "count(*)" in diag.message_detail
        ), diag.message_primary
        same(diag.severity_nonlocalized, "ERROR")
        same(connection.info.transaction_status.name, "IDLE")
        same(connection.execute(WOMEN).fetchone(), (4711,))
        refused(errors.SyntaxError, connection, "SELEC 1")
        refused(errors.UndefinedTable, connection, "SELECT count(*) FROM nls.nowhere")
        refused(errors.UndefinedColumn, connection, "SELECT count(shoe_size) FROM nls.women")
        refused(errors.InsufficientPrivilege, connection, "DELETE FROM nls.women")
        refused(errors.InsufficientPrivilege, connection, "CREATE TABLE t (a int)")
        same(connection.execute("SELECT 1").fetchone(), (1,))


@check
def transactions_and_savepoints():
    with veiled(autocommit=False) as connection:
        same(connection.execute(WOMEN).fetchone(), (4711,))
        same(connection.info.transaction_status.name, "INTRANS")
        connection.commit()
        with connection.transaction():
            connection.execute("SELECT 1")
            try:
                with connection.transaction():
                    connection.execute("SELECT * FROM nls.women")
            except errors.InsufficientPrivilege:
                pass
            same(connection.execute(WOMEN).fetchone(), (4711,))
        refused(errors.InsufficientPrivilege, connection, "SELECT * FROM nls.women")
        same(connection.info.transaction_status.name, "INERROR")
        refused(errors.InFailedSqlTransaction, connection, WOMEN)
        refused(errors.InFailedSqlTransaction, connection, "SELECT 1")
        connection.rollback()
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        same(connection.execute("SHOW transaction_isolation").fetchone(), ("repeatable read",))
        same(connection.execute("SHOW transaction_read_only").fetchone(), ("on",))
        connection.rollback()


@check
def several_statements_in_one_string():
    with veiled() as connection:
        cursor = connection.execute(f"SELECT 1; {WOMEN}; SHOW server_version; BEGIN; COMMIT;")
        found = []
        while True:
            found.append(cursor.statusmessage)
            if not cursor.nextset():
                break
        same(found, ["SELECT 1", "SELECT 1", "SHOW", "BEGIN", "COMMIT"])
        same(connection.execute("").statusmessage, None)
        same(connection.execute(" ; -- nothing\n").statusmessage, None)
        same(connection.pgconn.exec_(b"").status, psycopg.pq.ExecStatus.EMPTY_QUERY)


@check
def notices_tell_the_charge():
    with veiled() as connection:
        heard = []
        connection.add_notice_handler(
            lambda diag: heard.append((diag.severity, diag.message_primary))
        )
        connection.execute(WOMEN)
        print("      ", heard)
        assert (
            heard
            and heard[0][0] == "NOTICE"
            and "privacy cost" in heard[0][1]
            and "left" in heard[0][1]
        ), heard
        heard.clear()
        connection.execute("SELECT 1")
        connection.execute("SET pgveil.notices = off")
        connection.execute(WOMEN)
        same(heard, [])


def cancelled(connection, sql, has_begun=lambda: True):
    """Cancels until the statement ends: one that comes too early finds nothing to cancel."""
    ended, sent = threading.Event(), []

    def cancel():
        while not ended.wait(0.5):
            if not sent and not has_begun():
                continue
            sent.append(time.monotonic())
            try:
                connection.cancel_safe(timeout=5)
            except psycopg.Error:
                pass

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        diag = refused(errors.QueryCanceled, connection, sql)
    finally:
        now = time.monotonic()
        ended.set()
        thread.join()
    print(f"       {diag.message_primary}: {diag.message_detail} ({now - sent[0]:.2f} s)")
    same(connection.execute("SELECT 1").fetchone(), (1,))


@check
def types_are_looked_up():
    from psycopg.types import TypeInfo
    from psycopg.types.enum import EnumInfo

    with veiled() as connection:
        same(TypeInfo.fetch(connection, "hstore"), None)
        same(EnumInfo.fetch(connection, "nothing"), None)
        same(TypeInfo.fetch(connection, "numeric").oid, 1700)
        rows = connection.execute(
            "SELECT relname FROM pg_catalog.pg_class WHERE oid = %s::regclass", ["nls.women"]
        ).fetchall()
        same(rows, [("women",)])


@check
def a_working_statement_is_cancelled():
    # No other client's slow statement reads this column: theirs may go on behind a client that has
    # left them.
    slow = f"{SLOW} WHERE i.hourly_wage > 0"
    age = "SELECT max(extract(epoch FROM now() - query_start)) FROM pg_stat_activity"
    running = (
        f"{age} WHERE state = 'active' AND query LIKE '%occupations%' "
        "AND query LIKE '%hourly_wage%' AND pid <> pg_backend_pid()"
    )
    with veiled() as connection, direct() as real:
        seconds = lambda: real.execute(running).fetchone()[0]

        def is_stopped():
            longest = 0
            cancelled(connection, slow, lambda: seconds() is not None)
            while (found := seconds()) is not None:
                longest = found
                time.sleep(0.1)
            return longest < 4.5

        # The database stops too, before its own limit of five seconds. A busy machine may stall for
        # as long, though not each time.
        assert any(is_stopped() for _ in range(3)), "it still runs on the database"
        same(connection.execute(WOMEN).fetchone(), (4711,))


@check
def a_statement_that_waits_for_a_lock_is_cancelled():
    # A question of this check alone, which does not queue behind those that other clients have
    # left.
    slow = f"{SLOW} WHERE i.hourly_wage > 1"
    with veiled() as connection, direct() as real:
        with real.transaction():
            real.execute("LOCK TABLE nls.occupations IN ACCESS EXCLUSIVE MODE")
            cancelled(connection, slow)
            diag = refused(errors.LockNotAvailable, connection, slow)
            same(diag.message_detail, "Nothing was charged.")
        same(connection.execute(WOMEN).fetchone(), (4711,))


@check
def the_clients_own_statement_timeout_ends_its_wait():
    with veiled() as connection:
        connection.execute("SET statement_timeout = '500ms'")
        diag = refused(errors.QueryCanceled, connection, SLOW)
        assert "statement timeout" in diag.message_primary
        connection.execute("RESET statement_timeout")
        # The session goes on while the statement still runs.
        started = time.monotonic()
        same(connection.execute("SELECT 1").fetchone(), (1,))
        assert time.monotonic() - started < 4


@check
def an_exhausted_budget_says_what_is_needed_and_left():
    with veiled(user=POOR) as connection:
        for asked in range(50):
            try:
                connection.execute(f"{WOMEN} WHERE birth_year > {asked}").fetchone()
            except errors.ConfigurationLimitExceeded as error:
                diag = error.diag
                break
        print(
            f"       after {asked} answers: {diag.message_primary} | {diag.message_detail} | "
            f"{diag.message_hint}"
        )
        assert 0 < asked < 50
        assert (
            "needs" in f"{diag.message_primary} {diag.message_detail}"
            and "left" in f"{diag.message_primary} {diag.message_detail}"
        )
        same(connection.execute("SELECT 1").fetchone(), (1,))
        same(connection.execute("SELECT * FROM nls.women LIMIT 0").fetchall(), [])
        same(len(connection.execute("SELECT * FROM nls.industries").fetchall()), 12)


@check
def a_pipeline_answers_and_recovers():
    with veiled() as connection:
        with connection.pipeline() as pipeline:
            cursors = [
                connection.execute("SELECT count(*) FROM nls.women WHERE birth_year < %s", [year])
                for year in range(1941, 1955)
            ]
            one = connection.execute("SELECT 1")
        counts = [cursor.fetchone()[0] for cursor in cursors]
        assert counts == sorted(counts) and counts[-1] > 4000, counts
        same(one.fetchone(), (1,))
        try:
            with connection.pipeline() as pipeline:
                good = connection.execute("SELECT 2")
                bad = connection.execute("SELECT * FROM nls.women")
                after = connection.execute("SELECT 3")
                pipeline.sync()
        except errors.InsufficientPrivilege:
            pass
        else:
            raise AssertionError("the refused statement passed")
        same(connection.execute(WOMEN).fetchone(), (4711,))
        connection.autocommit = False
        with connection.pipeline():
            first = connection.execute(WOMEN)
            second = connection.execute("SELECT race, count(*) FROM nls.women GROUP BY race")
            same(first.fetchone(), (4711,))
            same(len(second.fetchall()), 3)
        connection.commit()


def copied(connection, sql):
    with connection.cursor().copy(sql) as copy:
        return b"".join(bytes(block) for block in copy)


@check
def copies_of_answers_are_postgresqls():
    query = (
        "SELECT race, count(*) AS n, NULL AS nothing, "
        "race || E',\\t\"\\\\|\\n' AS odd, date '2020-02-29' "
        "FROM nls.women GROUP BY race ORDER BY race"
    )
    options = [
        "",
        "WITH (FORMAT text, DELIMITER '|', NULL 'none', HEADER)",
        "CSV HEADER",
        "WITH (FORMAT csv, FORCE_QUOTE *, NULL '~')",
        "WITH (FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '!', FORCE_QUOTE (race, n))",
        "WITH (FORMAT binary)",
        "BINARY",
    ]
    with veiled() as connection, direct() as real:
        for option in options:
            sql = f"COPY ({query}) TO STDOUT {option}"
            same(copied(connection, sql), copied(real, sql), option)
        with connection.cursor().copy(
            "COPY (SELECT count(*) FROM nls.women) TO STDOUT (FORMAT binary)"
        ) as copy:
            copy.set_types(["int8"])
            same(list(copy.rows()), [(4711,)])


@check
def copies_of_tables_are_refused():
    with veiled() as connection:
        for sql in [
            "COPY nls.women TO STDOUT",
            "COPY nls.women FROM STDIN",
            "COPY (SELECT * FROM nls.women) TO STDOUT",
            "COPY (SELECT 1) TO PROGRAM 'cat'",
        ]:
            try:
                copied(connection, sql)
            except errors.InsufficientPrivilege as found:
                print(f"       {sql}: {found.diag.message_primary}")
            else:
                raise AssertionError(f"{sql} was not refused")
            same(connection.execute("SELECT 1").fetchone(), (1,))


@check
def named_cursors_walk_over_one_answer():
    sql = (
        "SELECT year, race, count(*), avg(age) FROM nls.interviews "
        "JOIN nls.women USING (woman_id) WHERE year > %s AND race <> 'other' GROUP BY year, race "
        "ORDER BY year, race"
    )
    with veiled(autocommit=False) as connection, direct() as real:
        heard = []
        connection.add_notice_handler(lambda diag: heard.append(diag.message_primary))
        wanted = real.execute(sql, [1970]).fetchall()
        for binary in [False, True]:
            with connection.cursor(name="c", scrollable=True, binary=binary) as cursor:
                cursor.itersize = 7
                cursor.execute(sql, [1970])
                close(list(cursor), wanted)
                cursor.scroll(0, mode="absolute")
                close(cursor.fetchmany(5), wanted[:5])
                cursor.scroll(-2)
                close([cursor.fetchone()], [wanted[3]])
        same(len([text for text in heard if "privacy cost" in text]), 2)
        connection.commit()
        with connection.cursor(name="h", withhold=True) as cursor:
            cursor.execute(sql, [1970])
            connection.commit()
            close(cursor.fetchall(), wanted)
        connection.rollback()
        diag = refused(
            errors.ObjectNotInPrerequisiteState,
            connection,
            "DECLARE n NO SCROLL CURSOR FOR SELECT 1; MOVE ALL n; FETCH PRIOR n",
        )
        same(diag.message_hint, "Declare it with SCROLL option to enable backward scan.")
        connection.rollback()


@check
def cursors_move_as_postgresqls():
    moves = [
        *[
            "NEXT",
            "PRIOR",
            "FIRST",
            "LAST",
            "ABSOLUTE 3",
            "ABSOLUTE -2",
            "ABSOLUTE 0",
            "RELATIVE 2",
            "RELATIVE -1",
            "RELATIVE 0",
            "4",
            "-2",
            "0",
            "ALL",
            "NEXT",
        ],
        *[
            "BACKWARD",
            "BACKWARD 3",
            "BACKWARD ALL",
            "FORWARD",
            "FORWARD 2",
            "FORWARD ALL",
            "FORWARD 0",
            "BACKWARD 0",
            "ABSOLUTE 100",
            "RELATIVE -100",
            "LAST",
        ],
    ]
    query = "SELECT industry_code FROM nls.industries ORDER BY 1"
    with veiled(autocommit=False) as connection, direct() as real:
        real.autocommit = False
        for server in [connection, real]:
            server.execute(f"DECLARE c SCROLL CURSOR FOR {query}")
        for word in ["FETCH", "MOVE"]:
            for move in moves:
                a, b = connection.execute(f"{word} {move} FROM c"), real.execute(
                    f"{word} {move} FROM c"
                )
                same(a.statusmessage, b.statusmessage, f"{word} {move}")
                if word == "FETCH":
                    same(a.fetchall(), b.fetchall(), move)
        connection.rollback()


@check
def sql_prepares_and_executes():
    with veiled() as connection, direct() as real:
        for server in [connection, real]:
            server.execute(
                "PREPARE p (int, text) AS SELECT race, count(*) FROM nls.women "
                "WHERE birth_year > $1 AND race <> $2 GROUP BY race ORDER BY race"
            )
        for values in ["1946 + 1, 'it''s'", "'1945', NULL", "length('abc') * 649, upper('x')"]:
            close(
                connection.execute(f"EXECUTE p ({values})").fetchall(),
                real.execute(f"EXECUTE p ({values})").fetchall(),
                values,
            )
        for sql in [
            "EXECUTE p (1)",
            "EXECUTE q",
            "PREPARE p AS SELECT 1",
            "EXECUTE p ('x', 'y')",
            "EXECUTE p ((SELECT 1), 'y')",
        ]:
            codes = []
            for server in [connection, real]:
                try:
                    server.execute(sql)
                except psycopg.Error as error:
                    codes.append((error.sqlstate, error.diag.message_primary))
            same(codes[0], codes[1], sql)
        connection.execute("DEALLOCATE p")


def session(user=USER):
    connection = veiled(user=user)

    def ask(sql):
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()] if cursor.description else None
        except psycopg.Error as error:
            raise State(error.sqlstate) from None

    return ask


standard(session)
run()
