//! Binds the addresses that are served.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::Failure;

/// Binds the address that clients connect to.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|e| {
        Failure::with_remedy(
            format_args!("cannot listen on {address}: {e}"),
            format!(
                "Choose another address, for example --listen 127.0.0.1:{}.",
                address.port().checked_add(1).unwrap_or(7000)
            ),
        )
    })
}
