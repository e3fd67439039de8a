//! Looks now and then whether the database's tables are still what the policy was checked against.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::Exchange;

const EVERY: Duration = Duration::from_secs(60);

/// Warns of each change once, until `shutdown` is cancelled.
pub async fn watch(exchange: Arc<Exchange>, shutdown: CancellationToken) {
    let mut known = Vec::new();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        // A database out of reach is for `/readyz` to tell.
        let Ok(changed) = exchange.current().changed_tables().await else { continue };
        for table in changed.iter().filter(|table| !known.contains(*table)) {
            tracing::warn!(
                table,
                "the definition of a table has changed since the policy was loaded: questions of it are refused until the policy is reloaded"
            );
        }
        known = changed;
    }
}
