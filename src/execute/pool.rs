//! Connections to the backing database: a fixed number, kept between statements, thrown away after
//! any error.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::Statement;

use crate::catalog;
use crate::catalog::{Content, PRINTED, TableFingerprint};
use crate::postgres;
use crate::postgres::{Connected, FairPool, PoolUse};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// For a Citus coordinator: propagates settings to its workers from here on.
const HAND_ON: &str = "SET LOCAL citus.propagate_set_commands = 'local'";

/// Pins the settings that could change how a value is read or printed, so that a statement always
/// has the same meaning.
const PINS: [&str; 14] = [
    "SET LOCAL search_path = pg_catalog",
    "SET LOCAL \"TimeZone\" = 'UTC'",
    "SET LOCAL \"DateStyle\" = 'ISO, MDY'",
    "SET LOCAL \"IntervalStyle\" = 'postgres'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL row_security = off",
    "SET LOCAL standard_conforming_strings = on",
    "SET LOCAL lock_timeout = '5s'",
    "SET LOCAL array_nulls = on",
    "SET LOCAL backslash_quote = safe_encoding",
    "SET LOCAL transform_null_equals = off",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
    "SET LOCAL statement_timeout = '10s'",
    "SET LOCAL plan_cache_mode = force_generic_plan",
];

/// Emitted statements are planned for their values; the check of definitions is not.
const ANY_PLAN: &str = "SET LOCAL plan_cache_mode = auto";

/// The backing database.
pub struct Backend {
    config: tokio_postgres::Config,
    size: usize,
    places: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
    shares: FairPool,
}

/// A session, with the prepared statement that checks each plan.
struct Connection {
    connected: Connected,
    fingerprints: Statement,
    /// If a server becomes a Citus coordinator, the fingerprints of its tables change too. Then
    /// nothing is read before the policy is loaded again.
    is_citus: bool,
}

/// One connection, in use. Given back only by [`DatabaseLease::keep`]; dropped otherwise.
pub struct DatabaseLease {
    connection: Connection,
    /// Whether the connection was used before, and may be broken by now.
    pub(super) was_idle: bool,
    idle: Arc<Mutex<Vec<Connection>>>,
    _place: OwnedSemaphorePermit,
}

impl Backend {
    /// At most `connections` are open at a time; an embedded engine supports one.
    pub fn new(config: tokio_postgres::Config, connections: usize) -> Self {
        let size = connections.max(1);
        Self {
            config,
            size,
            places: Arc::new(Semaphore::new(size)),
            idle: Arc::default(),
            shares: FairPool::new(size),
        }
    }

    pub(super) fn config(&self) -> &tokio_postgres::Config {
        &self.config
    }

    /// Its connections that are in use.
    pub fn in_use(&self) -> PoolUse {
        PoolUse {
            used: self.size.saturating_sub(self.places.available_permits()),
            size: self.size,
        }
    }

    /// Whether the database answers. While all connections are in use, the answer is yes.
    pub async fn answers(&self) -> bool {
        if self.places.available_permits() == 0 {
            return true;
        }
        let Ok(lease) = self.lease().await else {
            return false;
        };
        let answered = lease.client().simple_query("SELECT 1").await.is_ok();
        if answered {
            lease.keep();
        }
        answered
    }

    /// Which of these tables (OID and fingerprint) have another definition now, or are gone.
    ///
    /// # Errors
    /// If the database cannot be queried; the text is for the operator.
    pub async fn changed_definitions(
        &self,
        tables: &[(u32, &TableFingerprint)],
    ) -> Result<Vec<u32>, String> {
        let lease = self.lease().await?;
        let oids: Vec<u32> = tables.iter().map(|(oid, _)| *oid).collect();
        let current = tokio::time::timeout(super::PATIENCE, lease.fingerprints(&oids)).await;
        let current = current
            .map_err(|_| "no answer in time".to_owned())?
            .map_err(|e| e.to_string())?;
        lease.keep();
        let differs =
            |(oid, fingerprint): &&(u32, &TableFingerprint)| current.get(oid) != Some(*fingerprint);
        Ok(tables.iter().filter(differs).map(|(oid, _)| *oid).collect())
    }

    /// For each of these public tables, whether its rows differ from this digest.
    ///
    /// # Errors
    /// If the database cannot be queried; the text is for the operator.
    pub async fn changed_contents(&self, contents: &[&Content]) -> Result<Vec<bool>, String> {
        if contents.is_empty() {
            return Ok(Vec::new());
        }
        let lease = self.lease().await?;
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {PRINTED}");
        lease
            .client()
            .batch_execute(&begin)
            .await
            .map_err(|e| e.to_string())?;
        let changed = which_changed(lease.client(), contents)
            .await
            .map_err(|e| e.to_string())?;
        lease
            .client()
            .batch_execute("COMMIT")
            .await
            .map_err(|e| e.to_string())?;
        lease.keep();
        Ok(changed)
    }

