//! The facts about a query's rows that names alone give.

use std::hash::{DefaultHasher, Hash, Hasher};

use sqlparser::ast;

use crate::ir::relation::TableId;
use crate::refusal::Refusal;
use crate::resolve::syntax::name_of;

/// What rows with equal values in a column have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SharedValue {
    Unit,
    /// The row of a private table that has this value in the column at this position.
    Row(TableId, usize),
}

/// The facts about one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ColumnFacts {
    /// Equal values belong to one unit: the unit itself, a key along its path, or a one-column key
    /// of a private table.
    pub determines: Option<SharedValue>,
    /// The column of a private table: which mention of the table, the table, and the column's
    /// position.
    pub origin: Option<(u64, TableId, usize)>,
    /// The policy lists every value of the table's column.
    pub is_listed: bool,
}

impl ColumnFacts {
    /// The facts where an outer join may have filled the column with NULL.
    pub(super) fn as_nullable(self) -> Self {
        Self {
            is_listed: self.is_listed,
            ..Self::default()
        }
    }
}

/// The rows of a query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QueryRows {
    /// Rows of private tables: selected, filtered, joined, or grouped within one unit.
    pub private: bool,
    pub(super) columns: Vec<(String, ColumnFacts)>,
    /// Whether these are all its columns. Functions, VALUES and recursive queries may have more.
    pub(super) all_known: bool,
}

impl QueryRows {
    /// The rows of a common table expression at a place that names it.
    pub(super) fn mentioned_at(&self, place: &ast::TableFactor) -> Self {
        let mut rows = self.clone();
        for (mention, _, _) in rows
            .columns
            .iter_mut()
            .filter_map(|(_, fact)| fact.origin.as_mut())
        {
            *mention = mention_at(*mention, place);
        }
        rows
    }

    /// The rows as constants, which are no table's.
    pub(super) fn made_constants(mut self) -> Self {
        for (_, fact) in &mut self.columns {
            fact.is_listed = false;
        }
        self
    }

    /// The rows of a function in FROM. A function of one column names it by its alias.
    pub(super) fn of_function(name: &str, alias: &str, numbered: bool) -> Self {
        let mut names = match name {
            "json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text" => {
                vec!["key", "value"]
            }
            "json_array_elements"
            | "json_array_elements_text"
            | "jsonb_array_elements"
            | "jsonb_array_elements_text" => vec!["value"],
            _ => vec![alias],
        };
        names.extend(numbered.then_some("ordinality"));
        let column = |name: &str| (name.to_owned(), ColumnFacts::default());
        Self {
            private: false,
            columns: names.into_iter().map(column).collect(),
            all_known: false,
        }
    }
}

/// The position of a mention in the text distinguishes two scans of one table, also within a common
/// table expression that is named twice.
pub(super) fn mention_at(within: u64, place: &ast::TableFactor) -> u64 {
    let mut hasher = DefaultHasher::new();
    (within, std::ptr::from_ref(place) as usize).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn rename(
    mut rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<QueryRows, Refusal> {
    let names = alias.into_iter().flat_map(|a| &a.columns);
    for ((name, _), definition) in rows.columns.iter_mut().zip(names) {
        *name = name_of(&definition.name)?;
    }
    Ok(rows)
}
