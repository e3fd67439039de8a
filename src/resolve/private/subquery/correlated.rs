//! Correlated subqueries: FROM, WHERE, and the equalities with the row of the query around them.

use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::functions::Function;
use crate::ir::relation::{ColumnId, Relation};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::bound_from::BoundFrom;
use crate::resolve::expression::ExpressionResolver;
use crate::resolve::names::environment::Environment;
use crate::resolve::names::scope::Scope;
use crate::resolve::private::expression_context::{
    ResolvedParts, SubqueryPlace, WhichSubqueries, computed_column,
};
use crate::resolve::syntax::{item_expr, place_of};
use sqlparser::ast;

/// Equalities between columns of a subquery and the row of the query around it.
pub(in crate::resolve) struct OuterEqualities {
    /// The subquery's sides that must be computed as columns.
    pub(in crate::resolve) computed: Vec<(ColumnId, Expr)>,
    pub(in crate::resolve) keys: Vec<ColumnId>,
    pub(in crate::resolve) on: Vec<Expr>,
}

/// FROM and WHERE of a subquery.
pub(in crate::resolve) struct Inner {
    pub(in crate::resolve) relation: Relation,
    pub(in crate::resolve) scope: Scope,
    /// Scopes of the queries around it, the nearest first.
    pub(in crate::resolve) outer: Vec<Scope>,
    /// Conditions that also read queries around it.
    pub(in crate::resolve) across: Vec<Expr>,
}

/// The sides of an equality in which one side reads only `own` columns and the other none of them.
/// The `own` side comes first.
pub(super) fn equality<'e>(condition: &'e Expr, own: &[ColumnId]) -> Option<(&'e Expr, &'e Expr)> {
    let [a, b] = condition.sides_of_equality()?;
    let all_own =
        |e: &Expr| !e.columns().is_empty() && e.columns().iter().all(|id| own.contains(id));
    let none_own = |e: &Expr| e.columns().iter().all(|id| !own.contains(id));
    match (all_own(a) && none_own(b), all_own(b) && none_own(a)) {
        (true, _) => Some((a, b)),
        (_, true) => Some((b, a)),
        _ => None,
    }
}

