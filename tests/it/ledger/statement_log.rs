//! The owner's record of every statement, and what the owner does about it.

use pgveil::engine::Service;
use pgveil::ledger::{Record, Verdict};
use pgveil::parse::{Statement, parse};

use crate::fixture::Veil;

async fn records(veil: &Veil) -> Vec<Record> {
    veil.engine.ledger().flush().await;
    veil.engine
        .ledger()
        .records(0, 1000)
        .await
        .unwrap()
        .into_iter()
        .map(|(_, record)| record)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_is_recorded_without_its_text() {
    let veil = Veil::demo(|y| y, None).await;
    let marked = "SELECT count(*) FROM nls.women WHERE race <> 'lighthouse'";
    let asked: [(&str, Verdict, &str, bool); 6] = [
        (marked, Verdict::Answered, "00000", true),
        (marked, Verdict::Reused, "00000", false),
        ("SELECT 1", Verdict::Answered, "00000", false),
        (
            "SELECT * FROM nls.women WHERE race = 'lighthouse'",
            Verdict::Refused,
            "42501",
            false,
        ),
        (
            "SELECT lighthouse FROM nls.women",
            Verdict::Refused,
            "42703",
            false,
        ),
        // Charged, and then an error of the analyst's own arithmetic.
        (
            "SELECT 1 / (count(*) - count(*)) FROM nls.interviews",
            Verdict::Failed,
            "22012",
            true,
        ),
    ];
    for (sql, ..) in asked {
        let _ = veil.ask(sql).await;
    }
    let found = records(&veil).await;
    assert_eq!(found.len(), asked.len());
    for (record, (sql, verdict, sqlstate, charged)) in found.iter().zip(asked) {
        let reported = (
            record.role.as_str(),
            record.verdict,
            record.sqlstate.as_str(),
            !record.loss.is_zero(),
        );
        assert_eq!(reported, ("analyst", verdict, sqlstate, charged), "{sql}");
    }
    assert_eq!(found[0].fingerprint, found[1].fingerprint);
    assert_ne!(found[0].fingerprint, found[2].fingerprint);
    // EXPLAIN, and what is no statement at all.
    let statements = parse(marked).unwrap();
    let [Statement::Query(query)] = statements.as_slice() else {
        panic!("one query")
    };
    veil.engine
        .explain(
            &Veil::requester(),
            query,
            &[],
            &[],
            pgveil::parse::ExplainFormat::Text,
        )
        .await
        .unwrap();
    let refusal = parse("SELECT 'lighthouse' FROM (").unwrap_err();
    veil.engine.unread("analyst", &refusal).await;
    let found = records(&veil).await;
    assert_eq!(found[6].verdict, Verdict::Explained);
    assert_eq!(
        (found[7].verdict, found[7].fingerprint.as_bytes()),
        (Verdict::Refused, &[0; 32])
    );
    let bytes = std::fs::read(veil.ledger.strip_prefix("sqlite://").unwrap()).unwrap();
    assert!(
        !bytes.windows(10).any(|window| window == b"lighthouse"),
        "a literal is in the ledger"
    );
}
