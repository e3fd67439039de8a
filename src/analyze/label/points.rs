//! Columns whose equal values belong to one unit.

use crate::analyze::lineage::Point;
use crate::catalog::{Equality, ForeignKey};
use crate::ir::{ColumnId, TableId};
use crate::policy::{ColumnPosition, Policy, Protection, Table, Unit};

/// A scan's columns that each identify a row of the table, by a key of the catalog or by the
/// owner's word.
pub(super) fn unique_columns(policy: &Policy, table: TableId, columns: &[ColumnId]) -> Vec<Point> {
    let is_of = |name: &str| identifies(&policy.tables[table.0], name);
    let named = policy.tables[table.0].columns.iter().zip(columns);
    named
        .enumerate()
        .filter(|(_, (column, _))| is_of(&column.name))
        .map(|(position, (_, id))| (*id, table, ColumnPosition(position)))
        .collect()
}

/// A scan's columns that refer to a column which identifies a row of another private table of the
/// same unit: those of foreign keys that also have the unit's column of both tables. A row then
/// belongs to the unit of the row that it refers to. A row refers to none where a column of its key
/// is NULL: so only the unit's column, where the row is nobody's, and the column itself, which then
/// equals nothing, may be NULL.
pub(super) fn references(policy: &Policy, table: TableId, columns: &[ColumnId]) -> Vec<Point> {
    let from = &policy.tables[table.0];
    let of_key = |key: &ForeignKey| {
        let target = policy
            .tables
            .iter()
            .position(|to| to.schema == key.schema && to.name == key.table)?;
        let to = &policy.tables[target];
        let pairs = || key.columns.iter().zip(&key.referenced);
        let (own, other) = (unit_column(from)?, unit_column(to)?);
        if !pairs().any(|(column, referenced)| column == own && referenced == other) {
            return None;
        }
        let place = |table: &Table, name: &String| {
            table.columns.iter().position(|column| column.name == *name)
        };
        let point = |(column, referenced): (&String, &String)| {
            let (here, there) = (place(from, column)?, place(to, referenced)?);
            let mut nullable = key.nullable.iter();
            let refers = nullable.all(|other| other == column || other == own);
            let is_point = refers && column != own && identifies(to, referenced);
            is_point.then(|| (columns[here], TableId(target), ColumnPosition(there)))
        };
        Some(pairs().filter_map(point).collect::<Vec<Point>>())
    };
    from.foreign_keys
        .iter()
        .filter_map(of_key)
        .flatten()
        .collect()
}

/// Whether a column identifies a row by itself.
fn identifies(table: &Table, name: &str) -> bool {
    let is_claimed = |at: &ColumnPosition| table.columns[at.0].name == name;
    let is_key = || {
        let mut keys = table.unique_keys.iter();
        keys.any(|key| key.is_within(&[name], &Equality::Own))
    };
    table.claimed_unique.iter().any(is_claimed) || is_key()
}

/// The column of a private table that holds the unit itself: its own, or a foreign key to the
/// unit's column.
fn unit_column(table: &Table) -> Option<&String> {
    let Protection::Private(Unit { path, column, .. }) = &table.protection else {
        return None;
    };
    match path.as_slice() {
        [] => Some(column),
        [step] if step.referenced == *column => Some(&step.column),
        _ => None,
    }
}