/// The only SELECT of a query, if the query does not sort or limit its rows in a way that matters
/// here.
pub(in crate::resolve) fn plain_select(query: &ast::Query) -> Option<&ast::Select> {
    let ast::Query {
        with: _,
        body,
        order_by: _,
        limit_clause,
        fetch,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    let extras = for_clause.is_some()
        || settings.is_some()
        || format_clause.is_some()
        || !pipe_operators.is_empty()
        || !locks.is_empty();
    match body.as_ref() {
        ast::SetExpr::Select(select) if !extras && fetch.is_none() && limit_clause.is_none() => {
            Some(select)
        }
        ast::SetExpr::Query(inner)
            if !extras && fetch.is_none() && limit_clause.is_none() && query.with.is_none() =>
        {
            plain_select(inner)
        }
        _ => None,
    }
}

impl Resolver<'_> {
    /// FROM and WHERE of a subquery.
    pub(in crate::resolve) fn rows_of_subquery(
        &mut self,
        select: &ast::Select,
        from: &BoundFrom,
        environment: &Environment,
        around: SubqueryPlace<'_>,
    ) -> Result<Inner, Refusal> {
        crate::resolve::syntax::check_select(select)?;
        let (relation, scope) = self.rows_from(select, from, environment)?;
        let outer: Vec<Scope> = std::iter::once(around.scope)
            .chain(around.outer)
            .cloned()
            .collect();
        let is_extended = relation.is_extended();
        let (relation, across) = self.restrict(
            select,
            relation,
            SubqueryPlace {
                scope: &scope,
                outer: &outer,
                environment,
                is_extended,
            },
        )?;
        Ok(Inner {
            relation,
            scope,
            outer,
            across,
        })
    }

    pub(in crate::resolve) fn items_of(
        &self,
        select: &ast::Select,
        inner: &Inner,
    ) -> Result<Vec<Expr>, Refusal> {
        let expressions = ExpressionResolver {
            outer: &inner.outer,
            ..self.expressions(&inner.scope)
        };
        let mut items = Vec::new();
        for item in &select.projection {
            let expr = item_expr(item).ok_or_else(|| {
                Refusal::new(
                    reason::SUBQUERY_FORM,
                    "a subquery in an expression must name its column",
                )
                .hint("Write the column instead of *.")
            })?;
            items.push(expressions.value(expr)?);
        }
        Ok(items)
    }

    /// WHERE of a subquery. Conditions on its own rows filter them. Conditions that read queries
    /// around it are returned.
    pub(in crate::resolve) fn restrict(
        &mut self,
        select: &ast::Select,
        relation: Relation,
        place: SubqueryPlace<'_>,
    ) -> Result<(Relation, Vec<Expr>), Refusal> {
        let Some(condition) = &select.selection else {
            return Ok((relation, Vec::new()));
        };
        if crate::resolve::syntax::contains_aggregate(condition) {
            return Err(Refusal::new(
                reason::MISPLACED_AGGREGATE,
                "aggregate functions are not allowed in WHERE",
            )
            .at(place_of(condition)));
        }
        let mut given = ResolvedParts::default();
        self.subqueries_in(condition, place, WhichSubqueries::Condition, &mut given)?;
        let predicate = self
            .expressions_at(place, &given)
            .condition(condition, "WHERE")?;
        let relation = given.below(relation);
        if place.outer.is_empty() {
            return Ok((
                Relation::Filter {
                    input: Box::new(relation),
                    predicate,
                },
                Vec::new(),
            ));
        }
        let own = relation.made_at_any_depth();
        let is_own = |e: &&Expr| e.free_columns().iter().all(|id| own.contains(id));
        let (inside, across): (Vec<&Expr>, Vec<&Expr>) =
            predicate.conjuncts().into_iter().partition(is_own);
        let relation = match Expr::and(inside.into_iter().cloned().collect()) {
            Some(predicate) => Relation::Filter {
                input: Box::new(relation),
                predicate,
            },
            None => relation,
        };
        Ok((relation, across.into_iter().cloned().collect()))
    }

    /// The conditions that tie the subquery's rows to the row of the query around it, as equalities
    /// with columns of the subquery.
    pub(in crate::resolve) fn ties(
        &mut self,
        across: Vec<Expr>,
        own: &[ColumnId],
    ) -> Result<OuterEqualities, Refusal> {
        let (mut computed, mut keys, mut on) = (Vec::new(), Vec::new(), Vec::new());
        for condition in across {
            let (key, other) = equality(&condition, own).ok_or_else(|| {
                Refusal::new(
                    reason::CORRELATED_SUBQUERY,
                    "a subquery can refer to the row around it by equality only",
                )
                .hint("Join the tables in FROM and group instead.")
            })?;
            let id = match key.as_column() {
                Some(id) => id,
                None => {
                    let id = self
                        .output
                        .new_column(computed_column("key", &key.data_type, true));
                    computed.push((id, key.clone()));
                    id
                }
            };
            on.push(Expr::call(
                Function::Equal,
                vec![Expr::column(id, key.data_type.clone()), other.clone()],
                Type::Bool,
            ));
            if !keys.contains(&id) {
                keys.push(id);
            }
        }
        Ok(OuterEqualities { computed, keys, on })
    }

    /// Whether equalities with the row of the query around it cover a unique key of the only table.
    pub(super) fn is_found_by_key(&self, inner: &Inner) -> bool {
        let Some(scan) = inner.relation.only_scan() else {
            return false;
        };
        let table = &self.names.policy.tables[scan.table.0];
        let own = inner.relation.made_at_any_depth();
        let tied: Vec<(ColumnId, &Expr)> = inner
            .across
            .iter()
            .filter_map(|c| equality(c, &own))
            .filter_map(|(e, to)| Some((e.as_column()?, to)))
            .collect();
        let compared = |name: &str| {
            let id = table
                .columns
                .iter()
                .position(|c| c.name == name)
                .map(|at| scan.columns[at]);
            let tied = tied.iter().filter(move |(tied, _)| id == Some(*tied));
            tied.filter_map(|(id, to)| {
                crate::ir::equality(*id, to, self.names.policy, &self.output.columns)
            })
        };
        table
            .unique_keys
            .iter()
            .any(|key| key.tells_apart(compared))
    }
}
