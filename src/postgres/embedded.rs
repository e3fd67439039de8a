//! PostgreSQL 17 inside this process, for machines without binaries: one session, no
//! `statement_timeout`, for demo and tests.

use std::path::Path;
use std::time::Duration;

use pglite_oxide::PgliteServer;

use super::temporary_directory::Directory;
use super::{Error, MAINTENANCE, ServerOptions, database};

/// How long a drop waits for the engine's thread, which serves its client to the end.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(3);

const SCRIPT: &str = "read -r _; rm -rf -- \"$1\"";

/// Field order is drop order: the engine ends before its directory goes.
#[derive(Debug)]
pub struct Embedded {
    server: Option<PgliteServer>,
    directory: Directory,
    config: tokio_postgres::Config,
}

impl Embedded {
    pub async fn start(options: &ServerOptions) -> Result<Self, Error> {
        let directory = Directory::create(None, SCRIPT, &[])?;
        let root = directory.path().join("root");
        let socket = directory.path().join(".s.PGSQL.5432");
        let settings = options.settings.clone();
        let start = move || {
            PgliteServer::builder()
                .path(root)
                .unix(socket)
                .postgres_configs(settings)
                .start()
        };
        let server = match tokio::task::spawn_blocking(start).await {
            Ok(Ok(server)) => server,
            Ok(Err(error)) => {
                return Err(Error::Start {
                    log: format!("{error:#}"),
                });
            }
            Err(error) => {
                return Err(Error::Start {
                    log: error.to_string(),
                });
            }
        };
        let mut config: tokio_postgres::Config = server.database_url().parse()?;
        config.dbname(MAINTENANCE).application_name("pgveil");
        let mut embedded = Self {
            server: Some(server),
            directory,
            config,
        };
        database::create(&mut embedded.config, options).await?;
        Ok(embedded)
    }

    pub fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    pub fn url(&self) -> String {
        super::url(self.directory.path(), &self.config)
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let Some(server) = self.server.take() else {
            return;
        };
        let (done, ended) = std::sync::mpsc::channel();
        let spawned = std::thread::Builder::new()
            .name("pgveil-embedded-stop".to_owned())
            .spawn(move || {
                if let Err(error) = server.shutdown() {
                    tracing::warn!(%error, "stopping the embedded PostgreSQL");
                }
                // The receiver may have given up.
                let _ = done.send(());
            });
        if spawned.is_err() || ended.recv_timeout(SHUTDOWN_WAIT).is_err() {
            tracing::warn!(
                "the embedded PostgreSQL still serves a client; its thread ends with the client"
            );
        }
    }
}
