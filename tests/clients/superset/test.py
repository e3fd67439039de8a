"""Apache Superset without a browser against pgveil, by its pages' API: a chart, and SQL Lab."""

import logging
import os
import tempfile

HOME = tempfile.TemporaryDirectory()
CONFIG = os.path.join(HOME.name, "superset_config.py")
with open(CONFIG, "w") as file:
    file.write(f"""
SECRET_KEY = "a key for one test, of no use elsewhere"
SQLALCHEMY_DATABASE_URI = "sqlite:///{HOME.name}/superset.db"
WTF_CSRF_ENABLED = False
RATELIMIT_ENABLED = False
CACHE_CONFIG = DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = CACHE_CONFIG
""")
os.environ.update(SUPERSET_CONFIG_PATH=CONFIG, SUPERSET_HOME=HOME.name)

import flask_migrate  # noqa: E402
import superset  # noqa: E402
from superset.app import create_app  # noqa: E402

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, check, run, same  # noqa: E402

app = create_app()
# The migrations of its own database say thousands of lines.
logging.disable(logging.WARNING)
client = app.test_client()
headers = {}
known = {}


def call(method, path, status=(200, 201), **body):
    answer = getattr(client, method)(
        f"/api/v1/{path}", headers=headers, **({"json": body} if body else {})
    )
    assert (
        answer.status_code in status
    ), f"{path}: {answer.status_code} {answer.get_data(as_text=True)[:1000]}"
    return answer.get_json()


@check
def starts_and_logs_in():
    with app.app_context():
        flask_migrate.upgrade(
            directory=os.path.join(os.path.dirname(superset.__file__), "migrations")
        )
        app.appbuilder.add_permissions(update_perms=True)
        security = app.appbuilder.sm
        security.sync_role_definitions()
        security.add_user(
            "admin", "a", "b", "admin@example.org", security.find_role("Admin"), password="admin"
        )
    token = call("post", "security/login", username="admin", password="admin", provider="db")[
        "access_token"
    ]
    headers["Authorization"] = f"Bearer {token}"


@check
def adds_the_database():
    def settings(password):
        return dict(
            sqlalchemy_uri=(
                f"postgresql+psycopg2://{USER}:{password}@{HOST}:{VEILED}/{DATABASE}"
                "?sslmode=require"
            ),
            database_name="pgveil",
        )

    refused = call("post", "database/test_connection/", status=(400, 422), **settings("wrong"))
    assert "password" in str(refused), refused
    call("post", "database/test_connection/", **settings(PASSWORD))
    known["database"] = call("post", "database/", **settings(PASSWORD))["id"]


@check
def lists_schemas_tables_and_columns():
    database = f"database/{known['database']}"
    assert "nls" in call("get", f"{database}/schemas/")["result"]
    tables = call("get", f"{database}/tables/?q=(schema_name:nls)")["result"]
    same(
        sorted(table["value"] for table in tables),
        ["industries", "interviews", "occupations", "women"],
    )
    women = call("get", f"{database}/table_metadata/?name=women&schema=nls")
    same(
        [(column["name"], column["type"]) for column in women["columns"]][0],
        ("woman_id", "INTEGER"),
    )
    interviews = call("get", f"{database}/table_metadata/?name=interviews&schema=nls")
    keys = [
        (key["column_names"], key["options"], key["referred_table"])
        for key in interviews["foreignKeys"]
    ]
    assert (["woman_id"], {}, "women") in keys, keys


@check
def makes_a_dataset():
    known["dataset"] = call(
        "post", "dataset/", database=known["database"], schema="nls", table_name="women"
    )["id"]
    columns = call("get", f"dataset/{known['dataset']}")["result"]["columns"]
    types = {column["column_name"]: column["type"] for column in columns}
    same(types["woman_id"], "INTEGER")
    same(types["race"], "TEXT")


def data(result_type, status=(200,), **query):
    source = {"id": known["dataset"], "type": "table"}
    return call(
        "post",
        "chart/data",
        status,
        datasource=source,
        queries=[query],
        result_format="json",
        result_type=result_type,
        force=True,
    )


def chart():
    """A bar of women for each race."""
    count = {
        "expressionType": "SIMPLE",
        "column": {"column_name": "woman_id"},
        "aggregate": "COUNT",
        "label": "women",
    }
    born = {"col": "birth_year", "op": ">", "val": 1940}
    found = data(
        "full",
        columns=["race"],
        metrics=[count],
        filters=[born],
        orderby=[[count, False]],
        row_limit=100,
    )["result"][0]
    same(found["error"], None)
    return [(row["race"], row["women"]) for row in found["data"]]


@check
def runs_the_query_of_a_chart():
    found = chart()
    same([race for race, _ in found], ["white", "black", "other"])
    same(sum(women for _, women in found), 4711)


@check
def a_refused_preview_is_told_and_the_chart_still_runs():
    before = chart()
    refused = data("samples", status=(400, 422), row_limit=100)
    assert "rows of a private table" in str(refused), refused
    same(chart(), before)


@check
def error_bars_are_metrics():
    metrics = [
        {"expressionType": "SQL", "sqlExpression": sql, "label": label}
        for label, sql in [
            ("n", "COUNT(*)"),
            ("low", "pgveil.ci_low(COUNT(*))"),
            ("high", "pgveil.ci_high(COUNT(*))"),
        ]
    ]
    found = data("full", columns=["race"], metrics=metrics, row_limit=100)["result"][0]
    same(found["error"], None)
    assert (
        all(row["low"] <= row["n"] <= row["high"] for row in found["data"])
        and len(found["data"]) == 3
    ), found["data"]


@check
def the_list_of_a_filter_is_free():
    left = "SELECT fraction_left FROM pgveil.budget"
    before = lab(left, "before")["data"]
    values = call("get", f"datasource/table/{known['dataset']}/column/race/values/")["result"]
    same(sorted(values), ["black", "other", "white"])
    same(lab(left, "after")["data"], before)


def lab(sql, client_id, status=(200,)):
    """A statement of SQL Lab, which asks pg_backend_pid() before it."""
    return call(
        "post",
        "sqllab/execute/",
        status,
        database_id=known["database"],
        schema="nls",
        sql=sql,
        client_id=client_id,
        runAsync=False,
        queryLimit=100,
        tab="one",
    )


@check
def runs_a_statement_in_sql_lab():
    answer = lab(
        "SELECT race, count(*) AS women FROM nls.women GROUP BY race ORDER BY 2 DESC", "first"
    )
    same([row["race"] for row in answer["data"]], ["white", "black", "other"])
    same([column["name"] for column in answer["columns"]], ["race", "women"])
    refused = lab("SELECT * FROM nls.women", "second", status=(400, 422, 500))
    assert "rows of a private table" in str(refused), refused
    same(lab("SELECT count(*) AS women FROM nls.women", "third")["data"], [{"women": 4711}])


run()
