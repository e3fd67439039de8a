//! Subqueries above the cut that refer to the grouped query around them. A key becomes the
//! release's column; other columns are refused.

use std::ops::ControlFlow;

use sqlparser::ast;

use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::free_names::FreeNames;
use crate::resolve::cut::Cut;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{aggregate_name, position};
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
        let mut query = query.clone();
        let mut replace = Replace {
            resolver: self,
            cut,
            free: self.names.free_names(&query, environment)?,
            aggregates: 0,
        };
        match visit::visit_mut(&mut query, &mut replace) {
            ControlFlow::Continue(()) => Ok(query),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }
}

struct Replace<'r, 'c> {
    resolver: &'r Resolver<'r>,
    cut: &'c mut Cut,
    /// The names of the subquery that its own FROMs lack. A replaced name is no longer read.
    free: FreeNames,
    /// Number of open aggregate calls.
    aggregates: usize,
}

impl Replace<'_, '_> {
    fn is_outside(&self, expr: &ast::Expr) -> bool {
        let parts = match expr {
            ast::Expr::Identifier(ident) => std::slice::from_ref(ident),
            ast::Expr::CompoundIdentifier(parts) => parts,
            _ => return false,
        };
        self.free.has(expr) && self.cut.has_name(parts)
    }

    fn replace(&mut self, expr: &ast::Expr) -> Result<ast::Expr, Refusal> {
        let at = position(sqlparser::ast::Spanned::span(expr));
        if self.free.reads_private {
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
            match self.replace(expr) {
                Ok(key) => *expr = key,
                Err(refusal) => return ControlFlow::Break(refusal),
            }
        }
        ControlFlow::Continue(())
    }
}
