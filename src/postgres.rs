//! A throw-away PostgreSQL on a private unix socket, used by the shadow, the demo and the tests.
//!
//! Binaries found on the machine run as a real server ([`PostgresEngine::Native`]); without them,
//! and with the cargo feature `embedded`, PostgreSQL runs inside this process
//! ([`PostgresEngine::Embedded`]). Either way a `sh` of three lines watches a pipe whose other end
//! only this process holds: when the pipe closes (stop, drop, panic, SIGKILL of this process), it
//! stops the server and removes the directory. `PR_SET_PDEATHSIG` was not used: it fires when the
//! *thread* that spawned dies, and it removes no directory.

mod array;
mod binaries;
mod cluster_cache;
mod connect;
mod database;
#[cfg(feature = "embedded")]
mod embedded;
mod error_class;
mod fair_pool;
mod locale;
mod native;
mod quote;
mod temporary_directory;

use std::path::PathBuf;
use std::time::Duration;

pub use array::array_text;
pub use binaries::major_version;
pub use cluster_cache::{CACHE_VARIABLE, KeptClusters};
pub use connect::{Connected, cancel, connect};
pub use error_class::ErrorClass;
pub use fair_pool::{FairPool, PoolUse};
pub use locale::Locale;
pub use quote::{create_index, identifier, list, literal, qualify};
pub use temporary_directory::Directory;

/// The environment variable that names the directory of the PostgreSQL binaries, or says
/// `embedded`.
pub const BINARIES_VARIABLE: &str = "PGVEIL_PG_BIN";

const SUPERUSER: &str = "postgres";
/// The database that every cluster has.
const MAINTENANCE: &str = "postgres";

/// Why no local PostgreSQL came up, or why a connection did not.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "no PostgreSQL server binaries found: install PostgreSQL, set {BINARIES_VARIABLE} to the \
            directory that holds initdb and postgres, or build pgveil with --features embedded"
    )]
    NoBinaries,
    #[error("{BINARIES_VARIABLE}={} does not hold initdb and postgres", directory.display())]
    BadBinaries { directory: PathBuf },
    #[error("{BINARIES_VARIABLE}=embedded, but this pgveil was built without --features embedded")]
    NotEmbedded,
    #[error(
        "pgveil runs as root and found neither a user postgres nor nobody to run PostgreSQL as"
    )]
    NoUser,
    #[error("local PostgreSQL: {doing}: {source}")]
    Io {
        doing: &'static str,
        source: std::io::Error,
    },
    #[error("local PostgreSQL did not start: {log}")]
    Start { log: String },
    #[error("local PostgreSQL was not ready after {} s: {log}", waited.as_secs())]
    Timeout { waited: Duration, log: String },
    #[error("connecting to PostgreSQL: {0}")]
    Connect(#[from] tokio_postgres::Error),
    #[error("connecting to PostgreSQL: no answer within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("SSL_CERT_FILE: {0}")]
    Authorities(String),
    #[error("TLS towards PostgreSQL: {0}")]
    Tls(#[from] rustls::Error),
}

/// Which PostgreSQL answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresEngine {
    /// A server process: as many connections as it is configured for.
    Native,
    /// In this process: exactly one connection at a time, and `statement_timeout` is not honoured.
    Embedded,
}

/// The options of the throw-away server.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The database to create; `None`: `postgres`.
    pub database: Option<String>,
    /// The locale of the database, if this machine has it. Otherwise, and for `None`, the server's
    /// locale, which is C.
    pub locale: Option<Locale>,
    /// A stopped cluster that has the database; the server is a copy of it. `None`: the database is
    /// created in a cluster of initdb's.
    pub copy_of: Option<PathBuf>,
    /// Further server settings (name, value), for example `("shared_buffers", "64MB")`.
    pub settings: Vec<(String, String)>,
}

/// A running throw-away PostgreSQL. Dropping it stops the server and removes every trace.
#[derive(Debug)]
pub struct LocalPostgres {
    config: tokio_postgres::Config,
    url: String,
    server: Server,
}

#[derive(Debug)]
enum Server {
    Native(Box<native::Native>),
    #[cfg(feature = "embedded")]
    Embedded(Box<embedded::Embedded>),
}

impl LocalPostgres {
    /// Starts the best server available on this machine and waits until it answers.
    pub async fn start(options: ServerOptions) -> Result<Self, Error> {
        Self::start_found(binaries::find()?, options).await
    }

