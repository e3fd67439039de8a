//! A standby as the database of the private rows: it answers like its primary, and a statement that
//! conflicts with its recovery is run once more under the same charge.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pgveil::engine::{Engine, Requester};
use pgveil::policy::Reuse;
use pgveil::postgres::{Connected, LocalPostgres, ServerOptions, connect};

use crate::fixture::{TemporaryDirectory, Veil, engine_over, rows_of};

const PEOPLE: i64 = 2_000;
const VISITS: i64 = 1_500_000;
const QUESTION: &str = "SELECT kind, sum(cost) FROM public.visit GROUP BY kind ORDER BY kind";

fn policy() -> String {
    "version: 1
privacy: {unit: person, budget: {epsilon: 100000, delta: 1e-3}, per_query: {epsilon: 1, \
     max_epsilon: 1}}
roles: [{name: analyst, password: \
     \"SCRAM-SHA-256$4096:gbbMr9UM5psF6g3GUvH1xQ==$S4OXfpg5f9yLnGFn5CkYrGK5q6TCAbdSqNtSB9fAmvk=:bLQekJ6nCmAW8fIFjGEuqf2om/4jBr55Q9e6FmiRUJk=\", \
     budget: {epsilon: 90000, delta: 1e-4}}]
tables:
  public.person: {unit: id}
  public.visit: {unit: {path: [person -> public.person.id]}, rows_per_unit: 2000, columns: {cost: \
     {bounds: [0, 10]}, kind: {values: [a, b, c], complete: true}}}
"
    .to_owned()
}

async fn server(copy_of: Option<&Path>, more: &[(&str, &str)]) -> LocalPostgres {
    // A standby must allow as many of each as its primary.
    let both = [
        ("wal_level", "replica"),
        ("max_wal_senders", "4"),
        ("wal_keep_size", "256MB"),
    ];
    let settings = both
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let options = ServerOptions {
        copy_of: copy_of.map(Path::to_owned),
        settings: settings.collect(),
        ..ServerOptions::default()
    };
    LocalPostgres::start(options).await.unwrap()
}

async fn primary() -> (LocalPostgres, Connected) {
    let primary = server(None, &[]).await;
    let owner = connect(&primary.config()).await.unwrap();
    let tables = format!(
        "CREATE TABLE person (id int PRIMARY KEY);
         INSERT INTO person SELECT generate_series(1, {PEOPLE});
         CREATE TABLE visit (person int NOT NULL REFERENCES person, kind text NOT NULL,
                             cost int NOT NULL);
         INSERT INTO visit SELECT 1 + n % {PEOPLE}, substr('abc', 1 + n % 3, 1), n % 11
           FROM generate_series(1, {VISITS}) AS n;
         ANALYZE"
    );
    owner.client.batch_execute(&tables).await.unwrap();
    (primary, owner)
}

/// A copy of the primary that follows it.
async fn standby(primary: &LocalPostgres, directory: &Path) -> LocalPostgres {
    let copy = directory.join("data");
    let mut backup = Command::new("/usr/lib/postgresql/15/bin/pg_basebackup");
    backup
        .args([
            "-U", "postgres", "-p", "5432", "-R", "-X", "stream", "-c", "fast", "-h",
        ])
        .arg(primary.directory())
        .arg("-D")
        .arg(&copy);
    let made = tokio::task::spawn_blocking(move || backup.output().unwrap());
    let made = made.await.unwrap();
    let text = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{text}");
    // The server runs under another user than this test, and copies it.
    let readable = Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(directory)
        .status();
    assert!(readable.unwrap().success());
    let waits_for_nobody = [("hot_standby", "on"), ("max_standby_streaming_delay", "0")];
    server(Some(&copy), &waits_for_nobody).await
}

async fn number(client: &Connected, sql: &str) -> i64 {
    client.client.query_one(sql, &[]).await.unwrap().get(0)
}

/// Asks, and locks the table on the primary as soon as the standby runs the statement, which ends
/// it there. The rows, and whether it was ended.
async fn disturbed(
    engine: &Arc<Engine>,
    requester: &Requester,
    owner: &Connected,
    watch: &Connected,
) -> (Vec<String>, bool) {
    let ended = "SELECT confl_lock FROM pg_stat_database_conflicts WHERE datname = 'postgres'";
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'
                   AND query LIKE 'SELECT CAST%' AND pid <> pg_backend_pid()";
    let before = number(watch, ended).await;
    let asked = {
        let (engine, requester) = (Arc::clone(engine), requester.clone());
        tokio::spawn(async move { rows_of(&engine, &requester, QUESTION).await })
    };
    while number(watch, running).await == 0 && !asked.is_finished() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let lock = "BEGIN; LOCK TABLE visit IN ACCESS EXCLUSIVE MODE; COMMIT";
    owner.client.batch_execute(lock).await.unwrap();
    let rows = asked.await.unwrap().unwrap();
    (rows, number(watch, ended).await > before)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_answers_and_a_conflict_is_tried_once_more() {
    if !Path::new("/usr/lib/postgresql/15/bin/pg_basebackup").exists() {
        println!("skipped: there is no pg_basebackup of PostgreSQL 15");
        return;
    }
    let (primary, owner) = primary().await;
    let directory = TemporaryDirectory::new("standby");
    let standby = standby(&primary, &directory.0).await;
    let watch = connect(&standby.config()).await.unwrap();
    let recovers = "SELECT pg_is_in_recovery()::int::bigint";
    assert_eq!(number(&watch, recovers).await, 1);
    let ledger = format!("sqlite://{}", directory.0.join("ledger.db").display());
    let policy = policy();
    let engine = engine_over(
        standby.config(),
        &watch.client,
        &policy,
        &ledger,
        Veil::silent(),
    );
    let engine = Arc::new(engine.await);
    let exact = owner.client.query(QUESTION, &[]).await.unwrap();
    let exact: Vec<String> = exact
        .iter()
        .map(|row| format!("{}|{}", row.get::<_, String>(0), row.get::<_, i64>(1)))
        .collect();
    let mut requester = Veil::requester();
    assert_eq!(rows_of(&engine, &requester, QUESTION).await.unwrap(), exact);
    // Again, each a fresh purchase, until one was stopped.
    requester.session_settings.reuse = Reuse::Off;
    let (mut asked, began) = (1, Instant::now());
    loop {
        asked += 1;
        let (rows, was_ended) = disturbed(&engine, &requester, &owner, &watch).await;
        assert_eq!(rows, exact);
        let role = &requester.role;
        let debits = engine.ledger().history(role, 1000).await.unwrap().len();
        assert_eq!(debits, asked, "one debit a question, also for two attempts");
        assert_eq!(engine.ledger().failures(role).await.unwrap(), 0);
        if was_ended {
            break;
        }
        let limit = Duration::from_secs(300);
        assert!(began.elapsed() < limit, "no statement was ever in the way");
    }
    println!("{} questions until one was stopped", asked - 1);
    drop(engine);
    standby.stop().await;
    primary.stop().await;
}
