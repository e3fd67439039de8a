//! `pgveil serve` runs a policy's proxy until SIGTERM or Ctrl-C.

use std::net::SocketAddr;
use std::sync::Arc;

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::arguments::ServeOptions;
use super::blocking::blocking;
use super::listen::listen;
use super::local_secret::check_secret;
use super::{Failure, notify, pages, process, reload, signal, start, tls};
use rustls::ServerConfig;

use crate::admin;
use crate::console::InForce;
use crate::engine::Reloadable;
use crate::ledger;
use crate::ledger::RecordFile;
use crate::operator::Control;
use crate::policy::{File, Policy, Unlisted, find_unlisted};
use crate::postgres::LocalPostgres;
use crate::shadow::{CopiedTable, ShadowSource};
use crate::wire;

/// Clients that wait to be accepted, as tokio has it.
const BACKLOG: u32 = 1024;

pub async fn run(options: ServeOptions, inherited: ListenFd) -> Result<(), Failure> {
    let (token, hangups) = (signal::token()?, signal::hangups()?);
    let (file, bare) = start::read_to_compare(&options.policy)?;
    let database = start::database(&file)?;
    let ledger = start::ledger(&file)?;
    let certificate = certificate_of(&options)?;
    let is_plain = certificate.is_none();
    let clients_tls = wire::Tls::from(certificate);
    warn_of_exposure(&options, is_plain);
    tls::check_certified(&options, &file)?;
    let record_file = record_file(&options)?;
    let (listener, operator) = listeners(&options, inherited).await?;
    let console = pages::console(&options, &file, is_plain).await?;
    let desk = pages::desk(&options, is_plain).await?;
    let source = source_of(&file);
    if options.migrate {
        let ledger = ledger.clone();
        blocking(move || ledger::migrate(&ledger)).await?;
    }
    let starting = start_engine(&file, database, source, ledger);
    let started = signal::unless(&token, starting).await?;
    let ledger = started.engine.ledger();
    if let Some(record_file) = record_file {
        ledger.copy_records_to(record_file);
    }
    check_secret(&file, ledger, options.new_secret).await?;
    let recorded = ledger.record_policy(file.digest, String::new());
    recorded.await.map_err(Failure::new)?;
    warn_of_large_tables(&started.copied);
    warn_of_unlisted(&file, started.engine.policy());
    let address = listener.local_addr().map_err(Failure::new)?;
    let engine = Arc::new(Reloadable::new(started.engine));
    tokio::spawn(admin::watch(Arc::clone(&engine), token.clone()));
    let (reloads, asked) = mpsc::channel(1);
    let certificate = options.tls_cert.clone();
    let control = Control::new(Arc::clone(&engine), reloads, token.clone(), certificate);
    let shown = Arc::new(InForce::new(bare));
    let commons = wire::SharedState::new(Some(Arc::new(control)));
    if let Some(operator) = operator {
        let (engine, shown) = (Arc::clone(&engine), admin_pages(&options, &commons));
        tokio::spawn(admin::serve(operator, engine, shown, token.clone()));
    }
    if let Some(console) = console {
        console.open_console((&options, &clients_tls), &engine, &shown, &token);
    }
    let desk = desk.map(|desk| desk.open_desk((&options, &clients_tls), &engine, &commons, &token));
    tracing::info!(%address, tls = !is_plain, "ready");
    notify::ready();
    tokio::spawn(log_the_end(token.clone()));
    let fits = |file: &File| tls::check_certified(&options, file);
    let around = (|| renew(&options, &clients_tls), fits);
    let served = wire::serve_operated(
        listener,
        clients_tls.clone(),
        Arc::clone(&engine),
        token.clone(),
        options.drain,
        commons,
    );
    tokio::select! {
        served = served => served.map_err(Failure::new)?,
        () = reload::on_hangup(hangups, &options.policy, file, &engine, asked, &shown, around) => {}
    }
    if let Some(desk) = desk {
        // Its answers under way get the time of those on the wire.
        desk.await.map_err(Failure::new)?.map_err(Failure::new)?;
    }
    end(engine).await;
    Ok(())
}

fn admin_pages(options: &ServeOptions, commons: &wire::SharedState) -> admin::AdminPages {
    admin::AdminPages {
        memory: Some(commons.memory()),
        hosts: options.admin_host.clone(),
        certificate: options.tls_cert.clone(),
    }
}

/// The shadow's server. A local one is prepared meanwhile.
fn source_of(file: &File) -> ShadowSource {
    match &file.shadow_url {
        Some(url) => ShadowSource::Url(url.clone()),
        None => {
            tokio::spawn(LocalPostgres::prepare());
            ShadowSource::Local
        }
    }
}

