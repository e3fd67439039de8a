//! Copies of an earlier day: a ledger that goes back gives nothing back. With a witness an older
//! copy is not opened, and a restoration charges what the witness saw; without one it charges every
//! account to its brim.

use std::fs;
use std::path::PathBuf;

use pgveil::ledger::{AccountSpec, Address, DebitError, Error, Ledger, attest, back_up, restore};
use pgveil::mechanism::{Accounting, Loss};
use pgveil::policy::{Renew, WitnessAddress, WitnessPlace};

use super::{Scratch, fingerprint, gaussian, laplace, specs_usual, stage};

fn address(scratch: &Scratch, is_witnessed: bool) -> Address {
    Address {
        url: scratch.url().into(),
        witnesses: is_witnessed.then(|| witness(scratch)).into_iter().collect(),
    }
}

fn witness(scratch: &Scratch) -> WitnessAddress {
    near(scratch.0.join("witness"))
}

pub(super) fn near(path: impl Into<PathBuf>) -> WitnessAddress {
    WitnessAddress {
        place: WitnessPlace::File(path.into()),
        same_disk: true,
    }
}

pub(super) fn specs() -> (AccountSpec, [AccountSpec; 2]) {
    specs_usual(Accounting::Gdp)
}

pub(super) async fn open(address: &Address) -> Result<Ledger, Error> {
    let (owner, roles) = specs();
    Ledger::open(address.clone(), owner, &roles).await
}

pub(super) async fn debit(ledger: &Ledger, role: &str, loss: Loss) -> Result<(), DebitError> {
    ledger.debit(role, loss, fingerprint(7)).await.map(drop)
}

pub(super) async fn spent(ledger: &Ledger, role: &str) -> Loss {
    ledger.balance(role).await.unwrap().lifetime
}

/// Its disk fails.
pub(super) fn lose(scratch: &Scratch) {
    let _ = fs::remove_file(scratch.file());
    let _ = fs::remove_file(scratch.0.join("ledger.db-journal"));
}

/// Off the test's threads, as the command does.
pub(super) async fn restored(
    address: &Address,
    backup: Option<PathBuf>,
) -> Result<pgveil::ledger::Restored, Error> {
    let address = address.clone();
    tokio::task::spawn_blocking(move || {
        let (owner, roles) = specs();
        let cause = ("tester", "a disk failed");
        restore(&address, backup.as_deref(), cause, (&owner, &roles), 10)
    })
    .await
    .unwrap()
}

