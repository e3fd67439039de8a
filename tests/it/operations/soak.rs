//! A long run: many clients of many habits, reloads, faults of the database, a full disk. Memory
//! stays level and nothing is lost.
//!
//! `PGVEIL_SOAK=3600 cargo test --test it -- --ignored soak --nocapture` runs for an hour; without
//! the variable, for a minute. `PGVEIL_BINARY` names another build of pgveil.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio_postgres::{Client, NoTls};

use super::serve::{GROWTH_KB, Running, connect, free_port, page};
use super::stage::Stage;

const VARIABLE: &str = "PGVEIL_SOAK";
const SESSIONS: usize = 12;
/// The time between faults.
const FAULT_EVERY: Duration = Duration::from_secs(5);

/// Shared by all clients.
#[derive(Default)]
struct Tally {
    is_over: AtomicBool,
    /// New questions that were answered: each has a debit.
    answered: AtomicUsize,
    failed: AtomicUsize,
    next: AtomicUsize,
}

/// A small disk of memory, so that it can be filled. `None` where this user may not mount.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let done = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256m", "pgveil-soak"])
            .arg(at)
            .output()
            .ok()?;
        done.status.success().then(|| Self(at.to_owned()))
    }

    /// Leaves no byte.
    fn fill(&self) {
        let ballast = self.0.join("ballast");
        let block = vec![1; 1 << 16];
        let mut file = std::fs::File::create(ballast).unwrap();
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Asks until the end, each time in a different way of clients.
async fn client(port: u16, tally: Arc<Tally>) {
    let mut session: Option<Client> = None;
    while !tally.is_over.load(Ordering::Relaxed) {
        let number = tally.next.fetch_add(1, Ordering::Relaxed);
        let Some(client) = &session else {
            session = connect(port, "analyst").await.ok();
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let wanted = format!(
            "SELECT count(*) FROM shop.people WHERE age <> {}",
            1000 + number
        );
        let is_answered = match number % 8 {
            0..4 => client.query_one(&wanted, &[]).await.map(|_| true),
            4 => client
                .simple_query("SELECT kind FROM shop.kinds")
                .await
                .map(|_| false),
            // Refused: nothing is charged.
            5 => match client.query("SELECT * FROM shop.people", &[]).await {
                Err(error) if error.code().is_some() => Ok(false),
                Err(error) => Err(error),
                Ok(_) => panic!("private rows were shown"),
            },
            6 => {
                let again = "SELECT count(*) FROM shop.people WHERE age > 30";
                client.query_one(again, &[]).await.map(|_| false)
            }
            // Gone in the middle.
            _ => {
                let token = client.cancel_token();
                let _ = tokio::join!(client.query_one(&wanted, &[]), token.cancel_query(NoTls));
                session = None;
                continue;
            }
        };
        match is_answered {
            Ok(true) => {
                tally.answered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(false) => {}
            Err(error) => {
                tally.failed.fetch_add(1, Ordering::Relaxed);
                if client.is_closed() || error.code().is_none() {
                    session = None;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Connections that speak nonsense, or nothing.
async fn stranger(port: u16, tally: Arc<Tally>) {
    while !tally.is_over.load(Ordering::Relaxed) {
        if let Ok(mut socket) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await {
            let _ = socket.write_all(&[0, 0, 0, 9, 0, 3, 0, 0, 7]).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// One of: another policy, the database's connections cut, a full disk for a while.
async fn fault(round: u32, stage: &Stage, running: &Running, disk: Option<&SmallDisk>) {
    match (round % 3, disk) {
        (0, _) => {
            stage.write(&format!("limits: {{groups: {}}}\n", 1000 + round));
            running.signal("-HUP");
            assert!(stage.reported().starts_with("RELOADING=1"));
            assert_eq!(stage.reported(), "READY=1");
        }
        (1, Some(disk)) => {
            disk.fill();
            tokio::time::sleep(Duration::from_secs(1)).await;
            disk.empty();
        }
        _ => {
            let (owner, connection) = stage.server.config().connect(NoTls).await.unwrap();
            let driving = tokio::spawn(connection);
            let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE application_name = 'pgveil' AND pid <> pg_backend_pid()";
            owner.simple_query(cut).await.unwrap();
            drop(owner);
            let _ = driving.await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a long run, for its own command"]
async fn a_long_run_loses_nothing() {
    let seconds = std::env::var(VARIABLE).map_or(60, |text| text.parse().unwrap());
    let time = Duration::from_secs(seconds);
    let stage = Stage::new().await;
    let disk = SmallDisk::mount(&stage.file("disk"));
    println!(
        "a full disk is {}",
        if disk.is_some() { "tried" } else { "not tried" }
    );
    let ledger = stage.file("disk").join("ledger.db");
    let stage = stage.with_ledger(format!("sqlite://{}", ledger.display()));
    let (port, admin) = (free_port(), free_port());
    let mut running = stage.serve(
        "log",
        &[
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--admin",
            &format!("127.0.0.1:{admin}"),
        ],
    );
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    let tally = Arc::new(Tally::default());
    let mut clients: Vec<_> = (0..SESSIONS)
        .map(|_| tokio::spawn(client(port, Arc::clone(&tally))))
        .collect();
    clients.push(tokio::spawn(stranger(port, Arc::clone(&tally))));
    let (begun, mut levels) = (Instant::now(), Vec::new());
    for round in 0.. {
        tokio::time::sleep(FAULT_EVERY).await;
        fault(round, &stage, &running, disk.as_ref()).await;
        levels.push(running.resident_kb());
        if begun.elapsed() > time {
            break;
        }
    }
    tally.is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let answered = tally.answered.load(Ordering::Relaxed);
    println!(
        "{answered} new answers, {} failures; resident KiB {levels:?}",
        tally.failed.load(Ordering::Relaxed)
    );
    assert!(page(admin, "GET /readyz").await.starts_with("HTTP/1.1 200"));
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    let log = stage.log("log");
    assert!(!log.contains("panic"), "{log}");
    kept(&stage, answered);
    let warm = levels[levels.len() / 3];
    let last = levels[levels.len() - 1];
    assert!(last < warm + GROWTH_KB, "{levels:?}");
    // Before the directory that it is in.
    drop(disk);
}

/// The ledger is whole, and has a debit and a record for each answer.
fn kept(stage: &Stage, answered: usize) {
    let policy = stage.file("policy.yaml").display().to_string();
    let verified = stage.run(&["ledger", "verify", "--policy", &policy]);
    let output = String::from_utf8(verified.stdout).unwrap();
    let debits: usize = output
        .strip_prefix("whole: ")
        .and_then(|rest| rest.split(' ').next())
        .unwrap_or_else(|| panic!("{output}"))
        .parse()
        .unwrap();
    assert!(debits >= answered, "{debits} debits of {answered} answers");
    let exported = stage.run(&["budget", "export", "--policy", &policy]);
    let exported = String::from_utf8(exported.stdout).unwrap();
    let records = exported
        .lines()
        .filter(|line| line.contains("\"answered\""))
        .count();
    println!("{debits} debits, {records} records of answers");
}
