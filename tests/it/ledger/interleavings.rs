//! Whatever happens in whatever order, nobody gets budget back: questions and failures of two
//! proxies, crashes between a commit and its witness, copies, backups, restorations, and standbys
//! that lagged and take over.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pgveil::ledger::{
    Access, Act, Address, Clock, Decision, Error, Ledger, Row, Store, StoreValue, back_up,
    open_store,
};
use pgveil::mechanism::Loss;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::older_copies::{debit, is_at_least, lose, near, open, restored, specs, spent};
use super::{Scratch, gaussian, laplace, stage};

const ROLES: [&str; 2] = ["ann", "bob"];
/// As `limits.failures` has it in these restorations.
const FAILURES: u32 = 10;

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(u8),
    /// By a second proxy on the same ledger.
    AskElsewhere(u8),
    /// A question of a proxy that crashes on the way to its answer.
    Crash(u8),
    Fail(u8),
    BackUp,
    /// A copy, or a standby that has come this far.
    Copy,
    /// The copy, of whatever day, is put in the ledger's place; the standby takes over.
    CopyBack,
    Restart,
    Restore,
    /// The file of the second witness is removed.
    LoseAWitness,
}

/// What may happen to any ledger; without `goes_back`, nobody puts an older copy in its place.
fn steps(goes_back: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => any::<u8>().prop_map(Step::Ask),
        1 => any::<u8>().prop_map(Step::AskElsewhere),
        1 => any::<u8>().prop_map(Step::Crash),
        1 => any::<u8>().prop_map(Step::Fail),
        1 => Just(Step::BackUp),
        1 => Just(Step::Copy),
        1 => Just(Step::CopyBack),
        1 => Just(Step::Restart),
        1 => Just(Step::Restore),
        1 => Just(Step::LoseAWitness),
    ];
    let step = step.prop_map(move |step| match step {
        Step::CopyBack if !goes_back => Step::Copy,
        step => step,
    });
    proptest::collection::vec(step, 1..24)
}

/// What the roles were shown. No account may ever have less.
struct Shown {
    losses: [Loss; 2],
    failures: [u32; 2],
}

/// A ledger, with its proxy.
struct World {
    scratch: Scratch,
    at: Address,
    ledger: Option<Ledger>,
    shown: Shown,
    has_copy: bool,
}

/// The roles take turns, and so do the kinds of noise.
fn question(number: u8) -> (usize, Loss) {
    let size = f64::from(number) / 1024.0;
    let loss = match number & 2 {
        0 => laplace(size),
        _ => gaussian(size * size / 4.0),
    };
    (usize::from(number % 2), loss)
}

impl World {
    async fn of(url: Option<String>, is_witnessed: bool) -> Self {
        let scratch = Scratch::new();
        let places = [scratch.0.join("witness"), scratch.0.join("second")];
        let at = Address {
            url: url.unwrap_or_else(|| scratch.url()).into(),
            witnesses: match is_witnessed {
                true => places.map(near).to_vec(),
                false => Vec::new(),
            },
        };
        let ledger = Some(open(&at).await.unwrap());
        Self {
            scratch,
            at,
            ledger,
            shown: Shown {
                losses: [Loss::ZERO; 2],
                failures: [0; 2],
            },
            has_copy: false,
        }
    }

    fn server(&self) -> Option<String> {
        let url = self.at.url.expose();
        url.starts_with("postgres").then(|| url.to_owned())
    }

    fn backup(&self) -> PathBuf {
        self.scratch.0.join("ledger.pgvb")
    }

