//! Answers a second, as the ledger sees them: a debit, durable before it is acknowledged, and the
//! answer kept, which is not waited for. On both stores, without a witness and with one in a file,
//! by one session and by fifty.
//!
//! `cargo bench --bench debits [-- SECONDS [SESSIONS] [SQLite | PostgreSQL]]`. The server says how
//! often it committed and synced. How often the file was synced:
//! `strace -f -c -e trace=fsync,fdatasync` before the program that cargo names, with one store and
//! one number of sessions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgveil::ledger::{
    AccountSpec, Address, Buyer, FamilyId, Fingerprint, Ledger, Purchase, QuestionDigest,
    QuestionId,
};
use pgveil::mechanism::{Accounting, Cap, Fixed, Loss};
use pgveil::policy::{Budget, Renew, WitnessAddress, WitnessPlace};
use pgveil::postgres::{LocalPostgres, ServerOptions};

const SESSIONS: [u64; 2] = [1, 50];
/// Bytes of an answer of some groups.
const ANSWER: usize = 400;

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

/// A new question, and its price.
fn question(number: u64) -> QuestionDigest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_be_bytes());
    QuestionDigest {
        digest: QuestionId(digest),
        family: Some(FamilyId(digest)),
        accuracy: 1.0,
        loss: Loss {
            epsilon: None,
            rho: Fixed(1),
            mu_squared: Fixed(2),
            delta: Fixed::ZERO,
        },
    }
}

async fn answer(ledger: &Ledger, number: u64) {
    let asked = question(number);
    let plan = Fingerprint::new([7; 32]);
    let purchase = Purchase {
        buyer: Buyer::Role,
        fresh: asked.loss,
        later: Loss::ZERO,
        offered: Loss::ZERO,
        answers: Vec::new(),
        fingerprint: plan,
        bought: plan,
        follows: None,
        held_before: None,
        series_max: None,
        prepaid: None,
        questions: vec![asked],
    };
    let charge = ledger.purchase("ann", purchase).await.expect("it is paid");
    assert!(charge.covers(&plan));
    let kept = ledger.keep_soon("ann", asked, vec![7; ANSWER]).await;
    kept.expect("it is kept");
}

/// The number of answers made in the time, and the time it took.
async fn answers(ledger: &Arc<Ledger>, sessions: u64, time: Duration) -> (u64, Duration) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let made = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let running: Vec<_> = (0..sessions)
        .map(|_| {
            let (ledger, made) = (Arc::clone(ledger), Arc::clone(&made));
            tokio::spawn(async move {
                while start.elapsed() < time {
                    answer(&ledger, NEXT.fetch_add(1, Ordering::Relaxed)).await;
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

/// Commits and syncs of the server since it started.
async fn work(server: &LocalPostgres) -> [i64; 2] {
    // The statistics are a moment late.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let config: tokio_postgres::Config = server.url().parse().expect("a URL");
    let (client, connection) = config
        .connect(tokio_postgres::NoTls)
        .await
        .expect("it is up");
    tokio::spawn(connection);
    let sql = "SELECT sum(xact_commit)::bigint, (SELECT wal_sync FROM pg_stat_wal) \
        FROM pg_stat_database";
    let row = client
        .query_one(sql, &[])
        .await
        .expect("PostgreSQL 14 or newer");
    [row.get(0), row.get(1)]
}

async fn report(
    store: &str,
    at: Address,
    time: Duration,
    sessions: &[u64],
    server: Option<&LocalPostgres>,
) {
    let roles = [account("ann")];
    let ledger = Ledger::open(at, account("owner"), &roles);
    let ledger = Arc::new(ledger.await.expect("it opens"));
    for sessions in sessions {
        let before = match server {
            Some(server) => Some(work(server).await),
            None => None,
        };
        let (made, took) = answers(&ledger, *sessions, time).await;
        ledger.flush().await;
        let each_second = made as f64 / took.as_secs_f64();
        let mut line = format!("{store:>10} {sessions:>9} {made:>9} {each_second:>9.0}");
        if let (Some(server), Some(before)) = (server, before) {
            let after = work(server).await;
            for (before, after) in before.into_iter().zip(after) {
                line += &format!(" {:>9.2}", (after - before) as f64 / made as f64);
            }
        }
        println!("{line}");
    }
}

/// The ledger's address, with a witness in this directory.
fn witnessed(url: &str, home: &Path) -> Address {
    let place = WitnessPlace::File(home.join(format!("{:x}.witness", rand::random::<u64>())));
    Address {
        url: url.to_owned().into(),
        witnesses: vec![WitnessAddress {
            place,
            same_disk: true,
        }],
    }
}

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let time = Duration::from_secs(numbers.first().copied().unwrap_or(3));
    let sessions = numbers
        .get(1)
        .map_or(SESSIONS.to_vec(), |number| vec![*number]);
    let stores = ["SQLite", "PostgreSQL"];
    let named = stores
        .into_iter()
        .find(|store| words.iter().any(|word| word == store));
    println!(
        "{:>10} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "store", "sessions", "answers", "a second", "commits", "syncs"
    );
    let home = std::env::temp_dir().join(format!("pgveil-debits-{}", std::process::id()));
    std::fs::create_dir(&home).expect("a directory");
    if named != Some("PostgreSQL") {
        let file = |name: &str| format!("sqlite://{}", home.join(name).display());
        report("SQLite", (&file("one.db")).into(), time, &sessions, None).await;
        let at = witnessed(&file("two.db"), &home);
        report("+ witness", at, time, &sessions, None).await;
    }
    if named != Some("SQLite") {
        let durable = ["fsync", "synchronous_commit", "full_page_writes"];
        let settings = durable
            .map(|name| (name.to_owned(), "on".to_owned()))
            .to_vec();
        let server = LocalPostgres::start(ServerOptions {
            settings,
            ..ServerOptions::default()
        });
        let server = server.await.expect("a server");
        // A witness learns by itself from a ledger that was never charged.
        let at = witnessed(server.url(), &home);
        report("+ witness", at, time, &sessions, Some(&server)).await;
        report(
            "PostgreSQL",
            server.url().into(),
            time,
            &sessions,
            Some(&server),
        )
        .await;
        server.stop().await;
    }
    std::fs::remove_dir_all(home).expect("it goes");
}
