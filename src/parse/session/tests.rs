use super::{Modes, SessionStatement, SettingScope};
use crate::parse::FetchCount::{All, Rows};
use crate::parse::{CopyFormat, Direction, ExplainFormat, Force, Statement, Style, parse};

fn one(sql: &str) -> SessionStatement {
    let mut statements = parse(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    assert_eq!(statements.len(), 1, "{sql}");
    match statements.remove(0) {
        Statement::Session(session) => session,
        other => panic!("{sql}: {other:?}"),
    }
}

fn set(name: &str, values: &[&str]) -> SessionStatement {
    SessionStatement::Set {
        scope: SettingScope::Session,
        name: name.to_owned(),
        values: Some(values.iter().map(|&v| v.to_owned()).collect()),
    }
}

#[test]
fn settings_are_read_as_postgresql_reads_them() {
    assert_eq!(one("SET DateStyle = 'ISO'"), set("datestyle", &["ISO"]));
    assert_eq!(
        one("set search_path to a, \"B\", 'c d'"),
        set("search_path", &["a", "B", "c d"])
    );
    assert_eq!(
        one("SET extra_float_digits = -1;"),
        set("extra_float_digits", &["-1"])
    );
    assert_eq!(
        one("SET pgveil.epsilon = 0.5"),
        set("pgveil.epsilon", &["0.5"])
    );
    assert_eq!(
        one("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE"),
        set("timezone", &["<+00>-00"])
    );
    assert_eq!(one("SET TIME ZONE -5"), set("timezone", &["<-05>+05"]));
    assert_eq!(one("SET NAMES 'utf8'"), set("client_encoding", &["utf8"]));
    assert_eq!(
        one("SET LOCAL x.y TO DEFAULT"),
        SessionStatement::Set {
            scope: SettingScope::Local,
            name: "x.y".to_owned(),
            values: None
        }
    );
    assert_eq!(
        one("/* a */ show -- b\n TimeZone"),
        SessionStatement::Show {
            name: "timezone".to_owned()
        }
    );
    assert_eq!(
        one("SHOW TRANSACTION ISOLATION LEVEL"),
        SessionStatement::Show {
            name: "transaction_isolation".to_owned()
        }
    );
    assert_eq!(one("RESET ALL"), SessionStatement::ResetAll);
}

#[test]
fn transactions_are_read_with_every_mode() {
    let modes = Modes {
        isolation: Some("serializable".to_owned()),
        read_only: Some(true),
        deferrable: Some(true),
    };
    assert_eq!(
        one("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE"),
        SessionStatement::Begin {
            start: false,
            modes: modes.clone()
        }
    );
    assert_eq!(
        one("START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"),
        SessionStatement::Begin { start: true, modes }
    );
    assert_eq!(
        one("END WORK AND CHAIN"),
        SessionStatement::Commit { chain: true }
    );
    assert_eq!(
        one("ABORT AND NO CHAIN"),
        SessionStatement::Rollback { chain: false }
    );
    assert_eq!(
        one("ROLLBACK WORK TO SAVEPOINT \"S\""),
        SessionStatement::RollbackTo {
            name: "S".to_owned()
        }
    );
    assert_eq!(
        one("RELEASE s"),
        SessionStatement::Release {
            name: "s".to_owned()
        }
    );
}

#[test]
fn refusals_name_the_statement() {
    for (sql, code) in [
        ("INSERT INTO t VALUES (1)", "42501"),
        ("create local temporary table \"#T\" (x int)", "42501"),
        ("COPY t FROM STDIN", "42501"),
        ("COPY t (a, b) TO STDOUT", "42501"),
        ("COPY (SELECT 1) TO '/tmp/x'", "42501"),
        ("COPY (SELECT 1) TO PROGRAM 'sh'", "42501"),
        ("COPY (DELETE FROM t) TO STDOUT", "0A000"),
        ("REFRESH MATERIALIZED VIEW v", "42501"),
        ("DECLARE c NO SCROLL SCROLL CURSOR FOR SELECT 1", "42P11"),
        ("DECLARE c CURSOR FOR DELETE FROM t", "0A000"),
        ("FETCH 1 2 c", "42601"),
        ("FETCH 99999999999 FROM c", "42601"),
        ("PREPARE p AS INSERT INTO t VALUES (1)", "42501"),
        ("PREPARE p (point) AS SELECT $1", "0A000"),
        ("PREPARE TRANSACTION 'x'", "0A000"),
        ("EXECUTE p ((SELECT 1))", "0A000"),
        ("EXECUTE p (1) 2", "42601"),
        ("EXPLAIN ANALYZE EXECUTE p", "42501"),
        ("EXPLAIN ANALYZE SELECT 1", "42501"),
        ("EXPLAIN (FORMAT JSON, ANALYZE) SELECT 1", "42501"),
        ("EXPLAIN INSERT INTO t VALUES (1)", "42501"),
        ("BEGIN nonsense", "42601"),
        ("SET a b", "42601"),
        ("SELEC 1", "42601"),
    ] {
        assert_eq!(parse(sql).unwrap_err().sqlstate, code, "{sql}");
    }
    assert_eq!(parse("SET a b").unwrap_err().position, Some(7));
}

#[test]
fn strings_are_split_by_tokens_only() {
    assert_eq!(
        parse("SAVEPOINT s;SELECT ';' AS a;;RELEASE s;")
            .unwrap()
            .len(),
        3
    );
    assert_eq!(parse(" ; ; -- nothing\n").unwrap(), vec![]);
    assert!(matches!(
        parse("EXPLAIN (FORMAT json) SELECT 1").unwrap()[0],
        Statement::Explain(_, ExplainFormat::Json)
    ));
    assert!(matches!(
        parse("EXPLAIN (SELECT 1)").unwrap()[0],
        Statement::Explain(_, ExplainFormat::Text)
    ));
    assert!(parse("SELECT 1 AS a b").is_err());
}

fn only(sql: &str) -> Statement {
    let mut statements = parse(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    assert_eq!(statements.len(), 1, "{sql}");
    statements.remove(0)
}

#[test]
fn types_of_the_catalog_lose_their_schema() {
    let Statement::Query(query) =
        only("SELECT '1'::\"pg_catalog\".\"int4\", x::pg_catalog.timestamptz, y::other.int4")
    else {
        panic!()
    };
    assert_eq!(
        query.to_sql(),
        "SELECT '1'::INT4, x::TIMESTAMPTZ, y::other.int4"
    );
}

#[test]
fn cursors_are_declared_and_walked_in_every_spelling() {
    for (sql, expected) in [
        ("DECLARE c CURSOR FOR SELECT 1", (false, None, false)),
        (
            "DECLARE c BINARY INSENSITIVE SCROLL CURSOR WITH HOLD FOR SELECT 1",
            (true, Some(true), true),
        ),
        (
            "declare c no scroll asensitive binary cursor without hold for (select 1)",
            (true, Some(false), false),
        ),
    ] {
        let Statement::Declare(declare) = only(sql) else {
            panic!("{sql}")
        };
        assert_eq!(
            (
                declare.name.as_str(),
                (declare.is_binary, declare.scroll, declare.holds)
            ),
            ("c", expected),
            "{sql}"
        );
    }
    let rows = Rows;
    for (sql, expected) in [
        ("FETCH c", Direction::Forward(rows(1))),
        ("FETCH next", Direction::Forward(rows(1))),
        ("FETCH NEXT FROM c", Direction::Forward(rows(1))),
        ("FETCH NEXT IN c", Direction::Forward(rows(1))),
        ("FETCH FROM c", Direction::Forward(rows(1))),
        ("FETCH PRIOR c", Direction::Backward(rows(1))),
        ("FETCH FIRST FROM c", Direction::Absolute(1)),
        ("FETCH LAST FROM c", Direction::Absolute(-1)),
        ("FETCH ABSOLUTE -3 FROM c", Direction::Absolute(-3)),
        ("FETCH RELATIVE +2 FROM c", Direction::Relative(2)),
        ("FETCH 7 FROM c", Direction::Forward(rows(7))),
        ("FETCH -7 FROM c", Direction::Backward(rows(7))),
        ("FETCH ALL FROM c", Direction::Forward(All)),
        ("FETCH FORWARD c", Direction::Forward(rows(1))),
        ("FETCH FORWARD 3 FROM c", Direction::Forward(rows(3))),
        ("FETCH FORWARD ALL FROM c", Direction::Forward(All)),
        ("FETCH BACKWARD FROM c", Direction::Backward(rows(1))),
        ("FETCH BACKWARD -3 FROM c", Direction::Forward(rows(3))),
        ("FETCH BACKWARD ALL IN c", Direction::Backward(All)),
    ] {
        for (sql, moves_only) in [
            (sql.to_owned(), false),
            (sql.replace("FETCH", "MOVE"), true),
        ] {
            let Statement::Fetch(fetch) = only(&sql) else {
                panic!("{sql}")
            };
            assert_eq!(
                (fetch.direction, fetch.moves_only),
                (expected, moves_only),
                "{sql}"
            );
        }
    }
    assert_eq!(
        one("CLOSE \"C\""),
        SessionStatement::Close {
            name: Some("C".to_owned())
        }
    );
    assert_eq!(one("CLOSE ALL"), SessionStatement::Close { name: None });
}

#[test]
fn prepared_statements_are_read() {
    let Statement::Prepare(prepare) =
        only("PREPARE p (int, text, timestamptz, numeric(10, 2), unknown) AS SELECT $1")
    else {
        panic!()
    };
    assert_eq!(
        (prepare.name.as_str(), prepare.types.as_slice()),
        ("p", [23, 25, 1184, 1700, 0].as_slice())
    );
    let Statement::Execute(execute) = only("EXECUTE p (1 + 2, 'x', NULL, -1)") else {
        panic!()
    };
    assert_eq!(
        execute.values.query(&[23, 25, 16, 20]).unwrap().to_sql(),
        "VALUES (CAST((1 + 2) AS INTEGER), CAST(('x') AS TEXT), CAST((NULL) AS BOOLEAN), CAST((-1) \
            AS BIGINT))"
    );
}

#[allow(clippy::too_many_lines, reason = "one table of cases")]
#[test]
fn copy_options_are_those_of_postgresql() {
    let style = |delimiter, null: &str, has_header| Style {
        delimiter,
        null: null.to_owned(),
        has_header,
    };
    let csv = |style, quote, escape, force| CopyFormat::Csv {
        style,
        quote,
        escape,
        force,
    };
    let none = || Force::Columns(Vec::new());
    for (options, expected) in [
        ("", CopyFormat::Text(style(b'\t', "\\N", false))),
        ("WITH (FORMAT binary)", CopyFormat::Binary),
        ("BINARY", CopyFormat::Binary),
        (
            "(DELIMITER '|', NULL 'nil', HEADER)",
            CopyFormat::Text(style(b'|', "nil", true)),
        ),
        (
            "WITH CSV HEADER",
            csv(style(b',', "", true), b'"', b'"', none()),
        ),
        (
            "WITH DELIMITER AS ';' NULL AS 'x' CSV QUOTE AS '~' ESCAPE AS '!' FORCE QUOTE a, b",
            {
                csv(
                    style(b';', "x", false),
                    b'~',
                    b'!',
                    Force::Columns(vec!["a".to_owned(), "b".to_owned()]),
                )
            },
        ),
        (
            "(FORMAT csv, HEADER off, FORCE_QUOTE *, ENCODING 'utf-8')",
            csv(style(b',', "", false), b'"', b'"', Force::All),
        ),
        ("(FORMAT csv, QUOTE '''', FORCE_QUOTE (a))", {
            csv(
                style(b',', "", false),
                b'\'',
                b'\'',
                Force::Columns(vec!["a".to_owned()]),
            )
        }),
    ] {
        let Statement::Copy(copy) = only(&format!("COPY (SELECT 1 AS a) TO STDOUT {options}"))
        else {
            panic!("{options}")
        };
        assert_eq!(copy.format, expected, "{options}");
    }
    for (options, code) in [
        ("(FORMAT xml)", "22023"),
        ("(FORMAT csv, FORMAT csv)", "42601"),
        ("(FORMAT binary, DELIMITER ',')", "42601"),
        ("(FORMAT binary, HEADER)", "0A000"),
        ("(DELIMITER 'ab')", "0A000"),
        ("(DELIMITER 'a')", "22023"),
        ("(DELIMITER E'\\n')", "22023"),
        ("(QUOTE '\"')", "0A000"),
        ("(FORCE_QUOTE *)", "0A000"),
        ("(FORMAT csv, DELIMITER '\"')", "22023"),
        ("(FORMAT csv, NULL '\"')", "22023"),
        ("(FORMAT csv, NULL ',')", "22023"),
        ("(HEADER match)", "0A000"),
        ("(FREEZE)", "0A000"),
        ("(ENCODING 'latin1')", "0A000"),
        ("(NONSENSE 1)", "42601"),
        ("(FORMAT csv", "42601"),
        ("CSV NONSENSE", "42601"),
    ] {
        assert_eq!(
            parse(&format!("COPY (SELECT 1) TO STDOUT {options}"))
                .unwrap_err()
                .sqlstate,
            code,
            "{options}"
        );
    }
}
