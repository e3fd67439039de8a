#!/usr/bin/env python3
"""Seeds of the fuzz targets from the goldens, policies and a few conversations, and dictionaries of
their words: written to fuzz/corpus.
"""

import hashlib
import pathlib
import re
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"


def keep(target, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def statements():
    files = sorted((ROOT / "tests").rglob("*.sql"))
    return [
        text.strip() for file in files for text in file.read_text().split(";\n") if text.strip()
    ]


def message(kind, body):
    return kind + struct.pack("!i", len(body) + 4) + body


def simple(sql):
    return message(b"Q", sql.encode() + b"\0")


def extended(sql, *values):
    bind = (
        b"\0\0"
        + struct.pack("!hh", 0, len(values))
        + b"".join(struct.pack("!i", len(v)) + v for v in values)
        + struct.pack("!h", 0)
    )
    steps = [
        (b"P", b"\0" + sql.encode() + b"\0\0\0"),
        (b"D", b"S\0"),
        (b"B", bind),
        (b"D", b"P\0"),
        (b"E", b"\0\0\0\0\0"),
        (b"S", b""),
    ]
    return b"".join(message(*step) for step in steps)


def conversations():
    session = [
        "BEGIN; SAVEPOINT a; ROLLBACK TO a; COMMIT",
        "DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT many",
        "FETCH BACKWARD 3 FROM c",
        "PREPARE p (int) AS SELECT three, $1",
        "EXECUTE p (1)",
        "COPY (SELECT three) TO STDOUT (FORMAT csv, HEADER)",
        "COPY (SELECT three) TO STDOUT (FORMAT binary)",
        "SET pgveil.epsilon = 0.5; SHOW ALL",
        "SET TIME ZONE 'UTC'; RESET ALL; DISCARD ALL",
        "EXPLAIN (FORMAT JSON) SELECT 1",
        "SELECT set_config('TimeZone', 'UTC', false)",
    ]
    whole = b"".join(simple(sql) for sql in session)
    yield b"\0" + whole
    for sql in session:
        yield b"\0" + simple(sql)
    yield b"\0" + extended("SELECT $1::int", b"7")
    yield b"\0" + extended("SELECT three") + message(b"C", b"Ss\0") + message(b"H", b"") + message(
        b"f", b"no\0"
    ) + message(b"X", b"")
    startup = b"".join(
        part + b"\0"
        for part in [b"user", b"ann", b"database", b"survey", b"options", b"-c geqo=off", b""]
    )
    for code, body in [
        (3 << 16, startup),
        (196610, startup),
        (80877103, b""),
        (80877104, b""),
        (80877102, b"\0" * 8),
    ]:
        yield b"\1" + struct.pack("!ii", len(body) + 8, code) + body


# The columns of the table that the target writes, and rows of it.
WRITTEN = "person, smoked, feels, tea, coffee, income, page, note"
ROW = "7, 'yes', 'sad', true, false, 1000, 'zqone', 'a note'"
LINES = b"7\tyes\tsad\tt\tf\t1000\tzqone\ta note\n8\t\\N\thappy\tf\tf\t0.5\tzqtwo\t\\N\n"


def writes():
    insert = f"INSERT INTO nls.answers ({WRITTEN}) VALUES "
    copy = f"COPY answers ({WRITTEN}) FROM STDIN"
    cast = "7::bigint, E'yes', 'sad'::mood, 't', CAST('f' AS bool), (1e3), U&'zqone', DEFAULT"
    for sql in [
        f"{insert}({ROW})",
        f"{insert}({ROW}), ({cast})",
        f"{insert}({ROW.replace('zqone', 'zqfour')})",
        f"{insert}({ROW.replace('7', 'NULL')}) RETURNING page",
        f"{insert}({ROW}, 'zq'",
        f"INSERT INTO answers (person, page_cohort) VALUES (1, 2)",
        f"BEGIN; {insert}({ROW}); COMMIT",
        f"INSERT INTO answers ({WRITTEN}) SELECT * FROM UNNEST(('{{7,8}}'::int4[])::integer[], "
        "'{no,NULL}'::text[], '{sad,sad}'::mood[], '{t,f}'::bool[], '{f,f}'::bool[], "
        "('{1,2.5}'::numeric[])::double precision[], E'{zqone,\"zq\\\\two\"}'::varchar[], "
        "'{a,b}'::text[])",
    ]:
        yield b"\1\x1e" + sql.encode()
    places = ", ".join(f"${number}" for number in range(1, 9))
    text = [b"\x007", b"\5yes", b"\5sad", b"\5t", b"\1f", b"\x001000", b"\5zqone", b"\5a note"]
    binary = [
        b"\x84\0\0\0\7",
        b"\x85yes",
        b"\x8fsad",
        b"\x81\1",
        b"\x81\0",
        b"\x8c" + struct.pack("!hhhhh", 1, 0, 0, 0, 1000),
        b"\x85zqtwo",
        b"\x75",
    ]
    for values in (text, binary):
        yield b"\1\x1e" + f"{insert}({places})".encode() + b"\x1e" + b"\x1e".join(values)
    csv = LINES.replace(b"\t", b",").replace(b"\\N", b"").replace(b"a note", b'"a ""note""\n"')
    for options, lines in [
        ("", LINES),
        ("", LINES + b"\\.\n"),
        ("", LINES.replace(b"zqone", b"zq\\x6fne").replace(b"a note", b"a\\\tn\\\note")),
        ("(FORMAT csv)", csv),
        ("(FORMAT csv, HEADER, QUOTE '|', ESCAPE '\\', NULL 'x')", b"a\n" + csv),
        ("(DELIMITER '|', NULL '')", LINES.replace(b"\t", b"|")),
        ("(FORMAT binary)", LINES),
    ]:
        yield b"\3\0\x1f\x1e" + f"{copy} {options}".encode() + b"\x1e" + lines


# A page or a form of each site. The first byte: 1 is the desk, 2 has no session, 4 is a request as
# it stands.
PAGES = {
    0: [
        "/",
        "/budgets",
        "/statements?before=3",
        "/explore",
        "/policy",
        "/checks",
        "/login",
        "/style.css",
        "/?again",
        "/none",
    ],
    1: ["/", "/answer", "/budget", "/statements", "/login", "/style.css", "/none"],
}
FORMS = {
    0: [("/logout",), ("/freeze", "account=analyst", "why=a leaver", "sure=yes")],
    1: [("/logout",), ("/run",), ("/run", "quote=0123456789abcdef")],
}


def requests():
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    for site, pages in PAGES.items():
        for page in pages:
            for session in (0, 2):
                yield bytes(
                    [site | session | 4]
                ) + f"GET {page} HTTP/1.1\r\nHost: \1\r\nCookie: \2\r\n\r\n".encode()
        for path, *fields in FORMS[site]:
            yield bytes([site]) + "\0".join([path[1:], *fields]).encode()
        for who in ("olga", "analyst"):
            yield bytes([site | 2]) + f"login\0name={who}\0password=secret".encode()
        body = "token=\3"
        yield bytes([site | 4]) + (
            "POST /none HTTP/1.1\r\nHost: \1\r\nCookie: \2\r\nOrigin: http://\1\r\n"
            f"{form}Content-Length: 8\r\n\r\n{body}"
        ).encode()


def dictionary(name, words):
    lines = [
        '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for word in sorted(words)
        if word.isascii() and word.isprintable()
    ]
    (CORPUS / name).write_text("\n".join(lines) + "\n")


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    words = {
        "$1",
        "$2",
        "E'\\'",
        "''",
        "::",
        "/*",
        "*/",
        "--",
        "$$",
        "U&\"",
        "||",
        "<=",
        "->>",
        "nls.things",
    }
    words.update("thing_id woman_id s i l n m f r t tx v b u d dd ts tz iv tm en j a ta".split())
    for number, sql in enumerate(statements()):
        words.update(re.findall(r"[A-Za-z_][A-Za-z_0-9.]*", sql))
        if len(sql) < 4000:
            keep("plan", bytes([(number * 37) % 256 if number % 3 == 0 else 0]) + sql.encode())
            bound = re.sub(r"\b\d+\b|'[^']*'", lambda _: "$1", sql)
            keep("bind", bound.encode() + b"\0dit's \\ \0e-1")
            keep("messages", b"\0" + simple(sql))
            keep("pages", b"\0explore\0role=analyst\0epsilon=\0sql=" + sql.encode())
            keep("pages", b"\1price\0sql=" + sql.encode())
    for sql in [
        "SELECT $1, $2::text WHERE $1 = ANY($2)",
        "SELECT count(*) FROM t WHERE a = $1 AND b IN ($2, $3) LIMIT $4 OFFSET $5",
    ]:
        keep("bind", sql.encode() + b"".join(b"\0" + bytes([100 + at]) + b"x'y" for at in range(5)))
    for request in requests():
        keep("pages", request)
    for write in writes():
        keep("writes", write)
    words.update(f"{WRITTEN}, zqone, zqtwo, COPY, STDIN, nls.answers".split(", "))
    for conversation in conversations():
        keep("messages", conversation)
    keys = set()
    for policy in [*(ROOT / "policies").glob("*.yaml"), *(ROOT / "tests").rglob("policy.yaml")]:
        text = policy.read_text()
        keys.update(re.findall(r"[A-Za-z_][A-Za-z_0-9.]*", re.sub(r"#.*", "", text)))
        keep("policy", text.encode())
        keep("draft", text.encode())
        keep("pages", b"\0policy\0draft=" + text.encode())
    dictionary("sql.dict", words)
    dictionary(
        "policy.dict",
        keys | {"${X}", ": ", "- ", "{", "}", "[", "]", "1e-6", "->", "!!", "&a", "*a"},
    )


main()
