//! The owner's record of every statement, and what the owner does about it.

use pgveil::engine::Requester;
use pgveil::engine::Service;
use pgveil::ledger::{Act, Asked, Decision, Event, Origin, Record, Verdict, Via};
use pgveil::parse::{Statement, parse};
use sha2::{Digest, Sha256};

use crate::fixture::Veil;

fn asked(record: &Record) -> &Asked {
    match &record.event {
        Event::Statement(asked) => asked,
        other => panic!("{other:?}"),
    }
}

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
    let questions: [(&str, Verdict, &str, bool); 6] = [
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
    for (sql, ..) in questions {
        let _ = veil.ask(sql).await;
    }
    let found = records(&veil).await;
    assert_eq!(found.len(), questions.len());
    for (record, (sql, verdict, sqlstate, charged)) in found.iter().zip(questions) {
        let reported = (
            record.name.as_str(),
            asked(record).verdict,
            record.sqlstate.as_str(),
            !asked(record).loss.is_zero(),
        );
        assert_eq!(reported, ("analyst", verdict, sqlstate, charged), "{sql}");
    }
    let statement = |at: usize| asked(&found[at]).statement;
    assert_eq!(statement(0), statement(1));
    assert_ne!(statement(0), statement(2));
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
    veil.engine.unread(&Veil::requester(), &refusal).await;
    let found = records(&veil).await;
    assert_eq!(asked(&found[6]).verdict, Verdict::Explained);
    let unread = asked(&found[7]);
    assert_eq!(
        (unread.verdict, unread.statement.as_bytes()),
        (Verdict::Refused, &[0; 32])
    );
    assert!(unread.tables.is_empty() && unread.plan.is_none());
    let bytes = std::fs::read(veil.ledger.strip_prefix("sqlite://").unwrap()).unwrap();
    assert!(
        !bytes.windows(10).any(|window| window == b"lighthouse"),
        "a literal is in the ledger"
    );
}

/// Whoever has a record and no ledger confirms no guess; a debit and its statement share a digest.
#[tokio::test(flavor = "multi_thread")]
async fn digests_are_keyed_and_plans_join_with_debits() {
    let veil = Veil::demo(|y| y, None).await;
    let sql = "SELECT count(*) FROM nls.interviews";
    let requester = Requester {
        process: 7,
        origin: Origin {
            via: Via::Wire,
            address: "192.0.2.7".parse().ok(),
            application: "psql".to_owned(),
            actor: None,
        },
        ..Veil::fresh()
    };
    veil.ask_as(&requester, sql).await.unwrap();
    let found = records(&veil).await;
    let record = found.last().unwrap();
    assert_eq!((record.session, &record.origin), (7, &requester.origin));
    let asked = asked(record);
    assert!(asked.tables.contains(&"nls.interviews".to_owned()));
    let newest = veil.engine.ledger().history("analyst", 1).await.unwrap();
    assert_eq!(asked.plan, Some(newest[0].fingerprint));
    assert_eq!(asked.loss, newest[0].loss);
    let statements = parse(sql).unwrap();
    let printed = statements[0].query().unwrap().to_sql();
    let plain: [u8; 32] = Sha256::digest(&printed).into();
    assert_ne!(asked.statement.as_bytes(), &plain);
    let keyed = veil.engine.ledger().statement_digest(&printed);
    assert_eq!(asked.statement, keyed);
}

/// What the owner decides stands among the acts, with who and why.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_acts() {
    let veil = Veil::demo(|y| y, None).await;
    let freeze = Decision {
        act: Act::Freeze {
            role: Some("analyst".to_owned()),
        },
        who: "olga".to_owned(),
        why: "she left".to_owned(),
    };
    veil.engine.ledger().decide(freeze).await.unwrap();
    let found = records(&veil).await;
    let [act] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(act.name, "olga");
    let Event::Act { act, target, why } = &act.event else {
        panic!("{act:?}")
    };
    assert_eq!(
        (act.as_str(), target.as_str(), why.as_str()),
        ("freeze", "role analyst", "she left")
    );
}
