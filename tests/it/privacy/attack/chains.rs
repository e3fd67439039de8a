//! Conditions as long as business tools write them: thousands of terms side by side, over private
//! and public rows, in both protocols.

use pgveil::engine::{Argument, Format, Service};
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use super::{ours, rich, theirs};
use crate::fixture::Veil;

const TERMS: usize = 5_000;

fn chain(by: &str, terms: usize, term: impl Fn(usize) -> String) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join(by)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_terms_are_answered() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let or = chain(" OR ", TERMS, |at| format!("woman_id = {at}"));
    let and = chain(" AND ", TERMS, |at| format!("woman_id <> {at}"));
    let pairs = chain(" OR ", TERMS, |at| {
        format!("(woman_id = {at} AND birth_year > 1945)")
    });
    let case = chain(" ", TERMS, |at| {
        format!("WHEN woman_id = {at} THEN {}", at % 7)
    });
    let simple = chain(" ", TERMS, |at| format!("WHEN {at} THEN {}", at % 7));
    let list = chain(", ", 2 * TERMS, |at| at.to_string());
    for sql in [
        format!("SELECT count(*) FROM nls.women WHERE {or}"),
        format!("SELECT count(*) FROM nls.women WHERE {and}"),
        format!("SELECT count(*) FROM nls.women WHERE {pairs}"),
        format!("SELECT count(*) FROM nls.women WHERE NOT ({or})"),
        format!("SELECT count(*) FROM nls.women WHERE woman_id IN ({list})"),
        format!("SELECT count(*) FILTER (WHERE {or}) FROM nls.women"),
        format!("SELECT sum(CASE {case} ELSE 0 END) FROM nls.women"),
        format!("SELECT count(*) FROM nls.women WHERE CASE woman_id {simple} END = 3"),
    ] {
        let (ours, theirs) = (ours(&veil, &sql).await, theirs(&veil, &sql).await);
        assert_eq!(ours, theirs, "{}…", &sql[..80]);
    }
    // Public rows, and what is above the cut.
    let public =
        |column: &str, by: &str, sign: &str| chain(by, TERMS, |at| format!("{column} {sign} {at}"));
    let arms = chain(" UNION ALL ", 300, |at| {
        format!("SELECT {at}, industry_code FROM nls.industries WHERE industry_code = 1")
    });
    for sql in [
        format!(
            "SELECT count(*) FROM nls.industries WHERE {}",
            public("industry_code", " OR ", "=")
        ),
        format!(
            "SELECT count(*) FROM nls.industries WHERE {}",
            public("industry_code", " AND ", "<>")
        ),
        format!(
            "SELECT CASE {} END FROM nls.industries",
            chain(" ", TERMS, |at| format!(
                "WHEN industry_code = {at} THEN 'it'"
            ))
        ),
        format!("SELECT count(*) FROM ({arms}) a"),
        format!(
            "SELECT race FROM nls.women GROUP BY race HAVING {} OR true",
            public("count(*)", " OR ", "=")
        ),
    ] {
        let (ours, theirs) = (ours(&veil, &sql).await, theirs(&veil, &sql).await);
        assert_eq!(ours, theirs, "{}…", &sql[..80]);
    }
}

/// A value for each term, as drivers send them.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_parameters_are_answered() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for (table, column) in [
        ("nls.women", "woman_id"),
        ("nls.industries", "industry_code"),
    ] {
        let asked = |value: fn(usize) -> String| {
            format!(
                "SELECT count(*) FROM {table} WHERE {}",
                chain(" OR ", TERMS, |at| format!("{column} = {}", value(at + 1)))
            )
        };
        let statements = parse(&asked(|at| format!("${at}"))).unwrap();
        let [Statement::Query(query)] = statements.as_slice() else {
            panic!("a query")
        };
        let arguments: Vec<Argument> = (0..TERMS)
            .map(|at| Argument {
                format: Format::Text,
                value: Some((at + 1).to_string().into()),
            })
            .collect();
        let answered = veil
            .engine
            .answer(
                &Veil::requester(),
                query,
                &vec![23; TERMS],
                &arguments,
                &[Format::Text],
                CancellationToken::new(),
            )
            .await;
        let answer = answered.unwrap_or_else(|error| panic!("{:?}", error.report()));
        let shown = String::from_utf8_lossy(answer.rows[0][0].as_ref().unwrap()).into_owned();
        assert_eq!(
            Ok(vec![shown]),
            theirs(&veil, &asked(|at| at.to_string())).await
        );
    }
}

/// Longer statements are refused with the limit's name. Statements that only PostgreSQL would
/// refuse, by the depth of its stack, are refused before.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_longer_is_refused_by_name() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for sql in [
        format!(
            "SELECT count(*) FROM nls.women WHERE {}",
            chain(" OR ", 40_000, |at| format!("woman_id = {at}"))
        ),
        format!("SELECT {}", chain(" + ", 5_000, |at| at.to_string())),
        format!("SELECT {}", chain(" || ", 5_000, |at| format!("'{at}'"))),
        format!(
            "SELECT count(*) FROM ({}) q",
            chain(" UNION ALL ", 100, |_| "SELECT woman_id FROM nls.women"
                .to_owned())
        ),
    ] {
        let refusal = veil.ask(&sql).await.unwrap_err().report();
        assert_eq!(refusal.sqlstate, "54001", "{}…", &sql[..60]);
    }
}
