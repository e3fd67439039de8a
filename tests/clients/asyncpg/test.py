"""asyncpg against pgveil: the extended protocol in binary, with cursors by row limits."""

import asyncio
import datetime
import decimal
import io
import ssl

import asyncpg
from asyncpg import exceptions as errors

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
    check,
    close,
    run,
    same,
)

WOMEN = "SELECT count(*) FROM nls.women"


async def veiled(**changed):
    return await asyncpg.connect(
        **dict(
            host=HOST, port=VEILED, user=USER, password=PASSWORD, database=DATABASE, ssl="require"
        )
        | changed
    )


def asyncly(*items):
    def named(function):
        def whole():
            asyncio.run(function())

        whole.__name__ = function.__name__
        return check(*items)(whole) if items else check(whole)

    return named


async def refused(error, awaitable):
    try:
        await awaitable
    except error as found:
        return found
    raise AssertionError(f"no {error.__name__}")


@asyncly("tls", "scram")
async def connects():
    for mode in ["require", False, "prefer"]:
        connection = await veiled(ssl=mode)
        same(await connection.fetchval("SELECT 1"), 1)
        await connection.close()
    await refused(errors.InvalidPasswordError, veiled(password="wrong"))
    await refused(errors.InvalidCatalogNameError, veiled(database="elsewhere"))


@asyncly("text", "binary", "describe")
async def names_types_and_rows_are_postgresqls():
    mine, theirs = await veiled(), await asyncpg.connect(
        host=HOST, port=DIRECT, user="postgres", database=DATABASE
    )
    for sql in COMPARED:
        a, b = await mine.prepare(sql), await theirs.prepare(sql)
        same(
            [(c.name, c.type.oid) for c in a.get_attributes()],
            [(c.name, c.type.oid) for c in b.get_attributes()],
            sql,
        )
        close([tuple(r) for r in await a.fetch()], [tuple(r) for r in await b.fetch()], sql)
    cases = [
        (
            (
                "SELECT race, count(*) FROM nls.women WHERE birth_year > $1 AND race <> $2 "
                "GROUP BY race ORDER BY race"
            ),
            [1947, "it's"],
        ),
        ("SELECT count(*) FROM nls.interviews WHERE hourly_wage < $1", [decimal.Decimal("7.25")]),
        (
            "SELECT count(*) FROM nls.women WHERE birth_year > extract(year from $1::date)",
            [datetime.date(1947, 2, 28)],
        ),
        ("SELECT count(*) FROM nls.women WHERE race = $1", [None]),
        (
            "SELECT $1::int8, $2::float8, $3::bool, $4::numeric, $5::text, $6::date",
            [2**40, 0.1, True, decimal.Decimal("-1.50"), "ä", None],
        ),
    ]
    for sql, values in cases:
        statement = await mine.prepare(sql)
        wanted = [tuple(r) for r in await theirs.fetch(sql, *values)]
        for _ in range(3):
            close([tuple(r) for r in await statement.fetch(*values)], wanted, sql)


@asyncly("cursor")
async def cursors_fetch_by_rows_and_are_charged_once():
    connection = await veiled()
    heard = []
    connection.add_log_listener(lambda _, message: heard.append(message.message))
    sql = (
        "SELECT year, race, count(*) FROM nls.interviews JOIN nls.women USING (woman_id) "
        "GROUP BY year, race ORDER BY year, race"
    )
    async with connection.transaction():
        rows = [row async for row in connection.cursor(sql, prefetch=10)]
        same(len(rows), 45)
        same(len([text for text in heard if "privacy cost" in text]), 1)
        cursor = await connection.cursor(sql)
        same(len(await cursor.fetch(7)), 7)
        same(len(await cursor.fetch(100)), 38)
    await connection.close()


