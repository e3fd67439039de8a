//! The FROM of a SELECT, bound once: which names it brings into scope, and what is known of each
//! column by its name alone.

use sqlparser::ast;

use super::rows::{ColumnFacts, QueryRows, renamed};
use crate::ir::relation::ColumnId;
use crate::refusal::Refusal;
use crate::resolve::names::scope::{Item, Named, Scope};
use crate::resolve::syntax::name_of;

/// The FROM of a SELECT, with each of its names resolved. The scope's ids are indexes into `facts`,
/// not columns of the plan.
#[derive(Debug, Default)]
pub(in crate::resolve) struct BoundFrom {
    /// Whether it reads a private table, at any depth outside releases.
    pub private: bool,
    /// The names that it brings into scope.
    pub scope: Scope,
    facts: Vec<ColumnFacts>,
}

impl BoundFrom {
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
        }
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

pub(super) fn aliased(
    own: String,
    rows: QueryRows,
    alias: Option<&ast::TableAlias>,
) -> Result<BoundFrom, Refusal> {
    let name = alias.map_or(Ok(own), |a| name_of(&a.name))?;
    Ok(BoundFrom::of(name, renamed(rows, alias)?))
}
