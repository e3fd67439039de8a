"""psycopg 3 in the admin database: extended protocol, in and out of transactions."""

import os

import psycopg

where = {
    "host": "127.0.0.1",
    "port": os.environ["VEILED_PORT"],
    "dbname": "pgveil",
    "password": "analyst",
}

with psycopg.connect(user="olga", **where) as connection:
    rows = connection.execute("SHOW SESSIONS").fetchall()
    assert [row[1:3] for row in rows] == [("olga", "operator")], rows
    names = [column.name for column in connection.execute("SHOW ACCOUNTS").description]
    assert names[:2] == ["account", "left"], names
    # Prepared by the driver after some executions.
    for _ in range(8):
        assert connection.execute("SHOW POOLS").fetchall()
    # In binary: the values are text all the same.
    with connection.cursor(binary=True) as cursor:
        assert ("SHOW HELP", "watch") in [row[:2] for row in cursor.execute("SHOW HELP")]
    connection.commit()
    try:
        connection.execute("SELECT count(*) FROM nls.women")
        raise SystemExit("a question was answered")
    except psycopg.errors.FeatureNotSupported:
        connection.rollback()

with psycopg.connect(user="wim", autocommit=True, **where) as connection:
    try:
        connection.execute("SHOW ACCOUNTS")
        raise SystemExit("accounts were shown")
    except psycopg.errors.InsufficientPrivilege:
        pass
    try:
        connection.execute("KILL 1")
        raise SystemExit("a session was ended")
    except psycopg.errors.UndefinedObject:
        pass
