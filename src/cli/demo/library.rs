//! The second proxy of the demo, over a made-up library: it starts when somebody opens its page, or
//! connects to it.

use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::{Demo, Servers, guide, never};
use crate::cli::listen::listen;
use crate::cli::{Failure, signal, start, summarize, tls};
use crate::demo::page::{LibraryDoor, Proxy};
use crate::demo::session::reachable;
use crate::execute::Backend;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::wire;

const POLICY: &str = include_str!("../../../policies/library.yaml");

/// The pause after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// The library, until somebody asks for it.
pub struct DemoLibrary {
    /// Connections wait here until the proxy has started.
    listener: TcpListener,
    pub address: SocketAddr,
    wanted: watch::Receiver<bool>,
    opened: watch::Sender<Option<Result<Proxy, String>>>,
}

impl DemoLibrary {
    /// The library, on a port that the system chooses, and the page's door to it.
    pub async fn bind(ip: IpAddr) -> Result<(Self, LibraryDoor), Failure> {
        let listener = listen(SocketAddr::new(ip, 0)).await?;
        let address = listener.local_addr().map_err(Failure::new)?;
        let (wanted, asked) = watch::channel(false);
        let (opened, door) = watch::channel(None);
        let library = Self {
            listener,
            address,
            wanted: asked,
            opened,
        };
        let door = LibraryDoor {
            wanted,
            opened: door,
        };
        Ok((library, door))
    }

    /// Waits until somebody asks for it, then serves it until `token` is cancelled. Where it cannot
    /// start, the page says why, and the survey is served on.
    pub async fn serve(self, token: &CancellationToken) {
        let Self {
            listener,
            address,
            wanted,
            opened,
        } = self;
        let visited = first_visit(&listener, wanted);
        let Ok(connected) = signal::unless(token, visited).await else {
            return;
        };
        if let Err(failure) = run((listener, address), connected, &opened, token).await {
            if !token.is_cancelled() {
                eprintln!("The library has ended: {}", failure.in_a_line());
            }
            // The page may be gone.
            let _ = opened.send(Some(Err(failure.in_a_line())));
        }
    }
}

/// Waits until somebody asks for the library, or connects to it: then the connection.
async fn first_visit(
    listener: &TcpListener,
    mut wanted: watch::Receiver<bool>,
) -> Result<Option<TcpStream>, Failure> {
    let asked = async {
        // Without a page nobody asks.
        if wanted.wait_for(|wanted| *wanted).await.is_err() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        connected = accept(listener) => Ok(Some(connected)),
        () = asked => Ok(None),
    }
}

/// The first connection. A failure to accept one may pass.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((connected, _)) => return connected,
            Err(error) => {
                eprintln!("The library could not accept a connection: {error}");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

/// Passes the bytes of the first connection on, as the proxy accepts later ones by itself.
async fn relay(mut client: TcpStream, address: SocketAddr) {
    // A client that is gone, or a proxy that ends, ends it.
    if let Ok(mut proxy) = TcpStream::connect(reachable(address)).await {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut proxy).await;
    }
}

/// Starts the library and serves it until `token` is cancelled.
async fn run(
    (listener, address): (TcpListener, SocketAddr),
    connected: Option<TcpStream>,
    opened: &watch::Sender<Option<Result<Proxy, String>>>,
    token: &CancellationToken,
) -> Result<(), Failure> {
    let tls = tls::self_signed()?;
    let starting = async {
        let servers = Servers::of_the_library().await?;
        Demo::over(servers, None, ("policies/library.yaml", POLICY)).await
    };
    let demo = signal::unless(token, starting).await?;
    // The page may be gone.
    let _ = opened.send(Some(Ok(Proxy {
        listening: address,
        database: demo.database.clone(),
        psql: guide::psql(address, &demo.database),
    })));
    let engine = Arc::clone(&demo.started.engine);
    let serving = wire::serve(listener, Some(tls), engine, token.clone());
    let relaying = async {
        if let Some(client) = connected {
            tokio::select! {
                () = relay(client, address) => {}
                () = token.cancelled() => {}
            }
        }
    };
    let (served, ()) = tokio::join!(serving, relaying);
    demo.stop().await;
    served.map_err(Failure::new)
}

/// Makes the summaries of a policy, as `pgveil summarize` does before `pgveil serve`.
pub async fn make_summaries(
    policy: &Policy,
    database: &Config,
    ledger: &str,
) -> Result<(), Failure> {
    let (owner, roles) = start::accounts(&policy.privacy, &policy.roles)?;
    let ledger = Ledger::open(ledger, owner, &roles).await;
    let ledger = ledger.map_err(Failure::new)?;
    let backend = Backend::new(database.clone(), 1);
    summarize::make_all(policy, (&backend, &ledger), &never()).await
}
