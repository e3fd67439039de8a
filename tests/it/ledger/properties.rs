//! No sequence of debits passes a filter, and no damaged file is trusted or touched.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{Scratch, account, fingerprint, gaussian, laplace, open_usual, stage};
use pgveil::ledger::{AccountSpec, Act, Clock, DebitError, Decision, Error, Ledger, open_store};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};
use pgveil::policy::Renew;

#[derive(Debug, Clone)]
enum Step {
    Debit {
        role: usize,
        loss: Loss,
    },
    /// A restart or a reload under a changed policy: budgets of the roles and the owner, and
    /// whether the roles' are renewed.
    Reopen {
        budgets: [(f64, f64); 3],
        renew: [Renew; 2],
    },
    /// The clock moves, also backwards.
    Tick {
        days: i64,
    },
    Grant {
        role: usize,
        epsilon: f64,
    },
}

const ROLES: [&str; 2] = ["ann", "bob"];
const DAY: i64 = 86_400_000_000;

fn budget() -> impl Strategy<Value = (f64, f64)> {
    (0.2..2.0f64, prop::sample::select(vec![1e-7, 1e-6, 1e-5]))
}

fn budgets() -> impl Strategy<Value = [(f64, f64); 3]> {
    [budget(), budget(), budget()]
}

fn renews() -> impl Strategy<Value = [Renew; 2]> {
    let renew = || prop::sample::select(vec![Renew::Never, Renew::Weekly]);
    [renew(), renew()]
}

fn loss() -> impl Strategy<Value = Loss> {
    let delta = prop::sample::select(vec![0.0, 0.0, 1e-9, 5e-9]).prop_map(Fixed::round_up);
    let base = prop_oneof![
        (0.001..0.5f64).prop_map(laplace),
        (0.0001..0.05f64).prop_map(gaussian)
    ];
    (base, delta).prop_map(|(loss, delta)| Loss { delta, ..loss })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        18 => (0..2usize, loss()).prop_map(|(role, loss)| Step::Debit { role, loss }),
        2 => (budgets(), renews()).prop_map(|(budgets, renew)| Step::Reopen { budgets, renew }),
        2 => (-10..20i64).prop_map(|days| Step::Tick { days }),
        1 => (0..2usize, 0.05..0.5f64).prop_map(|(role, epsilon)| Step::Grant { role, epsilon }),
    ]
}

/// The promised filter, over all debits from the first on.
fn fits(cap: &Cap, losses: &[Loss]) -> bool {
    let sum = |component: fn(&Loss) -> u128| losses.iter().map(component).sum::<u128>();
    let pure = losses.iter().all(|loss| loss.epsilon.is_some())
        && sum(|loss| loss.epsilon.unwrap().0) <= cap.epsilon().0;
    let other = match cap.accounting() {
        Accounting::Gdp => sum(|loss| loss.mu_squared.0) <= cap.mu_squared().0,
        Accounting::Zcdp => sum(|loss| loss.rho.0) <= cap.rho().0,
        Accounting::Pure => false,
    };
    (pure || other) && sum(|loss| loss.delta.0) <= cap.delta().0
}

/// A ledger's promises for one role, implemented a second time without a database.
struct Model {
    budget: (f64, f64),
    renew: Renew,
    /// Day on which the period began.
    start: i64,
    ever: Vec<Loss>,
    period: Vec<Loss>,
    granted: u128,
}

/// The Monday of a day since 1970.
fn monday(day: i64) -> i64 {
    (day + 3).div_euclid(7) * 7 - 3
}

impl Model {
    fn new(budget: (f64, f64), renew: Renew, day: i64) -> Self {
        let start = if renew == Renew::Never {
            0
        } else {
            monday(day)
        };
        Self {
            budget,
            renew,
            start,
            ever: Vec::new(),
            period: Vec::new(),
            granted: 0,
        }
    }

    fn reopen(&mut self, budget: (f64, f64), renew: Renew, day: i64) {
        self.budget = budget;
        if renew != self.renew {
            if self.is_over(day) {
                self.granted = 0;
            }
            let start = if renew == Renew::Never {
                0
            } else {
                monday(day)
            };
            (self.renew, self.start) = (renew, self.start.max(start));
        }
    }

    fn is_over(&self, day: i64) -> bool {
        self.renew != Renew::Never && monday(day) > self.start
    }

    fn begin(&mut self, day: i64) {
        if self.is_over(day) {
            (self.start, self.granted) = (monday(day), 0);
            self.period.clear();
        }
    }

