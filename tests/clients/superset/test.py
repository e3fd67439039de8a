"""Apache Superset without a browser against pgveil: adds the database, lists schemas, tables and columns, makes a dataset and runs a chart's query, all by
the API that its pages use."""

import os
import sys
import tempfile

HOME = tempfile.mkdtemp()
CONFIG = os.path.join(HOME, "superset_config.py")
with open(CONFIG, "w") as file:
    file.write(
        f"""
SECRET_KEY = "a key for one test, of no use elsewhere"
SQLALCHEMY_DATABASE_URI = "sqlite:///{HOME}/superset.db"
WTF_CSRF_ENABLED = False
RATELIMIT_ENABLED = False
PREVENT_UNSAFE_DB_CONNECTIONS = False
CACHE_CONFIG = DATA_CACHE_CONFIG = FILTER_STATE_CACHE_CONFIG = EXPLORE_FORM_DATA_CACHE_CONFIG = {{"CACHE_TYPE": "SimpleCache"}}
"""
    )
os.environ.update(SUPERSET_CONFIG_PATH=CONFIG, SUPERSET_HOME=HOME, FLASK_APP="superset.app:create_app()")

from superset.app import create_app  # noqa: E402

from checks import DATABASE, HOST, PASSWORD, USER, VEILED, check, run, same  # noqa: E402

app = create_app()
app.config["TESTING"] = True
client = app.test_client()
headers = {}
known = {}


def call(method, path, status=(200, 201), **body):
    answer = getattr(client, method)(f"/api/v1/{path}", headers=headers, **({"json": body} if body else {}))
    found = answer.get_json(silent=True)
    assert answer.status_code in (status if isinstance(status, tuple) else (status,)), f"{path}: {answer.status_code} {found or answer.data[:500]}"
    return found


def prepare():
    from flask_appbuilder.cli import create_admin  # noqa: F401
    from superset.extensions import db

    with app.app_context():
        from flask_migrate import upgrade

        upgrade(directory=os.path.join(os.path.dirname(sys.modules["superset"].__file__), "migrations"))
        security = app.appbuilder.sm
        app.appbuilder.add_permissions(update_perms=True)
        security.sync_role_definitions()
        security.add_user("admin", "a", "b", "admin@example.org", security.find_role("Admin"), password="admin")
        db.session.commit()
    token = call("post", "security/login", username="admin", password="admin", provider="db", refresh=False)["access_token"]
    headers["Authorization"] = f"Bearer {token}"


@check
def adds_the_database():
    prepare()
    uri = f"postgresql+psycopg2://{USER}:{PASSWORD}@{HOST}:{VEILED}/{DATABASE}?sslmode=require"
    call("post", "database/test_connection/", sqlalchemy_uri=uri, database_name="pgveil")
    known["database"] = call("post", "database/", sqlalchemy_uri=uri, database_name="pgveil", expose_in_sqllab=True)["id"]


@check
def lists_schemas_tables_and_columns():
    database = known["database"]
    assert "nls" in call("get", f"database/{database}/schemas/")["result"]
    tables = call("get", f"database/{database}/tables/?q=(schema_name:nls)")["result"]
    same(sorted(table["value"] for table in tables), ["industries", "interviews", "occupations", "women"])
    columns = call("get", f"database/{database}/table_metadata/?name=women&schema=nls")
    same(columns["columns"][0]["name"], "woman_id")
    same(columns["primaryKey"]["constrained_columns"], ["woman_id"])


@check
def runs_the_query_of_a_chart():
    known["dataset"] = call("post", "dataset/", database=known["database"], schema="nls", table_name="women")["id"]
    count = {"expressionType": "SIMPLE", "column": {"column_name": "woman_id"}, "aggregate": "COUNT", "label": "women"}
    query = dict(columns=["race"], metrics=[count], filters=[{"col": "birth_year", "op": ">", "val": 1940}], orderby=[[count, False]], row_limit=100)
    body = dict(datasource={"id": known["dataset"], "type": "table"}, queries=[query], result_format="json", result_type="full", force=True)
    found = call("post", "chart/data", **body)["result"][0]
    same(found["error"], None)
    same([row["race"] for row in found["data"]], ["white", "black", "other"])
    same(sum(row["women"] for row in found["data"]), 4711)


@check
def a_refused_sample_is_told_and_nothing_breaks():
    asked = call("post", "sqllab/execute/", status=(200, 400, 422, 500), database_id=known["database"], sql="SELECT * FROM nls.women", client_id="a", runAsync=False)
    assert "rows of a private table are not shown" in str(asked), asked
    asked = call("post", "sqllab/execute/", database_id=known["database"], sql="SELECT count(*) AS n FROM nls.women", client_id="b", runAsync=False)
    same(asked["data"], [{"n": 4711}])


run()
