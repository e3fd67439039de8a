//! The steps of a logistic regression: releases of the same rows, each with the coefficients that
//! those before it have found as constants. The last step is the release that the SELECT is cut to.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::Cut;
use crate::aggregates::{NEWTON_COEFFICIENTS, NEWTON_STEP, NEWTON_STEPS};
use crate::catalog::Type;
use crate::ir::expression::{Expr, Node};
use crate::ir::relation::{
    ConstantId, MiddleRows, Relation, Release, ReleaseId, aggregate_column, release_alias,
};
use crate::ir::{AggregateId, Operation, sql};
use crate::policy::{LogisticField, RecordField};
use crate::refusal::{Refusal, reason};
use crate::resolve::Resolver;
use crate::resolve::syntax::{
    empty_select, plain_table, query_of, quote_name, record_called, select_of,
};
use crate::visit;

/// The record's name in the schema `pgveil`.
const NAME: &str = "logregr";
/// The aggregates of a step: what it adds in scaled columns, and in the columns as written.
const SCALED: AggregateId = AggregateId(0);
const WRITTEN: AggregateId = AggregateId(1);
/// Digits of a scaled coefficient, which is at most twice the number of steps, and of them those
/// after the point.
const DIGITS: (u16, i16) = (14, 12);

impl Resolver<'_> {
    /// Numbers the releases of the steps before the last, of a SELECT that has a logistic
    /// regression.
    pub(super) fn reserve_steps(
        &mut self,
        select: &ast::Select,
        input: &Relation,
    ) -> Result<Vec<ReleaseId>, Refusal> {
        if !has_logistic(select) {
            return Ok(Vec::new());
        }
        Ok((1..NEWTON_STEPS)
            .map(|_| {
                let number = ReleaseId(self.output.releases.len());
                self.output.releases.push(Release {
                    input: input.clone(),
                    keys: Vec::new(),
                    sets: Vec::new(),
                    aggregates: Vec::new(),
                    uncertainties: Vec::new(),
                });
                number
            })
            .collect())
    }

    /// Says what each step asks, and what the last one takes from the others.
    ///
    /// # Errors
    /// 0A000 for groups, and for two regressions, whose steps would need separate constants.
    pub(super) fn fill_steps(&mut self, cut: &mut Cut) -> Result<(), Refusal> {
        let is_step = |operation: &Operation| operation.of_steps().is_some();
        let mut own = cut.aggregates.iter().filter(|a| is_step(&a.operation));
        let Some(first) = own.next().cloned() else {
            return match cut.steps.is_empty() {
                true => Ok(()),
                false => Err(alone("this form of a logistic regression")),
            };
        };
        if own.any(|other| {
            !other.operation.is_same_fit(&first.operation) || other.filter != first.filter
        }) {
            return Err(alone("a second logistic regression in one SELECT"));
        }
        if !cut.keys.is_empty() {
            return Err(alone("a logistic regression in groups"));
        }
        if cut
            .aggregates
            .iter()
            .any(|other| !is_step(&other.operation))
        {
            return Err(alone(
                "a logistic regression with other aggregates in one SELECT",
            ));
        }
        let mut at = Vec::new();
        for (step, number) in cut.steps.iter().enumerate() {
            let asked = |field: &'static RecordField| {
                let mut own = first.clone();
                own.data_type = field.data_type();
                own.operation = own.operation.at_step(&at, step, field);
                own
            };
            // In the order of `SCALED` and `WRITTEN`.
            let fields = vec![asked(&NEWTON_STEP), asked(&NEWTON_COEFFICIENTS)];
            self.output.releases[number.0].aggregates = fields;
            let middle = sums(&cut.steps[..=step], SCALED, first.operation.coefficients());
            at = self.constants_of(middle)?;
        }
        let last = cut.steps.len();
        for aggregate in &mut cut.aggregates {
            if let Some(field) = aggregate.operation.of_steps() {
                aggregate.operation = aggregate.operation.clone().at_step(&at, last, field);
            }
        }
        Ok(())
    }

    /// The columns of one row as constants.
    fn constants_of(&mut self, columns: Vec<ast::Expr>) -> Result<Vec<Expr>, Refusal> {
        let data_type = Type::Numeric(Some(DIGITS));
        let types = vec![data_type.clone(); columns.len()];
        let cast = |column| ast::SelectItem::UnnamedExpr(sql::cast(column, &data_type));
        let projection = columns.into_iter().map(cast);
        let query = query_of(select_of(ast::Select {
            projection: projection.collect(),
            ..empty_select()
        }));
        let constants = self.output.middle(query, types, MiddleRows::One)?;
        let constant = |id: ConstantId| Expr {
            node: Node::Constant(id),
            data_type: data_type.clone(),
        };
        Ok(constants.into_iter().map(constant).collect())
    }
}