    /// A slot for using the database. No role can hold all slots.
    pub(super) async fn share(&self, role: &str) -> Option<OwnedSemaphorePermit> {
        self.shares.take(role).await
    }

    /// Closes idle connections.
    pub(super) fn forget_idle(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    pub(super) async fn lease(&self) -> Result<DatabaseLease, String> {
        let place = Arc::clone(&self.places)
            .acquire_owned()
            .await
            .map_err(|e| e.to_string())?;
        let kept = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let kept = kept.filter(|c| !c.connected.client.is_closed());
        let was_idle = kept.is_some();
        let connection = match kept {
            Some(connection) => connection,
            None => {
                let connected = postgres::connect(&self.config)
                    .await
                    .map_err(|e| e.to_string())?;
                let known =
                    tokio::time::timeout(super::PATIENCE, prepare_check(&connected.client)).await;
                let (fingerprints, is_citus) = known
                    .map_err(|_| "no answer in time".to_owned())?
                    .map_err(|e| e.to_string())?;
                Connection {
                    connected,
                    fingerprints,
                    is_citus,
                }
            }
        };
        Ok(DatabaseLease {
            connection,
            was_idle,
            idle: Arc::clone(&self.idle),
            _place: place,
        })
    }
}

/// The statement that checks plans, and whether the server runs Citus.
async fn prepare_check(
    client: &tokio_postgres::Client,
) -> Result<(Statement, bool), tokio_postgres::Error> {
    let fingerprints = client.prepare(catalog::FINGERPRINT_SQL).await?;
    Ok((fingerprints, catalog::is_citus(client).await?))
}

pub(super) async fn which_changed(
    client: &tokio_postgres::Client,
    contents: &[&Content],
) -> Result<Vec<bool>, tokio_postgres::Error> {
    let mut changed = Vec::new();
    for content in contents {
        changed.push(content.has_changed(client).await?);
    }
    Ok(changed)
}

impl DatabaseLease {
    /// Whether the database is a Citus coordinator.
    pub(super) fn is_citus(&self) -> bool {
        self.connection.is_citus
    }

    /// Begins a snapshot under the pins and takes these locks; then reads the definitions of these
    /// tables in it. Both take one round trip, but for Citus.
    pub(super) async fn pin(
        &self,
        locks: &str,
        tables: &[u32],
    ) -> (
        Result<(), tokio_postgres::Error>,
        Result<BTreeMap<u32, TableFingerprint>, catalog::Error>,
    ) {
        let hand_on = self.connection.is_citus.then_some(HAND_ON);
        let begun = self.set(
            [BEGIN]
                .into_iter()
                .chain(hand_on)
                .chain(PINS)
                .chain((!locks.is_empty()).then_some(locks)),
        );
        let read = self.fingerprints(tables);
        match self.connection.is_citus {
            true => (begun.await, read.await),
            // Sent in this order, and done by the server one after the other.
            false => tokio::join!(biased; begun, read),
        }
    }

    /// Allows statements this much time from here on.
    pub(super) async fn allow(&self, timeout: Duration) -> Result<(), tokio_postgres::Error> {
        let limit = format!("SET LOCAL statement_timeout = {}", timeout.as_millis());
        self.set([limit.as_str(), ANY_PLAN]).await
    }

    /// Runs SET statements in one round trip. Citus forwards each with the whole text that
    /// contained it, so there each is sent separately.
    pub(super) async fn set<'s>(
        &self,
        statements: impl IntoIterator<Item = &'s str>,
    ) -> Result<(), tokio_postgres::Error> {
        let statements: Vec<&str> = statements.into_iter().collect();
        if !self.connection.is_citus {
            return self.client().batch_execute(&statements.join("; ")).await;
        }
        for statement in statements {
            self.client().batch_execute(statement).await?;
        }
        Ok(())
    }

    pub(super) fn client(&self) -> &tokio_postgres::Client {
        &self.connection.connected.client
    }

    /// The current definitions of these tables as the session sees them, without tables that are
    /// gone.
    pub(super) async fn fingerprints(
        &self,
        tables: &[u32],
    ) -> Result<BTreeMap<u32, TableFingerprint>, catalog::Error> {
        catalog::fingerprints_prepared(self.client(), &self.connection.fingerprints, tables).await
    }

    /// Puts the connection back for the next statement.
    pub(super) fn keep(self) {
        let Self {
            connection,
            was_idle: _,
            idle,
            _place,
        } = self;
        idle.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(connection);
    }
}
