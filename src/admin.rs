//! The operator's address: `/healthz`, `/readyz` and `/metrics` by HTTP, for probes and for
//! Prometheus.
//!
//! Three fixed pages by GET, one request for each connection: too little HTTP to need a framework.
//! The pages show counts, times and remaining budgets. Timings can reveal something about the data,
//! so analysts must not reach this address.

mod metrics;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::engine::{MemoryReading, Reloadable};
use crate::web::guard::is_own_name;
pub use watch::watch;

/// How long a request may take to arrive, and an answer to be sent.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the ledger's balances, and the definitions of tables, may take to be read for a page.
const READ_PATIENCE: Duration = Duration::from_secs(2);
const REQUEST_BYTES_MAX: usize = 8 << 10;
const CONNECTIONS_MAX: usize = 16;

struct Page {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// What the pages know in addition to the engine.
#[derive(Debug, Default)]
pub struct AdminPages {
    /// A request must name this host by an address, as `localhost` or by one of these names.
    pub hosts: Vec<String>,
    /// The file of the certificate that clients are shown.
    pub certificate: Option<PathBuf>,
    /// The memory that sessions share.
    pub memory: Option<MemoryReading>,
}

/// Serves the operator until `shutdown` is cancelled.
pub async fn serve(
    listener: TcpListener,
    exchange: Arc<Reloadable>,
    shown: AdminPages,
    shutdown: CancellationToken,
) {
    let shown = Arc::new(shown);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (Ok((socket, _)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned())
        else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let (exchange, shown, shutdown) = (exchange.clone(), shown.clone(), shutdown.clone());
        tokio::spawn(async move {
            let answered = one(socket, &exchange, &shown, &shutdown);
            // A client that is too slow is left alone.
            let _ = tokio::time::timeout(PATIENCE, answered).await;
            drop(place);
        });
    }
}

async fn one(
    mut socket: TcpStream,
    exchange: &Reloadable,
    shown: &AdminPages,
    shutdown: &CancellationToken,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX || socket.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let first = request
        .split(|&byte| byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut words = std::str::from_utf8(first).unwrap_or_default().split(' ');
    let page = match (
        words.next(),
        words
            .next()
            .map(|path| path.split('?').next().unwrap_or_default()),
    ) {
        _ if !hosts_of(&request)
            .iter()
            .all(|host| is_own_name(host, &shown.hosts)) =>
        {
            plain(
                "421 Misdirected Request",
                "give this name by --admin-host, or ask by address\n",
            )
        }
        (Some("GET" | "HEAD"), Some(path)) => page(path, exchange, shown, shutdown).await,
        _ => plain("405 Method Not Allowed", "only GET is answered\n"),
    };
    let Page { status, kind, body } = page;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: \
            close\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    if !first.starts_with(b"HEAD") {
        socket.write_all(body.as_bytes()).await?;
    }
    socket.shutdown().await
}

/// The hosts that a request names. In an attack by DNS rebinding a foreign page points its own name
/// at this address, and the browser sends that name. A request without a Host does not come from a
/// browser.
fn hosts_of(request: &[u8]) -> Vec<&str> {
    let text = std::str::from_utf8(request).unwrap_or_default();
    let fields = text
        .split("\r\n")
        .skip(1)
        .filter_map(|line| line.split_once(':'));
    let hosts = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"));
    hosts.map(|(_, host)| host.trim()).collect()
}

async fn page(
    path: &str,
    exchange: &Reloadable,
    shown: &AdminPages,
    shutdown: &CancellationToken,
) -> Page {
    match path {
        "/healthz" => plain("200 OK", "ok\n"),
        "/readyz" if shutdown.is_cancelled() => plain("503 Service Unavailable", "stopping\n"),
        "/readyz" => match exchange.current().check().await.fault() {
            None => ready(exchange).await,
            Some((target, reach)) => plain(
                "503 Service Unavailable",
                &format!("the {} is {}\n", target.name(), reach.words()),
            ),
        },
        "/metrics" => metrics::page(exchange, shown).await,
        _ => plain(
            "404 Not Found",
            "there are /healthz, /readyz and /metrics\n",
        ),
    }
}

/// Ready, with the tables whose questions are refused.
async fn ready(exchange: &Reloadable) -> Page {
    let engine = exchange.current();
    let changed = tokio::time::timeout(READ_PATIENCE, engine.changed_tables()).await;
    let changed = changed.ok().and_then(Result::ok).unwrap_or_default();
    let lines = changed.iter().map(|table| {
        format!("the definition of {table} has changed since the policy was loaded\n")
    });
    plain(
        "200 OK",
        &std::iter::once("ready\n".to_owned())
            .chain(lines)
            .collect::<String>(),
    )
}

fn plain(status: &'static str, body: &str) -> Page {
    Page {
        status,
        kind: "text/plain; charset=utf-8",
        body: body.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_names_are_turned_away() {
        let hosts = ["pgveil".to_owned()];
        for (request, own) in [
            (
                "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:6433\r\n\r\n",
                true,
            ),
            ("GET /metrics HTTP/1.1\r\nhost: [::1]:6433\r\n\r\n", true),
            ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", true),
            ("GET /metrics HTTP/1.1\r\nHost: PGVEIL:6433\r\n\r\n", true),
            ("GET /metrics HTTP/1.0\r\n\r\n", true),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", false),
            (
                "GET /metrics HTTP/1.1\r\nHost: a\r\nHost: evil.example:1\r\n\r\n",
                false,
            ),
            ("GET /metrics HTTP/1.1\r\nHost:\r\n\r\n", false),
        ] {
            let named = hosts_of(request.as_bytes());
            let is_answered = named.iter().all(|host| is_own_name(host, &hosts));
            assert_eq!(is_answered, own, "{request}");
        }
    }
}
