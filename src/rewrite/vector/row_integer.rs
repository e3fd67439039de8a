//! The integer of one row on a value's fixed-point grid.

use sqlparser::ast::{self, BinaryOperator as B};

use super::coordinate::Coordinate;
use super::fixed_point::FixedPoint;
use crate::catalog::Type;
use crate::ir::Expr;
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::sql;

/// A row's integer, clamped to bounds that contain zero. NULL becomes zero, which adds as little.
pub(in crate::rewrite) fn within(integer: ast::Expr, (lower, upper): (i128, i128)) -> ast::Expr {
    let known = sql::call("coalesce", vec![integer, sql::number_literal("0")]);
    sql::call(
        "least",
        vec![
            sql::call(
                "greatest",
                vec![known, sql::number_literal(&lower.to_string())],
            ),
            sql::number_literal(&upper.to_string()),
        ],
    )
}

/// In four bytes where a row's integer fits: PostgreSQL adds four bytes up in eight, but eight
/// bytes in a numeric.
pub(super) fn narrow(integer: ast::Expr, coordinate: &Coordinate) -> ast::Expr {
    if coordinate.magnitude() < 1 << 31 {
        sql::cast(integer, &Type::Int4)
    } else {
        integer
    }
}

/// A row's integer on the value's grid, clipped, in a type that holds twice it: centred
/// (`2 q - (lower + upper)`) or plain. NULL stays NULL.
pub(in crate::rewrite) fn integer(
    value: &Expr,
    fixed_point: &FixedPoint,
    centred: bool,
    data_type: &Type,
    expressions: &ExpressionEmitter<'_>,
) -> Result<ast::Expr, Refusal> {
    let emitted = expressions.emit(value)?.0;
    // A bare bounded column carries exactly this clip already.
    let is_clipped = value.as_column().is_some_and(|id| {
        expressions.cells[&id]
            .clamp
            .as_ref()
            .is_some_and(|(_, _, clip)| *clip == fixed_point.bounds)
    });
    let integer = fixed_point.sql(emitted, is_clipped, (value, expressions), data_type)?;
    if !centred {
        return Ok(integer);
    }
    let doubled = sql::binary(sql::number_literal("2"), B::Multiply, integer);
    Ok(sql::binary(
        doubled,
        B::Minus,
        sql::number_literal(&fixed_point.centre_twice().to_string()),
    ))
}

/// The distance of a centred integer's square from its maximum, divided by G.
pub(in crate::rewrite) fn lacks(distance: ast::Expr, fixed_point: &FixedPoint) -> ast::Expr {
    let most = sql::number_literal(&(u128::from(fixed_point.spread()).pow(2)).to_string());
    let lacks = sql::binary(
        most,
        B::Minus,
        sql::binary(distance.clone(), B::Multiply, distance),
    );
    divide(lacks, fixed_point.divisor_with(fixed_point))
}

/// Integer division towards zero, which keeps a product's bound.
pub(super) fn divide(product: ast::Expr, divisor: u64) -> ast::Expr {
    if divisor == 1 {
        product
    } else {
        sql::binary(
            product,
            B::Divide,
            sql::number_literal(&divisor.to_string()),
        )
    }
}

/// Four bytes where twice the integer and its centre fit in them.
pub(super) fn integer_type(fixed_point: &FixedPoint) -> Type {
    if fixed_point.magnitude() < 1 << 29 {
        Type::Int4
    } else {
        Type::Int8
    }
}
