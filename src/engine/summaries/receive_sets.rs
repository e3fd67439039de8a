//! Charges a role for the sets of a summary that were selected from the data.

use super::question::price_of_selected;
use super::{
    Declared, Engine, MiddleQueries, Received, Related, aside, asked_releases, sets_in_words,
    would_read,
};
use crate::analyze::PlanningEffort;
use crate::engine::expected_error::after;
use crate::engine::ledger_failed;
use crate::engine::rollup::SLACK;
use crate::engine::statement_log::StatementFacts;
use crate::error::Error;
use crate::ledger::{DebitError, Found};
use crate::mechanism::Loss;
use crate::policy::{Accuracy, Reuse, SelectedSets, Summary};
use crate::rewrite::{Plan, ReleasePlan};
use crate::shadow::Requester;

impl Engine {
    /// Notes which selections the role has paid for, in whatever process.
    pub(in crate::engine) async fn note_selections(&self, role: &str) -> Result<(), Error> {
        let selections = &self.summaries.selections;
        for (at, found) in selections.results() {
            let mut roles = self.policy.summaries[at].roles.iter();
            if !roles.any(|own| own == role) || selections.is_known(role, at) {
                continue;
            }
            let held = self.ledger.values_held_by(role, found.answer).await;
            if held.map_err(|e| ledger_failed(&e))?.is_some() {
                selections.note(role, at);
            }
        }
        Ok(())
    }

    /// The selections that the role has to pay for before it may see whether their summaries answer
    /// the question: of those summaries of which some set could, if it were selected. Only as many
    /// as the role can pay for, together and with what comes after them.
    ///
    /// # Guarantee
    /// It does not depend on which sets were selected. It depends on whether the summaries were
    /// made, which `pgveil.summaries` says.
    pub(in crate::engine) async fn receivable_sets<'e>(
        &'e self,
        requester: &Requester,
        plan: &Plan,
        facts: &StatementFacts,
    ) -> Result<Vec<(usize, &'e Summary, &'e Found)>, Error> {
        let selections = &self.summaries.selections;
        let may = self.reuse(requester) == Reuse::On && !facts.is_agreed();
        let role = &requester.role;
        let is_unknown = |(at, found): (usize, &'e Found)| {
            let summary = &self.policy.summaries[at];
            let is_due = summary.roles.contains(role) && !selections.is_known(role, at);
            is_due.then_some((at, summary, found))
        };
        let unknown: Vec<_> = selections.results().filter_map(is_unknown).collect();
        let mut all: Vec<(usize, &'e Summary, &'e Found)> = Vec::new();
        // Of several parts, one that has to be bought would leave the others bought too.
        let is_one = plan.releases().len() == 1;
        if unknown.is_empty() || !may || !is_one || plan.first_answer().is_some() {
            return Ok(all);
        }
        let form = plan.without_looks().map_or(plan, |form| form);
        let mut middles = MiddleQueries::new(self, requester, plan);
        let known = self.recall(requester, plan, &mut middles).await?;
        let effort = PlanningEffort::default();
        for (at, summary, found) in unknown {
            if !self.was_made(requester, at).await? {
                continue;
            }
            all.push((at, summary, found));
            let fits = self.fits_sets(requester, plan, &all).await?;
            let is_answered = || {
                let due = asked_releases(form).filter(|at| known.released.table(*at).is_none());
                let mut due = due.map(|at| form.release(at));
                due.any(|release| self.could_answer(requester, release, (at, summary), &effort))
            };
            if !fits || !is_answered() {
                all.pop();
            }
        }
        Ok(all)
    }

    /// Whether the summary would answer the release if other sets had been selected: those of
    /// which it would be read best.
    fn could_answer(
        &self,
        requester: &Requester,
        release: &ReleasePlan,
        (at, summary): (usize, &Summary),
        effort: &PlanningEffort,
    ) -> bool {
        let Some(question) = self.summaries.selections.question(&self.policy, at) else {
            return false;
        };
        let answers = |sets: SelectedSets| {
            let summary = Summary {
                marginals: sets.key_sets(summary.keys.len())?,
                ..summary.clone()
            };
            let declared = aside(|| Declared::new(&self.policy, &summary))?;
            let related = Related {
                at,
                summary: &summary,
                declared: &declared,
                other_join: None,
            };
            would_read(&related, requester, release, effort)
        };
        let mut sets = question.sets_for(release).into_iter();
        sets.any(|sets| answers(sets).is_some())
    }

    /// Whether the owner has made the summary.
    async fn was_made(&self, requester: &Requester, at: usize) -> Result<bool, Error> {
        match &self.planned_summaries()[at] {
            Some(declared) => Ok(self.newest(requester, declared).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Charges the role for the selections that stand between it and an answer. A role that cannot
    /// pay for one, and for its summary or the question then, goes on as if there were none.
    pub(super) async fn receive_sets(
        &self,
        requester: &Requester,
        plan: &Plan,
        facts: &StatementFacts,
    ) -> Result<Vec<Received>, Error> {
        let mut all = Vec::new();
        for (at, summary, found) in self.receivable_sets(requester, plan, facts).await? {
            match self.ledger.receive(&requester.role, found).await {
                Ok(false) => {}
                Ok(true) => {
                    facts.add_search(found.loss);
                    all.push(Received::Sets {
                        name: summary.name.clone(),
                        mu: found.loss.mu_squared.to_f64().sqrt(),
                        sets: sets_in_words(&summary.marginals, summary, &self.policy),
                    });
                }
                Err(DebitError::Ledger(error)) => return Err(ledger_failed(&error)),
                Err(_) => continue,
            }
            self.summaries.selections.note(&requester.role, at);
        }
        Ok(all)
    }

    /// Whether the role may pay for all of these selections and for what comes after them, be it
    /// their summaries or the question itself: its account is open and covers either, and the
    /// session allows a statement this much.
    async fn fits_sets(
        &self,
        requester: &Requester,
        plan: &Plan,
        sets: &[(usize, &Summary, &Found)],
    ) -> Result<bool, Error> {
        let (mut selections, mut summaries, mut whole) = (Loss::ZERO, Loss::ZERO, 0.0);
        for (_, summary, found) in sets {
            let priced = price_of_selected(&self.policy, summary);
            let summed = priced.and_then(|(_, own)| summaries.compose(own));
            let Some(both) = selections.compose(found.loss).zip(summed) else {
                return Ok(false);
            };
            (selections, summaries) = both;
            let (Accuracy::Epsilon(own) | Accuracy::Error(own)) = summary.accuracy;
            whole += own;
        }
        let settings = &requester.session_settings;
        let of_target = settings.target_error.as_ref();
        let of_target = of_target.map(|_| settings.most_of_wanted(&self.policy));
        let most = settings.epsilon.or(of_target);
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        let holds = |next: Loss| {
            let loss = selections.compose(next);
            loss.is_some_and(|loss| after(&balance, loss).is_some())
        };
        let is_open = !balance.closed && !balance.frozen;
        let is_allowed = most.is_none_or(|most| whole <= most * (1.0 + SLACK));
        Ok(is_open && holds(summaries) && holds(plan.loss()) && is_allowed)
    }
}
