//! Debits a second, each durable before it is answered, on both stores, by one session and by
//! fifty. `cargo bench --bench debits [-- SECONDS]`. How often the disk is synced:
//! `strace -f -c -e trace=fsync,fdatasync` before the program that cargo names.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgveil::ledger::{AccountSpec, Fingerprint, Ledger};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};
use pgveil::policy::{Budget, Renew};
use pgveil::postgres::{LocalPostgres, Options};

const SESSIONS: [u64; 2] = [1, 50];

fn account(name: &str) -> AccountSpec {
    let budget = Budget {
        epsilon: 1e6,
        delta: 1e-6,
    };
    let [epsilon, delta, share] = [budget.epsilon, budget.delta, 0.5].map(Fixed::round_down);
    AccountSpec {
        name: name.to_owned(),
        budget,
        threshold_share: 0.5,
        cap: Cap::new(epsilon, delta, share, Accounting::Gdp).expect("a cap"),
        renew: Renew::Never,
    }
}

/// How many debits were answered in the time, and how long it took.
async fn debits(ledger: &Arc<Ledger>, sessions: u64, time: Duration) -> (u64, Duration) {
    let loss = Loss {
        epsilon: None,
        rho: Fixed(1),
        mu_squared: Fixed(2),
        delta: Fixed::ZERO,
    };
    let made = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let running: Vec<_> = (0..sessions)
        .map(|_| {
            let (ledger, made) = (Arc::clone(ledger), Arc::clone(&made));
            tokio::spawn(async move {
                while start.elapsed() < time {
                    let plan = Fingerprint::new([7; 32]);
                    let charge = ledger.debit("ann", loss, plan).await.expect("it is paid");
                    assert!(charge.covers(&plan));
                    made.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in running {
        task.await.expect("it ends");
    }
    (made.load(Ordering::Relaxed), start.elapsed())
}

async fn report(store: &str, url: &str, time: Duration) {
    let roles = [account("ann")];
    let ledger = Ledger::open(url, account("owner"), &roles);
    let ledger = Arc::new(ledger.await.expect("it opens"));
    for sessions in SESSIONS {
        let (made, took) = debits(&ledger, sessions, time).await;
        let each_second = made as f64 / took.as_secs_f64();
        println!("{store:>10} {sessions:>9} {made:>9} {each_second:>9.0}");
    }
}

#[tokio::main]
async fn main() {
    let seconds = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(3));
    println!(
        "{:>10} {:>9} {:>9} {:>9}",
        "store", "sessions", "debits", "a second"
    );
    let home = std::env::temp_dir().join(format!("pgveil-debits-{}", std::process::id()));
    std::fs::create_dir(&home).expect("a directory");
    let file = format!("sqlite://{}", home.join("ledger.db").display());
    report("SQLite", &file, time).await;
    let durable = ["fsync", "synchronous_commit", "full_page_writes"];
    let settings = durable
        .map(|name| (name.to_owned(), "on".to_owned()))
        .to_vec();
    let server = LocalPostgres::start(Options {
        settings,
        ..Options::default()
    });
    let server = server.await.expect("a server");
    report("PostgreSQL", server.url(), time).await;
    server.stop().await;
    std::fs::remove_dir_all(home).expect("it goes");
}
