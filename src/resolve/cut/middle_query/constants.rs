//! Uncorrelated subqueries in expressions, replaced by constants.

use crate::catalog::Type;
use crate::ir::relation::MiddleRows;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{
    ONE_PLACEHOLDER, ROWS_PLACEHOLDER, aggregate_name, empty_select, is_distinct_rows, is_ordinal,
    item_expr, query_of, select_of, unnest,
};
use crate::visit;
use sqlparser::ast;
use std::ops::ControlFlow;

/// Which subqueries of a SELECT belong to its rows, and not to the query above its groups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::resolve) enum Subqueries {
    Everywhere,
    /// In the SELECT list, HAVING and ORDER BY: only subqueries inside aggregates and group keys.
    BelowAggregates,
}

/// Replaces subqueries by constants. Equal subqueries become one constant.
pub(super) struct Replace<'r, 'p> {
    resolver: &'r mut Resolver<'p>,
    environment: &'r Environment,
    known: Vec<(ast::Expr, ast::Expr)>,
    /// Number of open queries below the visited expression. Their subqueries are not replaced.
    depth: usize,
    /// Number of open aggregates and keys around the expression.
    inside: usize,
    /// The group keys, if only subqueries inside aggregates and keys are replaced.
    keys: Option<Vec<ast::Expr>>,
}

/// `SELECT expr`.
pub(super) fn one_row(expr: ast::Expr) -> ast::Query {
    query_of(select_of(ast::Select {
        projection: vec![ast::SelectItem::UnnamedExpr(expr)],
        ..empty_select()
    }))
}

/// The expressions of GROUP BY, and the SELECT items that its ordinals and output names refer to.
pub(super) fn group_keys(select: &ast::Select) -> Vec<ast::Expr> {
    let items: Vec<&ast::Expr> = select.projection.iter().filter_map(item_expr).collect();
    if is_distinct_rows(select) {
        return items.into_iter().cloned().collect();
    }
    let ast::GroupByExpr::Expressions(exprs, _) = &select.group_by else {
        return Vec::new();
    };
    let mut keys = exprs.clone();
    for expr in exprs {
        if is_ordinal(expr)
            && let Some(at) = expr
                .to_string()
                .parse::<usize>()
                .ok()
                .and_then(|n| n.checked_sub(1))
        {
            keys.extend(items.get(at).map(|e| (*e).clone()));
        }
        let named = select.projection.iter().filter_map(|item| match item {
            ast::SelectItem::ExprWithAlias { expr: value, alias } => {
                (ast::Expr::Identifier(alias.clone()) == *expr).then(|| value.clone())
            }
            _ => None,
        });
        keys.extend(named);
    }
    keys
}

pub(super) fn conditions<'e>(
    tables: &'e mut ast::TableWithJoins,
    exprs: &mut Vec<&'e mut ast::Expr>,
) {
    use ast::JoinOperator as J;
    let ast::TableWithJoins { relation, joins } = tables;
    if let ast::TableFactor::NestedJoin {
        table_with_joins,
        alias: _,
    } = relation
    {
        conditions(table_with_joins, exprs);
    }
    for ast::Join {
        relation,
        global: _,
        join_operator,
    } in joins
    {
        if let ast::TableFactor::NestedJoin {
            table_with_joins,
            alias: _,
        } = relation
        {
            conditions(table_with_joins, exprs);
        }
        if let J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c) = join_operator
            && let ast::JoinConstraint::On(expr) = c
        {
            exprs.push(expr);
        }
    }
}

/// `x = ANY (subquery)` as `x IN (subquery)`, and `x <> ALL` as NOT IN.
pub(super) fn as_membership(expr: &ast::Expr) -> Option<ast::Expr> {
    let (left, right, negated) = match expr {
        ast::Expr::AnyOp {
            left,
            compare_op: ast::BinaryOperator::Eq,
            right,
            is_some: _,
        } => (left, right, false),
        ast::Expr::AllOp {
            left,
            compare_op: ast::BinaryOperator::NotEq,
            right,
        } => (left, right, true),
        _ => return None,
    };
    match unnest(right) {
        ast::Expr::Subquery(subquery) => Some(ast::Expr::InSubquery {
            expr: left.clone(),
            subquery: subquery.clone(),
            negated,
        }),
        _ => None,
    }
}

