"""SQLAlchemy 2 over psycopg 3 against pgveil."""

import sqlalchemy as sa
from sqlalchemy import exc

from checks import DATABASE, HOST, PASSWORD, POOR, USER, VEILED, State, check, run, same, standard

women = sa.table("women", *map(sa.column, ["woman_id", "race", "birth_year"]), schema="nls")


def engine(user=USER, **options):
    return sa.create_engine(
        sa.URL.create(
            "postgresql+psycopg", user, PASSWORD, HOST, VEILED, DATABASE, {"sslmode": "require"}
        ),
        **options,
    )


@check("tls", "scram")
def connects_and_learns_the_dialect():
    with engine().connect() as connection:
        same(connection.scalar(sa.select(1)), 1)
        same(connection.dialect.server_version_info[0] >= 9, True)
        same(connection.dialect.default_schema_name, "public")
        same(connection.get_isolation_level(), "READ COMMITTED")


@check("text")
def aggregates_with_parameters():
    sql = (
        sa.select(women.c.race, sa.func.count().label("n"))
        .where(women.c.birth_year >= 1941)
        .group_by(women.c.race)
        .order_by(sa.desc("n"))
    )
    with engine(pool_pre_ping=True).connect() as connection:
        for _ in range(10):
            rows = connection.execute(sql).all()
        same([row.race for row in rows], ["white", "black", "other"])
        same(sum(row.n for row in rows), 4711)
        same(connection.execute(sql.limit(1)).one().race, "white")
        same(
            connection.scalar(
                sa.select(sa.func.count())
                .select_from(women)
                .where(women.c.race.in_(["other", "nobody"]))
            ),
            57,
        )


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
def the_inspector_shows_what_the_policy_shows():
    inspector = sa.inspect(engine())
    same("nls" in inspector.get_schema_names(), True)
    same(
        sorted(inspector.get_table_names("nls")),
        ["industries", "interviews", "occupations", "women"],
    )
    same(inspector.get_view_names("nls"), [])
    columns = {column["name"]: column for column in inspector.get_columns("women", "nls")}
    same(str(columns["woman_id"]["type"]), "INTEGER")
    same(columns["woman_id"]["nullable"], False)
    same(inspector.get_pk_constraint("women", "nls")["constrained_columns"], ["woman_id"])
    keys = {
        key["constrained_columns"][0]: key["referred_table"]
        for key in inspector.get_foreign_keys("interviews", "nls")
    }
    same(
        keys, {"woman_id": "women", "industry_code": "industries", "occupation_code": "occupations"}
    )
    same(inspector.get_table_comment("women", "nls"), {"text": None})
    same(inspector.get_indexes("women", "nls"), [])
    same(inspector.get_check_constraints("women", "nls"), [])
    same(inspector.has_table("nothing", "nls"), False)
    same(inspector.get_enums(), [])


@check
def reflected_tables_can_be_asked():
    bind = engine()
    metadata = sa.MetaData()
    metadata.reflect(bind, "nls")
    reflected = metadata.tables["nls.women"]
    with bind.connect() as connection:
        same(connection.scalar(sa.select(sa.func.count()).select_from(reflected)), 4711)


@check
def an_exhausted_budget():
    with engine(POOR).connect() as connection:
        try:
            for year in range(50):
                connection.scalar(
                    sa.select(sa.func.count()).select_from(women).where(women.c.birth_year > year)
                )
        except exc.DBAPIError as error:
            same(error.orig.sqlstate, "53400")
        connection.rollback()
        same(connection.scalar(sa.select(1)), 1)


def session(user=USER):
    connection = engine(user, isolation_level="AUTOCOMMIT").connect()

    def ask(sql):
        try:
            result = connection.exec_driver_sql(sql)
            return [tuple(row) for row in result] if result.returns_rows else None
        except exc.DBAPIError as error:
            raise State(error.orig.sqlstate) from None

    ask.connection = connection.connection.driver_connection
    return ask


standard(session, cancel=lambda ask: ask.connection.cancel())
run()
