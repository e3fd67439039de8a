//! A policy in words: what it protects, shows and allows.

use crate::aggregates::three_digits;
use crate::ledger::AccountSpec;
use crate::mechanism::{Fixed, bits};
use crate::policy::{Column, Holdout, Policy, Protection, Renew, Scalar, Table, Unit, Unlisted};

/// Number of values of a domain that the summary lists.
const VALUES_SHOWN: usize = 6;

/// Summarizes what the policy protects, shows and allows. It contains no verifier and no URL.
pub fn summary(
    policy: &Policy,
    unlisted: &[Unlisted<'_>],
    owner: &AccountSpec,
    roles: &[AccountSpec],
) -> Vec<String> {
    let privacy = &policy.privacy;
    let accounting = privacy.accounting.name();
    let budget = privacy.budget;
    let mut lines = vec![
        format!(
            "Protected: one {}, with everything about it{}",
            privacy.unit,
            privacy
                .units
                .map_or(String::new(), |units| format!("; about {units} units"))
        ),
        format!(
            "Owner's budget, all roles together: epsilon {}, delta {:e}, accounted by {accounting}",
            budget.epsilon, budget.delta
        ),
        format!(
            "One query: epsilon {} by default, at most {}, at least {}",
            privacy.epsilon_default, privacy.epsilon_max, privacy.epsilon_min
        ),
        "Roles:".to_owned(),
    ];
    lines.extend(
        roles
            .iter()
            .map(|role| describe_budget(role, owner, policy)),
    );
    if !policy.operators.is_empty() {
        lines.push("Operators:".to_owned());
    }
    let operators = policy.operators.iter();
    lines.extend(operators.map(|who| format!("  {}: may {}", who.name, who.rights.words())));
    lines.push("Tables:".to_owned());
    for table in &policy.tables {
        let name = format!("{}.{}", table.schema, table.name);
        let unlisted = unlisted.iter().find(|unlisted| unlisted.table == name);
        let unlisted = unlisted.map_or(&[][..], |unlisted| &unlisted.columns);
        lines.extend(describe_table(table, unlisted, &policy.privacy.unit));
    }
    lines
}

/// Describes a role's budget and the number of bits that its failures may reveal.
fn describe_budget(role: &AccountSpec, owner: &AccountSpec, policy: &Policy) -> String {
    let AccountSpec {
        name,
        budget,
        threshold_share: _,
        cap,
        renew,
    } = role;
    let known = policy.role(name);
    let written: Vec<String> = known
        .into_iter()
        .flat_map(|role| role.writes.iter().map(ToString::to_string))
        .collect();
    if known.is_some_and(|role| !role.asks) {
        return format!("  {name}: asks nothing, writes {}", written.join(", "));
    }
    let writes = match written.is_empty() {
        true => String::new(),
        false => format!("; writes {}", written.join(", ")),
    };
    // A renewed budget is limited by the owner's total over all periods.
    let cap = match renew {
        Renew::Never => cap,
        Renew::Weekly | Renew::Monthly => &owner.cap,
    };
    let questions = cap.questions(
        Fixed::round_down(policy.privacy.epsilon_min),
        Fixed::round_down(budget.delta),
    );
    // Each charge may be for a monitor or a holdout, and each of its questions may fail.
    let per_charge = u64::from(policy.limits.monitor_questions.max(1));
    let asked = questions.saturating_mul(per_charge);
    let failures = policy.limits.failures;
    let (epsilon, delta, leaked) = (budget.epsilon, budget.delta, bits(asked, failures).ceil());
    let each = match policy.limits.monitor_questions {
        0 | 1 => String::new(),
        most => format!(", each a monitor or a holdout of up to {most} statements"),
    };
    format!(
        "  {name}: epsilon {epsilon}, delta {delta:e}; at most {questions} charged \
            questions{each}: which of them fail, {failures} at most, may reveal {leaked} more \
            bits{writes}"
    )
}

fn describe_table(table: &Table, unlisted: &[&str], word: &str) -> Vec<String> {
    let name = format!("  {}.{}", table.schema, table.name);
    match &table.protection {
        Protection::Public => vec![format!("{name}: public")],
        Protection::Private(unit) => {
            let mut lines = vec![format!("{name}: private, {}", rows(unit, word))];
            let wide = table
                .columns
                .iter()
                .map(|column| column.name.chars().count())
                .max()
                .unwrap_or(0);
            lines.extend(table.columns.iter().map(|column| {
                let by = if unlisted.contains(&column.name.as_str()) {
                    " (not listed: by other_columns)"
                } else {
                    ""
                };
                format!("    {:wide$}  {}{by}", column.name, knowledge(column, unit))
            }));
            lines.extend(table.periods.map(|periods| {
                let column = &table.columns[periods.column.0].name;
                format!("    Questions by time: {}", periods.describe(column))
            }));
            lines.extend(table.holdout.map(|holdout| holdout_of(&holdout, unit)));
            lines
        }
    }
}

fn holdout_of(holdout: &Holdout, unit: &Unit) -> String {
    let Holdout {
        rows,
        tolerance,
        scale: _,
        overflows,
    } = holdout;
    let epsilon = three_digits(holdout.epsilon_of_epoch(unit.rows_per_unit));
    format!(
        "    A holdout of {rows} rows: a role pays epsilon {epsilon} (pure) for its questions \
            until a mean differs by {tolerance}, {overflows} times at most"
    )
}

fn rows(unit: &Unit, word: &str) -> String {
    if unit.is_primary_key && unit.path.is_empty() {
        return format!("one row a {word} (its primary key {})", unit.column);
    }
    let path: Vec<String> = unit
        .path
        .iter()
        .map(|s| format!("{} -> {}.{}.{}", s.column, s.schema, s.table, s.referenced))
        .collect();
    let by = if path.is_empty() {
        unit.column.clone()
    } else {
        path.join(", ")
    };
    format!(
        "at most {} rows a {word} count (by {by})",
        unit.rows_per_unit
    )
}

fn knowledge(column: &Column, unit: &Unit) -> String {
    let values = column.domain.as_ref().map(|values| {
        let mut shown: Vec<String> = values.iter().take(VALUES_SHOWN).map(text).collect();
        if values.len() > VALUES_SHOWN {
            shown.push(format!("… ({} values)", values.len()));
        }
        format!("values {}", shown.join(", "))
    });
    let bounds = column
        .bounds
        .as_ref()
        .map(|b| format!("from {} to {}", text(&b.lower), text(&b.upper)));
    let total = column.unit_total;
    let total = total.map(|most| format!("at most {most} in all rows of a unit"));
    let is_unit = if unit.path.is_empty() {
        column.name == unit.column
    } else {
        unit.path.first().is_some_and(|s| s.column == column.name)
    };
    let known: Vec<String> = is_unit
        .then(|| "the unit".to_owned())
        .into_iter()
        .chain(values)
        .chain(bounds)
        .chain(total)
        .collect();
    if known.is_empty() {
        "no bounds, no values: for WHERE, and for groups above a threshold".to_owned()
    } else {
        known.join("; ")
    }
}

fn text(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Decimal(value) | Scalar::Text(value) => value.clone(),
        Scalar::Date(_) | Scalar::Timestamp(_) | Scalar::Interval { .. } => {
            crate::rewrite::emit::sql::scalar_text(scalar)
        }
    }
}
