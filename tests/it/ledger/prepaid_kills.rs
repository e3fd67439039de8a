//! kill -9 at every step of draws and of the storing of their answers, on both stores: a period is
//! drawn once, and what was drawn and not kept is lost. This test binary runs itself again as the
//! child that dies.

use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use pgveil::ledger::{Clock, DebitError, Ledger, Store, open_store};
use pgveil::mechanism::{Accounting, Loss};

use super::kill_points::{Dying, LEFT, STEP, URL};
use super::prepaid::{OF, keep, price, spent, stands, step};
use super::{Scratch, at_usual, specs_usual, stage};

/// The draws of the child.
const DRAWS: [(i64, i64); 2] = [(0, 3), (3, 5)];

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
    for (number, draw) in DRAWS.into_iter().enumerate() {
        let _charge = step(&ledger, "ann", Some(draw)).await.unwrap();
        println!("\ndrawn {number}");
        keep(&ledger, "ann", number as u8).await;
        println!("\nkept {number}");
    }
}

/// What the child said, and whether it lived to its end.
async fn died(url: &str, at: usize) -> (String, bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "ledger::prepaid_kills::child",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(URL, url)
        .env(STEP, at.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap());
    let output = output.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said, output.status.success())
}

async fn every_step(fresh: impl AsyncFn() -> String) {
    let (mut at, mut lost, mut is_whole) = (0, 0, false);
    while !is_whole {
        let url = fresh().await;
        drop(at_usual(&url, Accounting::Gdp).await.unwrap());
        let said;
        (said, is_whole) = died(&url, at).await;
        let count = |what: &str| {
            let lines = said.lines().filter(|line| line.starts_with(what));
            lines.count()
        };
        let (drawn, kept) = (count("drawn "), count("kept "));
        assert!(!is_whole || kept == 2, "{said}");
        // Verifies that draws follow each other, and each has its debit.
        let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
        let found = stands(&ledger, "ann").await;
        let draws = found
            .as_ref()
            .map_or(Vec::new(), |found| found.draws.clone());
        assert_eq!(draws, DRAWS[..draws.len()], "step {at}");
        assert!(
            draws.len() >= drawn,
            "step {at}: a draw that was relied on is gone"
        );
        let paid = match draws.is_empty() {
            true => Loss::ZERO,
            false => price(0.01).loss,
        };
        assert_eq!(spent(&ledger, "ann").await, [paid, paid], "step {at}");
        let family = ledger.prepaid_family(OF, price(0.01)).await.unwrap();
        let answers = ledger.values_of_family("ann", family).await.unwrap().len();
        assert!(answers >= kept && answers <= draws.len(), "step {at}");
        lost += draws.len() - answers;
        // The next process goes on after what was drawn, never with it.
        let next = draws.last().map_or(0, |(_, until)| *until);
        match step(&ledger, "ann", Some((next, next + 2))).await {
            Ok(charge) => assert_eq!(charge.loss().is_zero(), next > 0, "step {at}"),
            // The claim of the process that died.
            Err(DebitError::Awaited) => {}
            Err(error) => panic!("step {at}: {error}"),
        }
        at += 1;
    }
    assert!(at > 30 && lost > 0, "{at} kills, {lost} draws lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_killed_at_every_step_draws_no_period_twice() {
    let scratch = Scratch::new();
    let next = std::sync::atomic::AtomicU32::new(0);
    every_step(async || format!("{}.{}", scratch.url(), next.fetch_add(1, Ordering::SeqCst))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_postgres_killed_at_every_step_draws_no_period_twice() {
    every_step(async || stage::database().await).await;
}
