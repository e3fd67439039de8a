//! From a plan to released values: recalls stored answers, pays for the other releases, then makes
//! them one by one, with the middle queries between them.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;

use super::budget_left::budget_left;
use super::draw_release::ShortLook;
use super::earlier_looks::EarlierLooks;
use super::failures::FailureSlot;
use super::middle_queries::MiddleQueries;
use super::reuse::{Offer, Recalled, sum};
use super::rollup::FromFiner;
use super::run_error::RunError;
use super::shown_periods::{PeriodsClaim, ShownPeriods};
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::unheld::refuse_unheld;
use super::{Engine, internal, ledger_failed};
use crate::error::Error;
use crate::execute;
use crate::ir::ReleaseId;
use crate::ledger::{QuestionDigest, QuestionId};
use crate::mechanism::Loss;
use crate::memory::HeldMemory;
use crate::policy::Reuse;
use crate::refusal::{Refusal, reason};
use crate::release::{EndedPart, Keeping, LockedPart, PaidPart, Released, TooFew};
use crate::rewrite::{Plan, ReleasePlan, UnpaidPart};
use crate::shadow::Requester;

/// The interval at which the ledger is asked for another process's answer.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// An answer's basis, and the payment for it.
pub(super) struct Answered {
    pub released: Released,
    pub paid: Loss,
    /// How many releases the role had paid for before.
    pub recalled: usize,
    /// Releases that were rolled up from finer ones that the role had paid for.
    pub summed: Vec<FromFiner>,
    /// For each recalled answer, how many times more accurate than the plan's it is.
    pub better: Vec<(ReleaseId, f64)>,
    /// The periods whose answers were joined, if the question is by periods.
    pub periods: Option<ShownPeriods>,
    /// The memory of the recalled answers.
    pub _held: HeldMemory,
}

