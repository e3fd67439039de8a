//! Joins of private rows.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::using::Using;
use crate::ir::expression::Expr;
use crate::ir::relation::{JoinKind, Relation};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::{BoundFrom, BoundTables};
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::Scope;
use crate::resolve::private::expression_context::{
    ResolvedParts, SubqueryPlace, WhichSubqueries, computing,
};
use crate::resolve::syntax::place_of;
use crate::visit;

impl Resolver<'_> {
    pub(super) fn rows_of_tables(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let mut joined: Option<(Relation, Scope)> = None;
        for (tables, bound) in from.entries(&select.from) {
            let next = self.rows_joined(tables, bound, environment)?;
            joined = Some(match joined {
                None => next,
                Some((left, mut scope)) => {
                    let (right, right_scope) = next;
                    scope
                        .require_other_names(&right_scope)
                        .map_err(|refusal| refusal.within(|| place_of(&tables.relation)))?;
                    scope.join(right_scope, Vec::new());
                    (
                        Relation::Join {
                            kind: JoinKind::Inner,
                            left: Box::new(left),
                            right: Box::new(right),
                            on: None,
                        },
                        scope,
                    )
                }
            });
        }
        joined
            .ok_or_else(|| Refusal::unsupported(reason::UNSUPPORTED_CLAUSE, "SELECT without FROM"))
    }

    pub(super) fn rows_joined(
        &mut self,
        tables: &ast::TableWithJoins,
        bound: &BoundTables,
        environment: &Environment,
    ) -> Result<(Relation, Scope), Refusal> {
        let ast::TableWithJoins { relation, joins } = tables;
        let (mut relation, mut scope) = self.rows_factor(relation, &bound.first, environment)?;
        for (join, bound) in bound.joins(joins) {
            let ast::Join {
                relation: right,
                global,
                join_operator,
            } = join;
            if *global {
                return Err(self.names.global_alias(right));
            }
            let place = place_of(right);
            let (kind, swapped, constraint) =
                join_kind(join_operator).map_err(|refusal| refusal.within(|| place))?;
            let (right, right_scope) = self.rows_factor(right, bound, environment)?;
            // The ON of an inner join is like WHERE, which may hold subqueries.
            let filtering = match constraint {
                ast::JoinConstraint::On(condition)
                    if kind == JoinKind::Inner && has_subquery(condition) =>
                {
                    Some(condition)
                }
                _ => None,
            };
            let constraint = if filtering.is_some() {
                &ast::JoinConstraint::None
            } else {
                constraint
            };
            scope
                .require_other_names(&right_scope)
                .map_err(|refusal| refusal.within(|| place))?;
            let Using {
                mut conditions,
                folded,
                computed,
                widened,
            } = self.using(&scope, &right_scope, constraint, (kind, swapped))?;
            scope.join(right_scope, folded);
            widened
                .into_iter()
                .for_each(|(wide, own)| scope.widen(wide, own));
            if let ast::JoinConstraint::On(condition) = constraint {
                conditions.push(self.expressions(&scope).condition(condition, "JOIN/ON")?);
            }
            let (left, right) = if swapped {
                (right, relation)
            } else {
                (relation, right)
            };
            relation = Relation::Join {
                kind,
                left: Box::new(computing(left, computed)),
                right: Box::new(right),
                on: Expr::and(conditions),
            };
            if let Some(condition) = filtering {
                relation = self.filter_by_on(relation, condition, &scope, environment)?;
            }
        }
        Ok((relation, scope))
    }

    /// Filters the rows of an inner join by an ON that holds subqueries.
    fn filter_by_on(
        &mut self,
        relation: Relation,
        condition: &ast::Expr,
        scope: &Scope,
        environment: &Environment,
    ) -> Result<Relation, Refusal> {
        let place = SubqueryPlace {
            scope,
            outer: &[],
            environment,
            is_extended: relation.is_extended(),
        };
        let mut given = ResolvedParts::default();
        self.subqueries_in(condition, place, WhichSubqueries::Condition, &mut given)?;
        let predicate = self
            .expressions_at(place, &given)
            .condition(condition, "JOIN/ON")?;
        Ok(Relation::Filter {
            input: Box::new(given.below(relation)),
            predicate,
        })
    }
}

fn has_subquery(condition: &ast::Expr) -> bool {
    struct Search;
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    visit::visit(condition, &mut Search).is_break()
}

/// The kind of join, whether its sides are swapped (RIGHT), and the constraint.
fn join_kind(
    operator: &ast::JoinOperator,
) -> Result<(JoinKind, bool, &ast::JoinConstraint), Refusal> {
    use ast::JoinOperator as J;
    match operator {
        J::Join(constraint) | J::Inner(constraint) | J::CrossJoin(constraint) => {
            Ok((JoinKind::Inner, false, constraint))
        }
        J::Left(constraint) | J::LeftOuter(constraint) => Ok((JoinKind::Left, false, constraint)),
        J::Right(constraint) | J::RightOuter(constraint) => Ok((JoinKind::Left, true, constraint)),
        J::FullOuter(_) => Err(Refusal::unsupported(reason::UNSUPPORTED_JOIN, "FULL JOIN")
            .hint("Use LEFT JOIN, which keeps the rows of one side.")),
        _ => Err(Refusal::unsupported(
            reason::UNSUPPORTED_JOIN,
            "this kind of join",
        )),
    }
}
