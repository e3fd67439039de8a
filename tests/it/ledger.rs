//! The ledger: what it admits, that it forgets nothing, and that it refuses every file it cannot trust.

mod processes;
mod properties;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use pgveil::ledger::{AccountSpec, DebitError, Error, Fingerprint, Ledger, Purchase, Question, Stored};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};
use pgveil::policy::{Budget, Renew};

const SHARE: f64 = 0.005;

/// A directory of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = std::env::temp_dir().join(format!("pgveil-ledger-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("ledger.db")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn account(name: &str, epsilon: f64, delta: f64, accounting: Accounting) -> AccountSpec {
    let cap = Cap::new(Fixed::round_down(epsilon), Fixed::round_down(delta), Fixed::round_down(SHARE), accounting).unwrap();
    AccountSpec { name: name.to_owned(), budget: Budget { epsilon, delta }, threshold_share: SHARE, cap, renew: Renew::Never }
}

fn laplace(epsilon: f64) -> Loss {
    let squared = epsilon * epsilon;
    Loss {
        epsilon: Some(Fixed::round_up(epsilon)),
        rho: Fixed::round_up(squared / 2.0),
        mu_squared: Fixed::round_up(1.6 * squared),
        delta: Fixed::ZERO,
    }
}

fn gaussian(mu_squared: f64) -> Loss {
    Loss { epsilon: None, rho: Fixed::round_up(mu_squared / 2.0), mu_squared: Fixed::round_up(mu_squared), delta: Fixed::ZERO }
}

fn fingerprint(number: u64) -> Fingerprint {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_be_bytes());
    Fingerprint::new(digest)
}

async fn open(path: &Path, owner: AccountSpec, roles: &[AccountSpec]) -> Result<Ledger, Error> {
    Ledger::open(&format!("sqlite://{}", path.display()), owner, roles).await
}

/// Owner (8, 1e-6) and two roles of (1, 1e-6).
async fn open_usual(path: &Path, accounting: Accounting) -> Result<Ledger, Error> {
    let roles = ["ann", "bob"].map(|name| account(name, 1.0, 1e-6, accounting));
    open(path, account("owner", 8.0, 1e-6, accounting), &roles).await
}

/// Rows of the history: (role, epsilon, rho, mu^2, delta, fingerprint), read without the ledger.
fn rows(path: &Path) -> Vec<(String, Loss, [u8; 32])> {
    let connection = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let sql = "SELECT name, d.epsilon, rho, mu_squared, d.delta, fingerprint FROM debit d JOIN account a ON a.id = d.role ORDER BY d.id";
    let mut statement = connection.prepare(sql).unwrap();
    let number = |bytes: [u8; 16]| Fixed(u128::from_be_bytes(bytes));
    let rows = statement.query_map([], |row| {
        let epsilon = row.get::<_, Option<[u8; 16]>>(1)?.map(number);
        let loss = Loss { epsilon, rho: number(row.get(2)?), mu_squared: number(row.get(3)?), delta: number(row.get(4)?) };
        Ok((row.get(0)?, loss, row.get(5)?))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn charge_is_paid_by_both_accounts_and_kept() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let charge = ledger.debit("ann", laplace(0.0625), fingerprint(1)).await.unwrap();
    assert!(charge.covers(&fingerprint(1)) && !charge.covers(&fingerprint(2)));
    assert_eq!((charge.loss(), charge.fingerprint()), (&laplace(0.0625), &fingerprint(1)));
    let _ = ledger.debit("bob", laplace(0.5), fingerprint(2)).await.unwrap();
    drop(ledger);
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let balances = ledger.balances("ann").await.unwrap();
    assert_eq!(balances.role.spent, laplace(0.0625));
    assert_eq!(balances.owner.spent, laplace(0.0625).compose(laplace(0.5)).unwrap());
    assert_eq!(ledger.balance_owner().await.unwrap(), balances.owner);
    assert!(balances.role.pure_open());
    assert_eq!(balances.role.epsilon_left(), Fixed::round_down(0.9375));
    let history = ledger.history("bob", 10).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].loss, history[0].fingerprint), (laplace(0.5), fingerprint(2)));
    let _ = ledger.debit("ann", gaussian(0.001), fingerprint(3)).await.unwrap();
    let balance = ledger.balance("ann").await.unwrap();
    assert!(!balance.pure_open());
    assert!(ledger.balances("bob").await.unwrap().role.pure_open());
}

