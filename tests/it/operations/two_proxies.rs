//! Two proxies on one ledger, as processes: one is killed under load, and the ledger fails over to
//! a standby that lagged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio_postgres::{Client, NoTls};

use super::serve::{Running, free_port, page};
use super::stage::Stage;

const SESSIONS: usize = 50;
const QUESTIONS: usize = 4;

/// Settings of a server that loses nothing and has standbys.
fn durable() -> Vec<(String, String)> {
    let settings = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("full_page_writes", "on"),
        ("wal_level", "replica"),
        ("max_wal_senders", "4"),
        ("max_connections", "40"),
    ];
    settings
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
}

async fn ledger_server() -> LocalPostgres {
    LocalPostgres::start(ServerOptions {
        settings: durable(),
        ..ServerOptions::default()
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

/// Asks until there is an answer, through either proxy.
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

/// Every answered question has its debit, whichever proxy was killed meanwhile. The other proxy
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

/// The newest PostgreSQL's programs on this machine.
fn binaries() -> PathBuf {
    if let Some(named) = std::env::var_os("PGVEIL_PG_BIN") {
        return named.into();
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").unwrap();
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max();
    Path::new("/usr/lib/postgresql")
        .join(newest.unwrap().to_string())
        .join("bin")
}

fn folder_of(server: &LocalPostgres) -> String {
    let hosts = server.config();
    match &hosts.get_hosts()[0] {
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
        tokio_postgres::config::Host::Tcp(name) => panic!("{name}"),
    }
}

/// A standby of the server, which follows it from its backup on.
async fn standby_of(primary: &LocalPostgres, stage: &Stage) -> LocalPostgres {
    let copy = &stage.file("standby");
    let done = Command::new(binaries().join("pg_basebackup"))
        .args(["--host", &folder_of(primary), "--username", "postgres"])
        .args(["--write-recovery-conf", "--checkpoint=fast", "--pgdata"])
        .arg(copy)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    // Its own user copies it.
    let readable = Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(&stage.directory.0)
        .status();
    assert!(readable.unwrap().success());
    // It turns clients away before it is consistent, which would be taken for the end of its start.
    let quiet = ("log_min_messages".to_owned(), "panic".to_owned());
    let settings = durable().into_iter().chain([quiet]).collect();
    LocalPostgres::start(ServerOptions {
        database: Some("postgres".to_owned()),
        copy_of: Some(copy.clone()),
        settings,
        ..ServerOptions::default()
    })
    .await
    .unwrap()
}

/// Patroni's default mode loses commits that were acknowledged. No answer becomes free by that: the
/// proxies notice, and charge nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lagged_is_noticed_and_nothing_is_charged() {
    let primary = ledger_server().await;
    let stage = Stage::new().await;
    stage.write_witnessed();
    let standby = standby_of(&primary, &stage).await;
    let hosts = format!("{},{}", folder_of(&primary), folder_of(&standby));
    let stage = stage.with_ledger(format!(
        "postgresql://postgres@{}/postgres?target_session_attrs=read-write",
        hosts.replace('/', "%2F")
    ));
    let (mut proxy_a, port, admin) = proxy(&stage, "a");
    let (mut proxy_b, port_of_b, admin_of_b) = proxy(&stage, "b");
    let ask = |port, number: usize| async move {
        let client = super::serve::connect(port, "analyst").await.unwrap();
        let sql = format!("SELECT count(*) FROM shop.people WHERE age <> {number}");
        client.query_one(&sql, &[]).await.map(drop)
    };
    ask(port, 1000).await.unwrap();
    let (at_standby, connection) = standby.config().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    followed(&at_standby, 1).await;
    // The standby follows no more, and the primary goes on.
    at_standby
        .batch_execute("ALTER SYSTEM SET primary_conninfo = ''")
        .await
        .unwrap();
    at_standby
        .query_one("SELECT pg_reload_conf()", &[])
        .await
        .unwrap();
    parted(&at_standby).await;
    ask(port, 1001).await.unwrap();
    ask(port_of_b, 1002).await.unwrap();
    primary.stop().await;
    let promoted = at_standby.query_one("SELECT pg_promote()", &[]).await;
    assert!(promoted.unwrap().get::<_, bool>(0));
    followed(&at_standby, 1).await;
    for (port, admin) in [(port, admin), (port_of_b, admin_of_b)] {
        let error = ask(port, 1003).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "58030", "{error}");
        let ready = page(admin, "GET /readyz").await;
        assert!(ready.contains("the ledger is older than it was"), "{ready}");
        let metrics = page(admin, "GET /metrics").await;
        assert!(metrics.contains("pgveil_ledger_went_back 1"), "{metrics}");
    }
    followed(&at_standby, 1).await;
    for running in [&mut proxy_a, &mut proxy_b] {
        running.signal("-TERM");
        assert!(running.0.wait().unwrap().success());
    }
    // A new process sees by the witness what is missing.
    let mut third = stage.serve("third", &["--listen", "127.0.0.1:0"]);
    assert!(!third.0.wait().unwrap().success());
    let log = stage.log("third");
    assert!(
        log.contains("older than its witness") && log.contains("2 debits"),
        "{log}"
    );
    // The recovery charges the sums that the witness saw.
    let policy = stage.file("policy.yaml").display().to_string();
    let why = ["--why", "the primary is lost"];
    let restored = stage.run(&[&["ledger", "restore", "--policy", &policy], &why[..]].concat());
    let output = String::from_utf8(restored.stdout).unwrap();
    assert!(output.contains("charged: analyst"), "{output}");
}

/// Waits until the server has exactly this many debits.
async fn followed(server: &Client, debits: i64) {
    let sql = "SELECT count(*) FROM pgveil_ledger.debit";
    for _ in 0..600 {
        if let Ok(row) = server.query_one(sql, &[]).await
            && row.get::<_, i64>(0) == debits
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the standby never had {debits} debits");
}

/// Waits until a standby receives nothing any more.
async fn parted(standby: &Client) {
    let sql = "SELECT count(*) FROM pg_stat_wal_receiver";
    for _ in 0..600 {
        if standby.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the standby still follows");
}
