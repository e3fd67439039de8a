//! What a plan costs and how far off its answers may be, in words: notices and EXPLAIN. Public facts only.

use crate::ledger::Balances;
use crate::mechanism::{Fixed, Loss, epsilon_of_mu};
use crate::policy::Policy;
use crate::rewrite::{Output, Plan, ReleasePlan, measure_deviation};

/// Two standard errors to either side hold the exact clipped answer in 95 of 100 cases.
const NORMAL_95: f64 = 1.96;

/// The notices of an answer: its cost, and the noise of every aggregate whose noise does not depend on the data.
pub fn of_answer(plan: &Plan, balances: &Balances, policy: &Policy) -> Vec<String> {
    if plan.loss().is_zero() {
        return Vec::new();
    }
    let mut lines = vec![format!("privacy cost: {}; {}", cost(&plan.loss(), policy), left(balances))];
    lines.extend(plan.releases().iter().flat_map(noise));
    lines
}

/// EXPLAIN's lines: each release's tree, SQL, sensitivity and noise; the cost; what the role has left.
pub fn explain(plan: &Plan, balances: &Balances, policy: &Policy) -> Vec<String> {
    let mut lines = describe(plan, policy);
    lines.push(format!("Budget: {}", left(balances)));
    lines
}

/// The plan alone, as `pgveil explain` and the golden files show it.
pub fn describe(plan: &Plan, policy: &Policy) -> Vec<String> {
    let mut lines = Vec::new();
    for release in plan.releases() {
        lines.extend(release.description().iter().cloned());
        if let Some(sql) = release.sql() {
            lines.push(format!("  SQL: {sql}"));
        }
        for (parameter, (middle, column)) in release.constants().iter().enumerate() {
            lines.push(format!("  ${}: column {} of middle query {}", parameter + 1, column + 1, middle + 1));
        }
    }
    for (number, middle) in plan.middles().iter().enumerate() {
        lines.push(format!("Middle query {}: {}", number + 1, middle.query));
    }
    lines.push(format!("Outer query: {}", plan.outer()));
    lines.push(format!("Cost: {}", if plan.loss().is_zero() { "nothing".to_owned() } else { cost(&plan.loss(), policy) }));
    lines
}

/// EXPLAIN (FORMAT JSON): one document.
pub fn explain_json(plan: &Plan, balances: &Balances, policy: &Policy) -> Vec<String> {
    let releases: Vec<serde_json::Value> =
        plan.releases().iter().map(|r| serde_json::json!({ "description": r.description(), "sql": r.sql(), "noise": noise(r) })).collect();
    let document = serde_json::json!([{
        "releases": releases,
        "middle_queries": plan.middles().iter().map(|m| m.query.to_string()).collect::<Vec<_>>(),
        "outer_query": plan.outer().to_string(),
        "cost": components(&plan.loss()),
        "cost_text": cost(&plan.loss(), policy),
        "budget_left": balances.role.fraction_left(),
    }]);
    vec![serde_json::to_string_pretty(&document).unwrap_or_default()]
}

fn components(loss: &Loss) -> serde_json::Value {
    serde_json::json!({
        "epsilon": loss.epsilon.map(Fixed::to_f64),
        "rho": loss.rho.to_f64(),
        "mu_squared": loss.mu_squared.to_f64(),
        "delta": loss.delta.to_f64(),
    })
}

/// A loss in words: pure epsilon where there is one, else mu and the epsilon it stands for at the policy's delta.
fn cost(loss: &Loss, policy: &Policy) -> String {
    let threshold = if loss.delta == Fixed::ZERO { String::new() } else { format!(" and delta {:.1e}", loss.delta.to_f64()) };
    match loss.epsilon {
        Some(epsilon) => format!("epsilon {:.4} (Laplace){threshold}", epsilon.to_f64()),
        None => {
            let delta = policy.privacy.budget.delta;
            let alone = epsilon_of_mu(loss.mu_squared, Fixed::round_down(delta))
                .map_or(String::new(), |e| format!(", alone epsilon {:.3} at delta {delta:e}", e.to_f64()));
            format!("mu {:.4} (Gaussian{alone}){threshold}", loss.mu_squared.to_f64().sqrt())
        }
    }
}

fn left(balances: &Balances) -> String {
    format!("{:.2} % of your budget is left", balances.role.fraction_left() * 100.0)
}

/// A line for each aggregate: the standard deviation of its noise, and what that means.
fn noise(release: &ReleasePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, (output, _)) in release.outputs().iter().enumerate() {
        let number = at + 1;
        let line = match output {
            Output::Measure(measure) => measure_deviation(release, &release.measures()[*measure]).map(|deviation| {
                format!("noise of aggregate {number}: standard deviation {}, 95 % within ±{}", shown(deviation), shown(deviation * NORMAL_95))
            }),
            Output::Average { sum, count, range } => {
                let deviation = |m: usize| measure_deviation(release, &release.measures()[m]);
                deviation(*count).zip(deviation(*sum)).map(|(count, _)| {
                    let half = (range.hi - range.lo) / 2.0;
                    format!(
                        "noise of aggregate {number}: an average of n rows has standard deviation about {} / n for values near the middle of [{}, {}]",
                        shown(half * count),
                        range.lo,
                        range.hi
                    )
                })
            }
        };
        lines.extend(line);
    }
    lines
}

fn shown(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}
