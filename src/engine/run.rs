//! From a plan to released values: recall what is answered, pay for the rest, then release by
//! release, the middle queries between them.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;

use super::failures::FailureSlot;
use super::middle_queries::MiddleQueries;
use super::planning_limit::aside;
use super::reuse::{Fresh, Recalled, sum};
use super::rollup::FromFiner;
use super::statement_log::Tally;
use super::timing::Timing;
use super::{Engine, internal};
use crate::error::Error;
use crate::execute;
use crate::execute::Snapshot;
use crate::ledger::QuestionDigest;
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::refusal::{Refusal, sqlstate};
use crate::release::{Released, Releasing};
use crate::rewrite::Plan;
use crate::shadow::Requester;

/// How often another process's answer is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What an answer rests on, and what was paid for it.
pub(super) struct Answered {
    pub released: Released,
    pub paid: Loss,
    /// Releases that the role had paid for before.
    pub recalled: usize,
    /// Releases that were made of finer ones that it had paid for.
    pub summed: Vec<FromFiner>,
    /// The weight of what was recalled.
    pub _held: HeldMemory,
}

impl Engine {
    /// What is answered already is recalled. For the rest one debit, in the whole before the first
    /// statement runs; then each release in turn, in one snapshot.
    pub(super) async fn answered(
        &self,
        requester: &Requester,
        plan: &Plan,
        pace: &Timing,
        tally: &Tally,
    ) -> Result<Answered, Error> {
        let timeout = self.policy.limits.statement_timeout;
        // Who wants noise of its own finds nothing by waiting. Nor may one role keep others from a
        // question, by asking it behind many slow ones of its own.
        let turns = async {
            if self.recalls(requester) {
                self.turns.wait(plan, &requester.role, timeout).await
            } else {
                Vec::new()
            }
        };
        let _turns = tokio::select! {
            biased;
            turns = turns => turns,
            () = pace.cancel().cancelled() => return Err(Error::Cancelled),
        };
        let patience = Instant::now() + timeout;
        loop {
            match self
                .attempt(requester, plan, pace, tally, Instant::now() < patience)
                .await?
            {
                Attempt::Answered(answered) => return Ok(answered),
                Attempt::Awaited(questions) => self.wait_for(&questions, patience, pace).await?,
            }
        }
    }

