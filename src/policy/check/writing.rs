//! What roles may write, compared with the catalog: whether each value can be read in the proxy,
//! and randomised before it leaves it.

use super::Listed;
use crate::catalog;
use crate::mechanism::randomise::EPSILON_MAX;
use crate::mechanism::{Odds, Randomiser};
use crate::policy::error::{At, Findings};
use crate::policy::file::{ColumnEntry, ColumnRule, File, TableRule, UnitRule};
use crate::policy::scalar;
use crate::policy::writing::{
    Local, TableName, ValuePlaces, Writing, WrittenCohorts, WrittenColumn, WrittenFilter,
    WrittenTable,
};
use crate::policy::{Scalar, Table};

/// The tables that roles write; `None` where no role writes.
pub(super) fn check(
    file: &File,
    tables: &[Table],
    listed: &[Listed<'_>],
    findings: &mut Findings,
) -> Option<Writing> {
    let mut written: Vec<WrittenTable> = Vec::new();
    let names: Vec<&At<TableName>> = file.writes.iter().flatten().collect();
    let first = names.first()?.place;
    for name in &names {
        let known =
            |t: &WrittenTable| (&t.schema, &t.name) == (&name.value.schema, &name.value.name);
        if !written.iter().any(known) {
            written.extend(written_table(name, tables, listed, findings));
        }
    }
    let url = file.write_url.clone();
    if url.is_none() {
        findings.error(
            first,
            "a role writes tables, so database needs `write_url: ${DATABASE_WRITE_URL}`: a login \
                that may INSERT into these tables and nothing else",
        );
    }
    let Some(local) = &file.local else {
        findings.error(
            first,
            "a role writes tables, so the policy needs `local: {secret: ${PGVEIL_LOCAL_SECRET}}`, \
                or `local: {memo: false}`, with which every report is drawn anew",
        );
        return None;
    };
    let place = local.place;
    warn_of_rows(&names, tables, (place, local.secret.is_some()), findings);
    if local.secret.is_none() {
        refuse_filters_without_memo(&written, place, findings);
    }
    Some(Writing {
        url: url?,
        secret: local.secret.clone(),
        tables: written,
    })
}

/// Permanent bits that are drawn anew with each report would be none.
fn refuse_filters_without_memo(
    written: &[WrittenTable],
    place: crate::policy::Location,
    findings: &mut Findings,
) {
    for table in written {
        let is_filter = |column: &&WrittenColumn| {
            let local = column.local.as_ref();
            local.is_some_and(|local| local.filter.is_some())
        };
        if let Some(column) = table.columns.iter().find(is_filter) {
            let message = format!(
                "column \"{}\" of {table} is randomised by rappor, whose permanent bits must be \
                    the same for ever: memo: false cannot keep them; write `secret: \
                    ${{PGVEIL_LOCAL_SECRET}}` in its place, or use unary or krr",
                column.name
            );
            findings.error(place, message);
        }
    }
}

/// Without a memo, a unit that is written twice gives two reports; with one, two copies of one.
fn warn_of_rows(
    names: &[&At<TableName>],
    tables: &[Table],
    (place, has_memo): (crate::policy::Location, bool),
    findings: &mut Findings,
) {
    for table in tables {
        let is_written = |name: &&&At<TableName>| {
            (&name.value.schema, &name.value.name) == (&table.schema, &table.name)
        };
        let is_once = match &table.protection {
            crate::policy::Protection::Private(unit) => unit.is_primary_key,
            crate::policy::Protection::Public => false,
        };
        if names.iter().any(|name| is_written(&name)) && !is_once {
            let named = format!("{}.{}", table.schema, table.name);
            let message = match has_memo {
                false => format!(
                    "reports add up: with memo: false each row of {named} has its own report, and \
                        a unit with several rows pays the epsilon of each; use a memo, or make the \
                        unit the table's primary key, with `constraints: shown`"
                ),
                true => format!(
                    "reports are copies: the rows of {named} of one unit and one value have one \
                        report, or one set of rappor's permanent bits, and pgveil.stderr and \
                        intervals take rows as independent; where units have many rows, they are \
                        too small"
                ),
            };
            findings.warning(place, message);
        }
    }
}

fn written_table(
    name: &At<TableName>,
    tables: &[Table],
    listed: &[Listed<'_>],
    findings: &mut Findings,
) -> Option<WrittenTable> {
    let TableName { schema, name: own } = &name.value;
    let is_it = |l: &&Listed<'_>| (&l.entry.schema, &l.entry.name) == (schema, own);
    let mut fault = |message: String| {
        findings.error(name.place, format!("{} {message}", name.value));
    };
    let Some(listed) = listed.iter().find(is_it) else {
        fault("is written by a role, and is none of the policy's tables".to_owned());
        return None;
    };
    let TableRule::Private {
        unit,
        columns,
        shows_constraints,
        ..
    } = &listed.entry.rule
    else {
        fault("is written by a role, and is public: only tables with a unit are".to_owned());
        return None;
    };
    let UnitRule::Column(unit) = unit else {
        fault(
            "is written by a role, so its unit must be a column of the table, not a path"
                .to_owned(),
        );
        return None;
    };
    let unit = unit.value.clone();
    // What is wrong with the table itself was said already.
    let table = tables
        .iter()
        .find(|t| (&t.schema, &t.name) == (schema, own))?;
    let relation = listed.relation;
    let made: Vec<WrittenColumn> = relation
        .columns
        .iter()
        .map(|column| written_column(column, relation, columns, table, findings))
        .collect();
    if !made.iter().any(|column| column.local.is_some()) {
        let message = "is written by a role, and has no column with `local`: pgveil writes tables \
            whose values it randomises on the way";
        findings.error(name.place, format!("{} {message}", name.value));
        return None;
    }
    let of_unit = made.iter().find(|column| column.name == unit)?;
    let is_exact = relation
        .column(&unit)
        .is_some_and(|column| column.deterministic_collation);
    if !has_one_form(&of_unit.data_type) || !is_exact {
        let message = format!(
            "is written by a role, and its unit is {}: it must be an integer, a text, a uuid or a \
                date, of which pgveil knows when two are the same, and of a deterministic \
                collation",
            of_unit.data_type
        );
        findings.error(name.place, format!("{} {message}", name.value));
    }
    let cohorts = cohorts(&made, columns, findings);
    Some(WrittenTable {
        oid: relation.oid,
        schema: schema.clone(),
        name: own.clone(),
        unit,
        columns: made,
        cohorts,
        shows_constraints: *shows_constraints,
    })
}

/// The columns of cohorts, which pgveil writes.
fn cohorts(
    made: &[WrittenColumn],
    entries: &[ColumnEntry],
    findings: &mut Findings,
) -> Vec<WrittenCohorts> {
    let mut found: Vec<WrittenCohorts> = Vec::new();
    let filter = |column: &WrittenColumn| column.local.as_ref()?.filter.clone();
    for filter in made.iter().filter_map(filter) {
        let known = found.iter().any(|of| of.column == filter.cohort);
        if !known {
            found.push(WrittenCohorts {
                column: filter.cohort,
                cohorts: filter.rappor.cohorts,
            });
        }
    }
    for entry in entries {
        let ColumnRule::Collected {
            randomiser: Randomiser::Rappor(rappor),
            cohort: Some(cohort),
            ..
        } = &entry.rule
        else {
            continue;
        };
        let mut shared = found.iter().filter(|of| of.column == cohort.value);
        let fault = match shared.next() {
            Some(_) if !entry.is_local => {
                "is collected, and shares its cohorts with a column with local: pgveil writes the \
                    cohort, and reports that were made elsewhere have another"
            }
            Some(of) if of.cohorts != rappor.cohorts => {
                "is randomised on the way, and shares its cohorts with a column that has another \
                    number of them: a unit has one cohort there"
            }
            Some(_) | None => continue,
        };
        findings.error(cohort.place, format!("column \"{}\" {fault}", entry.name));
    }
    found
}

/// Whether two values of the type are equal exactly where they are read as the same.
fn has_one_form(data_type: &catalog::Type) -> bool {
    use catalog::Type;
    matches!(
        data_type,
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Uuid | Type::Date | Type::Enum(_)
    ) || data_type.is_string()
}

fn written_column(
    column: &catalog::Column,
    relation: &catalog::Table,
    entries: &[ColumnEntry],
    table: &Table,
    findings: &mut Findings,
) -> WrittenColumn {
    let entry = entries
        .iter()
        .find(|entry| entry.name == column.name && entry.is_local);
    let local = entry.and_then(|entry| local_column(column, relation, entry, table, findings));
    let data_type = column
        .over
        .clone()
        .unwrap_or_else(|| column.data_type.clone());
    WrittenColumn {
        name: column.name.clone(),
        data_type,
        local,
    }
}

fn local_column(
    column: &catalog::Column,
    relation: &catalog::Table,
    entry: &ColumnEntry,
    table: &Table,
    findings: &mut Findings,
) -> Option<Local> {
    let ColumnRule::Collected {
        place, of, cohort, ..
    } = &entry.rule
    else {
        return None;
    };
    let mut fault = |message: &str| {
        findings.error(*place, format!("column \"{}\" {message}", column.name));
    };
    let is_keyed = |key: &catalog::UniqueKey| key.names().any(|name| name == column.name);
    if relation.unique_keys.iter().any(is_keyed) {
        fault(
            "is randomised on the way and part of a unique key: a report that is there already \
                would be refused, and the refusal would be one more report",
        );
        return None;
    }
    // Without reports there is an error already.
    let made = table.columns.iter().find(|made| made.name == column.name)?;
    let collected = made.collected.as_ref()?;
    let bounds = match (&**of, &collected.one_bit) {
        (ColumnRule::Bounds { lower, upper, .. }, Some(_)) => {
            let number = |text: &str| text.parse::<f64>().ok();
            Some((number(&lower.value.text)?, number(&upper.value.text)?))
        }
        _ => None,
    };
    let mut values = collected.reports.clone();
    let mut filter = None;
    if let Randomiser::Rappor(rappor) = collected.randomiser {
        let listed = &collected.dictionary.as_ref()?.values;
        values = listed.iter().cloned().map(Scalar::Text).collect();
        let cohort = cohort.as_ref()?.value.clone();
        filter = Some(WrittenFilter { rappor, cohort });
    }
    let Some(odds) = Odds::of(&collected.randomiser, values.len()) else {
        fault(&format!(
            "is randomised on the way with odds that leave some value as it is, or with an \
                epsilon above {EPSILON_MAX}"
        ));
        return None;
    };
    Some(Local {
        randomiser: collected.randomiser,
        odds,
        places: ValuePlaces::of(&values),
        values,
        filter,
        bounds,
        may_be_null: entry
            .nullable
            .as_ref()
            .is_some_and(|nullable| nullable.value),
        group: place.line * 100_000 + place.column,
    })
}

/// A value of a column as its type reads it, in each spelling that PostgreSQL takes for a boolean.
/// The error says nothing of the value.
pub fn read_value(data_type: &catalog::Type, text: &str) -> Option<Scalar> {
    let text = match data_type {
        catalog::Type::Text | catalog::Type::Varchar(_) | catalog::Type::Char(_) => text,
        catalog::Type::Bool => {
            let is_one = |of: [&str; 6]| of.iter().any(|of| of.eq_ignore_ascii_case(text.trim()));
            match () {
                () if is_one(["t", "true", "y", "yes", "on", "1"]) => "true",
                () if is_one(["f", "false", "n", "no", "off", "0"]) => "false",
                () => return None,
            }
        }
        catalog::Type::Enum(_) => text,
        _ => {
            let text = text.trim();
            text.strip_prefix('+').unwrap_or(text)
        }
    };
    scalar::parse(data_type, text).ok()
}
