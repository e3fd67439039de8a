"""psqlODBC through pyodbc against pgveil: with and without server-side prepare and cursors."""

import os

import pyodbc

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, State, check, run, same, standard

WOMEN = "SELECT count(*) FROM nls.women"


def veiled(**options):
    options = (
        dict(
            DRIVER=os.environ["DRIVER"],
            SERVER=HOST,
            PORT=VEILED,
            UID=USER,
            PWD=PASSWORD,
            DATABASE=DATABASE,
            SSLMODE="require",
        )
        | options
    )
    return pyodbc.connect(
        ";".join(f"{name}={value}" for name, value in options.items()), autocommit=True
    )


WAYS = [
    dict(UseServerSidePrepare=prepare, UseDeclareFetch=declare, Fetch=2)
    for prepare in (0, 1)
    for declare in (0, 1)
]


@check("tls", "scram", "text")
def answers():
    for way in WAYS:
        connection = veiled(**way)
        same(connection.execute(WOMEN).fetchval(), 4711, way)
        rows = connection.execute(
            (
                "SELECT race, count(*) FROM nls.women WHERE birth_year > ? GROUP BY race "
                "ORDER BY 2 DESC"
            ),
            1940,
        ).fetchall()
        same([row[0] for row in rows], ["white", "black", "other"], way)
        connection.close()


@check
def tables_columns_and_keys():
    for way in WAYS:
        cursor = veiled(**way).cursor()
        same(
            [row.table_name for row in cursor.tables(schema="nls", tableType="TABLE")],
            ["industries", "interviews", "occupations", "women"],
        )
        same([row.column_name for row in cursor.columns("women", schema="nls")][0], "woman_id")
        same([row.column_name for row in cursor.primaryKeys("women", schema="nls")], ["woman_id"])
        same(
            [
                row.pktable_name
                for row in cursor.foreignKeys(foreignTable="interviews", foreignSchema="nls")
            ].count("women"),
            1,
        )
        assert [
            row.index_name for row in cursor.statistics("women", schema="nls") if row.index_name
        ] == ["women_pkey"]
        assert len(cursor.getTypeInfo().fetchall()) > 10


@check
def a_refused_preview_leaves_the_connection_whole():
    connection = veiled()
    try:
        connection.execute("SELECT * FROM nls.women LIMIT 5").fetchall()
    except pyodbc.Error as error:
        assert "42501" in str(error), error
    else:
        raise AssertionError("rows were shown")
    same(connection.execute(WOMEN).fetchval(), 4711)


def session(user=USER):
    connection = veiled(UID=user)

    def ask(sql):
        cursor = ask.cursor = connection.cursor()
        try:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else None
        except pyodbc.Error as error:
            raise State(error.args[0]) from None
        finally:
            cursor.close()

    return ask


standard(session, has_savepoints_of_its_own=True, cancel=lambda ask: ask.cursor.cancel())
run()
