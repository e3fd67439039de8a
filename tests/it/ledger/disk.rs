//! A disk that is full: this test binary runs itself again under a limit of the size of files.

use std::process::{Command, Stdio};

use pgveil::mechanism::Accounting;

use super::{Scratch, at_usual, fingerprint, laplace};

const URL: &str = "PGVEIL_TEST_DISK_URL";

/// No test by itself: the child's main, when the variable is set. Debits until that fails, and then
/// some more.
#[tokio::test]
async fn child() {
    let Ok(url) = std::env::var(URL) else { return };
    let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
    let mut failed = 0;
    for number in 0..20_000 {
        match ledger
            .debit("ann", laplace(1e-9), fingerprint(number))
            .await
        {
            Ok(_) => println!("\nack {number}"),
            Err(error) => {
                assert!(error.refusal().is_none(), "{error}");
                failed += 1;
                if failed == 3 {
                    println!("\nfull");
                    return;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_full_disk_charges_what_it_acknowledged() {
    let scratch = Scratch::new();
    drop(at_usual(&scratch.url(), Accounting::Gdp).await.unwrap());
    let size = std::fs::metadata(scratch.file()).unwrap().len();
    // Ignored, the signal of the limit becomes an error like that of a full disk. A block of sh is
    // 512 bytes.
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$0\" --exact ledger::disk::child --nocapture \
            --test-threads=1",
        (size + 40_000) / 512
    );
    let child = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .env(URL, scratch.url())
        .stdout(Stdio::piped())
        .output();
    let output = child.unwrap();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && reported.contains("\nfull\n"),
        "{reported}"
    );
    let acked: Vec<u64> = reported
        .lines()
        .filter_map(|line| line.strip_prefix("ack ")?.parse().ok())
        .collect();
    assert!(acked.len() > 10, "{}", acked.len());
    // Room again: the ledger is whole, and holds every acknowledged debit.
    let ledger = at_usual(&scratch.url(), Accounting::Gdp).await.unwrap();
    let kept: Vec<_> = ledger
        .history("ann", u32::MAX)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| entry.fingerprint)
        .collect();
    assert!(
        acked
            .iter()
            .all(|number| kept.contains(&fingerprint(*number)))
    );
    assert!(kept.len() <= acked.len() + 3);
    println!("{} debits until the disk was full", acked.len());
    assert!(
        ledger
            .debit("ann", laplace(1e-9), fingerprint(30_000))
            .await
            .is_ok()
    );
}
