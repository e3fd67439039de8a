//! What a question would give a role, and what it would charge, before it is asked.

use super::OfSummaries;
use crate::engine::answer_errors::{AnswerErrors, in_words};
use crate::engine::check_words::{CheckForeseen, ExplainedCheck};
use crate::engine::reuse::Recalled;
use crate::engine::rollup::FromFiner;
use crate::engine::unheld::refuse_unheld;
use crate::engine::useless::Usefulness;
use crate::ir::ReleaseId;
use crate::ledger::Balance;
use crate::mechanism::Loss;
use crate::policy::{Reuse, UselessMode};
use crate::refusal::Refusal;
use crate::rewrite::Plan;

/// The releases that the role holds already, and what the others would cost now.
pub(in crate::engine) struct Due {
    /// The errors of the answer that the role would get; before a check, of the summary's.
    pub(super) errors: AnswerErrors,
    /// Releases whose stored answers would be shown again, and how many times more accurate these
    /// are than bought ones.
    pub(super) same: Vec<(ReleaseId, f64)>,
    pub(super) summed: Vec<FromFiner>,
    pub(super) loss: Loss,
    /// The part of `loss` that is paid before looks. Where these see too few units, nothing else is
    /// paid.
    pub(super) at_first: Loss,
    pub(super) useful: Usefulness,
    /// Whether the session buys widened answers.
    pub(super) widens: bool,
    pub(super) summaries: OfSummaries,
    /// For a question by periods: which periods are held and which would be bought, in words.
    pub(super) periods: Vec<String>,
    /// How the answer of a summary would be compared with the rows.
    pub(super) check: Option<ExplainedCheck>,
    /// Why the question would be refused before anything is charged.
    refused: Option<String>,
}

impl Due {
    /// Adds the summaries that might answer the question.
    pub fn or_summaries(self, summaries: OfSummaries) -> Self {
        Self { summaries, ..self }
    }

    /// Adds, for a question by periods, which periods are held and which are bought, in words.
    pub fn by_periods(self, periods: Vec<String>) -> Self {
        Self { periods, ..self }
    }

    /// Adds how the answer of a summary would be compared with the rows, and what opening the
    /// checks costs.
    pub fn or_checked(self, check: Option<ExplainedCheck>) -> Self {
        let compared = check.as_ref().and_then(ExplainedCheck::comparison);
        let loss = compared.map_or(self.loss, |compared| compared.opening);
        let at_first = compared.map_or(self.at_first, |compared| compared.opening);
        Self {
            loss,
            at_first,
            check,
            ..self
        }
    }

    /// Adds why the question would be refused before anything is charged, in a session that
    /// refuses what noise hides, or that buys nothing.
    pub fn or_refused(self, useless: UselessMode, reuse: Reuse) -> Self {
        let hidden = self
            .useful
            .useless
            .as_ref()
            .filter(|_| useless == UselessMode::Refuse);
        let hidden = hidden.map(|refusal| refusal.message.clone());
        let is_unheld = reuse == Reuse::Summary && !self.loss.is_zero();
        let refused = hidden.or_else(|| is_unheld.then(|| refuse_unheld(&[]).message));
        Self { refused, ..self }
    }

    /// Why the question would be refused before anything is charged.
    pub fn refusal_words(&self) -> Option<&str> {
        match self.check.as_ref().map(|check| &check.verdict) {
            Some(CheckForeseen::Refused(message)) => Some(message),
            Some(CheckForeseen::Compared(_)) => None,
            Some(CheckForeseen::NotPossible) | None => self.refused.as_deref(),
        }
    }

    /// With these errors of the answer.
    pub fn with_errors(self, errors: AnswerErrors) -> Self {
        Self { errors, ..self }
    }

    /// The errors of the answer that the role would get.
    pub fn errors(&self) -> &AnswerErrors {
        &self.errors
    }

    /// With the loss of all that is bought, where it is more than the plan's.
    pub fn of_loss(self, loss: Loss) -> Self {
        match loss.mu_squared > self.loss.mu_squared {
            true => Self {
                loss,
                at_first: loss,
                ..self
            },
            false => self,
        }
    }

    /// Nothing is due for a question all of whose periods the role holds, or has paid for.
    pub fn of_held_periods() -> Self {
        Self {
            errors: AnswerErrors::default(),
            same: vec![(ReleaseId(0), 1.0)],
            summed: Vec::new(),
            loss: Loss::ZERO,
            at_first: Loss::ZERO,
            useful: Usefulness::default(),
            widens: false,
            summaries: OfSummaries::default(),
            periods: Vec::new(),
            check: None,
            refused: None,
        }
    }

    /// The first line of EXPLAIN: how far off the answer may be, and what it would charge.
    pub fn first_line(&self, plan: &Plan, balance: &Balance) -> String {
        if let Some(message) = self.refusal_words() {
            return format!("refused, at no cost: {message}");
        }
        let first = || self.summaries.first_words(balance);
        let left = &self.summaries.after_selections(balance);
        let line = || in_words(plan, &self.errors, &self.loss, left);
        match self.check.as_ref().map(|check| &check.verdict) {
            Some(CheckForeseen::Compared(compared)) => {
                let errors = self.errors.in_words(plan);
                format!("{errors}{}", compared.in_words(balance))
            }
            Some(CheckForeseen::NotPossible | CheckForeseen::Refused(_)) => line(),
            None if plan.first_answer().is_some() => {
                format!("{}; what pgveil.target_error needs is bought next", line())
            }
            None => format!("{}{}", first(), line()),
        }
    }

    /// Whether a summary's answer is compared with the rows. What is bought instead is not widened.
    pub fn is_compared(&self) -> bool {
        let check = self.check.as_ref();
        check.is_some_and(|check| check.comparison().is_some())
    }

    /// The loss that is not paid for yet.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Why the noise would hide the answer.
    pub fn into_useless(self) -> Option<Refusal> {
        self.useful.useless
    }

    /// The price of an answer that was made for another role is shown like that of a new one.
    pub fn of(plan: &Plan, recalled: Recalled, useful: Usefulness, widens: bool) -> Self {
        let Recalled {
            released,
            offered: _,
            count: _,
            summed,
            better,
            open: _,
            unshared: _,
            looks: _,
            held: _,
        } = recalled;
        let is_summed = |release: ReleaseId| summed.iter().any(|made| made.release == release);
        let is_asked = |release: ReleaseId| !plan.release(release).statements().is_empty();
        let same = (0..plan.releases().len())
            .map(ReleaseId)
            .filter(|at| released.table(*at).is_some() && is_asked(*at) && !is_summed(*at))
            .map(|at| {
                let found = better.iter().find(|(of, _)| *of == at);
                (at, found.map_or(1.0, |(_, better)| *better))
            })
            .collect();
        let errors = AnswerErrors::of(plan, |release| released.table(release));
        let unpaid = plan.part(|release| released.table(release).is_none());
        let (loss, at_first) = (unpaid.loss(), unpaid.loss_at_first());
        Self {
            errors,
            same,
            summed,
            loss,
            at_first,
            useful,
            widens,
            summaries: OfSummaries::default(),
            periods: Vec::new(),
            check: None,
            refused: None,
        }
    }
}
