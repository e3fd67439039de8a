//! The one way to connect to a PostgreSQL: unix sockets without TLS, networks with rustls unless
//! the URL says `sslmode=disable`. Only a server on this machine may fall back to no TLS by itself:
//! a remote server that claims to have none could be an impostor.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::Error;

/// A client, and the task that moves its bytes. Dropping it ends the session once its last
/// statement has ended.
#[derive(Debug)]
pub struct Connected {
    pub client: Client,
    task: JoinHandle<()>,
}

impl Connected {
    /// Says goodbye and waits until the session is over, so that an engine of one session takes the
    /// next.
    pub async fn close(self) {
        drop(self.client);
        if let Err(error) = self.task.await {
            // Printed, it would quote the panic's text.
            tracing::debug!(
                panicked = error.is_panic(),
                "a connection's task ended badly"
            );
        }
    }
}

/// Time limit for a server to accept a connection or a cancel request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens one connection.
pub async fn connect(config: &Config) -> Result<Connected, Error> {
    tokio::time::timeout(PATIENCE, open(config))
        .await
        .unwrap_or(Err(Error::Silent(PATIENCE)))
}

async fn open(config: &Config) -> Result<Connected, Error> {
    if is_plain(config) {
        let (client, connection) = config.connect(NoTls).await?;
        return Ok(Connected {
            client,
            task: tokio::spawn(drive(connection)),
        });
    }
    let mut config = config.clone();
    if config.get_ssl_mode() == SslMode::Prefer && !is_local(&config) {
        config.ssl_mode(SslMode::Require);
    }
    let (client, connection) = config.connect(tls()?).await?;
    Ok(Connected {
        client,
        task: tokio::spawn(drive(connection)),
    })
}

/// Asks the server to cancel what this client runs.
pub async fn cancel(config: &Config, client: &Client) -> Result<(), Error> {
    let token = client.cancel_token();
    let asked = async {
        if is_plain(config) {
            token.cancel_query(NoTls).await?
        } else {
            token.cancel_query(tls()?).await?
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, asked)
        .await
        .unwrap_or(Err(Error::Silent(PATIENCE)))
}

fn is_plain(config: &Config) -> bool {
    config
        .get_hosts()
        .iter()
        .all(|host| matches!(host, Host::Unix(_)))
        || config.get_ssl_mode() == SslMode::Disable
}

/// Every host is this machine.
fn is_local(config: &Config) -> bool {
    let named = config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse::<IpAddr>()
                    .is_ok_and(|address| address.is_loopback())
        }
    });
    named && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

async fn drive<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    if let Err(error) = connection.await {
        // Only the code: the text may quote a statement.
        tracing::debug!(
            sqlstate = error.code().map(|code| code.code()),
            "a connection to PostgreSQL ended"
        );
    }
}

/// The file of authorities that are trusted in addition to Mozilla's; the name of the variable is
/// OpenSSL's.
const AUTHORITIES: &str = "SSL_CERT_FILE";

/// Certificates are verified against Mozilla's roots and the operator's, with the host's name.
fn tls() -> Result<MakeRustlsConnect, Error> {
    let mut roots =
        rustls::RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(file) = std::env::var_os(AUTHORITIES).filter(|file| !file.is_empty()) {
        let own =
            CertificateDer::pem_file_iter(&file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for certificate in own.map_err(|error| Error::Authorities(error.to_string()))? {
            roots
                .add(certificate)
                .map_err(|error| Error::Authorities(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
