//! Several processes on one file, some of them killed: this test binary runs itself again as the
//! debiting child.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Scratch, account, fingerprint, laplace, open, rows};
use pgveil::ledger::{AccountSpec, DebitError, Ledger};
use pgveil::mechanism::{Accounting, Loss};

const FILE: &str = "PGVEIL_TEST_LEDGER_FILE";
const FIRST: &str = "PGVEIL_TEST_LEDGER_FIRST";
const EPSILON: &str = "PGVEIL_TEST_LEDGER_EPSILON";

fn specs(epsilon: f64) -> (AccountSpec, Vec<AccountSpec>) {
    (
        account("owner", epsilon, 0.0, Accounting::Pure),
        vec![account("ann", epsilon, 0.0, Accounting::Pure)],
    )
}

async fn reopen(path: &Path, epsilon: f64) -> Ledger {
    let (owner, roles) = specs(epsilon);
    open(path, owner, &roles).await.unwrap()
}

const LOSS: f64 = 0.01;

/// No test by itself: the child's main, when the variables are set. Writes `ack <number>` for each
/// charge it holds, until the budget is exhausted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(file) = std::env::var(FILE) else {
        return;
    };
    let number = |name| std::env::var(name).unwrap().parse::<f64>().unwrap();
    let ledger = Arc::new(reopen(Path::new(&file), number(EPSILON)).await);
    let first = number(FIRST) as u64;
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                for query in (first + task..).step_by(4) {
                    match ledger.debit("ann", laplace(LOSS), fingerprint(query)).await {
                        Ok(_) => std::io::stdout()
                            .write_all(format!("\nack {query}\n").as_bytes())
                            .unwrap(),
                        Err(DebitError::Exhausted { .. } | DebitError::TotalExhausted { .. }) => {
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

fn spawn(file: &Path, first: u64, epsilon: f64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "ledger::processes::child",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .env(FILE, file)
        .env(FIRST, first.to_string())
        .env(EPSILON, epsilon.to_string());
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Collects the numbers that the child acknowledged in whole lines, until it ends.
fn reader(child: &mut Child) -> JoinHandle<Vec<u64>> {
    let stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).split(b'\n').map_while(Result::ok);
        lines
            .filter_map(|line| {
                String::from_utf8(line)
                    .ok()?
                    .strip_prefix("ack ")?
                    .parse()
                    .ok()
            })
            .collect()
    })
}

#[tokio::test]
async fn processes_race_for_the_last_epsilon() {
    let scratch = Scratch::new();
    let epsilon = 2.0;
    let mut children: Vec<_> = (0..4)
        .map(|child| spawn(&scratch.file(), child * 1_000_000, epsilon))
        .collect();
    let readers: Vec<_> = children.iter_mut().map(reader).collect();
    assert!(
        children
            .iter_mut()
            .all(|child| child.wait().unwrap().success())
    );
    let acked: Vec<u64> = readers
        .into_iter()
        .flat_map(|reader| reader.join().unwrap())
        .collect();
    let loss = laplace(LOSS);
    let admissible = specs(epsilon).0.cap.epsilon().0 / loss.epsilon.unwrap().0;
    assert_eq!(acked.len() as u128, admissible);
    assert_eq!(rows(&scratch.file()).len() as u128, admissible);
    let _ = reopen(&scratch.file(), epsilon).await;
}

/// Every debit that a killed process saw confirmed is in the ledger, whenever the kill came, with
/// another process at work on the same file.
#[tokio::test]
async fn killed_process_forgets_no_charge() {
    const ROUNDS: u64 = 25;
    const ACKED: usize = 100;
    let scratch = Scratch::new();
    let epsilon = 1e6;
    let mut acked = HashSet::new();
    let mut round = 0;
    while round < ROUNDS || acked.len() <= ACKED {
        assert!(
            round < 20 * ROUNDS,
            "the children hardly ran: {} charges",
            acked.len()
        );
        let mut children: Vec<_> = (0..2)
            .map(|child| spawn(&scratch.file(), (round * 2 + child) * 1_000_000, epsilon))
            .collect();
        let readers: Vec<_> = children.iter_mut().map(reader).collect();
        for child in &mut children {
            // On a busy machine they may do little in this time, so later rounds get more.
            let longest = 200_000 * (1 + round / ROUNDS);
            tokio::time::sleep(Duration::from_micros(
                5_000 + rand::random::<u64>() % longest,
            ))
            .await;
            child.kill().unwrap();
            child.wait().unwrap();
        }
        for reader in readers {
            acked.extend(reader.join().unwrap());
        }
        // Verifies that the sums match the history. A child killed before it made the file leaves
        // no file, or a whole one.
        let ledger = reopen(&scratch.file(), epsilon).await;
        let rows = rows(&scratch.file());
        let kept: HashSet<_> = rows.iter().map(|(_, _, digest)| *digest).collect();
        assert!(
            acked
                .iter()
                .all(|number| kept.contains(fingerprint(*number).as_bytes())),
            "an acknowledged charge is gone"
        );
        let total = rows
            .iter()
            .fold(Loss::ZERO, |sum, (_, loss, _)| sum.compose(*loss).unwrap());
        assert_eq!(ledger.balance("ann").await.unwrap().spent, total);
        assert_eq!(ledger.balance_owner().await.unwrap().spent, total);
        round += 1;
    }
    println!("{round} rounds, {} acknowledged charges", acked.len());
}

/// A process killed while it makes the file leaves none or a whole one.
#[tokio::test]
async fn killed_maker_leaves_no_half_ledger() {
    let mut made = 0;
    for _ in 0..25 {
        let scratch = Scratch::new();
        let mut child = spawn(&scratch.file(), 0, 1e6);
        let reader = reader(&mut child);
        // From the moment its draft appears, however slow the machine is today.
        while std::fs::read_dir(&scratch.0).unwrap().next().is_none() {
            tokio::task::yield_now().await;
        }
        std::thread::sleep(Duration::from_micros(rand::random::<u64>() % 4_000));
        child.kill().unwrap();
        child.wait().unwrap();
        made += u32::from(scratch.file().exists());
        let acked = reader.join().unwrap().len();
        let ledger = reopen(&scratch.file(), 1e6).await;
        assert!(ledger.history("ann", u32::MAX).await.unwrap().len() >= acked);
    }
    println!("{made} of 25 files were made before the kill");
}
