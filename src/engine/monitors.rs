//! Monitors: `SELECT pgveil.above(count(*), 1000) FROM t` is charged when its epoch opens, and free
//! from then on until a verdict is true.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::epochs::EpochQuestion;
use super::monitor_words::{
    MonitorOutcome, below_least, busy, has_ended, not_allowed, not_for_role, not_open,
    other_direction, too_many_monitors,
};
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::timing::Timing;
use super::views::{ViewRow, number_cell, time};
use super::{Engine, Format, internal};
use crate::error::Error;
use crate::ledger::{Buyer, Fingerprint, Purchase, Verdict};
use crate::mechanism::{Fixed, SumDirection, loss_of_epoch};
use crate::parse::MonitorQuery;
use crate::policy::{ClipChoice, Policy, RoleReuse, SessionSettings, Widen};
use crate::release::{Compared, Epoch, EpochKind, EpochTerms};
use crate::rewrite::{MonitoredSum, Plan};
use crate::shadow::{Description, HeldRows, Requester};

/// The most open monitors of one role.
pub(super) const MONITORS_MAX: usize = 1_000;

/// A little less than 1: an epsilon that a double rounds up is still not above the exact one.
pub(super) const DOWN: f64 = 1.0 - 4.0 * f64::EPSILON;

/// A little more than 1: a share of the policy's least epsilon is not below it.
const UP: f64 = 1.0 + 4.0 * f64::EPSILON;

/// A question to a monitor, planned for its epoch.
struct PlannedSum {
    plan: Arc<Plan>,
    terms: EpochTerms,
}

impl Engine {
    /// The rows of the view, by name.
    pub(super) fn monitor_rows(&self, role: &str) -> Vec<ViewRow> {
        let rows = self.monitors.of_role(role).into_iter();
        let rows = rows.map(|(name, facts)| {
            vec![
                Some(name),
                number_cell(facts.terms.epsilon.to_f64()),
                Some(time(facts.opened)),
                Some(facts.asked.to_string()),
                facts.last.map(|last| last.to_string()),
                Some(facts.is_open.to_string()),
            ]
        });
        let mut rows: Vec<ViewRow> = rows.collect();
        rows.sort();
        rows
    }

    /// Answers a question to a monitor.
    pub(super) async fn answer_monitor(
        &self,
        requester: &Requester,
        (monitor, description): (&MonitorQuery, Description),
        formats: &[Format],
        (timing, facts): (&Timing, &StatementFacts),
    ) -> Result<(Answer, Verdict), Error> {
        self.check_monitors_are_allowed(requester)?;
        let role = &requester.role;
        let slot = self.monitors.slot(role, &monitor.name, MONITORS_MAX);
        let slot = slot.ok_or_else(|| Error::Ledger(too_many_monitors(role, MONITORS_MAX)))?;
        let words = (busy(monitor), has_ended(monitor));
        let mut epoch = self.hold_epoch(&slot, words, timing).await?;
        let open = epoch.as_ref().map(Epoch::terms);
        let planning = self.plan_monitor(requester, monitor, open, facts);
        let planned = timing.until_cancelled(planning).await?;
        let question = question(requester, monitor, &planned)?;
        let asking = self.ask_epoch(requester, &question, (&slot, &mut epoch), (timing, facts));
        let is_above = asking.await?.is_above();
        let has_ended = epoch.is_none();
        drop(epoch);
        let statement = monitor.statement_of(is_above);
        let showing = self.show_answer(requester, &statement, (&description, formats), timing);
        let HeldRows { rows, held } = showing.await?;
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

    pub(super) fn check_monitors_are_allowed(&self, requester: &Requester) -> Result<(), Error> {
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
        let of_epsilon = |epsilon| (epsilon, settings_of(&requester.session_settings));
        let mut found = self
            .plan_sum(requester, &monitor.sum, of_epsilon(first))
            .await?;
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
            found = self
                .plan_sum(requester, &monitor.sum, of_epsilon(of_question))
                .await?;
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
            terms: EpochTerms {
                kind: EpochKind::Monitor,
                epsilon,
                direction,
            },
        })
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

/// Clips by declared bounds, and no other choice of the plan's size.
pub(super) fn settings_of(session: &SessionSettings) -> SessionSettings {
    SessionSettings {
        target_error: None,
        clip: ClipChoice::Fixed,
        widen: Widen::Off,
        ..*session
    }
}

fn question<'p>(
    requester: &Requester,
    monitor: &MonitorQuery,
    planned: &'p PlannedSum,
) -> Result<EpochQuestion<'p>, Error> {
    let sum = MonitoredSum::of(&planned.plan).map_err(Error::Rewrite)?;
    let fingerprint = fingerprint(&requester.role, &monitor.name);
    let loss = loss_of_epoch(planned.terms.epsilon);
    Ok(EpochQuestion {
        threshold: sum.question(&monitor.threshold),
        sum,
        compared: Compared::Sum,
        noise: None,
        terms: planned.terms,
        purchase: Purchase::fresh(Buyer::Role, loss, fingerprint, Vec::new()),
        not_open: not_open(monitor),
    })
}

/// Refuses an epoch whose questions would get less than the policy's least epsilon.
pub(super) fn check_least(share: f64, epsilon: Fixed, policy: &Policy) -> Result<(), Error> {
    let needed = policy.privacy.epsilon_min / share;
    match epsilon.to_f64() < needed * (1.0 + 1e-9) {
        true => Err(Error::Rewrite(below_least(needed))),
        false => Ok(()),
    }
}

/// A name in the history for the epochs of a monitor. No two debits share it.
pub(super) fn fingerprint(role: &str, name: &str) -> Fingerprint {
    let mut digest = Sha256::new();
    digest.update(b"epoch");
    digest.update((role.len() as u64).to_be_bytes());
    digest.update(role);
    digest.update(name);
    digest.update(rand::random::<[u8; 16]>());
    Fingerprint::new(digest.finalize().into())
}
