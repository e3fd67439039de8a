"""pandas over SQLAlchemy against pgveil."""

import pandas
import sqlalchemy as sa

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, State, check, run, same, standard


def engine(user=USER):
    return sa.create_engine(
        sa.URL.create(
            "postgresql+psycopg", user, PASSWORD, HOST, VEILED, DATABASE, {"sslmode": "require"}
        )
    )


@check("tls", "scram", "text")
def reads_a_statement():
    frame = pandas.read_sql(
        "SELECT race, count(*) AS n FROM nls.women GROUP BY race ORDER BY 2 DESC", engine()
    )
    same(list(frame["race"]), ["white", "black", "other"])
    same(int(frame["n"].sum()), 4711)


@check
def reads_a_public_table():
    frame = pandas.read_sql_table("industries", engine(), schema="nls")
    same(list(frame.columns), ["industry_code", "industry"])
    assert len(frame) > 5, frame


def session(user=USER):
    connection = engine(user).execution_options(isolation_level="AUTOCOMMIT").connect()

    def ask(sql):
        try:
            if sql.startswith(("SELECT", "FETCH", "EXECUTE", "SHOW")):
                frame = pandas.read_sql(sa.text(sql), connection)
                return [tuple(row) for row in frame.itertuples(index=False)]
            connection.exec_driver_sql(sql)
        except pandas.errors.DatabaseError as error:
            raise State(error.__cause__.orig.sqlstate) from None
        except sa.exc.DBAPIError as error:
            raise State(error.orig.sqlstate) from None

    ask.connection = connection.connection.driver_connection
    return ask


standard(session, cancel=lambda ask: ask.connection.cancel())
run()
