//! The shown columns of a table, and their bounds and values in their own types.

use std::cmp::Ordering;

use super::collected::{advise, take_reports};
use super::dictionary::{Filters, find_cohorts};
use super::domains::Domains;
use super::{Listed, find_column};
use crate::catalog;
use crate::policy::error::{At, Findings, Location};
use crate::policy::file::{ColumnEntry, ColumnRule, Literal, TableRule, UnitRule};
use crate::policy::scalar;
use crate::policy::{Column, ColumnBounds, Scalar};

/// The visible columns of the table, in the table's order.
pub async fn check(
    table: &Listed<'_>,
    listed: &[Listed<'_>],
    values_max: u32,
    domains: &mut Domains<'_>,
    findings: &mut Findings,
) -> Vec<Column> {
    let TableRule::Private {
        columns,
        shows_other_columns,
        ..
    } = &table.entry.rule
    else {
        return public(table, domains, findings).await;
    };
    for entry in columns {
        find_column(
            table.relation,
            &At {
                place: entry.place,
                value: entry.name.as_str(),
            },
            findings,
        );
    }
    let needed = needed_columns(table, listed);
    let (mut shown, mut cohorts) = (Vec::new(), Vec::new());
    for column in &table.relation.columns {
        let entry = columns.iter().find(|e| e.name == column.name);
        let is_needed = needed.contains(&column.name.as_str());
        let place = entry.map_or(table.entry.place, |e| e.place);
        match entry.map(|e| &e.rule) {
            Some(ColumnRule::Hidden) if is_needed => {
                findings.error(
                    place,
                    format!(
                        "column \"{}\" is the unit of {} or on a path to it, and cannot be hidden",
                        column.name,
                        table.name()
                    ),
                );
                continue;
            }
            Some(ColumnRule::Hidden) => continue,
            Some(_) => {}
            // A column that the policy does not name is shown only if it can be read.
            None if is_needed
                || (*shows_other_columns && column.selectable && !column.is_virtual) => {}
            None => continue,
        }
        if !readable(table, column, entry, findings) {
            continue;
        }
        let mut made = bare(column);
        let column = &catalog::Column {
            data_type: column
                .over
                .clone()
                .unwrap_or_else(|| column.data_type.clone()),
            ..column.clone()
        };
        if let Some(entry) = entry {
            nullability(entry, column, findings);
            match Filters::of(entry) {
                Some(filters) => cohorts.extend(filters.read(&mut made, is_needed, findings)),
                None => rule(entry, column, &mut made, values_max, domains, findings).await,
            }
            made.is_complete = is_complete(entry, column, &made, findings);
            made.unit_total = unit_total(entry, column, findings);
            leave_to_reports(entry, &mut made, is_needed, findings);
        }
        shown.push(made);
    }
    find_cohorts(&mut shown, &cohorts, (&needed, values_max), findings);
    advise(columns, findings);
    shown
}

/// Leaves what is known of true values to the reports of them, where they were randomised.
fn leave_to_reports(
    entry: &ColumnEntry,
    made: &mut Column,
    is_needed: bool,
    findings: &mut Findings,
) {
    if let ColumnRule::Collected {
        place,
        randomiser,
        cohort: None,
        of,
    } = &entry.rule
    {
        made.is_complete = false;
        let is_of_table = matches!(**of, ColumnRule::Domain(_));
        let about = (is_needed, is_of_table);
        take_reports(made, (*place, *randomiser), about, findings);
    }
}

/// A public table shows every column that the role can read; where its values are few, they are its
/// domain.
async fn public(
    table: &Listed<'_>,
    domains: &mut Domains<'_>,
    findings: &mut Findings,
) -> Vec<Column> {
    let mut columns = Vec::new();
    for column in table.relation.columns.iter().filter(|c| c.selectable) {
        columns.push(Column {
            domain: domains.few(table.relation, column).await,
            is_complete: false,
            ..bare(column)
        });
    }
    domains.extents(table.relation, &mut columns).await;
    if columns.is_empty() && table.relation.selectable {
        findings.error(
            table.entry.place,
            format!("{} has no columns to show", table.name()),
        );
    }
    columns
}

fn bare(column: &catalog::Column) -> Column {
    Column {
        name: column.name.clone(),
        data_type: column
            .over
            .clone()
            .unwrap_or_else(|| column.data_type.clone()),
        declared: column.over.is_some().then(|| column.data_type.clone()),
        not_null: column.not_null,
        deterministic_collation: column.deterministic_collation,
        collation: column.collation.clone(),
        bounds: None,
        unit_total: None,
        // An enum's labels are part of the schema.
        domain: match &column.data_type {
            catalog::Type::Enum(made) => {
                Some(made.labels.iter().cloned().map(Scalar::Text).collect())
            }
            _ => None,
        },
        is_complete: matches!(column.data_type, catalog::Type::Enum(_)),
        extent: None,
        collected: None,
    }
}

/// The columns that the proxy itself joins or groups by: the unit, the table's own path, and the
/// columns where paths of other tables end.
fn needed_columns<'a>(table: &Listed<'a>, listed: &[Listed<'a>]) -> Vec<&'a str> {
    let mut needed = Vec::new();
    for other in listed {
        let TableRule::Private { unit, .. } = &other.entry.rule else {
            continue;
        };
        let is_own = other.relation.oid == table.relation.oid;
        match unit {
            UnitRule::Column(name) if is_own => needed.push(name.value.as_str()),
            UnitRule::Column(_) => {}
            UnitRule::Path { steps, .. } => {
                if is_own && let Some(first) = steps.first() {
                    needed.push(first.value.column.as_str());
                }
                let arrives = |s: &&At<_>| step_arrives(s, table);
                needed.extend(
                    steps
                        .iter()
                        .filter(arrives)
                        .map(|s| s.value.referenced.as_str()),
                );
            }
        }
    }
    needed
}

fn step_arrives(step: &At<crate::policy::file::PathStep>, table: &Listed<'_>) -> bool {
    (&step.value.schema, &step.value.table) == (&table.relation.schema, &table.relation.name)
}

fn readable(
    table: &Listed<'_>,
    column: &catalog::Column,
    entry: Option<&ColumnEntry>,
    findings: &mut Findings,
) -> bool {
    let place = entry.map_or(table.entry.place, |e| e.place);
    // An error was already reported for a table that cannot be read at all.
    if !column.selectable && table.relation.selectable {
        findings.error(
            place,
            format!(
                "the database role may not SELECT column \"{}\" of {}",
                column.name,
                table.name()
            ),
        );
    }
    // An error was already reported for a virtual unit or path column.
    if column.is_virtual && entry.is_some() {
        findings.error(
            place,
            format!(
                "column \"{}\" of {} is a virtual generated column: reading it may fail on a \
                row; hide it",
                column.name,
                table.name()
            ),
        );
    }
    column.selectable && !column.is_virtual
}

fn nullability(entry: &ColumnEntry, column: &catalog::Column, findings: &mut Findings) {
    if let Some(nullable) = &entry.nullable
        && !nullable.value
        && !column.not_null
    {
        findings.error(
            nullable.place,
            format!(
                "column \"{}\" may be NULL: the database has no valid NOT NULL constraint for \
                every row of it",
                column.name
            ),
        );
    }
}

async fn rule(
    entry: &ColumnEntry,
    column: &catalog::Column,
    made: &mut Column,
    values_max: u32,
    domains: &mut Domains<'_>,
    findings: &mut Findings,
) {
    match entry.rule.of_values() {
        // The searches of a table are read separately.
        ColumnRule::Hidden | ColumnRule::Visible | ColumnRule::Searched { .. } => {}
        ColumnRule::Collected { .. } => {}
        ColumnRule::Bounds {
            place,
            lower,
            upper,
        } => made.bounds = bounds(column, *place, lower, upper, findings),
        ColumnRule::Values(values) => {
            if is_listable(column, entry.place, findings) {
                made.domain = declared_values(column, values, entry.place, values_max, findings);
            }
        }
        ColumnRule::Domain(name) => {
            if is_listable(column, name.place, findings) {
                made.domain = domains.values(name, column, findings).await;
            }
        }
    }
}

/// Whether the list contains every value that occurs or will occur. The table of a foreign key may
/// grow after the list was read: only the owner can rule that out. The labels of an enum may grow
/// too, but then the definition of its tables has changed ([`catalog::FINGERPRINT_SQL`]), and
/// questions on them are refused until the policy is loaded anew.
fn is_complete(
    entry: &ColumnEntry,
    column: &catalog::Column,
    made: &Column,
    findings: &mut Findings,
) -> bool {
    let Some(listed) = &made.domain else {
        // An error was already reported for a list that cannot be read.
        let is_listed = matches!(
            entry.rule.of_values(),
            ColumnRule::Values(_) | ColumnRule::Domain(_)
        );
        if let Some(complete) = entry.complete.as_ref().filter(|_| !is_listed) {
            findings.error(
                complete.place,
                format!(
                    "column \"{}\": complete is said of values or of a domain",
                    column.name
                ),
            );
        }
        return false;
    };
    let lists_all = match &column.data_type {
        catalog::Type::Bool => listed.len() == 2,
        catalog::Type::Enum(made) => {
            let is_listed = |label: &String| listed.contains(&Scalar::Text(label.clone()));
            made.labels.iter().all(is_listed)
        }
        _ => false,
    };
    entry
        .complete
        .as_ref()
        .map_or(lists_all, |complete| complete.value)
}

/// A total is of numbers that are added up, so of values with bounds.
fn unit_total(
    entry: &ColumnEntry,
    column: &catalog::Column,
    findings: &mut Findings,
) -> Option<f64> {
    let total = entry.unit_total.as_ref()?;
    let is_bounded = matches!(
        entry.rule,
        ColumnRule::Bounds { .. } | ColumnRule::Searched { .. }
    );
    if !is_bounded || !column.data_type.is_number() {
        findings.error(
            total.place,
            format!(
                "column \"{}\": unit_total is said of a column of numbers with bounds",
                column.name
            ),
        );
        return None;
    }
    Some(total.value)
}

fn is_listable(column: &catalog::Column, place: Location, findings: &mut Findings) -> bool {
    if !scalar::is_listable(&column.data_type) {
        findings.error(
            place,
            format!(
                "column \"{}\" is {}, for which a list of values is not offered",
                column.name, column.data_type
            ),
        );
        return false;
    }
    if !column.deterministic_collation {
        findings.error(
            place,
            format!(
                "column \"{}\" has a collation that is not deterministic: two spellings of a \
                value may count as equal",
                column.name
            ),
        );
        return false;
    }
    true
}

/// The greatest magnitude of a numeric type that has one.
fn most_of(data_type: &catalog::Type) -> Option<f64> {
    let catalog::Type::Numeric(Some((precision, scale))) = data_type else {
        return None;
    };
    let scale = i32::from(*scale);
    Some(10f64.powi(i32::from(*precision) - scale) - 10f64.powi(-scale))
}

fn magnitude(value: &Scalar) -> Option<f64> {
    let Scalar::Decimal(text) = value else {
        return None;
    };
    text.parse().ok().map(f64::abs)
}

fn bounds(
    column: &catalog::Column,
    place: Location,
    lower: &At<Literal>,
    upper: &At<Literal>,
    findings: &mut Findings,
) -> Option<ColumnBounds> {
    if !scalar::is_ordered(&column.data_type) {
        findings.error(
            place,
            format!(
                "column \"{}\" is {}; bounds are for numbers, dates and timestamps",
                column.name, column.data_type
            ),
        );
        return None;
    }
    let lower = constant(column, "the lower bound", lower, findings);
    let upper = constant(column, "the upper bound", upper, findings);
    let bounds = scalar::outward(&column.data_type, lower?, upper?);
    if scalar::compare(&bounds.lower, &bounds.upper) != Some(Ordering::Less) {
        findings.error(
            place,
            format!(
                "bounds of column \"{}\": the lower bound must be below the upper bound",
                column.name
            ),
        );
        return None;
    }
    if let Some(most) = most_of(&column.data_type)
        && [&bounds.lower, &bounds.upper]
            .into_iter()
            .filter_map(magnitude)
            .any(|bound| bound > most)
    {
        findings.warning(
            place,
            format!(
                "bounds of column \"{}\" reach past {most}, the most that {} can hold; narrower \
                    ones give less noise",
                column.name, column.data_type
            ),
        );
    }
    check_bounds(column, place, &bounds, findings);
    Some(bounds)
}

/// Compares the bounds with the CHECK constraints: wider bounds add more noise than necessary,
/// narrower bounds cut values off.
fn check_bounds(
    column: &catalog::Column,
    place: Location,
    bounds: &ColumnBounds,
    findings: &mut Findings,
) {
    let order = |a: &Scalar, b: &Scalar| scalar::compare(a, b).unwrap_or(Ordering::Equal);
    let read = |texts: &[String]| {
        texts
            .iter()
            .filter_map(|text| Some((scalar::parse(&column.data_type, text).ok()?, text.clone())))
            .collect::<Vec<_>>()
    };
    let lower = read(&column.allowed.lower)
        .into_iter()
        .max_by(|a, b| order(&a.0, &b.0));
    let upper = read(&column.allowed.upper)
        .into_iter()
        .min_by(|a, b| order(&a.0, &b.0));
    let lower = lower.map(|(allowed, text)| (order(&bounds.lower, &allowed), text));
    let upper = upper.map(|(allowed, text)| (order(&allowed, &bounds.upper), text));
    for (end, side) in [(lower, "below"), (upper, "above")] {
        let Some((ordering, allowed)) = end else {
            continue;
        };
        let name = &column.name;
        match ordering {
            Ordering::Less => findings.warning(
                place,
                format!(
                    "bounds of column \"{name}\" reach {side} {allowed}, past which a CHECK of \
                    the table lets no value; narrower ones give less noise"
                ),
            ),
            Ordering::Greater => findings.warning(
                place,
                format!(
                    "bounds of column \"{name}\" end before {allowed}, up to which a CHECK of \
                    the table lets values be; those past the bounds count as the bound, and sums \
                    and averages are off by it"
                ),
            ),
            Ordering::Equal => {}
        }
    }
}

fn declared_values(
    column: &catalog::Column,
    values: &[At<Literal>],
    place: Location,
    max: u32,
    findings: &mut Findings,
) -> Option<Vec<Scalar>> {
    if values.len() > max as usize {
        findings.error(
            place,
            format!(
                "column \"{}\" has more than {max} values (limits.groups)",
                column.name
            ),
        );
        return None;
    }
    let mut read = Vec::with_capacity(values.len());
    for literal in values {
        let Some(value) = constant(column, "a value", literal, findings) else {
            continue;
        };
        if read.contains(&value) {
            findings.error(
                literal.place,
                format!(
                    "value \"{}\" of column \"{}\" is given twice",
                    literal.value.text, column.name
                ),
            );
        } else {
            read.push(value);
        }
    }
    (read.len() == values.len()).then_some(read)
}

pub(super) fn constant(
    column: &catalog::Column,
    what: &str,
    literal: &At<Literal>,
    findings: &mut Findings,
) -> Option<Scalar> {
    match scalar::parse(&column.data_type, &literal.value.text) {
        Ok(value) => Some(value),
        Err(wanted) => {
            let (name, data_type, text) = (&column.name, &column.data_type, &literal.value.text);
            findings.error(
                literal.place,
                format!(
                    "{what} of column \"{name}\" ({data_type}) must be {wanted}, not \"{text}\""
                ),
            );
            None
        }
    }
}
