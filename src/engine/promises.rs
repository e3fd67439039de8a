//! What a policy takes the owner's word for, in words.

use crate::catalog::Type;
use crate::policy::{Column, Policy, Prepaid, Protection, Table, Unit, UnitStep};

/// What the policy says of the data and pgveil cannot check, in lines under two headings: what
/// privacy rests on, and what only answers rest on. Limits and bounds are not among them: pgveil
/// enforces these itself.
pub fn promises(policy: &Policy) -> Vec<String> {
    let word = &policy.privacy.unit;
    let of_tables = |words: fn(&Table, &str) -> Vec<String>| {
        let tables = policy.tables.iter();
        tables.flat_map(|table| words(table, word)).collect()
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
    ];
    let parts = headings
        .into_iter()
        .zip([of_tables(about_privacy), of_answers]);
    let of_part = |(heading, lines): (&str, Vec<String>)| {
        let heading = (!lines.is_empty()).then(|| heading.to_owned());
        let lines = lines.into_iter().map(|line| format!("  {line}"));
        heading.into_iter().chain(lines).collect::<Vec<_>>()
    };
    parts.flat_map(of_part).collect()
}

fn about_privacy(table: &Table, word: &str) -> Vec<String> {
    let name = name_of(table);
    let mut lines = match &table.protection {
        Protection::Public => vec![match randomised_columns(table) {
            columns if columns.is_empty() => {
                format!("{name} reveals nothing about any {word} (public)")
            }
            columns => format!(
                "{name} reveals nothing about any {word} except by {}, which was randomised \
                    before it was stored (public, collected)",
                columns.join(", ")
            ),
        }],
        Protection::Private(Unit { path, column, .. }) if path.is_empty() => {
            vec![format!("{name}: each {word} has one value of {column}")]
        }
        Protection::Private(Unit { path, .. }) => {
            let steps = path.iter().map(|step| step.column.as_str());
            let by: Vec<&str> = steps.collect();
            vec![format!(
                "{name}: a row is about no {word} but the one that {} leads to",
                by.join(", ")
            )]
        }
    };
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

fn path(table: &Table) -> &[UnitStep] {
    match &table.protection {
        Protection::Private(unit) => &unit.path,
        Protection::Public => &[],
    }
}

fn about_answers(table: &Table, _: &str) -> Vec<String> {
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
    let collected = randomised_columns(table).into_iter().filter(|_| is_private);
    let collected = collected
        .map(|column| format!("{name}: {column} was randomised with the odds given (collected)"));
    let closed = table.periods.map(|periods| {
        let column = &table.columns[periods.column.0].name;
        format!("{name}: no row comes later than close_after past the period of its {column}")
    });
    claimed
        .chain(complete)
        .chain(collected)
        .chain(closed)
        .collect()
}

fn randomised_columns(table: &Table) -> Vec<&str> {
    let columns = table.columns.iter();
    let columns = columns.filter(|column| column.collected.is_some());
    columns.map(|column| column.name.as_str()).collect()
}

fn name_of(table: &Table) -> String {
    format!("{}.{}", table.schema, table.name)
}
