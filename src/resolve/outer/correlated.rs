//! Subqueries above the cut that refer to the grouped query around them. A key becomes the
//! release's column; other columns are refused.

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::cut::Cut;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::lookup::Named;
use crate::resolve::syntax::{aggregate_name, bare_name, name_of, names_of, position};
use crate::visit;

impl Resolver<'_> {
    /// Replaces every reference to the cut's rows by the release's column.
    ///
    /// # Errors
    /// 42803 for a column that is not a key; 0A000 if the subquery itself reads private rows, or
    /// aggregates the column.
    pub(in crate::resolve) fn correlate(
        &self,
        query: &ast::Query,
        environment: &Environment,
        cut: &mut Cut,
    ) -> Result<ast::Query, Refusal> {
        let mut inside = Inside {
            aliases: Vec::new(),
            columns: Some(Vec::new()),
            reads_private: false,
            names: &self.names,
            environment,
        };
        let _ = visit::visit(query, &mut inside);
        let Inside {
            aliases,
            columns,
            reads_private,
            ..
        } = inside;
        let mut replace = Replace {
            resolver: self,
            cut,
            aliases,
            columns,
            reads_private,
            aggregates: 0,
        };
        let mut query = query.clone();
        match visit::visit_mut(&mut query, &mut replace) {
            ControlFlow::Continue(()) => Ok(query),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }
}

/// The names that FROM brings into scope anywhere in the subquery.
struct Inside<'r> {
    aliases: Vec<String>,
    /// Every column of the tables. `None` if one of them is not a table of the policy.
    columns: Option<Vec<String>>,
    reads_private: bool,
    names: &'r Names<'r>,
    environment: &'r Environment,
}

impl ast::Visitor for Inside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        if query.with.is_some() {
            self.columns = None;
        }
        ControlFlow::Continue(())
    }

    /// In ORDER BY, an output name takes precedence over a column.
    fn pre_visit_select(&mut self, select: &ast::Select) -> ControlFlow<()> {
        let aliases = select.projection.iter().filter_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr: _, alias } => name_of(alias).ok(),
            _ => None,
        });
        if let Some(columns) = &mut self.columns {
            columns.extend(aliases);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = factor
        {
            match alias {
                Some(alias) => self.aliases.extend(name_of(&alias.name).ok()),
                None => self
                    .aliases
                    .extend(names_of(name).ok().and_then(|mut names| names.pop())),
            }
            match self.names.lookup(name, self.environment) {
                Ok(Named::Table(table)) => {
                    self.reads_private |= self.names.is_private(table);
                    let own = self.names.policy.tables[table.0]
                        .columns
                        .iter()
                        .map(|c| c.name.clone());
                    let renamed = alias.as_ref().is_some_and(|a| !a.columns.is_empty());
                    match &mut self.columns {
                        Some(columns) if !renamed => columns.extend(own),
                        _ => self.columns = None,
                    }
                }
                Ok(Named::Cte(definition)) => {
                    self.reads_private |= definition.opened.is_none();
                    self.columns = None;
                }
                // A name that only a WITH of the subquery defines is not found out here.
                Ok(Named::View(_)) | Err(_) => self.columns = None,
            }
        } else {
            self.columns = None;
            let alias = match factor {
                ast::TableFactor::Table { alias, .. }
                | ast::TableFactor::Derived { alias, .. }
                | ast::TableFactor::UNNEST { alias, .. }
                | ast::TableFactor::Function { alias, .. }
                | ast::TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
                _ => None,
            };
            self.aliases
                .extend(alias.and_then(|a| name_of(&a.name).ok()));
        }
        ControlFlow::Continue(())
    }
}

struct Replace<'r, 'c> {
    resolver: &'r Resolver<'r>,
    cut: &'c mut Cut,
    aliases: Vec<String>,
    columns: Option<Vec<String>>,
    reads_private: bool,
    /// Number of open aggregate calls.
    aggregates: usize,
}

impl Replace<'_, '_> {
    fn is_outside(&self, expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [alias, _] | [_, alias, _] => name_of(alias).is_ok_and(|alias| {
                    !self.aliases.contains(&alias) && self.cut.has_alias(&alias)
                }),
                _ => false,
            },
            ast::Expr::Identifier(_) => bare_name(expr).is_some_and(|name| {
                let own = self
                    .columns
                    .as_ref()
                    .is_none_or(|columns| columns.contains(&name));
                !own && self.cut.has_column(&name)
            }),
            _ => false,
        }
    }

    fn replaced(&mut self, expr: &ast::Expr) -> Result<ast::Expr, Refusal> {
        let at = position(sqlparser::ast::Spanned::span(expr));
        if self.reads_private {
            return Err(Refusal::new(
                reason::CORRELATED_SUBQUERY,
                "a subquery over private rows cannot refer to the grouped query around it",
            )
            .hint("Join the tables, and group the joined rows.")
            .at(at));
        }
        if self.aggregates > 0 {
            return Err(Refusal::new(
                reason::CORRELATED_SUBQUERY,
                "a subquery cannot aggregate a column of the query around it",
            )
            .at(at));
        }
        let ungrouped = || {
            let message = format!("subquery uses ungrouped column \"{expr}\" from outer query");
            Refusal::new(reason::UNGROUPED_COLUMN, message).at(at)
        };
        self.cut
            .key_named(self.resolver, expr)?
            .ok_or_else(ungrouped)
    }
}

impl ast::VisitorMut for Replace<'_, '_> {
    type Break = Refusal;

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        if let ast::Expr::Function(function) = expr
            && aggregate_name(function).is_some()
        {
            self.aggregates += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        if let ast::Expr::Function(function) = expr
            && aggregate_name(function).is_some()
        {
            self.aggregates -= 1;
        }
        if self.is_outside(expr) {
            match self.replaced(expr) {
                Ok(key) => *expr = key,
                Err(refusal) => return ControlFlow::Break(refusal),
            }
        }
        ControlFlow::Continue(())
    }
}
