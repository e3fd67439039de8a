//! The time of arithmetic by the digits of its numbers, and the digits of numbers that are written.

use sqlparser::ast;

use super::arguments;

/// The time of a logarithm or a power of a numeric. It is computed to as many digits as its operand
/// has, and products add up digits.
pub(super) fn of_curve(digits: u64) -> u64 {
    digits
        .saturating_mul(digits)
        .saturating_mul(3)
        .clamp(30_000, 25_000_000)
}

/// The time of a product or a quotient of numerics: PostgreSQL multiplies each four digits of one
/// by each four of the other.
pub(super) fn of_product(one: u64, other: u64) -> u64 {
    (one / 4 + 1)
        .saturating_mul(other / 4 + 1)
        .saturating_mul(2)
        .saturating_add(200)
}

/// The time to read a number and to write another one.
pub(super) fn of_copy(digits: u64) -> u64 {
    300 + 4 * digits
}

/// The time of a numeric's square root.
pub(super) fn of_root(digits: u64) -> u64 {
    1_000 + 30 * digits + digits.saturating_mul(digits) / 50
}

/// Whether the expression is cast to a float, so that PostgreSQL computes with floats.
pub(super) fn is_double(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_double(inner),
        ast::Expr::Cast { data_type, .. } => matches!(data_type, ast::DataType::DoublePrecision),
        _ => false,
    }
}

/// Whether one of the values is written as a number, so that numbers are compared, and not texts.
pub(super) fn compares_number(call: &ast::Function) -> bool {
    fn is_number(expr: &ast::Expr) -> bool {
        match expr {
            ast::Expr::Nested(inner) | ast::Expr::UnaryOp { expr: inner, .. } => is_number(inner),
            ast::Expr::Cast { .. } => is_double(expr),
            ast::Expr::Value(value) => matches!(value.value, ast::Value::Number(..)),
            _ => false,
        }
    }
    arguments(call).iter().any(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => is_number(expr),
        _ => false,
    })
}

/// Digits of a number, or of a text that may be one, with the zeros that an exponent stands for.
pub(super) fn digits_of_text(text: &str) -> u64 {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    mantissa.len() as u64 + exponent.parse::<i64>().map_or(0, i64::unsigned_abs)
}