    /// Until no other process answers the questions; what it answered is found then.
    async fn wait_for(
        &self,
        questions: &[[u8; 32]],
        patience: Instant,
        pace: &Timing,
    ) -> Result<(), Error> {
        while Instant::now() < patience
            && self
                .ledger
                .is_claimed(questions)
                .await
                .map_err(|e| internal("ledger", &e))?
        {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = pace.cancel().cancelled() => return Err(Error::Cancelled),
            }
        }
        Ok(())
    }

    /// `waits`: whether a question that another process is answering is waited for, or bought once
    /// more.
    async fn attempt(
        &self,
        requester: &Requester,
        plan: &Plan,
        pace: &Timing,
        tally: &Tally,
        waits: bool,
    ) -> Result<Attempt, Error> {
        let mut middles = MiddleQueries::new(self, requester, plan);
        let Recalled {
            mut released,
            offered,
            count,
            summed,
            open,
            held,
        } = self.recall(requester, plan, &mut middles).await?;
        let part = plan.part(|release| {
            released.table(release).is_none()
                && offered.iter().all(|offer| offer.release != release)
        });
        let paid = part.loss().compose(sum(&offered)).unwrap_or(plan.loss());
        let answered = |released| {
            Attempt::Answered(Answered {
                released,
                paid,
                recalled: count,
                summed,
                _held: held,
            })
        };
        if part.releases().next().is_none() {
            // Where a new answer would be refused for too many failures, or wait, one that was made
            // for others is and does too.
            let _place = if offered.is_empty() {
                None
            } else {
                Some(self.place_or_cancel(requester, pace).await?)
            };
            // Nothing runs under this charge, and no question is claimed by it.
            let _charge = self.charge(requester, &part, &offered, &[], tally).await?;
            self.receive(requester, plan, &offered, &mut released)
                .await?;
            return Ok(answered(released));
        }
        let questions: Vec<QuestionDigest> = open
            .iter()
            .filter(|_| waits)
            .map(|(_, question)| *question)
            .collect();
        let claimed: Vec<[u8; 32]> = questions.iter().map(|question| question.digest).collect();
        let place = self.place_or_cancel(requester, pace).await?;
        let snapshot = self
            .backend
            .snapshot(
                &part,
                &requester.role,
                self.policy.limits.statement_timeout,
                pace.cancel(),
            )
            .await
            .map_err(before_charge)?;
        self.compare_rows(plan, &snapshot)
            .await
            .map_err(before_charge)?;
        let Some(charge) = self
            .charge(requester, &part, &offered, &questions, tally)
            .await?
        else {
            return Ok(Attempt::Awaited(claimed));
        };
        let making = async {
            self.receive(requester, plan, &offered, &mut released)
                .await?;
            let mut fresh = Vec::new();
            let making = self.made(
                &snapshot,
                Releasing::new(part, released, charge),
                &mut middles,
                &mut fresh,
                pace,
            );
            let made = match AssertUnwindSafe(making).catch_unwind().await {
                Ok(made) => made,
                Err(_) => {
                    pace.rest().await;
                    Err(Fault::Backend(execute::Error::Backend(
                        "it panicked".to_owned(),
                    )))
                }
            };
            // After a failure the connection is in a state that nobody knows: it is not kept.
            let closed = if made.is_ok() {
                snapshot.close().await
            } else {
                Ok(())
            };
            let kept = self.keep(requester, fresh).await;
            let released = made?;
            closed.map_err(Fault::Backend)?;
            kept?;
            Ok(released)
        };
        let made = self.ledger.holding(&claimed, making).await;
        if made.is_err() {
            self.ledger.release(&claimed).await;
        }
        match made {
            Ok(released) => Ok(answered(released)),
            Err(Fault::Backend(execute::Error::Cancelled)) => Err(Error::Cancelled),
            Err(Fault::Backend(error)) => Err(self.failed(requester, place, error).await?),
            Err(Fault::Other(error)) => Err(error),
        }
    }

    /// Makes the part's releases. What was made is in `fresh` also where a later one fails.
    ///
    /// Until a statement's rest is over nobody sees that the rows were read: not the client, nor
    /// who waits for the same answer, here or on another proxy, nor who waits for the connection.
    async fn made(
        &self,
        snapshot: &Snapshot,
        mut releasing: Releasing<'_>,
        middles: &mut MiddleQueries<'_>,
        fresh: &mut Vec<Fresh>,
        pace: &Timing,
    ) -> Result<Released, Fault> {
        snapshot.allow().await.map_err(Fault::Backend)?;
        let plan = releasing.part().plan();
        let mut sampler = (self.sampler)();
        for release in plan.order() {
            if !releasing.part().contains(release) {
                continue;
            }
            let constants = middles.constants(release, releasing.released()).await?;
            pace.begin();
            let read = snapshot
                .run(
                    releasing.part(),
                    release,
                    &constants,
                    releasing.charge(),
                    pace.cancel(),
                )
                .await;
            let drawn = read.and_then(|rows| {
                aside(|| releasing.release(release, rows, &mut *sampler))
                    .map_err(|e| execute::Error::Backend(format!("the release failed: {e}")))
            });
            pace.rest().await;
            drawn.map_err(Fault::Backend)?;
            fresh.extend(Fresh::of(plan, release, &constants, releasing.released()));
        }
        Ok(releasing.into_released())
    }

    /// A failure after the charge shows, so it may tell one bit of the data: it is counted,
    /// durably.
    async fn failed(
        &self,
        requester: &Requester,
        place: FailureSlot,
        error: execute::Error,
    ) -> Result<Error, Error> {
        place
            .failed(&self.ledger, &requester.role, self.policy.limits.failures)
            .await
            .map_err(|e| internal("ledger", &e))?;
        Ok(internal("execute", &error))
    }

    async fn place_or_cancel(
        &self,
        requester: &Requester,
        pace: &Timing,
    ) -> Result<FailureSlot, Error> {
        tokio::select! {
            biased;
            place = self.place(requester) => place,
            () = pace.cancel().cancelled() => Err(Error::Cancelled),
        }
    }

    /// A place among the role's running questions, while it has failures left.
    async fn place(&self, requester: &Requester) -> Result<FailureSlot, Error> {
        let place = self
            .failures
            .enter(&self.ledger, &requester.role, self.policy.limits.failures)
            .await
            .map_err(|e| internal("ledger", &e))?;
        place.ok_or_else(|| {
            Error::Ledger(
                Refusal::denied(
                    "this role may ask no more: too many of its queries have failed on \
                    the database",
                )
                .detail(
                    "Each visible failure can tell a little of the data, so they are \
                        counted and limited. Ask the data owner.",
                ),
            )
        })
    }
}

enum Attempt {
    Answered(Answered),
    /// Another process answers one of these questions, or just has; nothing was charged.
    Awaited(Vec<[u8; 32]>),
}

enum Fault {
    /// The backing database's, after the charge.
    Backend(execute::Error),
    Other(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Nothing private was read and nothing charged.
fn before_charge(error: execute::Error) -> Error {
    match error {
        execute::Error::Stale(table) => Error::Rewrite(
            Refusal::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                format!("the definition of {table} has changed since the policy was loaded"),
            )
            .detail("Nothing was charged. The policy has to be checked against the new definition.")
            .hint("Ask the data owner to reload the policy."),
        ),
        execute::Error::Locked => Error::Rewrite(
            Refusal::new(
                "55P03",
                "a table of this query is locked by another session",
            )
            .detail("Nothing was charged.")
            .hint("Ask again later."),
        ),
        execute::Error::Cancelled => Error::Cancelled,
        execute::Error::Backend(text) => internal("execute", &text),
    }
}
