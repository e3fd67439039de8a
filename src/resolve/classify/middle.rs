//! Which queries must run before the rows that read them: middle queries.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::rows::QueryRows;
use crate::refusal::Refusal;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{is_aggregated, item_expr, names_of};
use crate::visit;

impl Names<'_> {
    /// Whether a query must run before the rows that read it. It shows no private row, and does
    /// more than filter and rename a public table.
    pub(in crate::resolve) fn is_middle(
        &self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<bool, Refusal> {
        Ok(is_made_before(
            query,
            &self.rows_of(query, environment)?,
            environment,
        ))
    }
}

/// [`Resolver::is_middle`] of a query whose rows are known. For a common table expression the
/// answer was computed at its definition. Following names to definitions again would take
/// exponential time.
pub(in crate::resolve) fn is_made_before(
    query: &ast::Query,
    rows: &QueryRows,
    environment: &Environment,
) -> bool {
    let is_middle = |name: &String| {
        environment
            .find(name)
            .is_some_and(|definition| definition.is_middle)
    };
    !rows.private && (!is_plain(query) || relation_names(query).iter().any(is_middle))
}

/// Whether a query only selects, filters and renames: one SELECT without groups, order, limit or
/// windows.
fn is_plain(query: &ast::Query) -> bool {
    let ast::Query {
        with,
        body,
        order_by,
        limit_clause,
        fetch,
        ..
    } = query;
    if with.is_some() || order_by.is_some() || limit_clause.is_some() || fetch.is_some() {
        return false;
    }
    match body.as_ref() {
        ast::SetExpr::Select(select) => {
            let is_window = |expr: &ast::Expr| visit::visit(expr, &mut FindWindow).is_break();
            let derived = select.from.iter().flat_map(|t| {
                std::iter::once(&t.relation).chain(t.joins.iter().map(|j| &j.relation))
            });
            let plain_items = derived.into_iter().all(|factor| match factor {
                ast::TableFactor::Derived { subquery, .. } => is_plain(subquery),
                _ => true,
            });
            !is_aggregated(select)
                && plain_items
                && !select
                    .projection
                    .iter()
                    .filter_map(item_expr)
                    .any(is_window)
        }
        ast::SetExpr::Query(inner) => is_plain(inner),
        _ => false,
    }
}

struct FindWindow;

impl ast::Visitor for FindWindow {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Function(function) if function.over.is_some() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// The unqualified names, folded, that any FROM in the query reads.
pub(in crate::resolve) fn relation_names(query: &ast::Query) -> Vec<String> {
    struct Names(Vec<String>);
    impl ast::Visitor for Names {
        type Break = ();
        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
            if let [name] = names_of(name).unwrap_or_default().as_slice() {
                self.0.push(name.clone());
            }
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(Vec::new());
    let _ = visit::visit(query, &mut names);
    names.0
}
