//! A command that only reads a ledger writes nothing: not to it, not to its witness, whatever its
//! format and whatever the policy says. What the owner decides changes no account either. A newer
//! pgveil takes no ledger from an older one that is using it.

use std::collections::BTreeMap;
use std::fs;

use pgveil::ledger::{
    AccountSpec, Act, Address, Decision, Error, Ledger, LedgerReader, LedgerStanding,
    WitnessStanding, attest, back_up, inspect, migrate, now,
};
use pgveil::mechanism::{Accounting, Fixed, Loss};
use pgveil::policy::{Budget, Renew, WitnessAddress, WitnessPlace};

use super::conformance::on_both_stores;
use super::{
    Scratch, account, at, buying, fingerprint, laplace, question, set_back, specs_usual, stage,
    to_format,
};

on_both_stores!(
    reading_writes_nothing,
    decisions_open_no_account,
    a_ledger_in_use_keeps_its_format,
    a_raise_meanwhile_is_no_damage,
);

fn witnessed(url: &str, scratch: &Scratch) -> Address {
    Address {
        url: url.to_owned().into(),
        witnesses: vec![WitnessAddress {
            place: WitnessPlace::File(scratch.0.join("witness")),
            same_disk: true,
        }],
    }
}

/// A policy that is not in force: another total, a role that budgets anew each week, and one that
/// the ledger does not know.
fn edited() -> (AccountSpec, Vec<AccountSpec>) {
    let (owner, [ann, bob]) = specs_usual(Accounting::Gdp);
    let owner = AccountSpec {
        budget: Budget {
            epsilon: 9.0,
            delta: 1e-6,
        },
        ..owner
    };
    let weekly = AccountSpec {
        renew: Renew::Weekly,
        ..ann
    };
    let typed = account("bobb", 1.0, 1e-6, Accounting::Gdp);
    (owner, vec![weekly, bob, typed])
}

/// A ledger with a debit, a failure and a decision.
async fn make(at: &Address) {
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = Ledger::open(at.clone(), owner, &roles).await.unwrap();
    let debited = ledger.debit("ann", laplace(0.25), fingerprint(1)).await;
    drop(debited.unwrap());
    ledger.record_failure("bob").await.unwrap();
    ledger.decide(freeze("bob")).await.unwrap();
    ledger.flush().await;
}

fn freeze(role: &str) -> Decision {
    decision(Act::Freeze {
        role: Some(role.to_owned()),
    })
}

fn decision(act: Act) -> Decision {
    Decision {
        act,
        who: "olga".to_owned(),
        why: "a test".to_owned(),
    }
}

/// Every byte of the files, and every row of a server with the transaction that wrote it.
async fn state(url: &str, scratch: &Scratch) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&scratch.0).unwrap() {
        let path = entry.unwrap().path();
        found.insert(path.display().to_string(), fs::read(&path).unwrap());
    }
    if url.starts_with("sqlite") {
        return found;
    }
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let tables = "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables \
        WHERE schemaname LIKE 'pgveil%'";
    for table in client.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let rows = format!(
            "SELECT coalesce(string_agg(t.xmin || ' ' || t::text, '; ' ORDER BY t::text), '') \
                FROM {table} AS t"
        );
        let rows: String = client.query_one(&rows, &[]).await.unwrap().get(0);
        found.insert(table, rows.into_bytes());
    }
    found
}

/// Off the test's threads, as the commands do: a store in PostgreSQL has its own runtime.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn inspected(at: &Address) -> Result<LedgerStanding, Error> {
    let at = at.clone();
    blocking(move || inspect(&at)).await
}

async fn read(at: &Address) -> Result<LedgerReader, Error> {
    let (owner, roles) = edited();
    LedgerReader::open(at.clone(), owner, &roles).await
}

