//! `timing: {quantum: …}`: the effects of private rows show at the end of a quantum, and not
//! before. Quanta here are so long that they never end, or so short that nobody waits for them: no
//! test measures a time.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pgveil::engine::{Answer, Engine, Format, Service};
use pgveil::error::Error;
use pgveil::parse::{Query, Statement, parse};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fixture::Veil;

const WOMEN: &str = "SELECT count(*) FROM nls.women";
/// The database works for minutes on this one.
const SLOW: &str = "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), \
    nls.industries a, nls.occupations b, nls.industries c";

/// The demo's policy under a quantum.
async fn paced(quantum: &str, edit: impl Fn(String) -> String) -> Veil {
    Veil::demo(
        |yaml| edit(format!("{yaml}\ntiming: {{quantum: {quantum}}}\n")),
        Veil::silent(),
    )
    .await
}

fn query(sql: &str) -> Query {
    match parse(sql).unwrap().remove(0) {
        Statement::Query(query) => query,
        other => panic!("{other:?}"),
    }
}

fn ask(
    engine: &Arc<Engine>,
    sql: &str,
    cancel: &CancellationToken,
) -> JoinHandle<Result<Answer, Error>> {
    let (engine, query, cancel) = (engine.clone(), query(sql), cancel.clone());
    tokio::spawn(async move {
        engine
            .answer(
                &Veil::requester(),
                &query,
                &[],
                &[],
                &[Format::Text],
                cancel,
            )
            .await
    })
}

