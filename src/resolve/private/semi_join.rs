//! IN, EXISTS and their negations over the rows of a subquery: whether some row meets a condition
//! that also reads the row of the query around it.

use sqlparser::ast;

use super::expression_context::{ResolvedParts, SubqueryPlace, computing};
use super::subquery::plain_select;
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::relation::Relation;
use crate::policy::{Protection, Scalar};
use crate::refusal::{Refusal, RefusalKind, reason};
use crate::resolve::Resolver;
use crate::resolve::classify::free_names::FreeName;
use crate::resolve::cut::middle_query::Subqueries;
use crate::resolve::expression::compare;
use crate::resolve::names::Names;
use crate::resolve::names::environment::Environment;
use crate::resolve::syntax::{is_aggregated, is_grouped, unnest};

/// The rows of a subquery, the conditions that tie them to the row of the query around it, and its
/// items.
struct Found {
    relation: Relation,
    conditions: Vec<Expr>,
    items: Vec<Expr>,
}

/// How the result of a membership test is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::resolve) enum SemiJoin {
    /// Only whether it is true matters: false and NULL have the same effect.
    Taken,
    /// Its value matters, including NULL.
    Value,
    /// The value of its negation matters.
    Negated,
}

impl Resolver<'_> {
    /// `subject [NOT] IN (subquery)`.
    pub(in crate::resolve) fn membership(
        &mut self,
        subject: &ast::Expr,
        query: &ast::Query,
        wanted: SemiJoin,
        place: SubqueryPlace<'_>,
        given: &ResolvedParts,
    ) -> Result<Expr, Refusal> {
        let subjects = match unnest(subject) {
            ast::Expr::Tuple(items) => items.iter().collect(),
            _ => vec![subject],
        };
        let expressions = self.expressions_at(place, given);
        let subjects = subjects
            .into_iter()
            .map(|e| expressions.value(e))
            .collect::<Result<Vec<_>, _>>()?;
        let (found, items) = self.exists(query, &subjects, place)?;
        if wanted == SemiJoin::Taken {
            return Ok(found);
        }
        self.check_never_null(&items, &found)?;
        let is_negated = wanted == SemiJoin::Negated;
        let found = if is_negated { not(found) } else { found };
        if !place.is_extended && !subjects.iter().any(|subject| self.may_be_null(subject)) {
            return Ok(found);
        }
        let [subject] = subjects.as_slice() else {
            return Err(Refusal::unsupported(
                reason::NOT_IN_WITH_NULL,
                "NOT IN of a row value that may hold NULL",
            )
            .hint("Write NOT EXISTS (SELECT … WHERE …) instead."));
        };
        // NULL IN (…) is NULL, except for the empty set.
        let (any, _) = self.exists(query, &[], place)?;
        let unknown = Expr {
            node: Node::Case {
                branches: vec![(any, truth(None))],
                otherwise: Some(Box::new(truth(Some(is_negated)))),
            },
            data_type: Type::Bool,
        };
        let is_null = Expr::call(Function::IsNull, vec![subject.clone()], Type::Bool);
        Ok(Expr {
            node: Node::Case {
                branches: vec![(is_null, unknown)],
                otherwise: Some(Box::new(found)),
            },
            data_type: Type::Bool,
        })
    }

    /// Whether the subquery has a row whose items equal the subjects; also returns the items.
    pub(in crate::resolve) fn exists(
        &mut self,
        query: &ast::Query,
        subjects: &[Expr],
        place: SubqueryPlace<'_>,
    ) -> Result<(Expr, Vec<Expr>), Refusal> {
        let Found {
            relation,
            mut conditions,
            items,
        } = match plain_select(query) {
            Some(select) if !is_aggregated(select) => {
                let (_, environment) = self.open_with(query.with.as_ref(), place.environment)?;
                let select = &self.with_constants(select, &environment, Subqueries::Everywhere)?;
                let from = self.names.bind_from(select, &environment)?;
                let inner = self.rows_of_subquery(select, &from, &environment, place)?;
                let items = if subjects.is_empty() {
                    Vec::new()
                } else {
                    self.items_of(select, &inner)?
                };
                Found {
                    relation: inner.relation,
                    conditions: inner.across,
                    items,
                }
            }
            Some(select) => self.groups_found(query, select, place)?,
            None => {
                self.names.check_alone(query, place)?;
                self.rows_found(query, place.environment)?
            }
        };
        if !subjects.is_empty() && items.len() != subjects.len() {
            let than = if items.len() > subjects.len() {
                "many"
            } else {
                "few"
            };
            return Err(Refusal::new(
                reason::COLUMN_COUNT,
                format!("subquery has too {than} columns"),
            ));
        }
        for (subject, item) in subjects.iter().zip(&items) {
            conditions.push(compare(
                self.names.constants,
                Function::Equal,
                subject.clone(),
                item.clone(),
                "IN",
            )?);
        }
        let node = Node::Exists {
            relation: Box::new(relation),
            condition: Expr::and(conditions).map(Box::new),
        };
        Ok((
            Expr {
                node,
                data_type: Type::Bool,
            },
            items,
        ))
    }

    fn rows_found(
        &mut self,
        query: &ast::Query,
        environment: &Environment,
    ) -> Result<Found, Refusal> {
        let (relation, named) = self.rows_query(query, environment)?;
        Ok(Found {
            relation,
            conditions: Vec::new(),
            items: named
                .iter()
                .map(|c| self.output.column_expr(c.id))
                .collect(),
        })
    }

    /// The groups of a subquery. If equalities tie it to the row of the query around it, it is also
    /// grouped by its side of them.
    fn groups_found(
        &mut self,
        query: &ast::Query,
        select: &ast::Select,
        place: SubqueryPlace<'_>,
    ) -> Result<Found, Refusal> {
        let within = self
            .names
            .environment_of(query.with.as_ref(), place.environment)?;
        if !self.names.is_tied(select, &within)? {
            return self.rows_found(query, place.environment);
        }
        let (_, environment) = self.open_with(query.with.as_ref(), place.environment)?;
        let select = &self.with_constants(select, &environment, Subqueries::Everywhere)?;
        let from = self.names.bind_from(select, &environment)?;
        let inner = self.rows_of_subquery(select, &from, &environment, place)?;
        let ungrouped = !is_grouped(select);
        if ungrouped || select.distinct.is_some() {
            return Err(Refusal::new(
                reason::CORRELATED_SUBQUERY,
                "EXISTS and IN cannot test an ungrouped aggregate that refers to the row \
                    around it",
            )
            .hint(
                "Compare the aggregate itself, as in (SELECT count(*) FROM … WHERE …) > 2, or \
                    add GROUP BY to the subquery.",
            ));
        }
        let own = inner.relation.made_at_any_depth();
        let ties = self.ties(inner.across, &own)?;
        let relation = computing(inner.relation, ties.computed);
        let within = SubqueryPlace {
            scope: &inner.scope,
            outer: &inner.outer,
            environment: &environment,
            is_extended: false,
        };
        let (relation, named) = self
            .group_rows(select, &from, relation, within, &ties.keys)
            // The kind chooses the words alone. Which names HAVING may use is known only once the
            // keys are resolved, and the grouping refuses others itself.
            .map_err(|refusal| match refusal.kind() {
                RefusalKind::Grouping => Refusal::new(
                    reason::CORRELATED_SUBQUERY,
                    "HAVING in a subquery cannot refer to the row around it",
                )
                .hint("Compare a scalar subquery instead."),
                _ => refusal,
            })?;
        Ok(Found {
            relation,
            conditions: ties.on,
            items: named
                .iter()
                .map(|c| self.output.column_expr(c.id))
                .collect(),
        })
    }

    /// NOT IN is the same as NOT EXISTS only if no item is NULL.
    fn check_never_null(&self, items: &[Expr], found: &Expr) -> Result<(), Refusal> {
        let is_extended = match &found.node {
            Node::Exists {
                relation,
                condition: _,
            } => relation.is_extended(),
            _ => true,
        };
        if !items.is_empty() && !is_extended && !items.iter().any(|item| self.may_be_null(item)) {
            return Ok(());
        }
        Err(Refusal::unsupported(
            reason::NOT_IN_WITH_NULL,
            "NOT IN over a column that may be NULL",
        )
        .detail("One NULL in the subquery would make the condition unknown for every row.")
        .hint("Write NOT EXISTS (SELECT … WHERE …) instead."))
    }

    /// Whether the expression may be NULL. It may not if it is a column declared NOT NULL, the
    /// unit, or the key that leads to the unit: the scan leaves out rows that belong to no unit.
    fn may_be_null(&self, expr: &Expr) -> bool {
        let Some(id) = expr.as_column() else {
            return expr.as_literal().is_none();
        };
        let info = &self.output.columns[id.0 as usize];
        let leads = info.origin.is_some_and(|(table, _)| {
            match &self.names.policy.tables[table.0].protection {
                Protection::Private(unit) => {
                    unit.path.first().map_or(&unit.column, |step| &step.column) == &info.name
                }
                Protection::Public => false,
            }
        });
        info.nullable && !leads
    }
}

impl Names<'_> {
    /// Refuses a UNION that names columns of a query around it.
    fn check_alone(&self, query: &ast::Query, place: SubqueryPlace<'_>) -> Result<(), Refusal> {
        let is_union = matches!(*query.body, ast::SetExpr::SetOperation { .. })
            && query.limit_clause.is_none()
            && query.fetch.is_none();
        let is_around = |free: &FreeName| {
            std::iter::once(place.scope)
                .chain(place.outer)
                .any(|scope| scope.column(&free.parts).is_some())
        };
        if is_union
            && self
                .free_names(query, place.environment)?
                .names
                .iter()
                .any(is_around)
        {
            return Err(Refusal::new(
                reason::CORRELATED_SUBQUERY,
                "a UNION in EXISTS or IN cannot refer to the row around it",
            )
            .hint("Write one EXISTS for each SELECT of the UNION and combine them with OR."));
        }
        Ok(())
    }
}

pub(in crate::resolve) fn not(expr: Expr) -> Expr {
    Expr::call(Function::Not, vec![expr], Type::Bool)
}

fn truth(value: Option<bool>) -> Expr {
    Expr::literal(value.map(Scalar::Bool), Type::Bool)
}