/// All that commands read.
async fn read_all(ledger: &LedgerReader) {
    assert_eq!(
        ledger.balance_owner().await.unwrap().lifetime,
        laplace(0.25)
    );
    for (role, spent, failures) in [("ann", laplace(0.25), 0), ("bob", Loss::ZERO, 1)] {
        assert_eq!(ledger.balance(role).await.unwrap().lifetime, spent);
        assert_eq!(ledger.failures(role).await.unwrap(), failures);
        assert!(ledger.has_account(role).await.unwrap());
    }
    assert!(ledger.balance("bob").await.unwrap().frozen);
    let unknown = ledger.balance("bobb").await.unwrap();
    assert!(!ledger.has_account("bobb").await.unwrap());
    assert_eq!((unknown.spent, unknown.fraction_left()), (Loss::ZERO, 1.0));
    assert_eq!(ledger.failures("bobb").await.unwrap(), 0);
    assert!(ledger.history("bobb", 10).await.unwrap().is_empty());
    assert_eq!(ledger.history("ann", 10).await.unwrap().len(), 1);
    assert_eq!(ledger.decisions().await.unwrap().len(), 1);
    assert!(ledger.policies().await.unwrap().is_empty());
    assert_eq!(ledger.records(0, 10).await.unwrap().len(), 1);
    assert!(
        ledger
            .newest_of_owner(question(1, 0.0, Loss::ZERO).digest)
            .await
            .unwrap()
            .is_none()
    );
    ledger.height().await.unwrap();
    ledger.statement_digest("SELECT 1");
}

async fn reading_writes_nothing(url: &str) {
    let scratch = scratch_of(url);
    let at = witnessed(url, &scratch);
    for _ in 0..2 {
        assert!(matches!(inspected(&at).await, Err(Error::Missing { .. })));
        assert!(matches!(read(&at).await, Err(Error::Missing { .. })));
    }
    make(&at).await;
    let before = state(url, &scratch).await;
    let found = inspected(&at).await.unwrap();
    assert_eq!(found.format, LedgerStanding::NEWEST);
    assert_eq!((found.height.debits, found.height.failures), (1, 1));
    assert_eq!(found.witnesses[0].1, WitnessStanding::Agrees);
    assert!(found.fault().is_none() && found.identity().is_some());
    read_all(&read(&at).await.unwrap()).await;
    assert!(state(url, &scratch).await == before);
    // The format before this one lacks an index. It is read as what it is.
    stage::execute_at(url, &set_back_to_eight(url)).await;
    let before = state(url, &scratch).await;
    assert_eq!(inspected(&at).await.unwrap().format, 8);
    read_all(&read(&at).await.unwrap()).await;
    assert!(state(url, &scratch).await == before);
    // A witness that is gone is not made.
    fs::remove_file(scratch.0.join("witness")).unwrap();
    let found = inspected(&at).await.unwrap();
    let nothing = WitnessStanding::KnowsNothing("is empty");
    assert_eq!(found.witnesses[0].1, nothing);
    assert!(matches!(found.fault(), Some(Error::Unwitnessed { .. })));
    assert!(matches!(read(&at).await, Err(Error::Unwitnessed { .. })));
    assert!(!scratch.0.join("witness").exists());
    // The owner's word for it is written to the witness alone.
    let before = state(url, &scratch).await;
    let attested = at.clone();
    blocking(move || attest(&attested)).await.unwrap();
    let mut after = state(url, &scratch).await;
    let witness = scratch.0.join("witness").display().to_string();
    assert!(after.remove(&witness).is_some() && after == before);
}

/// The directory of a ledger in SQLite; another one for the witness of one in PostgreSQL.
fn scratch_of(url: &str) -> Scratch {
    match url.strip_prefix("sqlite://") {
        None => Scratch::new(),
        Some(path) => {
            let folder = std::path::Path::new(path).parent().unwrap();
            Scratch(folder.to_owned())
        }
    }
}

