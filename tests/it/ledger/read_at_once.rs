//! Short reads run where they are asked while the ledger's thread has nothing to do. They read what
//! that thread would read, and nobody's thread waits for another process.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};
use std::time::Duration;

use pgveil::ledger::{
    Access, Act, Clock, Contents, DebitError, Decision, Error, Ledger, Row, Store, StoreValue,
    Stored, open_store,
};
use pgveil::mechanism::{Accounting, Loss};
use pgveil::policy::Renew;

use super::{Scratch, at_usual, buying, fingerprint, gaussian, laplace, question, specs_usual};

const DAY: i64 = 86_400_000_000;
/// Monday, 5 January 2026.
const MONDAY: i64 = 20_458 * DAY;

/// A store that notes on which thread each statement runs.
struct Noting(Box<dyn Store>, Arc<Mutex<Vec<ThreadId>>>);

impl Store for Noting {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.0.begin(access)
    }

    fn begin_at_once(&mut self) -> bool {
        self.0.begin_at_once()
    }

    fn contents(&self) -> Option<Contents> {
        self.0.contents()
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.1.lock().unwrap().push(current().id());
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

#[tokio::test]
async fn a_read_runs_where_it_is_asked_and_not_twice() {
    let scratch = Scratch::new();
    let (url, noted) = (scratch.url(), Arc::<Mutex<Vec<ThreadId>>>::default());
    let threads = Arc::clone(&noted);
    let store = move || Ok(Box::new(Noting(open_store(&url)?, threads)) as Box<dyn Store>);
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = Ledger::on(store, Clock::system(), owner, &roles);
    let ledger = ledger.await.unwrap();
    let noted = || std::mem::take(&mut *noted.lock().unwrap());
    noted();
    let first = ledger.balances("ann").await.unwrap();
    let of_first = noted();
    assert!(!of_first.is_empty() && of_first.iter().all(|id| *id == current().id()));
    assert_eq!(ledger.balances("ann").await.unwrap(), first);
    assert_eq!(noted(), [], "nothing was written since");
    ledger.balances("bob").await.unwrap();
    assert!(!noted().is_empty(), "another role's");
    let _charge = ledger
        .debit("ann", laplace(0.25), fingerprint(1))
        .await
        .unwrap();
    assert!(noted().iter().all(|id| *id != current().id()));
    let second = ledger.balances("ann").await.unwrap();
    assert_eq!(second.role.spent, laplace(0.25));
    assert!(!noted().is_empty());
}

/// Both processes read what the other one wrote, also where neither wrote since it read last.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_process_wrote_is_read() {
    let scratch = Scratch::new();
    let url = scratch.url();
    let both = [
        at_usual(&url, Accounting::Gdp).await.unwrap(),
        at_usual(&url, Accounting::Gdp).await.unwrap(),
    ];
    let mut spent = Loss::ZERO;
    for number in 0..8 {
        let writer = &both[(number / 2) as usize % 2];
        for ledger in &both {
            assert_eq!(ledger.balance("ann").await.unwrap().spent, spent);
        }
        let loss = laplace(0.03125);
        let _charge = writer
            .debit("ann", loss, fingerprint(number))
            .await
            .unwrap();
        spent = spent.compose(loss).unwrap();
        for ledger in &both {
            let balances = ledger.balances("ann").await.unwrap();
            assert_eq!((balances.role.spent, balances.owner.spent), (spent, spent));
        }
    }
    let freeze = Act::Freeze { role: None };
    let thawed = Act::Unfreeze { role: None };
    for (act, frozen) in [(freeze, true), (thawed, false)] {
        let decision = Decision {
            act,
            who: "owner".to_owned(),
            why: String::new(),
        };
        both[0].decide(decision).await.unwrap();
        for ledger in &both {
            assert_eq!(ledger.balance("ann").await.unwrap().frozen, frozen);
            assert_eq!(ledger.balance("bob").await.unwrap().frozen, frozen);
        }
    }
}

