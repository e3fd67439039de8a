//! A veil behind the wire edge on a port of its own, and a port that leads straight to the database behind it.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_postgres::config::Host;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::veil::Veil;
use crate::wire::tls;

pub struct Stage {
    /// Where pgveil listens, with and without TLS.
    pub veiled: SocketAddr,
    /// The same data without pgveil: user `postgres`, no password.
    pub direct: SocketAddr,
    _veil: Veil,
    _shutdown: DropGuard,
}

impl Stage {
    /// Without noise, so that answers can be compared; `analyst` has much to spend, `poor` next to nothing.
    pub async fn start() -> Self {
        let veil = Veil::demo(edit, Veil::silent()).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let veiled = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        tokio::spawn(pgveil::wire::serve(listener, Some(tls::configuration().0), veil.engine.clone(), shutdown.clone()));
        let direct = relay(&veil.server.config()).await;
        Self { veiled, direct, _veil: veil, _shutdown: shutdown.drop_guard() }
    }
}

fn edit(policy: String) -> String {
    let verifier = policy.split("password: ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap().to_owned();
    let poor = format!("  - name: poor\n    password: {verifier}\n    budget: {{epsilon: 0.25, delta: 1e-7, renew: never}}\n\ntables:");
    let rich = policy.replace("epsilon: 8,", "epsilon: 100,").replace("epsilon: 3,", "epsilon: 90,");
    assert!(rich.contains("epsilon: 100,") && rich.contains("epsilon: 90,"), "the demo policy's budgets have changed");
    rich.replacen("\ntables:", &format!("\n{poor}"), 1)
}

/// The throw-away server listens on a socket file alone, which Java cannot open.
async fn relay(config: &tokio_postgres::Config) -> SocketAddr {
    let [Host::Unix(directory)] = config.get_hosts() else { panic!("a server of our own has one unix socket") };
    let path = directory.join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let path = path.clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(&path).await?;
                copy_bidirectional::<TcpStream, UnixStream>(&mut client, &mut server).await
            });
        }
    });
    address
}