impl Replace<'_, '_> {
    fn all(&mut self, expr: &mut ast::Expr) -> Result<(), Refusal> {
        match visit::visit_mut(expr, self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }

    fn replace(&mut self, expr: &ast::Expr) -> Result<Option<ast::Expr>, Refusal> {
        if let Some((_, constant)) = self.known.iter().find(|(known, _)| known == expr) {
            return Ok(Some(constant.clone()));
        }
        let constant = self.resolver.constant_of(expr, self.environment)?;
        self.known
            .extend(constant.iter().map(|c| (expr.clone(), c.clone())));
        Ok(constant)
    }

    fn encloses(&self, expr: &ast::Expr) -> bool {
        matches!(expr, ast::Expr::Function(function) if aggregate_name(function).is_some())
    }
}

impl ast::VisitorMut for Replace<'_, '_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Refusal> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<Refusal> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if let Some(membership) = as_membership(expr) {
            *expr = membership;
        }
        if self.inside == 0 && self.keys.as_ref().is_some_and(|keys| keys.contains(expr)) {
            // The same key stands below and above the cut. Walking it separately replaces both
            // alike.
            let keys = self.keys.take();
            let walked = visit::visit_mut(expr, self);
            self.keys = keys;
            self.inside += usize::from(self.encloses(expr));
            return walked;
        }
        self.inside += usize::from(self.encloses(expr));
        if self.keys.is_none() || self.inside > 0 {
            match self.replace(expr) {
                Ok(Some(constant)) => *expr = constant,
                Ok(None) => {}
                Err(refusal) => return ControlFlow::Break(refusal),
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Refusal> {
        if self.depth == 0 {
            self.inside -= usize::from(self.encloses(expr));
        }
        ControlFlow::Continue(())
    }
}

impl Resolver<'_> {
    /// Replaces every uncorrelated subquery in the expressions of the SELECT's rows by a constant.
    pub(in crate::resolve) fn with_constants(
        &mut self,
        select: &ast::Select,
        environment: &Environment,
        place: Subqueries,
    ) -> Result<ast::Select, Refusal> {
        let mut select = select.clone();
        let keys = group_keys(&select);
        let mut replace = Replace {
            resolver: self,
            environment,
            known: Vec::new(),
            depth: 0,
            inside: 0,
            keys: None,
        };
        let mut exprs: Vec<&mut ast::Expr> = select.selection.iter_mut().collect();
        for tables in &mut select.from {
            conditions(tables, &mut exprs);
        }
        if let ast::GroupByExpr::Expressions(all, _) = &mut select.group_by {
            exprs.extend(all);
        }
        for expr in exprs {
            replace.all(expr)?;
        }
        if place == Subqueries::BelowAggregates {
            replace.keys = Some(keys);
        }
        for item in &mut select.projection {
            match item {
                ast::SelectItem::UnnamedExpr(expr)
                | ast::SelectItem::ExprWithAlias { expr, alias: _ } => replace.all(expr)?,
                ast::SelectItem::ExprWithAliases { .. }
                | ast::SelectItem::QualifiedWildcard(..)
                | ast::SelectItem::Wildcard(_) => {}
            }
        }
        if let Some(having) = &mut select.having {
            replace.all(having)?;
        }
        Ok(select)
    }

    /// The constant that replaces a subquery. `None` if the subquery cannot run by itself.
    pub(super) fn constant_of(
        &mut self,
        expr: &ast::Expr,
        environment: &Environment,
    ) -> Result<Option<ast::Expr>, Refusal> {
        let (query, rows) = match expr {
            ast::Expr::Subquery(query)
            | ast::Expr::Exists {
                subquery: query,
                negated: _,
            } => (query, MiddleRows::One),
            ast::Expr::InSubquery {
                expr: _,
                subquery,
                negated: _,
            } => (subquery, MiddleRows::Many),
            _ => return Ok(None),
        };
        if !self.names.is_middle(query, environment)?
            || self.names.is_correlated(query, environment)?
        {
            return Ok(None);
        }
        match self.constant_query(expr, query, rows, environment) {
            Ok(replaced) => Ok(Some(replaced)),
            Err(refusal) => Err(refusal.within(|| self.names.opening(query))),
        }
    }

    pub(super) fn constant_query(
        &mut self,
        expr: &ast::Expr,
        query: &ast::Query,
        rows: MiddleRows,
        environment: &Environment,
    ) -> Result<ast::Expr, Refusal> {
        let opened = self.standalone(query, environment)?;
        let data_type = match (expr, self.shape(&opened)?.as_slice()) {
            (ast::Expr::Exists { .. }, _) => Type::Bool,
            (_, [(_, data_type)]) => data_type.clone(),
            _ => {
                return Err(Refusal::new(
                    reason::COLUMN_COUNT,
                    "subquery must return only one column",
                ));
            }
        };
        let opened = match expr {
            ast::Expr::InSubquery { .. } => opened,
            ast::Expr::Exists {
                subquery: _,
                negated,
            } => one_row(ast::Expr::Exists {
                subquery: Box::new(opened),
                negated: *negated,
            }),
            _ => one_row(ast::Expr::Subquery(Box::new(opened))),
        };
        let constants = self.output.middle(opened, vec![data_type], rows)?;
        let constant = |kind: &str| {
            ast::Expr::Value(ast::Value::Placeholder(format!("{kind}{}", constants[0].0)).into())
        };
        Ok(match expr {
            ast::Expr::InSubquery {
                expr,
                subquery: _,
                negated,
            } => ast::Expr::InList {
                expr: expr.clone(),
                list: vec![constant(ROWS_PLACEHOLDER)],
                negated: *negated,
            },
            _ => constant(ONE_PLACEHOLDER),
        })
    }
}