    /// Prepares the cluster that servers are copied from, which takes a second. [`Self::start`]
    /// reports a failure.
    pub async fn prepare() {
        if let Ok(binaries::PostgresSource::Directory(binaries)) = binaries::find() {
            let _ = native::pristine(&binaries).await;
        }
    }

    /// Takes this cluster, on which no server has run, in place of initdb's, for all servers that
    /// this process will start from the binaries of this machine; `None` takes initdb's again.
    pub async fn prepare_from(empty: Option<PathBuf>) {
        if let Ok(binaries::PostgresSource::Directory(binaries)) = binaries::find() {
            native::prepare_from(&binaries, empty).await;
        }
    }

    /// What [`Self::start`] would start.
    ///
    /// # Errors
    /// Where it would start nothing.
    pub fn engine_here() -> Result<PostgresEngine, Error> {
        binaries::find().map(|found| match found {
            binaries::PostgresSource::Directory(_) => PostgresEngine::Native,
            binaries::PostgresSource::Embedded => PostgresEngine::Embedded,
        })
    }

    /// Starts a server of one kind, regardless of the environment.
    pub async fn start_engine(
        engine: PostgresEngine,
        options: ServerOptions,
    ) -> Result<Self, Error> {
        let found = match engine {
            PostgresEngine::Native => binaries::native()?,
            PostgresEngine::Embedded => binaries::PostgresSource::Embedded,
        };
        Self::start_found(found, options).await
    }

    async fn start_found(
        found: binaries::PostgresSource,
        options: ServerOptions,
    ) -> Result<Self, Error> {
        match found {
            binaries::PostgresSource::Directory(binaries) => {
                let native = native::Native::start(&binaries, &options).await?;
                let (config, url) = (native.config().clone(), native.url());
                Ok(Self {
                    config,
                    url,
                    server: Server::Native(Box::new(native)),
                })
            }
            binaries::PostgresSource::Embedded => Self::start_embedded(&options).await,
        }
    }

    #[cfg(feature = "embedded")]
    async fn start_embedded(options: &ServerOptions) -> Result<Self, Error> {
        let embedded = embedded::Embedded::start(options).await?;
        let (config, url) = (embedded.config().clone(), embedded.url());
        Ok(Self {
            config,
            url,
            server: Server::Embedded(Box::new(embedded)),
        })
    }

    #[cfg(not(feature = "embedded"))]
    async fn start_embedded(_: &ServerOptions) -> Result<Self, Error> {
        Err(Error::NotEmbedded)
    }

    pub fn engine(&self) -> PostgresEngine {
        match &self.server {
            Server::Native(_) => PostgresEngine::Native,
            #[cfg(feature = "embedded")]
            Server::Embedded(_) => PostgresEngine::Embedded,
        }
    }

    /// A libpq URL of the superuser; the socket's directory is readable by its owner (and root)
    /// only.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address of [`Self::url`], for tokio-postgres.
    pub fn config(&self) -> tokio_postgres::Config {
        self.config.clone()
    }

    /// The directory that holds everything and disappears with the server.
    pub fn directory(&self) -> &std::path::Path {
        match &self.server {
            Server::Native(native) => native.directory(),
            #[cfg(feature = "embedded")]
            Server::Embedded(embedded) => embedded.directory(),
        }
    }

    /// Stops the server cleanly and keeps its cluster, and an empty one, for later runs. A failure
    /// keeps nothing.
    pub async fn stop_and_keep(self, kept: &KeptClusters) {
        match &self.server {
            Server::Native(native) => native.keep(kept.path()),
            #[cfg(feature = "embedded")]
            Server::Embedded(_) => {}
        }
        self.stop().await;
    }

    /// Stops the server and waits until its directory is gone. Close connections to an embedded one
    /// first: it serves its client to the end.
    pub async fn stop(self) {
        // Drop waits for the watchdog, which blocks.
        if tokio::task::spawn_blocking(move || drop(self))
            .await
            .is_err()
        {
            tracing::warn!("stopping the local PostgreSQL panicked");
        }
    }
}

fn url(directory: &std::path::Path, config: &tokio_postgres::Config) -> String {
    let database = config.get_dbname().unwrap_or(MAINTENANCE);
    format!(
        "postgresql://{SUPERUSER}@/{}?host={}&port=5432",
        percent_encode(database),
        directory.display()
    )
}

fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}
