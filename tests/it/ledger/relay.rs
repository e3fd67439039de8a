//! A network that fails between the proxy and the ledger's server, at the worst moments.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pgveil::ledger::{DebitError, Error};
use pgveil::mechanism::{Accounting, Loss};
use pgveil::postgres::{LocalPostgres, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::{at_usual, fingerprint, laplace, stage};

const NEVER: u32 = 0;
/// The next COMMIT is not passed on, and the connection ends.
const BEFORE_COMMIT: u32 = 1;
/// The next COMMIT is passed on, its answer is not, and the connection ends.
const AFTER_COMMIT: u32 = 2;
/// The next COMMIT is not passed on, the connection ends, and from then on all go to another
/// server.
const TAKES_OVER: u32 = 3;
const TAKEN_OVER: u32 = 4;

/// Passes bytes between a proxy and the server until it is asked to fail, once.
async fn relay(mode: Arc<AtomicU32>) -> String {
    let url = stage::database().await;
    let name = url.split_once("@/").unwrap().1.split('?').next().unwrap();
    relay_or(mode, name, None).await
}

/// A relay to a database by its name; the other socket is that of the server that takes over.
async fn relay_or(mode: Arc<AtomicU32>, name: &str, other: Option<PathBuf>) -> String {
    let server = stage::server().await;
    let socket = server.directory().join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let socket = other
                .as_ref()
                .filter(|_| mode.load(Ordering::SeqCst) == TAKEN_OVER)
                .unwrap_or(&socket);
            let server = UnixStream::connect(socket).await.unwrap();
            tokio::spawn(pass(client, server, Arc::clone(&mode)));
        }
    });
    format!("postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable")
}

async fn pass(mut client: TcpStream, mut server: UnixStream, mode: Arc<AtomicU32>) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(bytes @ 1..) = read else { return };
                let is_commit = up[..bytes].windows(7).any(|window| window == b"COMMIT\0");
                let is_due = is_commit && mode.load(Ordering::SeqCst) != TAKEN_OVER;
                let failing = if is_due { mode.swap(NEVER, Ordering::SeqCst) } else { NEVER };
                if failing == TAKES_OVER {
                    mode.store(TAKEN_OVER, Ordering::SeqCst);
                }
                if matches!(failing, BEFORE_COMMIT | TAKES_OVER) {
                    return;
                }
                if server.write_all(&up[..bytes]).await.is_err() {
                    return;
                }
                if failing == AFTER_COMMIT {
                    // The server's answer comes, and goes no further.
                    let _ = server.read(&mut down).await;
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(bytes @ 1..) = read else { return };
                if client.write_all(&down[..bytes]).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_charged_once() {
    let mode = Arc::new(AtomicU32::new(NEVER));
    let url = relay(Arc::clone(&mode)).await;
    let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
    mode.store(AFTER_COMMIT, Ordering::SeqCst);
    // The server says afterwards that it was committed.
    assert!(
        ledger
            .debit("ann", laplace(0.25), fingerprint(1))
            .await
            .is_ok()
    );
    assert_eq!(mode.load(Ordering::SeqCst), NEVER, "the connection was cut");
    assert_eq!(ledger.balance("ann").await.unwrap().spent, laplace(0.25));
    assert!(
        ledger
            .debit("ann", laplace(0.25), fingerprint(2))
            .await
            .is_ok()
    );
    assert_eq!(ledger.history("ann", 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_the_commit_answers_nothing() {
    let mode = Arc::new(AtomicU32::new(NEVER));
    let url = relay(Arc::clone(&mode)).await;
    let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
    mode.store(BEFORE_COMMIT, Ordering::SeqCst);
    let refused = ledger
        .debit("ann", laplace(0.25), fingerprint(1))
        .await
        .unwrap_err();
    assert!(refused.refusal().is_none(), "{refused}");
    assert_eq!(ledger.balance("ann").await.unwrap().spent, Loss::ZERO);
    // Between two debits a lost connection is not noticed.
    let name = url.rsplit_once('/').unwrap().1.split('?').next().unwrap();
    let terminate =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    stage::execute(stage::server().await.url(), &terminate).await;
    assert!(
        ledger
            .debit("ann", laplace(0.25), fingerprint(2))
            .await
            .is_ok()
    );
    assert_eq!(ledger.balance("ann").await.unwrap().spent, laplace(0.25));
}

/// A server that takes over reuses transaction numbers: a foreign transaction committed there under
/// the lost one's number says nothing about the lost one.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_over_confirms_no_foreign_commit() {
    let url = stage::database().await;
    let name = url
        .split_once("@/")
        .unwrap()
        .1
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let settings = [("fsync", "on"), ("synchronous_commit", "on")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    let other = LocalPostgres::start(ServerOptions {
        database: Some(name.clone()),
        settings,
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    drop(at_usual(other.url(), Accounting::Gdp).await.unwrap());
    let mode = Arc::new(AtomicU32::new(NEVER));
    let relayed = relay_or(
        Arc::clone(&mode),
        &name,
        Some(other.directory().join(".s.PGSQL.5432")),
    )
    .await;
    let ledger = at_usual(&relayed, Accounting::Gdp).await.unwrap();
    let (client, connection) = url
        .parse::<tokio_postgres::Config>()
        .unwrap()
        .connect(tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let number: i64 = client
        .query_one("SELECT txid_current()", &[])
        .await
        .unwrap()
        .get(0);
    let later = number + 5000;
    stage::execute(
        other.url(),
        &format!("DO $$ BEGIN WHILE txid_current() < {later} LOOP COMMIT; END LOOP; END $$"),
    )
    .await;
    mode.store(TAKES_OVER, Ordering::SeqCst);
    let refused = ledger
        .debit("ann", laplace(0.25), fingerprint(1))
        .await
        .unwrap_err();
    assert_eq!(
        mode.load(Ordering::SeqCst),
        TAKEN_OVER,
        "the connection was cut"
    );
    assert!(refused.refusal().is_none(), "{refused}");
    assert_eq!(ledger.balance("ann").await.unwrap().spent, Loss::ZERO);
    // The server that took over does not have the ledger that this process has seen: it charges
    // nothing.
    let refused = ledger
        .debit("ann", laplace(0.25), fingerprint(2))
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, DebitError::Ledger(Error::WentBack { .. })),
        "{refused}"
    );
    assert_eq!(ledger.balance("ann").await.unwrap().spent, Loss::ZERO);
}