#[tokio::test]
async fn refusal_charges_nothing_and_hides_the_total() {
    let scratch = Scratch::new();
    let roles = [account("ann", 1.0, 0.0, Accounting::Pure), account("bob", 1.0, 0.0, Accounting::Pure)];
    let ledger = open(&scratch.file(), account("owner", 1.25, 0.0, Accounting::Pure), &roles).await.unwrap();
    let _ = ledger.debit("ann", laplace(1.0), fingerprint(1)).await.unwrap();
    let before = ledger.balances("bob").await.unwrap();
    // The role's own refusal has its own numbers.
    let refused = ledger.debit("ann", laplace(0.1), fingerprint(2)).await.unwrap_err();
    assert!(matches!(&refused, DebitError::Exhausted { needs, .. } if *needs == laplace(0.1)));
    let refusal = refused.refusal().unwrap();
    assert_eq!((refusal.sqlstate.as_str(), refusal.message.lines().count()), ("53400", 1));
    assert_eq!(refusal.message, "privacy budget exhausted: this query needs epsilon 0.1 and nothing is left");
    // The total's has none.
    let refused = ledger.debit("bob", laplace(0.5), fingerprint(3)).await.unwrap_err();
    assert!(matches!(refused, DebitError::TotalExhausted { .. }));
    let refusal = refused.refusal().unwrap();
    let told = format!("{refused} {} {}", refusal.message, refusal.detail.unwrap());
    assert!(!told.contains(|c: char| c.is_ascii_digit()), "{told}");
    assert_eq!(ledger.balances("bob").await.unwrap(), before);
    let _ = ledger.debit("bob", laplace(0.25), fingerprint(4)).await.unwrap();
    assert_eq!(rows(&scratch.file()).len(), 2);
    let unknown = ledger.debit("eve", laplace(0.1), fingerprint(5)).await.unwrap_err();
    assert!(matches!(&unknown, DebitError::Ledger(Error::UnknownRole { .. })));
    assert!(unknown.refusal().is_none());
}

#[tokio::test]
async fn zero_loss_needs_neither_budget_nor_disk() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Pure).await.unwrap();
    let _ = ledger.debit("ann", laplace(1.0), fingerprint(1)).await.unwrap();
    // Held by somebody else for ever: whatever needs the file would wait.
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let charge = ledger.debit("ann", Loss::ZERO, fingerprint(2)).await.unwrap();
    assert!(charge.loss().is_zero() && charge.covers(&fingerprint(2)));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&scratch.file()).len(), 1);
    assert!(ledger.debit("eve", Loss::ZERO, fingerprint(3)).await.is_err());
}

#[tokio::test]
async fn failures_are_counted_for_ever() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    assert_eq!(ledger.failures_left("ann", 3).await.unwrap(), 3);
    assert_eq!(ledger.record_failure("ann").await.unwrap(), 1);
    assert_eq!(ledger.record_failure("ann").await.unwrap(), 2);
    drop(ledger);
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    assert_eq!((ledger.failures("ann").await.unwrap(), ledger.failures("bob").await.unwrap()), (2, 0));
    assert_eq!((ledger.failures_left("ann", 3).await.unwrap(), ledger.failures_left("ann", 1).await.unwrap()), (1, 0));
    assert!(ledger.record_failure("eve").await.is_err());
}

#[tokio::test]
async fn terms_of_an_account_are_fixed_but_its_budget_is_not() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = ledger.debit("ann", laplace(0.75), fingerprint(1)).await.unwrap();
    drop(ledger);
    let refused = open_usual(&scratch.file(), Accounting::Zcdp).await.unwrap_err();
    assert!(matches!(&refused, Error::Fixed { what: "accounting", .. }), "{refused}");
    let owner = account("renamed", 8.0, 1e-6, Accounting::Gdp);
    let mut ann = account("ann", 1.0, 1e-6, Accounting::Gdp);
    ann.threshold_share = 0.1;
    let refused = open(&scratch.file(), owner.clone(), std::slice::from_ref(&ann)).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the account of role \"ann\" was opened with threshold_share 0.005, which is fixed for ever, and the policy says 0.1: set it back, or use a new ledger"
    );
    let refused = open(&scratch.file(), owner.clone(), &[account("x", 1.0, 0.0, Accounting::Pure), account("x", 1.0, 0.0, Accounting::Pure)]).await;
    assert!(matches!(refused.unwrap_err(), Error::NamedTwice { .. }));
    // A smaller budget than is spent: the sum stays, and everything is refused.
    let ledger = open(&scratch.file(), owner.clone(), &[account("ann", 0.5, 1e-6, Accounting::Gdp)]).await.unwrap();
    assert_eq!(ledger.balance("ann").await.unwrap().spent, laplace(0.75));
    assert_eq!(ledger.balance("ann").await.unwrap().epsilon_left(), Fixed::ZERO);
    assert!(ledger.debit("ann", laplace(0.5), fingerprint(2)).await.is_err());
    // "bob" is in no policy any more: nobody debits it, and its account is kept.
    assert!(matches!(ledger.balance("bob").await.unwrap_err(), Error::UnknownRole { .. }));
    drop(ledger);
    let ledger = open(&scratch.file(), owner, &[account("ann", 2.0, 1e-6, Accounting::Gdp)]).await.unwrap();
    let _ = ledger.debit("ann", laplace(1.25), fingerprint(3)).await.unwrap();
}