    fn cap(&self, accounting: Accounting, day: i64) -> Cap {
        // A grant ends with its period, also where the policy renews no more.
        let granted = if self.is_over(day) { 0 } else { self.granted };
        let epsilon = Fixed(Fixed::round_down(self.budget.0).0 + granted);
        Cap::new(
            epsilon,
            Fixed::round_down(self.budget.1),
            Fixed::round_down(super::SHARE),
            accounting,
        )
        .unwrap()
    }

    fn admits(&self, accounting: Accounting, loss: Loss, day: i64) -> bool {
        let before = match self.renew {
            Renew::Never => self.ever.as_slice(),
            _ if self.is_over(day) => &[],
            _ => self.period.as_slice(),
        };
        fits(&self.cap(accounting, day), &[before, &[loss]].concat())
    }
}

struct World {
    url: String,
    accounting: Accounting,
    now: Arc<AtomicI64>,
}

impl World {
    async fn open(&self, budgets: [(f64, f64); 3], renew: [Renew; 2]) -> Ledger {
        let spec = |name, (epsilon, delta), renew| AccountSpec {
            renew,
            ..account(name, epsilon, delta, self.accounting)
        };
        let roles = [
            spec("ann", budgets[0], renew[0]),
            spec("bob", budgets[1], renew[1]),
        ];
        let (url, now) = (self.url.clone(), Arc::clone(&self.now));
        let clock = Clock::new(move || now.load(Ordering::SeqCst));
        Ledger::on(
            move || open_store(&url),
            clock,
            spec("owner", budgets[2], Renew::Never),
            &roles,
        )
        .await
        .unwrap()
    }

    fn day(&self) -> i64 {
        self.now.load(Ordering::SeqCst).div_euclid(DAY)
    }
}

async fn follow(
    url: String,
    accounting: Accounting,
    first: [(f64, f64); 3],
    renew: [Renew; 2],
    steps: Vec<Step>,
) {
    let world = World {
        url,
        accounting,
        now: Arc::new(AtomicI64::new(20_773 * DAY)),
    };
    let mut ledger = world.open(first, renew).await;
    let mut models = [0, 1].map(|role| Model::new(first[role], renew[role], world.day()));
    let (mut owner, mut all) = (first[2], Vec::new());
    let mut paid = HashMap::new();
    // The owner's budget at which the total has refused the role.
    let mut closed: [Option<(f64, f64)>; 2] = [None; 2];
    for (number, step) in steps.into_iter().enumerate() {
        let day = world.day();
        let of_owner = |owner: (f64, f64)| account("any", owner.0, owner.1, accounting).cap;
        match step {
            Step::Tick { days } => drop(world.now.fetch_add(days * DAY, Ordering::SeqCst)),
            Step::Reopen { budgets, renew } => {
                drop(ledger);
                ledger = world.open(budgets, renew).await;
                for (role, model) in models.iter_mut().enumerate() {
                    model.reopen(budgets[role], renew[role], day);
                }
                owner = budgets[2];
            }
            Step::Grant { role, epsilon } => {
                let more = Fixed::round_down(epsilon);
                let act = Act::Grant {
                    role: ROLES[role].to_owned(),
                    epsilon: more,
                    delta: Fixed::ZERO,
                };
                let decided = ledger
                    .decide(Decision {
                        act,
                        who: "olga".to_owned(),
                        why: "a test".to_owned(),
                    })
                    .await;
                let model = &mut models[role];
                let raised = model.cap(accounting, day).epsilon().0 + more.0;
                let fits = raised <= Fixed::round_down(owner.0).0 && model.budget.1 <= owner.1;
                assert_eq!(decided.is_ok(), fits, "{decided:?}");
                if fits {
                    closed[role] = None;
                    model.begin(day);
                    model.granted += more.0;
                }
            }
            Step::Debit { role, loss } => {
                let is_closed = closed[role]
                    .is_some_and(|at| owner.0 < at.0 || owner.1 < at.1 || owner == at)
                    && !loss.is_zero();
                let expected = (
                    models[role].admits(accounting, loss, day),
                    fits(&of_owner(owner), &[all.as_slice(), &[loss]].concat()),
                );
                match (
                    expected,
                    ledger
                        .debit(ROLES[role], loss, fingerprint(number as u64))
                        .await,
                ) {
                    (_, Err(DebitError::Closed { .. })) if is_closed => {}
                    (expected, got) if is_closed => {
                        panic!("closed: expected {expected:?}, got {got:?}")
                    }
                    ((true, true), Ok(_)) => {
                        models[role].begin(day);
                        models[role].period.push(loss);
                        models[role].ever.push(loss);
                        all.push(loss);
                        paid.insert(fingerprint(number as u64), (role, loss));
                    }
                    ((false, _), Err(DebitError::Exhausted { .. })) => {}
                    ((true, false), Err(DebitError::TotalExhausted { .. })) => {
                        closed[role] = Some(owner)
                    }
                    (expected, got) => panic!("expected {expected:?}, got {got:?}"),
                }
            }
        }
    }
    let mut kept = HashMap::new();
    for (role, name) in ROLES.into_iter().enumerate() {
        kept.extend(
            ledger
                .history(name, u32::MAX)
                .await
                .unwrap()
                .into_iter()
                .map(|entry| (entry.fingerprint, (role, entry.loss))),
        );
    }
    assert_eq!(kept, paid);
}

