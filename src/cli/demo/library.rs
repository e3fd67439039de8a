//! The second proxy of the demo, over a made-up library: it starts when somebody opens its page.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_util::sync::CancellationToken;

use super::{Demo, Servers, guide, never};
use crate::cli::listen::listen;
use crate::cli::{Failure, signal, start, summarize, tls};
use crate::demo::page::{LibraryDoor, Proxy};
use crate::execute::Backend;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::wire;

const POLICY: &str = include_str!("../../../policies/library.yaml");

/// The library, until somebody asks for it.
pub struct DemoLibrary {
    /// Where its proxy will listen, on a port that the system chooses.
    ip: IpAddr,
    wanted: watch::Receiver<bool>,
    opened: watch::Sender<Option<Result<Proxy, String>>>,
}

impl DemoLibrary {
    /// The library, and the door to it.
    pub fn new(ip: IpAddr) -> (Self, LibraryDoor) {
        let (wanted, asked) = watch::channel(false);
        let (opened, door) = watch::channel(None);
        let library = Self {
            ip,
            wanted: asked,
            opened,
        };
        let door = LibraryDoor {
            wanted,
            opened: door,
        };
        (library, door)
    }

    /// Waits until somebody asks for it, then serves it until `token` is cancelled. Where it cannot
    /// start, the page says why, and the survey is served on.
    pub async fn serve(mut self, token: &CancellationToken) {
        let wanted = async {
            let asked = self.wanted.wait_for(|wanted| *wanted).await;
            asked.map(drop).map_err(Failure::new)
        };
        if signal::unless(token, wanted).await.is_err() {
            return;
        }
        if let Err(failure) = self.run(token).await {
            // The page may be gone.
            let _ = self.opened.send(Some(Err(failure.in_a_line())));
        }
    }

    async fn run(&self, token: &CancellationToken) -> Result<(), Failure> {
        let listener = listen(SocketAddr::new(self.ip, 0)).await?;
        let address = listener.local_addr().map_err(Failure::new)?;
        let tls = tls::self_signed()?;
        let starting = async {
            let servers = Servers::of_the_library().await?;
            Demo::over(servers, None, ("policies/library.yaml", POLICY)).await
        };
        let demo = signal::unless(token, starting).await?;
        // The page may be gone.
        let _ = self.opened.send(Some(Ok(Proxy {
            listening: address,
            database: demo.database.clone(),
            psql: guide::psql(address, &demo.database),
        })));
        let engine = Arc::clone(&demo.started.engine);
        let served = wire::serve(listener, Some(tls), engine, token.clone()).await;
        demo.stop().await;
        served.map_err(Failure::new)
    }
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
