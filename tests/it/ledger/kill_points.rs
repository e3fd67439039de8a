//! kill -9 at every step of a debit and of the storing of its answer, on both stores: this test
//! binary runs itself again as the child that dies.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};

use pgveil::ledger::{Access, Clock, Error, Ledger, Row, Store, StoreValue, open_store};
use pgveil::mechanism::{Accounting, Loss};

use super::{Scratch, at_usual, buying, gaussian, held, question, specs_usual, stage};

pub(super) const URL: &str = "PGVEIL_TEST_STEPS_URL";
pub(super) const STEP: &str = "PGVEIL_TEST_STEPS_STEP";

/// Calls of the store until the end; negative: not counted yet.
pub(super) static LEFT: AtomicI64 = AtomicI64::new(-1);

/// A store that kills its process before or after one of its calls.
pub(super) struct Dying(pub Box<dyn Store>);

fn step() {
    if LEFT.load(Ordering::SeqCst) >= 0 && LEFT.fetch_sub(1, Ordering::SeqCst) == 0 {
        let killed = Command::new("sh").args(["-c", "kill -9 $PPID"]).status();
        panic!("still alive: {killed:?}");
    }
}

impl Store for Dying {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        step();
        let begun = self.0.begin(access);
        step();
        begun
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        let rows = self.0.query(sql, values);
        step();
        rows
    }

    fn may_stay_open(&self) -> bool {
        self.0.may_stay_open()
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.0.check_place()
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        let ended = self.0.end(outcome);
        step();
        ended
    }
}

/// No test by itself: the child's main, when the variables are set.
#[tokio::test]
async fn child() {
    let (Ok(url), Ok(at)) = (std::env::var(URL), std::env::var(STEP)) else {
        return;
    };
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = Ledger::on(
        move || Ok(Box::new(Dying(open_store(&url)?)) as Box<dyn Store>),
        Clock::system(),
        owner,
        &roles,
    )
    .await
    .unwrap();
    LEFT.store(at.parse().unwrap(), Ordering::SeqCst);
    let asked = question(1, 0.1, gaussian(0.001));
    let _charge = ledger.purchase("ann", buying(asked)).await.unwrap();
    println!("\ncharged");
    ledger.keep("ann", asked, b"values".to_vec()).await.unwrap();
    println!("\nkept");
}

async fn every_step(fresh: impl AsyncFn() -> String) {
    let mut completed = false;
    let (mut steps, mut unacknowledged) = (0, 0);
    while !completed {
        let url = fresh().await;
        drop(at_usual(&url, Accounting::Gdp).await.unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "ledger::kill_points::child",
            "--nocapture",
            "--test-threads=1",
        ]);
        command
            .env(URL, &url)
            .env(STEP, steps.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        completed = output.status.success();
        let reported = String::from_utf8_lossy(&output.stdout).into_owned();
        let (charged, kept) = (
            reported.contains("\ncharged\n"),
            reported.contains("\nkept\n"),
        );
        assert!(!completed || (charged && kept), "{reported}");
        // Verifies that every sum matches the history.
        let ledger = at_usual(&url, Accounting::Gdp)
            .await
            .unwrap_or_else(|e| panic!("step {steps}: {e}"));
        let balances = ledger.balances("ann").await.unwrap();
        let debits = ledger.history("ann", 10).await.unwrap().len();
        assert!(
            debits <= 1 && (!charged || debits == 1),
            "step {steps}: a charge that was relied on is gone"
        );
        let expected = if debits == 1 {
            gaussian(0.001)
        } else {
            Loss::ZERO
        };
        assert_eq!(
            (balances.role.spent, balances.owner.spent),
            (expected, expected),
            "step {steps}: both pay, or neither"
        );
        let found = ledger
            .find("ann", question(1, 0.1, gaussian(0.001)))
            .await
            .unwrap();
        assert!(
            !kept || found == Some(held(0.1)),
            "step {steps}: an answer that was kept is gone"
        );
        assert!(
            found.is_none() || debits == 1,
            "step {steps}: an answer that nobody paid for"
        );
        unacknowledged += u32::from(debits == 1 && !charged);
        steps += 1;
    }
    println!("{steps} kills, {unacknowledged} of them after a commit that was not acknowledged");
    assert!(steps > 15, "the child hardly ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_killed_at_every_step_forgets_no_charge() {
    let scratch = Scratch::new();
    let next = std::sync::atomic::AtomicU32::new(0);
    every_step(async || format!("{}.{}", scratch.url(), next.fetch_add(1, Ordering::SeqCst))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_postgres_killed_at_every_step_forgets_no_charge() {
    every_step(async || stage::database().await).await;
}
