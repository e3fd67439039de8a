//! Epochs of monitors and holdouts: charged when they open, and free from then on until a verdict
//! is true.
//!
//! # Guarantee
//! All that an epoch shows costs what was charged when it opened ([`Epoch::begin`]). The noise of
//! its thresholds is in the memory of this process alone. Whether an epoch is open follows from the
//! verdicts that the role has seen.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;

use super::failures::FailureSlot;
use super::plan_cache::PlanKey;
use super::planning_limit::aside;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::{Engine, Format, internal, ledger_failed, shadow_error};
use crate::error::Error;
use crate::execute;
use crate::ledger::{self, Balance, DebitError, Purchase};
use crate::mechanism::{
    AccountState, Accounting, Cap, Fixed, HoldoutNoise, Loss, ThresholdQuestion, check_epoch,
};
use crate::parse::{ExplainFormat, Query};
use crate::policy::{Policy, Reuse, SessionSettings};
use crate::refusal::Refusal;
use crate::release::{
    Compared, Epoch, EpochTerms, EpochVerdict, HoldoutVerdict, LockedPart, MonitoredRows,
};
use crate::rewrite::{MonitoredSum, Plan, Terms};
use crate::shadow::{Description, HeldRows, Requester};

/// The epochs of one engine, by role and name.
#[derive(Default)]
pub(super) struct Epochs {
    slots: Mutex<HashMap<(String, String), Arc<EpochSlot>>>,
}

/// The place of one epoch after the other. Its questions follow each other.
#[derive(Default)]
pub(super) struct EpochSlot {
    epoch: tokio::sync::Mutex<Option<Epoch>>,
    facts: Mutex<Option<EpochFacts>>,
}

/// The epoch of a slot, while a question has it.
pub(super) type HeldEpoch<'s> = tokio::sync::MutexGuard<'s, Option<Epoch>>;

/// The facts that a role may know about its epochs of one name.
#[derive(Debug, Clone, Copy)]
pub(super) struct EpochFacts {
    pub terms: EpochTerms,
    /// When the last one opened, in microseconds since 1970.
    pub opened: i64,
    /// How many questions it answered.
    pub asked: u64,
    pub is_open: bool,
    /// Its last verdict.
    pub last: Option<bool>,
    /// How many epochs have ended.
    ended: u64,
}

/// A question to an epoch.
pub(super) struct EpochQuestion<'q> {
    pub sum: MonitoredSum<'q>,
    pub threshold: ThresholdQuestion,
    /// What a monitor compares with the threshold.
    pub compared: Compared,
    /// The noise of a holdout; `None` for a monitor.
    pub noise: Option<HoldoutNoise>,
    /// The terms of the epoch that is open, or would open.
    pub terms: EpochTerms,
    /// Pays for the epoch that would open.
    pub purchase: Purchase,
    /// The refusal where none is open, and nothing is bought.
    pub not_open: Refusal,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EpochAnswer {
    Below,
    /// The epoch has ended; of a holdout, with the noisy sum.
    Above(Option<i128>),
}

/// A question to a monitor or a holdout, before it is asked.
pub(super) struct ForeseenEpoch {
    /// EXPLAIN's lines.
    pub lines: Vec<String>,
    /// The charge of asking it: nothing where the epoch is open, or where none is opened.
    pub loss: Loss,
    /// The account of the role that would ask.
    pub balance: Balance,
    /// The terms of a monitor's epoch, of which the role chose the epsilon. Those of a holdout are
    /// the policy's.
    pub terms: Option<EpochTerms>,
}

impl EpochAnswer {
    pub(super) fn is_above(self) -> bool {
        matches!(self, Self::Above(_))
    }

    pub(super) fn noisy_sum(self) -> Option<i128> {
        match self {
            Self::Above(sum) => sum,
            Self::Below => None,
        }
    }
}

impl EpochSlot {
    fn facts(&self) -> Option<EpochFacts> {
        *lock(&self.facts)
    }

    fn is_open(&self) -> bool {
        self.facts().is_some_and(|facts| facts.is_open)
    }

    /// How many of its epochs have ended.
    fn epochs_ended(&self) -> u64 {
        self.facts().map_or(0, |facts| facts.ended)
    }
}

