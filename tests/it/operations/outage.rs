//! The database goes away under load, and cancel requests come all the time: no wrong answer, no
//! lost charge, no other client's statement ended.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use pgveil::engine::Reloadable;
use pgveil::error::Error;
use pgveil::mechanism::Loss;
use pgveil::postgres::LocalPostgres;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use super::serve::{self, free_port, page, until};
use super::stage::Stage;
use crate::fixture::{Veil, rows_of};

/// Women born after each year, as PostgreSQL counts them.
async fn truth(client: &Client) -> Vec<i64> {
    let mut counts = Vec::new();
    for year in 1940..1954 {
        let sql = format!("SELECT count(*) FROM nls.women WHERE birth_year > {year}");
        counts.push(client.query_one(&sql, &[]).await.unwrap().get(0));
    }
    counts
}

/// Budgets, and failures, without end.
fn rich(policy: String) -> String {
    let rich = policy
        .replace("epsilon: 8,", "epsilon: 10000,")
        .replace("epsilon: 3,", "epsilon: 9000,")
        .replace("failures: 10 ", "failures: 100000 ");
    assert!(rich.contains("epsilon: 10000,") && rich.contains("failures: 100000"));
    rich
}

async fn serve(veil: &Veil) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    tokio::spawn(pgveil::wire::serve(
        listener,
        None,
        veil.engine.clone(),
        shutdown.clone(),
    ));
    (address, shutdown)
}

async fn connect(address: SocketAddr) -> Client {
    let config = format!(
        "host=127.0.0.1 port={} user=analyst password=analyst dbname=nls sslmode=disable",
        address.port()
    );
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute(
            "SET pgveil.reuse = off; SET pgveil.epsilon = 0.01; SET pgveil.notices = off",
        )
        .await
        .unwrap();
    client
}

async fn ask(client: &Client, at: usize) -> Result<i64, SqlState> {
    let sql = format!(
        "SELECT count(*) FROM nls.women WHERE birth_year > {}",
        1940 + at
    );
    match client.query_one(&sql, &[]).await {
        Ok(row) => Ok(row.get(0)),
        Err(error) => Err(error
            .code()
            .unwrap_or_else(|| panic!("the session itself ended: {error}"))
            .clone()),
    }
}

