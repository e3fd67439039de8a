//! What one role may take of the whole stack, and what is left for another.

use std::sync::Arc;

use pgveil::engine::{Asker, Format, Service};
use pgveil::error::Error;
use pgveil::parse::{Statement, parse};
use tokio_util::sync::CancellationToken;

use crate::veil::{Veil, rows_of};

/// A second role with the analyst's password.
fn with_colleague(yaml: String) -> String {
    let verifier = yaml.split("password: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap().to_owned();
    yaml.replacen("\ntables:", &format!("\n  - name: colleague\n    password: {verifier}\n    budget: {{epsilon: 3, delta: 1e-7}}\n\ntables:"), 1)
}

/// Statements over no table that last until they are stopped, more than the shadow has sessions: another role is answered meanwhile, and a cancel ends them.
#[tokio::test(flavor = "multi_thread")]
async fn dear_free_statements_leave_room_for_others_and_are_cancelled() {
    let veil = Veil::demo(with_colleague, Veil::silent()).await;
    let cancel = CancellationToken::new();
    let dear = parse("SELECT count(*) FROM generate_series(1, 100000000000)").unwrap();
    let [Statement::Query(dear)] = dear.as_slice() else { panic!() };
    let ask = |_| {
        let (engine, dear, cancel) = (Arc::clone(&veil.engine), dear.clone(), cancel.clone());
        tokio::spawn(async move { engine.answer(&Veil::asker(), &dear, &[], &[], &[Format::Text], cancel).await })
    };
    let asked: Vec<_> = (0..12).map(ask).collect();
    let [_, (_, (_, sessions))] = veil.engine.pools();
    while veil.engine.pools()[1].1.0 < sessions - sessions / 4 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let colleague = Asker { role: "colleague".to_owned(), ..Veil::asker() };
    assert_eq!(rows_of(&veil.engine, &colleague, "SELECT count(*) FROM nls.women").await.unwrap(), ["4711"]);
    assert!(asked.iter().all(|asked| !asked.is_finished()), "they have no share in this");
    cancel.cancel();
    for asked in asked {
        assert!(matches!(asked.await.unwrap(), Err(Error::Cancelled)));
    }
    assert_eq!(veil.spent().await, 0.0);
}

/// NULLs have no bytes, and still take room.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nothing_weigh_something() {
    let veil = Veil::demo(|yaml| yaml, Veil::silent()).await;
    let sql = format!("SELECT {} FROM generate_series(1, 1000000)", ["NULL"; 400].join(", "));
    let refusal = veil.ask(&sql).await.unwrap_err().report();
    assert_eq!((refusal.sqlstate.as_str(), refusal.message.as_str()), ("54000", "result is larger than 1000000 rows or 256 MB"));
}
