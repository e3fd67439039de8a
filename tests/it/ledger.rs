//! The ledger: what it admits, that it loses nothing, and that it refuses every file that it cannot
//! trust.

mod batches;
mod conformance;
pub mod crash;
mod disk;
mod edges;
mod interleavings;
mod kept_recalls;
mod keyed;
mod kill_points;
mod looking;
mod older_copies;
mod prepaid;
mod prepaid_kills;
mod processes;
mod properties;
mod read_at_once;
mod relay;
pub mod reuse;
pub mod stage;
pub mod statement_log;
mod total;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pgveil::ledger::{
    AccountSpec, AnswerId, Buyer, DebitError, Error, FamilyId, Fingerprint, Ledger, Purchase,
    QuestionDigest, QuestionId, Stored,
};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};
use pgveil::policy::{Budget, Renew};

const SHARE: f64 = 0.005;

/// A directory of one test, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = std::env::temp_dir().join(format!(
            "pgveil-ledger-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("ledger.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.file().display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn account(name: &str, epsilon: f64, delta: f64, accounting: Accounting) -> AccountSpec {
    let cap = Cap::new(
        Fixed::round_down(epsilon),
        Fixed::round_down(delta),
        Fixed::round_down(SHARE),
        accounting,
    )
    .unwrap();
    AccountSpec {
        name: name.to_owned(),
        budget: Budget { epsilon, delta },
        threshold_share: SHARE,
        cap,
        renew: Renew::Never,
    }
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
    Loss {
        epsilon: None,
        rho: Fixed::round_up(mu_squared / 2.0),
        mu_squared: Fixed::round_up(mu_squared),
        delta: Fixed::ZERO,
    }
}

fn fingerprint(number: u64) -> Fingerprint {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_be_bytes());
    Fingerprint::new(digest)
}

/// A purchase of one answer that is to be made.
fn buying(asked: QuestionDigest) -> Purchase {
    let (fingerprint, bought) = (fingerprint(1), fingerprint(1));
    Purchase {
        buyer: Buyer::Role,
        fresh: asked.loss,
        later: Loss::ZERO,
        offered: Loss::ZERO,
        answers: Vec::new(),
        fingerprint,
        bought,
        follows: None,
        held_before: None,
        series_max: None,
        prepaid: None,
        questions: vec![asked],
    }
}

/// A purchase of an answer that was made for another role, and of `fresh` with it.
fn taking(answer: AnswerId, offered: Loss, fresh: Loss) -> Purchase {
    let (fingerprint, bought) = (fingerprint(2), fingerprint(2));
    Purchase {
        buyer: Buyer::Role,
        fresh,
        later: Loss::ZERO,
        offered,
        answers: vec![answer],
        fingerprint,
        bought,
        follows: None,
        held_before: None,
        series_max: None,
        prepaid: None,
        questions: Vec::new(),
    }
}

async fn at(url: &str, owner: AccountSpec, roles: &[AccountSpec]) -> Result<Ledger, Error> {
    Ledger::open(url, owner, roles).await
}

async fn open(path: &Path, owner: AccountSpec, roles: &[AccountSpec]) -> Result<Ledger, Error> {
    at(&format!("sqlite://{}", path.display()), owner, roles).await
}

/// Owner (8, 1e-6) and two roles of (1, 1e-6).
fn specs_usual(accounting: Accounting) -> (AccountSpec, [AccountSpec; 2]) {
    (
        account("owner", 8.0, 1e-6, accounting),
        ["ann", "bob"].map(|name| account(name, 1.0, 1e-6, accounting)),
    )
}

async fn at_usual(url: &str, accounting: Accounting) -> Result<Ledger, Error> {
    let (owner, roles) = specs_usual(accounting);
    at(url, owner, &roles).await
}

async fn open_usual(path: &Path, accounting: Accounting) -> Result<Ledger, Error> {
    at_usual(&format!("sqlite://{}", path.display()), accounting).await
}