impl Epochs {
    /// The slot of a name; `None` where the role has `most` open ones of other names.
    pub(super) fn slot(&self, role: &str, name: &str, most: usize) -> Option<Arc<EpochSlot>> {
        let key = (role.to_owned(), name.to_owned());
        let mut slots = lock(&self.slots);
        let of_role = slots.keys().filter(|(owner, _)| owner == role).count();
        if !slots.contains_key(&key) && of_role >= most {
            // Those that have ended, and for which nobody waits, make room.
            slots.retain(|(owner, _), slot| {
                owner != role || slot.is_open() || Arc::strong_count(slot) > 1
            });
            let left = slots.keys().filter(|(owner, _)| owner == role).count();
            if left >= most {
                return None;
            }
        }
        Some(Arc::clone(slots.entry(key).or_default()))
    }

    /// The facts about the role's epochs of a name, where there was one in this process.
    pub(super) fn facts(&self, role: &str, name: &str) -> Option<EpochFacts> {
        let key = (role.to_owned(), name.to_owned());
        lock(&self.slots).get(&key)?.facts()
    }

    /// The terms of an epoch that is open.
    pub(super) fn open_terms(&self, role: &str, name: &str) -> Option<EpochTerms> {
        let facts = self.facts(role, name)?;
        facts.is_open.then_some(facts.terms)
    }

