//! The words about a monitor: EXPLAIN, notices and refusals.

use super::budget_left::budget_left;
use super::epochs::ForeseenEpoch;
use super::expected_error::after;
use super::explain::budget;
use super::notice::three_digits;
use super::statement_log::StatementFacts;
use super::{Engine, ledger_failed};
use crate::error::Error;
use crate::mechanism::{Loss, loss_of_epoch, margin};
use crate::parse::{ExplainFormat, MonitorQuery};
use crate::policy::{Notices, Reuse};
use crate::refusal::{Refusal, reason};
use crate::release::EpochTerms;
use crate::rewrite::{MonitoredSum, Plan};
use crate::shadow::Requester;

impl Engine {
    /// A question to a monitor, before it is asked.
    pub(super) async fn foresee_monitor(
        &self,
        requester: &Requester,
        monitor: &MonitorQuery,
        (format, facts): (ExplainFormat, &StatementFacts),
    ) -> Result<ForeseenEpoch, Error> {
        let (plan, terms, is_open) = self.plan_monitor_now(requester, monitor, facts).await?;
        let sum = MonitoredSum::of(&plan).map_err(Error::Rewrite)?;
        let release = plan.release(sum.release());
        let epsilon = terms.epsilon.to_f64();
        let name = title(monitor);
        let opens_none = self.reuse(requester) == Reuse::Summary;
        let cost = match is_open {
            true => format!("{name} is open: the question is free"),
            false if opens_none => {
                format!("{name} is not open, and pgveil.reuse = summary opens none")
            }
            false => format!(
                "{name} is not open: the question opens it for epsilon {epsilon}, and later ones \
                    are free until one is true"
            ),
        };
        let loss = match is_open || opens_none {
            true => Loss::ZERO,
            false => loss_of_epoch(terms.epsilon),
        };
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        if format == ExplainFormat::Json {
            let json = serde_json::json!({
                "monitor": monitor.name,
                "is_open": is_open,
                "epsilon": epsilon,
                "budget_left": balance.fraction_left(),
                "budget_left_after": after(&balance, loss),
                "margin": margin_of(terms, &sum, 1),
                "margin_of_100": margin_of(terms, &sum, 100),
                "sql": release.sql(),
            });
            let lines = vec![format!("{json:#}")];
            return Ok(ForeseenEpoch {
                lines,
                loss,
                balance,
                terms: Some(terms),
            });
        }
        let mut lines = vec![cost, reach(terms, &sum)];
        lines.extend(release.description().iter().map(|line| format!("  {line}")));
        if format == ExplainFormat::Verbose {
            lines.extend(release.sql().map(|sql| format!("  SQL: {sql}")));
        }
        lines.push(budget(&loss, &balance));
        Ok(ForeseenEpoch {
            lines,
            loss,
            balance,
            terms: Some(terms),
        })
    }

    /// The notices of an answer.
    pub(super) async fn monitor_notices(
        &self,
        (requester, monitor): (&Requester, &MonitorQuery),
        (plan, terms): (&Plan, EpochTerms),
        said: MonitorOutcome,
    ) -> Result<Vec<String>, Error> {
        let level = requester.session_settings.notices;
        let mut notices = Vec::new();
        if level == Notices::Off {
            return Ok(notices);
        }
        let name = title(monitor);
        if !said.was_open {
            let epsilon = terms.epsilon.to_f64();
            let balance = self.ledger.balance(&requester.role).await;
            let left = budget_left(&balance.map_err(|e| ledger_failed(&e))?);
            notices.push(format!(
                "{name} was opened for epsilon {epsilon} (pure); its questions are free until one \
                    is true; budget: {left}"
            ));
        }
        if said.has_ended {
            let why = match said.is_above {
                true => "has ended",
                false => "has answered as many questions as one charge covers",
            };
            notices.push(format!(
                "{name} {why}; the next question opens it again, for its price"
            ));
        }
        if level == Notices::Full
            && !said.was_open
            && let Ok(sum) = MonitoredSum::of(plan)
        {
            notices.push(reach(terms, &sum));
        }
        Ok(notices)
    }
}

/// The facts that notices about an answer tell: whether an epoch was open before it, the answer,
/// and whether the epoch has ended with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct MonitorOutcome {
    pub was_open: bool,
    pub is_above: bool,
    pub has_ended: bool,
}

