//! No sequence of debits passes a filter, and no damaged file is trusted or touched.

use std::path::Path;

use proptest::prelude::*;

use super::{Scratch, account, fingerprint, gaussian, laplace, open, open_usual, rows};
use pgveil::ledger::{DebitError, Error, Ledger};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};

#[derive(Debug, Clone)]
enum Step {
    Debit { role: usize, loss: Loss },
    Reopen { budgets: [(f64, f64); 3] },
}

const ROLES: [&str; 2] = ["ann", "bob"];

fn budget() -> impl Strategy<Value = (f64, f64)> {
    (0.2..2.0f64, prop::sample::select(vec![1e-7, 1e-6, 1e-5]))
}

fn budgets() -> impl Strategy<Value = [(f64, f64); 3]> {
    [budget(), budget(), budget()]
}

fn loss() -> impl Strategy<Value = Loss> {
    let delta = prop::sample::select(vec![0.0, 0.0, 1e-9, 5e-9]).prop_map(Fixed::round_up);
    let base = prop_oneof![(0.001..0.5f64).prop_map(laplace), (0.0001..0.05f64).prop_map(gaussian)];
    (base, delta).prop_map(|(loss, delta)| Loss { delta, ..loss })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        9 => (0..2usize, loss()).prop_map(|(role, loss)| Step::Debit { role, loss }),
        1 => budgets().prop_map(|budgets| Step::Reopen { budgets }),
    ]
}

fn caps(accounting: Accounting, budgets: [(f64, f64); 3]) -> [Cap; 3] {
    budgets.map(|(epsilon, delta)| account("any", epsilon, delta, accounting).cap)
}

async fn open_with(path: &Path, accounting: Accounting, budgets: [(f64, f64); 3]) -> Ledger {
    let [ann, bob, owner] = budgets;
    let spec = |name, (epsilon, delta)| account(name, epsilon, delta, accounting);
    open(path, spec("owner", owner), &[spec("ann", ann), spec("bob", bob)]).await.unwrap()
}

/// The filter as it is promised, over all debits anew.
fn fits(cap: &Cap, losses: &[Loss]) -> bool {
    let sum = |component: fn(&Loss) -> u128| losses.iter().map(component).sum::<u128>();
    let pure = losses.iter().all(|loss| loss.epsilon.is_some()) && sum(|loss| loss.epsilon.unwrap().0) <= cap.epsilon().0;
    let other = match cap.accounting() {
        Accounting::Gdp => sum(|loss| loss.mu_squared.0) <= cap.mu_squared().0,
        Accounting::Zcdp => sum(|loss| loss.rho.0) <= cap.rho().0,
        Accounting::Pure => false,
    };
    (pure || other) && sum(|loss| loss.delta.0) <= cap.delta().0
}