    fn second(&self) -> PathBuf {
        self.scratch.0.join("second")
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Ask(number) => {
                if let Some(ledger) = self.ledger.take() {
                    self.ask(&ledger, number).await;
                    self.ledger = Some(ledger);
                }
            }
            Step::AskElsewhere(number) => {
                if let Ok(other) = open(&self.at).await {
                    self.ask(&other, number).await;
                }
            }
            Step::Crash(number) => self.crash(number).await,
            Step::Fail(number) => self.fail(usize::from(number % 2)).await,
            Step::BackUp if self.server().is_none() => {
                let _ = fs::remove_file(self.backup());
                if self.scratch.file().exists() {
                    back_up(&self.at, &self.backup()).unwrap();
                }
            }
            Step::BackUp => {}
            Step::Copy => self.copy().await,
            Step::CopyBack if self.has_copy => self.copy_back().await,
            Step::CopyBack => {}
            Step::Restart => {
                drop(self.ledger.take());
                self.ledger = open(&self.at).await.ok();
            }
            Step::Restore => self.restore().await,
            Step::LoseAWitness => drop(fs::remove_file(self.second())),
        }
    }

    async fn ask(&mut self, ledger: &Ledger, number: u8) {
        let (role, loss) = question(number);
        if debit(ledger, ROLES[role], loss).await.is_ok() {
            let sum = &mut self.shown.losses[role];
            *sum = sum.compose(loss).unwrap();
        }
    }

    async fn fail(&mut self, role: usize) {
        let Some(ledger) = &self.ledger else { return };
        let left = ledger.failures_left(ROLES[role], FAILURES).await;
        if left.is_ok_and(|left| left > 0) && ledger.record_failure(ROLES[role]).await.is_ok() {
            self.shown.failures[role] += 1;
        }
    }

    /// The proxy opened the ledger, and ends: when its commit was made and no witness has it; when
    /// it was not; or when the first witness has it and the second has not. Nobody is answered.
    async fn crash(&mut self, number: u8) {
        let Ok(opened) = open(&self.at).await else {
            return;
        };
        let (role, loss) = question(number);
        if number % 3 == 2 {
            let seen = fs::read(self.second());
            let _ = debit(&opened, ROLES[role], loss).await;
            opened.flush().await;
            match seen {
                Ok(seen) => fs::write(self.second(), seen).unwrap(),
                Err(_) => drop(fs::remove_file(self.second())),
            }
            return;
        }
        drop(opened);
        let url = self.at.url.expose().to_owned();
        let is_made = number % 3 == 1;
        let store = move || {
            Ok(Box::new(Crashing {
                store: open_store(&url)?,
                is_made,
                has_debit: false,
            }) as Box<dyn Store>)
        };
        let (owner, roles) = specs();
        let ledger = Ledger::on(store, Clock::system(), owner, &roles).await;
        assert!(debit(&ledger.unwrap(), ROLES[role], loss).await.is_err() || number == 0);
    }

    async fn copy(&mut self) {
        self.has_copy = true;
        let Some(url) = self.server() else {
            let _ = fs::copy(self.scratch.file(), self.scratch.0.join("copy.db"));
            return;
        };
        for table in tables(&url).await {
            let copy = format!(
                "DROP TABLE IF EXISTS public.{table}; \
                    CREATE TABLE public.{table} AS TABLE pgveil_ledger.{table}"
            );
            stage::execute(&url, &copy).await;
        }
    }

    async fn copy_back(&self) {
        let Some(url) = self.server() else {
            let copy = self.scratch.0.join("copy.db");
            fs::copy(copy, self.scratch.file()).unwrap();
            return;
        };
        let mut script = "BEGIN; SET session_replication_role = replica;".to_owned();
        for table in tables(&url).await {
            script += &format!(
                "DELETE FROM pgveil_ledger.{table}; \
                    INSERT INTO pgveil_ledger.{table} TABLE public.{table};"
            );
        }
        stage::execute(&url, &format!("{script} COMMIT")).await;
    }

    /// A file from its backup; what is in place, in a server.
    async fn restore(&mut self) {
        let backup = match self.server() {
            Some(_) => None,
            None if self.backup().exists() => Some(self.backup()),
            None => return,
        };
        drop(self.ledger.take());
        if self.server().is_none() {
            until_closed(&self.scratch.file()).await;
        }
        if backup.is_some() {
            lose(&self.scratch);
        }
        let settled = restored(&self.at, backup).await.unwrap();
        let ledger = open(&self.at).await.unwrap();
        if !settled.is_witnessed {
            for role in ROLES {
                let left = ledger.balance(role).await.unwrap().fraction_left();
                assert_eq!(left, 0.0, "{role}");
            }
        }
        let thaw = Decision {
            act: Act::Unfreeze { role: None },
            who: "tester".to_owned(),
            why: "looked at".to_owned(),
        };
        ledger.decide(thaw).await.unwrap();
        self.ledger = Some(ledger);
    }

    /// No account of a ledger that would still charge shows less than was shown.
    async fn check(&self) {
        let Some(ledger) = &self.ledger else { return };
        if ledger.height().await.is_err() {
            return;
        }
        let Shown { losses, failures } = &self.shown;
        for (at, role) in ROLES.into_iter().enumerate() {
            let known = spent(ledger, role).await;
            let shown = &losses[at];
            assert!(is_at_least(&known, shown), "{role}: {known:?} < {shown:?}");
            assert!(
                ledger.failures(role).await.unwrap() >= failures[at],
                "{role}"
            );
        }
        let known = ledger.balance_owner().await.unwrap().lifetime;
        let shown = losses[0].compose(losses[1]).unwrap();
        assert!(is_at_least(&known, &shown), "total: {known:?} < {shown:?}");
    }
}

