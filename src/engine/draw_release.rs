//! Draws a release from its rows: at once, or first the look and then, after a second debit, the
//! sums.

use super::Engine;
use super::earlier_looks::{EarlierLooks, HeldLook, look_at};
use super::middle_queries::PrintedColumn;
use super::planning_limit::aside;
use super::reuse::question;
use super::run_error::RunError;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::useless::up_to_two_digits;
use crate::error::Error;
use crate::execute;
use crate::ir::ReleaseId;
use crate::ledger::QuestionDigest;
use crate::mechanism::{Loss, Sampler};
use crate::refusal::{Refusal, reason};
use crate::release::{self, FailedLook, PaidPart, PaidRows, TooFew};
use crate::rewrite::{Look, Plan, ReleasePlan};
use crate::shadow::Requester;

impl Engine {
    /// Draws a release. Where it has a look, only the look is paid for at first; what follows
    /// depends on what the look and the role's `earlier` ones drew, never on the rows. Returns what
    /// they saw where that is too little for every aggregate; then the second debit is not made.
    pub(super) async fn draw(
        &self,
        made: &mut PaidPart<'_>,
        (release, read, earlier): (ReleaseId, PaidRows, Option<&FailedLook>),
        (requester, facts, timing): (&Requester, &StatementFacts, &Timing),
        sampler: &mut (dyn Sampler + Send),
    ) -> Result<Option<FailedLook>, RunError> {
        let failed = |error: release::Error| {
            RunError::Backend(execute::Error::Backend(format!(
                "the release failed: {error}"
            )))
        };
        let plan = made.part().plan().release(release);
        if plan.look().is_none() {
            aside(|| made.release(read, sampler)).map_err(failed)?;
            return Ok(None);
        }
        let looked = aside(|| made.look(read, earlier, sampler)).map_err(failed)?;
        // The second debit is visible, and must not reveal when the rows were read.
        timing.rest().await;
        if timing.cancel().is_cancelled() {
            return Err(RunError::Backend(execute::Error::Cancelled));
        }
        if let Err(failed) = looked.outcome() {
            return Ok(Some(failed.clone()));
        }
        let charge = self
            .charge_after_look(requester, made, release, facts)
            .await
            .map_err(unpaid)?;
        timing.begin();
        aside(|| made.release_looked(looked, charge, sampler)).map_err(failed)?;
        Ok(None)
    }

    /// Refuses a question for which the role's own look has already seen too few units, where
    /// another look will probably not show enough together with it. Reads only what the role has
    /// paid for.
    ///
    /// # Errors
    /// PV002. Nothing is charged.
    pub(super) fn refuse_repeated_look(
        &self,
        requester: &Requester,
        plan: &Plan,
        asked: impl Iterator<Item = (ReleaseId, QuestionDigest)>,
        earlier: &EarlierLooks,
    ) -> Result<(), Error> {
        for (release, question) in asked {
            let plan = plan.release(release);
            let held = earlier.get(release).flatten();
            let Some((look, held)) = plan.look().zip(held) else {
                continue;
            };
            let HeldLook { failed, accuracy } = held;
            let pays = match failed.loss_to_add(look) {
                Some(_) => aside(|| failed.would_show(plan)),
                None => question.accuracy * (1.0 - SLACK) > *accuracy,
            };
            if !pays {
                let may_look_anew = self.may_reuse_nothing(requester);
                return Err(Error::Release(seen_before(failed.few, may_look_anew)));
            }
        }
        Ok(())
    }

    /// The questions under which a release is kept, with the role's earlier look at the same.
    pub(super) async fn keeps<'p>(
        &self,
        requester: &Requester,
        plan: &'p Plan,
        (release, constants): (ReleaseId, &[PrintedColumn]),
        earlier: &EarlierLooks,
    ) -> Result<Keeps<'p>, Error> {
        let asked = question(plan, release, constants);
        let look = plan.release(release).look();
        let held = match (earlier.get(release), &asked, look) {
            (Some(known), _, _) => known.cloned(),
            (None, Some(asked), Some(look)) => self.failed_look(requester, asked, look).await?,
            (None, None, _) | (None, _, None) => None,
        };
        let earlier = held.and_then(|held| {
            let loss = held.failed.loss_to_add(look?)?;
            Some((held, loss))
        });
        Ok(Keeps {
            asked,
            look,
            earlier,
        })
    }
}

/// The questions under which the results of a release are kept.
pub(super) struct Keeps<'p> {
    asked: Option<QuestionDigest>,
    look: Option<&'p Look>,
    /// The look at the same question that the role holds, and the loss that it adds to an answer.
    earlier: Option<(HeldLook, Loss)>,
}

impl Keeps<'_> {
    /// The look that counts together with the next one.
    pub fn failed_look(&self) -> Option<&FailedLook> {
        let (held, _) = self.earlier.as_ref()?;
        Some(&held.failed)
    }

    /// The question of an answer.
    ///
    /// # Guarantee
    /// Where an earlier look is part of it, its loss is that of both. No question has that loss at
    /// this accuracy, so the answer is not offered to other roles, who have not paid for that look.
    pub fn as_answer(&self) -> Option<QuestionDigest> {
        let asked = self.asked?;
        let earlier = self.earlier.as_ref().map_or(Loss::ZERO, |(_, loss)| *loss);
        let loss = asked.loss.compose(earlier)?;
        Some(QuestionDigest { loss, ..asked })
    }

    /// The question of a look that led to no answer.
    pub fn as_look(&self) -> Option<QuestionDigest> {
        let asked = look_at(self.asked.as_ref()?, self.look?);
        let earlier = self.earlier.as_ref().map_or(0.0, |(held, _)| held.accuracy);
        let accuracy = asked.accuracy.hypot(earlier);
        Some(QuestionDigest { accuracy, ..asked })
    }
}