    /// The names of a role's epochs, with their facts.
    pub(super) fn of_role(&self, role: &str) -> Vec<(String, EpochFacts)> {
        let slots = lock(&self.slots);
        let of_role = slots.iter().filter(|((owner, _), _)| owner == role);
        let known = of_role.filter_map(|((_, name), slot)| Some((name.clone(), slot.facts()?)));
        known.collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Waits for the earlier questions of a slot.
    ///
    /// # Errors
    /// `busy` where that takes too long, `has_ended` where one of them ended the epoch: a question
    /// that was free when it was asked is not charged.
    pub(super) async fn hold_epoch<'s>(
        &self,
        slot: &'s EpochSlot,
        (busy, has_ended): (Refusal, Refusal),
        timing: &Timing,
    ) -> Result<HeldEpoch<'s>, Error> {
        let ended = slot.epochs_ended();
        let waiting = async { Ok(slot.epoch.lock().await) };
        let waiting = timing.until_cancelled(waiting);
        let waited = tokio::time::timeout(self.policy.limits.statement_timeout, waiting).await;
        let epoch = waited.map_err(|_| Error::Ledger(busy))??;
        match slot.epochs_ended() == ended {
            true => Ok(epoch),
            false => Err(Error::Ledger(has_ended)),
        }
    }

    /// Opens an epoch where none is open, and asks it.
    pub(super) async fn ask_epoch(
        &self,
        requester: &Requester,
        question: &EpochQuestion<'_>,
        (slot, epoch): (&EpochSlot, &mut Option<Epoch>),
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<EpochAnswer, Error> {
        let mut asked = AskedEpoch {
            epoch,
            opened: None,
        };
        let asking = self.ask(requester, question, &mut asked, (timing, facts));
        let answer = timing.run(Box::pin(asking)).await;
        let AskedEpoch { epoch, opened } = asked;
        let verdict = answer.as_ref().ok().map(|answer| answer.is_above());
        note(slot, epoch.as_ref(), (question.terms, opened, verdict));
        answer
    }

    /// A question to a monitor or a holdout, before it is asked.
    pub(super) async fn foresee_epoch(
        &self,
        requester: &Requester,
        bound: &Query,
        (format, facts): (ExplainFormat, &StatementFacts),
    ) -> Result<ForeseenEpoch, Error> {
        let asked = (format, facts);
        if let Some(monitor) = bound.monitor().map_err(Error::Parse)? {
            return self.foresee_monitor(requester, &monitor, asked).await;
        }
        match bound.holdout().map_err(Error::Parse)? {
            Some(holdout) => self.foresee_holdout(requester, &holdout, asked).await,
            None => Err(internal("parse", &"no epoch is asked")),
        }
    }

    /// Shows an answer among the constants of its query.
    pub(super) async fn show_answer(
        &self,
        requester: &Requester,
        statement: &str,
        (description, formats): (&Description, &[Format]),
        timing: &Timing,
    ) -> Result<HeldRows, Error> {
        let shown = self.shadow.run(requester, statement, description, formats);
        let shown = async { shown.await.map_err(shadow_error) };
        timing.until_cancelled(shown).await
    }

    /// The plan of a sum under Laplace noise of this epsilon, with clips by declared bounds.
    pub(super) async fn plan_sum(
        &self,
        requester: &Requester,
        sum: &Query,
        (epsilon, session_settings): (f64, SessionSettings),
    ) -> Result<Plan, Error> {
        let cap = pure_cap(&self.policy).map_err(|e| internal("mechanism", &e))?;
        let account = AccountState {
            cap,
            spent: Loss::ZERO,
        };
        let terms = Terms {
            epsilon,
            session_settings,
            ..self.terms(requester, vec![account])
        };
        let constants = self.constants(requester);
        let key = PlanKey::new(sum, &requester.search_path, constants, terms);
        self.plan_in_turn(requester, sum, &key).await
    }

    async fn ask(
        &self,
        requester: &Requester,
        question: &EpochQuestion<'_>,
        asked: &mut AskedEpoch<'_>,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<EpochAnswer, Error> {
        let sum = &question.sum;
        let open = asked.epoch.as_ref().map(Epoch::terms);
        // Its noise is of these terms.
        if open.is_some_and(|open| open != question.terms) {
            return Err(internal("release", &"the question is of another epoch"));
        }
        let is_open = open.is_some();
        self.check_before_asking(requester, question, is_open)
            .await?;
        let of_release = sum.plan().release(sum.release());
        self.check_pairs(requester, of_release, |_| 1).await?;
        let slot = self.slot_or_cancel(requester, timing).await?;
        let mut locked = self.open_snapshot(requester, sum.part(), timing).await?;
        if !is_open {
            self.open_epoch(requester, question, asked, facts).await?;
        }
        let epoch = &mut *asked.epoch;
        let reading = self.read_and_decide(requester, epoch, (&mut locked, question), timing);
        let read = AssertUnwindSafe(reading).catch_unwind().await;
        let answer = read.unwrap_or_else(|_| Err(failure(&"it panicked")));
        let may_go_on = matches!(answer, Ok(_) | Err(execute::Error::Cancelled));
        let most = u64::from(self.policy.limits.monitor_questions);
        if !may_go_on
            || epoch
                .as_ref()
                .is_some_and(|epoch| epoch.questions() >= most)
        {
            *epoch = None;
        }
        timing.rest().await;
        if answer.is_ok() {
            locked.close().await;
        }
        self.end_question(requester, slot, answer).await
    }

    /// Refuses a question for reasons that are known before anything is locked or paid.
    async fn check_before_asking(
        &self,
        requester: &Requester,
        question: &EpochQuestion<'_>,
        is_open: bool,
    ) -> Result<(), Error> {
        // An open epoch is asked without a debit, which would notice it.
        let balance = self.ledger.balance(&requester.role).await;
        if balance.map_err(|e| ledger_failed(&e))?.frozen {
            let role = requester.role.clone();
            let refusal = DebitError::Frozen { role }.refusal();
            return Err(refusal.map_or_else(
                || internal("ledger", &"a frozen role has no refusal"),
                Error::Ledger,
            ));
        }
        if is_open {
            return Ok(());
        }
        if self.reuse(requester) == Reuse::Summary {
            return Err(Error::Ledger(question.not_open.clone()));
        }
        let too_small = |_| Error::Rewrite(super::monitor_words::epsilon_too_small());
        check_epoch(question.terms.epsilon).map_err(too_small)
    }

    /// Pays for an epoch, durably, and draws the noise of its thresholds.
    async fn open_epoch(
        &self,
        requester: &Requester,
        question: &EpochQuestion<'_>,
        asked: &mut AskedEpoch<'_>,
        facts: &StatementFacts,
    ) -> Result<(), Error> {
        let terms = question.terms;
        let purchase = question.purchase.clone();
        let paid = self.pay(requester, purchase, facts).await?;
        let charge = paid.ok_or_else(|| internal("ledger", &"an epoch waits for no answer"))?;
        asked.opened = Some(ledger::now());
        let begun = aside(|| Epoch::begin(charge, terms, &mut *(self.sampler)()));
        *asked.epoch = Some(begun.map_err(|e| internal("release", &e))?);
        Ok(())
    }

    /// Reads the exact sum, and adds its noise.
    async fn read_and_decide(
        &self,
        requester: &Requester,
        epoch: &mut Option<Epoch>,
        (locked, question): (&mut LockedPart<'_>, &EpochQuestion<'_>),
        timing: &Timing,
    ) -> Result<EpochAnswer, execute::Error> {
        let open = epoch.as_mut().ok_or_else(|| failure(&"no epoch is open"))?;
        let rows = self
            .read_sum(requester, open, (locked, &question.sum), timing)
            .await?;
        self.decide(epoch, rows, question)
    }

    /// Reads the exact sum. An interruption is retried once: nothing was shown of what was read.
    async fn read_sum(
        &self,
        requester: &Requester,
        epoch: &mut Epoch,
        (locked, sum): (&mut LockedPart<'_>, &MonitoredSum<'_>),
        timing: &Timing,
    ) -> Result<MonitoredRows, execute::Error> {
        let cancel = timing.cancel();
        for may_retry in [true, false] {
            timing.begin();
            match epoch.read(locked, sum, cancel).await {
                Err(execute::Error::Interrupted) if may_retry => {
                    timing.rest().await;
                    let database = (&self.backend, requester.role.as_str());
                    locked.reopen(database, cancel).await?;
                    self.compare_rows(locked.part().plan(), locked.snapshot())
                        .await?;
                }
                read => return read,
            }
        }
        Err(execute::Error::Interrupted)
    }

    /// The verdict. Where it is true, or no noise can be drawn, the epoch has ended.
    fn decide(
        &self,
        epoch: &mut Option<Epoch>,
        rows: MonitoredRows,
        question: &EpochQuestion<'_>,
    ) -> Result<EpochAnswer, execute::Error> {
        let open = epoch.take().ok_or_else(|| failure(&"no epoch is open"))?;
        let EpochQuestion {
            sum,
            threshold,
            compared,
            ..
        } = question;
        let decided = aside(|| {
            let mut sampler = (self.sampler)();
            match &question.noise {
                None => open
                    .decide(rows, (sum, threshold, *compared), &mut *sampler)
                    .map(|verdict| match verdict {
                        EpochVerdict::Below(open) => (Some(open), EpochAnswer::Below),
                        EpochVerdict::Above => (None, EpochAnswer::Above(None)),
                    }),
                Some(noise) => open
                    .decide_holdout(rows, (threshold, noise), &mut *sampler)
                    .map(|verdict| match verdict {
                        HoldoutVerdict::Agrees(open) => (Some(open), EpochAnswer::Below),
                        HoldoutVerdict::Overflow(sum) => (None, EpochAnswer::Above(Some(sum))),
                    }),
            }
        });
        let (open, answer) = decided.map_err(|e| failure(&e))?;
        *epoch = open;
        Ok(answer)
    }

    /// A failure of the database is visible, so it is counted.
    async fn end_question(
        &self,
        requester: &Requester,
        slot: FailureSlot,
        answer: Result<EpochAnswer, execute::Error>,
    ) -> Result<EpochAnswer, Error> {
        match answer {
            Ok(answer) => Ok(answer),
            Err(execute::Error::Cancelled) => Err(Error::Cancelled),
            Err(error) => Err(self.record_failure(requester, slot, error).await?),
        }
    }
}

