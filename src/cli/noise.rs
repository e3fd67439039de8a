//! What a policy's answers are worth: of each private table a count, and of each bounded column the
//! sum and the average. No data is read.

use super::{Failure, explain};
use crate::engine::{
    Expected, MemoryShare, Pricing, Requester, Total, Worth, answers, constants, rounded,
};
use crate::policy::{Policy, SessionSettings};
use crate::rewrite::Terms;

/// For each private table, how far off its plainest answers are, each asked alone by the policy's
/// first role at its default epsilon; and how many of them its budget holds.
pub fn lines(policy: &Policy) -> Result<Vec<String>, Failure> {
    let Some(role) = policy.roles.first() else {
        return Ok(Vec::new());
    };
    let settings = role.session_settings;
    let terms = explain::terms(policy, Some(&role.name))?;
    let terms = Terms {
        epsilon: settings.epsilon.unwrap_or(terms.epsilon),
        session_settings: SessionSettings {
            // What a target needs is known after a first answer.
            target_error: None,
            ..settings
        },
        ..terms
    };
    let requester = Requester {
        role: role.name.clone(),
        session_settings: SessionSettings::default(),
        settings: Vec::new(),
        search_path: Vec::new(),
        process: 0,
        share: MemoryShare::default(),
    };
    let constants = constants(&requester, policy);
    let all = Pricing {
        policy,
        constants: &constants,
        terms: &terms,
    }
    .all();
    let mut lines = vec![format!(
        "Noise, of one answer in 95 % of cases, each asked alone by {} at epsilon {} (a sum over \
            fewer rows or groups has the same):",
        role.name, terms.epsilon
    )];
    for of_table in all.chunk_by(|one, next| std::ptr::eq(one.table, next.table)) {
        lines.extend(of_one_table(of_table, &terms));
    }
    Ok(lines)
}

fn of_one_table(all: &[Worth<'_>], terms: &Terms) -> Vec<String> {
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let told: Vec<String> = all.iter().map(of_one).collect();
    let mut lines = vec![format!(
        "  {}.{}: {}",
        first.table.schema,
        first.table.name,
        told.join(", ")
    )];
    let losses = all
        .iter()
        .filter_map(|worth| Some(worth.answer.as_ref().ok()?.loss));
    let held = losses.filter_map(|loss| Some(answers(terms.accounts.first()?, loss)));
    if let Some(held) = held.min() {
        lines.push(format!("    the budget holds {held} such answers"));
    }
    // The plainest question has the plainest remedy.
    if let Some(advice) = &first.advice {
        lines.push(format!("    {} after {advice}", name(first)));
    }
    lines
}

/// `count(*)`.
fn name(worth: &Worth<'_>) -> String {
    format!("{}({})", worth.total.name(), worth.column.unwrap_or("*"))
}

fn of_one(worth: &Worth<'_>) -> String {
    let name = name(worth);
    let answer = match &worth.answer {
        Ok(answer) => answer,
        Err(why) => return format!("{name} is not answered ({why})"),
    };
    let Expected {
        error,
        is_chosen,
        in_units,
        is_useless,
        loss: _,
        rows: _,
    } = answer;
    let useless = if *is_useless { ", useless" } else { "" };
    let units = in_units.map_or("unknown".to_owned(), |units| {
        format!("{} units", rounded(units))
    });
    let error = error.map(rounded);
    let told = match (worth.total, is_chosen, error) {
        (Total::Average, _, Some(error)) => format!("±{error}"),
        (Total::Average, _, None) => format!("± as {units} of all"),
        (Total::Count | Total::Sum, true, Some(error)) => format!("± as {units}, at most {error}"),
        (Total::Count | Total::Sum, false, Some(error)) => format!("±{error} ({units})"),
        (Total::Count | Total::Sum, _, None) => "± what a look finds".to_owned(),
    };
    format!("{name} {told}{useless}")
}
