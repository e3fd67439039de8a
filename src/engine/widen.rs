//! Widening: for a question about one value of a listed column, the answer for all of its values is
//! bought where that costs no more. See [`crate::rewrite::widen`].

use std::sync::Arc;

use super::middle_queries::MiddleQueries;
use super::planning_limit::aside;
use super::reuse::question;
use super::rollup::FromFiner;
use super::run::Answered;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, internal, ledger_failed};
use crate::analyze::{PlanningEffort, analyze};
use crate::error::Error;
use crate::ir::{ReleaseId, ResolvedQuery};
use crate::ledger::Stored;
use crate::policy::{Policy, Reuse, Widen};
use crate::release::{Released, Rollup, coarser, read_off, reads_off};
use crate::rewrite::widen::{NamedValues, at_the_same_price, candidates, widen};
use crate::rewrite::{Plan, Terms, Widened, rewrite};
use crate::shadow::Requester;

/// The one release of a statement that is widened.
const ONLY: ReleaseId = ReleaseId(0);

/// A question that may be widened.
pub(super) struct Narrow {
    query: ResolvedQuery,
    candidates: Vec<NamedValues>,
}

impl Narrow {
    /// `None` where the session turns it off, or no condition names values of a listed column.
    /// Under a target error each question has the noise that it needs.
    pub fn of(query: &ResolvedQuery, policy: &Policy, terms: &Terms) -> Option<Self> {
        let settings = &terms.session_settings;
        let is_wanted = settings.widen == Widen::On
            && settings.reuse != Reuse::Exact
            && settings.target_error.is_none();
        let candidates = candidates(query, policy);
        (is_wanted && !candidates.is_empty()).then(|| Self {
            query: query.clone(),
            candidates,
        })
    }

    /// The plan with its widened form. It is widened by all conditions, or else by those, in their
    /// order, that can be widened together. Pure, and bounded in its work.
    pub fn widen(self, asked: Plan, policy: &Policy, terms: &Terms) -> Plan {
        let by = |which: &[NamedValues]| {
            let query = widen(&self.query, which);
            let effort = Arc::new(PlanningEffort::small());
            let analyzed = analyze(query, policy, &terms.session_settings, &effort).ok()?;
            let plan = rewrite(&analyzed, policy, terms).ok()?;
            let wide = at_the_same_price(&asked, plan, which)?;
            let fits = reads_off(asked.release(ONLY), wide.plan.release(ONLY));
            (fits && !effort.is_spent()).then_some(wide)
        };
        let mut best = by(&self.candidates);
        if best.is_none() && self.candidates.len() > 1 {
            let mut which: Vec<NamedValues> = Vec::new();
            for candidate in &self.candidates {
                which.push(candidate.clone());
                match by(&which) {
                    Some(wide) => best = Some(wide),
                    None => drop(which.pop()),
                }
            }
        }
        asked.widened_to(best)
    }
}

impl Engine {
    /// The release that this session buys instead of the plan's.
    pub(super) fn widens<'p>(&self, requester: &Requester, plan: &'p Plan) -> Option<&'p Widened> {
        plan.bought_instead()
            .filter(|_| self.reuse(requester).sums_groups())
    }

    /// The answer, read off a widened one that the role holds.
    pub(super) async fn read_off_held(
        &self,
        requester: &Requester,
        plan: &Plan,
    ) -> Result<Option<(Rollup, FromFiner)>, Error> {
        let Some(wide) = self.widens(requester, plan) else {
            return Ok(None);
        };
        let Some(question) = question(&wide.plan, ONLY, &[]) else {
            return Ok(None);
        };
        let found = self.ledger.find(&requester.role, question).await;
        Ok(match found.map_err(|e| ledger_failed(&e))? {
            Some(Stored::Held { released, .. }) => read_off_stored(plan, &released).map(|made| {
                let summed = FromFiner::of(ONLY, plan.release(ONLY), &made);
                (made, summed)
            }),
            Some(Stored::Offered(_)) | None => None,
        })
    }

    /// Buys the widened answer, and reads the asked one off it. `None` where the role holds what
    /// answers the question.
    pub(super) async fn run_widened(
        &self,
        requester: &Requester,
        (plan, wide): (&Plan, &Widened),
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<Option<Answered>, Error> {
        let mut middles = MiddleQueries::new(self, requester, plan);
        let known = self.recall(requester, plan, &mut middles).await?;
        if known.released.table(ONLY).is_some() {
            return Ok(None);
        }
        let bought = Box::pin(self.run_plan(requester, &wide.plan, timing, facts)).await?;
        let effort = PlanningEffort::default();
        let made = bought
            .released
            .table(ONLY)
            .and_then(|table| aside(|| read_off(plan.release(ONLY), table, &effort)));
        let Some(made) = made else {
            // The role bought a finer answer meanwhile: the asked one follows from that too.
            return match bought.paid.is_zero() {
                true => Ok(None),
                false => Err(internal("release", &"a widened answer lacks the asked one")),
            };
        };
        // Another session of the role may have bought it meanwhile.
        let summed = match bought.paid.is_zero() {
            true => vec![FromFiner::of(ONLY, plan.release(ONLY), &made)],
            false => Vec::new(),
        };
        let mut released = Released::before(plan);
        released.take(ONLY, made);
        Ok(Some(Answered {
            released,
            recalled: 0,
            summed,
            ..bought
        }))
    }
}

fn read_off_stored(plan: &Plan, stored: &[u8]) -> Option<Rollup> {
    let effort = PlanningEffort::default();
    aside(|| coarser(plan.release(ONLY), stored, &effort))
}