/// Sessions that ask without end, and the outcomes of their questions.
struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
    requesters: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr, truth: &Arc<Vec<i64>>) -> Self {
        let (over, answered, failed): (Arc<AtomicBool>, Arc<AtomicUsize>, Arc<AtomicUsize>) =
            Default::default();
        let requester = |first| {
            let (truth, over, answered, failed) = (
                truth.clone(),
                over.clone(),
                answered.clone(),
                failed.clone(),
            );
            tokio::spawn(async move {
                let client = connect(address).await;
                let mut turn = first;
                while !over.load(Ordering::SeqCst) {
                    turn += 1;
                    match ask(&client, turn % truth.len()).await {
                        Ok(count) => {
                            assert_eq!(count, truth[turn % truth.len()]);
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        // One text for every failure behind the proxy, with its number. The session
                        // goes on.
                        Err(state) => {
                            assert_eq!(state, SqlState::INTERNAL_ERROR);
                            failed.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                }
            })
        };
        let requesters = (0..5).map(requester).collect();
        Self {
            over,
            answered,
            failed,
            requesters,
        }
    }

    /// Whether rounds enough are over: not before some were answered and some failed, however slow
    /// the machine is, unless an asker found fault.
    fn has_seen_both(&self, round: u32, rounds: u32) -> bool {
        let (answered, failed) = (
            self.answered.load(Ordering::SeqCst),
            self.failed.load(Ordering::SeqCst),
        );
        assert!(round < 20 * rounds, "{answered} answers, {failed} failures");
        let is_wrong = self
            .requesters
            .iter()
            .any(tokio::task::JoinHandle::is_finished);
        is_wrong || round >= rounds && answered > 0 && failed > 0
    }

    /// All that were answered.
    async fn end(self) -> usize {
        self.over.store(true, Ordering::SeqCst);
        let counters = (self.answered, self.failed);
        for requester in self.requesters {
            requester.await.unwrap();
        }
        let (answered, failed) = (
            counters.0.load(Ordering::SeqCst),
            counters.1.load(Ordering::SeqCst),
        );
        assert!(
            answered > 0 && failed > 0,
            "{answered} answers, {failed} failures"
        );
        answered
    }
}

/// The database is back, all answers are there, and each debit belongs to an answer or to a counted
/// failure.
async fn is_whole_again(veil: &Veil, address: SocketAddr, truth: &[i64], answered: usize) {
    let client = connect(address).await;
    for (at, wanted) in truth.iter().enumerate() {
        assert_eq!(
            ask(&client, at).await,
            Ok(*wanted),
            "no connection that died is used"
        );
    }
    let ledger = veil.engine.ledger();
    let (debits, failures) = (
        ledger.history("analyst", 100_000).await.unwrap(),
        ledger.failures("analyst").await.unwrap(),
    );
    assert_eq!(
        debits.len(),
        answered + truth.len() + usize::try_from(failures).unwrap()
    );
    let sum = debits
        .iter()
        .fold(Loss::ZERO, |sum, debit| sum.compose(debit.loss).unwrap());
    assert_eq!(
        ledger.balance("analyst").await.unwrap().spent.mu_squared,
        sum.mu_squared
    );
    println!(
        "{answered} answers, {failures} failures after the charge, {} debits",
        debits.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_goes_away_under_load_costs_no_charge_and_gives_no_wrong_answer() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let truth = Arc::new(truth(&veil.client).await);
    let (address, _shutdown) = serve(&veil).await;
    let load = Load::start(address, &truth);
    // As a cut network looks from here: every connection ends, whatever runs on it, and for a while
    // there is nothing to connect to.
    let (socket, away) = (
        veil.server.directory().join(".s.PGSQL.5432"),
        veil.server.directory().join("away"),
    );
    for round in (0..).take_while(|&round| !load.has_seen_both(round, 30)) {
        // On a busy machine no question may take less than the first rounds do.
        tokio::time::sleep(Duration::from_millis(if round < 30 { 100 } else { 1_000 })).await;
        if round % 10 == 9 {
            std::fs::rename(&socket, &away).unwrap();
        }
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> \
            pg_backend_pid() AND backend_type = 'client backend'";
        veil.client.batch_execute(end).await.unwrap();
        if away.exists() {
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::fs::rename(&away, &socket).unwrap();
        }
    }
    let answered = load.end().await;
    is_whole_again(&veil, address, &truth, answered).await;
}

/// The server's process, and what it takes to start it again.
struct Postmaster {
    process: u32,
    arguments: Vec<String>,
    user: (u32, u32),
    /// The server as a child process of the test, if it is one.
    child: Option<Child>,
}

impl Postmaster {
    fn of(server: &LocalPostgres) -> Self {
        let note = std::fs::read_to_string(server.directory().join("data/postmaster.pid")).unwrap();
        let process = note.lines().next().unwrap().trim().parse().unwrap();
        let owner = std::fs::metadata(format!("/proc/{process}")).unwrap();
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap();
        let arguments = line
            .split(|&byte| byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8(word.to_vec()).unwrap())
            .collect();
        Self {
            process,
            arguments,
            user: (owner.uid(), owner.gid()),
            child: None,
        }
    }

    /// `pg_ctl stop -m immediate`: every process of the server ends where it stands.
    async fn stop(&mut self) {
        assert!(
            Command::new("kill")
                .args(["-QUIT", &self.process.to_string()])
                .status()
                .unwrap()
                .success()
        );
        let is_gone = |server: &mut Self| {
            if let Some(child) = &mut server.child {
                return child.try_wait().unwrap().is_some();
            }
            let state = std::fs::read_to_string(format!("/proc/{}/stat", server.process))
                .unwrap_or_default();
            // A zombie until its parent asks for it.
            state
                .rsplit(')')
                .next()
                .is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
        };
        while !is_gone(self) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts it as it was, with the data that its write-ahead log holds.
    async fn start(&self, config: &tokio_postgres::Config) -> Self {
        let mut command = Command::new(&self.arguments[0]);
        command
            .args(&self.arguments[1..])
            .env_clear()
            .env("LC_ALL", "C")
            .current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(self.user.0).gid(self.user.1);
        }
        let started = command.spawn().unwrap();
        while config.connect(NoTls).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self {
            process: started.id(),
            arguments: self.arguments.clone(),
            user: self.user,
            child: Some(started),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_restarted_under_load_costs_no_charge_and_gives_no_wrong_answer() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let truth = Arc::new(truth(&veil.client).await);
    let (address, _shutdown) = serve(&veil).await;
    let load = Load::start(address, &truth);
    let mut server = Postmaster::of(&veil.server);
    for _ in (0..).take_while(|&round| !load.has_seen_both(round, 3)) {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.stop().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        server = server.start(&veil.server.config()).await;
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let answered = load.end().await;
    is_whole_again(&veil, address, &truth, answered).await;
    server.stop().await;
}

/// Passes bytes to the server, or none at all: the network is gone without a word.
struct Relay {
    port: u16,
    passes: tokio::sync::watch::Sender<bool>,
}

impl Relay {
    async fn start(server: &LocalPostgres) -> Self {
        let (passes, passing) = tokio::sync::watch::channel(true);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = server.directory().join(".s.PGSQL.5432");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                let ((from, to), (back, forth)) =
                    (tokio::io::split(client), tokio::io::split(server));
                tokio::spawn(pass(from, forth, passing.clone()));
                tokio::spawn(pass(back, to, passing.clone()));
            }
        });
        Self { port, passes }
    }

    fn config(&self, server: &LocalPostgres) -> tokio_postgres::Config {
        let mut config = tokio_postgres::Config::new();
        config
            .host("127.0.0.1")
            .port(self.port)
            .user("postgres")
            .dbname(server.config().get_dbname().unwrap());
        config.ssl_mode(tokio_postgres::config::SslMode::Disable);
        config
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut passing: tokio::sync::watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if passing.wait_for(|passes| *passes).await.is_err()
            || to.write_all(&bytes[..count]).await.is_err()
        {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// Hanging statements end by themselves: before the charge nothing is charged, after it the failure
/// is counted, and later the answers are back.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_that_swallows_everything_ends_no_session() {
    let hasty =
        |policy: String| rich(policy).replace("statement_timeout: 60s", "statement_timeout: 5s");
    let veil = Veil::demo(hasty, Veil::silent()).await;
    let truth = truth(&veil.client).await;
    let relay = Relay::start(&veil.server).await;
    let engine = veil.by_way_of(relay.config(&veil.server)).await;
    let sql = |year: usize| format!("SELECT count(*) FROM nls.women WHERE birth_year > {year}");
    let fresh = Veil::fresh();
    let debits = async || {
        engine
            .ledger()
            .history("analyst", 1000)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(
        rows_of(&engine, &fresh, &sql(1940)).await.unwrap(),
        [truth[0].to_string()]
    );
    assert_eq!(debits().await, 1);
    // A statement that runs when it happens.
    let slow = tokio::spawn({
        let (engine, fresh) = (engine.clone(), fresh.clone());
        async move {
            rows_of(
                &engine,
                &fresh,
                "SELECT count(*) FROM nls.interviews i JOIN nls.interviews j USING (woman_id), \
                    nls.industries a, nls.occupations b, nls.industries c",
            )
            .await
        }
    });
    while debits().await != 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    relay.passes.send(false).unwrap();
    let next = sql(1941);
    let (slow, idle) = tokio::join!(slow, rows_of(&engine, &fresh, &next));
    assert!(matches!(slow.unwrap(), Err(Error::Internal { .. })));
    assert!(matches!(idle, Err(Error::Internal { .. })));
    assert_eq!(
        (
            debits().await,
            engine.ledger().failures("analyst").await.unwrap()
        ),
        (2, 1)
    );
    assert_eq!(
        rows_of(&engine, &fresh, "SELECT 1").await.unwrap(),
        ["1"],
        "what needs no database is answered all the while"
    );
    relay.passes.send(true).unwrap();
    for (at, wanted) in truth.iter().enumerate() {
        assert_eq!(
            rows_of(&engine, &fresh, &sql(1940 + at)).await.unwrap(),
            [wanted.to_string()]
        );
    }
    assert_eq!(
        (
            debits().await,
            engine.ledger().failures("analyst").await.unwrap()
        ),
        (2 + truth.len(), 1)
    );
}

/// A server that hangs has its own line, and hides neither the other servers nor the budgets.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_shows_in_the_metrics() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let relay = Relay::start(&veil.server).await;
    let engine = veil.by_way_of(relay.config(&veil.server)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = listener.local_addr().unwrap().port();
    let exchange = Arc::new(Reloadable::new(engine));
    let shutdown = CancellationToken::new();
    tokio::spawn(pgveil::admin::serve(
        listener,
        exchange,
        pgveil::admin::AdminPages::default(),
        shutdown.clone(),
    ));
    until(admin, "/readyz", "200 OK").await;
    relay.passes.send(false).unwrap();
    until(admin, "/readyz", "the database is out of reach").await;
    let metrics = page(admin, "GET /metrics").await;
    for line in [
        "pgveil_up{target=\"database\"} 0",
        "pgveil_up{target=\"shadow\"} 1",
        "pgveil_up{target=\"ledger\"} 1",
        "pgveil_budget_left_ratio{account=\"analyst\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    relay.passes.send(true).unwrap();
    until(admin, "/readyz", "200 OK").await;
    shutdown.cancel();
}

/// Without its witness nothing is charged, and pages name the one of the two that is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_is_gone_is_named() {
    let stage = Stage::new().await;
    stage.write_witnessed();
    let (port, admin) = (free_port(), free_port());
    let (listen, watched) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{admin}"));
    let mut running = stage.serve("log", &["--listen", &listen, "--admin", &watched]);
    assert_eq!(stage.reported(), "READY=1", "{}", stage.log("log"));
    let client = serve::connect(port, "analyst").await.unwrap();
    let sum = "SELECT sum(age) FROM shop.people";
    client.query_one(sum, &[]).await.unwrap();
    until(admin, "/metrics", "pgveil_up{target=\"witness\"} 1").await;
    std::fs::remove_file(stage.file("witness")).unwrap();
    until(admin, "/readyz", "the witness is out of reach").await;
    let metrics = page(admin, "GET /metrics").await;
    for line in [
        "pgveil_up{target=\"ledger\"} 1",
        "pgveil_up{target=\"witness\"} 0",
        "pgveil_ledger_went_back 0",
    ] {
        assert!(metrics.contains(line), "{line} in\n{metrics}");
    }
    // What is paid for is shown again; nothing new is sold.
    client.query_one(sum, &[]).await.unwrap();
    let count = client.query_one("SELECT count(*) FROM shop.people", &[]);
    let error = count.await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "58030", "{error:?}");
    running.signal("-TERM");
    running.0.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_cancel_ends_nobody_elses_statement() {
    let veil = Veil::demo(rich, Veil::silent()).await;
    let truth = Arc::new(truth(&veil.client).await);
    let (address, _shutdown) = serve(&veil).await;
    let (over, cancelled, undisturbed) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
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
                assert_eq!(
                    ask(&client, turn % truth.len()).await,
                    Ok(truth[turn % truth.len()])
                );
                undisturbed.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    over.store(true, Ordering::SeqCst);
    for one in all {
        one.await.unwrap();
    }
    let (cancelled, undisturbed) = (
        cancelled.load(Ordering::SeqCst),
        undisturbed.load(Ordering::SeqCst),
    );
    assert!(
        cancelled > 0 && undisturbed > 0,
        "{cancelled} were cancelled, {undisturbed} were not"
    );
    println!("{cancelled} were cancelled, {undisturbed} went undisturbed");
}

/// An error from the database on a kept connection is final: nothing is tried again, and a missing
/// table is reported like a changed one.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_gone_is_reported_as_changed() {
    let veil = Veil::demo(|y| y, None).await;
    let requester = Veil::requester();
    rows_of(&veil.engine, &requester, "SELECT count(*) FROM nls.women")
        .await
        .unwrap();
    for change in [
        "DROP TABLE nls.interviews CASCADE",
        "ALTER SCHEMA nls RENAME TO elsewhere",
    ] {
        veil.client.batch_execute(change).await.unwrap();
        let refusal = rows_of(
            &veil.engine,
            &requester,
            "SELECT count(*) FROM nls.interviews",
        )
        .await
        .unwrap_err()
        .report();
        assert_eq!(refusal.sqlstate, "0A000", "{change}: {refusal:?}");
        assert!(
            refusal.message.contains("nls.interviews")
                && refusal
                    .message
                    .ends_with("has changed since the policy was loaded"),
            "{refusal:?}"
        );
    }
}
