//! Checks each summary against its table: every key has known values and no others, every measure
//! is bounded, and its groups are few enough.

mod bins;
mod counted_rows;
mod ranges;

use super::Listed;
use crate::catalog::{self, Type};
use crate::policy::error::{At, Findings, Location};
use crate::policy::file::{File, KeyEntry, SummaryEntry, names};
use crate::policy::summaries::{
    AUTO_KEYS_MAX, Accuracy, KeySet, KeySource, Marginals, Summary, SummaryColumn, SummaryKey,
    candidate_sets, combinations, maximal, path_to_unit,
};
use crate::policy::{
    AutoBound, Column, ColumnPosition, Policy, Protection, Scalar, Table, UnitStep,
};

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
    let of = Relation::new(at, listed, policy);
    let key_columns: Vec<Option<SummaryColumn>> = keys
        .iter()
        .map(|key| key_column(name, key, &of, findings))
        .collect();
    once_each(name, keys, &key_columns, findings);
    let measured: Vec<Option<ColumnPosition>> = measures
        .iter()
        .map(|measure| measured_column(name, measure, &of, findings))
        .collect();
    let is_auto = marginals.value == Marginals::Auto;
    let sets = sets(name, keys, marginals, findings)?;
    ranges::check_noise(name, keys, (policy, is_auto), findings);
    if is_auto {
        check_auto(entry, &key_columns, policy, findings);
    }
    if let Accuracy::Epsilon(epsilon) = accuracy.value {
        check_price(name, (epsilon, accuracy.place), policy, findings);
    }
    let roles = roles_of(name, roles.as_deref(), policy, findings);
    let summary = Summary {
        name: name.clone(),
        table: at,
        keys: key_columns.into_iter().collect::<Option<_>>()?,
        measures: measured.into_iter().collect::<Option<_>>()?,
        marginals: sets,
        is_auto,
        selection: None,
        accuracy: accuracy.value,
        roles,
    };
    check_size(&summary, (policy, *place), findings);
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

/// The table of a summary.
struct Relation<'a> {
    /// Its place in the policy.
    at: usize,
    stored: Option<&'a catalog::Table>,
    listed: &'a [Listed<'a>],
    policy: &'a Policy,
}

impl<'a> Relation<'a> {
    fn new(at: usize, listed: &'a [Listed<'a>], policy: &'a Policy) -> Self {
        let table = &policy.tables[at];
        let is_it =
            |of: &&Listed<'_>| of.entry.schema == table.schema && of.entry.name == table.name;
        Self {
            at,
            stored: listed.iter().find(is_it).map(|table| table.relation),
            listed,
            policy,
        }
    }

    fn table(&self) -> &Table {
        &self.policy.tables[self.at]
    }

    fn is_searched(&self, column: ColumnPosition) -> bool {
        self.policy.searches.iter().any(|search| {
            search.table == self.at
                && matches!(&search.sought, AutoBound::Bounds { column: c, .. } if *c == column)
        })
    }
}

/// A key whose values or bins are known, and cover all rows.
fn key_column(
    summary: &str,
    entry: &KeyEntry,
    of: &Relation<'_>,
    findings: &mut Findings,
) -> Option<SummaryColumn> {
    let KeyEntry {
        name,
        bins,
        most,
        ranges,
    } = entry;
    let own = of.table().columns.iter().any(|c| c.name == name.value);
    let counted = counted_rows::counted_table(&name.value);
    if let Some(counted) = counted.filter(|_| !own) {
        return counted_rows::key(summary, (entry, &counted), (of.at, of.policy), findings);
    }
    if let Some(most) = most {
        let message = format!(
            "key \"{}\" of summary \"{summary}\" has a max, but is no number of rows, such as \
                rows(schema.table)",
            name.value
        );
        findings.error(most.place, message);
        return None;
    }
    let joined = (!own).then(|| on_path(&name.value, of)).flatten();
    let (steps, of, name) = match &joined {
        Some((steps, of, column)) => {
            let place = name.place;
            let value = column.clone();
            (*steps, of, &At { place, value })
        }
        None => (0, of, name),
    };
    let at = column(name, of, findings)?;
    let (column, is_searched) = (&of.table().columns[at.0], of.is_searched(at));
    let edges = match bins {
        Some(bins) => {
            let stored = of.stored?.column(&name.value)?;
            bins::edges(summary, (column, stored), bins, is_searched, findings)?
        }
        None => {
            if let Some(fault) = not_a_key(column, is_searched) {
                let message = format!("key \"{}\" of summary \"{summary}\" {fault}", name.value);
                findings.error(name.place, message);
            }
            Vec::new()
        }
    };
    if let Some(place) = ranges {
        ranges::check(
            (summary, &entry.name.value),
            (column, bins.is_some()),
            *place,
            findings,
        );
    }
    Some(SummaryColumn {
        steps,
        table: of.at,
        source: KeySource::Column(at),
        edges,
        has_ranges: ranges.is_some(),
    })
}

/// No column is two keys, under two names, nor is the number of rows of one table.
fn once_each(
    summary: &str,
    keys: &[KeyEntry],
    columns: &[Option<SummaryColumn>],
    findings: &mut Findings,
) {
    let place = |key: &Option<SummaryColumn>| key.as_ref().map(|key| (key.table, key.column()));
    for (at, (key, column)) in keys.iter().zip(columns).enumerate() {
        let mut earlier = columns[..at].iter();
        if column.is_some() && earlier.any(|other| place(other) == place(column)) {
            let message = format!(
                "key \"{}\" of summary \"{summary}\" is the column of another key",
                key.name.value
            );
            findings.error(key.name.place, message);
        }
    }
}