@asyncly("refused", "transaction", "savepoint", "cancel", "pool")
async def errors_transactions_and_cancel():
    connection = await veiled()
    error = await refused(
        errors.InsufficientPrivilegeError, connection.fetch("SELECT * FROM nls.women LIMIT 5")
    )
    assert "count(*)" in error.detail
    same(await connection.fetchval(WOMEN), 4711)
    transaction = connection.transaction(isolation="repeatable_read", readonly=True)
    await transaction.start()
    try:
        async with connection.transaction():
            await connection.fetch("SELECT * FROM nls.women")
    except errors.InsufficientPrivilegeError:
        pass
    same(await connection.fetchval(WOMEN), 4711)
    await refused(errors.InsufficientPrivilegeError, connection.fetch("SELECT * FROM nls.women"))
    await refused(errors.InFailedSQLTransactionError, connection.fetch("SELECT 1"))
    await transaction.rollback()
    await refused(asyncio.TimeoutError, connection.fetchval(SLOW, timeout=0.7))
    same(await connection.fetchval("SELECT 1"), 1)
    await refused(
        errors.InsufficientPrivilegeError,
        connection.copy_from_query("SELECT * FROM nls.women", output="/dev/null"),
    )
    await refused(
        errors.InsufficientPrivilegeError,
        connection.copy_from_table("women", schema_name="nls", output="/dev/null"),
    )
    # What a pool does between two users.
    await connection.reset()
    same(await connection.fetchval("SELECT pg_advisory_unlock_all()"), None)
    await connection.close()
    async with asyncpg.create_pool(
        host=HOST,
        port=VEILED,
        user=USER,
        password=PASSWORD,
        database=DATABASE,
        ssl="require",
        min_size=2,
        max_size=2,
    ) as pool:
        same(await asyncio.gather(*(pool.fetchval(WOMEN) for _ in range(4))), [4711] * 4)


@asyncly("list")
async def types_are_looked_up():
    connection = await veiled()
    await connection.set_type_codec(
        "uuid", schema="pg_catalog", encoder=str, decoder=lambda text: "a " + text
    )
    uuid = "00000000-0000-0000-0000-000000000001"
    same(await connection.fetchval("SELECT 1"), 1)
    same(await connection.fetchval("SELECT $1::text", uuid), uuid)
    rows = await connection.fetch(
        "SELECT typname FROM pg_type WHERE oid = any($1::oid[]) ORDER BY 1", [23, 25]
    )
    same([row["typname"] for row in rows], ["int4", "text"])
    same(
        [
            row["relname"]
            for row in await connection.fetch(
                "SELECT relname FROM pg_class WHERE relname = $1", "women"
            )
        ],
        ["women"],
    )
    await connection.close()


@asyncly("prepared")
async def ten_times_the_same_question_is_one():
    connection = await veiled()
    heard = []
    connection.add_log_listener(lambda _, message: heard.append(message.message))
    statement = await connection.prepare(
        "SELECT race, count(*) FROM nls.women WHERE birth_year > $1 AND race <> 'x' "
        "GROUP BY race ORDER BY race"
    )
    answers = [await statement.fetch(1943) for _ in range(10)]
    assert all(answer == answers[0] for answer in answers)
    assert (
        len([text for text in heard if "privacy cost" in text and "nothing" not in text]) <= 1
    ), heard
    await connection.close()


@asyncly()
async def copies_of_answers_are_postgresqls():
    mine, theirs = await veiled(), await asyncpg.connect(
        host=HOST, port=DIRECT, user="postgres", database=DATABASE
    )
    for options in [
        {},
        dict(format="csv", header=True, delimiter=";"),
        dict(format="binary"),
        dict(null="nil", delimiter="|"),
    ]:
        found = []
        for connection in [mine, theirs]:
            out = io.BytesIO()
            sql = (
                "SELECT race, count(*), NULL AS nothing FROM nls.women WHERE birth_year > $1 "
                "GROUP BY race ORDER BY race"
            )
            status = await connection.copy_from_query(sql, 1945, output=out, **options)
            found.append((status, out.getvalue()))
        same(found[0], found[1], options)


@asyncly()
async def an_exhausted_budget():
    connection = await veiled(user=POOR)

    async def spend():
        for year in range(50):
            await connection.fetchval(f"{WOMEN} WHERE birth_year > {year}")

    error = await refused(errors.ConfigurationLimitExceededError, spend())
    assert "needs" in str(error) and "left" in str(error), error
    same(await connection.fetchval("SELECT 1"), 1)


run()
