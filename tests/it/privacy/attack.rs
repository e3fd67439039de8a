//! Statements of an adversary, each with its required outcome.

mod alike;
mod chains;
pub mod fuzz;
mod growth;
mod known;
mod literals;
mod nested;
mod operators;
pub mod paths;
pub mod replay;

use pgveil::engine::{Format, Requester, Service};
use pgveil::error::Error;
use pgveil::parse::{Statement, parse};
use pgveil::policy::{Reuse, SessionSettings};
use tokio_util::sync::CancellationToken;

use crate::fixture::Veil;

/// Budgets that no test exhausts.
fn rich(yaml: String) -> String {
    yaml.replace(
        "budget: {epsilon: 8, delta: 1e-6}",
        "budget: {epsilon: 100000, delta: 1e-3}",
    )
    .replace(
        "per_query: {epsilon: 0.1, max_epsilon: 1}",
        "per_query: {epsilon: 0.5, max_epsilon: 1}",
    )
    .replace(
        "budget: {epsilon: 3, delta: 1e-7, renew: never}",
        "budget: {epsilon: 90000, delta: 1e-4, renew: never}",
    )
}

/// The answer of the stack without noise, rows sorted; or the SQLSTATE and message.
async fn ours(veil: &Veil, sql: &str) -> Result<Vec<String>, String> {
    let rows = veil.rows_as(&Veil::requester(), sql).await;
    rows.map(sorted)
        .map_err(|e| e.report())
        .map_err(|r| format!("{} {}", r.sqlstate, r.message))
}

/// PostgreSQL's answer over the rows themselves.
async fn theirs(veil: &Veil, sql: &str) -> Result<Vec<String>, String> {
    let messages = veil.client.simple_query(sql).await.map_err(|e| {
        e.code()
            .map_or_else(|| e.to_string(), |c| c.code().to_owned())
    })?;
    let text = |row: &tokio_postgres::SimpleQueryRow| {
        (0..row.len())
            .map(|i| row.get(i).unwrap_or("∅").to_owned())
            .collect::<Vec<_>>()
            .join("|")
    };
    let rows = messages.iter().filter_map(|m| {
        if let tokio_postgres::SimpleQueryMessage::Row(row) = m {
            Some(text(row))
        } else {
            None
        }
    });
    Ok(sorted(rows.collect()))
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// The empty copies in the shadow answer shape probes only: a subquery next to an empty aggregate
/// asks about rows that are there.
#[tokio::test(flavor = "multi_thread")]
async fn no_question_is_answered_from_the_empty_copy() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for sql in [
        "SELECT count(*), (SELECT count(*) FROM nls.women) FROM nls.women WHERE false",
        "SELECT count(*) FROM nls.women WHERE 1 = 0 HAVING (SELECT count(*) FROM nls.women) > 5",
        "SELECT count(*) FROM nls.women WHERE false ORDER BY (SELECT count(*) FROM nls.women)",
        "SELECT count(*) + (SELECT count(*) FROM nls.women) FROM nls.women WHERE 1 = 0 AND \
            birth_year > 1945",
        "SELECT (SELECT count(*) FROM nls.women) FROM nls.industries WHERE 1 = 0",
        "SELECT count(*) FROM nls.women WHERE false UNION ALL SELECT count(*) FROM nls.women",
        "SELECT count(*) FROM nls.women w LEFT JOIN (SELECT * FROM nls.interviews WHERE false) i \
            ON \
            i.woman_id = w.woman_id",
        "SELECT count(*) FROM (SELECT * FROM nls.women WHERE false) q",
        "SELECT race, count(*) FROM nls.women WHERE false GROUP BY race LIMIT 0",
    ] {
        assert_eq!(
            ours(&veil, sql).await.unwrap(),
            theirs(&veil, sql).await.unwrap(),
            "{sql}"
        );
    }
}

