//! Checks from time to time whether the database's tables are still as they were when the policy
//! was checked.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::engine::Reloadable;

const EVERY: Duration = Duration::from_secs(60);
/// Rows of large public tables are compared once in this many rounds.
const LARGE_EVERY: u32 = 10;

/// Warns of each change once, until `shutdown` is cancelled.
pub async fn watch(exchange: Arc<Reloadable>, shutdown: CancellationToken) {
    let (mut known, mut known_rows) = (Vec::new(), Vec::new());
    for round in 1u32.. {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let engine = exchange.current();
        // `/readyz` reports a database that cannot be reached.
        if let Ok(changed) = engine
            .changed_contents(round.is_multiple_of(LARGE_EVERY))
            .await
        {
            for table in changed.iter().filter(|table| !known_rows.contains(*table)) {
                tracing::warn!(
                    table,
                    "a public table has changed since it was loaded: answers that read it say so \
                        until the policy is reloaded"
                );
            }
            known_rows = changed;
        }
        let Ok(changed) = engine.changed_tables().await else {
            continue;
        };
        for table in changed.iter().filter(|table| !known.contains(*table)) {
            tracing::warn!(
                table,
                "the definition of a table has changed since the policy was loaded: questions of \
                    it \
                    are refused until the policy is reloaded"
            );
        }
        known = changed;
    }
}
