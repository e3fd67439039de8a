//! The sites of `pgveil serve`: the operators' console and the analysts' desk. Each is opened only
//! on request, and not where passwords could be read on the way.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::arguments::ServeOptions;
use super::listen::listen;
use crate::console;
use crate::console::InForce;
use crate::desk;
use crate::engine::Reloadable;
use crate::policy::File;
use crate::web::login::FIRST_WAIT;
use crate::web::rate_limit::RequestLimit;
use crate::web::session::Lifetimes;
use crate::wire;

/// The listener of a site, where an address is given.
pub struct SiteListener {
    listener: TcpListener,
    is_loopback: bool,
}

/// Refuses a console that nobody could log in to, or whose passwords could be read on the way.
pub async fn console(
    options: &ServeOptions,
    file: &File,
    is_plain: bool,
) -> Result<Option<SiteListener>, Failure> {
    let Some(address) = options.console else {
        return Ok(None);
    };
    if file.operators.is_empty() {
        return Err(Failure::with_remedy(
            "--console is given, and the policy lists no operator",
            "Add `operators: [{name: olga, password: …, may: [watch, own]}]` to the policy; \
                `pgveil password` makes the verifier.",
        ));
    }
    site(("console", "--console", 6434), address, is_plain).await
}

/// Refuses a desk whose passwords could be read on the way.
pub async fn desk(options: &ServeOptions, is_plain: bool) -> Result<Option<SiteListener>, Failure> {
    let Some(address) = options.desk else {
        return Ok(None);
    };
    site(("desk", "--desk", 6435), address, is_plain).await
}

async fn site(
    (name, flag, port): (&str, &str, u16),
    address: SocketAddr,
    is_plain: bool,
) -> Result<Option<SiteListener>, Failure> {
    let is_loopback = address.ip().is_loopback();
    if !is_loopback && is_plain {
        return Err(Failure::with_remedy(
            format_args!("the {name} at {address} would be reached without TLS"),
            format!(
                "Give --tls-cert and --tls-key, or a {flag} address of this machine alone, such as \
                    127.0.0.1:{port}."
            ),
        ));
    }
    let listener = listen(address).await?;
    Ok(Some(SiteListener {
        listener,
        is_loopback,
    }))
}

impl SiteListener {
    /// TLS as for clients, but on this machine.
    fn tls(&self, clients: &wire::Tls) -> Option<wire::Tls> {
        (!self.is_loopback).then(|| clients.clone())
    }

    pub fn open_console(
        self,
        (options, tls): (&ServeOptions, &wire::Tls),
        engine: &Arc<Reloadable>,
        shown: &Arc<InForce>,
        token: &CancellationToken,
    ) {
        let options = console::ConsoleOptions {
            tls: self.tls(tls),
            hosts: options.console_host.clone(),
            lifetimes: Lifetimes::default(),
            first_wait: FIRST_WAIT,
            pace: RequestLimit::default(),
        };
        let (engine, shown) = (Arc::clone(engine), Arc::clone(shown));
        let served = console::serve(self.listener, engine, shown, options, token.clone());
        tokio::spawn(served);
    }

    pub fn open_desk(
        self,
        (options, tls): (&ServeOptions, &wire::Tls),
        engine: &Arc<Reloadable>,
        commons: &Arc<wire::SharedState>,
        token: &CancellationToken,
    ) -> JoinHandle<std::io::Result<()>> {
        let options = desk::DeskOptions {
            tls: self.tls(tls),
            hosts: options.desk_host.clone(),
            lifetimes: Lifetimes::default(),
            first_wait: FIRST_WAIT,
            pace: RequestLimit::default(),
            drain: options.drain,
        };
        let (engine, commons) = (Arc::clone(engine), Arc::clone(commons));
        let served = desk::serve(self.listener, engine, commons, options, token.clone());
        tokio::spawn(served)
    }
}