/// Accuracies closer than this are equal.
const SLACK: f64 = 1e-9;

/// The second debit was refused: other questions have spent what was left at the first debit. The
/// look stays charged. Other releases that are paid for are still made.
fn unpaid(error: Error) -> RunError {
    let Error::Ledger(refusal) = error else {
        return RunError::Other(error);
    };
    let refusal = Refusal::new(reason::LOOK_ALONE_PAID, refusal.message)
        .detail(
            "This was spent or closed while the answer was made. Only the look was charged for \
                this answer. Other parts of the query are paid for, and kept.",
        )
        .hint("Repeat queries that are paid for, or ask the data owner.");
    RunError::Other(Error::Release(refusal))
}

/// A look that saw too little, and the terms under which it was paid.
pub(super) struct ShortLook<'a> {
    pub few: TooFew,
    pub plan: &'a ReleasePlan,
    /// The epsilon of the statement; `None` where a target error decides.
    pub epsilon: Option<f64>,
    pub epsilon_max: f64,
    /// The rest of the role's budget, in words.
    pub left: Option<String>,
    /// Whether the session's next look counts together with this one.
    pub counts_again: bool,
}

impl ShortLook<'_> {
    /// The refusal of the rest of the question.
    pub fn refusal(&self) -> Refusal {
        let left = self.left.as_ref();
        let left = left.map_or(String::new(), |left| format!(" ({left})"));
        Refusal::new(reason::TOO_FEW_UNITS, saw(self.few))
            .detail(format!(
                "Only the look was charged for this answer{left}. Other parts of the query are \
                    paid for, and kept."
            ))
            .hint(self.remedy())
    }

    /// The advice what to ask instead. It reads noisy numbers and public facts only.
    fn remedy(&self) -> String {
        let times = match self.few {
            TooFew::Units(..) => None,
            TooFew::Short { again, .. } if self.counts_again => again,
            TooFew::Short { times, .. } => times,
            TooFew::Groups => {
                let least = self.plan.units_to_show().map_or(String::new(), |least| {
                    format!("A group is shown from about {:.0} units on. ", least.ceil())
                });
                return format!("{least}GROUP BY fewer or coarser keys, or raise pgveil.epsilon.");
            }
        };
        if self.counts_again && times.is_some_and(|times| times <= 1.0) {
            return format!(
                "Ask the same again: another look would probably show enough together with this \
                    one. Otherwise ask of more rows, or {FIXED}."
            );
        }
        let wanted = times.zip(self.epsilon);
        match wanted.map(|(times, epsilon)| up_to_two_digits(times * epsilon)) {
            Some(epsilon) if epsilon <= self.epsilon_max => format!(
                "SET pgveil.epsilon = {epsilon} would probably show enough. Otherwise ask of more \
                    rows, or {FIXED}."
            ),
            Some(epsilon) => format!(
                "An epsilon of about {epsilon} would show enough, and the policy allows {}. So \
                    ask of more rows, or {FIXED}.",
                self.epsilon_max
            ),
            None => format!("Ask of more rows, raise pgveil.epsilon, or {FIXED}."),
        }
    }
}

/// The refusal of the same question, asked again. `may_look_anew`: the role may pay for a look that
/// counts alone.
fn seen_before(few: TooFew, may_look_anew: bool) -> Refusal {
    let mut remedies = match few {
        TooFew::Units(..) | TooFew::Short { .. } => {
            vec!["ask of more rows", "raise pgveil.epsilon", FIXED]
        }
        TooFew::Groups => vec!["GROUP BY fewer or coarser keys", "raise pgveil.epsilon"],
    };
    if may_look_anew {
        remedies.push("SET pgveil.reuse = off to pay for another look");
    }
    Refusal::new(reason::TOO_FEW_UNITS, saw(few))
        .detail("Nothing was charged: an earlier look, which is paid for, showed this.")
        .hint(sentence_of(&remedies))
}

/// Alternatives as a sentence: `A, b, or c.`
fn sentence_of(alternatives: &[&str]) -> String {
    let mut text = alternatives.join(", ");
    if let [before @ .., last] = alternatives {
        let comma = if before.len() > 1 { "," } else { "" };
        text = format!("{}{comma} or {last}", before.join(", "));
    }
    let (first, rest) = text.split_at(1);
    format!("{}{rest}.", first.to_uppercase())
}

const FIXED: &str = "SET pgveil.clip = fixed to bound each unit by the policy's limits";

/// A look in words. Its numbers are noisy.
pub(super) fn saw(few: TooFew) -> String {
    match few {
        TooFew::Units(units, error) | TooFew::Short { units, error, .. } => format!(
            "too few units to choose a clip (about {units:.0}, ±{:.0})",
            1.96 * error
        ),
        TooFew::Groups => "no group has enough units to be shown".to_owned(),
    }
}
