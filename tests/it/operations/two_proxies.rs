//! Two proxies on one ledger, as processes: one is killed under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgveil::postgres::{LocalPostgres, Options};
use tokio_postgres::{Client, NoTls};

use super::serve::{Running, free_port, page};
use super::stage::Stage;

const SESSIONS: usize = 50;
const QUESTIONS: usize = 4;

/// Settings of a server that loses nothing.
fn durable() -> Vec<(String, String)> {
    let settings = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("max_connections", "40"),
    ];
    settings
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

async fn ledger_server() -> LocalPostgres {
    LocalPostgres::start(Options {
        settings: durable(),
        ..Options::default()
    })
    .await
    .unwrap()
}

/// A proxy's process, and the ports of clients and operator.
fn proxy(stage: &Stage, log: &str) -> (Running, u16, u16) {
    let (port, admin) = (free_port(), free_port());
    let arguments = [
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--admin",
        &format!("127.0.0.1:{admin}"),
    ];
    let running = stage.serve(log, &arguments);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log(log));
    (running, port, admin)
}

/// To either proxy, as libpq's `host=a,b` does.
async fn either(ports: [u16; 2]) -> Option<Client> {
    let [a, b] = ports;
    let config = format!(
        "host=127.0.0.1,127.0.0.1 port={a},{b} load_balance_hosts=random user=analyst \
            password=analyst dbname=nls"
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.ok()?;
    tokio::spawn(connection);
    Some(client)
}

/// Asks until there is an answer, by whichever proxy is there.
async fn answered(session: &mut Option<Client>, ports: [u16; 2], sql: &str) {
    for _ in 0..600 {
        if session.is_none() {
            *session = either(ports).await;
        }
        if let Some(client) = session {
            match client.query_one(sql, &[]).await {
                Ok(_) => return,
                Err(error) if error.code().is_some() && !client.is_closed() => {
                    panic!("{sql}: {error}")
                }
                Err(_) => *session = None,
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{sql}: no proxy answers");
}

async fn debits(admin: u16) -> usize {
    let metrics = page(admin, "GET /metrics").await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("pgveil_ledger_debits "));
    line.unwrap().parse().unwrap()
}

/// Every question that was answered has its debit, whoever was killed meanwhile; the other proxy
/// goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_proxy_takes_no_charge_with_it() {
    let ledger = ledger_server().await;
    let stage = Stage::new().await.with_ledger(ledger.url().to_owned());
    stage.write_witnessed();
    let (mut first, port_of_first, _) = proxy(&stage, "first");
    let (mut second, port_of_second, admin) = proxy(&stage, "second");
    let ports = [port_of_first, port_of_second];
    let done = Arc::new(AtomicUsize::new(0));
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let done = Arc::clone(&done);
            tokio::spawn(async move {
                let mut client = None;
                for question in 0..QUESTIONS {
                    // Each question is new, so that no answer is free.
                    let number = 1000 + session * QUESTIONS + question;
                    let sql = format!("SELECT count(*) FROM shop.people WHERE age <> {number}");
                    answered(&mut client, ports, &sql).await;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    while done.load(Ordering::Relaxed) < SESSIONS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    for session in sessions {
        session.await.unwrap();
    }
    assert_eq!(done.load(Ordering::Relaxed), SESSIONS * QUESTIONS);
    let charged = debits(admin).await;
    assert!(charged >= SESSIONS * QUESTIONS, "{charged} debits");
    assert!(page(admin, "GET /readyz").await.starts_with("HTTP/1.1 200"));
    second.signal("-TERM");
    assert!(second.0.wait().unwrap().success());
    // Sums, debits and the witness agree after the kill.
    let policy = stage.file("policy.yaml").display().to_string();
    let verified = stage.run(&["ledger", "verify", "--policy", &policy]);
    let output = String::from_utf8(verified.stdout).unwrap();
    assert!(
        output.starts_with(&format!("whole: {charged} debits")),
        "{output}"
    );
}
