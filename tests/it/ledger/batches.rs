//! Debits that share a transaction: one that fails is undone by itself, and neither fails the
//! others nor lets one of them go free.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgveil::ledger::{
    Access, Clock, DebitError, Error, Event, FamilyId, Ledger, Origin, QuestionDigest, Record, Row,
    Store, StoreValue, Stored, open_store,
};
use pgveil::mechanism::{Accounting, Loss};

use super::conformance::on_both_stores;
use super::{
    Scratch, at_usual, buying, fingerprint, gaussian, laplace, question, specs_usual, stage, taking,
};

on_both_stores!(
    a_debit_that_fails_fails_alone,
    an_answer_that_is_not_kept_fails_no_debit,
    a_lost_answers_number_sells_no_other,
    a_record_that_is_not_written_fails_no_debit,
    a_read_that_fails_fails_no_debit,
    each_mark_is_taken_back,
    an_answer_that_nobody_waits_for_is_there_with_the_next_debit,
    an_answer_that_nobody_waits_for_is_written_soon,
    a_debit_that_fails_takes_no_answer_with_it,
);

/// The number whose debit the store refuses.
const DENIED: u64 = 13;
const SESSIONS: u64 = 40;

fn is_file(url: &str) -> bool {
    url.starts_with("sqlite")
}

fn file(url: &str) -> rusqlite::Connection {
    let path = url.strip_prefix("sqlite://").unwrap();
    rusqlite::Connection::open(path).unwrap()
}

/// Has the store refuse rows of a table that meet a condition: once the ledger is open.
async fn deny(url: &str, table: &str, condition: &str) {
    if is_file(url) {
        let trigger = format!(
            "CREATE TRIGGER deny BEFORE INSERT ON {table} WHEN {condition}
             BEGIN SELECT RAISE(ABORT, 'denied'); END"
        );
        return file(url).execute_batch(&trigger).unwrap();
    }
    let trigger = format!(
        "SET search_path = pgveil_ledger;
         CREATE FUNCTION deny() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN IF {condition} THEN RAISE EXCEPTION 'denied'; END IF; RETURN NEW; END $$;
         CREATE TRIGGER deny BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION deny()"
    );
    stage::execute(url, &trigger).await;
}

fn bytes(url: &str, value: &[u8]) -> String {
    let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
    if is_file(url) {
        format!("x'{digits}'")
    } else {
        format!("'\\x{digits}'::bytea")
    }
}

/// Runs `work` while nobody gets the store's lock, and gives the lock back after it.
async fn behind_the_lock<T>(url: &str, work: impl Future<Output = T>) -> T {
    if is_file(url) {
        let other = file(url);
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let done = work.await;
        other.execute_batch("ROLLBACK").unwrap();
        return done;
    }
    let config = url.parse::<tokio_postgres::Config>().unwrap();
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "BEGIN; SELECT version FROM pgveil_ledger.format FOR UPDATE";
    client.batch_execute(lock).await.unwrap();
    let done = work.await;
    client.batch_execute("ROLLBACK").await.unwrap();
    done
}

type Running = Vec<tokio::task::JoinHandle<Result<(), DebitError>>>;