/// PostgreSQL raises it at the first row it reads: one exact bit, and one of the role's failures.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_a_date_has_not_never_reaches_the_rows() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    for field in ["hour", "minute", "second"] {
        let refused = ours(
            &veil,
            &format!(
                "SELECT count(*) FROM nls.women WHERE extract({field} FROM date '2020-01-01') = 0"
            ),
        )
        .await;
        assert_eq!(
            refused.unwrap_err(),
            format!("0A000 unit \"{field}\" not supported for type date")
        );
    }
    assert_eq!(
        veil.engine
            .ledger()
            .failures_left("analyst", 10)
            .await
            .unwrap(),
        10
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_asker_is_named_and_not_the_shadow() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    assert_eq!(
        ours(&veil, "SELECT current_user, session_user, user")
            .await
            .unwrap(),
        ["analyst|analyst|analyst"]
    );
    assert_eq!(
        ours(
            &veil,
            "SELECT q.current_user || '!' FROM (SELECT current_user) q"
        )
        .await
        .unwrap(),
        ["analyst!"]
    );
    assert_eq!(
        ours(&veil, "SELECT count(*) > 0, current_user FROM nls.women")
            .await
            .unwrap(),
        ["t|analyst"]
    );
}

/// Above the cut the private columns are gone: a name of one must not find another column of the
/// same name further out.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_never_finds_another_column_above_the_cut() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let escaping = "SELECT i.industry_code, (SELECT (SELECT industry_code) FROM nls.interviews \
        GROUP BY industry_code ORDER BY count(*) DESC LIMIT 1) \
        FROM nls.industries i";
    assert!(
        ours(&veil, escaping)
            .await
            .unwrap_err()
            .starts_with("0A000"),
        "{escaping}"
    );
    let free =
        "SELECT race, count(*) > (SELECT count(*) / 3 FROM nls.women) FROM nls.women GROUP BY race";
    assert_eq!(
        ours(&veil, free).await.unwrap(),
        theirs(&veil, free).await.unwrap()
    );
}

/// Private rows are read under UTC; a session elsewhere would get another day's answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_zone_that_rows_are_not_read_in_is_refused() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let ask = async |zone: &str, sql: &str| {
        let requester = Requester {
            settings: vec![("TimeZone".to_owned(), zone.to_owned())],
            ..Veil::requester()
        };
        let [Statement::Query(query)] = &parse(sql).unwrap()[..] else {
            panic!("{sql}")
        };
        veil.engine
            .answer(
                &requester,
                query,
                &[],
                &[],
                &[Format::Text],
                CancellationToken::new(),
            )
            .await
            .map(|_| ())
            .map_err(|e: Error| e.report().sqlstate)
    };
    for sql in [
        "SELECT count(*) FROM nls.women WHERE current_date > date '2020-01-01'",
        "SELECT count(*) FROM nls.women WHERE date_trunc('day', timestamptz '2020-01-01 \
            00:00:00+00') < now()",
    ] {
        assert_eq!(ask("UTC", sql).await, Ok(()), "{sql}");
        assert_eq!(
            ask("Asia/Tokyo", sql).await,
            Err("0A000".to_owned()),
            "{sql}"
        );
    }
}

/// Every text that would show rows, reach another function, or hide a private table. None costs
/// anything.
#[tokio::test(flavor = "multi_thread")]
async fn what_must_be_refused_is_and_costs_nothing() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let before = veil
        .engine
        .ledger()
        .balances("analyst")
        .await
        .unwrap()
        .role
        .spent;
    let mut answered = Vec::new();
    for (number, sql) in include_str!("attack/refused.sql")
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.is_empty() && !l.starts_with("--"))
    {
        let refused = match parse(sql) {
            Ok(statements) if matches!(statements.as_slice(), [Statement::Query(_)]) => {
                ours(&veil, sql).await.is_err()
            }
            Ok(_) => panic!("line {}: not one query: {sql}", number + 1),
            Err(_) => true,
        };
        if !refused {
            answered.push(format!("line {}: {sql}", number + 1));
        }
    }
    assert!(answered.is_empty(), "answered:\n{}", answered.join("\n"));
    assert_eq!(
        veil.engine
            .ledger()
            .balances("analyst")
            .await
            .unwrap()
            .role
            .spent,
        before
    );
    assert_eq!(
        veil.engine
            .ledger()
            .failures_left("analyst", 10)
            .await
            .unwrap(),
        10
    );
}