#[tokio::test]
async fn file_is_made_whole_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let missing = open_usual(&scratch.0.join("none").join("ledger.db"), Accounting::Gdp).await.unwrap_err();
    assert!(matches!(&missing, Error::NoDirectory { .. }), "{missing}");
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = ledger.debit("ann", laplace(0.1), fingerprint(1)).await.unwrap();
    drop(ledger);
    let mut names: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["ledger.db", "ledger.db-journal"]);
    for name in names {
        assert_eq!(std::fs::metadata(scratch.0.join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Whoever removes the ledger and leaves its journal is asked, not given a new budget.
    std::fs::remove_file(scratch.file()).unwrap();
    let refused = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap_err();
    assert!(matches!(&refused, Error::Leftover { .. }), "{refused}");
    assert!(!scratch.file().exists());
}

/// A debit that fails halfway leaves neither account charged, and yields no charge.
#[tokio::test]
async fn failed_debit_is_undone_whole() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = ledger.debit("ann", laplace(0.1), fingerprint(1)).await.unwrap();
    let before = ledger.balances("ann").await.unwrap();
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON debit BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    other.execute_batch(trigger).unwrap();
    let debits = (0..10).map(|number| ledger.debit("ann", laplace(0.01), fingerprint(number)));
    for refused in futures::future::join_all(debits).await {
        let error = refused.unwrap_err();
        assert!(matches!(error, DebitError::Ledger(Error::Storage(_))), "{error}");
        assert!(error.refusal().is_none());
    }
    assert_eq!(ledger.balances("ann").await.unwrap(), before);
    other.execute_batch("DROP TRIGGER full").unwrap();
    let _ = ledger.debit("ann", laplace(0.1), fingerprint(2)).await.unwrap();
}

/// 50 sessions on two roles: the roles' budgets admit more than the total, and the total binds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_race_for_the_last_epsilon() {
    let scratch = Scratch::new();
    let roles = [account("ann", 1.0, 0.0, Accounting::Pure), account("bob", 1.0, 0.0, Accounting::Pure)];
    let owner = account("owner", 1.5, 0.0, Accounting::Pure);
    let loss = laplace(0.01);
    let admissible = owner.cap.epsilon().0 / loss.epsilon.unwrap().0;
    let ledger = Arc::new(open(&scratch.file(), owner, &roles).await.unwrap());
    let sessions: Vec<_> = (0..50u64)
        .map(|session| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                let role = if session % 2 == 0 { "ann" } else { "bob" };
                let mut charged = 0;
                for query in 0..10 {
                    charged += u128::from(ledger.debit(role, loss, fingerprint(session * 100 + query)).await.is_ok());
                }
                charged
            })
        })
        .collect();
    let mut charged = 0;
    for session in sessions {
        charged += session.await.unwrap();
    }
    assert_eq!(charged, admissible);
    assert_eq!(rows(&scratch.file()).len() as u128, admissible);
}

/// Not a bound: prints what one and fifty callers get.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debits_per_second() {
    for tasks in [1, 50u64] {
        let scratch = Scratch::new();
        let ledger = Arc::new(open_usual(&scratch.file(), Accounting::Gdp).await.unwrap());
        let loss = laplace(1e-6);
        let each = 500 / tasks;
        let start = Instant::now();
        let running: Vec<_> = (0..tasks)
            .map(|task| {
                let ledger = Arc::clone(&ledger);
                tokio::spawn(async move {
                    for query in 0..each {
                        let _ = ledger.debit("ann", loss, fingerprint(task * 1000 + query)).await.unwrap();
                    }
                })
            })
            .collect();
        for task in running {
            task.await.unwrap();
        }
        println!("{tasks} tasks: {:.0} debits a second", (each * tasks) as f64 / start.elapsed().as_secs_f64());
    }
}

