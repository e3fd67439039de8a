//! Counts of distinct rows or of groups, answered as COUNT(DISTINCT …). Counting a list of released
//! groups would be wrong: it lacks groups of few units, and it holds every key that the policy
//! lists.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::grouping::sets;
use crate::aggregates::{Counted, what_is_counted};
use crate::refusal::Refusal;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::output_name::column_name;
use crate::resolve::names::scope::group_expression;
use crate::resolve::syntax::{
    aggregate_name, bare_name, contains_aggregate, empty_select, is_aggregated, is_distinct_rows,
    item_expr, name_of,
};
use crate::visit;

impl Names<'_> {
    /// Rewrites `SELECT count(*) FROM (SELECT DISTINCT x, y FROM …) AS d` to `SELECT count(DISTINCT
    /// (x, y)) FROM …`, and a derived table with GROUP BY likewise. `None` for any other SELECT.
    /// The FROM comes with it, bound.
    ///
    /// # Errors
    /// The errors of names in the inner SELECT.
    pub(in crate::resolve) fn counting_groups(
        &self,
        select: &ast::Select,
        environment: &Environment,
    ) -> Result<Option<(ast::Select, BoundFrom)>, Refusal> {
        let Some(inner) = counted_select(select) else {
            return Ok(None);
        };
        if inner.having.is_some() || !is_aggregated(inner) {
            return Ok(None);
        }
        let from = self.bind_from(inner, environment)?;
        if !from.private || self.is_step(inner, &from)? {
            return Ok(None);
        }
        let Some(distinct) = distinct_rows(inner, &from)? else {
            return Ok(None);
        };
        let mut projection = select.projection.clone();
        let mut counts = Counts {
            inner,
            distinct,
            found: 0,
        };
        for item in &mut projection {
            let counted = match item {
                ast::SelectItem::UnnamedExpr(expr)
                | ast::SelectItem::ExprWithAlias { expr, alias: _ } => {
                    visit::visit_mut(expr, &mut counts)
                }
                ast::SelectItem::ExprWithAliases { .. }
                | ast::SelectItem::QualifiedWildcard(..)
                | ast::SelectItem::Wildcard(_) => ControlFlow::Break(()),
            };
            if counted.is_break() {
                return Ok(None);
            }
        }
        if counts.found == 0 {
            return Ok(None);
        }
        let counting = ast::Select {
            projection,
            from: inner.from.clone(),
            selection: inner.selection.clone(),
            ..empty_select()
        };
        Ok(Some((counting, from)))
    }
}

/// The expressions whose combinations are the rows of a SELECT DISTINCT or a GROUP BY. `None`
/// for forms that are not followed, and where the policy lists every value: then the list
/// itself is counted, exactly and at no cost.
fn distinct_rows(inner: &ast::Select, from: &BoundFrom) -> Result<Option<Vec<ast::Expr>>, Refusal> {
    let distinct: Option<Vec<ast::Expr>> = if is_distinct_rows(inner) {
        inner
            .projection
            .iter()
            .map(|item| item_expr(item).cloned())
            .collect()
    } else if matches!(inner.distinct, None | Some(ast::Distinct::All)) {
        let sets = sets(&inner.group_by)?;
        let [set] = sets.as_slice() else {
            return Ok(None);
        };
        Some(
            set.iter()
                .map(|expr| group_expression(expr, inner, &from.scope).cloned())
                .collect::<Result<_, _>>()?,
        )
    } else {
        None
    };
    let Some(distinct) = distinct.filter(|exprs| !exprs.is_empty()) else {
        return Ok(None);
    };
    Ok((!from.are_listed(&distinct)).then_some(distinct))
}

/// The only derived table of a SELECT whose only other clause is its list.
fn counted_select(select: &ast::Select) -> Option<&ast::Select> {
    let bare = ast::Select {
        select_token: select.select_token.clone(),
        projection: select.projection.clone(),
        from: select.from.clone(),
        ..empty_select()
    };
    let [
        ast::TableWithJoins {
            relation:
                ast::TableFactor::Derived {
                    lateral: false,
                    subquery,
                    alias,
                    sample: None,
                },
            joins,
        },
    ] = select.from.as_slice()
    else {
        return None;
    };
    let renames = alias.as_ref().is_none_or(|alias| !alias.columns.is_empty());
    if bare != *select || !joins.is_empty() || renames {
        return None;
    }
    let ast::Query {
        with: None,
        body,
        order_by: _,
        limit_clause: None,
        fetch: None,
        locks,
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators,
    } = subquery.as_ref()
    else {
        return None;
    };
    match body.as_ref() {
        ast::SetExpr::Select(inner)
            if locks.is_empty()
                && pipe_operators.is_empty()
                && inner.into.is_none()
                && inner.named_window.is_empty() =>
        {
            Some(inner)
        }
        _ => None,
    }
}

/// Turns each count of the derived table's rows into a count of distinct values. Breaks at anything
/// else that reads those rows.
struct Counts<'s> {
    inner: &'s ast::Select,
    distinct: Vec<ast::Expr>,
    /// Number of counts.
    found: usize,
}

impl Counts<'_> {
    fn count_call(&self, function: &ast::Function) -> Option<ast::Function> {
        let ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses,
        }) = &function.args
        else {
            return None;
        };
        let plain = function.filter.is_none()
            && function.within_group.is_empty()
            && function.null_treatment.is_none()
            && clauses.is_empty();
        let counted = aggregate_name(function).and_then(|name| what_is_counted(&name));
        if !plain || function.over.is_some() || counted != Some(Counted::Rows) {
            return None;
        }
        let filter = match args.as_slice() {
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Wildcard)] => None,
            [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(column))] => Some(Box::new(
                ast::Expr::IsNotNull(Box::new(self.definition(column)?)),
            )),
            _ => return None,
        };
        let row = ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Tuple(
            self.distinct.clone(),
        )));
        let list = ast::FunctionArgumentList {
            duplicate_treatment: Some(ast::DuplicateTreatment::Distinct),
            args: vec![row],
            clauses: Vec::new(),
        };
        Some(ast::Function {
            args: ast::FunctionArguments::List(list),
            filter,
            ..function.clone()
        })
    }

    /// The expression that defines a column of the derived table, if it depends on the row alone.
    fn definition(&self, column: &ast::Expr) -> Option<ast::Expr> {
        let name = match column {
            ast::Expr::CompoundIdentifier(parts) if parts.len() == 2 => name_of(&parts[1]).ok()?,
            other => bare_name(other)?,
        };
        let mut found = self.inner.projection.iter().filter_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr, alias } => {
                (name_of(alias).ok()? == name).then_some(expr)
            }
            item => item_expr(item).filter(|expr| column_name(expr) == name),
        });
        let expr = found.next().filter(|expr| !contains_aggregate(expr))?;
        found.next().is_none().then(|| expr.clone())
    }
}

impl ast::VisitorMut for Counts<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        if let ast::Expr::Function(function) = expr
            && (function.over.is_some() || aggregate_name(function).is_some())
        {
            let Some(counted) = self.count_call(function) else {
                return ControlFlow::Break(());
            };
            *expr = ast::Expr::Function(counted);
            self.found += 1;
        }
        ControlFlow::Continue(())
    }
}