impl Cut {
    /// The column of a field of a record. The coefficients of a logistic regression are the sums of
    /// what its steps add.
    pub(super) fn of_steps(&self, at: AggregateId) -> Result<ast::Expr, Refusal> {
        let column = self.reference(aggregate_column(at));
        let operation = &self.aggregates[at.0].operation;
        let Some(field) = operation.of_steps() else {
            return Ok(column);
        };
        if self.steps.is_empty() {
            return Err(Refusal::unsupported(
                reason::UNSUPPORTED_AGGREGATE,
                "a logistic regression outside of the SELECT list",
            )
            .hint("Name a field in the SELECT list of a subquery, and use its column."));
        }
        if LogisticField::by_name(field.name) != Some(LogisticField::Coef) {
            return Ok(column);
        }
        let before = sums(&self.steps, WRITTEN, operation.coefficients());
        let elements = before
            .into_iter()
            .enumerate()
            .map(|(position, before)| sum(before, element(column.clone(), position)));
        Ok(ast::Expr::Array(ast::Array {
            elem: elements.collect(),
            named: true,
        }))
    }
}

/// Whether a SELECT calls it, outside subqueries.
fn has_logistic(select: &ast::Select) -> bool {
    struct Search {
        depth: usize,
    }
    impl ast::Visitor for Search {
        type Break = ();
        fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }
        fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Function(function)
                    if self.depth == 0
                        && record_called(function).is_some_and(|record| record.name == NAME) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    visit::visit(&select.projection, &mut Search { depth: 0 }).is_break()
}

/// What these steps add to each coefficient. A step that has no answer, because its rows are too
/// few, adds nothing.
fn sums(steps: &[ReleaseId], aggregate: AggregateId, size: usize) -> Vec<ast::Expr> {
    let of = |position: usize| {
        let each = steps.iter().map(|step| {
            let alias = release_alias(*step);
            let column = ast::Expr::CompoundIdentifier(vec![
                quote_name(&alias),
                quote_name(&aggregate_column(aggregate)),
            ]);
            let query = query_of(select_of(ast::Select {
                projection: vec![ast::SelectItem::UnnamedExpr(element(column, position))],
                from: vec![ast::TableWithJoins {
                    relation: plain_table(
                        ast::ObjectName(vec![ast::ObjectNamePart::Identifier(quote_name(&alias))]),
                        None,
                    ),
                    joins: Vec::new(),
                }],
                ..empty_select()
            }));
            or_zero(ast::Expr::Subquery(Box::new(query)))
        });
        each.reduce(sum).unwrap_or_else(zero)
    };
    (0..size).map(of).collect()
}

fn sum(left: ast::Expr, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::Plus,
        right: Box::new(right),
    }
}

fn element(array: ast::Expr, position: usize) -> ast::Expr {
    let index = ast::Value::Number((position + 1).to_string(), false);
    ast::Expr::CompoundFieldAccess {
        root: Box::new(ast::Expr::Nested(Box::new(array))),
        access_chain: vec![ast::AccessExpr::Subscript(ast::Subscript::Index {
            index: ast::Expr::Value(index.into()),
        })],
    }
}

fn zero() -> ast::Expr {
    ast::Expr::Value(ast::Value::Number("0".to_owned(), false).into())
}

fn or_zero(value: ast::Expr) -> ast::Expr {
    sql::call("coalesce", vec![value, zero()])
}

fn alone(what: &str) -> Refusal {
    Refusal::unsupported(reason::LOGISTIC_ALONE, what)
        .hint("Ask each in a separate query, with WHERE or FILTER in place of GROUP BY.")
}