fn question(number: u8, accuracy: f64, loss: Loss) -> Question {
    Question { digest: [number; 32], accuracy, loss }
}

#[tokio::test]
async fn answers_are_held_by_those_who_paid() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let asked = question(1, 0.1, gaussian(0.01));
    assert_eq!(ledger.find("ann", asked).await.unwrap(), None);
    let _charge = ledger.debit("ann", asked.loss, fingerprint(1)).await.unwrap();
    ledger.keep("ann", asked, b"values".to_vec()).await.unwrap();
    assert_eq!(ledger.find("ann", asked).await.unwrap(), Some(Stored::Held(b"values".to_vec())));
    assert_eq!(ledger.find("ann", question(1, 0.05, gaussian(0.0025))).await.unwrap(), Some(Stored::Held(b"values".to_vec())));
    assert_eq!(ledger.find("ann", question(1, 0.2, gaussian(0.04))).await.unwrap(), None, "more accurate than what is there");
    assert_eq!(ledger.find("ann", question(2, 0.1, asked.loss)).await.unwrap(), None);
    assert_eq!(ledger.find("bob", question(1, 0.1, laplace(0.1))).await.unwrap(), None, "another loss would tell of the first asker");
    let Some(Stored::Offered(answer)) = ledger.find("bob", asked).await.unwrap() else { panic!() };
    assert_eq!(ledger.held("bob", answer).await.unwrap(), None, "not before it is paid");
    let total = ledger.balance_owner().await.unwrap().spent;
    let purchase = Purchase { fresh: Loss::ZERO, offered: asked.loss, answers: vec![answer], fingerprint: fingerprint(2), questions: Vec::new() };
    let _charge = ledger.purchase("bob", purchase).await.unwrap();
    assert_eq!(ledger.held("bob", answer).await.unwrap(), Some(b"values".to_vec()));
    assert_eq!(ledger.balance("bob").await.unwrap().spent, asked.loss);
    assert_eq!(ledger.balance_owner().await.unwrap().spent, total);
    drop(ledger);
    // Opened again, the sums are held against debits and receipts.
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    assert_eq!(ledger.find("bob", asked).await.unwrap(), Some(Stored::Held(b"values".to_vec())));
    assert_eq!(ledger.history("bob", 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn an_offer_past_the_budget_is_refused() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let asked = question(1, 3.0, gaussian(9.0));
    ledger.keep("ann", asked, b"values".to_vec()).await.unwrap();
    let Some(Stored::Offered(answer)) = ledger.find("bob", asked).await.unwrap() else { panic!() };
    let purchase = Purchase { fresh: gaussian(0.0001), offered: asked.loss, answers: vec![answer], fingerprint: fingerprint(1), questions: Vec::new() };
    let refused = ledger.purchase("bob", purchase).await.unwrap_err();
    assert!(matches!(refused, DebitError::Exhausted { .. }), "{refused}");
    assert_eq!(ledger.held("bob", answer).await.unwrap(), None);
    assert_eq!(ledger.balance("bob").await.unwrap().spent, Loss::ZERO, "neither part is charged");
    assert_eq!(ledger.balance_owner().await.unwrap().spent, Loss::ZERO);
}

#[tokio::test]
async fn ledger_of_the_first_format_is_kept_whole() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _charge = ledger.debit("ann", gaussian(0.01), fingerprint(1)).await.unwrap();
    drop(ledger);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let connection = rusqlite::Connection::open(scratch.file()).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection.execute_batch("DROP TABLE holder; DROP TABLE receipt; DROP TABLE answer; DROP TABLE period; DROP TABLE decision; DROP TABLE claim; DROP TABLE statement; PRAGMA user_version = 1").unwrap();
    drop(connection);
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    assert_eq!(ledger.balance("ann").await.unwrap().spent, gaussian(0.01));
    ledger.keep("ann", question(1, 0.1, gaussian(0.01)), b"values".to_vec()).await.unwrap();
    drop(ledger);
    assert!(open_usual(&scratch.file(), Accounting::Gdp).await.is_ok());
}
