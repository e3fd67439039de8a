//! `pgveil serve`: a policy's proxy until SIGTERM or Ctrl-C.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use super::arguments::ServeOptions;
use super::{Failure, signal, start, tls};
use crate::shadow::ShadowSource;
use crate::wire;

pub async fn run(options: ServeOptions) -> Result<(), Failure> {
    let token = signal::token()?;
    let file = start::read(&options.policy)?;
    let database = start::database(&file)?;
    let Some(ledger) = file.ledger_url.clone() else {
        return Err(Failure::with_remedy(
            format_args!("{} names no ledger", file.name),
            "Add `ledger: {url: sqlite:///var/lib/pgveil/ledger.db}`; it remembers for ever what was spent.",
        ));
    };
    let tls = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => Some(tls::from_files(certificate, key)?),
        (None, _) | (_, None) => None,
    };
    if tls.is_none() && !options.listen.ip().is_loopback() {
        tracing::warn!("clients connect without TLS, so answers and metadata can be read on the way: give --tls-cert and --tls-key");
    }
    let listener = listen(options.listen).await?;
    let started = signal::unless(&token, async {
        let opened = start::open(&file, &database).await?;
        for warning in &opened.warnings {
            tracing::warn!("{warning}");
        }
        let source = file.shadow_url.clone().map_or(ShadowSource::Local, ShadowSource::Url);
        start::engine(opened, database.clone(), source, &ledger, start::CONNECTIONS).await
    });
    let started = started.await?;
    for table in started.mirrored.iter().filter(|table| table.rows.is_none()) {
        tracing::warn!("public table {}.{} has more rows than limits.mirror_rows and is not mirrored", table.schema, table.table);
    }
    let address = listener.local_addr().map_err(Failure::new)?;
    tracing::info!(%address, tls = tls.is_some(), "ready");
    wire::serve(listener, tls, Arc::clone(&started.engine), token).await.map_err(Failure::new)?;
    start::stop(started.engine).await;
    tracing::info!("stopped");
    Ok(())
}

/// Binds the address that clients connect to.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|e| {
        Failure::with_remedy(
            format_args!("cannot listen on {address}: {e}"),
            format!("Choose another address, for example --listen 127.0.0.1:{}.", address.port().checked_add(1).unwrap_or(7000)),
        )
    })
}
