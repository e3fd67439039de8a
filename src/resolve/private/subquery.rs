//! Subqueries in expressions over private rows. Membership tests become EXISTS. Correlated
//! aggregates become a joined grouping within units.

mod correlated;

pub(in crate::resolve) use correlated::plain_select;
use correlated::{Inner, OuterEqualities};
use std::ops::ControlFlow;

use sqlparser::ast;

use super::expression_context::{
    ResolvedParts, SubqueryPlace, WhichSubqueries, computed_column, computing,
};
use super::per_unit::PerUnitGrouping;
use super::semi_join::SemiJoin;
use super::semi_join::not;
use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::relation::Relation;
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::cut::middle_query::Subqueries;
use crate::resolve::expression::ExpressionResolver;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::group_expression;
use crate::resolve::syntax::{
    aggregate_name, is_aggregated, is_grouped, item_expr, place_of, unnest,
};
use crate::visit;

/// Walks an expression and resolves its subqueries, innermost expressions first.
struct Search<'v, 'r, 'p> {
    resolver: &'v mut Resolver<'r>,
    place: SubqueryPlace<'p>,
    given: &'v mut ResolvedParts,
    which: WhichSubqueries,
    queries: usize,
    aggregates: usize,
    /// Subqueries that the surrounding ANY or ALL has handled.
    taken: Vec<*const ast::Expr>,
    /// Conditions for which only the value true matters.
    holding: Vec<*const ast::Expr>,
}

impl ast::Visitor for Search<'_, '_, '_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Refusal> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Refusal> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            ast::Expr::Function(function) if aggregate_name(function).is_some() => {
                self.aggregates += 1;
                function
                    .filter
                    .iter()
                    .for_each(|filter| holding(filter, &mut self.holding));
            }
            ast::Expr::Case {
                operand: None,
                conditions,
                ..
            } => conditions
                .iter()
                .for_each(|when| holding(&when.condition, &mut self.holding)),
            ast::Expr::AnyOp {
                left: _,
                compare_op: _,
                right,
                is_some: _,
            }
            | ast::Expr::AllOp {
                left: _,
                compare_op: _,
                right,
            } => {
                self.taken.push(std::ptr::from_ref(right.as_ref()));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Refusal> {
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        if let ast::Expr::Function(function) = expr
            && aggregate_name(function).is_some()
        {
            self.aggregates -= 1;
        }
        let is_other = match self.which {
            WhichSubqueries::Condition | WhichSubqueries::Columns => false,
            WhichSubqueries::Arguments => self.aggregates == 0,
            WhichSubqueries::OutsideAggregates => self.aggregates > 0,
        };
        if is_other {
            return ControlFlow::Continue(());
        }
        // A key that an ordinal takes from the SELECT list was resolved as a key.
        if self
            .given
            .resolved
            .iter()
            .any(|(place, _)| std::ptr::eq(*place, expr))
        {
            return ControlFlow::Continue(());
        }
        match self.resolve_subquery(expr) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(value)) => {
                self.given.resolved.push((std::ptr::from_ref(expr), value));
                ControlFlow::Continue(())
            }
            Err(refusal) => ControlFlow::Break(refusal.within(|| place_of(expr))),
        }
    }
}

