//! HTTP/1 over TCP or TLS, with limits on connections, handshakes and headers.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::wire::{PendingConnection, Tls, Unauthenticated, certificate_names};

/// Connections that may be without a whole request. Beyond that, the longest waiting one of the
/// address that has most is closed.
const WAITING_MAX: u32 = 64;
/// Connections whose requests are answered, or whose answers are on their way.
const ANSWERED_MAX: usize = 64;
/// The most connections of one address that is not this machine's, so that none takes every place.
const CONNECTIONS_PER_ADDRESS: usize = 8;
/// How long a handshake, and the head of a request, may take.
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

/// Serves a router until `shutdown` is cancelled; every request has its [`Peer`]. `whole` is the
/// time of a whole connection: handshake, request and answer, however slowly a client takes it.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    shutdown: CancellationToken,
    whole: Duration,
) {
    let (waiting, by_address) = (Arc::<Unauthenticated>::default(), ByAddress::default());
    let places = Arc::new(Semaphore::new(ANSWERED_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, from)) = accepted else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Some(of_address) = by_address.enter(from.ip()) else {
            continue;
        };
        let pending = waiting.enter(from.ip(), WAITING_MAX);
        let shown_out = pending.shown_out.clone();
        let arrival = Arc::new(Arrival {
            pending: Mutex::new(Some(pending)),
            places: Arc::clone(&places),
            place: Mutex::default(),
        });
        let (tls, router, shutdown) = (tls.clone(), router.clone(), shutdown.clone());
        tokio::spawn(async move {
            let router = router.layer(Extension(Arc::clone(&arrival)));
            let connected = connection(socket, from, tls, router, shutdown);
            tokio::select! {
                // No request of a connection that is being shown out begins.
                biased;
                () = shown_out.cancelled() => {}
                // A client that takes longer is cut off.
                _ = tokio::time::timeout(whole, connected) => {}
            }
            drop((arrival, of_address));
        });
    }
}

/// How far a connection has come: it waits until its request is whole, and has a place among the
/// answers from then on.
pub struct Arrival {
    pending: Mutex<Option<PendingConnection>>,
    places: Arc<Semaphore>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Arrival {
    /// Notes that the request is whole, and says whether its answer gets a place. A connection that
    /// is being closed gets none.
    pub fn ends(&self) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if !pending.take().is_some_and(PendingConnection::leave) {
            return false;
        }
        drop(pending);
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        let has_place = place.is_some();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
        has_place
    }
}

/// How many connections each address has.
#[derive(Debug, Clone, Default)]
struct ByAddress(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// One connection's place among the connections of its address. Dropping it gives it back.
#[derive(Debug)]
struct OfAddress {
    all: ByAddress,
    /// `None` for this machine, which is not counted.
    counted: Option<IpAddr>,
}

impl ByAddress {
    /// `None` where the address has as many as it may have.
    fn enter(&self, address: IpAddr) -> Option<OfAddress> {
        let all = self.clone();
        let address = network(address);
        if address.is_loopback() {
            return Some(OfAddress { all, counted: None });
        }
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= CONNECTIONS_PER_ADDRESS {
            return None;
        }
        *count += 1;
        let counted = Some(address);
        Some(OfAddress { all, counted })
    }
}

impl Drop for OfAddress {
    fn drop(&mut self) {
        let Some(address) = self.counted else {
            return;
        };
        let mut open = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
    }
}

/// An address as one client has it: in IPv6 a client has a whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
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
        // Each request comes by its own connection, so that none is cut off by the time of others.
        .keep_alive(false)
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

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::middleware::{Next, from_fn};
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::web::guard::Guard;

    #[test]
    fn an_address_has_eight_connections_and_this_machine_more() {
        let (all, other) = (ByAddress::default(), "192.0.2.2".parse().unwrap());
        let (one, next) = ("2001:db8::1", "2001:db8::2");
        let mut open: Vec<_> = (0..CONNECTIONS_PER_ADDRESS)
            .map(|_| all.enter(one.parse().unwrap()).unwrap())
            .collect();
        // Of the same network.
        assert!(all.enter(next.parse().unwrap()).is_none());
        let of_other = all.enter(other);
        assert!(of_other.is_some());
        open.pop();
        assert!(all.enter(next.parse().unwrap()).is_some());
        drop((open, of_other));
        assert!(all.0.lock().unwrap().is_empty());
        let here: Vec<_> = (0..20)
            .filter_map(|_| all.enter(IpAddr::from([127, 0, 0, 1])))
            .collect();
        assert_eq!(here.len(), 20);
    }

    /// The answer to a request by a new connection.
    async fn answer(address: SocketAddr) -> String {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Hundreds of connections without a whole request keep out no visitor, also of the same
    /// address; the oldest of them are closed.
    #[tokio::test]
    async fn requests_that_do_not_end_keep_nobody_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let guard = Arc::new(Guard::new(Vec::new(), false, Duration::from_secs(60)));
        let router = Router::new().route("/", get(async || "well"));
        let guarded = from_fn(move |request: Request, next: Next| {
            let guard = Arc::clone(&guard);
            async move { guard.pass(request, next).await }
        });
        let served = serve(
            listener,
            None,
            router.layer(guarded),
            shutdown.clone(),
            Duration::from_secs(600),
        );
        let served = tokio::spawn(served);
        let mut stalled = Vec::new();
        for at in 0..300 {
            let mut socket = TcpStream::connect(address).await.unwrap();
            let begun = ["", "GET", "GET / HTTP/1.1\r\nHost: localhost\r\n"][at % 3];
            socket.write_all(begun.as_bytes()).await.unwrap();
            stalled.push(socket);
        }
        assert!(answer(address).await.ends_with("\r\n\r\nwell"));
        // It was closed, not answered.
        assert_eq!(stalled[0].read(&mut [0]).await.unwrap_or(0), 0);
        assert!(answer(address).await.ends_with("\r\n\r\nwell"));
        shutdown.cancel();
        served.await.unwrap();
    }
}
