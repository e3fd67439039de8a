//! One way to connect to a PostgreSQL: unix sockets plainly, networks by rustls unless the URL says `sslmode=disable`.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Error;

/// A client, and the task that moves its bytes. Dropping it ends the session once its last statement has ended.
#[derive(Debug)]
pub struct Connected {
    pub client: Client,
    task: JoinHandle<()>,
}

impl Connected {
    /// Says goodbye and waits until the session is over, so that an engine of one session takes the next.
    pub async fn close(self) {
        drop(self.client);
        if let Err(error) = self.task.await {
            tracing::debug!(%error, "a connection's task ended badly");
        }
    }
}

/// Opens one connection.
pub async fn connect(config: &Config) -> Result<Connected, Error> {
    if is_plain(config) {
        let (client, connection) = config.connect(NoTls).await?;
        return Ok(Connected { client, task: tokio::spawn(drive(connection)) });
    }
    let (client, connection) = config.connect(tls()?).await?;
    Ok(Connected { client, task: tokio::spawn(drive(connection)) })
}

/// Asks the server to cancel what this client runs.
pub async fn cancel(config: &Config, client: &Client) -> Result<(), Error> {
    let token = client.cancel_token();
    if is_plain(config) {
        token.cancel_query(NoTls).await?
    } else {
        token.cancel_query(tls()?).await?
    }
    Ok(())
}

fn is_plain(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) || config.get_ssl_mode() == SslMode::Disable
}

async fn drive<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        // Only the code: the text may quote a statement.
        tracing::debug!(sqlstate = error.code().map(|code| code.code()), "a connection to PostgreSQL ended");
    }
}

/// Certificates are verified against Mozilla's roots, with the host's name.
fn tls() -> Result<MakeRustlsConnect, Error> {
    let roots = rustls::RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
