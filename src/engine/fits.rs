//! Fits the records of released tables without keeping a thread from others for long.

use super::Engine;
use super::planning_limit::StatementSize;
use super::run::Answered;
use super::timing::Timing;
use crate::error::Error;
use crate::finish::{Fits, Fitting};
use crate::ir::ReleaseId;
use crate::rewrite::Plan;
use crate::shadow::Requester;

impl Engine {
    /// The fits of an answer, until the client cancels.
    pub(super) async fn fits_of(
        &self,
        requester: &Requester,
        plan: &Plan,
        answered: &Answered,
        timing: &Timing,
    ) -> Result<Fits, Error> {
        let all = (0..plan.releases().len()).map(ReleaseId);
        let fitting = Fitting::new(plan, all, &answered.released);
        let fits = async { Ok(self.compute_fits(requester, fitting).await) };
        timing.until_cancelled(fits).await
    }

    /// Computes fits, turn by turn. Long ones wait for their turns among large statements. To stop
    /// them, drop the future.
    pub(super) async fn compute_fits(
        &self,
        requester: &Requester,
        mut fitting: Fitting<'_>,
    ) -> Fits {
        let size = match fitting.is_short() {
            true => StatementSize::Small,
            false => StatementSize::Large,
        };
        while !fitting.is_done() {
            let permit = self.planning_limit.acquire(&requester.role, size).await;
            permit.work(|| fitting.advance());
            tokio::task::yield_now().await;
        }
        fitting.finish()
    }
}