fn run(follow: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(follow);
}

fn accountings() -> impl Strategy<Value = Accounting> {
    prop::sample::select(vec![Accounting::Gdp, Accounting::Zcdp, Accounting::Pure])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_sequence_passes_a_filter(
        accounting in accountings(),
        first in budgets(),
        renew in renews(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let scratch = Scratch::new();
        run(follow(scratch.url(), accounting, first, renew, steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_sequence_passes_a_filter_on_postgres(
        accounting in accountings(),
        first in budgets(),
        renew in renews(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        run(async { follow(stage::database().await, accounting, first, renew, steps).await });
    }
}

/// A closed ledger with a few debits, as bytes.
async fn ledger_bytes(path: &Path) -> Vec<u8> {
    let ledger = open_usual(path, Accounting::Gdp).await.unwrap();
    for number in 0..40 {
        let _ = ledger
            .debit(
                ROLES[number as usize % 2],
                laplace(0.001),
                fingerprint(number),
            )
            .await
            .unwrap();
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
        ("part of a header", whole[..50].to_vec(), |e| {
            matches!(e, Error::Damaged { .. })
        }),
        ("one page", whole[..4096].to_vec(), |e| {
            matches!(e, Error::Damaged { .. })
        }),
        ("half", whole[..whole.len() / 2].to_vec(), |e| {
            matches!(e, Error::Damaged { .. })
        }),
        (
            "one page short",
            whole[..whole.len() - 4096].to_vec(),
            |e| matches!(e, Error::Damaged { .. }),
        ),
        ("one byte short", whole[..whole.len() - 1].to_vec(), |e| {
            matches!(e, Error::Damaged { .. })
        }),
        ("random", random.clone(), |e| {
            matches!(e, Error::Foreign { .. })
        }),
        ("random after the header", garbage_after_header, |e| {
            matches!(e, Error::Damaged { .. })
        }),
        ("another application", patched(&whole, 68, 1), |e| {
            matches!(e, Error::Foreign { .. })
        }),
        ("newer", patched(&whole, 60, 11), |e| {
            matches!(
                e,
                Error::Newer {
                    found: 11,
                    known: 10,
                    ..
                }
            )
        }),
        ("no format", patched(&whole, 60, 0), |e| {
            matches!(e, Error::Foreign { .. })
        }),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(&path, &bytes).unwrap();
        let error = open_usual(&path, Accounting::Gdp).await.expect_err(name);
        assert!(expected(&error), "{name}: {error}");
        assert!(
            std::fs::read(&path).unwrap() == bytes,
            "{name}: the file was touched"
        );
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(
        open_usual(&path, Accounting::Gdp)
            .await
            .unwrap()
            .history("ann", 100)
            .await
            .unwrap()
            .len(),
        20
    );
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
    // A removed guard is found out by the schema, or by the sums.
    let guard: String = connection
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'account_spent'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    connection
        .execute_batch("DROP TRIGGER account_spent")
        .unwrap();
    let error = open_usual(&scratch.file(), Accounting::Gdp)
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::Damaged { .. }), "{error}");
    connection
        .execute_batch("UPDATE account SET spent_rho = zeroblob(16) WHERE kind = 'owner'")
        .unwrap();
    connection.execute_batch(&guard).unwrap();
    let error = open_usual(&scratch.file(), Accounting::Gdp)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("is not the sum of its debits"),
        "{error}"
    );
}

/// One changed byte anywhere: the file is refused and left alone, or the spending does not change.
#[tokio::test]
async fn changed_byte_frees_no_budget() {
    let scratch = Scratch::new();
    let path = scratch.file();
    let whole = ledger_bytes(&path).await;
    let spent = open_usual(&path, Accounting::Gdp)
        .await
        .unwrap()
        .balances("ann")
        .await
        .unwrap();
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
                assert!(
                    std::fs::read(&path).unwrap() == bytes,
                    "byte {at}: the file was touched"
                );
            }
        }
    }
    println!("{refused} of 150 refused");
}
