//! The write-ahead log of a ledger in SQLite: what happens to the files next to the ledger's while
//! a process has them open, and to a ledger that is reached by a link.

use std::fs;

use pgveil::ledger::{Address, DebitError, Error, Ledger, back_up};
use pgveil::mechanism::Accounting;

use super::edges::forced;
use super::{Scratch, fingerprint, laplace, open_usual, rows};

async fn open(scratch: &Scratch) -> Ledger {
    open_usual(&scratch.file(), Accounting::Gdp).await.unwrap()
}

async fn debit(ledger: &Ledger) -> Result<(), DebitError> {
    ledger
        .debit("ann", laplace(0.1), fingerprint(1))
        .await
        .map(drop)
}

fn went_back(outcome: Result<(), DebitError>) -> String {
    match outcome {
        Err(DebitError::Ledger(Error::WentBack { lacks })) => lacks,
        other => panic!("{other:?}"),
    }
}

/// What a process writes to a log without a name, no other process reads, and no start after it.
#[tokio::test]
async fn nothing_is_charged_once_the_log_is_gone() {
    for suffix in ["-wal", "-shm"] {
        for is_replaced in [false, true] {
            let scratch = Scratch::new();
            let ledger = open(&scratch).await;
            debit(&ledger).await.unwrap();
            let neighbour = scratch.0.join(format!("ledger.db{suffix}"));
            if is_replaced {
                let copy = scratch.0.join("copy");
                fs::copy(&neighbour, &copy).unwrap();
                fs::rename(&copy, &neighbour).unwrap();
            } else {
                fs::remove_file(&neighbour).unwrap();
            }
            let lacks = went_back(debit(&ledger).await);
            assert!(lacks.contains(suffix), "{lacks}");
            // The process closed it, and moved the debit into the file: a start has it.
            went_back(debit(&ledger).await);
            let other = open(&scratch).await;
            assert_eq!(other.history("ann", 9).await.unwrap().len(), 1);
        }
    }
}

/// Also by the process that opens it and has charged nothing yet.
#[tokio::test]
async fn a_sum_that_falls_before_the_first_charge_is_noticed() {
    let falls = [
        "UPDATE account SET spent_epsilon = zeroblob(16), spent_rho = zeroblob(16), \
         spent_mu_squared = zeroblob(16) WHERE kind = 'role'",
        "UPDATE account SET spent_rho = zeroblob(16) WHERE kind = 'owner'",
        "UPDATE period SET epsilon = zeroblob(16), rho = zeroblob(16), mu_squared = zeroblob(16)",
        "UPDATE period SET start = start - 1",
    ];
    for sql in falls {
        let scratch = Scratch::new();
        debit(&open(&scratch).await).await.unwrap();
        let ledger = open(&scratch).await;
        forced(&scratch, sql);
        let lacks = went_back(debit(&ledger).await);
        assert_eq!(lacks, "an account has spent less than before", "{sql}");
    }
}

/// SQLite puts the log next to the file that the link leads to.
#[tokio::test]
async fn a_ledger_behind_a_link_is_the_ledger() {
    let scratch = Scratch::new();
    let elsewhere = Scratch::new();
    drop(open(&elsewhere).await);
    std::os::unix::fs::symlink(elsewhere.file(), scratch.file()).unwrap();
    let ledger = open(&scratch).await;
    debit(&ledger).await.unwrap();
    assert!(fs::metadata(elsewhere.log()).unwrap().len() > 0);
    assert!(!scratch.log().exists());
    // Opened again, by both names, while debits are in the log.
    for by in [&scratch, &elsewhere] {
        debit(&open(by).await).await.unwrap();
    }
    assert_eq!(rows(&elsewhere.file()).len(), 3);
    let copy = scratch.0.join("copy.pgvb");
    back_up(&Address::from(&scratch.url()), &copy).unwrap();
    assert_eq!(rows(&copy).len(), 3, "a backup has what is in the log");
    fs::remove_file(elsewhere.log()).unwrap();
    went_back(debit(&ledger).await);
}

/// A link that leads elsewhere names another ledger: what is charged to the old one is not known
/// there.
#[tokio::test]
async fn a_link_that_is_turned_is_noticed() {
    let (scratch, first, second) = (Scratch::new(), Scratch::new(), Scratch::new());
    for target in [&first, &second] {
        drop(open(target).await);
    }
    std::os::unix::fs::symlink(first.file(), scratch.file()).unwrap();
    let ledger = open(&scratch).await;
    debit(&ledger).await.unwrap();
    fs::remove_file(scratch.file()).unwrap();
    std::os::unix::fs::symlink(second.file(), scratch.file()).unwrap();
    let lacks = went_back(debit(&ledger).await);
    assert!(lacks.contains("another file"), "{lacks}");
}
