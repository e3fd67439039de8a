use super::{Modes, Scope, Session};
use crate::parse::{ExplainFormat, Statement, parse};

fn one(sql: &str) -> Session {
    let mut statements = parse(sql).unwrap_or_else(|refusal| panic!("{sql}: {refusal}"));
    assert_eq!(statements.len(), 1, "{sql}");
    match statements.remove(0) {
        Statement::Session(session) => session,
        other => panic!("{sql}: {other:?}"),
    }
}

fn set(name: &str, values: &[&str]) -> Session {
    Session::Set { scope: Scope::Session, name: name.to_owned(), values: Some(values.iter().map(|&v| v.to_owned()).collect()) }
}

#[test]
fn settings_are_read_as_postgresql_reads_them() {
    assert_eq!(one("SET DateStyle = 'ISO'"), set("datestyle", &["ISO"]));
    assert_eq!(one("set search_path to a, \"B\", 'c d'"), set("search_path", &["a", "B", "c d"]));
    assert_eq!(one("SET extra_float_digits = -1;"), set("extra_float_digits", &["-1"]));
    assert_eq!(one("SET pgveil.epsilon = 0.5"), set("pgveil.epsilon", &["0.5"]));
    assert_eq!(one("SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE"), set("timezone", &["<+00>-00"]));
    assert_eq!(one("SET TIME ZONE -5"), set("timezone", &["<-05>+05"]));
    assert_eq!(one("SET NAMES 'utf8'"), set("client_encoding", &["utf8"]));
    assert_eq!(one("SET LOCAL x.y TO DEFAULT"), Session::Set { scope: Scope::Local, name: "x.y".to_owned(), values: None });
    assert_eq!(one("/* a */ show -- b\n TimeZone"), Session::Show { name: "timezone".to_owned() });
    assert_eq!(one("SHOW TRANSACTION ISOLATION LEVEL"), Session::Show { name: "transaction_isolation".to_owned() });
    assert_eq!(one("RESET ALL"), Session::ResetAll);
}

#[test]
fn transactions_are_read_with_every_mode() {
    let modes = Modes { isolation: Some("serializable".to_owned()), read_only: Some(true), deferrable: Some(true) };
    assert_eq!(one("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE"), Session::Begin { start: false, modes: modes.clone() });
    assert_eq!(one("START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE"), Session::Begin { start: true, modes });
    assert_eq!(one("END WORK AND CHAIN"), Session::Commit { chain: true });
    assert_eq!(one("ABORT AND NO CHAIN"), Session::Rollback { chain: false });
    assert_eq!(one("ROLLBACK WORK TO SAVEPOINT \"S\""), Session::RollbackTo { name: "S".to_owned() });
    assert_eq!(one("RELEASE s"), Session::Release { name: "s".to_owned() });
}

#[test]
fn refusals_name_the_statement() {
    for (sql, code) in [
        ("INSERT INTO t VALUES (1)", "42501"),
        ("create local temporary table \"#T\" (x int)", "42501"),
        ("COPY t FROM STDIN", "42501"),
        ("COPY (SELECT 1 FROM t) TO STDOUT", "0A000"),
        ("REFRESH MATERIALIZED VIEW v", "42501"),
        ("DECLARE c CURSOR FOR SELECT 1", "0A000"),
        ("FETCH ALL c", "0A000"),
        ("PREPARE p AS SELECT 1", "0A000"),
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
    assert_eq!(parse("SAVEPOINT s;SELECT ';' AS a;;RELEASE s;").unwrap().len(), 3);
    assert_eq!(parse(" ; ; -- nothing\n").unwrap(), vec![]);
    assert!(matches!(parse("EXPLAIN (FORMAT json) SELECT 1").unwrap()[0], Statement::Explain(_, ExplainFormat::Json)));
    assert!(matches!(parse("EXPLAIN (SELECT 1)").unwrap()[0], Statement::Explain(_, ExplainFormat::Text)));
    assert!(parse("SELECT 1 AS a b").is_err());
}