/// Rows of the history: (role, epsilon, rho, mu^2, delta, fingerprint), read without the ledger.
fn rows(path: &Path) -> Vec<(String, Loss, [u8; 32])> {
    let connection =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    let sql = "SELECT name, d.epsilon, rho, mu_squared, d.delta, fingerprint FROM debit d JOIN \
        account a ON a.id = d.role ORDER BY d.id";
    let mut statement = connection.prepare(sql).unwrap();
    let number = |bytes: [u8; 16]| Fixed(u128::from_be_bytes(bytes));
    let rows = statement.query_map([], |row| {
        let epsilon = row.get::<_, Option<[u8; 16]>>(1)?.map(number);
        let loss = Loss {
            epsilon,
            rho: number(row.get(2)?),
            mu_squared: number(row.get(3)?),
            delta: number(row.get(4)?),
        };
        Ok((row.get(0)?, loss, row.get(5)?))
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn zero_loss_needs_neither_budget_nor_disk() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Pure).await.unwrap();
    let _ = ledger
        .debit("ann", laplace(1.0), fingerprint(1))
        .await
        .unwrap();
    // Held by somebody else for ever: whatever needs the file would wait.
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let charge = ledger
        .debit("ann", Loss::ZERO, fingerprint(2))
        .await
        .unwrap();
    assert!(charge.loss().is_zero() && charge.covers(&fingerprint(2)));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(rows(&scratch.file()).len(), 1);
    assert!(
        ledger
            .debit("eve", Loss::ZERO, fingerprint(3))
            .await
            .is_err()
    );
}

#[tokio::test]
async fn file_is_made_whole_and_private() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let missing = open_usual(&scratch.0.join("none").join("ledger.db"), Accounting::Gdp)
        .await
        .unwrap_err();
    assert!(matches!(&missing, Error::NoDirectory { .. }), "{missing}");
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = ledger
        .debit("ann", laplace(0.1), fingerprint(1))
        .await
        .unwrap();
    drop(ledger);
    let mut names: Vec<_> = std::fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["ledger.db", "ledger.db-journal"]);
    for name in names {
        assert_eq!(
            std::fs::metadata(scratch.0.join(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o777,
            0o600
        );
    }
    // A removed ledger whose journal is left gives no new budget, but an error.
    std::fs::remove_file(scratch.file()).unwrap();
    let refused = open_usual(&scratch.file(), Accounting::Gdp)
        .await
        .unwrap_err();
    assert!(matches!(&refused, Error::Leftover { .. }), "{refused}");
    assert!(!scratch.file().exists());
}

/// A debit that fails halfway leaves neither account charged, and yields no charge.
#[tokio::test]
async fn failed_debit_is_undone_whole() {
    let scratch = Scratch::new();
    let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
    let _ = ledger
        .debit("ann", laplace(0.1), fingerprint(1))
        .await
        .unwrap();
    let before = ledger.balances("ann").await.unwrap();
    let other = rusqlite::Connection::open(scratch.file()).unwrap();
    let trigger =
        "CREATE TRIGGER full BEFORE INSERT ON debit BEGIN SELECT RAISE(ABORT, 'disk full'); END";
    other.execute_batch(trigger).unwrap();
    let debits = (0..10).map(|number| ledger.debit("ann", laplace(0.01), fingerprint(number)));
    for refused in futures::future::join_all(debits).await {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, DebitError::Ledger(Error::Storage(_))),
            "{error}"
        );
        assert!(error.refusal().is_none());
    }
    assert_eq!(ledger.balances("ann").await.unwrap(), before);
    other.execute_batch("DROP TRIGGER full").unwrap();
    let _ = ledger
        .debit("ann", laplace(0.1), fingerprint(2))
        .await
        .unwrap();
}

fn question(number: u8, accuracy: f64, loss: Loss) -> QuestionDigest {
    QuestionDigest {
        digest: QuestionId([number; 32]),
        family: Some(FamilyId([number % 16; 32])),
        accuracy,
        loss,
    }
}

/// An answer that was kept under this accuracy.
fn held(accuracy: f64) -> Stored {
    Stored::Held {
        released: b"values".to_vec(),
        accuracy,
    }
}

/// Waits until nobody has the file open, and takes from it what its format did not have yet.
fn set_back(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .busy_timeout(std::time::Duration::from_secs(10))
        .unwrap();
    connection.execute_batch(sql).unwrap();
}

/// The additions of each format to the one before it, newest first.
const ADDED: [(u32, &str); 9] = [
    (
        10,
        "DROP INDEX debit_name; DROP TABLE prepaid_draw; DROP TABLE prepaid_holder; DROP TABLE \
            prepaid;",
    ),
    (9, "DROP INDEX record_of_role;"),
    (
        8,
        "DROP TRIGGER statement_numbered; DROP TABLE record; DROP TABLE secret;",
    ),
    (7, "DROP TABLE policy;"),
    (6, "DROP TABLE identity;"),
    (5, "DROP TABLE refusal;"),
    (4, "DROP TABLE family;"),
    (
        3,
        "DROP TABLE period; DROP TABLE decision; DROP TABLE claim; DROP TABLE statement;",
    ),
    (
        2,
        "DROP TABLE holder; DROP TABLE receipt; DROP TABLE answer;",
    ),
];

/// The statements that take a file back to an older format.
pub fn to_format(format: u32) -> String {
    let newer = ADDED.iter().filter(|(added, _)| *added > format);
    let dropped: String = newer.map(|(_, sql)| *sql).collect();
    format!("{dropped} PRAGMA user_version = {format}")
}

#[tokio::test]
async fn ledgers_of_older_formats_are_kept_whole() {
    for format in 1..10 {
        let scratch = Scratch::new();
        let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
        let _charge = ledger
            .debit("ann", gaussian(0.01), fingerprint(1))
            .await
            .unwrap();
        ledger.record_failure("bob").await.unwrap();
        drop(ledger);
        set_back(&scratch.file(), &to_format(format));
        let ledger = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap();
        let balance = ledger.balance("ann").await.unwrap();
        assert_eq!(
            (balance.spent, balance.lifetime),
            (gaussian(0.01), gaussian(0.01)),
            "format {format}"
        );
        assert_eq!(ledger.failures("bob").await.unwrap(), 1);
        ledger
            .keep("ann", question(1, 0.1, gaussian(0.01)), b"values".to_vec())
            .await
            .unwrap();
        drop(ledger);
        assert!(open_usual(&scratch.file(), Accounting::Gdp).await.is_ok());
        // An older file whose sums differ from its debits is refused and left as it is.
        set_back(&scratch.file(), &to_format(format));
        let guard: String = rusqlite::Connection::open(scratch.file())
            .unwrap()
            .query_row(
                "SELECT sql FROM sqlite_schema WHERE name = 'account_spent'",
                [],
                |row| row.get(0),
            )
            .unwrap();
        set_back(
            &scratch.file(),
            &format!(
                "DROP TRIGGER account_spent; UPDATE account SET spent_rho = zeroblob(16); {guard}"
            ),
        );
        let before = std::fs::read(scratch.file()).unwrap();
        let refused = open_usual(&scratch.file(), Accounting::Gdp)
            .await
            .unwrap_err();
        assert!(
            matches!(&refused, Error::Damaged { .. }),
            "format {format}: {refused}"
        );
        assert!(
            std::fs::read(scratch.file()).unwrap() == before,
            "format {format}: the file was touched"
        );
    }
}
