//! What a policy takes the owner's word for, and what pgveil does for it before values are stored,
//! in words.

use crate::catalog::{ForeignKey, Type};
use crate::policy::{Column, Policy, Prepaid, Protection, Table, Unit, UnitStep};

/// What the policy says of the data and pgveil cannot check, in lines under two headings: what
/// privacy rests on, and what only answers rest on. Under a third, who never holds true values,
/// where roles write. That values keep to limits and bounds is not
/// among them: pgveil enforces it.
pub fn promises(policy: &Policy) -> Vec<String> {
    let of_tables = |words: fn(&Policy, &Table) -> Vec<String>| {
        let tables = policy.tables.iter();
        tables.flat_map(|table| words(policy, table)).collect()
    };
    let mut of_answers: Vec<String> = of_tables(about_answers);
    if let Some(units) = policy.privacy.units {
        of_answers.push(format!("about {units} units are in the data (units)"));
    }
    of_answers.push(format!(
        "the data are those of version {:?}, until data_version changes",
        policy.privacy.data_version
    ));
    let headings = [
        "Promised by this policy; privacy rests on it:",
        "Promised by this policy; only answers rest on it:",
        "Kept by pgveil itself:",
    ];
    let kept = of_tables(about_reports);
    let parts = headings
        .into_iter()
        .zip([of_tables(about_privacy), of_answers, kept]);
    let of_part = |(heading, lines): (&str, Vec<String>)| {
        let heading = (!lines.is_empty()).then(|| heading.to_owned());
        let lines = lines.into_iter().map(|line| format!("  {line}"));
        heading.into_iter().chain(lines).collect::<Vec<_>>()
    };
    parts.flat_map(of_part).collect()
}

fn about_privacy(policy: &Policy, table: &Table) -> Vec<String> {
    let (name, word) = (name_of(table), &policy.privacy.unit);
    let mut lines = match &table.protection {
        Protection::Public => vec![match randomised_columns(table) {
            columns if columns.is_empty() => {
                format!("{name} reveals nothing about any {word} (public)")
            }
            columns => format!(
                "{name} reveals nothing about any {word} except by {}, which was randomised with \
                    the odds given before it was stored (public, collected)",
                columns.join(", ")
            ),
        }],
        Protection::Private(Unit { path, column, .. }) if path.is_empty() => {
            vec![format!("{name}: each {word} has one value of {column}")]
        }
        Protection::Private(Unit { path, .. }) => {
            let steps = path.iter().map(|step| step.column.as_str());
            let by: Vec<&str> = steps.collect();
            let shown = match is_shown_by_foreign_keys(policy, table) {
                true => "",
                false => " (no foreign key shows it)",
            };
            vec![format!(
                "{name}: a row is about no {word} but the one that {} leads to{shown}",
                by.join(", ")
            )]
        }
    };
    let is_bounded = |column: &Column| column.bounds.is_some() || column.domain.is_some();
    let bounded = table.columns.iter().filter(|column| is_bounded(column));
    let bounded: Vec<&str> = bounded.map(|column| column.name.as_str()).collect();
    if matches!(table.protection, Protection::Private(_)) && !bounded.is_empty() {
        lines.push(format!(
            "{name}: the bounds and lists of {} do not come from its rows",
            bounded.join(", ")
        ));
    }
    if let Some(Prepaid { per_unit, .. }) = table.periods.and_then(|periods| periods.prepaid) {
        // A unit's first periods stay its first ones.
        let of_path = path(table).iter();
        let of_path = of_path.map(|step| format!("{}.{}", step.schema, step.table));
        let tables: Vec<String> = std::iter::once(name).chain(of_path).collect();
        lines.push(format!(
            "rows of {} are added, never changed or deleted (append_only, for per_unit: \
                {per_unit})",
            tables.join(", ")
        ));
    }
    lines
}

/// Whether each step of the path to the unit is a foreign key of the database.
fn is_shown_by_foreign_keys(policy: &Policy, table: &Table) -> bool {
    let mut from = Some(table);
    path(table).iter().all(|step| {
        let is_step = |key: &ForeignKey| {
            (&key.schema, &key.table) == (&step.schema, &step.table)
                && key.columns == [step.column.as_str()]
                && key.referenced == [step.referenced.as_str()]
        };
        let is_shown = from.is_some_and(|table| table.foreign_keys.iter().any(is_step));
        from = policy.table(&step.schema, &step.table);
        is_shown
    })
}

fn path(table: &Table) -> &[UnitStep] {
    match &table.protection {
        Protection::Private(unit) => &unit.path,
        Protection::Public => &[],
    }
}

fn about_answers(policy: &Policy, table: &Table) -> Vec<String> {
    let name = name_of(table);
    let is_private = matches!(table.protection, Protection::Private(_));
    let claimed = table.claimed_unique.iter().map(|column| {
        let column = &table.columns[column.0].name;
        format!("{name}: no value of {column} is in two rows (unique)")
    });
    let by_type = |column: &Column| matches!(column.data_type, Type::Bool | Type::Enum(_));
    let columns = table.columns.iter();
    let complete = columns.filter(|column| is_private && column.is_complete && !by_type(column));
    let complete =
        complete.map(|column| format!("{name}: {} has no value outside its list", column.name));
    let local = local_columns(policy, table);
    let collected = randomised_columns(table)
        .into_iter()
        .filter(|column| is_private && !local.contains(column));
    let collected = collected
        .map(|column| format!("{name}: {column} was randomised with the odds given (collected)"));
    let counted = table
        .holdout
        .map(|holdout| format!("{name} has {} rows (holdout)", holdout.rows));
    let closed = table.periods.map(|periods| {
        let column = &table.columns[periods.column.0].name;
        format!("{name}: no row comes later than close_after past the period of its {column}")
    });
    claimed
        .chain(complete)
        .chain(collected)
        .chain(counted)
        .chain(closed)
        .collect()
}

/// Which columns pgveil randomises on the way, and who never holds their values.
fn about_reports(policy: &Policy, table: &Table) -> Vec<String> {
    let local = local_columns(policy, table);
    if local.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "{}: true values of {} are never held by the database, its administrators or its backups; \
            pgveil's memory holds them for a moment (local)",
        name_of(table),
        local.join(", ")
    )]
}

/// The columns that roles write true values for.
fn local_columns<'p>(policy: &'p Policy, table: &Table) -> Vec<&'p str> {
    let written = policy.writing.as_ref();
    let written = written.and_then(|writing| writing.table(&table.schema, &table.name));
    let columns = written.into_iter().flat_map(|table| &table.columns);
    let local = columns.filter(|column| column.local.is_some());
    local.map(|column| column.name.as_str()).collect()
}

fn randomised_columns(table: &Table) -> Vec<&str> {
    let columns = table.columns.iter();
    let columns = columns.filter(|column| column.collected.is_some());
    columns.map(|column| column.name.as_str()).collect()
}

fn name_of(table: &Table) -> String {
    format!("{}.{}", table.schema, table.name)
}
