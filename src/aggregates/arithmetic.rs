//! Arithmetic over released measures, as PostgreSQL computes it.

use sqlparser::ast::{self, BinaryOperator as B};

use super::measure_id::MeasureId;
use super::released_column::ReleasedColumn;
use crate::catalog::Type;
use crate::ir::sql;

/// A measure of the row.
pub(super) fn measure(measure: MeasureId) -> ast::Expr {
    column_value(measure.into())
}

/// A measure, or a value of a choice, of the row.
pub(super) fn column_value(ReleasedColumn(at): ReleasedColumn) -> ast::Expr {
    sql::column("r", &format!("m{at}"))
}

pub(super) fn float_literal(value: f64) -> ast::Expr {
    sql::number_literal(&value.to_string())
}

pub(super) fn within(value: ast::Expr, lo: ast::Expr, hi: ast::Expr) -> ast::Expr {
    sql::call("least", vec![sql::call("greatest", vec![value, lo]), hi])
}

/// Divides; NULL by zero.
pub(super) fn ratio(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::binary(
        a,
        B::Divide,
        sql::call("nullif", vec![b, sql::number_literal("0")]),
    )
}

pub(super) fn when(condition: ast::Expr, value: ast::Expr) -> ast::Expr {
    sql::case(vec![(condition, value)], None)
}

pub(super) fn above(value: ast::Expr, limit: &str) -> ast::Expr {
    sql::binary(value, B::Gt, sql::number_literal(limit))
}

pub(super) fn less_one(count: &ast::Expr) -> ast::Expr {
    sql::binary(count.clone(), B::Minus, sql::number_literal("1"))
}

/// The largest sum of `count` values of at most `each`; in numeric, for which no product is too
/// large.
pub(super) fn largest_sum(count: &ast::Expr, each: f64) -> ast::Expr {
    sql::binary(
        sql::cast(count.clone(), &Type::Numeric(None)),
        B::Multiply,
        float_literal(each),
    )
}

/// Between constants; NULL stays NULL, which LEAST and GREATEST would lose.
pub(super) fn clamp_between(value: ast::Expr, lo: f64, hi: f64) -> ast::Expr {
    let below = sql::binary(value.clone(), B::Lt, float_literal(lo));
    let over = sql::binary(value.clone(), B::Gt, float_literal(hi));
    sql::case(
        vec![(below, float_literal(lo)), (over, float_literal(hi))],
        Some(value),
    )
}
