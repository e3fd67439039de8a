//! How rules of a policy are written in a difference. Rules that differ have words that differ.

use crate::mechanism::{Randomiser, Rappor};
use crate::policy::error::At;
use crate::policy::file::{ColumnEntry, ColumnRule, Literal, PathStep, RowsRule, UnitRule};

/// Parts of a name with dots, in double quotes where they need them.
pub fn name(parts: &[&str]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    let quoted: Vec<String> = parts.iter().map(|part| plain(part, is_plain)).collect();
    quoted.join(".")
}

/// The text as it is where every character is plain, else in quotes.
fn plain(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("{text:?}")
    }
}

/// A constant; `auto` without quotes is a search.
fn literal(literal: &At<Literal>) -> String {
    // Types come from the catalog, not from quotes.
    let Literal { text, quoted: _ } = &literal.value;
    if text == "auto" {
        return format!("{text:?}");
    }
    plain(text, |c| {
        c.is_alphanumeric() || c == '_' || "+-.:".contains(c)
    })
}

pub fn rows(rows: Option<&At<RowsRule>>) -> String {
    match rows.map(|rows| rows.value) {
        Some(RowsRule::Most(most)) => most.to_string(),
        Some(RowsRule::Searched) => "auto".to_owned(),
        None => "limits.rows_per_unit".to_owned(),
    }
}

/// The way to the unit.
pub fn unit(rule: &UnitRule) -> String {
    match rule {
        UnitRule::Column(column) => name(&[&column.value]),
        UnitRule::Path { steps, trusted: _ } => {
            let steps: Vec<String> = steps.iter().map(|at| step(&at.value)).collect();
            steps.join(", ")
        }
    }
}

fn step(step: &PathStep) -> String {
    let PathStep {
        column,
        schema,
        table,
        referenced,
    } = step;
    format!(
        "{} -> {}",
        name(&[column]),
        name(&[schema, table, referenced])
    )
}

/// A rule as answers depend on it, whoever makes reports.
pub fn column(rule: &ColumnRule) -> String {
    column_made(rule, false)
}

/// A rule with who makes reports: pgveil (`is_local`), or somebody else.
pub fn column_made(rule: &ColumnRule, is_local: bool) -> String {
    let end = |end: Option<&At<Literal>>| end.map_or("auto".to_owned(), literal);
    match rule {
        ColumnRule::Hidden => "hidden".to_owned(),
        ColumnRule::Visible => "visible".to_owned(),
        ColumnRule::Bounds {
            place: _,
            lower,
            upper,
        } => format!("bounds [{}, {}]", literal(lower), literal(upper)),
        ColumnRule::Searched {
            place: _,
            lower,
            upper,
        } => format!("bounds [{}, {}]", end(lower.as_ref()), end(upper.as_ref())),
        ColumnRule::Values(values) => {
            let texts: Vec<String> = values.iter().map(literal).collect();
            format!("values [{}]", texts.join(", "))
        }
        ColumnRule::Domain(domain) => {
            let (schema, table, column) = &domain.value;
            format!("domain {}", name(&[schema, table, column]))
        }
        ColumnRule::Collected {
            place: _,
            randomiser,
            cohort,
            of,
        } => {
            let cohort = cohort.as_ref().map(|of| format!(", cohorts {}", of.value));
            let cohort = cohort.unwrap_or_default();
            let made = match is_local {
                true => "randomised on the way",
                false => "collected",
            };
            format!("{made} by {}{cohort}, {}", odds(randomiser), column(of))
        }
    }
}

/// A mechanism with its odds.
fn odds(randomiser: &Randomiser) -> String {
    let name = randomiser.name();
    match randomiser {
        Randomiser::Coin { truth, yes } => format!("{name} of truth {truth} and yes {yes}"),
        Randomiser::Unary { one, zero } => format!("{name} of one {one} and zero {zero}"),
        Randomiser::KRr { epsilon } | Randomiser::Mean { epsilon } => {
            format!("{name} of epsilon {epsilon}")
        }
        Randomiser::Rappor(Rappor {
            bits,
            hashes,
            cohorts,
            f,
            p,
            q,
        }) => format!(
            "{name} of {bits} bits, {hashes} hashes, {cohorts} cohorts, f {f}, p {p} and q {q}"
        ),
    }
}

/// Whether a column of the table is its unit or begins its path: it may be used without a rule.
pub fn is_of_unit(unit: &UnitRule, column: &str) -> bool {
    match unit {
        UnitRule::Column(name) => name.value == column,
        UnitRule::Path { steps, trusted: _ } => {
            steps.first().is_some_and(|at| at.value.column == column)
        }
    }
}

/// Whether a list is complete: by its word, or because both truth values stand in it.
pub fn is_complete(entry: &ColumnEntry) -> bool {
    if let Some(complete) = &entry.complete {
        return complete.value;
    }
    let ColumnRule::Values(values) = entry.rule.of_values() else {
        return false;
    };
    let mut texts: Vec<String> = values
        .iter()
        .map(|value| value.value.text.to_lowercase())
        .collect();
    texts.sort_unstable();
    ["false true", "f t"].contains(&texts.join(" ").as_str())
}

/// The values that a list has and did not have.
pub fn new_values(old: Option<&ColumnRule>, new: Option<&ColumnRule>) -> Vec<String> {
    let (Some(ColumnRule::Values(old)), Some(ColumnRule::Values(new))) = (
        old.map(ColumnRule::of_values),
        new.map(ColumnRule::of_values),
    ) else {
        return Vec::new();
    };
    let before: Vec<String> = old.iter().map(literal).collect();
    let now = new.iter().map(literal);
    now.filter(|value| !before.contains(value)).collect()
}
