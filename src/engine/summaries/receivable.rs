//! What a question would give and cost where it is answered by summaries that the role has not
//! received.

use std::sync::Arc;

use super::Declared;
use crate::engine::answer_errors::AnswerErrors;
use crate::engine::expected_error::after;
use crate::engine::explain::SummariesMade;
use crate::ir::ReleaseId;
use crate::ledger::Balance;
use crate::policy::Summary;
use crate::release::{Released, Rollup};
use crate::rewrite::Plan;

/// The summaries that a role would receive for a question.
#[derive(Default)]
pub(in crate::engine) struct Receivable<'e> {
    /// Each once.
    pub summaries: Vec<(&'e Summary, &'e Declared)>,
    /// The releases that they would answer, where these were asked for. Their values mean nothing;
    /// the noise is right.
    pub(super) answers: Vec<(ReleaseId, Rollup)>,
}

impl Receivable<'_> {
    /// What the question would give and cost if the owner has made them all; `None` where there are
    /// none. Of what they do not answer, the role holds `recalled`. `balance` is that of the role
    /// before it pays for them.
    pub fn if_made(
        &self,
        plan: &Plan,
        recalled: &Released,
        balance: &Balance,
    ) -> Option<SummariesMade> {
        let form = plan.without_looks().map_or(plan, Arc::as_ref);
        let answer = |release: ReleaseId| {
            let mut answers = self.answers.iter();
            let found = answers.find(|(at, _)| *at == release);
            found
                .map(|(_, made)| &made.table)
                .or(recalled.table(release))
        };
        let losses = self.summaries.iter();
        let losses = losses.map(|(_, declared)| declared.question.kept_as.loss);
        let rest = plan.part(|release| answer(release).is_none()).loss();
        let whole = losses.fold(rest, |sum, loss| sum.compose(loss).unwrap_or(sum));
        let after = after(balance, whole)?;
        let names = self.summaries.iter();
        let names = names.map(|(summary, _)| summary.name.clone());
        (!self.summaries.is_empty()).then(|| {
            let errors = AnswerErrors::of(form, answer);
            SummariesMade {
                names: names.collect(),
                words: errors.in_words(form),
                errors,
                share: balance.fraction_left() - after,
            }
        })
    }
}
