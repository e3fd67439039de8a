//! Monitors: `SELECT pgveil.above(count(*), 1000) FROM t` is charged when its epoch opens, and free
//! from then on until a verdict is true.
//!
//! # Guarantee
//! All verdicts of an epoch together cost the epsilon that was charged when it opened
//! ([`crate::mechanism::NoisyThreshold::draw`]). The noise of the thresholds is in the memory of
//! this process alone. Whether an epoch is open follows from the verdicts that the role has seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use num_bigint::BigInt;
use sha2::{Digest, Sha256};

use super::failures::FailureSlot;
use super::monitor_words::{epsilon_too_small, notices, other_direction, too_many_questions};
use super::plan_cache::PlanKey;
use super::planning_limit::aside;
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::views::{ViewRow, number, time};
use super::{Engine, Format, internal, shadow_error};
use crate::error::Error;
use crate::execute;
use crate::ledger::{self, Buyer, Fingerprint, Purchase, Verdict};
use crate::mechanism::{
    AccountState, Accounting, Cap, Direction, Fixed, Loss, check_epoch, loss_of_epoch,
};
use crate::parse::MonitorQuery;
use crate::policy::{ClipChoice, Policy, SessionSettings, Widen};
use crate::refusal::{Refusal, reason};
use crate::release::{Epoch, EpochVerdict, LockedPart, MonitoredRows};
use crate::rewrite::{MonitoredSum, Plan, Terms};
use crate::shadow::{Description, Requester, Weighed};

/// The most monitors of one role.
const MONITORS_MAX: usize = 1_000;

/// The most questions of one epoch: each runs a statement over private rows.
pub(super) const QUESTIONS_MAX: u64 = 100_000;

/// A little less than 1: an epsilon that a double rounds up is still not above the exact one.
const DOWN: f64 = 1.0 - 4.0 * f64::EPSILON;

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

/// What a role may know of its monitor.
#[derive(Debug, Clone, Copy)]
struct MonitorFacts {
    epsilon: f64,
    /// When its last epoch opened, in microseconds since 1970.
    opened: i64,
    asked: u64,
    is_open: bool,
}

/// A question to a monitor, planned for its epoch.
pub(super) struct PlannedSum {
    pub plan: Arc<Plan>,
    pub epsilon: Fixed,
    pub direction: Direction,
}

impl Monitors {
    /// # Errors
    /// 53400 where the role has too many of them.
    fn slot(&self, role: &str, name: &str) -> Result<Arc<MonitorSlot>, Refusal> {
        let key = (role.to_owned(), name.to_owned());
        let mut slots = lock(&self.slots);
        let of_role = slots.keys().filter(|(owner, _)| owner == role).count();
        if !slots.contains_key(&key) && of_role >= MONITORS_MAX {
            return Err(Refusal::new(
                reason::TOO_MANY_MONITORS,
                format!("role {role} has {MONITORS_MAX} monitors"),
            )
            .detail("Nothing was charged.")
            .hint("Ask one of them: SELECT * FROM pgveil.monitors lists them."));
        }
        Ok(Arc::clone(slots.entry(key).or_default()))
    }