/// The table on the path to the unit, and the column's name, that `table.column` or
/// `schema.table.column` means; and how many steps lead there.
fn on_path<'a>(name: &str, of: &Relation<'a>) -> Option<(usize, Relation<'a>, String)> {
    let parts = names(name)?;
    let (schema, table, column) = match parts.as_slice() {
        [table, column] => (None, table, column),
        [schema, table, column] => (Some(schema), table, column),
        _ => return None,
    };
    let steps = path_to_unit(of.policy, of.at).iter();
    let steps = steps.map(|step: &UnitStep| (&step.schema, &step.table));
    let tables = std::iter::once((&of.table().schema, &of.table().name)).chain(steps);
    let is_it = |(_, named): &(usize, (&String, &String))| {
        named.1 == table && schema.is_none_or(|schema| named.0 == schema)
    };
    let mut found = tables.enumerate().filter(is_it);
    // Of two tables of one name none is meant without its schema.
    let (Some((steps, (schema, table))), None) = (found.next(), found.next()) else {
        return None;
    };
    let mut tables = of.policy.tables.iter();
    let place = tables.position(|t| (&t.schema, &t.name) == (schema, table))?;
    Some((
        steps,
        Relation::new(place, of.listed, of.policy),
        column.clone(),
    ))
}

/// A measure that is bounded.
fn measured_column(
    summary: &str,
    name: &At<String>,
    of: &Relation<'_>,
    findings: &mut Findings,
) -> Option<ColumnPosition> {
    let at = column(name, of, findings)?;
    if !is_summed(&of.table().columns[at.0]) && !of.is_searched(at) {
        let message = format!(
            "measure \"{}\" of summary \"{summary}\" has no bounds; write `bounds: [lowest, \
                highest]` for the column, if it is a number",
            name.value
        );
        findings.error(name.place, message);
    }
    Some(at)
}

/// The place of a column that is shown.
fn column(name: &At<String>, of: &Relation<'_>, findings: &mut Findings) -> Option<ColumnPosition> {
    let table = of.table();
    let mut columns = table.columns.iter();
    let found = columns.position(|column| column.name == name.value);
    if found.is_none() {
        let stored = of.stored.and_then(|stored| stored.column(&name.value));
        let Table {
            schema, name: of, ..
        } = table;
        let is_dotted = names(&name.value).is_some_and(|parts| parts.len() > 1);
        let message = match stored {
            None if is_dotted => format!(
                "\"{}\" is no column of {schema}.{of}, or of a table on its path to the unit",
                name.value
            ),
            Some(_) => format!(
                "column \"{}\" of {schema}.{of} is hidden by the policy",
                name.value
            ),
            None => format!("column \"{}\" does not exist in {schema}.{of}", name.value),
        };
        findings.error(name.place, message);
    }
    found.map(ColumnPosition)
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
            "has no known values; write `values: [a, b]` and `complete: true` for the column, \
                bounds if it is a whole number or a date, or bins for the key",
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
    keys: &[KeyEntry],
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
                    let found = keys.iter().position(|key| key.name.value == *wanted);
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
                key.name.value
            );
            findings.error(key.name.place, message);
        }
    }
    Some(sets)
}

/// There is something to select from, for a price that is known beforehand.
fn check_auto(
    entry: &SummaryEntry,
    keys: &[Option<SummaryColumn>],
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
            let sizes = known.map(|key| usize::try_from(values(key, policy)).unwrap_or(0));
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

/// How many values or bins a key has, as far as the policy says it; the labels of an enum are in
/// the catalog.
fn values(key: &SummaryColumn, policy: &Policy) -> u64 {
    let column = match key.source {
        KeySource::Column(at) => &policy.tables[key.table].columns[at.0],
        KeySource::Rows { most } => {
            return key.bins().map_or(u64::from(most) + 1, |bins| bins as u64);
        }
    };
    let nulls = u64::from(!column.not_null);
    if let Some(bins) = key.bins() {
        return bins as u64 + nulls;
    }
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

fn check_size(summary: &Summary, (policy, place): (&Policy, Location), findings: &mut Findings) {
    let of_key = |key: SummaryKey| values(key.pick(&summary.keys), policy);
    let of_set = |set: &KeySet| set.keys().map(of_key).fold(1, u64::saturating_mul);
    let singles = SummaryKey::all(summary.keys.len()).map(|key| KeySet::new(vec![key]));
    let least: Vec<KeySet> = match summary.is_auto {
        true => singles.collect(),
        false => summary.marginals.clone(),
    };
    let groups = least.iter().map(of_set).fold(0, u64::saturating_add);
    let most = u64::from(policy.limits.groups);
    if groups > most {
        let names = summary.key_names(policy);
        let sized = summary.keys.iter().map(|key| values(key, policy));
        let largest = sized.zip(&names).max_by_key(|(size, _)| *size);
        let largest = largest.map_or("", |(_, name)| name);
        let message = format!(
            "summary \"{}\" has {groups} groups, more than limits.groups ({most}); leave out keys \
                (\"{largest}\" has the most values) or marginals",
            summary.name
        );
        findings.error(place, message);
    }
}
