//! The searches that a policy needs, in the types of the columns.

use super::Listed;
use super::columns::constant;
use crate::catalog;
use crate::policy::auto_bounds::{AutoBound, Search, is_searchable};
use crate::policy::error::Findings;
use crate::policy::file::{ColumnRule, RowsRule, TableRule};
use crate::policy::{Column, ColumnPosition, Unit};

/// A search needs at least this many ends to choose from.
const EDGES_LEAST: usize = 3;

/// The searches of one table: its rows first, then its columns in their order. `at` is its place
/// among the policy's tables.
pub fn searches_of_table(
    table: &Listed<'_>,
    at: usize,
    unit: Option<&Unit>,
    columns: &[Column],
    findings: &mut Findings,
) -> Vec<Search> {
    let TableRule::Private {
        rows_per_unit,
        columns: entries,
        ..
    } = &table.entry.rule
    else {
        return Vec::new();
    };
    let mut searches = Vec::new();
    if rows_per_unit
        .as_ref()
        .is_some_and(|rows| rows.value == RowsRule::Searched)
        && unit.is_some_and(|unit| !unit.is_primary_key)
    {
        searches.push(Search {
            table: at,
            sought: AutoBound::Rows,
        });
    }
    for (position, column) in columns.iter().enumerate() {
        let Some(entry) = entries.iter().find(|entry| entry.name == column.name) else {
            continue;
        };
        let places = (at, ColumnPosition(position));
        searches.extend(of_column(table, places, column, &entry.rule, findings));
    }
    searches
}

/// The search for a column's bounds, where the rule leaves one to it. `at` and `position` are the
/// table's place in the policy and the column's in the table.
fn of_column(
    table: &Listed<'_>,
    (at, position): (usize, ColumnPosition),
    column: &Column,
    rule: &ColumnRule,
    findings: &mut Findings,
) -> Option<Search> {
    let ColumnRule::Searched {
        place,
        lower,
        upper,
    } = rule
    else {
        return None;
    };
    let (name, data_type) = (&column.name, &column.data_type);
    if !is_searchable(data_type) {
        findings.error(
            *place,
            format!(
                "column \"{name}\" is {data_type}; `auto` finds bounds of numbers only, so \
                write bounds that need no look at the data"
            ),
        );
        return None;
    }
    let known = &catalog::Column {
        data_type: data_type.clone(),
        ..table.relation.column(name)?.clone()
    };
    let mut read = |what, literal: &Option<_>| match literal {
        Some(literal) => constant(known, what, literal, findings).map(Some),
        None => Some(None),
    };
    let (lower, upper) = (
        read("the lower bound", lower),
        read("the upper bound", upper),
    );
    let search = Search {
        table: at,
        sought: AutoBound::Bounds {
            column: position,
            lower: lower?,
            upper: upper?,
        },
    };
    if search.edges(data_type).len() < EDGES_LEAST {
        findings.error(
            *place,
            format!("the bound of column \"{name}\" leaves nothing to search; write both bounds"),
        );
        return None;
    }
    Some(search)
}
