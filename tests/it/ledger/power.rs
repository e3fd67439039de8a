//! A loss of power at any moment, with a disk whose syncs sometimes fail: this test binary runs
//! itself again under `power.c`, which keeps what would be left of the ledger's files.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use pgveil::mechanism::Accounting;

use super::{Scratch, fingerprint, laplace, open_usual, question};

const FILE: &str = "PGVEIL_TEST_POWER_FILE";
const FIRST: &str = "PGVEIL_TEST_POWER_FIRST";

/// Small enough that the budget lasts.
const LOSS: f64 = 1e-9;

/// No test by itself: the child's main, when the variables are set. Debits until it is killed, each
/// with an answer that is not synced; writes `ack <number>` for each charge that it holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(file) = std::env::var(FILE) else {
        return;
    };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    // A sync may fail while it opens, too.
    let ledger = loop {
        match open_usual(Path::new(&file), Accounting::Gdp).await {
            Ok(ledger) => break Arc::new(ledger),
            Err(error) => println!("\nfailed {error}"),
        }
    };
    let tasks = (0..3u8).map(|task| {
        let ledger = Arc::clone(&ledger);
        tokio::spawn(async move {
            for number in (first + u64::from(task)..).step_by(3) {
                let asked = question(task, 0.1, laplace(LOSS));
                let kept = ledger.keep_soon("ann", asked, vec![task; 5_000]).await;
                kept.unwrap();
                let debited = ledger.debit("ann", laplace(LOSS), fingerprint(number));
                let line = match debited.await {
                    Ok(_) => format!("\nack {number}\n"),
                    Err(error) => {
                        assert!(error.refusal().is_none(), "{error}");
                        format!("\nfailed {error}\n")
                    }
                };
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(tasks.collect::<Vec<_>>()).await;
}

/// Compiles the library that stands before libc.
fn library(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ledger/power.c");
    let library = directory.join("power.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(source)
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(compiled.unwrap().success());
    library
}

/// Lets a child debit for a while and kills it. Returns the numbers that it acknowledged, and how
/// often it reported a failure.
async fn killed(scratch: &Scratch, library: &Path, first: u64, fails: u64) -> (Vec<u64>, usize) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "ledger::power::child", "--nocapture"])
        .env("LD_PRELOAD", library)
        .env("PGVEIL_POWER_FAILS", fails.to_string())
        .env(FILE, scratch.file())
        .env(FIRST, first.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let time = Duration::from_millis(rand::random_range(100..500));
    tokio::time::sleep(time).await;
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    let acked = reported.lines().filter_map(|line| {
        let number = line.strip_prefix("ack ")?;
        number.parse().ok()
    });
    // The last line may be cut.
    let mut acked: Vec<u64> = acked.collect();
    if !reported.ends_with('\n') {
        acked.pop();
    }
    let failed = reported.lines().filter(|line| line.starts_with("failed"));
    (acked, failed.count())
}

/// What a loss of power leaves at this moment, as a ledger's files elsewhere.
fn left(scratch: &Scratch) -> Scratch {
    let image = Scratch::new();
    for suffix in ["", "-wal"] {
        let durable = scratch.0.join(format!("ledger.db{suffix}.durable"));
        if durable.exists() {
            fs::copy(durable, image.0.join(format!("ledger.db{suffix}"))).unwrap();
        }
    }
    image
}

#[tokio::test]
async fn a_loss_of_power_takes_no_debit_even_after_syncs_that_failed() {
    const ROUNDS: u64 = 24;
    const ACKED: usize = 100;
    let scratch = Scratch::new();
    let library = library(&scratch.0);
    drop(open_usual(&scratch.file(), Accounting::Gdp).await.unwrap());
    scratch.closed().await;
    let durable = scratch.0.join("ledger.db.durable");
    fs::copy(scratch.file(), durable).unwrap();
    let mut acked = HashSet::new();
    let (mut round, mut failures, mut answers) = (0, 0, 0);
    while round < ROUNDS || acked.len() <= ACKED || failures == 0 {
        assert!(
            round < 20 * ROUNDS,
            "the children hardly ran: {} charges, {failures} failures",
            acked.len()
        );
        // No sync fails, every third, and some less often.
        let fails = [0, 3, 4, 7, 20][usize::try_from(round % 5).unwrap()];
        let first = round * 1_000_000;
        let (of_child, failed) = killed(&scratch, &library, first, fails).await;
        acked.extend(of_child);
        failures += failed;
        let image = left(&scratch);
        // Verifies that the sums are those of the history.
        let ledger = open_usual(&image.file(), Accounting::Gdp).await.unwrap();
        let history = ledger.history("ann", u32::MAX).await.unwrap();
        let kept: HashSet<_> = history.iter().map(|entry| entry.fingerprint).collect();
        let lost = acked
            .iter()
            .filter(|number| !kept.contains(&fingerprint(**number)));
        assert_eq!(lost.count(), 0, "an acknowledged charge is gone");
        let asked = question(0, 0.1, laplace(LOSS));
        answers += u32::from(ledger.find("ann", asked).await.unwrap().is_some());
        round += 1;
    }
    println!(
        "{round} losses of power, {} acknowledged charges, {failures} failures; an answer was left \
            {answers} times",
        acked.len()
    );
}
