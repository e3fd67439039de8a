//! A network that fails between the proxy and the ledger's server, at the worst moments.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pgveil::mechanism::{Accounting, Loss};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use super::{at_usual, fingerprint, laplace, stage};

const NEVER: u32 = 0;
/// The next COMMIT is not passed on, and the connection ends.
const BEFORE_COMMIT: u32 = 1;
/// The next COMMIT is passed on, its answer is not, and the connection ends.
const AFTER_COMMIT: u32 = 2;

/// Passes bytes between a proxy and the server until it is told to fail, once.
async fn relay(mode: Arc<AtomicU32>) -> String {
    let server = stage::server().await;
    let socket = server.directory().join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = UnixStream::connect(&socket).await.unwrap();
            tokio::spawn(pass(client, server, Arc::clone(&mode)));
        }
    });
    let url = stage::database().await;
    let name = url.split_once("@/").unwrap().1.split('?').next().unwrap();
    format!("postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable")
}

async fn pass(mut client: TcpStream, mut server: UnixStream, mode: Arc<AtomicU32>) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(bytes @ 1..) = read else { return };
                let is_commit = up[..bytes].windows(7).any(|window| window == b"COMMIT\0");
                let failing = if is_commit { mode.swap(NEVER, Ordering::SeqCst) } else { NEVER };
                if failing == BEFORE_COMMIT {
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
    assert!(ledger.debit("ann", laplace(0.25), fingerprint(1)).await.is_ok());
    assert_eq!(mode.load(Ordering::SeqCst), NEVER, "the connection was cut");
    assert_eq!(ledger.balance("ann").await.unwrap().spent, laplace(0.25));
    assert!(ledger.debit("ann", laplace(0.25), fingerprint(2)).await.is_ok());
    assert_eq!(ledger.history("ann", 10).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_the_commit_answers_nothing() {
    let mode = Arc::new(AtomicU32::new(NEVER));
    let url = relay(Arc::clone(&mode)).await;
    let ledger = at_usual(&url, Accounting::Gdp).await.unwrap();
    mode.store(BEFORE_COMMIT, Ordering::SeqCst);
    let refused = ledger.debit("ann", laplace(0.25), fingerprint(1)).await.unwrap_err();
    assert!(refused.refusal().is_none(), "{refused}");
    assert_eq!(ledger.balance("ann").await.unwrap().spent, Loss::ZERO);
    // Between two debits a lost connection is not noticed.
    let name = url.rsplit_once('/').unwrap().1.split('?').next().unwrap();
    let terminate = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    stage::execute(stage::server().await.url(), &terminate).await;
    assert!(ledger.debit("ann", laplace(0.25), fingerprint(2)).await.is_ok());
    assert_eq!(ledger.balance("ann").await.unwrap().spent, laplace(0.25));
}