/// Waits until no connection of this process writes to a file: the thread of a ledger that was
/// dropped ends by itself. A process keeps a file that it has checked open for reading.
async fn until_closed(file: &Path) {
    let file = fs::canonicalize(file).unwrap();
    let writes = |number: &std::ffi::OsStr| {
        let info = fs::read_to_string(Path::new("/proc/self/fdinfo").join(number));
        let flags = info.unwrap_or_default().lines().find_map(|line| {
            let flags = line.strip_prefix("flags:")?;
            u32::from_str_radix(flags.trim(), 8).ok()
        });
        flags.is_some_and(|flags| flags & 3 != 0)
    };
    let is_open = || {
        let mut open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|to| to == file) && writes(&entry.file_name())
        })
    };
    let closed = async {
        while is_open() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), closed)
        .await
        .expect("the ledger's thread ends");
}

async fn tables(url: &str) -> Vec<String> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'pgveil_ledger'";
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// A store whose process ends at the commit of a debit.
struct Crashing {
    store: Box<dyn Store>,
    is_made: bool,
    has_debit: bool,
}

impl Store for Crashing {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        self.has_debit = false;
        self.store.begin(access)
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.has_debit |= sql.starts_with("INSERT INTO debit");
        self.store.query(sql, values)
    }

    fn may_stay_open(&self) -> bool {
        self.store.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.store.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        if !self.has_debit || outcome.is_err() {
            return self.store.end(outcome);
        }
        let lost = Err(Error::Storage(Arc::new(std::io::Error::other("crashed"))));
        match self.is_made {
            true => self.store.end(outcome).and(lost),
            false => self.store.end(lost),
        }
    }
}

/// Each case in a separate world.
fn nothing_is_given_back(cases: u32, is_witnessed: bool, is_server: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in steps(is_witnessed))| {
        runtime.block_on(async {
            let url = match is_server {
                true => Some(stage::database().await),
                false => None,
            };
            let mut world = World::of(url, is_witnessed).await;
            for step in steps {
                world.step(step).await;
                world.check().await;
            }
        });
    });
}

#[test]
fn no_copying_gives_anything_back() {
    nothing_is_given_back(48, true, false);
}

/// In PostgreSQL: standbys lag and take over, and what is in place is settled.
#[test]
fn no_failover_gives_anything_back() {
    nothing_is_given_back(16, true, true);
}

/// Without a witness an older copy passes for the ledger. A backup does not: its restoration leaves
/// nothing, and counts at least what can have been shown.
#[test]
fn no_restoration_without_a_witness_gives_anything_back() {
    nothing_is_given_back(48, false, false);
}
