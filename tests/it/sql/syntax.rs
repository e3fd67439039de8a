//! Broken statements: PostgreSQL's own errors, word for word and at the same place.

use pgveil::parse::{Statement, parse};
use pgveil::refusal::Refusal;

use super::types::{log_in, serve};
use crate::fixture::Veil;

/// One a line; `\n` is a line's end.
const BROKEN: &str = include_str!("syntax/broken.sql");

/// PostgreSQL accepts their grammar; the named objects need not exist.
const VALID: &str = include_str!("syntax/valid.sql");

fn statements(list: &str) -> Vec<String> {
    list.lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.replace("\\n", "\n"))
        .collect()
}

/// SQLSTATE, message and place.
type Reported = (String, String, Option<u32>);

fn reported(refusal: Refusal) -> Reported {
    let Refusal {
        sqlstate,
        message,
        position,
        detail: _,
        hint: _,
        reason: _,
    } = refusal;
    (sqlstate, message, position)
}

async fn ours(veil: &Veil, sql: &str) -> Option<Reported> {
    match parse(sql).as_deref() {
        Err(refusal) => Some(reported(refusal.clone())),
        // PostgreSQL in the shadow refuses what the parser accepts.
        Ok([Statement::Query(_)]) => veil
            .ask(sql)
            .await
            .err()
            .map(|error| reported(error.report())),
        Ok(_) => None,
    }
}

/// How many errors agree, and the others.
async fn compared(
    veil: &Veil,
    list: &str,
    is_meant: impl Fn(&Reported) -> bool,
) -> (usize, Vec<String>) {
    let (mut agree, mut different) = (0, Vec::new());
    for sql in statements(list) {
        let wanted = theirs(&veil.client, &sql)
            .await
            .unwrap_or_else(|| panic!("PostgreSQL answers {sql}"));
        assert!(is_meant(&wanted), "{sql}: {wanted:?}");
        match ours(veil, &sql).await {
            Some(reported) if reported == wanted => agree += 1,
            reported => different.push(format!(
                "{sql}\n  PostgreSQL {wanted:?}\n  pgveil     {reported:?}"
            )),
        }
    }
    println!(
        "{agree} of {} are reported as PostgreSQL tells them; not these:\n{}",
        agree + different.len(),
        different.join("\n")
    );
    (agree, different)
}

async fn theirs(client: &tokio_postgres::Client, sql: &str) -> Option<Reported> {
    let error = client.simple_query(sql).await.err()?;
    let error = error.as_db_error().unwrap();
    let position = match error.position() {
        Some(tokio_postgres::error::ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    Some((
        error.code().code().to_owned(),
        error.message().to_owned(),
        position,
    ))
}

/// Whether PostgreSQL's grammar refused it.
fn is_of_grammar(reported: &Reported) -> bool {
    let (_, message, _) = reported;
    [
        "syntax error at ",
        "unterminated ",
        "trailing junk ",
        "zero-length delimited ",
    ]
    .iter()
    .any(|start| message.starts_with(start))
}

#[tokio::test(flavor = "multi_thread")]
async fn syntax_errors_are_postgresqls() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let (agree, different) = compared(&veil, BROKEN, is_of_grammar).await;
    assert!(agree >= 190, "{agree} agree, {} do not", different.len());
    for reported in different {
        assert!(
            !["Expected", "found:", "Word("]
                .iter()
                .any(|word| reported.contains(word)),
            "the parser's own words: {reported}"
        );
    }
}

/// Statements that PostgreSQL reads and then refuses: names, types and operators.
const MISTAKEN: &str = include_str!("syntax/mistaken.sql");

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_reported_as_by_postgresql() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let (agree, different) = compared(&veil, MISTAKEN, |reported| !is_of_grammar(reported)).await;
    assert!(agree >= 70, "{agree} agree, {} do not", different.len());
}

/// Each statement of a text has its places in the whole text, and so have the values of EXECUTE.
#[tokio::test(flavor = "multi_thread")]
async fn places_are_those_of_the_text_that_was_sent() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let mut socket = log_in(serve(&veil).await).await;
    for (sql, wanted) in [
        (
            "SELECT 'é'; SELECT industry FROM nls.industries FOR UPDATE",
            "FOR",
        ),
        ("PREPARE p AS SELECT *, count(*) FROM nls.women", "*, c"),
        ("SELECT 1; COPY (SELECT 1) TO STDOUT (WRONG)", "WRONG"),
        ("SELECT 1; EXECUTE q (1, (SELECT 1))", "(SELECT 1))"),
    ] {
        let replies = socket.ask(sql).await;
        let error = replies.iter().find(|reply| reply.kind == b'E');
        let error = error.unwrap_or_else(|| panic!("{sql}: {replies:?}"));
        let place = sql
            .find(wanted)
            .map(|at| sql[..at].chars().count() + 1)
            .unwrap();
        assert_eq!(error.field(b'P'), place.to_string(), "{sql}: {replies:?}");
    }
}

/// A construct of PostgreSQL's grammar that the parser lacks is reported as unsupported, not as the
/// client's error.
#[test]
fn valid_statements_are_no_syntax_errors() {
    let (mut read, mut unread) = (0, Vec::new());
    for sql in statements(VALID) {
        match parse(&sql) {
            Ok(_) => read += 1,
            Err(refusal) if refusal.message.starts_with("unsupported syntax at ") => {
                unread.push(format!("{sql}: {refusal}"))
            }
            Err(refusal) => assert_ne!(refusal.sqlstate, "42601", "{sql}: {refusal}"),
        }
    }
    let nested = parse(&format!("SELECT {}true", "NOT ".repeat(240)))
        .map(|_| String::new())
        .unwrap_or_else(|refusal| refusal.sqlstate);
    assert!(["", "54001"].contains(&nested.as_str()), "{nested}");
    println!(
        "{read} read, {} not supported:\n{}",
        unread.len(),
        unread.join("\n")
    );
    assert!(unread.len() < 40, "{} not read", unread.len());
}
