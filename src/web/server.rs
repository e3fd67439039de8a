//! HTTP/1 over TCP or TLS, with limits on connections, handshakes and headers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::wire::{Tls, certificate_names};

const CONNECTIONS_MAX: usize = 64;
/// For a handshake, and for the head of each request; also how long an idle connection stays.
const PATIENCE: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The protocol's name in TLS.
const PROTOCOL: &[u8] = b"http/1.1";

/// Who is at the other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    pub address: IpAddr,
    /// The names in the certificate that the client showed.
    pub names: Vec<String>,
}

/// Serves a router until `shutdown` is cancelled; every request has its [`Peer`].
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    shutdown: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (Ok((socket, from)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned())
        else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let (tls, router, shutdown) = (tls.clone(), router.clone(), shutdown.clone());
        tokio::spawn(async move {
            connection(socket, from, tls, router, shutdown).await;
            drop(place);
        });
    }
}

async fn connection(
    socket: TcpStream,
    from: SocketAddr,
    tls: Option<Tls>,
    router: Router,
    shutdown: CancellationToken,
) {
    let address = from.ip();
    let Some(tls) = tls else {
        let names = Vec::new();
        return speak(socket, Peer { address, names }, router, shutdown).await;
    };
    let Some(config) = tls.speaking(PROTOCOL) else {
        return;
    };
    let handshake = TlsAcceptor::from(config).accept(socket);
    let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, handshake).await else {
        return;
    };
    let shown = stream.get_ref().1.peer_certificates();
    let names = shown
        .and_then(<[_]>::first)
        .map(|der| certificate_names(der))
        .unwrap_or_default();
    speak(stream, Peer { address, names }, router, shutdown).await;
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    router: Router,
    shutdown: CancellationToken,
) {
    let service = TowerToHyperService::new(router.layer(Extension(peer)));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD_BYTES_MAX);
    let spoken = builder.serve_connection(TokioIo::new(stream), service);
    let mut spoken = std::pin::pin!(spoken);
    tokio::select! {
        // A client that breaks off is nothing to report.
        _ = spoken.as_mut() => return,
        () = shutdown.cancelled() => spoken.as_mut().graceful_shutdown(),
    }
    let _ = spoken.await;
}
