//! What a shadow is started with.

use std::sync::Arc;
use std::time::Duration;

use super::exclusive_lock::ShadowLock;
use super::server_identity::ServerIdentity;
use crate::policy::Secret;
use crate::postgres::{LocalPostgres, Locale, PostgresEngine};

/// Which server the shadow lives on.
#[derive(Debug, Clone)]
pub enum ShadowSource {
    /// A second server that the operator names. Its database must be empty or an earlier shadow; it
    /// is rebuilt.
    Url(Secret),
    /// A throw-away server that pgveil starts, the best this machine offers.
    Local,
    /// A throw-away server of this kind.
    LocalEngine(PostgresEngine),
    /// One that [`server`] has started.
    Started(Arc<LocalPostgres>),
}

/// How the shadow is set up.
#[derive(Debug, Clone)]
pub struct ShadowOptions {
    pub source: ShadowSource,
    /// The real database's name, so that `current_database()` agrees (a local shadow only).
    pub database: String,
    /// The real server's version, for example `15.18`; another major version is worth a warning.
    pub server_version: String,
    /// The real database's locale. A local shadow has it too where the machine offers it; any other
    /// locale causes a warning.
    pub locale: Option<Locale>,
    /// The server of the private rows, where it identifies itself. Its catalogs reveal facts about
    /// these rows, so a named shadow must be on another server.
    pub private_server: Option<ServerIdentity>,
    /// The lock on a named shadow that this process has already.
    pub hold: Option<Arc<ShadowLock>>,
    /// Sessions kept open; the embedded engine takes one.
    pub connections: usize,
    pub statement_timeout: Duration,
}

impl ShadowOptions {
    /// Eight sessions, 30 s a statement.
    pub fn new(
        source: ShadowSource,
        database: impl Into<String>,
        server_version: impl Into<String>,
    ) -> Self {
        let (database, server_version) = (database.into(), server_version.into());
        Self {
            source,
            database,
            server_version,
            locale: None,
            private_server: None,
            hold: None,
            connections: 8,
            statement_timeout: Duration::from_secs(30),
        }
    }
}
