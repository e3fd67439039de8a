//! A plan's cost and its answers' errors, in words. Public facts and released values only.

mod decoded;
mod errors;

use std::time::Duration;

use super::budget_left::budget_left;
use super::rollup::FromFiner;
use super::run::Answered;
use crate::finish::Fits;
use crate::ir::ReleaseId;
use crate::ledger::Balances;
use crate::mechanism::{Fixed, Loss, epsilon_of_mu};
use crate::parse::Query;
use crate::policy::{Notices, Policy};
use crate::rewrite::{EmittedStatement, Plan, ReleasePlan, RowStream};
pub(super) use errors::noise;
use errors::{left_out, noise_released};

/// The notices of an answer, at the level of the session: one line of cost, then the error of each
/// aggregate.
pub(super) fn of_answer(
    plan: &Plan,
    (answered, fits): (&Answered, &Fits),
    level: Notices,
    balances: &Balances,
    (delta, policy): (f64, &Policy),
) -> Vec<String> {
    let Answered {
        released,
        paid,
        recalled,
        summed,
        better: _,
        periods,
        _held: _,
    } = answered;
    let left = budget_left(&balances.role);
    let recalled = recalled + summed.len();
    let cost = match (paid.is_zero(), recalled) {
        (true, _) if !summed.is_empty() => {
            let made = match summed.iter().find_map(FromFiner::summary) {
                Some(name) => format!("summary {name} answers it"),
                None => "a finer answer was released before".to_owned(),
            };
            format!("privacy cost: nothing, {made}; {left}")
        }
        (true, _) if periods.is_some() => {
            format!("privacy cost: nothing, no period had to be bought; {left}")
        }
        (true, _) => format!("privacy cost: nothing, the same was released before; {left}"),
        (false, 0) => format!("privacy cost: {}; {left}", cost(paid, delta)),
        (false, recalled) => {
            format!(
                "privacy cost: {}, {recalled} of {} releases were made before; {left}",
                cost(paid, delta),
                plan.releases().len()
            )
        }
    };
    // The answer is less accurate than the session's settings ask for.
    let of_periods = periods
        .iter()
        .flat_map(|shown| shown.describe(plan, policy, "bought now"));
    let cost = std::iter::once(cost)
        .chain(of_periods)
        .chain(summed.iter().map(|summed| summed.describe(policy)));
    match level {
        Notices::Off => Vec::new(),
        Notices::Cost => {
            let releases = plan.releases().iter().enumerate();
            let left_out =
                releases.flat_map(|(at, release)| left_out(release, released.table(ReleaseId(at))));
            cost.chain(left_out.map(|left| left.line))
                .chain(decoded::lines(plan, released, fits))
                .collect()
        }
        Notices::Full => {
            let noise = plan
                .releases()
                .iter()
                .enumerate()
                .flat_map(|(at, release)| {
                    let id = ReleaseId(at);
                    noise_released(release, released.table(id), (id, fits))
                });
            let decoded = decoded::lines(plan, released, fits);
            let mut lines: Vec<String> = cost.chain(noise).chain(decoded).collect();
            for caution in plan.releases().iter().flat_map(|r| &r.facts().cautions) {
                if !lines.contains(caution) {
                    lines.push(caution.clone());
                }
            }
            lines
        }
    }
}

/// Notices for releases that no row can be in: the policy says so, and nothing was asked.
pub(super) fn of_no_row(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let is_free = plan
        .releases()
        .iter()
        .all(|release| release.statements().is_empty());
    let free = if is_free {
        "so nothing was asked or charged"
    } else {
        "so this part is free"
    };
    for because in plan.releases().iter().filter_map(ReleasePlan::no_row) {
        let line = format!("no row can match, {free}: {because}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The notice for a query of private rows that reads the clock, where the policy rounds the clock.
pub fn of_clock(plan: &Plan, query: &Query, policy: &Policy) -> Option<String> {
    let grain = policy.time_grain?;
    let caution = || {
        format!(
            "now() is rounded down to a multiple of {} in conditions on private rows",
            span(grain)
        )
    };
    (!plan.releases().is_empty() && query.reads_clock()).then(caution)
}

/// A time in the largest unit that divides it: `90min`.
fn span(time: Duration) -> String {
    let ms = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "min"), (1_000, "s")];
    units
        .iter()
        .find(|(scale, _)| ms.is_multiple_of(*scale))
        .map_or(format!("{ms}ms"), |(scale, unit)| {
            format!("{}{unit}", ms / scale)
        })
}

/// Whether a description shows the SQL that runs, which is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sql {
    Shown,
    LeftOut,
}

/// A statement, and the one whose rows are read in its place.
pub fn statement_lines(statement: &EmittedStatement) -> Vec<String> {
    let stream = statement.stream();
    let rows = |stream: &RowStream| format!("  Read and added up here: {}", stream.sql());
    let sql = format!("  SQL: {}", statement.sql());
    std::iter::once(sql).chain(stream.map(rows)).collect()
}

/// The plan's notices, for a role with this delta: as `pgveil explain` and the golden files show
/// them.
pub fn describe(plan: &Plan, delta: f64, sql: Sql) -> Vec<String> {
    let mut lines = Vec::new();
    for release in plan.releases() {
        lines.extend(release.description().iter().cloned());
        if sql == Sql::LeftOut {
            continue;
        }
        lines.extend(release.statements().into_iter().flat_map(statement_lines));
        for (parameter, constant) in release.constants().iter().enumerate() {
            lines.push(format!(
                "  ${}: column {} of middle query {}",
                parameter + 1,
                constant.ordinal(),
                constant.middle.0 + 1
            ));
        }
    }
    if sql == Sql::Shown {
        for (number, middle) in plan.middles().iter().enumerate() {
            lines.push(format!("Middle query {}: {}", number + 1, middle.query));
        }
        lines.push(format!("Outer query: {}", plan.outer()));
    }
    if plan.releases().is_empty() {
        lines.push("Public: answered exactly".to_owned());
    }
    lines.push(format!(
        "Cost: {}",
        if plan.loss().is_zero() {
            "nothing".to_owned()
        } else {
            cost(&plan.loss(), delta)
        }
    ));
    lines
}

/// A loss in words: pure epsilon where there is one, otherwise mu and its epsilon at the role's
/// delta, for which mu was chosen.
pub(super) fn cost(loss: &Loss, delta: f64) -> String {
    let threshold = if loss.delta == Fixed::ZERO {
        String::new()
    } else {
        format!(" and delta {:.1e}", loss.delta.to_f64())
    };
    match loss.epsilon {
        Some(epsilon) => format!("epsilon {:.4} (pure){threshold}", epsilon.to_f64()),
        None => {
            let alone = epsilon_of_mu(loss.mu_squared, Fixed::round_down(delta))
                .map_or(String::new(), |e| {
                    format!(", alone epsilon {:.3} at delta {delta:e}", e.to_f64())
                });
            format!(
                "mu {:.4} (Gaussian{alone}){threshold}",
                loss.mu_squared.to_f64().sqrt()
            )
        }
    }
}

fn number_text(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// A number in three digits, which are easy to read.
pub fn three_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi(magnitude - 2);
    let rounded = (value / step).round() * step;
    let digits = (2 - magnitude).clamp(0, 12) as usize;
    format!("{rounded:.digits$}")
}
