//! Monitors: `SELECT pgveil.above(count(*), 1000) FROM t` is charged when its epoch opens, and free
//! from then on until a verdict is true.
//!
//! # Guarantee
//! All verdicts of an epoch together cost the epsilon that was charged when it opened
//! ([`crate::mechanism::NoisyThreshold::draw`]). The noise of the thresholds is in the memory of
//! this process alone. Whether an epoch is open follows from the verdicts that the role has seen.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use num_bigint::BigInt;
use sha2::{Digest, Sha256};

use super::failures::FailureSlot;
use super::monitor_words::{
    MonitorOutcome, below_least, busy, epsilon_too_small, has_ended, not_allowed, not_for_role,
    not_open, other_direction, too_many_monitors,
};
use super::plan_cache::PlanKey;
use super::planning_limit::aside;
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::views::{ViewRow, number_cell, time};
use super::{Engine, Format, internal, ledger_failed, shadow_error};
use crate::error::Error;
use crate::execute;
use crate::ledger::{self, Buyer, DebitError, Fingerprint, Purchase, Verdict};
use crate::mechanism::{
    AccountState, Accounting, Cap, Fixed, Loss, SumDirection, check_epoch, loss_of_epoch,
};
use crate::parse::MonitorQuery;
use crate::policy::{ClipChoice, Policy, Reuse, RoleReuse, SessionSettings, Widen};
use crate::refusal::Refusal;
use crate::release::{Epoch, EpochTerms, EpochVerdict, LockedPart, MonitoredRows};
use crate::rewrite::{MonitoredSum, Plan, Terms};
use crate::shadow::{Description, HeldRows, Requester};

/// The most open monitors of one role.
const MONITORS_MAX: usize = 1_000;

/// A little less than 1: an epsilon that a double rounds up is still not above the exact one.
const DOWN: f64 = 1.0 - 4.0 * f64::EPSILON;

/// A little more than 1: a share of the policy's least epsilon is not below it.
const UP: f64 = 1.0 + 4.0 * f64::EPSILON;

/// All monitors of one engine, by role and name.
#[derive(Default)]
pub(super) struct Monitors {
    slots: Mutex<HashMap<(String, String), Arc<MonitorSlot>>>,
}

/// One monitor. Its questions follow each other.
#[derive(Default)]
struct MonitorSlot {
    epoch: tokio::sync::Mutex<Option<Epoch>>,
    facts: Mutex<Option<MonitorFacts>>,
}

/// The facts that a role may know about its monitor.
#[derive(Debug, Clone, Copy)]
struct MonitorFacts {
    terms: EpochTerms,
    /// When its last epoch opened, in microseconds since 1970.
    opened: i64,
    asked: u64,
    is_open: bool,
    /// The last answer of the last epoch.
    last: Option<bool>,
    /// How many epochs have ended.
    ended: u64,
}