/// Stops the engine once all answers are written.
async fn end(engine: Arc<Reloadable>) {
    engine.flush_retired().await;
    let last = engine.current();
    drop(engine);
    start::stop(last).await;
    tracing::info!("stopped");
}

/// Checks the policy against its database, warns of what is odd, and starts its engine.
async fn start_engine(
    file: &File,
    database: tokio_postgres::Config,
    source: ShadowSource,
    ledger: ledger::Address,
) -> Result<start::Started, Failure> {
    let opened = start::open(file, &database).await?;
    for warning in &opened.warnings {
        tracing::warn!("{warning}");
    }
    start::engine(opened, database, source, ledger, start::CONNECTIONS, None).await
}

/// Opens the file of `--record-to`.
fn record_file(options: &ServeOptions) -> Result<Option<Arc<RecordFile>>, Failure> {
    let Some(path) = &options.record_to else {
        return Ok(None);
    };
    let file = RecordFile::open(path).map_err(|error| {
        Failure::with_remedy(
            format_args!("--record-to: {}: {error}", path.display()),
            "Name a file that this user may write (it is made where it is missing), or a named \
                pipe that is read.",
        )
    })?;
    Ok(Some(Arc::new(file)))
}

async fn log_the_end(token: CancellationToken) {
    token.cancelled().await;
    notify::stopping();
}

/// For clients, and for the operator where there is an address.
async fn listeners(
    options: &ServeOptions,
    inherited: ListenFd,
) -> Result<(TcpListener, Option<TcpListener>), Failure> {
    let clients = match inherited.len() {
        0 if options.reuse_port => listen_too(options.listen)?,
        0 => listen(options.listen).await?,
        _ => take(inherited)?,
    };
    let operator = match options.admin {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    Ok((clients, operator))
}

/// The socket that systemd holds: it stays open while pgveil restarts, and clients wait in it.
fn take(mut inherited: ListenFd) -> Result<TcpListener, Failure> {
    let number = inherited.len();
    if number != 1 {
        return Err(Failure::with_remedy(
            format_args!("{number} sockets were handed over, and pgveil serves one"),
            "Name one ListenStream= in pgveil.socket.",
        ));
    }
    let unfit = |error: &dyn std::fmt::Display| {
        Failure::with_remedy(
            format_args!("the socket that was handed over cannot be used: {error}"),
            "Name a TCP port by ListenStream= in pgveil.socket.",
        )
    };
    let listener = inherited.take_tcp_listener(0).map_err(|e| unfit(&e))?;
    let listener = listener.ok_or_else(|| unfit(&"it is none"))?;
    listener.set_nonblocking(true).map_err(|e| unfit(&e))?;
    TcpListener::from_std(listener).map_err(|e| unfit(&e))
}

/// Binds an address that another pgveil has by `--reuse-port` too.
fn listen_too(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.set_reuseport(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound().map_err(|e| {
        Failure::with_remedy(
            format_args!("cannot listen on {address}: {e}"),
            "Whoever has it now must be a pgveil of this user, started with --reuse-port.",
        )
    })
}

/// Reads the files of TLS.
fn certificate_of(options: &ServeOptions) -> Result<Option<Arc<ServerConfig>>, Failure> {
    let (Some(certificate), Some(key)) = (&options.tls_cert, &options.tls_key) else {
        return Ok(None);
    };
    tls::from_files(certificate, key, options.tls_client_ca.as_deref()).map(Some)
}

/// Reads the files of TLS again, for new connections.
fn renew(options: &ServeOptions, clients: &wire::Tls) -> Result<(), Failure> {
    if let Some(certificate) = certificate_of(options)? {
        clients.replace(certificate);
    }
    Ok(())
}

fn warn_of_exposure(options: &ServeOptions, is_plain: bool) {
    if process::is_root() {
        tracing::warn!(
            "pgveil runs as root: give it a separate user, who may write the ledger and nothing \
                else"
        );
    }
    if is_plain && !options.listen.ip().is_loopback() {
        tracing::warn!(
            "clients connect without TLS, so answers and metadata can be read on the way: give \
                --tls-cert and --tls-key"
        );
    }
}

/// Logs the columns that are shown although the file does not list them.
fn warn_of_unlisted(file: &File, policy: &Policy) {
    for Unlisted { table, columns } in find_unlisted(file, policy) {
        tracing::info!(
            "{table} shows {} columns that the policy does not list, as other_columns is visible: \
                {}",
            columns.len(),
            columns.join(", ")
        );
    }
}

fn warn_of_large_tables(copied: &[CopiedTable]) {
    for table in copied.iter().filter(|table| table.rows.is_none()) {
        tracing::warn!(
            "public table {}.{} has more rows than limits.mirror_rows and is not mirrored",
            table.schema,
            table.table
        );
    }
}
