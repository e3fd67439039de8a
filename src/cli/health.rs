//! `pgveil health` asks a running proxy whether it is ready: for health checks where there is no
//! HTTP client.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Failure;

/// For the whole answer. The proxy asks its database, shadow and ledger.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 64 << 10;

pub async fn run(admin: SocketAddr) -> Result<(), Failure> {
    let unreachable = |error: &dyn std::fmt::Display| {
        Failure::with_remedy(
            format_args!("no answer from {admin}: {error}"),
            "Give the address of `pgveil serve --admin`.",
        )
    };
    let answer = tokio::time::timeout(PATIENCE, ask(admin)).await;
    let answer = answer
        .map_err(|_| unreachable(&"it took too long"))?
        .map_err(|error| unreachable(&error))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().and_then(|line| line.split(' ').nth(1));
    match status {
        Some("200") => {
            print!("{body}");
            Ok(())
        }
        Some(_) => Err(Failure::new(body.trim_end())),
        None => Err(unreachable(&"it does not speak HTTP")),
    }
}

async fn ask(admin: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect(admin).await?;
    let request = format!("GET /readyz HTTP/1.0\r\nHost: {admin}\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    socket
        .take(ANSWER_BYTES_MAX)
        .read_to_end(&mut answer)
        .await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
