//! Draws a release from its rows: at once, or first the look and then, after a second debit, the
//! sums.

use sha2::{Digest, Sha256};

use super::planning_limit::aside;
use super::run_error::RunError;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::useless::up_to_two_digits;
use super::{Engine, internal, ledger_failed};
use crate::error::Error;
use crate::execute;
use crate::ir::ReleaseId;
use crate::ledger::{QuestionDigest, QuestionId, Stored};
use crate::mechanism::Sampler;
use crate::refusal::{Refusal, reason};
use crate::release::{self, PaidPart, PaidRows, TooFew};
use crate::rewrite::{Look, Plan, ReleasePlan};
use crate::shadow::Requester;

impl Engine {
    /// Draws a release. Where it has a look, only the look is paid for at first; what follows
    /// depends on what the look drew, never on the rows. Returns what the look saw where that is
    /// too little for every aggregate; then the second debit is not made.
    pub(super) async fn draw(
        &self,
        made: &mut PaidPart<'_>,
        (release, read): (ReleaseId, PaidRows),
        (requester, facts, timing): (&Requester, &StatementFacts, &Timing),
        sampler: &mut (dyn Sampler + Send),
    ) -> Result<Option<TooFew>, RunError> {
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
        let looked = aside(|| made.look(read, sampler)).map_err(failed)?;
        // The second debit is visible, and must not reveal when the rows were read.
        timing.rest().await;
        if timing.cancel().is_cancelled() {
            return Err(RunError::Backend(execute::Error::Cancelled));
        }
        if let Err(few) = looked.outcome() {
            return Ok(Some(few));
        }
        let charge = self
            .charge_after_look(requester, made, release, facts)
            .await
            .map_err(unpaid)?;
        timing.begin();
        aside(|| made.release_looked(looked, charge, sampler)).map_err(failed)?;
        Ok(None)
    }

    /// Refuses a question for which the role's own look has already seen too few units. Asking
    /// again would charge for the same look, or for a less accurate one. Reads only what the role
    /// has paid for.
    ///
    /// # Errors
    /// PV002. Nothing is charged.
    pub(super) async fn refuse_repeated_look(
        &self,
        requester: &Requester,
        plan: &Plan,
        open: &[(ReleaseId, QuestionDigest)],
    ) -> Result<(), Error> {
        for (release, question) in open {
            let Some(look) = plan.release(*release).look() else {
                continue;
            };
            let question = look_at(question, look);
            let kept = self.ledger.find(&requester.role, question).await;
            // Another role's look decides nothing.
            if let Some(Stored::Held { released, .. }) = kept.map_err(|e| ledger_failed(&e))? {
                let few = serde_json::from_slice(&released);
                let few = few.map_err(|e| internal("release", &e))?;
                return Err(Error::Release(seen_before(few)));
            }
        }
        Ok(())
    }
}

/// The digest under which a look that led to no answer is kept, next to the answers to its
/// question.
pub(super) fn look_at(question: &QuestionDigest, look: &Look) -> QuestionDigest {
    let mut digest = Sha256::new();
    digest.update(b"look");
    digest.update(question.digest.0);
    QuestionDigest {
        digest: QuestionId(digest.finalize().into()),
        family: None,
        accuracy: question.accuracy,
        loss: look.first,
    }
}

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
            TooFew::Short { times, .. } => times,
            TooFew::Groups => {
                let least = self.plan.units_to_show().map_or(String::new(), |least| {
                    format!("A group is shown from about {:.0} units on. ", least.ceil())
                });
                return format!("{least}GROUP BY fewer or coarser keys, or raise pgveil.epsilon.");
            }
        };
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

/// The refusal of the same question, asked again.
fn seen_before(few: TooFew) -> Refusal {
    let remedy = match few {
        TooFew::Units(..) | TooFew::Short { .. } => {
            format!("Ask of more rows, raise pgveil.epsilon, {FIXED}")
        }
        TooFew::Groups => "GROUP BY fewer or coarser keys, raise pgveil.epsilon".to_owned(),
    };
    Refusal::new(reason::TOO_FEW_UNITS, saw(few))
        .detail("Nothing was charged: an earlier look, which is paid for, showed this.")
        .hint(format!(
            "{remedy}, or SET pgveil.reuse = off to pay for another look."
        ))
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