/// A debit that is undone leaves no trace in what is remembered.
#[tokio::test]
async fn what_was_undone_is_not_remembered() {
    let scratch = Scratch::new();
    let ledger = at_usual(&scratch.url(), Accounting::Gdp).await.unwrap();
    let before = ledger.balances("ann").await.unwrap();
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let trigger = "CREATE TRIGGER deny BEFORE INSERT ON debit BEGIN SELECT RAISE(ABORT, 'no'); END";
    other.execute_batch(trigger).unwrap();
    for number in 0..3 {
        let denied = ledger.debit("ann", laplace(0.25), fingerprint(number));
        assert!(denied.await.is_err());
        assert_eq!(ledger.balances("ann").await.unwrap(), before);
    }
    other.execute_batch("DROP TRIGGER deny").unwrap();
    let _charge = ledger
        .debit("ann", laplace(0.25), fingerprint(9))
        .await
        .unwrap();
    let after = ledger.balances("ann").await.unwrap();
    assert_eq!(after.role.spent, laplace(0.25));
}

/// Nothing is written when a period begins, and a clock may go back.
#[tokio::test]
async fn a_new_period_is_seen_without_a_write() {
    let scratch = Scratch::new();
    let (url, now) = (scratch.url(), Arc::new(AtomicI64::new(MONDAY + DAY)));
    let clock = Arc::clone(&now);
    let (owner, mut roles) = specs_usual(Accounting::Gdp);
    roles[0].renew = Renew::Weekly;
    let ledger = Ledger::on(
        move || open_store(&url),
        Clock::new(move || clock.load(Ordering::SeqCst)),
        owner,
        &roles,
    );
    let ledger = ledger.await.unwrap();
    let _charge = ledger
        .debit("ann", laplace(0.5), fingerprint(1))
        .await
        .unwrap();
    let spent = async |at: i64| {
        now.store(at, Ordering::SeqCst);
        let balance = ledger.balance("ann").await.unwrap();
        (balance.spent, balance.renews_at.unwrap() - MONDAY)
    };
    let (first, second) = (MONDAY + 7 * DAY - 1, MONDAY + 7 * DAY);
    for _ in 0..2 {
        assert_eq!(spent(first).await, (laplace(0.5), 7 * DAY));
        assert_eq!(spent(first).await, (laplace(0.5), 7 * DAY));
        assert_eq!(spent(second).await, (Loss::ZERO, 14 * DAY));
        assert_eq!(spent(second + DAY).await, (Loss::ZERO, 14 * DAY));
    }
}

/// The only thread of this runtime is not held while another process has the file to itself.
#[tokio::test]
async fn a_read_waits_for_another_process_on_the_ledgers_thread() {
    let scratch = Scratch::new();
    let ledger = at_usual(&scratch.url(), Accounting::Gdp).await.unwrap();
    let asked = question(1, 0.1, gaussian(0.01));
    ledger.balances("ann").await.unwrap();
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let reading = async {
        let balances = ledger.balances("ann").await.unwrap();
        (balances, ledger.find("ann", asked).await.unwrap())
    };
    let writing = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        other.execute_batch("COMMIT").unwrap();
    };
    let ((balances, found), ()) = tokio::join!(reading, writing);
    assert_eq!((balances.role.spent, found), (Loss::ZERO, None));
}

/// What was handed in before is read, also where nobody waited for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_is_not_before_what_was_handed_in() {
    let scratch = Scratch::new();
    let ledger = at_usual(&scratch.url(), Accounting::Gdp).await.unwrap();
    for number in 1..40 {
        let asked = question(number, 0.1, gaussian(0.0001));
        let _charge = ledger.purchase("ann", buying(asked)).await.unwrap();
        // Every other answer is too long for a session's thread.
        let values = vec![number; if number % 2 == 0 { 65_537 } else { 65_536 }];
        ledger
            .keep_soon("ann", asked, values.clone())
            .await
            .unwrap();
        let stored = Stored::Held {
            released: values,
            accuracy: 0.1,
        };
        assert_eq!(ledger.find("ann", asked).await.unwrap(), Some(stored));
        assert!(matches!(
            ledger.find("bob", asked).await.unwrap(),
            Some(Stored::Offered(_))
        ));
    }
}

