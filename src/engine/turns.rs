//! Turns of equal questions: the second of two that ask the same at once waits for the first, and finds its answer.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

use crate::rewrite::Plan;

type Turn = tokio::sync::Mutex<()>;

/// Who is asking what, on this proxy.
#[derive(Default)]
pub struct Turns {
    running: std::sync::Mutex<HashMap<[u8; 32], Weak<Turn>>>,
}

impl Turns {
    /// Waits until nobody else asks any of the plan's questions. The turns end when the guards are dropped.
    pub async fn wait(&self, plan: &Plan) -> Vec<OwnedMutexGuard<()>> {
        let mut questions: Vec<[u8; 32]> = plan.releases().iter().filter(|r| !r.statements().is_empty()).map(|r| r.question()).collect();
        // In one order for everybody, so that no two wait for each other.
        questions.sort_unstable();
        questions.dedup();
        let mut guards = Vec::with_capacity(questions.len());
        for question in questions {
            guards.push(self.turn(question).lock_owned().await);
        }
        guards
    }

    fn turn(&self, question: [u8; 32]) -> Arc<Turn> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get(&question).and_then(Weak::upgrade) {
            return turn;
        }
        running.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::default());
        running.insert(question, Arc::downgrade(&turn));
        turn
    }
}