impl MonitorSlot {
    fn facts(&self) -> Option<MonitorFacts> {
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

/// A question to a monitor, planned for its epoch.
struct PlannedSum {
    plan: Arc<Plan>,
    terms: EpochTerms,
}

impl Monitors {
    /// # Errors
    /// 53400 where the role has too many open ones.
    fn slot(&self, role: &str, name: &str) -> Result<Arc<MonitorSlot>, Refusal> {
        let key = (role.to_owned(), name.to_owned());
        let mut slots = lock(&self.slots);
        let of_role = slots.keys().filter(|(owner, _)| owner == role).count();
        if !slots.contains_key(&key) && of_role >= MONITORS_MAX {
            // Monitors that have ended, and for which nobody waits, make room.
            slots.retain(|(owner, _), slot| {
                owner != role || slot.is_open() || Arc::strong_count(slot) > 1
            });
            let left = slots.keys().filter(|(owner, _)| owner == role).count();
            if left >= MONITORS_MAX {
                return Err(too_many_monitors(role, MONITORS_MAX));
            }
        }
        Ok(Arc::clone(slots.entry(key).or_default()))
    }

    /// The terms of an epoch that is open.
    fn open_terms(&self, role: &str, name: &str) -> Option<EpochTerms> {
        let key = (role.to_owned(), name.to_owned());
        let slots = lock(&self.slots);
        let facts = slots.get(&key)?.facts()?;
        facts.is_open.then_some(facts.terms)
    }

    /// The rows of the view, by name.
    pub(super) fn rows(&self, role: &str) -> Vec<ViewRow> {
        let slots = lock(&self.slots);
        let of_role = slots.iter().filter(|((owner, _), _)| owner == role);
        let rows = of_role.filter_map(|((_, name), slot)| {
            let facts = slot.facts()?;
            Some(vec![
                Some(name.clone()),
                number_cell(facts.terms.epsilon.to_f64()),
                Some(time(facts.opened)),
                Some(facts.asked.to_string()),
                facts.last.map(|last| last.to_string()),
                Some(facts.is_open.to_string()),
            ])
        });
        let mut rows: Vec<ViewRow> = rows.collect();
        rows.sort();
        rows
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Answers a question to a monitor.
    pub(super) async fn answer_monitor(
        &self,
        requester: &Requester,
        (monitor, description): (&MonitorQuery, Description),
        formats: &[Format],
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<(Answer, Verdict), Error> {
        self.check_monitors_are_allowed(requester)?;
        let slot = self.monitors.slot(&requester.role, &monitor.name);
        let slot = slot.map_err(Error::Ledger)?;
        let ended = slot.epochs_ended();
        let waiting = async { Ok(slot.epoch.lock().await) };
        let waiting = timing.until_cancelled(waiting);
        let waited = tokio::time::timeout(self.policy.limits.statement_timeout, waiting).await;
        let mut epoch = waited.map_err(|_| Error::Ledger(busy(monitor)))??;
        // A question that was free when it was asked is not charged.
        if slot.epochs_ended() != ended {
            return Err(Error::Ledger(has_ended(monitor)));
        }
        let open = epoch.as_ref().map(Epoch::terms);
        let planning = self.plan_monitor(requester, monitor, open, facts);
        let planned = timing.until_cancelled(planning).await?;
        let mut asked = AskedEpoch {
            epoch: &mut epoch,
            opened: None,
        };
        let asking = self.ask(requester, (monitor, &planned), &mut asked, (timing, facts));
        let answer = timing.run(Box::pin(asking)).await;
        let opened = asked.opened;
        note(
            &slot,
            epoch.as_ref(),
            (&planned, opened, answer.as_ref().ok()),
        );
        let (is_above, has_ended) = (answer?, epoch.is_none());
        drop(epoch);
        let statement = monitor.statement_of(is_above);
        let shown = self
            .shadow
            .run(requester, &statement, &description, formats);
        let shown = async { shown.await.map_err(shadow_error) };
        let HeldRows { rows, held } = timing.until_cancelled(shown).await?;
        let said = MonitorOutcome {
            was_open: open.is_some(),
            is_above,
            has_ended,
        };
        let notices =
            self.monitor_notices((requester, monitor), (&planned.plan, planned.terms), said);
        let notices = notices.await?;
        let answer = Answer {
            columns: description.columns,
            rows,
            notices,
            warnings: self.of_changed_rows(&planned.plan),
            held,
        };
        Ok((answer, Verdict::Answered))
    }

    fn check_monitors_are_allowed(&self, requester: &Requester) -> Result<(), Error> {
        let role = self.policy.role(&requester.role);
        let always = role.is_some_and(|role| role.reuse == RoleReuse::Always);
        match self.policy.limits.monitor_questions {
            0 => Err(Error::Rewrite(not_allowed())),
            _ if always => Err(Error::Rewrite(not_for_role(&requester.role))),
            _ => Ok(()),
        }
    }

    /// The plan of the sum, with the noise of a question of the epoch that is open, or would open.
    async fn plan_monitor(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        open: Option<EpochTerms>,
        facts: &StatementFacts,
    ) -> Result<PlannedSum, Error> {
        self.check_monitors_are_allowed(requester)?;
        let settings = &requester.session_settings;
        settings.within(&self.policy).map_err(Error::Rewrite)?;
        self.admit_session(requester, facts).await?;
        let default = self.policy.privacy.epsilon_default;
        let asked = || Fixed::round_down(settings.epsilon.unwrap_or(default));
        let epsilon = open.map_or_else(asked, |open| open.epsilon);
        let share = |direction: SumDirection| direction.epsilon_of_question(epsilon);
        let of_plan = |plan: &Plan| {
            let sum = MonitoredSum::of(plan).map_err(Error::Rewrite)?;
            Ok::<_, Error>(sum.direction)
        };
        // The kind of the sum does not depend on the epsilon.
        let least = self.policy.privacy.epsilon_min * UP;
        let first = (share(SumDirection::Up).to_f64() * DOWN).max(least);
        let mut found = self.plan_sum(requester, monitor, first).await?;
        let own = of_plan(&found)?;
        let direction = open.map_or(own, |open| open.direction);
        if !direction.admits(own) {
            return Err(Error::Rewrite(other_direction(monitor)));
        }
        check_least(
            share(direction).to_f64() / epsilon.to_f64(),
            epsilon,
            &self.policy,
        )?;
        if direction == SumDirection::Either {
            let of_question = share(direction).to_f64() * DOWN;
            found = self.plan_sum(requester, monitor, of_question).await?;
            of_plan(&found)?;
        }
        if found
            .loss()
            .epsilon
            .is_none_or(|own| own > share(direction))
        {
            return Err(internal("rewrite", &"a question costs more than its share"));
        }
        facts.note_plan(&found, &self.policy);
        self.check_copied(&found)?;
        Ok(PlannedSum {
            plan: Arc::new(found),
            terms: EpochTerms { epsilon, direction },
        })
    }

    /// The plan of the sum under Laplace noise of this epsilon, with clips by declared bounds.
    async fn plan_sum(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        epsilon: f64,
    ) -> Result<Plan, Error> {
        let cap = pure_cap(&self.policy).map_err(|e| internal("mechanism", &e))?;
        let account = AccountState {
            cap,
            spent: Loss::ZERO,
        };
        let terms = Terms {
            epsilon,
            session_settings: SessionSettings {
                target_error: None,
                clip: ClipChoice::Fixed,
                widen: Widen::Off,
                ..requester.session_settings
            },
            ..self.terms(requester, vec![account])
        };
        let constants = self.constants(requester);
        let key = PlanKey::new(&monitor.sum, &requester.search_path, constants, terms);
        self.plan_in_turn(requester, &monitor.sum, &key).await
    }

    /// Opens an epoch where none is open, and asks it.
    async fn ask(
        &self,
        requester: &Requester,
        (monitor, planned): (&MonitorQuery, &PlannedSum),
        asked: &mut AskedEpoch<'_>,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<bool, Error> {
        let sum = MonitoredSum::of(&planned.plan).map_err(Error::Rewrite)?;
        let is_open = asked.epoch.is_some();
        self.check_before_asking(requester, monitor, (planned, is_open))
            .await?;
        let of_release = planned.plan.release(sum.release());
        self.check_pairs(requester, of_release, |_| 1).await?;
        let slot = self.slot_or_cancel(requester, timing).await?;
        let mut locked = self.open_snapshot(requester, sum.part(), timing).await?;
        if !is_open {
            let opened = self.open_epoch(requester, (monitor, planned), asked, facts);
            opened.await?;
        }
        let epoch = &mut *asked.epoch;
        let reading = self.read_and_decide(requester, epoch, (&mut locked, &sum, monitor), timing);
        let read = AssertUnwindSafe(reading).catch_unwind().await;
        let is_above = read.unwrap_or_else(|_| Err(failure(&"it panicked")));
        let may_go_on = matches!(is_above, Ok(_) | Err(execute::Error::Cancelled));
        let most = u64::from(self.policy.limits.monitor_questions);
        if !may_go_on
            || epoch
                .as_ref()
                .is_some_and(|epoch| epoch.questions() >= most)
        {
            *epoch = None;
        }
        timing.rest().await;
        if is_above.is_ok() {
            locked.close().await;
        }
        self.end_question(requester, slot, is_above).await
    }

    /// Refuses a question for reasons that are known before anything is locked or paid.
    async fn check_before_asking(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        (planned, is_open): (&PlannedSum, bool),
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
            return Err(Error::Ledger(not_open(monitor)));
        }
        let too_small = |_| Error::Rewrite(epsilon_too_small());
        check_epoch(planned.terms.epsilon).map_err(too_small)
    }

    /// Pays for an epoch, durably, and draws the noise of its thresholds.
    async fn open_epoch(
        &self,
        requester: &Requester,
        (monitor, planned): (&MonitorQuery, &PlannedSum),
        asked: &mut AskedEpoch<'_>,
        facts: &StatementFacts,
    ) -> Result<(), Error> {
        let fingerprint = fingerprint(&requester.role, &monitor.name);
        let loss = loss_of_epoch(planned.terms.epsilon);
        let purchase = Purchase::fresh(Buyer::Role, loss, fingerprint, Vec::new());
        let paid = self.pay(requester, purchase, facts).await?;
        let charge = paid.ok_or_else(|| internal("ledger", &"an epoch waits for no answer"))?;
        asked.opened = Some(ledger::now());
        let begun = aside(|| Epoch::begin(charge, planned.terms, &mut *(self.sampler)()));
        *asked.epoch = Some(begun.map_err(|e| internal("release", &e))?);
        Ok(())
    }

    /// Reads the exact sum, and adds its noise.
    async fn read_and_decide(
        &self,
        requester: &Requester,
        epoch: &mut Option<Epoch>,
        (locked, sum, monitor): (&mut LockedPart<'_>, &MonitoredSum<'_>, &MonitorQuery),
        timing: &Timing,
    ) -> Result<bool, execute::Error> {
        let open = epoch.as_mut().ok_or_else(|| failure(&"no epoch is open"))?;
        let rows = self
            .read_sum(requester, open, (locked, sum), timing)
            .await?;
        self.decide(epoch, rows, (sum, &monitor.threshold))
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
        (sum, threshold): (&MonitoredSum<'_>, &(BigInt, BigInt)),
    ) -> Result<bool, execute::Error> {
        let open = epoch.take().ok_or_else(|| failure(&"no epoch is open"))?;
        let asked = sum.question(threshold);
        let decided = aside(|| open.decide(rows, (sum, &asked), &mut *(self.sampler)()));
        match decided.map_err(|e| failure(&e))? {
            EpochVerdict::Above => Ok(true),
            EpochVerdict::Below(open) => {
                *epoch = Some(open);
                Ok(false)
            }
        }
    }

    /// A failure of the database is visible, so it is counted.
    async fn end_question(
        &self,
        requester: &Requester,
        slot: FailureSlot,
        verdict: Result<bool, execute::Error>,
    ) -> Result<bool, Error> {
        match verdict {
            Ok(is_above) => Ok(is_above),
            Err(execute::Error::Cancelled) => Err(Error::Cancelled),
            Err(error) => Err(self.record_failure(requester, slot, error).await?),
        }
    }

    /// The plan of a question as its monitor stands now, and whether an epoch is open.
    pub(super) async fn plan_monitor_now(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        facts: &StatementFacts,
    ) -> Result<(Arc<Plan>, EpochTerms, bool), Error> {
        let open = self.monitors.open_terms(&requester.role, &monitor.name);
        let planned = self.plan_monitor(requester, monitor, open, facts).await?;
        Ok((planned.plan, planned.terms, open.is_some()))
    }
}

fn failure(why: &dyn std::fmt::Display) -> execute::Error {
    execute::Error::Backend(format!("the verdict failed: {why}"))
}

/// Refuses an epoch whose questions would get less than the policy's least epsilon.
fn check_least(share: f64, epsilon: Fixed, policy: &Policy) -> Result<(), Error> {
    let needed = policy.privacy.epsilon_min / share;
    match epsilon.to_f64() < needed * (1.0 + 1e-9) {
        true => Err(Error::Rewrite(below_least(needed))),
        false => Ok(()),
    }
}

/// The epoch of a question, and when it was opened for it, in microseconds since 1970.
struct AskedEpoch<'e> {
    epoch: &'e mut Option<Epoch>,
    opened: Option<i64>,
}

/// Updates the facts that the role may know about its monitor.
fn note(slot: &MonitorSlot, epoch: Option<&Epoch>, now: (&PlannedSum, Option<i64>, Option<&bool>)) {
    let (planned, opened, answer) = now;
    let mut facts = lock(&slot.facts);
    let ended = (*facts).map_or(0, |known| known.ended);
    let known = match (opened, *facts) {
        (Some(opened), _) => MonitorFacts {
            terms: planned.terms,
            opened,
            asked: 0,
            is_open: true,
            last: None,
            ended,
        },
        (None, Some(known)) => known,
        (None, None) => return,
    };
    *facts = Some(MonitorFacts {
        asked: known.asked + u64::from(answer.is_some()),
        is_open: epoch.is_some(),
        last: answer.copied().or(known.last),
        ended: ended + u64::from(known.is_open && epoch.is_none()),
        ..known
    });
}

/// A name in the history for the epochs of a monitor. No two debits share it.
fn fingerprint(role: &str, name: &str) -> Fingerprint {
    let mut digest = Sha256::new();
    digest.update(b"epoch");
    digest.update((role.len() as u64).to_be_bytes());
    digest.update(role);
    digest.update(name);
    digest.update(rand::random::<[u8; 16]>());
    Fingerprint::new(digest.finalize().into())
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