async fn follow(accounting: Accounting, first: [(f64, f64); 3], steps: Vec<Step>) {
    let scratch = Scratch::new();
    let mut ledger = open_with(&scratch.file(), accounting, first).await;
    let mut caps_now = caps(accounting, first);
    let mut paid: Vec<(usize, Loss)> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Reopen { budgets } => {
                drop(ledger);
                ledger = open_with(&scratch.file(), accounting, budgets).await;
                caps_now = caps(accounting, budgets);
            }
            Step::Debit { role, loss } => {
                let with = |of: Option<usize>| -> Vec<Loss> {
                    paid.iter().filter(|(r, _)| of.is_none_or(|of| of == *r)).map(|(_, loss)| *loss).chain([loss]).collect()
                };
                let expected = (fits(&caps_now[role], &with(Some(role))), fits(&caps_now[2], &with(None)));
                match (expected, ledger.debit(ROLES[role], loss, fingerprint(number as u64)).await) {
                    ((true, true), Ok(_)) => paid.push((role, loss)),
                    ((false, _), Err(DebitError::Exhausted { .. })) | ((true, false), Err(DebitError::TotalExhausted { .. })) => {}
                    (expected, got) => panic!("expected {expected:?}, got {got:?}"),
                }
            }
        }
    }
    let kept: Vec<_> = rows(&scratch.file()).into_iter().map(|(role, loss, _)| (role, loss)).collect();
    assert_eq!(kept, paid.into_iter().map(|(role, loss)| (ROLES[role].to_owned(), loss)).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_passes_a_filter(
        accounting in prop::sample::select(vec![Accounting::Gdp, Accounting::Zcdp, Accounting::Pure]),
        first in budgets(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(follow(accounting, first, steps));
    }
}

/// A closed ledger with a few debits, as bytes.
async fn ledger_bytes(path: &Path) -> Vec<u8> {
    let ledger = open_usual(path, Accounting::Gdp).await.unwrap();
    for number in 0..40 {
        let _ = ledger.debit(ROLES[number as usize % 2], laplace(0.001), fingerprint(number)).await.unwrap();
    }
    drop(ledger);
    std::fs::read(path).unwrap()
}

/// Whether the error is the expected one.
type Refused = fn(&Error) -> bool;

fn patched(bytes: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
    bytes
}

#[tokio::test]
async fn torn_and_foreign_files_are_refused_and_left() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let whole = ledger_bytes(&path).await;
    let random: Vec<u8> = (0..whole.len()).map(|_| rand::random()).collect();
    let garbage_after_header = [&whole[..100], &random[100..]].concat();
    let cases: [(&str, Vec<u8>, Refused); 11] = [
        ("empty", Vec::new(), |e| matches!(e, Error::Damaged { .. })),
        ("part of a header", whole[..50].to_vec(), |e| matches!(e, Error::Damaged { .. })),
        ("one page", whole[..4096].to_vec(), |e| matches!(e, Error::Damaged { .. })),
        ("half", whole[..whole.len() / 2].to_vec(), |e| matches!(e, Error::Damaged { .. })),
        ("one page short", whole[..whole.len() - 4096].to_vec(), |e| matches!(e, Error::Damaged { .. })),
        ("one byte short", whole[..whole.len() - 1].to_vec(), |e| matches!(e, Error::Damaged { .. })),
        ("random", random.clone(), |e| matches!(e, Error::Foreign { .. })),
        ("random after the header", garbage_after_header, |e| matches!(e, Error::Damaged { .. })),
        ("another application", patched(&whole, 68, 1), |e| matches!(e, Error::Foreign { .. })),
        ("newer", patched(&whole, 60, 4), |e| matches!(e, Error::Newer { found: 4, known: 3, .. })),
        ("no format", patched(&whole, 60, 0), |e| matches!(e, Error::Foreign { .. })),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(&path, &bytes).unwrap();
        let error = open_usual(&path, Accounting::Gdp).await.expect_err(name);
        assert!(expected(&error), "{name}: {error}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: the file was touched");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open_usual(&path, Accounting::Gdp).await.unwrap().history("ann", 100).await.unwrap().len(), 20);
}

#[tokio::test]
async fn database_itself_refuses_to_forget() {
    let scratch = Scratch::new();
    ledger_bytes(&scratch.file()).await;
    let connection = rusqlite::Connection::open(scratch.file()).unwrap();
    for sql in [
        "DELETE FROM debit",
        "DELETE FROM account",
        "UPDATE debit SET microseconds = 0",
        "UPDATE account SET spent_rho = zeroblob(16)",
        "UPDATE account SET spent_epsilon = zeroblob(16)",
        "UPDATE account SET threshold_share = 0.5",
        "UPDATE account SET failures = -1",
    ] {
        assert!(connection.execute(sql, []).is_err(), "{sql}");
    }
    // Whoever takes the guard away is found out by the schema, or by the sums.
    let guard: String = connection.query_row("SELECT sql FROM sqlite_schema WHERE name = 'account_spent'", [], |row| row.get(0)).unwrap();
    connection.execute_batch("DROP TRIGGER account_spent").unwrap();
    let error = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap_err();
    assert!(matches!(&error, Error::Damaged { .. }), "{error}");
    connection.execute_batch("UPDATE account SET spent_rho = zeroblob(16) WHERE kind = 'owner'").unwrap();
    connection.execute_batch(&guard).unwrap();
    let error = open_usual(&scratch.file(), Accounting::Gdp).await.unwrap_err();
    assert!(error.to_string().contains("is not the sum of its debits"), "{error}");
}

/// One changed byte anywhere: refused and left, or without effect on what is spent.
#[tokio::test]
async fn changed_byte_frees_no_budget() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let whole = ledger_bytes(&path).await;
    let spent = open_usual(&path, Accounting::Gdp).await.unwrap().balances("ann").await.unwrap();
    let mut refused = 0;
    for _ in 0..150 {
        let mut bytes = whole.clone();
        let at = rand::random_range(0..bytes.len());
        bytes[at] ^= rand::random_range(1..=255u8);
        std::fs::write(&path, &bytes).unwrap();
        match open_usual(&path, Accounting::Gdp).await {
            Ok(ledger) => assert_eq!(ledger.balances("ann").await.unwrap(), spent, "byte {at}"),
            Err(_) => {
                refused += 1;
                assert!(std::fs::read(&path).unwrap() == bytes, "byte {at}: the file was touched");
            }
        }
    }
    println!("{refused} of 150 refused");
}