/// Debits of that many sessions, all of which wait for the lock: the first alone, the others
/// together.
async fn waiting(ledger: &Arc<Ledger>, loss: Loss) -> Running {
    let mut running = Vec::new();
    for number in 0..SESSIONS {
        let ledger = Arc::clone(ledger);
        running.push(tokio::spawn(async move {
            ledger
                .debit("ann", loss, fingerprint(number))
                .await
                .map(drop)
        }));
        if number == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    running
}

async fn a_debit_that_fails_fails_alone(url: &str) {
    let ledger = Arc::new(at_usual(url, Accounting::Gdp).await.unwrap());
    let denied = bytes(url, fingerprint(DENIED).as_bytes());
    deny(url, "debit", &format!("NEW.fingerprint = {denied}")).await;
    let loss = laplace(0.001);
    let running = behind_the_lock(url, waiting(&ledger, loss)).await;
    for (number, task) in (0..).zip(running) {
        match task.await.unwrap() {
            Ok(()) => assert_ne!(number, DENIED),
            Err(error) => {
                let is_storage = matches!(error, DebitError::Ledger(Error::Storage(_)));
                assert!(is_storage && number == DENIED, "{number}: {error}");
            }
        }
    }
    let paid = (1..SESSIONS).fold(Loss::ZERO, |sum, _| sum.compose(loss).unwrap());
    let history = ledger.history("ann", 1000).await.unwrap();
    assert_eq!(history.len() as u64, SESSIONS - 1);
    assert!(
        history
            .iter()
            .all(|entry| entry.fingerprint != fingerprint(DENIED))
    );
    let balances = ledger.balances("ann").await.unwrap();
    assert_eq!(
        (balances.role.lifetime, balances.owner.lifetime),
        (paid, paid)
    );
}

async fn an_answer_that_is_not_kept_fails_no_debit(url: &str) {
    let ledger = Arc::new(at_usual(url, Accounting::Gdp).await.unwrap());
    let asked = question(1, 0.1, gaussian(0.001));
    let _charge = ledger
        .debit("ann", asked.loss, fingerprint(99))
        .await
        .unwrap();
    deny(url, "answer", "true").await;
    let loss = laplace(0.001);
    let running = behind_the_lock(url, async {
        let running = waiting(&ledger, loss).await;
        ledger
            .keep_soon("ann", asked, b"values".to_vec())
            .await
            .unwrap();
        running
    })
    .await;
    for task in running {
        task.await.unwrap().unwrap();
    }
    assert_eq!(ledger.find("ann", asked).await.unwrap(), None);
    let paid = (0..SESSIONS).fold(asked.loss, |sum, _| sum.compose(loss).unwrap());
    assert_eq!(ledger.balance("ann").await.unwrap().lifetime, paid);
}

/// No crash waits for answers, so it may lose one that another process has seen. Its number is
/// given to the next answer.
async fn a_lost_answers_number_sells_no_other(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let (asked, other) = (
        question(1, 0.1, gaussian(0.001)),
        question(2, 0.1, gaussian(0.002)),
    );
    let _charge = ledger.purchase("ann", buying(asked)).await.unwrap();
    ledger.keep("ann", asked, b"lost".to_vec()).await.unwrap();
    let offered = match ledger.find("bob", asked).await.unwrap() {
        Some(Stored::Offered(answer)) => answer,
        found => panic!("{found:?}"),
    };
    let lose = "DELETE FROM holder; DELETE FROM family; DELETE FROM answer";
    if is_file(url) {
        file(url).execute_batch(lose).unwrap();
    } else {
        stage::execute(url, &format!("SET search_path = pgveil_ledger; {lose}")).await;
    }
    let _charge = ledger.purchase("ann", buying(other)).await.unwrap();
    ledger.keep("ann", other, b"other".to_vec()).await.unwrap();
    let taken = ledger.purchase("bob", taking(offered, asked.loss, Loss::ZERO));
    let refused = taken.await.map(drop);
    assert!(matches!(refused, Err(DebitError::Awaited)), "{refused:?}");
    assert_eq!(ledger.values_held_by("bob", offered).await.unwrap(), None);
    assert_eq!(ledger.values_held_by("ann", offered).await.unwrap(), None);
    assert_eq!(ledger.balance("bob").await.unwrap().lifetime, Loss::ZERO);
    let held = ledger.find("bob", other).await.unwrap();
    assert!(matches!(held, Some(Stored::Offered(_))), "{held:?}");
}

/// Whether the role holds the answer, as that ledger has it.
async fn holds(ledger: &Ledger, asked: QuestionDigest) -> bool {
    ledger.find("ann", asked).await.unwrap().is_some()
}

async fn until_held(ledger: &Ledger, asked: QuestionDigest) {
    while !holds(ledger, asked).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Bought and kept, without waiting for the disk.
async fn keep_soon(ledger: &Ledger, number: u8) -> QuestionDigest {
    let asked = question(number, 0.1, gaussian(0.001));
    let _charge = ledger.purchase("ann", buying(asked)).await.unwrap();
    let kept = ledger.keep_soon("ann", asked, vec![number]).await;
    kept.unwrap();
    asked
}

async fn an_answer_that_nobody_waits_for_is_there_with_the_next_debit(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let elsewhere = at_usual(url, Accounting::Gdp).await.unwrap();
    for number in 0..20 {
        let asked = keep_soon(&ledger, number).await;
        assert!(holds(&ledger, asked).await, "{number}");
        ledger.balances("ann").await.unwrap();
        let paid = ledger.debit("ann", laplace(0.001), fingerprint(u64::from(number)));
        let _charge = paid.await.unwrap();
        assert!(holds(&elsewhere, asked).await, "{number}");
    }
}

async fn an_answer_that_nobody_waits_for_is_written_soon(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let elsewhere = at_usual(url, Accounting::Gdp).await.unwrap();
    // No debit follows.
    let asked = keep_soon(&ledger, 1).await;
    until_held(&elsewhere, asked).await;
    let last = keep_soon(&ledger, 2).await;
    drop(ledger);
    until_held(&elsewhere, last).await;
}

async fn a_debit_that_fails_takes_no_answer_with_it(url: &str) {
    let ledger = at_usual(url, Accounting::Gdp).await.unwrap();
    let elsewhere = at_usual(url, Accounting::Gdp).await.unwrap();
    let denied = bytes(url, fingerprint(DENIED).as_bytes());
    deny(url, "debit", &format!("NEW.fingerprint = {denied}")).await;
    let asked = keep_soon(&ledger, 1).await;
    let refused = ledger.debit("ann", laplace(0.001), fingerprint(DENIED));
    let refused = refused.await.map(drop);
    assert!(
        matches!(refused, Err(DebitError::Ledger(Error::Storage(_)))),
        "{refused:?}"
    );
    assert_eq!(ledger.balance("ann").await.unwrap().lifetime, asked.loss);
    assert!(holds(&ledger, asked).await);
    until_held(&elsewhere, asked).await;
}

/// Whether or not the answer's transaction is still open by then.
#[tokio::test]
async fn no_debit_is_made_in_a_file_that_was_replaced() {
    let scratch = Scratch::new();
    let ledger = at_usual(&scratch.url(), Accounting::Gdp).await.unwrap();
    let loss = laplace(0.001);
    drop(ledger.debit("ann", loss, fingerprint(1)).await.unwrap());
    let copy = scratch.0.join("copy.db");
    std::fs::copy(scratch.file(), &copy).unwrap();
    keep_soon(&ledger, 1).await;
    std::fs::rename(copy, scratch.file()).unwrap();
    let refused = ledger.debit("ann", loss, fingerprint(2)).await.map(drop);
    assert!(
        matches!(refused, Err(DebitError::Ledger(Error::WentBack { .. }))),
        "{refused:?}"
    );
}

async fn a_record_that_is_not_written_fails_no_debit(url: &str) {
    let ledger = Arc::new(at_usual(url, Accounting::Gdp).await.unwrap());
    deny(url, "record", "true").await;
    let loss = laplace(0.001);
    let (running, flushed) = behind_the_lock(url, async {
        let running = waiting(&ledger, loss).await;
        let record = Record::now("ann", 0, Origin::default(), Event::Login);
        ledger.record(record).await;
        let flushing = Arc::clone(&ledger);
        let flushed = tokio::spawn(async move { flushing.flush().await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        (running, flushed)
    })
    .await;
    for task in running {
        task.await.unwrap().unwrap();
    }
    flushed.await.unwrap();
    assert_eq!(ledger.records(0, 9).await.unwrap(), []);
    assert_eq!(ledger.records_lost(), 1);
    let paid = (0..SESSIONS).fold(Loss::ZERO, |sum, _| sum.compose(loss).unwrap());
    assert_eq!(ledger.balance("ann").await.unwrap().lifetime, paid);
}

/// In PostgreSQL, a failed statement ends its transaction, also for the other debits in it.
async fn a_read_that_fails_fails_no_debit(url: &str) {
    let ledger = Arc::new(at_usual(url, Accounting::Gdp).await.unwrap());
    let gone = "DROP TABLE family";
    if is_file(url) {
        file(url).execute_batch(gone).unwrap();
    } else {
        stage::execute(url, &format!("SET search_path = pgveil_ledger; {gone}")).await;
    }
    let loss = laplace(0.001);
    let (running, reads) = behind_the_lock(url, async {
        let running = waiting(&ledger, loss).await;
        let reads = (0..3).map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move { ledger.relatives("ann", FamilyId([7; 32])).await })
        });
        let reads: Vec<_> = reads.collect();
        tokio::time::sleep(Duration::from_millis(100)).await;
        (running, reads)
    })
    .await;
    for read in reads {
        let read = read.await.unwrap();
        assert!(matches!(read, Err(Error::Storage(_))), "{read:?}");
    }
    for task in running {
        task.await.unwrap().unwrap();
    }
    let paid = (0..SESSIONS).fold(Loss::ZERO, |sum, _| sum.compose(loss).unwrap());
    assert_eq!(ledger.balance("ann").await.unwrap().lifetime, paid);
}

/// A store that counts the marks of its open transaction.
struct Marking {
    store: Box<dyn Store>,
    marks: i64,
    /// The most at any time, and those that were left at a commit.
    seen: Arc<[AtomicI64; 2]>,
    statements: Arc<Mutex<Vec<&'static str>>>,
}

impl Store for Marking {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.store.begin(access)
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.marks += match sql.split(' ').next() {
            Some("SAVEPOINT") => 1,
            Some("RELEASE") => -1,
            _ => 0,
        };
        self.seen[0].fetch_max(self.marks, Ordering::SeqCst);
        self.statements.lock().unwrap().push(sql);
        self.store.query(sql, values)
    }

    fn may_stay_open(&self) -> bool {
        self.store.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.store.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.seen[1].fetch_add(self.marks, Ordering::SeqCst);
        self.store.end(outcome)
    }
}