/// The distance from the threshold at which verdicts are right, in words.
fn reach(terms: EpochTerms, sum: &MonitoredSum<'_>) -> String {
    format!(
        "With a chance of 5 %, a sum that is {} below the threshold is answered true; of a hundred \
            sums that are {} below it, one or more are",
        three_digits(margin_of(terms, sum, 1)),
        three_digits(margin_of(terms, sum, 100)),
    )
}

fn margin_of(terms: EpochTerms, sum: &MonitoredSum<'_>, questions: u32) -> f64 {
    let epsilon = terms.epsilon.to_f64();
    margin(epsilon, terms.direction, questions) * sum.unit_moves()
}

fn title(monitor: &MonitorQuery) -> String {
    match monitor.name.as_str() {
        "" => "the monitor".to_owned(),
        name => format!("monitor {name}"),
    }
}

pub(super) fn other_direction(monitor: &MonitorQuery) -> Refusal {
    Refusal::new(
        reason::MONITOR_DIRECTION,
        format!("{} was opened by a sum of another kind", title(monitor)),
    )
    .detail(
        "Its noise is for counts, or for sums of values of one sign, which all move one way where \
            a unit is added. Nothing was charged.",
    )
    .hint("Name another monitor, as in pgveil.above(sum(x), 1000, 'another').")
}

pub(super) fn not_allowed() -> Refusal {
    Refusal::unsupported(reason::MONITORS_OFF, "pgveil.above()")
        .detail("The data owner's policy allows no monitors.")
        .hint("Ask for the count or sum itself, or ask the data owner for monitor_questions.")
}

pub(super) fn too_many_monitors(role: &str, most: usize) -> Refusal {
    Refusal::new(
        reason::TOO_MANY_MONITORS,
        format!("role {role} has {most} open monitors"),
    )
    .detail("Nothing was charged.")
    .hint(
        "Ask one of them: SELECT * FROM pgveil.monitors lists them. A question that is surely true \
            ends one.",
    )
}

pub(super) fn has_ended(monitor: &MonitorQuery) -> Refusal {
    Refusal::new(
        reason::MONITOR_ENDED,
        format!("{} ended while this question waited", title(monitor)),
    )
    .detail(
        "Another session's question ended it: by a true answer, by a failure, or as the last that \
            one charge covers. Nothing was charged.",
    )
    .hint(
        "Ask again to open it, for its price. SELECT * FROM pgveil.monitors shows its last answer.",
    )
}

pub(super) fn not_open(monitor: &MonitorQuery) -> Refusal {
    Refusal::new(
        reason::MONITOR_NOT_OPEN,
        format!("{} is not open", title(monitor)),
    )
    .detail("pgveil.reuse is summary, so nothing is bought. Nothing was charged.")
    .hint("SET pgveil.reuse = on opens it, for its price; EXPLAIN shows that.")
}

pub(super) fn not_for_role(role: &str) -> Refusal {
    Refusal::unsupported(
        reason::MONITORS_OFF,
        format!("pgveil.above() of role {role}"),
    )
    .detail("This role always gets its stored answer again, and answers of monitors are not kept.")
    .hint("Ask for the count or sum itself, or ask the data owner for another role.")
}

pub(super) fn busy(monitor: &MonitorQuery) -> Refusal {
    Refusal::new(
        reason::MONITOR_BUSY,
        format!("other sessions are asking {}", title(monitor)),
    )
    .detail("Nothing was charged.")
    .hint("Ask again later, or name another monitor.")
}

pub(super) fn below_least(needed: f64) -> Refusal {
    let needed = (needed * 1.001 * 1e6).ceil() / 1e6;
    Refusal::new(
        reason::EPSILON_TOO_SMALL,
        format!("this monitor needs an epsilon of at least {needed}"),
    )
    .detail("Each question shares it with the threshold, and gets at least the policy's least.")
    .hint(format!(
        "SET pgveil.epsilon = {needed}, if the policy allows as much."
    ))
}

pub(super) fn epsilon_too_small() -> Refusal {
    Refusal::new(
        reason::NO_FITTING_NOISE,
        "no noise of a supported size fits this epsilon",
    )
    .hint("Raise pgveil.epsilon.")
}
