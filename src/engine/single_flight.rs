//! Turns of equal questions: the second of two that ask the same at once waits for the first, and
//! finds its answer.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::rewrite::Plan;

type Flight = tokio::sync::Mutex<()>;

/// A question, and the role among whose sessions the turn is; none where it is among the roles.
type Key = ([u8; 32], Option<String>);

/// Who is asking what, on this proxy.
#[derive(Default)]
pub struct SingleFlight {
    running: std::sync::Mutex<HashMap<Key, Weak<Flight>>>,
}

impl SingleFlight {
    /// Waits until no other session of the role asks any of the plan's questions, then for other
    /// roles' sessions, these for `most` only. The turns end when the guards are dropped.
    ///
    /// Behind itself a role waits for as long as it takes: it would pay for the same answer again.
    /// Who waits for other roles has all turns of its own role, and nobody who has one of theirs
    /// waits for any of these: there is no circle.
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
        let mut questions: Vec<[u8; 32]> = plan
            .releases()
            .iter()
            .filter(|r| !r.statements().is_empty())
            .map(|r| r.question())
            .collect();
        // In one order for everybody, so that no two wait for each other.
        questions.sort_unstable();
        questions.dedup();
        let mut guards = Vec::with_capacity(questions.len());
        for question in questions {
            guards.push(
                self.turn((question, of.map(str::to_owned)))
                    .lock_owned()
                    .await,
            );
        }
        guards
    }

    fn turn(&self, key: Key) -> Arc<Flight> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        running.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Flight::default());
        running.insert(key, Arc::downgrade(&turn));
        turn
    }
}
