//! The FROM of a SELECT, bound once: the target of each name in it, the names that it brings into
//! scope, and the facts about each column that its name alone gives.

use sqlparser::ast;

use super::rows::{ColumnFacts, QueryRows, rename};
use crate::ir::relation::ColumnId;
use crate::refusal::Refusal;
use crate::resolve::names::lookup::TableSource;
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::syntax::name_of;

/// The FROM of a SELECT, with each of its names resolved. The scope's ids are indexes into `facts`,
/// not columns of the plan.
#[derive(Debug)]
pub(in crate::resolve) struct BoundFrom {
    /// Whether the FROM reads a private table, at any depth outside releases.
    pub private: bool,
    /// The names that it brings into scope.
    pub scope: Scope,
    facts: Vec<ColumnFacts>,
    /// Whether the scope has every column.
    pub all_known: bool,
    /// Its entries, in the order of the text.
    tables: Vec<BoundTables>,
}

/// An entry of FROM with its joins.
#[derive(Debug, Default)]
pub(in crate::resolve) struct BoundTables {
    pub first: BoundFactor,
    /// The right sides of its joins.
    pub joined: Vec<BoundFactor>,
}

/// The target of one entry of FROM.
#[derive(Debug, Default)]
pub(in crate::resolve) enum BoundFactor {
    Named(TableSource),
    Derived {
        /// Whether the derived table must run before rows that read it.
        is_middle: bool,
    },
    Nested(Box<BoundTables>),
    /// A function, or a form that is refused where it is read.
    #[default]
    Other,
}

impl BoundFactor {
    /// The target of a bare table of FROM, its name and its alias; `None` for every other entry,
    /// also for a table with a clause that no reader of FROM supports.
    pub(in crate::resolve) fn plain_table<'f>(
        &self,
        factor: &'f ast::TableFactor,
    ) -> Option<(
        &TableSource,
        &'f ast::ObjectName,
        Option<&'f ast::TableAlias>,
    )> {
        match (factor, self) {
            (
                ast::TableFactor::Table {
                    name,
                    alias,
                    args: None,
                    with_hints,
                    version: None,
                    with_ordinality: false,
                    partitions,
                    json_path: None,
                    sample: None,
                    index_hints,
                },
                Self::Named(source),
            ) if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                Some((source, name, alias.as_ref()))
            }
            _ => None,
        }
    }
}

impl BoundFrom {
    /// A FROM without entries.
    pub(super) fn empty() -> Self {
        Self {
            private: false,
            scope: Scope::default(),
            facts: Vec::new(),
            all_known: true,
            tables: Vec::new(),
        }
    }

    pub(super) fn of(alias: String, rows: QueryRows) -> Self {
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
            all_known: rows.all_known,
            tables: Vec::new(),
        }
    }

    /// Adds the next entry of FROM.
    pub(super) fn add(&mut self, (tables, right): (BoundTables, Self)) {
        self.join(right, true, true, &[]);
        self.tables.push(tables);
    }

    /// The entries of the bound FROM, each with the targets of its names.
    pub fn entries<'s>(
        &'s self,
        from: &'s [ast::TableWithJoins],
    ) -> impl Iterator<Item = (&'s ast::TableWithJoins, &'s BoundTables)> {
        assert_eq!(from.len(), self.tables.len(), "another FROM was bound");
        from.iter().zip(&self.tables)
    }

    /// The rows of `*`.
    pub(super) fn rows(self) -> QueryRows {
        let columns = self
            .scope
            .visible()
            .map(|c| (c.name.clone(), self.fact(c.id)))
            .collect();
        QueryRows {
            private: self.private,
            columns,
            all_known: self.all_known,
        }
    }

    /// Joins both sides and merges the columns of these names. A column of a side that may be
    /// missing determines nothing.
    pub(super) fn join(
        &mut self,
        mut right: Self,
        keeps_left: bool,
        keeps_right: bool,
        folded: &[String],
    ) {
        if !keeps_left {
            self.facts.iter_mut().for_each(|f| *f = f.as_nullable());
        }
        if !keeps_right {
            right.facts.iter_mut().for_each(|f| *f = f.as_nullable());
        }
        let offset = self.facts.len() as u32;
        let scope = right.scope.renumber(|id| ColumnId(id.0 + offset));
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
        self.all_known &= right.all_known;
    }

    /// A bare column.
    pub(super) fn column(&self, expr: &ast::Expr) -> Option<ColumnId> {
        match expr {
            ast::Expr::Identifier(ident) => self.scope.column(std::slice::from_ref(ident)),
            ast::Expr::CompoundIdentifier(parts) => self.scope.column(parts),
            ast::Expr::Nested(inner) => self.column(inner),
            _ => None,
        }
    }

    pub(super) fn fact(&self, id: ColumnId) -> ColumnFacts {
        self.facts.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Whether the policy lists every value of each expression, which is a column.
    pub fn are_listed(&self, exprs: &[ast::Expr]) -> bool {
        let is_listed = |expr: &ast::Expr| {
            let column = match expr {
                ast::Expr::Nested(_) => None,
                expr => self.column(expr),
            };
            column.is_some_and(|id| self.fact(id).is_listed)
        };
        exprs.iter().all(is_listed)
    }
}

impl BoundTables {
    /// The joins of the bound entry, each with the targets of its right side.
    pub fn joins<'s>(
        &'s self,
        joins: &'s [ast::Join],
    ) -> impl Iterator<Item = (&'s ast::Join, &'s BoundFactor)> {
        assert_eq!(joins.len(), self.joined.len(), "another FROM was bound");
        joins.iter().zip(&self.joined)
    }
}

pub(super) fn apply_alias(
    own: String,
    rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<BoundFrom, Refusal> {
    let name = alias.map_or(Ok(own), |a| name_of(&a.name))?;
    Ok(BoundFrom::of(name, rename(rows, alias)?))
}
