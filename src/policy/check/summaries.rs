//! Checks each summary against its table: every key has known values and no others, every measure
//! is bounded, and its groups are few enough.

use super::Listed;
use crate::catalog::Type;
use crate::policy::error::{At, Findings, Location};
use crate::policy::file::{File, SummaryEntry};
use crate::policy::summaries::{
    AUTO_KEYS_MAX, Accuracy, KeySet, Marginals, Summary, SummaryKey, candidate_sets, combinations,
    maximal,
};
use crate::policy::{AutoBound, Column, ColumnPosition, Policy, Protection, Scalar, Table};

/// The most marginals of one summary.
const MARGINALS_MAX: usize = 128;

/// The file's summaries, in its order; those with errors are left out.
pub fn check(
    file: &File,
    policy: &Policy,
    listed: &[Listed<'_>],
    findings: &mut Findings,
) -> Vec<Summary> {
    let checked = |entry| summary(entry, policy, listed, findings);
    file.summaries.iter().filter_map(checked).collect()
}

fn summary(
    entry: &SummaryEntry,
    policy: &Policy,
    listed: &[Listed<'_>],
    findings: &mut Findings,
) -> Option<Summary> {
    let SummaryEntry {
        place,
        name,
        table: of,
        keys,
        measures,
        marginals,
        accuracy,
        roles,
    } = entry;
    let at = table(name, of, policy, findings)?;
    let table = &policy.tables[at];
    let relation = listed
        .iter()
        .find(|table| (&table.entry.schema, &table.entry.name) == (&of.value.0, &of.value.1));
    let mut places = |names: &[At<String>]| {
        let place = |name: &At<String>| {
            let is_hidden = relation.is_some_and(|of| of.relation.column(&name.value).is_some());
            column(name, table, is_hidden, findings).map(ColumnPosition)
        };
        names
            .iter()
            .map(place)
            .collect::<Vec<Option<ColumnPosition>>>()
    };
    let (key_places, measure_places) = (places(keys), places(measures));
    check_columns(
        entry,
        (at, policy),
        (&key_places, &measure_places),
        findings,
    );
    let is_auto = marginals.value == Marginals::Auto;
    let sets = sets(name, keys, marginals, findings)?;
    if is_auto {
        check_auto(entry, (&table.columns, &key_places), policy, findings);
    }
    if let Accuracy::Epsilon(epsilon) = accuracy.value {
        check_price(name, (epsilon, accuracy.place), policy, findings);
    }
    let roles = roles_of(name, roles.as_deref(), policy, findings);
    let summary = Summary {
        name: name.clone(),
        table: at,
        keys: key_places.into_iter().collect::<Option<_>>()?,
        measures: measure_places.into_iter().collect::<Option<_>>()?,
        marginals: sets,
        is_auto,
        accuracy: accuracy.value,
        roles,
    };
    check_size(&summary, table, (policy, *place), findings);
    Some(summary)
}

/// The place of the private table.
fn table(
    name: &str,
    of: &At<(String, String)>,
    policy: &Policy,
    findings: &mut Findings,
) -> Option<usize> {
    let (schema, table) = &of.value;
    let known = |known: &Table| (&known.schema, &known.name) == (schema, table);
    let found = policy.tables.iter().position(known);
    let fault = match found.map(|at| &policy.tables[at].protection) {
        Some(Protection::Private(_)) => return found,
        Some(Protection::Public) => {
            format!("{schema}.{table} is public, so its rows can be read exactly and free")
        }
        None => format!("the policy shows no table {schema}.{table}"),
    };
    findings.error(of.place, format!("summary \"{name}\": {fault}"));
    None
}

/// Every key has known values and no others, and every measure is bounded.
fn check_columns(
    entry: &SummaryEntry,
    (at, policy): (usize, &Policy),
    (keys, measures): (&[Option<ColumnPosition>], &[Option<ColumnPosition>]),
    findings: &mut Findings,
) {
    let (name, columns) = (&entry.name, &policy.tables[at].columns);
    let is_searched = |column: ColumnPosition| {
        policy.searches.iter().any(|search| {
            search.table == at
                && matches!(&search.sought, AutoBound::Bounds { column: c, .. } if *c == column)
        })
    };
    for (key, place) in entry.keys.iter().zip(keys) {
        if let Some(fault) = place.and_then(|at| not_a_key(&columns[at.0], is_searched(at))) {
            findings.error(
                key.place,
                format!("key \"{}\" of summary \"{name}\" {fault}", key.value),
            );
        }
    }
    for (measure, place) in entry.measures.iter().zip(measures) {
        let is_bounded = |at: ColumnPosition| is_summed(&columns[at.0]) || is_searched(at);
        if place.is_some_and(|at| !is_bounded(at)) {
            let message = format!(
                "measure \"{}\" of summary \"{name}\" has no bounds; write `bounds: [lowest, \
                    highest]` for the column, if it is a number",
                measure.value
            );
            findings.error(measure.place, message);
        }
    }
}

/// The place of a column that is shown.
fn column(
    name: &At<String>,
    table: &Table,
    is_hidden: bool,
    findings: &mut Findings,
) -> Option<usize> {
    let found = table
        .columns
        .iter()
        .position(|column| column.name == name.value);
    if found.is_none() {
        let Table {
            schema, name: of, ..
        } = table;
        let message = match is_hidden {
            true => format!(
                "column \"{}\" of {schema}.{of} is hidden by the policy",
                name.value
            ),
            false => format!("column \"{}\" does not exist in {schema}.{of}", name.value),
        };
        findings.error(name.place, message);
    }
    found
}

/// Why a column's values are not all known; `None` where they are.
fn not_a_key(column: &Column, is_searched: bool) -> Option<&'static str> {
    let is_enumerated = match &column.data_type {
        Type::Bool | Type::Enum(_) => true,
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Date => column.bounds.is_some(),
        Type::Numeric(_) | Type::Float4 | Type::Float8 => false,
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => false,
        Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time => false,
        Type::Other { .. } => false,
    };
    if column.collected.is_some() {
        return Some(
            "is collected at random: its groups would be those of reports, not of true values",
        );
    }
    match &column.domain {
        Some(_) if column.is_complete => None,
        Some(_) => Some(
            "may have values that are not listed, whose rows no group would have; write \
                `complete: true` for the column if no other value occurs",
        ),
        None if is_searched => Some("leaves its bounds to a search; write them"),
        None if is_enumerated => None,
        None => Some(
            "has no known values; write `values: [a, b]` and `complete: true` for the column, or \
                bounds if it is a whole number or a date",
        ),
    }
}

fn is_summed(column: &Column) -> bool {
    let is_bounded = column.bounds.is_some() || column.domain.is_some();
    if column.collected.is_some() {
        return false;
    }
    match &column.data_type {
        Type::Int2 => true,
        Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => is_bounded,
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid => false,
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

/// The sets of keys that the entry asks for.
fn sets(
    name: &str,
    keys: &[At<String>],
    marginals: &At<Marginals>,
    findings: &mut Findings,
) -> Option<Vec<KeySet>> {
    let count = keys.len();
    let sets = match &marginals.value {
        Marginals::All(size) if *size > count => {
            let message =
                format!("summary \"{name}\" has {count} keys, so there are no sets of {size}");
            findings.error(marginals.place, message);
            return None;
        }
        Marginals::All(size) => {
            let keys: Vec<SummaryKey> = SummaryKey::all(count).collect();
            let all = combinations(&keys, *size, MARGINALS_MAX);
            all.map(|sets| sets.into_iter().map(KeySet::new).collect())
        }
        Marginals::Listed(listed) => {
            let mut sets = Vec::new();
            for names in listed {
                let mut set = Vec::new();
                for wanted in names {
                    let found = keys.iter().position(|key| key.value == *wanted);
                    if found.is_none() {
                        let message =
                            format!("\"{wanted}\" in marginals is no key of summary \"{name}\"");
                        findings.error(marginals.place, message);
                    }
                    set.push(SummaryKey(found?));
                }
                sets.push(KeySet::new(set));
            }
            (sets.len() <= MARGINALS_MAX).then_some(sets)
        }
        Marginals::Auto => return Some(Vec::new()),
    };
    let Some(sets) = sets else {
        let message = format!("summary \"{name}\" has more than {MARGINALS_MAX} marginals");
        findings.error(marginals.place, message);
        return None;
    };
    let sets = maximal(sets);
    for (at, key) in keys.iter().enumerate() {
        if !sets.iter().any(|set| set.contains(SummaryKey(at))) {
            let message = format!(
                "key \"{}\" of summary \"{name}\" is in no marginal",
                key.value
            );
            findings.error(key.place, message);
        }
    }
    Some(sets)
}

/// There is something to select from, for a price that is known beforehand.
fn check_auto(
    entry: &SummaryEntry,
    (columns, keys): (&[Column], &[Option<ColumnPosition>]),
    policy: &Policy,
    findings: &mut Findings,
) {
    let (name, place) = (&entry.name, entry.marginals.place);
    if let Accuracy::Error(_) = entry.accuracy.value {
        let message = format!(
            "summary \"{name}\" must say `epsilon` in place of `error`: with `marginals: auto` the \
                errors depend on the sets that will be selected"
        );
        findings.error(entry.accuracy.place, message);
    }
    let fault = match entry.keys.len() {
        0 | 1 => "has one key, so there are no sets to select from".to_owned(),
        count if count > AUTO_KEYS_MAX => {
            format!("has {count} keys, more than {AUTO_KEYS_MAX}, from which sets can be selected")
        }
        _ => {
            let known = keys.iter().flatten();
            let sizes = known.map(|at| usize::try_from(values(&columns[at.0])).unwrap_or(0));
            let sizes: Vec<usize> = sizes.collect();
            if !candidate_sets(&sizes, u64::from(policy.limits.groups)).is_empty() {
                return;
            }
            "has no two keys with so few values that a set of both could be selected".to_owned()
        }
    };
    findings.error(place, format!("summary \"{name}\" {fault}"));
}

/// A role that receives the summary pays its whole price, which is therefore held to the limit of
/// one query, and to each role's budget.
fn check_price(
    name: &str,
    (epsilon, place): (f64, Location),
    policy: &Policy,
    findings: &mut Findings,
) {
    let most = policy.privacy.epsilon_max;
    if epsilon > most {
        let message = format!(
            "epsilon of summary \"{name}\" is above what one query may spend ({most}); a role pays \
                for the summary like for a query, so lower it or raise \
                privacy.per_query.max_epsilon"
        );
        findings.error(place, message);
    }
    let total = policy.privacy.budget.epsilon;
    if epsilon > total {
        let message =
            format!("epsilon of summary \"{name}\" is above the owner's budget ({total})");
        findings.error(place, message);
    }
    for role in policy.roles.iter().filter(|role| role.asks) {
        if epsilon > role.budget.epsilon {
            let message = format!(
                "epsilon of summary \"{name}\" is above the budget of role \"{}\" ({}), which can \
                    never receive it",
                role.name, role.budget.epsilon
            );
            findings.warning(place, message);
        }
    }
}

fn roles_of(
    name: &str,
    roles: Option<&[At<String>]>,
    policy: &Policy,
    findings: &mut Findings,
) -> Vec<String> {
    let Some(roles) = roles else {
        return policy.roles.iter().map(|role| role.name.clone()).collect();
    };
    for role in roles {
        if policy.role(&role.value).is_none() {
            let message = format!(
                "\"{}\" in roles of summary \"{name}\" is no role",
                role.value
            );
            findings.error(role.place, message);
        }
    }
    roles.iter().map(|role| role.value.clone()).collect()
}

/// How many values a key has, as far as the policy says it; the labels of an enum are in the
/// catalog.
fn values(column: &Column) -> u64 {
    let nulls = u64::from(!column.not_null);
    let listed = match (&column.domain, &column.bounds) {
        (Some(values), _) => values.len() as u64,
        (None, Some(bounds)) => match (&bounds.lower, &bounds.upper) {
            (Scalar::Int(lower), Scalar::Int(upper)) => lower.abs_diff(*upper).saturating_add(1),
            (Scalar::Date(lower), Scalar::Date(upper)) => u64::from(lower.abs_diff(*upper)) + 1,
            _ => 1,
        },
        (None, None) => 2,
    };
    listed.saturating_add(nulls)
}

fn check_size(
    summary: &Summary,
    table: &Table,
    (policy, place): (&Policy, Location),
    findings: &mut Findings,
) {
    let of_key = |key: SummaryKey| values(&table.columns[key.pick(&summary.keys).0]);
    let of_set = |set: &KeySet| set.keys().map(of_key).fold(1, u64::saturating_mul);
    let singles = SummaryKey::all(summary.keys.len()).map(|key| KeySet::new(vec![key]));
    let least: Vec<KeySet> = match summary.is_auto {
        true => singles.collect(),
        false => summary.marginals.clone(),
    };
    let groups = least.iter().map(of_set).fold(0, u64::saturating_add);
    let most = u64::from(policy.limits.groups);
    if groups > most {
        let largest = summary
            .keys
            .iter()
            .max_by_key(|at| values(&table.columns[at.0]));
        let largest = largest.map_or("", |at| &table.columns[at.0].name);
        let message = format!(
            "summary \"{}\" has {groups} groups, more than limits.groups ({most}); leave out keys \
                (\"{largest}\" has the most values) or marginals",
            summary.name
        );
        findings.error(place, message);
    }
}
