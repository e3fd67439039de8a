//! Row previews under `previews: empty`: the statement with `LIMIT 0`. A tool sees the columns, and
//! a notice explains why there is no row.

use std::sync::Arc;

use super::Engine;
use super::statement_log::StatementFacts;
use crate::error::Error;
use crate::parse::Query;
use crate::policy::Previews;
use crate::resolve::is_preview;
use crate::rewrite::Plan;
use crate::shadow::Requester;

impl Engine {
    /// The plan. Where the statement was refused only because it shows rows, and the policy has
    /// `previews: empty`, the plan of its columns: it has no release, reads no row and charges
    /// nothing.
    pub(super) async fn plan_or_preview(
        &self,
        requester: &Requester,
        query: &Query,
        facts: &StatementFacts,
    ) -> Result<(Arc<Plan>, bool), Error> {
        if let Some(plan) = self.find_free_plan(requester, query) {
            return Ok((plan, false));
        }
        let refused = match (
            self.plan_for(requester, query, facts).await,
            self.policy.previews,
        ) {
            (Ok((plan, _)), _) => return Ok((plan, false)),
            (Err(Error::Resolve(refusal)), Previews::Empty) if is_preview(query, &refusal) => {
                Error::Resolve(refusal)
            }
            (Err(error), Previews::Empty | Previews::Refused) => return Err(error),
        };
        match self.plan_for(requester, &query.without_rows(), facts).await {
            Ok((plan, _)) if plan.releases().is_empty() => Ok((plan, true)),
            Ok(_) | Err(_) => Err(refused),
        }
    }
}

/// The notice of an empty preview.
pub(super) fn notice() -> String {
    "rows of a private table are not shown, so there are none; aggregate them, as in SELECT \
        count(*) FROM the same table"
        .to_owned()
}
