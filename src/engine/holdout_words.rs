//! The words about a holdout: EXPLAIN, notices and refusals.

use super::budget_left::budget_left;
use super::declared_holdout::DeclaredHoldout;
use super::epochs::ForeseenEpoch;
use super::expected_error::after;
use super::explain::budget;
use super::notice::three_digits;
use super::statement_log::StatementFacts;
use super::{Engine, internal, ledger_failed};
use crate::error::Error;
use crate::mechanism::Loss;
use crate::parse::{ExplainFormat, HoldoutQuery, holdout_form};
use crate::policy::{Holdout, Notices, Reuse};
use crate::refusal::{Refusal, reason};
use crate::rewrite::MonitoredSum;
use crate::shadow::Requester;

impl Engine {
    /// A question to a holdout, before it is asked.
    pub(super) async fn foresee_holdout(
        &self,
        requester: &Requester,
        asked: &HoldoutQuery,
        (format, facts): (ExplainFormat, &StatementFacts),
    ) -> Result<ForeseenEpoch, Error> {
        let planned = self.plan_holdout(requester, asked, facts).await?;
        let declared = &planned.declared;
        let sum = MonitoredSum::of(&planned.plan).map_err(|_| Error::Rewrite(holdout_form()))?;
        let release = planned.plan.release(sum.release());
        let known = self
            .holdouts
            .open_terms(&requester.role, &declared.slot_name());
        let opened = self.times_opened(requester, declared).await?;
        let left = declared.holdout.overflows.saturating_sub(opened);
        let cost = cost(declared, (known.is_some(), left), self.reuse(requester));
        let opens_none = left == 0 || self.reuse(requester) == Reuse::Summary;
        let loss = match known.is_some() || opens_none {
            true => Some(Loss::ZERO),
            false => declared.terms().loss(),
        };
        let loss = loss.ok_or_else(|| internal("mechanism", &"a loss cannot be counted"))?;
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        let Holdout { tolerance, .. } = declared.holdout;
        if format == ExplainFormat::Json {
            let json = serde_json::json!({
                "holdout": declared.name(),
                "is_open": known.is_some(),
                "epsilon": declared.holdout.epsilon_of_epoch(declared.rows_per_unit),
                "openings_left": left,
                "tolerance": tolerance,
                "agrees_within": declared.holdout.agrees_within(1),
                "agrees_within_of_100": declared.holdout.agrees_within(100),
                "standard_error": standard_error(declared),
                "budget_left": balance.fraction_left(),
                "budget_left_after": after(&balance, loss),
                "sql": release.sql(),
            });
            let lines = vec![format!("{json:#}")];
            return Ok(ForeseenEpoch {
                lines,
                loss,
                balance,
                terms: None,
            });
        }
        let mut lines = vec![cost, reach(declared)];
        // The plan's own noise is not drawn.
        let is_of_rows = |line: &&String| !line.trim_start().starts_with("Sensitivity: ");
        let description = release.description().iter().take_while(is_of_rows);
        lines.extend(description.map(|line| format!("  {line}")));
        lines.extend(noise(declared, &self.policy.privacy.unit).map(|line| format!("    {line}")));
        if format == ExplainFormat::Verbose {
            lines.extend(release.sql().map(|sql| format!("  SQL: {sql}")));
        }
        lines.push(budget(&loss, &balance));
        Ok(ForeseenEpoch {
            lines,
            loss,
            balance,
            terms: None,
        })
    }

    /// The notices of an answer.
    pub(super) async fn holdout_notices(
        &self,
        requester: &Requester,
        declared: &DeclaredHoldout<'_>,
        said: HoldoutOutcome,
    ) -> Result<Vec<String>, Error> {
        let level = requester.session_settings.notices;
        let mut notices = Vec::new();
        if level == Notices::Off {
            return Ok(notices);
        }
        let name = title(declared);
        if !said.was_open {
            let epsilon = price(declared);
            let opened = self.times_opened(requester, declared).await?;
            let balance = self.ledger.balance(&requester.role).await;
            let left = budget_left(&balance.map_err(|e| ledger_failed(&e))?);
            notices.push(format!(
                "{name} was opened for epsilon {epsilon} (pure), for the {} of {} times; its \
                    questions are free until a mean differs; budget: {left}",
                ordinal(opened),
                declared.holdout.overflows
            ));
        }
        if said.has_ended {
            let why = match said.differs {
                true => format!(
                    "the mean over {name} differs from your value: it is shown with noise of \
                        standard error {}",
                    three_digits(standard_error(declared))
                ),
                false => format!("{name} has answered as many questions as one charge covers"),
            };
            notices.push(format!(
                "{why}; the next question opens it again, for its price"
            ));
        }
        if level == Notices::Full && !said.was_open {
            notices.push(reach(declared));
        }
        Ok(notices)
    }
}

