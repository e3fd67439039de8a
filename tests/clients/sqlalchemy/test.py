"""SQLAlchemy 2 over psycopg 3 against pgveil."""

import sqlalchemy as sa
from sqlalchemy import exc

from checks import DATABASE, HOST, PASSWORD, POOR, USER, VEILED, check, run, same

women = sa.table("women", *map(sa.column, ["woman_id", "race", "birth_year"]), schema="nls")


def engine(user=USER, **options):
    return sa.create_engine(sa.URL.create("postgresql+psycopg", user, PASSWORD, HOST, VEILED, DATABASE, {"sslmode": "require"}), **dict(use_native_hstore=False) | options)


@check
def connects_and_learns_the_dialect():
    with engine().connect() as connection:
        same(connection.scalar(sa.select(1)), 1)
        same(connection.dialect.server_version_info[0] >= 9, True)
        same(connection.dialect.default_schema_name, "public")
        same(connection.get_isolation_level(), "READ COMMITTED")


@check
def aggregates_with_parameters():
    sql = sa.select(women.c.race, sa.func.count().label("n")).where(women.c.birth_year >= 1941).group_by(women.c.race).order_by(sa.desc("n"))
    with engine(pool_pre_ping=True).connect() as connection:
        for _ in range(10):
            rows = connection.execute(sql).all()
        same([row.race for row in rows], ["white", "black", "other"])
        same(sum(row.n for row in rows), 4711)
        same(connection.execute(sql.limit(1)).one().race, "white")
        same(connection.scalar(sa.select(sa.func.count()).select_from(women).where(women.c.race.in_(["other", "nobody"]))), 57)


@check
def refusals_and_savepoints():
    with engine().connect() as connection:
        try:
            with connection.begin_nested():
                connection.execute(sa.select(women).limit(5)).all()
        except exc.ProgrammingError as error:
            same(error.orig.sqlstate, "42501")
        else:
            raise AssertionError("rows were shown")
        same(connection.scalar(sa.select(sa.func.count()).select_from(women)), 4711)
        connection.rollback()
    connection = engine(isolation_level="AUTOCOMMIT").connect()
    same(connection.scalar(sa.text("SELECT 1")), 1)


@check
def the_question_for_hstore_at_connect_is_refused_politely():
    try:
        engine(use_native_hstore=True).connect()
    except exc.DBAPIError as error:
        print(f"       {error.orig.sqlstate} {error.orig.diag.message_primary}")
        same(error.orig.sqlstate, "0A000")


@check
def the_inspector_is_refused_politely():
    try:
        sa.inspect(engine()).get_table_names("nls")
    except exc.DBAPIError as error:
        print(f"       {error.orig.sqlstate} {error.orig.diag.message_primary}")
        same(error.orig.sqlstate, "0A000")


@check
def an_exhausted_budget():
    with engine(POOR).connect() as connection:
        try:
            for year in range(50):
                connection.scalar(sa.select(sa.func.count()).select_from(women).where(women.c.birth_year > year))
        except exc.DBAPIError as error:
            same(error.orig.sqlstate, "53400")
        connection.rollback()
        same(connection.scalar(sa.select(1)), 1)


run()
