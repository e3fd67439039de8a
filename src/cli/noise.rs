//! What noise a policy means for the plainest questions: how many rows a table has, and what a
//! column adds up to. No data is read.

use super::{Failure, explain};
use crate::catalog::Type;
use crate::engine::{MemoryShare, Requester, constants, plan};
use crate::finish::quantile_95;
use crate::parse::{Statement, parse};
use crate::policy::{Policy, Protection, SessionSettings, Table};
use crate::postgres::{identifier, qualified};
use crate::resolve::Constants;
use crate::rewrite::{Output, Terms, measure_deviation, times_clip};

/// For each private table, the noise of a count and of each bounded column's sum, each asked alone
/// by the policy's first role at its default epsilon.
pub fn lines(policy: &Policy) -> Result<Vec<String>, Failure> {
    let Some(role) = policy.roles.first() else {
        return Ok(Vec::new());
    };
    let terms = explain::terms(policy, Some(&role.name))?;
    let requester = Requester {
        role: role.name.clone(),
        session_settings: SessionSettings::default(),
        settings: Vec::new(),
        search_path: Vec::new(),
        process: 0,
        share: MemoryShare::default(),
    };
    let constants = constants(&requester, policy);
    let mut lines = vec![format!(
        "Noise, of one answer in 95 % of cases, each asked alone at epsilon {} (a sum over fewer \
            rows or groups has the same):",
        terms.epsilon
    )];
    for table in &policy.tables {
        let Protection::Private(_) = table.protection else {
            continue;
        };
        let asked = [("count(*)".to_owned(), "count(*)".to_owned())]
            .into_iter()
            .chain(summable(table).map(|name| {
                let quoted = identifier(name);
                (format!("sum({quoted})"), format!("sum({name})"))
            }));
        let told = asked.filter_map(|(call, shown)| {
            let from = qualified(&table.schema, &table.name);
            let noise = of(
                &format!("SELECT {call} FROM {from}"),
                policy,
                &constants,
                &terms,
            )?;
            Some(format!("{shown} ±{noise}"))
        });
        lines.push(format!(
            "  {}.{}: {}",
            table.schema,
            table.name,
            told.collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(lines)
}

/// Columns of numbers with bounds.
fn summable(table: &Table) -> impl Iterator<Item = &str> {
    let is_number = |data_type: &Type| {
        matches!(
            data_type,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8
        )
    };
    let columns = table.columns.iter();
    columns
        .filter(move |column| column.bounds.is_some() && is_number(&column.data_type))
        .map(|column| column.name.as_str())
}

/// The noise of a query of one aggregate; `None` where it is not answered at these terms.
fn of(sql: &str, policy: &Policy, constants: &Constants, terms: &Terms) -> Option<String> {
    let statements = parse(sql).ok()?;
    let [Statement::Query(query)] = statements.as_slice() else {
        return None;
    };
    let plan = plan(query, policy, &[], constants, terms).ok()?;
    let [release] = plan.releases() else {
        return None;
    };
    let [(Output::Measure(at), _)] = release.outputs() else {
        return None;
    };
    let measure = &release.measures()[*at];
    let wide = quantile_95(release.price()?.mechanism);
    if let Some((times, most)) = times_clip(release, measure) {
        let (times, most) = (rounded(times * wide), rounded(most));
        return Some(format!("{times} times the clip (auto, at most {most})"));
    }
    Some(rounded(measure_deviation(release, measure)? * wide))
}

/// Three digits, so that the eye takes it in.
pub(super) fn rounded(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let step = 10f64.powi(magnitude - 2);
    let rounded = (value / step).round() * step;
    let digits = (2 - magnitude).clamp(0, 12) as usize;
    format!("{rounded:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn three_digits_are_shown() {
        let shown = [947_588.2, 15.76, 0.031_27, 9.996, 0.0].map(rounded);
        assert_eq!(shown, ["948000", "15.8", "0.0313", "10.00", "0"]);
    }
}
