"""An MCP server for PostgreSQL before pgveil, asked as a model would: `test.py KIND COMMAND...`.

The client is written out, JSON lines over the server's input and output, so that nothing but the
server is under test.
"""

import json
import os
import re
import subprocess
import sys
import threading

sys.path.insert(0, "tests/clients")
from checks import DATABASE, HOST, PASSWORD, POOR, VEILED, check, run, same  # noqa: E402

KIND, COMMAND = sys.argv[1], sys.argv[2:]
SAID = os.path.join(os.environ["HOME"], "server")
URL = f"postgresql://{POOR}:{PASSWORD}@{HOST}:{VEILED}/{DATABASE}"
# The stage's certificate is self-signed; the reference server's driver takes `require` for
# verify-full.
ARGUMENTS = {
    "reference": [f"{URL}?sslmode=no-verify"],
    "dbhub": ["--transport", "stdio", "--dsn", f"{URL}?sslmode=require"],
    "pro": [f"{URL}?sslmode=require", "--access-mode=unrestricted"],
    "restricted": [f"{URL}?sslmode=require", "--access-mode=restricted"],
}
QUERY = {"reference": "query"}.get(KIND, "execute_sql")
COUNT = "SELECT race, count(*) AS women FROM nls.women GROUP BY race ORDER BY women DESC"


class Server:
    def __init__(self):
        self.process = subprocess.Popen(
            [*COMMAND, *ARGUMENTS[KIND]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(SAID, "w"),
            text=True,
        )
        self.number = 0
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        self.name = self.ask("initialize", **about)["result"]["serverInfo"]["name"]
        self.send(method="notifications/initialized")

    def send(self, **message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method, **params):
        self.number += 1
        # A server that answers nothing is ended, and with it the wait.
        patience = threading.Timer(60, self.process.kill)
        patience.start()
        try:
            self.send(id=self.number, method=method, params=params)
            for line in self.process.stdout:
                answer = json.loads(line)
                if answer.get("id") == self.number:
                    return answer
        finally:
            patience.cancel()
        raise AssertionError(
            f"{KIND} ended at {method}: {open(SAID, errors='replace').read()[-2000:]}"
        )

    def tool(self, name, **arguments):
        """What the model reads: the text of the result, or of the error."""
        answer = self.ask("tools/call", name=name, arguments=arguments)
        if "error" in answer:
            return answer["error"]["message"]
        text = answer["result"]["content"][0]["text"]
        # dbhub puts errors, lines and all, into JSON.
        return json.loads(text)["error"] if '"success": false' in text else text

    def sql(self, sql):
        return self.tool(QUERY, sql=sql)


server = Server()
print(f"{KIND}: {server.name}")


def holds(text, *words):
    for word in words:
        assert word in text, f"{word!r} is not in {text!r}"


def left():
    """The servers print rows as JSON or as Python."""
    text = server.sql("SELECT fraction_left FROM pgveil.budget")
    return float(re.search(r"fraction_left[\"']: ([0-9.e-]+)", text)[1])


@check
def tables_and_columns_are_discovered():
    if KIND == "reference":
        # It lists schema public alone; the model asks the catalogs, or pgveil's own views.
        same(server.ask("resources/list")["result"]["resources"], [])
        uri = f"postgres://{HOST}/women/schema"
        holds(
            server.ask("resources/read", uri=uri)["result"]["contents"][0]["text"],
            "years_of_school",
            "smallint",
        )
        holds(
            server.sql(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE table_schema = 'nls'"
            ),
            "women",
            "interviews",
        )
    elif KIND == "dbhub":
        holds(server.tool("search_objects", object_type="schema"), "nls")
        holds(
            server.tool("search_objects", object_type="table", schema="nls", detail_level="full"),
            "women",
            "interviews",
            "hourly_wage",
            "women_pkey",
        )
        holds(server.tool("search_objects", object_type="column", pattern="%wage%"), "hourly_wage")
        holds(server.tool("search_objects", object_type="procedure", schema="nls"), '"count": 0')
    else:
        holds(server.tool("list_schemas"), "'nls'")
        holds(server.tool("list_objects", schema_name="nls"), "women", "interviews")
        holds(server.tool("list_objects", schema_name="nls", object_type="view"), "[]")
        holds(
            server.tool("get_object_details", schema_name="nls", object_name="interviews"),
            "hourly_wage",
            "numeric",
            "FOREIGN KEY",
            "UNIQUE INDEX",
        )
        holds(server.tool("analyze_db_health", health_type="all"), "No sequences found")
    bounds = (
        "SELECT column_name, lower_bound, upper_bound, known_values FROM pgveil.columns "
        "WHERE table_name = 'women'"
    )
    holds(server.sql(bounds), "1941", "1954", "white")
    same(left(), 1.0, "discovery is free")


@check
def a_question_is_priced_and_asked():
    explained = server.sql(f"EXPLAIN {COUNT}")
    holds(explained, "Cost", "budget")
    same(left(), 1.0, "a price is free")
    answer = server.sql(COUNT)
    holds(answer, "white", "black", "other")
    paid = left()
    assert 0.9 < paid < 1.0, paid
    same(server.sql(COUNT), answer)
    same(left(), paid, "the same question again")


@check
def intervals_are_asked_for():
    asked = server.sql(
        "SELECT count(*) AS n, pgveil.ci_low(count(*)) AS low, "
        "pgveil.ci_high(count(*)) AS high FROM nls.women"
    )
    if KIND == "restricted":
        # It knows PostgreSQL's functions alone, and refuses before pgveil sees the statement.
        holds(asked, "Error validating query")
    else:
        holds(asked, "low", "high", "47")


@check
def a_refusal_says_what_to_ask_instead():
    paid = left()
    for sql, words in [
        (
            "SELECT * FROM nls.women LIMIT 5",
            ["rows of a private table are not shown", "Use COUNT, SUM or AVG"],
        ),
        (
            "SELECT string_agg(race, ',') FROM nls.women",
            ["string_agg() is not supported over private tables", "HINT", "COUNT, SUM, AVG"],
        ),
        ("SELECT sum(woman_id) FROM nls.women", ["HINT"]),
        ("SELECT nothing FROM nls.women", ['column "nothing" does not exist']),
    ]:
        holds(server.sql(sql), *words)
    same(left(), paid, "refusals are free")
    holds(server.sql("SELECT count(*) AS n FROM nls.women"), "47")


@check
def nothing_is_written():
    for sql in [
        "DELETE FROM nls.women",
        "COMMIT; DROP TABLE nls.women",
        "SELECT 1; UPDATE nls.women SET race = 'x'",
        "CREATE TABLE t (a int)",
    ]:
        text = server.sql(sql)
        assert any(word in text for word in ["not", "Error", "only"]), text
    holds(server.sql(COUNT), "white", "black", "other")


@check
def the_budget_ends_and_says_so():
    said = ""
    for year in range(1000):
        said = server.sql(
            "SELECT count(*) AS n FROM nls.interviews WHERE year = 1988 "
            f"AND age > {14 + year % 32} AND tenure_years > {year // 32}"
        )
        if "budget" in said:
            break
    holds(said, "budget")
    print(f"after {year} questions: {said!r}")
    # What was paid for, prices and views go on.
    holds(server.sql(COUNT), "white", "black", "other")
    holds(server.sql(f"EXPLAIN {COUNT}"), "Cost")
    assert left() < 0.05


os.environ.pop("ONLY", None)
run()