/// Waits until this many questions have read their rows.
async fn resting(veil: &Veil, count: usize) {
    let read = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND \
        query LIKE 'SELECT%' AND pid <> pg_backend_pid()";
    while veil.direct(read).await != [count.to_string()] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether the question is still waiting after more has happened elsewhere.
async fn rests(veil: &Veil, asked: &mut JoinHandle<Result<Answer, Error>>) -> bool {
    for _ in 0..20 {
        veil.ask("SELECT count(*) FROM nls.industries")
            .await
            .unwrap();
    }
    let mut asked = std::pin::pin!(asked);
    std::future::poll_fn(|context| Poll::Ready(asked.as_mut().poll(context).is_pending())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_shows_before_the_quantum_ends() {
    let veil = paced("24h", |yaml| yaml).await;
    let never = CancellationToken::new();
    let mut first = ask(&veil.engine, WOMEN, &never);
    resting(&veil, 1).await;
    // The same question of another session, here and on another proxy of the same ledger, waits
    // with it.
    let other = veil.proxy(&veil.ledger).await;
    let (mut second, mut third) = (ask(&veil.engine, WOMEN, &never), ask(&other, WOMEN, &never));
    assert!(
        rests(&veil, &mut first).await
            && rests(&veil, &mut second).await
            && rests(&veil, &mut third).await
    );
    let history = veil
        .rows_as(&Veil::requester(), "SELECT count(*) FROM pgveil.history")
        .await
        .unwrap();
    assert_eq!(history, ["1"], "the debit shows before the rows are read");
    // A cancel cannot show whether it came before the rows were read.
    let cancel = CancellationToken::new();
    let mut fourth = ask(&veil.engine, "SELECT count(*) FROM nls.interviews", &cancel);
    while veil
        .rows_as(&Veil::requester(), "SELECT count(*) FROM pgveil.history")
        .await
        .unwrap()
        != ["2"]
    {}
    resting(&veil, 2).await;
    cancel.cancel();
    assert!(rests(&veil, &mut fourth).await);
    let early = CancellationToken::new();
    let mut fifth = ask(&veil.engine, SLOW, &early);
    while veil
        .rows_as(&Veil::requester(), "SELECT count(*) FROM pgveil.history")
        .await
        .unwrap()
        != ["3"]
    {}
    early.cancel();
    assert!(rests(&veil, &mut fifth).await);
    // A statement that reads no private row does not wait, nor do refusals.
    for sql in [
        "SELECT 1",
        "SELECT relname FROM pg_class LIMIT 1",
        "SELECT count(*) FROM nls.women WHERE 1 = 0",
    ] {
        veil.ask(sql).await.unwrap();
    }
    assert!(veil.ask("SELECT * FROM nls.women").await.is_err());
    assert!(
        !veil
            .engine
            .explain(
                &Veil::requester(),
                &query(WOMEN),
                &[],
                &[],
                pgveil::parse::ExplainFormat::Text,
                tokio_util::sync::CancellationToken::new(),
            )
            .await
            .unwrap()
            .is_empty()
    );
    for asked in [first, second, third, fourth, fifth] {
        asked.abort();
    }
}

/// A free question that waits for a connection must not show when another one's rows were read.
#[tokio::test(flavor = "multi_thread")]
async fn connections_rest_as_well() {
    let veil = paced("24h", |yaml| {
        yaml.replace("per_query: {epsilon: 0.5", "per_query: {epsilon: 1")
    })
    .await;
    let never = CancellationToken::new();
    // One role's share of four connections, and its whole budget.
    let first = [
        "SELECT count(*) FROM nls.women",
        "SELECT sum(birth_year) FROM nls.women",
        "SELECT count(*) FROM nls.interviews",
    ];
    let resting_ones: Vec<_> = first
        .iter()
        .map(|sql| ask(&veil.engine, sql, &never))
        .collect();
    resting(&veil, 3).await;
    let mut refused = ask(
        &veil.engine,
        "SELECT avg(birth_year) FROM nls.women",
        &never,
    );
    assert!(rests(&veil, &mut refused).await);
    resting_ones.iter().for_each(JoinHandle::abort);
    refused.abort();
}

/// Metrics, the admin database and the record show the same while the database works and when it is
/// done.
#[tokio::test(flavor = "multi_thread")]
async fn operators_see_nothing_before_the_quantum_ends() {
    let veil = paced("24h", |yaml| yaml).await;
    let never = CancellationToken::new();
    let shown = async || {
        veil.engine.ledger().flush().await;
        let records = veil.engine.ledger().records(0, 100).await.unwrap();
        (veil.engine.pools(), records.len())
    };
    let mut running = ask(&veil.engine, SLOW, &never);
    let works = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE \
        'SELECT%interviews%' AND pid <> pg_backend_pid()";
    while veil.direct(works).await != ["1"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let working = shown().await;
    assert_eq!((working.0[0].1.used, working.1), (1, 0));
    let stop = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND \
        query LIKE 'SELECT%interviews%' AND pid <> pg_backend_pid()";
    veil.client.batch_execute(stop).await.unwrap();
    while veil.direct(works).await != ["0"] {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(rests(&veil, &mut running).await);
    let done = shown().await;
    assert_eq!(done.0, working.0);
    // Those of the questions about public tables.
    assert_eq!(done.1, 20);
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_rest_as_well() {
    let veil = paced("24h", |yaml| {
        yaml.replace("statement_timeout: 60s", "statement_timeout: 3ms")
    })
    .await;
    let mut failing = ask(&veil.engine, SLOW, &CancellationToken::new());
    resting(&veil, 1).await;
    assert!(rests(&veil, &mut failing).await);
    assert_eq!(
        veil.engine.pools()[0].1.used,
        1,
        "its connection counts as used"
    );
    assert_eq!(
        veil.engine.ledger().failures("analyst").await.unwrap(),
        0,
        "nor does their count tell"
    );
    failing.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_the_same_under_a_quantum() {
    let veil = paced("20ms", |yaml| {
        yaml.replace("statement_timeout: 60s", "statement_timeout: 10s")
    })
    .await;
    let questions = [
        WOMEN,
        "SELECT race, count(*) FROM nls.women GROUP BY race ORDER BY race",
        "SELECT count(*) FROM nls.women WHERE birth_year > (SELECT avg(birth_year) FROM nls.women)",
        "SELECT (SELECT count(*) FROM nls.women), (SELECT count(*) FROM nls.interviews)",
    ];
    veil.answers_as_postgresql(&Veil::requester(), &questions)
        .await;
    let paid = veil.spent().await;
    veil.answers_as_postgresql(&Veil::requester(), &questions)
        .await;
    assert_eq!(veil.spent().await, paid, "all of them are kept");
    let cancel = CancellationToken::new();
    let slow = ask(&veil.engine, SLOW, &cancel);
    while veil.spent().await == paid {}
    cancel.cancel();
    assert!(matches!(slow.await.unwrap(), Err(Error::Cancelled)));
    assert!(matches!(veil.ask(SLOW).await, Err(Error::Internal { .. })));
    assert_eq!(veil.engine.ledger().failures("analyst").await.unwrap(), 1);
}
