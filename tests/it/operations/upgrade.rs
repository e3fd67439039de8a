//! A new process takes over from an old one: a socket that systemd holds, a port that both listen
//! on, and the old one's sessions.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use tokio_postgres::{Client, NoTls};

use super::serve::{Running, connect, free_port, page, until};
use super::stage::{PGVEIL, Stage};

const COUNT: &str = "SELECT count(*) FROM shop.people";

/// Starts pgveil as systemd starts a service of a socket: with the descriptor 3, and the process's
/// number.
fn activated(stage: &Stage, log: &str, socket: &TcpListener) -> Running {
    let handed = "exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$@\"";
    let mut command = Command::new("sh");
    stage.set_up(&mut command);
    let file = stage.file("policy.yaml").display().to_string();
    command
        .args(["-c", handed, "sh", PGVEIL, "serve", "--policy", &file])
        .stdin(Stdio::from(OwnedFd::from(socket.try_clone().unwrap())))
        .stderr(std::fs::File::create(stage.file(log)).unwrap());
    Running(command.spawn().unwrap())
}

/// A login, and how its connection ends.
async fn session(port: u16) -> (Client, tokio::task::JoinHandle<Option<String>>) {
    let config = format!("host=127.0.0.1 port={port} user=analyst password=analyst dbname=nls");
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    let ended = tokio::spawn(async move {
        let error = connection.await.err()?;
        error.code().map(|code| code.code().to_owned())
    });
    (client, ended)
}

/// No login is refused while no process is there.
#[tokio::test(flavor = "multi_thread")]
async fn clients_wait_in_a_socket_that_outlives_the_process() {
    let stage = Stage::new().await;
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let mut first = activated(&stage, "first", &socket);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("first"));
    let early = connect(port, "analyst").await.unwrap();
    early.query_one(COUNT, &[]).await.unwrap();
    first.signal("-TERM");
    assert_eq!(stage.reported(), "STOPPING=1");
    assert!(first.0.wait().unwrap().success());
    // Nobody serves, and the login waits.
    let waiting = tokio::spawn(async move {
        let late = connect(port, "analyst").await.unwrap();
        late.query_one(COUNT, &[]).await.unwrap();
    });
    let mut second = activated(&stage, "second", &socket);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("second"));
    waiting.await.unwrap();
    second.signal("-TERM");
    assert!(second.0.wait().unwrap().success());
}

/// Two processes on one port: sessions begun under the old one end there, new ones go to the new
/// one.
#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_handed_over_without_a_gap() {
    let stage = Stage::new().await;
    stage.write("timing: {quantum: 2s}\n");
    let (port, admins) = (free_port(), [free_port(), free_port()]);
    let listen = format!("127.0.0.1:{port}");
    let admin = admins.map(|admin| format!("127.0.0.1:{admin}"));
    let mut old = stage.serve(
        "old",
        &["--listen", &listen, "--admin", &admin[0], "--reuse-port"],
    );
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("old"));
    let (idle, idle_ended) = session(port).await;
    let (busy, _) = session(port).await;
    let mut alone = stage.serve("alone", &["--listen", &listen]);
    assert!(!alone.0.wait().unwrap().success());
    assert!(stage.log("alone").contains("cannot listen on"));
    let mut new = stage.serve(
        "new",
        &["--listen", &listen, "--admin", &admin[1], "--reuse-port"],
    );
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("new"));
    let asked = tokio::spawn(async move { busy.query_one(COUNT, &[]).await });
    // It is paid for, and waits for the end of its quantum.
    until(admins[0], "/metrics", "pgveil_ledger_debits 1").await;
    old.signal("-TERM");
    assert_eq!(stage.reported(), "STOPPING=1");
    let answer = asked.await.unwrap().unwrap();
    assert!(answer.get::<_, i64>(0) > 0);
    assert!(old.0.wait().unwrap().success());
    assert_eq!(idle_ended.await.unwrap().as_deref(), Some("57P01"));
    drop(idle);
    for _ in 0..3 {
        let client = connect(port, "analyst").await.unwrap();
        // Paid for under the old one.
        client.query_one(COUNT, &[]).await.unwrap();
    }
    let metrics = page(admins[1], "GET /metrics").await;
    assert!(metrics.contains("pgveil_ledger_debits 1"));
    // These would show when an answer was made, before its quantum ends.
    for early in ["pgveil_ledger_commit_", "pgveil_ledger_bytes", "process_"] {
        assert!(!metrics.contains(early), "{early} in\n{metrics}");
    }
    new.signal("-TERM");
    assert!(new.0.wait().unwrap().success());
}

/// A statement that takes longer than `--drain` does not keep the process.
#[tokio::test(flavor = "multi_thread")]
async fn draining_ends_when_its_time_is_over() {
    let stage = Stage::new().await;
    stage.write("timing: {quantum: 12h}\n");
    let (port, admin) = (free_port(), free_port());
    let mut running = stage.serve(
        "log",
        &[
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--admin",
            &format!("127.0.0.1:{admin}"),
            "--drain",
            "200ms",
        ],
    );
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    let (busy, _) = session(port).await;
    let asked = tokio::spawn(async move { busy.query_one(COUNT, &[]).await });
    until(admin, "/metrics", "pgveil_ledger_debits 1").await;
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(
        error.code().map(|code| code.code()),
        Some("57P01"),
        "{error}"
    );
    // It stays paid for.
    let policy = stage.file("policy.yaml").display().to_string();
    let verified = stage.run(&["ledger", "verify", "--policy", &policy]);
    let verified = String::from_utf8(verified.stdout).unwrap();
    assert!(verified.starts_with("whole: 1 debits"), "{verified}");
}