impl Search<'_, '_, '_> {
    fn resolve_subquery(&mut self, expr: &ast::Expr) -> Result<Option<Expr>, Refusal> {
        let value = match expr {
            ast::Expr::Exists { subquery, negated } => {
                let (found, _) = self.resolver.exists(subquery, &[], self.place)?;
                if *negated { not(found) } else { found }
            }
            ast::Expr::InSubquery {
                expr: subject,
                subquery,
                negated: false,
            } => self.membership(subject, subquery, self.semi_join_kind(expr))?,
            ast::Expr::InSubquery {
                expr,
                subquery,
                negated: true,
            } => self.membership(expr, subquery, SemiJoin::Negated)?,
            ast::Expr::UnaryOp {
                op: ast::UnaryOperator::Not,
                expr,
            } => match unnest(expr) {
                ast::Expr::InSubquery {
                    expr,
                    subquery,
                    negated: false,
                } => self.membership(expr, subquery, SemiJoin::Negated)?,
                _ => return Ok(None),
            },
            ast::Expr::AnyOp {
                left,
                compare_op: ast::BinaryOperator::Eq,
                right,
                is_some: _,
            } => match unnest(right) {
                ast::Expr::Subquery(query) => {
                    self.membership(left, query, self.semi_join_kind(expr))?
                }
                _ => return Ok(None),
            },
            ast::Expr::AllOp {
                left,
                compare_op: ast::BinaryOperator::NotEq,
                right,
            } => match unnest(right) {
                ast::Expr::Subquery(query) => self.membership(left, query, SemiJoin::Negated)?,
                _ => return Ok(None),
            },
            ast::Expr::Subquery(_) if self.taken.contains(&std::ptr::from_ref(expr)) => {
                return Ok(None);
            }
            ast::Expr::Subquery(query) => {
                return self
                    .resolver
                    .scalar(query, self.place, self.given)
                    .map(Some);
            }
            _ => return Ok(None),
        };
        if self.which == WhichSubqueries::Condition {
            return Ok(Some(value));
        }
        let id = self
            .resolver
            .output
            .new_column(computed_column("exists", &Type::Bool, true));
        self.given.computed.push((id, value));
        Ok(Some(Expr::column(id, Type::Bool)))
    }

    fn membership(
        &mut self,
        subject: &ast::Expr,
        query: &ast::Query,
        wanted: SemiJoin,
    ) -> Result<Expr, Refusal> {
        self.resolver
            .membership(subject, query, wanted, self.place, self.given)
    }

    fn semi_join_kind(&self, expr: &ast::Expr) -> SemiJoin {
        if self.holding.contains(&std::ptr::from_ref(expr)) {
            SemiJoin::Taken
        } else {
            SemiJoin::Value
        }
    }
}

/// The parts of a condition for which, as for the condition itself, only the value true matters.
fn holding(condition: &ast::Expr, found: &mut Vec<*const ast::Expr>) {
    match unnest(condition) {
        ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::And | ast::BinaryOperator::Or,
            right,
        } => {
            holding(left, found);
            holding(right, found);
        }
        other => found.push(std::ptr::from_ref(other)),
    }
}