fn set_back_to_eight(url: &str) -> String {
    match url.starts_with("sqlite") {
        true => to_format(8),
        false => "DROP TABLE pgveil_ledger.prepaid_draw, pgveil_ledger.prepaid_holder, \
            pgveil_ledger.prepaid; DROP INDEX pgveil_ledger.record_of_role, \
            pgveil_ledger.debit_name; \
            UPDATE pgveil_ledger.format SET version = 8"
            .to_owned(),
    }
}

async fn format(url: &str) -> i64 {
    inspected(&url.into()).await.unwrap().format
}

/// A mistyped role, a budget that is not in force: the file of the policy is not the policy.
async fn decisions_open_no_account(url: &str) {
    let scratch = scratch_of(url);
    let at = witnessed(url, &scratch);
    make(&at).await;
    stage::execute_at(url, &set_back_to_eight(url)).await;
    let decided = async |act| {
        let (owner, roles) = edited();
        Ledger::decide_at(at.clone(), owner, &roles, decision(act)).await
    };
    let grant = |role: &str| Act::Grant {
        role: role.to_owned(),
        epsilon: Fixed::round_down(0.5),
        delta: Fixed::ZERO,
    };
    let whom = |role: &str| Some(role.to_owned());
    for (act, words) in [
        (
            Act::Freeze { role: whom("bobb") },
            "no account of role \"bobb\"",
        ),
        (grant("bobb"), "no account of role \"bobb\""),
        (grant("ann"), "how the budget of role \"ann\" is renewed"),
    ] {
        let error = decided(act).await.unwrap_err();
        assert!(
            matches!(&error, Error::Decision(why) if why.contains(words)),
            "{error}"
        );
    }
    for act in [
        Act::Unfreeze { role: whom("bob") },
        grant("bob"),
        Act::Freeze { role: whom("ann") },
        Act::Freeze { role: None },
    ] {
        decided(act).await.unwrap();
    }
    assert_eq!(format(url).await, 8);
    // The witness has learnt of the decisions: the ledger without them is not opened.
    let found = inspected(&at).await.unwrap();
    assert_eq!(found.witnesses[0].1, WitnessStanding::Agrees);
    assert_eq!(found.height.decisions, 5);
    let count = "SELECT 1 / (CASE WHEN count(*) = 3 AND max(epsilon) = 8 THEN 1 ELSE 0 END) FROM ";
    if !url.starts_with("sqlite") {
        stage::execute(url, &format!("{count} pgveil_ledger.account")).await;
        return;
    }
    let file = rusqlite::Connection::open(url.strip_prefix("sqlite://").unwrap()).unwrap();
    let found: Option<i64> = file
        .query_row(&format!("{count} account"), [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, Some(1));
}

/// Only the claims of another process show that it is there.
async fn a_ledger_in_use_keeps_its_format(url: &str) {
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = at(url, owner.clone(), &roles).await.unwrap();
    let asked = question(1, 0.1, laplace(0.1));
    drop(ledger.purchase("ann", buying(asked)).await.unwrap());
    drop(ledger);
    stage::execute_at(url, &set_back_to_eight(url)).await;
    let table = match url.starts_with("sqlite") {
        true => "claim",
        false => "pgveil_ledger.claim",
    };
    // As the other process renews it, for as long as a clock may be ahead.
    let until =
        |moment: i64| format!("UPDATE {table} SET until = {moment} WHERE until > 1000000000");
    let claimed = || until(now() + 29_000_000);
    // Whoever renews its claims is there, however long one waits.
    let renewing = async {
        loop {
            stage::execute_at(url, &claimed()).await;
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    stage::execute_at(url, &claimed()).await;
    let error = tokio::select! {
        opened = at(url, owner.clone(), &roles) => opened.unwrap_err(),
        () = renewing => unreachable!("it goes on for ever"),
    };
    assert!(
        matches!(&error, Error::InUse { found: 8, .. }) && error.to_string().contains("--migrate"),
        "{error}"
    );
    assert_eq!(format(url).await, 8);
    // Nobody holds a claim for longer than it lasts: the claim of a process that crashed just now
    // is waited for.
    stage::execute_at(url, &until(now() + 5_000_000)).await;
    drop(at(url, owner.clone(), &roles).await.unwrap());
    assert_eq!(format(url).await, LedgerStanding::NEWEST);
    // Or the operator says so.
    stage::execute_at(url, &set_back_to_eight(url)).await;
    stage::execute_at(url, &claimed()).await;
    let address: Address = url.into();
    blocking(move || migrate(&address)).await.unwrap();
    drop(at(url, owner, &roles).await.unwrap());
    let missing: Address = stage::another(url, 1).await.as_str().into();
    let tried = missing.clone();
    blocking(move || migrate(&tried)).await.unwrap();
    assert!(matches!(
        inspected(&missing).await,
        Err(Error::Missing { .. })
    ));
}

/// A process that opens or reads a ledger while another one upgrades its format reads it again.
async fn a_raise_meanwhile_is_no_damage(url: &str) {
    let address: Address = url.into();
    make(&address).await;
    let (owner, roles) = specs_usual(Accounting::Gdp);
    for _ in 0..10 {
        stage::execute_at(url, &set_back_to_eight(url)).await;
        let (one, other, looked) = tokio::join!(
            at(url, owner.clone(), &roles),
            at(url, owner.clone(), &roles),
            inspected(&address),
        );
        drop((one.unwrap(), other.unwrap()));
        assert!([8, LedgerStanding::NEWEST].contains(&looked.unwrap().format));
        assert_eq!(format(url).await, LedgerStanding::NEWEST);
    }
}

/// A witness is asked before a copy of an earlier day is changed.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_keeps_its_older_format() {
    let scratch = Scratch::new();
    let url = scratch.url();
    let address = witnessed(&url, &scratch);
    make(&address).await;
    let copy = fs::read(scratch.file()).unwrap();
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let open = || Ledger::open(address.clone(), owner.clone(), &roles);
    let ledger = open().await.unwrap();
    drop(
        ledger
            .debit("ann", laplace(0.25), fingerprint(2))
            .await
            .unwrap(),
    );
    drop(ledger);
    fs::write(scratch.file(), copy).unwrap();
    stage::execute_at(&url, &set_back_to_eight(&url)).await;
    let before = state(&url, &scratch).await;
    assert!(matches!(open().await, Err(Error::Older { .. })));
    let tried = address.clone();
    let migrated = blocking(move || migrate(&tried)).await;
    assert!(matches!(migrated, Err(Error::Older { .. })));
    assert_eq!(state(&url, &scratch).await, before);
    // The same of a witness that knows nothing.
    fs::remove_file(scratch.0.join("witness")).unwrap();
    assert!(matches!(open().await, Err(Error::Unwitnessed { .. })));
    assert_eq!(format(&url).await, 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn older_formats_are_verified_and_left() {
    for older in 1..8 {
        let scratch = Scratch::new();
        let url = scratch.url();
        make(&url.as_str().into()).await;
        set_back(&scratch.file(), &to_format(older));
        let before = state(&url, &scratch).await;
        let at: Address = url.as_str().into();
        let found = inspected(&at).await.unwrap();
        assert_eq!(found.format, i64::from(older));
        assert_eq!((found.height.debits, found.height.failures), (1, 1));
        assert_eq!(found.identity().is_some(), older >= 6);
        assert!(found.fault().is_none());
        for refused in [read(&at).await.err(), {
            let (owner, roles) = edited();
            let decided = Ledger::decide_at(at.clone(), owner, &roles, freeze("ann")).await;
            decided.err()
        }] {
            let error = refused.unwrap();
            assert!(
                matches!(&error, Error::OlderFormat { .. })
                    && error.to_string().contains("`pgveil serve` brings it"),
                "format {older}: {error}"
            );
        }
        assert!(state(&url, &scratch).await == before, "format {older}");
        // With a witness it is an older copy of what the witness saw.
        let other = Scratch::new();
        let at = witnessed(&url, &other);
        let (owner, roles) = specs_usual(Accounting::Gdp);
        let elsewhere = Address {
            url: other.url().into(),
            ..at.clone()
        };
        drop(Ledger::open(elsewhere, owner, &roles).await.unwrap());
        assert!(matches!(
            inspected(&at).await.unwrap().fault(),
            Some(Error::Older { .. })
        ));
    }
}

/// The command that attests reads no format before 8, so a ledger of one is raised first.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_witness_of_a_much_older_format_can_be_attested() {
    for older in [5, 7] {
        let scratch = Scratch::new();
        let url = scratch.url();
        make(&url.as_str().into()).await;
        set_back(&scratch.file(), &to_format(older));
        let at = witnessed(&url, &scratch);
        let (owner, roles) = specs_usual(Accounting::Gdp);
        let open = || Ledger::open(at.clone(), owner.clone(), &roles);
        assert!(matches!(open().await, Err(Error::Unwitnessed { .. })));
        let attested = at.clone();
        blocking(move || attest(&attested)).await.unwrap();
        drop(open().await.unwrap());
    }
}

/// What a policy will do to the periods when it comes into force is shown before.
#[tokio::test(flavor = "multi_thread")]
async fn a_draft_of_a_policy_shows_what_it_will_leave() {
    let scratch = Scratch::new();
    let at: Address = scratch.url().as_str().into();
    make(&at).await;
    let shown = read(&at).await.unwrap().balance("ann").await.unwrap();
    assert_eq!(
        shown.spent,
        laplace(0.25),
        "a change of the policy grants nothing"
    );
    let (owner, roles) = edited();
    let ledger = Ledger::open(at, owner, &roles).await.unwrap();
    assert_eq!(ledger.balance("ann").await.unwrap(), shown);
}

/// Reading would have to undo what the other process left.
#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_file_is_left_to_a_process_that_may_write() {
    let (scratch, crashed) = (Scratch::new(), Scratch::new());
    make(&scratch.url().as_str().into()).await;
    let file = rusqlite::Connection::open(scratch.file()).unwrap();
    file.execute_batch(
        "PRAGMA journal_mode = TRUNCATE; PRAGMA cache_size = 1; BEGIN IMMEDIATE;
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO policy SELECT i, i, zeroblob(32), hex(zeroblob(200)) FROM n",
    )
    .unwrap();
    for name in ["ledger.db", "ledger.db-journal"] {
        fs::copy(scratch.0.join(name), crashed.0.join(name)).unwrap();
    }
    drop(file);
    let (url, at) = (crashed.url(), Address::from(&crashed.url()));
    let before = state(&url, &crashed).await;
    for error in [inspected(&at).await.err(), read(&at).await.err()] {
        let error = error.unwrap();
        assert!(matches!(&error, Error::HalfWritten { .. }), "{error}");
    }
    assert!(state(&url, &crashed).await == before);
    let (owner, roles) = specs_usual(Accounting::Gdp);
    drop(Ledger::open(at.clone(), owner, &roles).await.unwrap());
    assert!(inspected(&at).await.unwrap().fault().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_backup_is_known_by_the_ledger_that_was_copied() {
    let scratch = Scratch::new();
    let at = Address::from(&scratch.url());
    make(&at).await;
    let (owner, roles) = specs_usual(Accounting::Gdp);
    let ledger = Ledger::open(at.clone(), owner, &roles).await.unwrap();
    assert_eq!(ledger.last_backup(), None);
    let before = fs::read(scratch.file()).unwrap();
    let copy = scratch.0.join("ledger.pgvb");
    let begun = now();
    back_up(&at, &copy).unwrap();
    assert!(fs::read(scratch.file()).unwrap() == before);
    let last = ledger.last_backup().unwrap();
    assert_eq!(last.copy, copy.display().to_string());
    assert!(last.microseconds >= begun && last.microseconds <= now());
    assert_eq!(read(&at).await.unwrap().last_backup(), Some(last.clone()));
    assert_eq!(inspected(&at).await.unwrap().last_backup, Some(last));
}
