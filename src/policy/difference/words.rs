//! How rules of a policy are written in a difference. Rules that differ have words that differ.

use crate::policy::error::At;
use crate::policy::file::{ColumnRule, Literal, PathStep, RowsRule, UnitRule};

/// Parts of a name with dots, in double quotes where they need them.
pub fn name(parts: &[&str]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || c == '_';
    let quoted: Vec<String> = parts.iter().map(|part| plain(part, is_plain)).collect();
    quoted.join(".")
}

/// As it is where every character is plain, else in quotes.
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

pub fn column(rule: &ColumnRule) -> String {
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
    }
}