impl Engine {
    /// Recalls stored answers. Pays for the other releases by one debit before the first statement
    /// runs, then makes them in order, in one snapshot.
    pub(super) async fn run_plan(
        &self,
        requester: &Requester,
        plan: &Plan,
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<Answered, Error> {
        if plan.periods().is_some() {
            return Box::pin(self.run_by_periods(requester, plan, timing, facts)).await;
        }
        // Where nothing is bought, no other answer is.
        let buys = self.reuse(requester) != Reuse::Summary;
        if let Some(wide) = self.widens(requester, plan).filter(|_| buys) {
            let answered = self.run_widened(requester, (plan, wide), timing, facts);
            if let Some(answered) = answered.await? {
                return Ok(answered);
            }
        }
        let timeout = self.policy.limits.statement_timeout;
        // A requester that buys fresh noise gains nothing by waiting. The timeout keeps one role
        // from blocking a question for others by asking it behind many slow ones.
        let others = async {
            if self.recalls(requester) {
                self.single_flight
                    .wait(plan, &requester.role, timeout)
                    .await
            } else {
                Vec::new()
            }
        };
        let _flights = tokio::select! {
            biased;
            flights = others => flights,
            () = timing.cancel().cancelled() => return Err(Error::Cancelled),
        };
        let patience = Instant::now() + timeout;
        loop {
            let buying = Buying {
                waits: Instant::now() < patience,
                periods: None,
            };
            match self.attempt(requester, plan, timing, facts, buying).await? {
                Attempt::Answered(answered) => return Ok(*answered),
                Attempt::Awaited(questions) => self.wait_for(&questions, patience, timing).await?,
            }
        }
    }

    /// Refuses to buy any of these releases, if the session asks only for what the role holds; says
    /// what summaries lack.
    pub(super) fn refuse_to_buy(
        &self,
        requester: &Requester,
        releases: usize,
        lacks: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Error> {
        match self.reuse(requester) {
            Reuse::Summary if releases > 0 => Err(Error::Ledger(refuse_unheld(&lacks()))),
            Reuse::On | Reuse::Checked | Reuse::Exact | Reuse::Summary | Reuse::Off => Ok(()),
        }
    }

    /// Waits until no other process is answering the questions. Its answers are in the ledger
    /// then.
    pub(super) async fn wait_for(
        &self,
        questions: &[QuestionId],
        patience: Instant,
        timing: &Timing,
    ) -> Result<(), Error> {
        while Instant::now() < patience
            && self
                .ledger
                .is_claimed(questions)
                .await
                .map_err(|e| ledger_failed(&e))?
        {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = timing.cancel().cancelled() => return Err(Error::Cancelled),
            }
        }
        Ok(())
    }

    pub(super) async fn attempt(
        &self,
        requester: &Requester,
        plan: &Plan,
        timing: &Timing,
        facts: &StatementFacts,
        Buying { waits, periods }: Buying,
    ) -> Result<Attempt, Error> {
        let mut middles = MiddleQueries::new(self, requester, plan);
        let Recalled {
            mut released,
            offered,
            count,
            summed,
            better,
            open,
            unshared,
            looks,
            held,
        } = self
            .recall_in(requester, plan, &mut middles, timing)
            .await?;
        // Whether another role holds an answer makes no difference.
        let asked = open.iter().chain(&unshared).copied();
        let asked = asked.chain(offered.iter().map(Offer::question));
        self.refuse_repeated_look(requester, plan, asked, &looks)?;
        let wanted = open.len() + unshared.len() + offered.len();
        let lack = || self.summaries_lack(requester, plan, |at| released.table(at).is_none());
        self.refuse_to_buy(requester, wanted, lack)?;
        let part = plan.part(|release| {
            released.table(release).is_none()
                && offered.iter().all(|offer| offer.release != release)
        });
        let paid = part.loss().compose(sum(&offered)).unwrap_or(plan.loss());
        let answered = |released| {
            Attempt::Answered(Box::new(Answered {
                released,
                paid,
                recalled: count,
                summed,
                better,
                periods: None,
                _held: held,
            }))
        };
        let offers = (&offered[..], periods.as_ref());
        if part.releases().next().is_none() {
            let payer = (timing, facts);
            let received = self.receive_offered(requester, &part, offers, &mut released, payer);
            return Ok(match received.await? {
                true => answered(released),
                false => Attempt::Awaited(Vec::new()),
            });
        }
        let questions = open.iter().filter(|_| waits).map(|(_, question)| *question);
        let claim = offers.1.map(|of| of.as_question(part.loss()));
        let questions: Vec<QuestionDigest> = questions.chain(claim).collect();
        let claimed: Vec<QuestionId> = questions.iter().map(|question| question.digest).collect();
        // Before the charge, also where nothing is recalled. Rows of middle queries come later.
        for release in part.releases() {
            self.check_pairs(requester, release, |_| 1).await?;
        }
        let slot = self.slot_or_cancel(requester, timing).await?;
        let opened = self.open_snapshot(requester, part, timing).await?;
        let charging = self.charge(requester, opened.part(), offers, &questions, facts);
        let Some(charge) = charging.await? else {
            return Ok(Attempt::Awaited(claimed));
        };
        let making = async {
            self.receive(requester, plan, &offered, &mut released)
                .await?;
            let paid = opened.with_charge(charge, released);
            let making = (timing, facts, &looks);
            self.make_and_keep(requester, paid, &mut middles, making)
                .await
        };
        let made = self.ledger.holding(&claimed, making).await;
        Ok(answered(self.end_attempt(requester, slot, made).await?))
    }

    /// The result of an attempt. A failure is counted.
    pub(super) async fn end_attempt<T>(
        &self,
        requester: &Requester,
        slot: FailureSlot,
        made: Result<T, RunError>,
    ) -> Result<T, Error> {
        match made {
            Ok(made) => Ok(made),
            Err(RunError::Backend(execute::Error::Cancelled)) => Err(Error::Cancelled),
            Err(RunError::Backend(error)) => {
                Err(self.record_failure(requester, slot, error).await?)
            }
            Err(RunError::Other(error)) => Err(error),
        }
    }

    /// Recalls stored answers, until the client cancels.
    async fn recall_in(
        &self,
        requester: &Requester,
        plan: &Plan,
        middles: &mut MiddleQueries<'_>,
        timing: &Timing,
    ) -> Result<Recalled, Error> {
        let recalling = self.recall(requester, plan, middles);
        timing.until_cancelled(recalling).await
    }

    /// Pays for answers that were made for other roles, where no statement has to run. False, and
    /// nothing is paid, where one of them is gone: a crash lost it.
    async fn receive_offered(
        &self,
        requester: &Requester,
        part: &UnpaidPart<'_>,
        (offered, periods): (&[Offer], Option<&PeriodsClaim>),
        released: &mut Released,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<bool, Error> {
        // Where a new answer would wait, or be refused for too many failures, an answer that was
        // made for another role does too: the difference would reveal that it exists.
        let _slot = if offered.is_empty() {
            None
        } else {
            Some(self.slot_or_cancel(requester, timing).await?)
        };
        // No statement runs under this charge, and it claims no question.
        let charge = self
            .charge(requester, part, (offered, periods), &[], facts)
            .await?;
        if charge.is_none() {
            return Ok(false);
        }
        self.receive(requester, part.plan(), offered, released)
            .await?;
        Ok(true)
    }

    /// The transaction that the plan's statements run in, with the tables of the plan.
    pub(super) async fn open_snapshot<'p>(
        &self,
        requester: &Requester,
        part: UnpaidPart<'p>,
        timing: &Timing,
    ) -> Result<LockedPart<'p>, Error> {
        let part = self.read_back(requester, part, timing).await?;
        let timeout = self.policy.limits.statement_timeout;
        let database = (&self.backend, requester.role.as_str());
        let mut opened = LockedPart::new(part, database, timeout, timing.cancel())
            .await
            .map_err(before_charge)?;
        let mut compared = self
            .compare_rows(opened.part().plan(), opened.snapshot())
            .await;
        if matches!(compared, Err(execute::Error::Interrupted)) {
            opened
                .reopen(database, timing.cancel())
                .await
                .map_err(before_charge)?;
            compared = self
                .compare_rows(opened.part().plan(), opened.snapshot())
                .await;
        }
        compared.map_err(before_charge)?;
        Ok(opened)
    }

