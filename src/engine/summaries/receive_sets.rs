//! Charges a role for the sets of a summary that were selected from the data.

use super::{
    Declared, Engine, MiddleQueries, Received, SetsQuestion, asked_releases, sets_in_words,
};
use crate::engine::expected_error::after;
use crate::engine::ledger_failed;
use crate::engine::rollup::SLACK;
use crate::engine::statement_log::StatementFacts;
use crate::error::Error;
use crate::ledger::{DebitError, Found};
use crate::policy::{Accuracy, Reuse, Summary};
use crate::rewrite::Plan;
use crate::shadow::Requester;

impl Engine {
    /// Notes which selections the role has paid for, in whatever process.
    pub(in crate::engine) async fn note_selections(&self, role: &str) -> Result<(), Error> {
        let selections = &self.summaries.selections;
        for (at, found) in selections.results() {
            if selections.is_known(role, at) {
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
    /// the question: of those summaries of which some set could, if it were selected.
    ///
    /// # Guarantee
    /// It does not depend on which sets were selected.
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
        let mut all = Vec::new();
        if unknown.is_empty() || !may || plan.first_answer().is_some() {
            return Ok(all);
        }
        let form = plan.without_looks().map_or(plan, |form| form);
        let mut middles = MiddleQueries::new(self, requester, plan);
        let known = self.recall(requester, plan, &mut middles).await?;
        for (at, summary, found) in unknown {
            let question = selections.question(&self.policy, at);
            let may_answer = |question: &SetsQuestion| {
                let due = asked_releases(form).filter(|at| known.released.table(*at).is_none());
                due.map(|at| form.release(at))
                    .any(|r| question.may_answer(r))
            };
            if question.is_some_and(may_answer)
                && self.fits_sets(requester, (at, summary), found).await?
            {
                all.push((at, summary, found));
            }
        }
        Ok(all)
    }

    /// Charges the role for the selections that stand between it and an answer. A role that cannot
    /// pay for one, with its summary, goes on as if there were none.
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

    /// Whether the summary was made, and the role may pay for its sets and for it: its account is
    /// open and covers both, and the session allows a statement this much.
    async fn fits_sets(
        &self,
        requester: &Requester,
        (at, summary): (usize, &Summary),
        found: &Found,
    ) -> Result<bool, Error> {
        let mut declared = self.declared_summaries();
        let planned = declared.find(|(own, ..)| *own == at);
        let Some(planned): Option<&Declared> = planned.map(|(_, _, planned)| planned) else {
            return Ok(false);
        };
        if self.newest(requester, planned).await?.is_none() {
            return Ok(false);
        }
        let settings = &requester.session_settings;
        let of_target = settings.target_error.as_ref();
        let of_target = of_target.map(|_| settings.most_of_wanted(&self.policy));
        let most = settings.epsilon.or(of_target);
        let (Accuracy::Epsilon(whole) | Accuracy::Error(whole)) = summary.accuracy;
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        let loss = found.loss.compose(planned.question.kept_as.loss);
        let holds = loss.is_some_and(|loss| after(&balance, loss).is_some());
        let is_open = !balance.closed && !balance.frozen;
        Ok(is_open && holds && most.is_none_or(|most| whole <= most * (1.0 + SLACK)))
    }
}