/// No epsilon is free of charge, however small, and none stops the proxy.
#[tokio::test(flavor = "multi_thread")]
async fn every_epsilon_is_charged_or_refused() {
    let veil = Veil::demo(rich, None).await;
    let [Statement::Query(query)] =
        &parse("SELECT race, count(*), sum(birth_year) FROM nls.women GROUP BY race").unwrap()[..]
    else {
        panic!()
    };
    for epsilon in [
        f64::MIN_POSITIVE,
        1e-300,
        1e-18,
        1e-12,
        1e-9,
        1e-6,
        1e-3,
        1.0,
        1.0000001,
        1e300,
        f64::INFINITY,
        f64::NAN,
        0.0,
        -1.0,
    ] {
        let before = veil
            .engine
            .ledger()
            .balances("analyst")
            .await
            .unwrap()
            .role
            .spent;
        let requester = Requester {
            session_settings: SessionSettings {
                reuse: Reuse::Off,
                ..Veil::session_settings(epsilon)
            },
            ..Veil::requester()
        };
        let answered = veil
            .engine
            .answer(
                &requester,
                query,
                &[],
                &[],
                &[Format::Text],
                CancellationToken::new(),
            )
            .await;
        let charged = veil
            .engine
            .ledger()
            .balances("analyst")
            .await
            .unwrap()
            .role
            .spent
            != before;
        assert_eq!(answered.is_ok(), charged, "{epsilon}: {:?}", answered.err());
    }
}

/// A long chain is a deep tree, although nothing in it is nested: it must not overflow the stack of
/// a whole proxy, wherever it is walked.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_chain_is_refused_before_it_is_deep() {
    let chains = [
        ("SELECT 1", "+1", ""),
        ("SELECT true", " AND true", ""),
        ("SELECT 1", "::int", ""),
        ("SELECT 1", " IS NULL", ""),
        ("SELECT ", "- ", "1"),
        ("SELECT ", "NOT ", "true"),
        ("SELECT a", ".a", ""),
        ("SELECT a", "[1]", ""),
        ("SELECT 1", " UNION SELECT 1", ""),
        ("SELECT 1, 1", " UNION ALL SELECT 1, 1", ""),
        (
            "SELECT count(*), 1 FROM nls.women",
            " UNION ALL SELECT count(*), 1 FROM nls.women",
            "",
        ),
        ("SELECT 1 FROM a", " JOIN a ON true", ""),
        ("SELECT '1'", " AT TIME ZONE 'UTC'", ""),
        ("SELECT '1'", " COLLATE x", ""),
        ("SELECT ", "(", "1"),
        ("SELECT ", "CASE WHEN true THEN ", "1"),
        ("SELECT ", "abs(1)+", "1"),
        (
            "SELECT count(*) FROM nls.women WHERE birth_year",
            "+1",
            " > 0",
        ),
        (
            "SELECT count(*) FROM nls.women WHERE true",
            " AND birth_year > 1945",
            "",
        ),
        ("SELECT count(*)", "+1", " FROM nls.women"),
        ("SELECT sum(birth_year", "-1", ") FROM nls.women"),
        (
            "SELECT count(*) FROM nls.women WHERE race = 'white'",
            " IS TRUE",
            "",
        ),
    ];
    let veil = Veil::demo(rich, Veil::silent()).await;
    let veil = std::sync::Arc::new(veil);
    for (head, link, tail) in chains {
        for links in [20, 40, 80, 120, 240, 40_000] {
            let sql = format!("{head}{}{tail}", link.repeat(links));
            let veil = veil.clone();
            // The proxy has only a worker's stack.
            let answered = tokio::spawn(async move {
                match parse(&sql).as_deref() {
                    Ok([Statement::Query(_)]) => ours(&veil, &sql).await.map(|_| ()),
                    Ok(_) => panic!("one query is wanted"),
                    Err(refusal) => Err(refusal.sqlstate.clone()),
                }
            });
            let answered = answered.await.unwrap();
            // Each term of AND is counted by itself.
            let is_long = head.ends_with('a') || link == " AND true";
            assert!(
                links < 40_000 || is_long || answered.is_err(),
                "{head}{link}"
            );
        }
    }
}
