//! The parts of a policy that answers depend on, as text: two files with equal texts give equal
//! answers.

use super::words;
use crate::policy::file::{ColumnEntry, ColumnRule, File, TableEntry, TableRule};
use crate::policy::version::{add_limits, add_privacy};

/// The parts of a policy that its digest covers, as far as the file gives them.
pub fn answer_parts(file: &File) -> Vec<String> {
    let File {
        name: _,
        digest: _,
        role_places: _,
        certified: _,
        database_place: _,
        warnings: _,
        // Addresses.
        write_url: _,
        writes: _,
        local: _,
        database_url: _,
        ledger_url: _,
        ledger_witnesses: _,
        shadow_url: _,
        privacy,
        // Who may ask, and what each may spend.
        roles: _,
        // Who watches.
        operators: _,
        tables,
        // Each is an answer, and changes no other.
        summaries: _,
        limits,
        // A preview has no row.
        previews: _,
        // What the owner reads of statements.
        records_shape: _,
        // Time.
        quantum: _,
        time_grain,
    } = file;
    let mut settings = format!("{time_grain:?}\n");
    add_privacy(privacy, &privacy.data_version, &mut settings);
    add_limits(limits, &mut settings);
    let mut parts: Vec<String> = tables.iter().map(table).collect();
    parts.sort_unstable();
    parts.push(settings);
    parts
}

/// A table's rule without its places in the file.
fn table(entry: &TableEntry) -> String {
    let TableEntry {
        place: _,
        schema,
        name,
        rule,
    } = entry;
    let name = words::name(&[schema, name]);
    let TableRule::Private {
        unit,
        rows_per_unit,
        shows_other_columns,
        columns,
        // When an answer is bought, not what it is.
        periods: _,
        // What questions to the holdout cost, not what another question is answered.
        holdout: _,
        // A promise, without which nothing is prepaid.
        is_append_only: _,
        // What writers may learn.
        shows_constraints: _,
        // Which questions are answered, not what is answered.
        unique: _,
    } = rule
    else {
        return format!("{name} public");
    };
    let mut columns: Vec<String> = columns
        .iter()
        .filter_map(|entry| {
            let is_shown = *shows_other_columns || words::is_of_unit(unit, &entry.name);
            column(entry, is_shown)
        })
        .collect();
    columns.sort_unstable();
    format!(
        "{name} {} {} {shows_other_columns} {columns:?}",
        words::unit(unit),
        words::rows(rows_per_unit.as_ref())
    )
}

/// `None` where it says what holds without it.
fn column(entry: &ColumnEntry, is_shown: bool) -> Option<String> {
    let ColumnEntry {
        place: _,
        name,
        rule,
        // Compared with the catalog.
        nullable: _,
        complete: _,
        unit_total,
        is_local: _,
    } = entry;
    let total = unit_total.as_ref().map(|total| total.value);
    let is_complete = words::is_complete(entry);
    let without = if is_shown {
        ColumnRule::Visible
    } else {
        ColumnRule::Hidden
    };
    (*rule != without || is_complete)
        .then(|| format!("{name:?} {} {is_complete} {total:?}", words::column(rule)))
}
