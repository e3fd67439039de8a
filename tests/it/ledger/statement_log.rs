//! The owner's record of every statement, and what the owner does about it.

use std::sync::Arc;

use pgveil::engine::Requester;
use pgveil::engine::Service;
use pgveil::ledger::{
    Access, Act, Clock, Decision, Error, Event, Ledger, LoggedStatement, Origin, Record, Row,
    Store, StoreValue, Verdict, Via, now, open_store,
};
use pgveil::mechanism::Accounting;
use pgveil::parse::{Statement, parse};
use pgveil::refusal::Ending;
use sha2::{Digest, Sha256};

use super::{Scratch, at_usual, specs_usual, stage};
use crate::fixture::Veil;

fn asked(record: &Record) -> &LoggedStatement {
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
            record.sqlstate(),
            !asked(record).loss.is_zero(),
        );
        assert_eq!(reported, ("analyst", verdict, sqlstate, charged), "{sql}");
    }
    let statement = |at: usize| asked(&found[at]).statement;
    assert_eq!(statement(0), statement(1));
    assert_ne!(statement(0), statement(2));
    // EXPLAIN, and texts that are no statements.
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
            tokio_util::sync::CancellationToken::new(),
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
    assert!(found.iter().all(|record| asked(record).shape.is_none()));
    let bytes = std::fs::read(veil.ledger.strip_prefix("sqlite://").unwrap()).unwrap();
    assert!(
        !bytes.windows(10).any(|window| window == b"lighthouse"),
        "a literal is in the ledger"
    );
}

/// `record: {shape: true}`: what was asked, without what a client may have written into it.
#[tokio::test(flavor = "multi_thread")]
async fn shapes_have_no_constant_and_no_name_of_a_client() {
    let shaped = |policy: String| format!("{policy}\nrecord: {{shape: true}}\n");
    let veil = Veil::demo(shaped, None).await;
    let questions = [
        (
            "select COUNT(*) as lighthouse from nls.women w where RACE <> 'lighthouse' -- it's",
            Some("SELECT COUNT(*) AS ? FROM nls.women ? WHERE RACE <> $1"),
        ),
        (
            "SELECT lighthouse, race FROM nls.women LIMIT 5",
            Some("SELECT ?, race FROM nls.women LIMIT $1"),
        ),
        (
            "WITH lighthouse AS (SELECT 1) SELECT * FROM lighthouse",
            Some("WITH ? AS (SELECT $1) SELECT * FROM ?"),
        ),
    ];
    for (sql, _) in questions {
        let _ = veil.ask(sql).await;
    }
    let refusal = parse("SELECT 'lighthouse' FROM (").unwrap_err();
    veil.engine.unread(&Veil::requester(), &refusal).await;
    let found = records(&veil).await;
    let shapes: Vec<_> = found
        .iter()
        .map(|one| asked(one).shape.as_deref())
        .collect();
    let wanted: Vec<_> = questions
        .iter()
        .map(|(_, shape)| *shape)
        .chain([None])
        .collect();
    assert_eq!(shapes, wanted);
    // The tables stand next to it.
    assert_eq!(asked(&found[0]).tables, ["nls.women"]);
    let line = pgveil::ledger::record_line(Some(1), &found[0]);
    assert_eq!(line["shape"], questions[0].1.unwrap());
    let bytes = std::fs::read(veil.ledger.strip_prefix("sqlite://").unwrap()).unwrap();
    assert!(
        !bytes.windows(10).any(|window| window == b"lighthouse"),
        "a literal or a name of the client is in the ledger"
    );
}

/// Its client gave it up before it was planned.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_explain_is_recorded() {
    let veil = Veil::demo(|y| y, None).await;
    let statements = parse("SELECT count(*) FROM nls.women").unwrap();
    let cancelled = tokio_util::sync::CancellationToken::new();
    cancelled.cancel();
    let format = pgveil::parse::ExplainFormat::Text;
    let query = statements[0].query().unwrap();
    let requester = Veil::requester();
    let explained = veil
        .engine
        .explain(&requester, query, &[], &[], format, cancelled);
    explained.await.unwrap_err();
    let found = records(&veil).await;
    let [record] = found.as_slice() else {
        panic!("{found:?}")
    };
    let printed = veil.engine.ledger().statement_digest(&query.to_sql());
    assert_eq!(asked(record).statement, printed);
    assert_eq!(
        (record.sqlstate(), asked(record).verdict),
        ("57014", Verdict::Failed)
    );
}

/// Somebody with a record and no ledger cannot confirm a guess. A debit and its statement share a
/// digest.
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
    // The plan's digest alone would confirm a guess of the statement, as the statement's would.
    let bought = newest[0].fingerprint;
    assert_eq!(asked.plan, Some(veil.engine.ledger().plan_digest(bought)));
    assert_ne!(asked.plan.unwrap().as_bytes(), bought.as_bytes());
    assert_eq!(asked.loss, newest[0].loss);
    let statements = parse(sql).unwrap();
    let printed = statements[0].query().unwrap().to_sql();
    let plain: [u8; 32] = Sha256::digest(&printed).into();
    assert_ne!(asked.statement.as_bytes(), &plain);
    let keyed = veil.engine.ledger().statement_digest(&printed);
    assert_eq!(asked.statement, keyed);
}

/// The owner's decisions are among the acts, with the name and the reason.
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

