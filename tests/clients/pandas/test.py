"""pandas over SQLAlchemy against pgveil."""

import pandas
import sqlalchemy as sa

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, check, run, same


def engine():
    return sa.create_engine(sa.URL.create("postgresql+psycopg", USER, PASSWORD, HOST, VEILED, DATABASE, {"sslmode": "require"}))


@check
def reads_a_statement():
    frame = pandas.read_sql("SELECT race, count(*) AS n FROM nls.women GROUP BY race ORDER BY 2 DESC", engine())
    same(list(frame["race"]), ["white", "black", "other"])
    same(int(frame["n"].sum()), 4711)


@check
def reads_a_public_table():
    frame = pandas.read_sql_table("industries", engine(), schema="nls")
    same(list(frame.columns), ["industry_code", "industry"])
    assert len(frame) > 5, frame


run()
