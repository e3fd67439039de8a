//! Connections to the backing database: a fixed number, kept between statements, thrown away after any error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use tokio_postgres::Statement;

use crate::catalog;
use crate::postgres::{self, Connected};

/// The backing database.
pub struct Backend {
    config: tokio_postgres::Config,
    size: usize,
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

/// A session, with the statement that each plan is checked by prepared in it.
struct Connection {
    connected: Connected,
    fingerprints: Statement,
}

/// One connection, in use. Given back only by [`Lease::keep`]; dropped otherwise.
pub struct Lease {
    connection: Connection,
    idle: Arc<Mutex<Vec<Connection>>>,
    _place: OwnedSemaphorePermit,
}

impl Backend {
    /// `connections` at most are open at a time; an embedded engine bears one.
    pub fn new(config: tokio_postgres::Config, connections: usize) -> Self {
        let size = connections.max(1);
        Self { config, size, places: Arc::new(Semaphore::new(size)), idle: Arc::default() }
    }

    pub(super) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// Connections in use, and how many there may be.
    pub fn used(&self) -> (usize, usize) {
        (self.size.saturating_sub(self.places.available_permits()), self.size)
    }

    /// Whether the database answers; while all connections are in use, it does.
    pub async fn answers(&self) -> bool {
        if self.places.available_permits() == 0 {
            return true;
        }
        let Ok(lease) = self.lease().await else { return false };
        let answered = lease.client().simple_query("SELECT 1").await.is_ok();
        if answered {
            lease.keep();
        }
        answered
    }

    /// Those of these tables (OID and fingerprint) whose definition is another now, or that are gone.
    ///
    /// # Errors
    /// Where the database cannot be asked; the text is for the operator.
    pub async fn changed(&self, tables: &[(u32, &str)]) -> Result<Vec<u32>, String> {
        let lease = self.lease().await?;
        let oids: Vec<u32> = tables.iter().map(|(oid, _)| *oid).collect();
        let current = lease.fingerprints(&oids).await?;
        lease.keep();
        let differs = |(oid, fingerprint): &&(u32, &str)| current.get(oid).map(String::as_str) != Some(*fingerprint);
        Ok(tables.iter().filter(differs).map(|(oid, _)| *oid).collect())
    }

    pub(super) async fn lease(&self) -> Result<Lease, String> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|e| e.to_string())?;
        let kept = self.idle.lock().map_err(|e| e.to_string())?.pop();
        let connection = match kept.filter(|c| !c.connected.client.is_closed()) {
            Some(connection) => connection,
            None => {
                let connected = postgres::connect(&self.config).await.map_err(|e| e.to_string())?;
                let fingerprints = connected.client.prepare(catalog::FINGERPRINT_SQL).await.map_err(|e| e.to_string())?;
                Connection { connected, fingerprints }
            }
        };
        Ok(Lease { connection, idle: Arc::clone(&self.idle), _place: place })
    }
}

impl Lease {
    pub(super) fn client(&self) -> &tokio_postgres::Client {
        &self.connection.connected.client
    }

    /// The definitions of these tables as the session sees them now; a table that is gone is missing.
    pub(super) async fn fingerprints(&self, tables: &[u32]) -> Result<BTreeMap<u32, String>, String> {
        catalog::fingerprints_prepared(self.client(), &self.connection.fingerprints, tables).await.map_err(|e| e.to_string())
    }

    /// Puts the connection back for the next statement.
    pub(super) fn keep(self) {
        let Self { connection, idle, _place } = self;
        if let Ok(mut idle) = idle.lock() {
            idle.push(connection);
        }
    }
}