/// A record has no time of the end, which would show how long the statement took, and no outcome
/// after the client gave up.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_says_when_it_was_asked_and_what_the_client_got() {
    let veil = Veil::demo(|y| y, None).await;
    let requester = Veil::fresh();
    requester
        .given_up
        .set(Ending::Failed("57014".to_owned()))
        .unwrap();
    // The rows are locked for longer than a second: the end is not the beginning.
    let lock = "BEGIN; LOCK TABLE nls.women IN ACCESS EXCLUSIVE MODE";
    veil.client.batch_execute(lock).await.unwrap();
    let before = now();
    let sql = "SELECT count(*) FROM nls.women";
    let asking = async {
        let answered = veil.ask_as(&requester, sql).await;
        (answered, now())
    };
    let freeing = async {
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        veil.client.batch_execute("COMMIT").await.unwrap();
    };
    let ((answered, ended), ()) = tokio::join!(asking, freeing);
    answered.unwrap();
    let found = records(&veil).await;
    let record = found.last().unwrap();
    assert!(ended - before > 2_000_000);
    // Cut to whole seconds; the end is more than two seconds later.
    assert!(
        (record.microseconds - before).abs() < 1_000_000,
        "{record:?}"
    );
    assert_eq!(record.sqlstate(), "57014");
    assert_eq!(asked(record).verdict, Verdict::Failed);
    assert!(
        !asked(record).loss.is_zero(),
        "what was charged stays charged"
    );
}

/// A store that does not take the records of one name.
struct Picky(Box<dyn Store>);

impl Store for Picky {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.0.begin(access)
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        if sql.starts_with("INSERT INTO record")
            && values.contains(&StoreValue::Text("bad".to_owned()))
        {
            return Err(Error::Storage(Arc::new(std::io::Error::other("bad"))));
        }
        self.0.query(sql, values)
    }

    fn may_stay_open(&self) -> bool {
        self.0.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.0.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.0.end(outcome)
    }
}

/// A store whose commits of records fail, by turns: before they were made, and after it.
struct Broken {
    store: Box<dyn Store>,
    has_records: bool,
    commits: usize,
}

impl Store for Broken {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.has_records = false;
        self.store.begin(access)
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.has_records |= sql.starts_with("INSERT INTO record");
        self.store.query(sql, values)
    }

    fn may_stay_open(&self) -> bool {
        self.store.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.store.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        if !self.has_records || outcome.is_err() {
            return self.store.end(outcome);
        }
        self.commits += 1;
        let lost = Err(Error::Storage(Arc::new(std::io::Error::other("lost"))));
        match self.commits % 3 {
            0 => self.store.end(outcome),
            1 => self.store.end(outcome).and(lost),
            _ => self.store.end(lost),
        }
    }
}

/// Where a commit failed, the store is asked whether it was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_commit_writes_no_record_twice() {
    let scratch = Scratch::new();
    for url in [scratch.url(), stage::database().await] {
        let (owner, roles) = specs_usual(Accounting::Gdp);
        let store = move || {
            Ok(Box::new(Broken {
                store: open_store(&url)?,
                has_records: false,
                commits: 0,
            }) as Box<dyn Store>)
        };
        let ledger = Ledger::on(store, Clock::system(), owner, &roles);
        let ledger = ledger.await.unwrap();
        for batch in 0..6 {
            for number in 0..2 {
                let name = format!("{batch}.{number}");
                let record = Record::now(&name, 0, Origin::default(), Event::Login);
                ledger.record(record).await;
            }
            ledger.flush().await;
        }
        let found = ledger.records(0, 200).await.unwrap();
        let names: Vec<String> = found.into_iter().map(|(_, record)| record.name).collect();
        let wanted = (0..6).flat_map(|batch| (0..2).map(move |number| format!("{batch}.{number}")));
        assert_eq!(names, wanted.collect::<Vec<_>>());
        assert_eq!(ledger.records_lost(), 0);
    }
}

/// Records wait together and are written together. One that cannot be written loses no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_cannot_be_written_loses_no_other() {
    let scratch = Scratch::new();
    let url = scratch.url();
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let store = move || Ok(Box::new(Picky(open_store(&url)?)) as Box<dyn Store>);
    let ledger = Ledger::on(store, Clock::system(), owner, &roles)
        .await
        .unwrap();
    for number in 0..100 {
        let name = if [0, 41, 42, 99].contains(&number) {
            "bad".to_owned()
        } else {
            number.to_string()
        };
        ledger
            .record(Record::now(&name, 0, Origin::default(), Event::Login))
            .await;
    }
    ledger.flush().await;
    let found = ledger.records(0, 200).await.unwrap();
    let numbers: Vec<i64> = found.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=96).collect::<Vec<_>>());
    assert_eq!(ledger.records_lost(), 4);
    let names: Vec<String> = found.into_iter().map(|(_, record)| record.name).collect();
    let wanted = (0..100).filter(|number| ![0, 41, 42, 99].contains(number));
    assert_eq!(
        names,
        wanted
            .map(|number: i32| number.to_string())
            .collect::<Vec<_>>()
    );
}

/// A client's application name can hold a byte that PostgreSQL does not store.
#[tokio::test(flavor = "multi_thread")]
async fn a_zero_byte_loses_no_record() {
    let scratch = Scratch::new();
    for url in [scratch.url(), stage::database().await] {
        let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
        let origin = Origin {
            application: "a\0b".to_owned(),
            ..Origin::default()
        };
        ledger
            .record(Record::now("ann", 0, origin, Event::Login))
            .await;
        ledger.flush().await;
        let found = ledger.records(0, 10).await.unwrap();
        assert_eq!(found[0].1.origin.application, "a\u{fffd}b");
    }
}
