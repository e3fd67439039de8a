//! The time of arithmetic by the digits of its numbers, and the digits that numbers have.

use sqlparser::ast::{self, BinaryOperator as B};

use super::whole_columns::WholeColumns;
use super::{COLUMN_DIGITS, FLOAT_DIGITS, WHOLE_DIGITS, arguments, constant, name_of, second};

/// Decimals that PostgreSQL gives to a quotient of short numbers, at most.
const QUOTIENT_DECIMALS: u64 = 40;

/// Most decimals that PostgreSQL gives to a quotient.
const QUOTIENT_DECIMALS_MAX: u64 = 1_000;

/// The time of a logarithm or a power of a numeric. It is computed to as many digits as its operand
/// has, and products add up digits.
pub(super) fn of_curve(digits: u64) -> u64 {
    digits
        .saturating_mul(digits)
        .saturating_mul(3)
        .clamp(30_000, 25_000_000)
}

/// The time of a product of numerics: PostgreSQL multiplies each four digits of one by each four of
/// the other.
pub(super) fn of_product(one: u64, other: u64) -> u64 {
    (one / 4 + 1)
        .saturating_mul(other / 4 + 1)
        .saturating_mul(2)
        .saturating_add(200)
}

/// The time of a whole quotient of numerics, or of what remains: PostgreSQL subtracts the divisor
/// for each four digits of the quotient.
///
/// # Requires
/// `longest` is the longer one of the dividend and the divisor. A divisor that begins with zeros
/// after its point makes the quotient longer by their number, and is as much shorter by itself: the
/// product of both is at most this one.
pub(super) fn of_quotient(longest: u64, divisor: u64) -> u64 {
    (longest / 4 + 1)
        .saturating_mul(divisor / 4 + 1)
        .saturating_mul(5)
        .saturating_add(200 + 4 * longest.saturating_sub(COLUMN_DIGITS))
}

/// Decimals of a quotient by `/`: as many as its operands have, within limits. Those of the
/// dividend count among its digits.
pub(super) fn decimals_of_quotient(divisor: u64, is_whole: bool) -> u64 {
    let decimals = if is_whole { 0 } else { divisor };
    decimals.min(QUOTIENT_DECIMALS_MAX) + QUOTIENT_DECIMALS
}

/// The time of a cast to the type. A float is read from the number's text.
pub(super) fn of_cast(data_type: &ast::DataType, digits: u64) -> u64 {
    use ast::DataType as D;
    let more = digits.saturating_sub(COLUMN_DIGITS);
    match data_type {
        D::DoublePrecision | D::Double(_) | D::Real => 400 + 8 * more,
        D::SmallInt(_) | D::Integer(_) | D::BigInt(_) | D::Numeric(_) => of_sum(digits),
        _ => 200 + 4 * more,
    }
}

/// The time of an operator on numbers, which reads each digit once.
pub(super) fn of_sum(digits: u64) -> u64 {
    200 + digits.saturating_sub(COLUMN_DIGITS) / 2
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

/// Digits of an expression's value if it is numeric, from the digits of its parts. Values of other
/// types count as columns do.
pub(super) fn digits(expr: &ast::Expr, parts: &[u64], whole: &WholeColumns) -> u64 {
    use ast::DataType as D;
    if matches!(expr, ast::Expr::Identifier(_)) && whole.is_whole(expr) {
        return WHOLE_DIGITS;
    }
    let longest = parts.iter().copied().max().unwrap_or(COLUMN_DIGITS);
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text) => {
                digits_of_text(text)
            }
            _ => COLUMN_DIGITS,
        },
        ast::Expr::BinaryOp {
            op: B::Multiply,
            left: _,
            right: _,
        } => parts.iter().fold(0, |sum, part| sum.saturating_add(*part)),
        // As many decimals as the dividend has, and as the divisor has digits before the point.
        ast::Expr::BinaryOp {
            op: B::Divide,
            left: _,
            right: _,
        } => parts.iter().fold(QUOTIENT_DECIMALS, |sum: u64, part| {
            sum.saturating_add(*part)
        }),
        ast::Expr::Function(call) => match name_of(call) {
            "round" | "trunc" => 38 + rounded_to(call).unwrap_or(longest),
            "exp" | "power" => longest.saturating_add(400),
            _ => longest,
        },
        ast::Expr::Case {
            conditions,
            else_result,
            ..
        } if else_result.as_deref().is_some_and(is_double)
            || conditions.iter().any(|when| is_double(&when.result)) =>
        {
            0
        }
        ast::Expr::Cast {
            data_type:
                D::DoublePrecision
                | D::Double(_)
                | D::Real
                | D::SmallInt(_)
                | D::Integer(_)
                | D::BigInt(_),
            ..
        } => 0,
        ast::Expr::Cast {
            data_type: D::Numeric(ast::ExactNumberInfo::PrecisionAndScale(precision, _)),
            ..
        } => *precision,
        ast::Expr::Cast {
            expr,
            data_type: D::Numeric(_),
            ..
        } if !matches!(**expr, ast::Expr::Value(_)) => longest.max(match whole.is_whole(expr) {
            true => WHOLE_DIGITS,
            // The operand may be a float.
            false => FLOAT_DIGITS,
        }),
        _ => longest,
    }
}

/// Decimals that `round` and `trunc` are to give.
fn rounded_to(call: &ast::Function) -> Option<u64> {
    match second(call) {
        Some(to) => constant(to)?.parse().ok(),
        None => Some(0),
    }
}