/// The facts that notices about an answer tell: whether an epoch was open before it, whether the
/// means differ, and whether the epoch has ended with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HoldoutOutcome {
    pub was_open: bool,
    pub differs: bool,
    pub has_ended: bool,
}

/// What the question would cost, in words.
fn cost(declared: &DeclaredHoldout<'_>, (is_open, left): (bool, u32), reuse: Reuse) -> String {
    let (name, epsilon) = (title(declared), price(declared));
    let most = declared.holdout.overflows;
    match (is_open, left) {
        (true, _) => format!("{name} is open: the question is free"),
        (false, 0) => format!("{name} is used up: it was opened {most} times"),
        (false, _) if reuse == Reuse::Summary => {
            format!("{name} is not open, and pgveil.reuse = summary opens none")
        }
        (false, left) => format!(
            "{name} is not open: the question opens it for epsilon {epsilon} (pure), and later \
                ones are free until a mean differs; {left} of {most} times are left"
        ),
    }
}

/// How near the analyst's value a mean has to be, in words.
fn reach(declared: &DeclaredHoldout<'_>) -> String {
    let Holdout { tolerance, .. } = declared.holdout;
    let within = |questions| {
        let within = declared.holdout.agrees_within(questions);
        match within > 0.0 {
            true => format!("within {}", three_digits(within)),
            false => "nowhere".to_owned(),
        }
    };
    format!(
        "A mean agrees with your value where it differs by less than {tolerance}, but for noise: \
            with a chance of 95 %, one question agrees {}, and each of a hundred {}. A mean that \
            is shown has standard error {}",
        within(1),
        within(100),
        three_digits(standard_error(declared))
    )
}

/// How far one unit moves the sum that is compared, and its noise.
fn noise(declared: &DeclaredHoldout<'_>, unit: &str) -> [String; 2] {
    let (rows, of_unit) = (declared.holdout.rows, declared.rows_per_unit);
    let scale = declared.holdout.scale * f64::from(rows);
    [
        format!(
            "Sensitivity: one {unit} moves the sum over all rows, of each value less yours, by at \
                most {of_unit}"
        ),
        format!(
            "Laplace noise of scale {} in the threshold, {} in each question and {} in the sum \
                that is shown",
            three_digits(2.0 * scale),
            three_digits(4.0 * scale),
            three_digits(scale)
        ),
    ]
}

/// The standard error of a mean that is shown: Laplace noise of scale s has sqrt(2) s.
fn standard_error(declared: &DeclaredHoldout<'_>) -> f64 {
    declared.holdout.scale * std::f64::consts::SQRT_2
}

fn price(declared: &DeclaredHoldout<'_>) -> String {
    three_digits(declared.holdout.epsilon_of_epoch(declared.rows_per_unit))
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

fn title(declared: &DeclaredHoldout<'_>) -> String {
    format!("the holdout {}", declared.name())
}

pub(super) fn no_holdout(table: &[String]) -> Refusal {
    let name = table.join(".");
    Refusal::unsupported(reason::NO_HOLDOUT, format!("pgveil.holdout() over {name}"))
        .detail("The data owner's policy does not declare this table as a holdout.")
        .hint("SELECT * FROM pgveil.holdouts lists those there are. Or ask for the average itself.")
}

pub(super) fn not_for_role(role: &str) -> Refusal {
    Refusal::unsupported(
        reason::NO_HOLDOUT,
        format!("pgveil.holdout() of role {role}"),
    )
    .detail("This role always gets its stored answer again, and answers of holdouts are not kept.")
    .hint("Ask for the average itself, or ask the data owner for another role.")
}

pub(super) fn has_ended(declared: &DeclaredHoldout<'_>) -> Refusal {
    Refusal::new(
        reason::HOLDOUT_ENDED,
        format!("{} ended while this question waited", title(declared)),
    )
    .detail(
        "Another session's question ended it: by a mean that differs, by a failure, or as the last \
            that one charge covers. Nothing was charged.",
    )
    .hint("Ask again to open it, for its price.")
}

pub(super) fn not_open(declared: &DeclaredHoldout<'_>) -> Refusal {
    Refusal::new(
        reason::HOLDOUT_NOT_OPEN,
        format!("{} is not open", title(declared)),
    )
    .detail("pgveil.reuse is summary, so nothing is bought. Nothing was charged.")
    .hint("SET pgveil.reuse = on opens it, for its price; EXPLAIN shows that.")
}

pub(super) fn busy(declared: &DeclaredHoldout<'_>) -> Refusal {
    Refusal::new(
        reason::HOLDOUT_BUSY,
        format!("other sessions are asking {}", title(declared)),
    )
    .detail("Nothing was charged.")
    .hint("Ask again later.")
}

pub(super) fn no_fitting_noise(declared: &DeclaredHoldout<'_>) -> Refusal {
    Refusal::new(
        reason::NO_FITTING_NOISE,
        format!(
            "no noise of a supported size fits this average over {}",
            title(declared)
        ),
    )
    .hint("Round the expression, for example to numeric(8, 4).")
}
