//! Answers equal questions once: the second of two concurrent sessions waits for the first, and
//! then finds its answer in the ledger.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::rewrite::{Plan, ReleaseDigest};

type Flight = tokio::sync::Mutex<()>;

/// A question, and the role for waits within one role; `None` for waits among roles.
type Key = (ReleaseDigest, Option<String>);

/// The questions that are being answered on this proxy.
#[derive(Default)]
pub struct SingleFlight {
    running: std::sync::Mutex<HashMap<Key, Weak<Flight>>>,
}

impl SingleFlight {
    /// Waits until no other session of the role asks any of the plan's questions, then for sessions
    /// of other roles, for these at most `most`. Dropping the guards ends the flights.
    ///
    /// Within its own role a session waits without a limit: it would pay for the same answer again
    /// otherwise. A session that waits for other roles holds all flights of its role, and no
    /// session that holds a flight among the roles waits for those. So waiting cannot form a cycle.
    pub async fn wait(&self, plan: &Plan, role: &str, most: Duration) -> Vec<OwnedMutexGuard<()>> {
        let mut guards = self.all(plan, Some(role)).await;
        guards.extend(
            tokio::time::timeout(most, self.all(plan, None))
                .await
                .unwrap_or_default(),
        );
        guards
    }

    async fn all(&self, plan: &Plan, of: Option<&str>) -> Vec<OwnedMutexGuard<()>> {
        let mut questions: Vec<ReleaseDigest> = plan
            .releases()
            .iter()
            .filter(|r| !r.statements().is_empty())
            .map(|r| r.question())
            .collect();
        // All sessions lock in the same order, so that two never wait for each other.
        questions.sort_unstable();
        questions.dedup();
        let mut guards = Vec::with_capacity(questions.len());
        for question in questions {
            guards.push(
                self.flight((question, of.map(str::to_owned)))
                    .lock_owned()
                    .await,
            );
        }
        guards
    }

    fn flight(&self, key: Key) -> Arc<Flight> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flight) = running.get(&key).and_then(Weak::upgrade) {
            return flight;
        }
        running.retain(|_, flight| flight.strong_count() > 0);
        let flight = Arc::new(Flight::default());
        running.insert(key, Arc::downgrade(&flight));
        flight
    }
}
