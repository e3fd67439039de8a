//! The lock that makes a named shadow one proxy's alone. Two proxies on one shadow would each
//! rebuild it under the other at every reload.
//!
//! It is a session's advisory lock, held by a separate connection for as long as the process
//! serves. The engines of one process share it, so that a reload may rebuild the shadow in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config};

use super::ShadowError;
use crate::postgres::{Connected, connect};

/// The lock's key in the shadow's database.
const KEY: i64 = 0x7067_7665_696d;
/// How long a start waits for a proxy that is about to end.
const WAIT: Duration = Duration::from_secs(5);
/// How often the connection is looked after, and how long its answer may take.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A lock on a shadow, until it is dropped.
#[derive(Debug)]
pub struct ShadowLock {
    is_lost: Arc<AtomicBool>,
    keeper: JoinHandle<()>,
}

impl ShadowLock {
    /// Takes the lock.
    ///
    /// # Errors
    /// If another proxy holds it.
    pub(super) async fn take(shadow: &Config) -> Result<Self, ShadowError> {
        let connected = connect(shadow).await?;
        if !lock(&connected.client).await? {
            return Err(ShadowError::Failed(
                "another pgveil uses the database of shadow.url: give each proxy a separate \
                    shadow"
                    .to_owned(),
            ));
        }
        let is_lost = Arc::new(AtomicBool::new(false));
        let keeper = tokio::spawn(keep(shadow.clone(), connected, Arc::clone(&is_lost)));
        Ok(Self { is_lost, keeper })
    }

    /// Whether another proxy took the lock while the server was out of reach: it may have rebuilt
    /// the shadow.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for ShadowLock {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Takes the lock again each time its session ends, until another proxy has it.
async fn keep(shadow: Config, mut connected: Connected, is_lost: Arc<AtomicBool>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let asked = connected.client.simple_query("SELECT 1");
        if let Ok(Ok(_)) = tokio::time::timeout(LOOK_EVERY, asked).await {
            continue;
        }
        // `/readyz` reports a server that is out of reach.
        let Ok(again) = connect(&shadow).await else {
            continue;
        };
        match lock(&again.client).await {
            Ok(true) => connected = again,
            Ok(false) => {
                tracing::error!(
                    "another pgveil has taken the database of shadow.url: give each proxy a \
                        separate shadow, and restart this one"
                );
                is_lost.store(true, Ordering::Relaxed);
                return;
            }
            Err(error) => tracing::warn!("the shadow's lock could not be taken again: {error}"),
        }
    }
}

/// Whether this session has the lock now.
async fn lock(client: &Client) -> Result<bool, ShadowError> {
    let patience = format!("SET lock_timeout = {}", WAIT.as_millis());
    client.batch_execute(&patience).await?;
    let sql = "SELECT pg_catalog.pg_advisory_lock($1)";
    match client.execute(sql, &[&KEY]).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether a session holds the lock. What is taken here to find out ends with the session.
pub(super) async fn is_held(client: &Client) -> Result<bool, ShadowError> {
    let sql = "SELECT pg_catalog.pg_try_advisory_lock($1)";
    let taken: bool = client.query_one(sql, &[&KEY]).await?.try_get(0)?;
    Ok(!taken)
}