    /// The rows of the view, by name.
    pub(super) fn rows(&self, role: &str) -> Vec<ViewRow> {
        let slots = lock(&self.slots);
        let of_role = slots.iter().filter(|((owner, _), _)| owner == role);
        let rows = of_role.filter_map(|((_, name), slot)| {
            let facts = (*lock(&slot.facts))?;
            Some(vec![
                Some(name.clone()),
                number(facts.epsilon),
                Some(time(facts.opened)),
                Some(facts.asked.to_string()),
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
        let slot = self.monitors.slot(&requester.role, &monitor.name);
        let slot = slot.map_err(Error::Ledger)?;
        let waiting = async { Ok(slot.epoch.lock().await) };
        let mut epoch = timing.until_cancelled(waiting).await?;
        let planning = self.plan_monitor(requester, monitor, epoch.as_ref(), facts);
        let planned = timing.until_cancelled(planning).await?;
        let was_open = epoch.is_some();
        let asking = self.ask(requester, (monitor, &planned), &mut epoch, (timing, facts));
        let asked = timing.run(Box::pin(asking)).await;
        note(&slot, epoch.as_ref(), (&planned, was_open, asked.is_ok()));
        let is_above = asked?;
        drop(epoch);
        let statement = monitor.shown(is_above);
        let shown = self
            .shadow
            .run(requester, &statement, &description, formats);
        let shown = async { shown.await.map_err(shadow_error) };
        let Weighed { rows, held } = timing.until_cancelled(shown).await?;
        let answer = Answer {
            columns: description.columns,
            rows,
            notices: notices(requester, monitor, &planned, (was_open, is_above)),
            warnings: self.of_changed_rows(&planned.plan),
            held,
        };
        let verdict = match was_open {
            true => Verdict::Reused,
            false => Verdict::Answered,
        };
        Ok((answer, verdict))
    }

    /// The plan of the sum, with the noise of a question of the epoch that is open, or would open.
    async fn plan_monitor(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        epoch: Option<&Epoch>,
        facts: &StatementFacts,
    ) -> Result<PlannedSum, Error> {
        let settings = &requester.session_settings;
        settings.within(&self.policy).map_err(Error::Rewrite)?;
        self.admit(&requester.role, facts).await?;
        let default = self.policy.privacy.epsilon_default;
        let epsilon = match epoch {
            Some(epoch) => epoch.epsilon(),
            None => Fixed::round_down(settings.epsilon.unwrap_or(default)),
        };
        let plan = |direction: Direction| {
            let epsilon = direction.epsilon_of_question(epsilon).to_f64() * DOWN;
            self.plan_sum(requester, monitor, epsilon)
        };
        let of_plan = |plan: &Plan| {
            let sum = MonitoredSum::of(plan).map_err(Error::Rewrite)?;
            Ok::<_, Error>(sum.direction)
        };
        let mut found = plan(Direction::Up).await?;
        let own = of_plan(&found)?;
        let direction = epoch.map_or(own, Epoch::direction);
        if !direction.admits(own) {
            return Err(Error::Rewrite(other_direction(monitor)));
        }
        if direction == Direction::Either {
            found = plan(direction).await?;
            of_plan(&found)?;
        }
        facts.note_plan(&found, &self.policy);
        self.check_copied(&found)?;
        Ok(PlannedSum {
            plan: Arc::new(found),
            epsilon,
            direction,
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
        epoch: &mut Option<Epoch>,
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<bool, Error> {
        let sum = MonitoredSum::of(&planned.plan).map_err(Error::Rewrite)?;
        let of_release = planned.plan.release(sum.release());
        self.check_pairs(requester, of_release, |_| 1).await?;
        if epoch
            .as_ref()
            .is_some_and(|epoch| epoch.asked() >= QUESTIONS_MAX)
        {
            return Err(Error::Ledger(too_many_questions()));
        }
        let slot = self.slot_or_cancel(requester, timing).await?;
        let mut locked = self.open_snapshot(requester, sum.part(), timing).await?;
        if epoch.is_none() {
            *epoch = Some(
                self.open_epoch(requester, (monitor, planned), facts)
                    .await?,
            );
        }
        let Some(open) = epoch.as_ref() else {
            return Err(internal("release", &"no epoch is open"));
        };
        let read = self
            .read_sum(requester, open, (&mut locked, &sum), timing)
            .await;
        let is_above = match read {
            Ok(rows) => self.decide(epoch, rows, (&sum, &monitor.threshold)),
            Err(execute::Error::Cancelled) => Err(execute::Error::Cancelled),
            Err(error) => {
                *epoch = None;
                Err(error)
            }
        };
        timing.rest().await;
        if is_above.is_ok() {
            locked.close().await;
        }
        self.end_question(requester, slot, is_above).await
    }

    /// Pays for an epoch, durably, and draws the noise of its thresholds.
    async fn open_epoch(
        &self,
        requester: &Requester,
        (monitor, planned): (&MonitorQuery, &PlannedSum),
        facts: &StatementFacts,
    ) -> Result<Epoch, Error> {
        self.refuse_to_buy(requester, 1)?;
        let too_small = |_| Error::Rewrite(epsilon_too_small());
        check_epoch(planned.epsilon).map_err(too_small)?;
        let fingerprint = fingerprint(&requester.role, &monitor.name);
        let loss = loss_of_epoch(planned.epsilon);
        let purchase = Purchase::fresh(Buyer::Role, loss, fingerprint, Vec::new());
        let paid = self.pay(requester, purchase, facts).await?;
        let charge = paid.ok_or_else(|| internal("ledger", &"an epoch waits for no answer"))?;
        let terms = (planned.epsilon, planned.direction);
        let begun = aside(|| Epoch::begin(charge, terms, &mut *(self.sampler)()));
        begun.map_err(|e| internal("release", &e))
    }

    /// Reads the exact sum. An interruption is retried once: nothing was shown of what was read.
    async fn read_sum(
        &self,
        requester: &Requester,
        epoch: &Epoch,
        (locked, sum): (&mut LockedPart<'_>, &MonitoredSum<'_>),
        timing: &Timing,
    ) -> Result<MonitoredRows, execute::Error> {
        let cancel = timing.cancel();
        for may_retry in [true, false] {
            locked.snapshot().allow().await?;
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
        let failed = |why: &dyn std::fmt::Display| {
            execute::Error::Backend(format!("the verdict failed: {why}"))
        };
        let open = epoch.take().ok_or_else(|| failed(&"no epoch is open"))?;
        let asked = sum.question(threshold);
        let decided = aside(|| open.decide(rows, (sum, &asked), &mut *(self.sampler)()));
        match decided.map_err(|e| failed(&e))? {
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

    /// Refuses a question to a monitor that cannot be answered; free.
    pub(super) async fn check_monitor(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
    ) -> Result<(), Error> {
        let facts = StatementFacts::new();
        self.plan_monitor_now(requester, monitor, &facts).await?;
        Ok(())
    }

    /// The plan of a question as its monitor stands now, and whether an epoch is open.
    pub(super) async fn plan_monitor_now(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        facts: &StatementFacts,
    ) -> Result<(PlannedSum, bool), Error> {
        let slot = self.monitors.slot(&requester.role, &monitor.name);
        let slot = slot.map_err(Error::Ledger)?;
        let epoch = slot.epoch.lock().await;
        let planned = self
            .plan_monitor(requester, monitor, epoch.as_ref(), facts)
            .await?;
        Ok((planned, epoch.is_some()))
    }
}

/// Keeps what the role may know of its monitor after a question.
fn note(slot: &MonitorSlot, epoch: Option<&Epoch>, now: (&PlannedSum, bool, bool)) {
    let (planned, was_open, is_answered) = now;
    let mut facts = lock(&slot.facts);
    let known = match *facts {
        Some(known) if was_open => known,
        _ if epoch.is_none() && !is_answered => return,
        _ => MonitorFacts {
            epsilon: planned.epsilon.to_f64(),
            opened: ledger::now(),
            asked: 0,
            is_open: true,
        },
    };
    *facts = Some(MonitorFacts {
        asked: known.asked + u64::from(is_answered),
        is_open: epoch.is_some(),
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