pub(super) fn is_at_least(sum: &Loss, before: &Loss) -> bool {
    let pure = match (sum.epsilon, before.epsilon) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(sum), Some(before)) => sum >= before,
    };
    pure && sum.rho >= before.rho
        && sum.mu_squared >= before.mu_squared
        && sum.delta >= before.delta
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_is_not_opened_with_its_witness() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let copy = scratch.0.join("copy.db");
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    drop(ledger);
    fs::copy(scratch.file(), &copy).unwrap();
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.2)).await.unwrap();
    ledger.record_failure("bob").await.unwrap();
    drop(ledger);
    fs::copy(&copy, scratch.file()).unwrap();
    let error = open(&at).await.unwrap_err();
    let Error::Older { lacks, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(lacks, "1 debits and 1 failures are missing");
    // Debits of another day in place of the lost ones are not taken for them.
    let without = address(&scratch, false);
    let ledger = open(&without).await.unwrap();
    debit(&ledger, "bob", laplace(0.1)).await.unwrap();
    ledger.record_failure("bob").await.unwrap();
    drop(ledger);
    let error = open(&at).await.unwrap_err();
    assert!(matches!(&error, Error::Older { lacks, .. } if lacks == "debit 2 is another one"));
    // A fresh ledger is not the witness's either.
    lose(&scratch);
    let error = open(&at).await.unwrap_err();
    assert!(
        matches!(&error, Error::Older { lacks, .. } if lacks.starts_with("it is another ledger")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_goes_back_under_a_process_charges_nothing() {
    for swaps in [false, true] {
        let scratch = Scratch::new();
        let at = address(&scratch, false);
        let ledger = open(&at).await.unwrap();
        debit(&ledger, "ann", laplace(0.1)).await.unwrap();
        let copy = scratch.0.join("copy.db");
        fs::copy(scratch.file(), &copy).unwrap();
        debit(&ledger, "ann", laplace(0.2)).await.unwrap();
        if swaps {
            fs::rename(&copy, scratch.file()).unwrap();
        } else {
            fs::copy(&copy, scratch.file()).unwrap();
        }
        let error = debit(&ledger, "ann", laplace(0.1)).await.unwrap_err();
        assert!(
            matches!(&error, DebitError::Ledger(Error::WentBack { .. })),
            "{error}"
        );
        if !swaps {
            assert!(matches!(ledger.height().await, Err(Error::WentBack { .. })));
        }
    }
}

/// Another process had the debit, so this one never saw the height that is lost. The witness did.
#[tokio::test(flavor = "multi_thread")]
async fn one_proxy_does_not_hide_what_the_other_lost() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let (ours, others) = (open(&at).await.unwrap(), open(&at).await.unwrap());
    debit(&ours, "ann", laplace(0.1)).await.unwrap();
    let copy = scratch.0.join("copy.db");
    fs::copy(scratch.file(), &copy).unwrap();
    debit(&others, "ann", laplace(0.2)).await.unwrap();
    fs::copy(&copy, scratch.file()).unwrap();
    for ledger in [&ours, &others] {
        let error = debit(ledger, "bob", laplace(0.1)).await.unwrap_err();
        assert!(
            matches!(&error, DebitError::Ledger(Error::WentBack { .. })),
            "{error}"
        );
    }
}

/// A standby that lagged takes over: the server has lost debits that it had acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lagged_charges_nothing() {
    let url = stage::database().await;
    let scratch = Scratch::new();
    let at = Address {
        url: url.clone().into(),
        witnesses: vec![witness(&scratch)],
    };
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let tables = ["account", "debit", "period"];
    for table in tables {
        let copy = format!("CREATE TABLE public.{table} AS TABLE pgveil_ledger.{table}");
        client.batch_execute(&copy).await.unwrap();
    }
    debit(&ledger, "ann", laplace(0.2)).await.unwrap();
    client
        .batch_execute(
            "BEGIN; SET session_replication_role = replica;
             DELETE FROM pgveil_ledger.period; DELETE FROM pgveil_ledger.debit;
             DELETE FROM pgveil_ledger.account;
             INSERT INTO pgveil_ledger.account TABLE public.account;
             INSERT INTO pgveil_ledger.debit TABLE public.debit;
             INSERT INTO pgveil_ledger.period TABLE public.period; COMMIT",
        )
        .await
        .unwrap();
    let error = debit(&ledger, "ann", laplace(0.1)).await.unwrap_err();
    assert!(
        matches!(&error, DebitError::Ledger(Error::WentBack { .. })),
        "{error}"
    );
    drop(ledger);
    assert!(matches!(open(&at).await, Err(Error::Older { .. })));
    // Settled in place, it has what the witness saw.
    let settled = restored(&at, None).await.unwrap();
    assert!(settled.is_witnessed);
    let ledger = open(&at).await.unwrap();
    let before = laplace(0.1).compose(laplace(0.2)).unwrap();
    assert!(is_at_least(&spent(&ledger, "ann").await, &before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_no_ledger_until_it_is_charged() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    let backup = scratch.0.join("ledger.pgvb");
    back_up(&at, &backup).unwrap();
    assert!(back_up(&at, &backup).is_err(), "no file is overwritten");
    debit(&ledger, "ann", gaussian(0.01)).await.unwrap();
    debit(&ledger, "bob", laplace(0.3)).await.unwrap();
    let before = [spent(&ledger, "ann").await, spent(&ledger, "bob").await];
    let total = ledger.balance_owner().await.unwrap().lifetime;
    drop(ledger);
    let error = restored(&at, Some(backup.clone())).await.unwrap_err();
    assert!(error.to_string().contains("move it away first"), "{error}");
    fs::rename(scratch.file(), scratch.0.join("broken.db")).unwrap();
    let _ = fs::remove_file(scratch.0.join("ledger.db-journal"));
    fs::copy(&backup, scratch.file()).unwrap();
    let error = open(&at).await.unwrap_err();
    assert!(error.to_string().contains("a backup"), "{error}");
    fs::remove_file(scratch.file()).unwrap();
    let settled = restored(&at, Some(backup)).await.unwrap();
    assert!(settled.is_witnessed);
    assert_eq!(settled.charged, ["ann", "bob", "the total"]);
    let ledger = open(&at).await.unwrap();
    assert_eq!(
        [spent(&ledger, "ann").await, spent(&ledger, "bob").await],
        before
    );
    assert_eq!(ledger.balance_owner().await.unwrap().lifetime, total);
    assert!(ledger.balance("ann").await.unwrap().frozen);
    drop(ledger);
    // The ledger that was moved away is not a second purse.
    fs::copy(scratch.0.join("broken.db"), scratch.file()).unwrap();
    assert!(matches!(open(&at).await, Err(Error::Older { .. })));
    let left: Vec<_> = fs::read_dir(&scratch.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_witness_nothing_is_left() {
    let scratch = Scratch::new();
    let at = address(&scratch, false);
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    drop(ledger);
    let backup = scratch.0.join("ledger.pgvb");
    back_up(&at, &backup).unwrap();
    lose(&scratch);
    let settled = restored(&at, Some(backup)).await.unwrap();
    assert!(!settled.is_witnessed);
    let ledger = open(&at).await.unwrap();
    for role in ["ann", "bob"] {
        assert_eq!(ledger.balance(role).await.unwrap().fraction_left(), 0.0);
        assert_eq!(ledger.failures(role).await.unwrap(), 10);
    }
    assert_eq!(ledger.balance_owner().await.unwrap().fraction_left(), 0.0);
    assert!(debit(&ledger, "bob", laplace(0.001)).await.is_err());
}

/// A witness older than the backup does not know the spending after it was last written.
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_older_than_the_backup_counts_as_none() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    drop(ledger);
    let ledger = open(&address(&scratch, false)).await.unwrap();
    debit(&ledger, "ann", laplace(0.2)).await.unwrap();
    drop(ledger);
    let backup = scratch.0.join("ledger.pgvb");
    back_up(&at, &backup).unwrap();
    lose(&scratch);
    let settled = restored(&at, Some(backup)).await.unwrap();
    assert!(!settled.is_witnessed);
    assert_eq!(settled.charged, ["ann", "bob", "the total"]);
    let ledger = open(&at).await.unwrap();
    assert_eq!(ledger.balance("ann").await.unwrap().fraction_left(), 0.0);
}

/// Its role may come back into the policy within the period.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_account_outside_the_policy_is_charged_too() {
    let scratch = Scratch::new();
    let at = address(&scratch, false);
    let (owner, roles) = specs();
    let weekly = AccountSpec {
        name: "carl".to_owned(),
        renew: Renew::Weekly,
        ..roles[0].clone()
    };
    let with_carl = [roles.to_vec(), vec![weekly]].concat();
    let ledger = Ledger::open(at.clone(), owner.clone(), &with_carl);
    debit(&ledger.await.unwrap(), "carl", laplace(0.1))
        .await
        .unwrap();
    let settled = restored(&at, None).await.unwrap();
    assert_eq!(settled.charged, ["ann", "bob", "carl", "the total"]);
    let ledger = Ledger::open(at, owner, &with_carl).await.unwrap();
    assert_eq!(ledger.balance("carl").await.unwrap().fraction_left(), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_witness_stands_on_another_disk_or_says_so() {
    let scratch = Scratch::new();
    let at = Address {
        witnesses: vec![WitnessAddress {
            same_disk: false,
            ..witness(&scratch)
        }],
        ..address(&scratch, true)
    };
    assert!(matches!(open(&at).await, Err(Error::SameDisk { .. })));
    assert!(!scratch.file().exists(), "nothing was made");
    // A witness that cannot be written stops charges.
    let gone = Address {
        witnesses: vec![WitnessAddress {
            same_disk: false,
            ..near("/dev/full")
        }],
        ..address(&scratch, false)
    };
    assert!(matches!(open(&gone).await, Err(Error::Witness { .. })));
}

/// A witness that was removed, or never was there, accepts no older copy as the ledger.
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_knows_nothing_learns_only_from_a_ledger_that_is_vouched_for() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    drop(ledger);
    let file = scratch.0.join("witness");
    for damage in [false, true] {
        match damage {
            true => fs::write(&file, "torn").unwrap(),
            false => fs::remove_file(&file).unwrap(),
        }
        let error = open(&at).await.unwrap_err();
        assert!(matches!(&error, Error::Unwitnessed { .. }), "{error}");
        assert!(
            error.to_string().contains("pgveil ledger attest"),
            "{error}"
        );
        attested(&at).await.unwrap();
        drop(open(&at).await.unwrap());
    }
    // Another witness vouches.
    let two = Address {
        witnesses: vec![witness(&scratch), near(scratch.0.join("second"))],
        ..at.clone()
    };
    drop(open(&two).await.unwrap());
    fs::remove_file(&file).unwrap();
    let ledger = open(&two).await.unwrap();
    let copy = scratch.0.join("copy.db");
    fs::copy(scratch.file(), &copy).unwrap();
    debit(&ledger, "ann", laplace(0.2)).await.unwrap();
    drop(ledger);
    fs::copy(&copy, scratch.file()).unwrap();
    for one in [near(&file), near(scratch.0.join("second"))] {
        let alone = Address {
            witnesses: vec![one],
            ..at.clone()
        };
        assert!(matches!(open(&alone).await, Err(Error::Older { .. })));
        // Its testimony is not overwritten.
        assert!(matches!(attested(&alone).await, Err(Error::Older { .. })));
    }
}

/// The first line of a witness was torn, before anything was charged.
#[tokio::test(flavor = "multi_thread")]
async fn a_torn_witness_blocks_neither_a_new_ledger_nor_a_restoration() {
    let scratch = Scratch::new();
    let at = address(&scratch, true);
    let file = scratch.0.join("witness");
    drop(open(&at).await.unwrap());
    fs::write(&file, "torn").unwrap();
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    drop(ledger);
    let backup = scratch.0.join("ledger.pgvb");
    back_up(&at, &backup).unwrap();
    lose(&scratch);
    fs::write(&file, "torn").unwrap();
    let settled = restored(&at, Some(backup)).await.unwrap();
    assert!(!settled.is_witnessed);
    assert_eq!(settled.charged, ["ann", "bob", "the total"]);
    drop(open(&at).await.unwrap());
}

/// A witness in PostgreSQL shows an older copy, as a file does. On the ledger's own server it is
/// refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_in_postgresql_tells_an_older_copy() {
    let scratch = Scratch::new();
    let url = stage::database().await;
    let of = |same_disk| WitnessAddress {
        place: WitnessPlace::Server(url.clone().into()),
        same_disk,
    };
    let at = Address {
        url: scratch.url().into(),
        witnesses: vec![of(false)],
    };
    let ledger = open(&at).await.unwrap();
    debit(&ledger, "ann", laplace(0.1)).await.unwrap();
    let copy = scratch.0.join("copy.db");
    fs::copy(scratch.file(), &copy).unwrap();
    // A connection that was lost meanwhile is made again.
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
        WHERE application_name = 'pgveil witness' AND datname = current_database()";
    stage::execute(&url, kill).await;
    debit(&ledger, "ann", laplace(0.2)).await.unwrap();
    let before = spent(&ledger, "ann").await;
    drop(ledger);
    fs::copy(&copy, scratch.file()).unwrap();
    let error = open(&at).await.unwrap_err();
    assert!(
        matches!(&error, Error::Older { lacks, .. } if lacks == "1 debits are missing"),
        "{error}"
    );
    let settled = restored(&at, None).await.unwrap();
    assert!(settled.is_witnessed);
    let ledger = open(&at).await.unwrap();
    assert!(is_at_least(&spent(&ledger, "ann").await, &before));
    // Without its table nothing is charged.
    stage::execute(&url, "DROP SCHEMA pgveil_witness CASCADE").await;
    let error = debit(&ledger, "bob", laplace(0.1)).await.unwrap_err();
    assert!(
        matches!(&error, DebitError::Ledger(Error::Witness { .. })),
        "{error}"
    );
    let near = Address {
        url: stage::database().await.into(),
        witnesses: vec![of(false)],
    };
    assert!(matches!(open(&near).await, Err(Error::SameDisk { .. })));
    let meant = Address {
        witnesses: vec![of(true)],
        ..near
    };
    drop(open(&meant).await.unwrap());
}

async fn attested(address: &Address) -> Result<usize, Error> {
    let address = address.clone();
    tokio::task::spawn_blocking(move || attest(&address))
        .await
        .unwrap()
}
