//! The database goes away under load, and cancels fly about: no wrong answer, no charge lost, nobody else's statement ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use crate::veil::Veil;

/// Women born after each year, as PostgreSQL counts them.
async fn truth(client: &Client) -> Vec<i64> {
    let mut counts = Vec::new();
    for year in 1940..1955 {
        let sql = format!("SELECT count(*) FROM nls.women WHERE birth_year > {year}");
        counts.push(client.query_one(&sql, &[]).await.unwrap().get(0));
    }
    counts
}

/// Budgets, and failures, without end.
fn rich(policy: String) -> String {
    let rich =
        policy.replace("epsilon: 8,", "epsilon: 10000,").replace("epsilon: 3,", "epsilon: 9000,").replace("failures: 10 ", "failures: 100000 ");
    assert!(rich.contains("epsilon: 10000,") && rich.contains("failures: 100000"));
    rich
}

async fn serve(veil: &Veil) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn(pgveil::wire::serve(listener, None, veil.engine.clone(), shutdown.clone()));
    (address, shutdown)
}

async fn connect(address: SocketAddr) -> Client {
    let config = format!("host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable", address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("SET pgveil.reuse = off; SET pgveil.epsilon = 0.01; SET pgveil.notices = off").await.unwrap();
    client
}

async fn ask(client: &Client, at: usize) -> Result<i64, SqlState> {
    let sql = format!("SELECT count(*) FROM nls.women WHERE birth_year > {}", 1940 + at);
    match client.query_one(&sql, &[]).await {
        Ok(row) => Ok(row.get(0)),
        Err(error) => Err(error.code().unwrap_or_else(|| panic!("the session itself ended: {error}")).clone()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_under_load_costs_no_charge_and_gives_no_wrong_answer() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let truth = Arc::new(truth(&veil.client).await);
    let (address, _shutdown) = serve(&veil).await;
    let (over, answered, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut askers = Vec::new();
    for first in 0..5 {
        let (truth, over, answered, failed) = (truth.clone(), over.clone(), answered.clone(), failed.clone());
        askers.push(tokio::spawn(async move {
            let client = connect(address).await;
            let mut turn = first;
            while !over.load(Ordering::SeqCst) {
                turn += 1;
                match ask(&client, turn % truth.len()).await {
                    Ok(count) => {
                        assert_eq!(count, truth[turn % truth.len()]);
                        answered.fetch_add(1, Ordering::SeqCst);
                    }
                    // One text for whatever went wrong behind, with its number; the session goes on.
                    Err(state) => {
                        assert_eq!(state, SqlState::INTERNAL_ERROR);
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        }));
    }
    // As a restart or a cut network looks from here: every connection ends, whatever runs on it, and for a while there is nothing to connect to.
    let (socket, away) = (veil.server.directory().join(".s.PGSQL.5432"), veil.server.directory().join("away"));
    for round in 0..30 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if round % 10 == 9 {
            std::fs::rename(&socket, &away).unwrap();
        }
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        veil.client.batch_execute(end).await.unwrap();
        if away.exists() {
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::fs::rename(&away, &socket).unwrap();
        }
    }
    over.store(true, Ordering::SeqCst);
    for asker in askers {
        asker.await.unwrap();
    }
    let (answered, failed) = (answered.load(Ordering::SeqCst), failed.load(Ordering::SeqCst));
    assert!(answered > 0 && failed > 0, "{answered} answers, {failed} failures");
    // It is there again: so are the answers, though an idle connection may be found dead once each.
    let client = connect(address).await;
    let mut again = Vec::new();
    for at in 0..truth.len() {
        while again.len() == at {
            if let Ok(count) = ask(&client, at).await {
                again.push(count);
            }
        }
    }
    assert_eq!(again, *truth);
    let debits: i64 = client.query_one("SELECT count(*) FROM pgveil.history", &[]).await.unwrap().get(0);
    assert!(usize::try_from(debits).unwrap() >= answered + truth.len(), "{debits} debits for {} answers", answered + truth.len());
    println!("{answered} answers and {failed} failures under {debits} debits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_cancel_ends_nobody_elses_statement() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let truth = Arc::new(truth(&veil.client).await);
    let (address, _shutdown) = serve(&veil).await;
    let (over, cancelled, undisturbed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut all = Vec::new();
    // These are cancelled without end, before, while and after their statements run.
    for first in 0..3_u64 {
        let (over, cancelled, truth) = (over.clone(), cancelled.clone(), truth.clone());
        all.push(tokio::spawn(async move {
            let client = connect(address).await;
            let token = client.cancel_token();
            let ended = over.clone();
            let canceller = tokio::spawn(async move {
                let mut pause = first;
                while !ended.load(Ordering::SeqCst) {
                    pause = (pause * 7 + 3) % 23;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    let _ = token.cancel_query(NoTls).await;
                }
            });
            let mut turn = 0;
            while !over.load(Ordering::SeqCst) {
                turn += 1;
                match ask(&client, turn % truth.len()).await {
                    Ok(count) => assert_eq!(count, truth[turn % truth.len()]),
                    Err(state) => {
                        assert_eq!(state, SqlState::QUERY_CANCELED);
                        cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            canceller.await.unwrap();
        }));
    }
    // These are not, and share the connections to the database with them.
    for first in 0..3 {
        let (over, undisturbed, truth) = (over.clone(), undisturbed.clone(), truth.clone());
        all.push(tokio::spawn(async move {
            let client = connect(address).await;
            let mut turn = first;
            while !over.load(Ordering::SeqCst) {
                turn += 1;
                assert_eq!(ask(&client, turn % truth.len()).await, Ok(truth[turn % truth.len()]));
                undisturbed.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    over.store(true, Ordering::SeqCst);
    for one in all {
        one.await.unwrap();
    }
    let (cancelled, undisturbed) = (cancelled.load(Ordering::SeqCst), undisturbed.load(Ordering::SeqCst));
    assert!(cancelled > 0 && undisturbed > 0, "{cancelled} were cancelled, {undisturbed} were not");
    println!("{cancelled} were cancelled, {undisturbed} went undisturbed");
}