/// How a statement begins after which a store panics.
type PanicsAfter = Arc<Mutex<Option<&'static str>>>;

/// A store that panics after a statement.
struct Panicking {
    store: Box<dyn Store>,
    after: PanicsAfter,
    /// Dropped after the store.
    _dropped: SendsThread,
}

/// Sends the name of the thread that drops it.
struct SendsThread(Sender<Option<String>>);

impl Drop for SendsThread {
    fn drop(&mut self) {
        let _ = self.0.send(current().name().map(str::to_owned));
    }
}

impl Store for Panicking {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.store.begin(access)
    }

    fn begin_at_once(&mut self) -> bool {
        self.store.begin_at_once()
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        let rows = self.store.query(sql, values);
        let after = *self.after.lock().unwrap();
        assert!(after.is_none_or(|after| !sql.starts_with(after)), "{sql}");
        rows
    }

    fn may_stay_open(&self) -> bool {
        self.store.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.store.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.store.end(outcome)
    }
}

/// A ledger, what it panics after, and the thread that closed its store.
async fn panicking(scratch: &Scratch) -> (Ledger, PanicsAfter, Receiver<Option<String>>) {
    let (url, after) = (scratch.url(), PanicsAfter::default());
    let (dropped, closed_by) = channel();
    let panics = Arc::clone(&after);
    let store = move || {
        let store = Panicking {
            store: open_store(&url)?,
            after: panics,
            _dropped: SendsThread(dropped),
        };
        Ok(Box::new(store) as Box<dyn Store>)
    };
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = Ledger::on(store, Clock::system(), owner, &roles);
    (ledger.await.unwrap(), after, closed_by)
}

/// A write that does not wait for a lock.
fn write_at_once(scratch: &Scratch) -> rusqlite::Result<()> {
    let other = rusqlite::Connection::open(scratch.file())?;
    other.busy_timeout(Duration::ZERO)?;
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE later (n INTEGER); COMMIT")
}

#[tokio::test]
async fn a_write_that_panics_frees_its_locks() {
    let scratch = Scratch::new();
    let (ledger, after, closed_by) = panicking(&scratch).await;
    *after.lock().unwrap() = Some("INSERT INTO debit");
    let debited = ledger.debit("ann", laplace(0.25), fingerprint(1)).await;
    assert!(matches!(debited, Err(DebitError::Ledger(Error::Stopped))));
    assert_eq!(closed_by.recv().unwrap().as_deref(), Some("ledger"));
    write_at_once(&scratch).unwrap();
    assert!(matches!(ledger.balance("ann").await, Err(Error::Stopped)));
    let debits = "SELECT count(*) FROM debit";
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let debits: i64 = other.query_row(debits, [], |row| row.get(0)).unwrap();
    assert_eq!(debits, 0, "it was undone");
}

/// The caller's thread ends the read. It does not close the store, which may have a runtime.
#[tokio::test]
async fn a_read_that_panics_where_it_is_asked_frees_its_locks() {
    let scratch = Scratch::new();
    let (ledger, after, closed_by) = panicking(&scratch).await;
    *after.lock().unwrap() = Some("");
    let ledger = Arc::new(ledger);
    let asked = Arc::clone(&ledger);
    let reading = tokio::spawn(async move { asked.balance("ann").await.map(drop) });
    assert!(reading.await.unwrap_err().is_panic());
    write_at_once(&scratch).unwrap();
    assert!(closed_by.try_recv().is_err());
    assert!(matches!(ledger.balance("ann").await, Err(Error::Stopped)));
    assert_eq!(closed_by.recv().unwrap().as_deref(), Some("ledger"));
}

/// The thread closes the store, also where a caller is the last to leave.
#[tokio::test(flavor = "multi_thread")]
async fn the_ledgers_thread_closes_the_store() {
    let scratch = Scratch::new();
    let (ledger, _, closed_by) = panicking(&scratch).await;
    ledger.balance("ann").await.unwrap();
    drop(ledger);
    assert_eq!(closed_by.recv().unwrap().as_deref(), Some("ledger"));
}
