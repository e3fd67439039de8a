//! Columns that a policy shows without naming them: by `other_columns: visible`, and those shown
//! since the table was last read.

use super::difference::words::is_of_unit;
use super::file::{File, TableEntry, TableRule};
use super::{Policy, Protection, Table};

/// The columns that a private table shows because `other_columns` is visible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisted<'a> {
    /// `schema.table`.
    pub table: String,
    pub columns: Vec<&'a str>,
}

/// For each private table that shows columns the file does not list, these columns.
pub fn find_unlisted<'a>(file: &File, policy: &'a Policy) -> Vec<Unlisted<'a>> {
    let of = |table: &'a Table| {
        let entry = entry_of(file, table)?;
        let columns = table.columns.iter().map(|column| column.name.as_str());
        let columns: Vec<&str> = columns.filter(|name| shows_unlisted(entry, name)).collect();
        (!columns.is_empty()).then(|| Unlisted {
            table: name_of(table),
            columns,
        })
    };
    policy.tables.iter().filter_map(of).collect()
}

/// Columns shown now but not before, though neither file mentions them: the table got them since,
/// or the database's role may read them since.
pub fn newly_shown(
    (old_file, old): (&File, &Policy),
    (new_file, new): (&File, &Policy),
) -> Vec<String> {
    let mut lines = Vec::new();
    for table in &new.tables {
        let Some(before) = old.table(&table.schema, &table.name) else {
            continue;
        };
        let had = |name: &str| before.columns.iter().any(|column| column.name == name);
        let is_shown_by = |file: &File, name: &str| {
            entry_of(file, table).is_some_and(|entry| shows_unlisted(entry, name))
        };
        let names = table.columns.iter().map(|column| column.name.as_str());
        for name in names.filter(|name| !had(name)) {
            let full = format!("{}.{name}", name_of(table));
            match (&before.protection, &table.protection) {
                (Protection::Public, Protection::Public) => lines.push(format!(
                    "{full} is new, or newly readable, and shown row by row: its table is public"
                )),
                (Protection::Private(_), Protection::Private(_)) => {
                    if is_shown_by(old_file, name) && is_shown_by(new_file, name) {
                        lines.push(format!(
                            "{full} is new, or newly readable, and may be asked about: \
                                other_columns is visible; list it as hidden if it should not be"
                        ));
                    }
                }
                // The difference of the files has it.
                (Protection::Public, Protection::Private(_))
                | (Protection::Private(_), Protection::Public) => {}
            }
        }
    }
    lines
}

fn name_of(table: &Table) -> String {
    format!("{}.{}", table.schema, table.name)
}

fn entry_of<'f>(file: &'f File, table: &Table) -> Option<&'f TableEntry> {
    let is_it = |entry: &&TableEntry| (&entry.schema, &entry.name) == (&table.schema, &table.name);
    file.tables.iter().find(is_it)
}

/// Whether a column that the database has is shown without being listed.
fn shows_unlisted(entry: &TableEntry, name: &str) -> bool {
    match &entry.rule {
        TableRule::Public => false,
        TableRule::Private {
            unit,
            rows_per_unit: _,
            shows_other_columns,
            columns,
            periods: _,
            holdout: _,
            is_append_only: _,
            shows_constraints: _,
            unique: _,
        } => {
            *shows_other_columns
                && !is_of_unit(unit, name)
                && !columns.iter().any(|listed| listed.name == name)
        }
    }
}