    /// Makes the releases and stores them. Those made before a failure are stored too. Nobody waits
    /// for the disk: a crash, or a write that fails, loses the answer, and then it is bought once
    /// more.
    async fn make_and_keep(
        &self,
        requester: &Requester,
        mut paid: PaidPart<'_>,
        middles: &mut MiddleQueries<'_>,
        (timing, facts, looks): (&Timing, &StatementFacts, &EarlierLooks),
    ) -> Result<Released, RunError> {
        let payer = (requester, facts, timing);
        let making = self.make_releases(&mut paid, (middles, looks), payer);
        let made = match AssertUnwindSafe(making).catch_unwind().await {
            Ok(made) => made,
            Err(_) => {
                timing.rest().await;
                Err(RunError::Backend(execute::Error::Backend(
                    "it panicked".to_owned(),
                )))
            }
        };
        let is_whole = !matches!(&made, Err(RunError::Backend(_)));
        let ledger = (&self.ledger, requester.role.as_str());
        let EndedPart { released, kept } = paid.end(is_whole, ledger, Keeping::Soon).await;
        made?;
        kept.map_err(|e| ledger_failed(&e))?;
        Ok(released)
    }

    /// Makes the part's releases, and marks each to be kept.
    ///
    /// After each statement comes a pause to the end of its quantum. Until then nothing shows that
    /// its rows were read: not to the client, not to a session that waits for the same answer on
    /// this or another proxy, and not to one that waits for the connection.
    async fn make_releases(
        &self,
        paid: &mut PaidPart<'_>,
        (middles, looks): (&mut MiddleQueries<'_>, &EarlierLooks),
        payer: (&Requester, &StatementFacts, &Timing),
    ) -> Result<(), RunError> {
        let (requester, _, timing) = payer;
        let mut few = None;
        let mut may_retry = true;
        let plan = paid.part().plan();
        let mut sampler = (self.sampler)();
        for release in plan.order() {
            let is_known = paid.as_released().has_constants_of(plan, release);
            if !paid.part().contains(release) || !is_known {
                continue;
            }
            let constants = tokio::select! {
                biased;
                constants = middles.constants(release, paid.as_released()) => constants?,
                () = timing.cancel().cancelled() => {
                    return Err(RunError::Backend(execute::Error::Cancelled));
                }
            };
            let asked = (release, constants.as_slice());
            let keeps = self.keeps(requester, plan, asked, looks).await?;
            timing.begin();
            let mut read = paid.run(release, &constants, timing.cancel()).await;
            let is_interrupted = matches!(read, Err(execute::Error::Interrupted));
            if is_interrupted && std::mem::take(&mut may_retry) {
                // The connection is given back here, which operators see.
                timing.rest().await;
                read = match self.reopen(paid, requester, timing).await {
                    Ok(()) => paid.run(release, &constants, timing.cancel()).await,
                    Err(error) => Err(error),
                };
            }
            let drawn = match read {
                Ok(read) => {
                    let rows = (release, read, keeps.failed_look());
                    self.draw(paid, rows, payer, &mut *sampler).await
                }
                Err(error) => Err(RunError::Backend(error)),
            };
            timing.rest().await;
            match drawn {
                Ok(None) => {}
                Ok(Some(seen)) => {
                    if let Some(question) = keeps.as_look() {
                        paid.keep_finding(question, &seen)
                            .map_err(|e| internal("release", &e))?;
                    }
                    if few.is_none() {
                        let plan = plan.release(release);
                        few = Some(self.short_look(requester, plan, seen.few).await);
                    }
                    continue;
                }
                // The other paid releases are made and kept.
                Err(RunError::Other(Error::Release(refusal))) => {
                    few = few.or(Some(refusal));
                    continue;
                }
                Err(fault) => return Err(fault),
            }
            if let Some(question) = keeps.as_answer() {
                paid.keep_release(question, release);
            }
        }
        match few {
            Some(refusal) => Err(RunError::Other(Error::Release(refusal))),
            None => Ok(()),
        }
    }

    /// The refusal after a look that saw too little.
    async fn short_look(&self, requester: &Requester, plan: &ReleasePlan, few: TooFew) -> Refusal {
        let settings = &requester.session_settings;
        let privacy = &self.policy.privacy;
        let balance = self.ledger.balance(&requester.role).await;
        let look = ShortLook {
            few,
            plan,
            epsilon: match settings.target_error {
                Some(_) => None,
                None => Some(settings.epsilon.unwrap_or(privacy.epsilon_default)),
            },
            epsilon_max: privacy.epsilon_max,
            left: balance.ok().map(|balance| budget_left(&balance)),
            counts_again: self.recalls(requester)
                && plan.look().is_some_and(|look| look.shown.is_none()),
        };
        look.refusal()
    }

    /// After an interruption: nothing that was read was released, so the same charge pays for a
    /// second attempt. Each plan has one. Releases that were made before stay.
    async fn reopen(
        &self,
        paid: &mut PaidPart<'_>,
        requester: &Requester,
        timing: &Timing,
    ) -> Result<(), execute::Error> {
        paid.reopen((&self.backend, &requester.role), timing.cancel())
            .await?;
        self.compare_rows(paid.part().plan(), paid.snapshot()).await
    }

    /// A failure after the charge is visible, so it may reveal a bit of the data. It is counted,
    /// durably.
    pub(super) async fn record_failure(
        &self,
        requester: &Requester,
        slot: FailureSlot,
        error: execute::Error,
    ) -> Result<Error, Error> {
        slot.record_failure(&self.ledger, &requester.role, self.policy.limits.failures)
            .await
            .map_err(|e| ledger_failed(&e))?;
        Ok(internal("execute", &error))
    }

    pub(super) async fn slot_or_cancel(
        &self,
        requester: &Requester,
        timing: &Timing,
    ) -> Result<FailureSlot, Error> {
        tokio::select! {
            biased;
            slot = self.failure_slot(requester) => slot,
            () = timing.cancel().cancelled() => Err(Error::Cancelled),
        }
    }

    /// A slot among the role's running questions, while it has failures left.
    async fn failure_slot(&self, requester: &Requester) -> Result<FailureSlot, Error> {
        let slot = self
            .failures
            .enter(&self.ledger, &requester.role, self.policy.limits.failures)
            .await
            .map_err(|e| ledger_failed(&e))?;
        slot.ok_or_else(|| {
            Error::Ledger(
                Refusal::new(
                    reason::TOO_MANY_FAILURES,
                    "this role may ask no more: too many of its queries have failed on \
                        the database",
                )
                .detail(
                    "Each visible failure can reveal a little about the data, so failures are \
                        counted and limited. Ask the data owner.",
                ),
            )
        })
    }
}

/// How an attempt buys.
pub(super) struct Buying {
    /// Whether to wait for a question that another process is answering, or to buy it again.
    pub waits: bool,
    /// The claim of a question by periods, where it waits.
    pub periods: Option<PeriodsClaim>,
}

pub(super) enum Attempt {
    Answered(Box<Answered>),
    /// Another process is answering one of these questions, or has just done so. Nothing was
    /// charged.
    Awaited(Vec<QuestionId>),
}

/// An error from before the charge: no private row was read.
fn before_charge(error: execute::Error) -> Error {
    match error {
        execute::Error::Stale(table) => Error::Rewrite(
            Refusal::new(
                reason::TABLE_CHANGED,
                format!("the definition of {table} has changed since the policy was loaded"),
            )
            .detail("Nothing was charged. The policy has to be checked against the new definition.")
            .hint("Ask the data owner to reload the policy."),
        ),
        execute::Error::Locked => Error::Rewrite(
            Refusal::new(
                reason::TABLE_LOCKED,
                "a table of this query is locked by another session",
            )
            .detail("Nothing was charged.")
            .hint("Try again later."),
        ),
        execute::Error::Cancelled => Error::Cancelled,
        execute::Error::Interrupted | execute::Error::Backend(_) => internal("execute", &error),
    }
}
