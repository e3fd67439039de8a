//! What is known of a query's rows by names alone, and the names that its FROM brings into scope.

use std::hash::{DefaultHasher, Hash, Hasher};

use sqlparser::ast;

use crate::ir::relation::{ColumnId, TableId};
use crate::refusal::Refusal;
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::syntax::name_of;

/// What rows with equal values in a column have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Common {
    Unit,
    /// The row of a private table that has this value in the column at this position.
    Row(TableId, usize),
}

/// The facts about one column.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ColumnFacts {
    /// Equal values belong to one unit: the unit itself, a key along its path, or a one-column key
    /// of a private table.
    pub determines: Option<Common>,
    /// The column of a private table: which mention of the table, the table, and the column's
    /// position.
    pub origin: Option<(u64, TableId, usize)>,
    /// The policy lists every value of the table's column.
    pub is_listed: bool,
}

impl ColumnFacts {
    /// The facts where an outer join may have filled the column with NULL.
    fn extended(self) -> Self {
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
        }
    }
}

/// The names that FROM brings into scope. The scope's ids are indexes into `facts`.
#[derive(Debug, Default)]
pub(super) struct Shape {
    pub private: bool,
    pub scope: Scope,
    facts: Vec<ColumnFacts>,
}

impl Shape {
    pub fn of(alias: String, rows: QueryRows) -> Self {
        let named = |(at, (name, _)): (usize, &(String, ColumnFacts))| Named {
            name: name.clone(),
            id: ColumnId(at as u32),
        };
        let item = Item {
            alias,
            columns: rows.columns.iter().enumerate().map(named).collect(),
        };
        Self {
            private: rows.private,
            scope: Scope::of(item),
            facts: rows.columns.into_iter().map(|(_, fact)| fact).collect(),
        }
    }

    /// The rows of `*`.
    pub fn rows(self) -> QueryRows {
        let columns = self
            .scope
            .visible()
            .map(|c| (c.name.clone(), self.fact(c.id)))
            .collect();
        QueryRows {
            private: self.private,
            columns,
        }
    }

    /// Joins both sides and merges the columns of these names. A column of a side that may be
    /// missing determines nothing.
    pub fn beside(
        &mut self,
        mut right: Self,
        keeps_left: bool,
        keeps_right: bool,
        folded: &[String],
    ) {
        if !keeps_left {
            self.facts.iter_mut().for_each(|f| *f = f.extended());
        }
        if !keeps_right {
            right.facts.iter_mut().for_each(|f| *f = f.extended());
        }
        let offset = self.facts.len() as u32;
        let scope = right.scope.renumbered(|id| ColumnId(id.0 + offset));
        let kept = if keeps_left { &self.scope } else { &scope };
        let folded = folded
            .iter()
            .filter_map(|name| {
                Some(Named {
                    name: name.clone(),
                    id: kept.bare_column(name)?,
                })
            })
            .collect();
        self.facts.append(&mut right.facts);
        self.scope.join(scope, folded);
        self.private |= right.private;
    }

    /// A bare column.
    pub fn column(&self, expr: &ast::Expr) -> Option<ColumnId> {
        match expr {
            ast::Expr::Identifier(ident) => self.scope.column(std::slice::from_ref(ident)),
            ast::Expr::CompoundIdentifier(parts) => self.scope.column(parts),
            ast::Expr::Nested(inner) => self.column(inner),
            _ => None,
        }
    }

    pub fn fact(&self, id: ColumnId) -> ColumnFacts {
        self.facts.get(id.0 as usize).copied().unwrap_or_default()
    }
}

/// The position of a mention in the text distinguishes two scans of one table, also within a common
/// table expression that is named twice.
pub(super) fn mention_at(within: u64, place: &ast::TableFactor) -> u64 {
    let mut hasher = DefaultHasher::new();
    (within, std::ptr::from_ref(place) as usize).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn aliased(
    own: String,
    rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<Shape, Refusal> {
    let name = alias.map_or(Ok(own), |a| name_of(&a.name))?;
    Ok(Shape::of(name, renamed(rows, alias)?))
}

pub(super) fn renamed(
    mut rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<QueryRows, Refusal> {
    let names = alias.into_iter().flat_map(|a| &a.columns);
    for ((name, _), definition) in rows.columns.iter_mut().zip(names) {
        *name = name_of(&definition.name)?;
    }
    Ok(rows)
}
