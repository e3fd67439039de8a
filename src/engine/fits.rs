//! Fits the records of released tables without keeping a thread from others for long.

use super::Engine;
use super::planning_limit::StatementSize;
use crate::finish::{Fits, Fitting};
use crate::shadow::Requester;

impl Engine {
    /// Computes fits, turn by turn. Long ones wait for their turns among large statements. To stop
    /// them, drop the future.
    pub(super) async fn fitted(&self, requester: &Requester, mut fitting: Fitting<'_>) -> Fits {
        let size = match fitting.is_short() {
            true => StatementSize::Small,
            false => StatementSize::Large,
        };
        while !fitting.is_done() {
            let permit = self.planning_limit.acquire(&requester.role, size).await;
            permit.work(|| fitting.turn());
            tokio::task::yield_now().await;
        }
        fitting.made()
    }
}