fn failure(why: &dyn std::fmt::Display) -> execute::Error {
    execute::Error::Backend(format!("the verdict failed: {why}"))
}

/// The epoch of a question, and when it was opened for it, in microseconds since 1970.
struct AskedEpoch<'e> {
    epoch: &'e mut Option<Epoch>,
    opened: Option<i64>,
}

/// Updates the facts that the role may know.
fn note(
    slot: &EpochSlot,
    epoch: Option<&Epoch>,
    (terms, opened, verdict): (EpochTerms, Option<i64>, Option<bool>),
) {
    let mut facts = lock(&slot.facts);
    let ended = (*facts).map_or(0, |known| known.ended);
    let known = match (opened, *facts) {
        (Some(opened), _) => EpochFacts {
            terms,
            opened,
            asked: 0,
            is_open: true,
            last: None,
            ended,
        },
        (None, Some(known)) => known,
        (None, None) => return,
    };
    *facts = Some(EpochFacts {
        asked: known.asked + u64::from(verdict.is_some()),
        is_open: epoch.is_some(),
        last: verdict.or(known.last),
        ended: ended + u64::from(known.is_open && epoch.is_none()),
        ..known
    });
}

/// An account that admits pure epsilon alone, under which noise is Laplace noise.
fn pure_cap(policy: &Policy) -> Result<Cap, crate::mechanism::CapError> {
    Cap::new(
        Fixed::round_down(policy.privacy.epsilon_max),
        Fixed::ZERO,
        Fixed::round_down(0.5),
        Accounting::Pure,
    )
}
