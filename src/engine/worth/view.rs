//! The rows of `pgveil.worth` for one session.

use super::Pricing;
use crate::engine::planning::{PLANNING_BYTES, accounts};
use crate::engine::planning_limit::StatementSize;
use crate::engine::views::ViewRow;
use crate::engine::{Engine, Requester, ledger_failed};
use crate::error::Error;

impl Engine {
    /// The errors of the plainest answers for a role in this session. Free, once the role has paid
    /// for the policy's searches.
    pub(in crate::engine) async fn worth(
        &self,
        requester: &Requester,
    ) -> Result<Vec<ViewRow>, Error> {
        let balances = self.ledger.balances(&requester.role).await;
        let balances = balances.map_err(|e| ledger_failed(&e))?;
        let mut terms = self.terms(requester, accounts(&balances));
        // Only a first answer shows what a target error needs.
        terms.session_settings.target_error = None;
        let constants = self.constants(requester);
        let pricing = Pricing {
            policy: &self.policy,
            constants: &constants,
            terms: &terms,
        };
        // Many statements are planned for nothing, so roles take turns.
        let permit = self
            .planning_limit
            .acquire(&requester.role, StatementSize::Large)
            .await;
        let _held = requester.share.hold(PLANNING_BYTES).map_err(Error::Parse)?;
        let is_frozen = balances.role.frozen;
        Ok(permit.work(|| {
            let all = pricing.all();
            all.iter().map(|one| one.row(&terms, is_frozen)).collect()
        }))
    }
}