impl Resolver<'_> {
    pub(in crate::resolve) fn expressions_at<'s>(
        &'s self,
        place: SubqueryPlace<'s>,
        given: &'s ResolvedParts,
    ) -> ExpressionResolver<'s> {
        ExpressionResolver {
            given: &given.resolved,
            outer: place.outer,
            ..self.expressions(place.scope)
        }
    }

    /// Resolves the subqueries of an expression before the expression itself.
    pub(in crate::resolve) fn subqueries_in(
        &mut self,
        expr: &ast::Expr,
        place: SubqueryPlace<'_>,
        which: WhichSubqueries,
        given: &mut ResolvedParts,
    ) -> Result<(), Refusal> {
        let mut search = Search {
            resolver: self,
            place,
            given,
            which,
            queries: 0,
            aggregates: 0,
            taken: Vec::new(),
            holding: Vec::new(),
        };
        if which == WhichSubqueries::Condition {
            holding(expr, &mut search.holding);
        }
        match visit::visit(expr, &mut search) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }

    /// Resolves the subqueries below the groups of a grouping SELECT: in keys and inside
    /// aggregates.
    pub(in crate::resolve) fn subqueries_below(
        &mut self,
        select: &ast::Select,
        place: SubqueryPlace<'_>,
        given: &mut ResolvedParts,
    ) -> Result<(), Refusal> {
        let mut keys: Vec<*const ast::Expr> = Vec::new();
        if let ast::GroupByExpr::Expressions(exprs, _) = &select.group_by {
            for expr in exprs {
                let key = group_expression(expr, select, place.scope)?;
                keys.push(std::ptr::from_ref(key));
                self.subqueries_in(key, place, WhichSubqueries::Columns, given)?;
            }
        }
        for expr in select
            .projection
            .iter()
            .filter_map(item_expr)
            .chain(&select.having)
        {
            if !keys.contains(&std::ptr::from_ref(expr)) {
                self.subqueries_in(expr, place, WhichSubqueries::Arguments, given)?;
            }
        }
        Ok(())
    }

    /// A scalar subquery: an aggregate tied to this row by equalities, or a row found by its key.
    /// It becomes a join that finds at most one row.
    fn scalar(
        &mut self,
        query: &ast::Query,
        around: SubqueryPlace<'_>,
        given: &mut ResolvedParts,
    ) -> Result<Expr, Refusal> {
        let refused = || {
            Refusal::unsupported(reason::SUBQUERY_FORM, "this form of scalar subquery").hint(
                "Use an aggregate without GROUP BY, or select a column by its unique key. \
                    Refer to the row around it by equality only.",
            )
        };
        let select = plain_select(query).ok_or_else(refused)?;
        if select.projection.len() != 1 {
            return Err(
                Refusal::new(reason::COLUMN_COUNT, "subquery must return only one column")
                    .at(self.names.opening(query)),
            );
        }
        let ungrouped = !is_grouped(select);
        if !ungrouped || select.distinct.is_some() || select.having.is_some() {
            return Err(refused());
        }
        let (_, environment) = self.open_with(query.with.as_ref(), around.environment)?;
        let from = self.names.bind_from(select, &environment)?;
        if let Some(value) = self.joined_groups(select, &from, &environment, around, given)? {
            return Ok(value);
        }
        let select = &self.with_constants(select, &environment, Subqueries::Everywhere)?;
        let [item] = select.projection.as_slice() else {
            return Err(refused());
        };
        let item = item_expr(item).ok_or_else(refused)?;
        if is_aggregated(select) {
            let inner = self.rows_of_subquery(select, &from, &environment, around)?;
            if from.private && inner.across.is_empty() {
                return Err(refused());
            }
            return self.joined_aggregate(item, inner, &environment, given);
        }
        let inner = self.rows_of_subquery(select, &from, &environment, around)?;
        let value = self.expressions(&inner.scope).value(item)?;
        if !self.is_found_by_key(&inner) {
            return Err(Refusal::new(
                reason::SUBQUERY_MANY_ROWS,
                "this scalar subquery may return more than one row",
            )
            .hint(
                "Compare a unique key of its table with the row around it by equality, or use \
                        an aggregate such as max().",
            ));
        }
        let (id, data_type) = match value.as_column() {
            Some(id) => (id, value.data_type.clone()),
            None => (
                self.output
                    .new_column(computed_column("subquery", &value.data_type, true)),
                value.data_type.clone(),
            ),
        };
        let computed = if value.as_column().is_some() {
            Vec::new()
        } else {
            vec![(id, value)]
        };
        given
            .joined
            .push((computing(inner.relation, computed), Expr::and(inner.across)));
        Ok(Expr::column(id, data_type))
    }

    /// Groups the subquery by its side of the equalities and joins it to the row of the query
    /// around it. Where no group is found, counts are 0 and anything else is NULL.
    fn joined_aggregate(
        &mut self,
        item: &ast::Expr,
        inner: Inner,
        environment: &Environment,
        given: &mut ResolvedParts,
    ) -> Result<Expr, Refusal> {
        let Inner {
            relation,
            scope,
            outer,
            across,
        } = inner;
        let own = relation.made_at_any_depth();
        let OuterEqualities { computed, keys, on } = self.ties(across, &own)?;
        let place = SubqueryPlace {
            scope: &scope,
            outer: &outer,
            environment,
            is_extended: false,
        };
        let mut grouping = PerUnitGrouping::default();
        let mut aggregated = ResolvedParts::default();
        self.subqueries_in(item, place, WhichSubqueries::Arguments, &mut aggregated)?;
        self.aggregates_in(item, place, &mut grouping, &mut aggregated)?;
        let input = computing(aggregated.below(relation), computed);
        let value = self.expressions_at(place, &aggregated).value(item)?;
        let value = grouping.over_groups(value, self)?;
        let value = grouping.without_rows(value);
        let group = Relation::Group {
            input: Box::new(input),
            keys,
            aggregates: grouping.aggregates,
        };
        given.joined.push((group, Expr::and(on)));
        Ok(value)
    }
}