/// Marks that stay keep what they may have to undo until the commit.
async fn each_mark_is_taken_back(url: &str) {
    let seen = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
    let statements = Arc::new(Mutex::new(Vec::new()));
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let marking = (url.to_owned(), Arc::clone(&seen), Arc::clone(&statements));
    let store = move || {
        let (url, seen, statements) = marking;
        Ok(Box::new(Marking {
            store: open_store(&url)?,
            marks: 0,
            seen,
            statements,
        }) as Box<dyn Store>)
    };
    let ledger = Ledger::on(store, Clock::system(), owner, &roles);
    let ledger = Arc::new(ledger.await.unwrap());
    let denied = bytes(url, fingerprint(DENIED).as_bytes());
    deny(url, "debit", &format!("NEW.fingerprint = {denied}")).await;
    let running = behind_the_lock(url, waiting(&ledger, laplace(0.001))).await;
    let mut failed = 0;
    for task in running {
        failed += u32::from(task.await.unwrap().is_err());
    }
    assert_eq!(failed, 1);
    let seen = [0, 1].map(|at: usize| seen[at].load(Ordering::SeqCst));
    assert_eq!(seen, [1, 0], "one mark at a time, and none at the end");
    let undone = statements
        .lock()
        .unwrap()
        .iter()
        .filter(|sql| sql.starts_with("ROLLBACK TO"))
        .count();
    assert_eq!(undone, 1);
}
