//! Arithmetic over guarded operands.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{
    Emitted, clamp, flush, guard_operand, internal, is_float, keep_within, working,
};
use super::sql;
use crate::analyze::guarded_ranges::of_call;
use crate::analyze::interval::{Interval, of_type, scalar};
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::functions::Function;
use crate::ir::literal::integer_range;
use crate::refusal::Refusal;

pub(in crate::rewrite) fn operator(function: Function) -> Option<B> {
    match function {
        Function::Add => Some(B::Plus),
        Function::Subtract => Some(B::Minus),
        Function::Multiply => Some(B::Multiply),
        Function::Divide => Some(B::Divide),
        Function::Modulo => Some(B::Modulo),
        _ => None,
    }
}

/// One or two operands.
pub(in crate::rewrite) fn operands(
    emitted: Vec<Emitted>,
) -> Result<(Emitted, Option<Emitted>), Refusal> {
    let mut operands = emitted.into_iter();
    let first = operands.next().ok_or_else(internal)?;
    Ok((first, operands.next()))
}

pub(in crate::rewrite) fn arithmetic(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result)?;
        if is_float(result) && function == Function::Multiply {
            flush(value)
        } else {
            Ok(value)
        }
    };
    let (a, b) = operands(emitted)?;
    let (a, b) = (prepare(a)?, b.map(prepare).transpose()?);
    let ranges: Vec<Interval> = [Some(a.range), b.as_ref().map(|b| b.range)]
        .into_iter()
        .flatten()
        .collect();
    let range = of_call(function, &ranges, result);
    let nodes = a.nodes + b.as_ref().map_or(0, |b| b.nodes) + 1;
    // 2^63 is a float8 but not an int8, so the upper end of int8 is excluded.
    let fits = integer_range(result).is_none()
        || (range.within(of_type(result)) && range.hi < 9_223_372_036_854_775_808.0);
    let wide = |value: ast::Expr| match (fits, range.magnitude() < 9e18) {
        (true, _) => value,
        (false, true) => sql::cast(value, &Type::Int8),
        (false, false) => sql::cast(value, &Type::Numeric(None)),
    };
    let combined = match (function, b) {
        (Function::Negate, None) => ast::Expr::Nested(Box::new(ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr: Box::new(sql::nest(wide(a.sql))),
        })),
        (Function::Abs, None) => sql::call("abs", vec![wide(a.sql)]),
        (function, Some(b)) => sql::binary(
            sql::nest(wide(a.sql)),
            operator(function).ok_or_else(internal)?,
            sql::nest(wide(b.sql)),
        ),
        (_, None) => return Err(internal()),
    };
    let value = Emitted {
        sql: combined,
        range,
        tiny: is_float(result),
        nodes,
    };
    restore(value, result, fits)
}

/// Clamps a widened integer into its type and casts it back; keeps numerics and floats within
/// working range.
pub(in crate::rewrite) fn restore(
    value: Emitted,
    result: &Type,
    fits: bool,
) -> Result<Emitted, Refusal> {
    let Some((lo, hi)) = integer_range(result) else {
        return keep_within(value, working(result), result);
    };
    if fits {
        return Ok(value);
    }
    let range = value.range.clamp_to(of_type(result));
    // Operands of type numeric are already wide, and their digits are counted.
    let wide = if value.range.magnitude() < 9e18 {
        &Type::Int8
    } else {
        &Type::Numeric(None)
    };
    let kept = clamp(
        value,
        (
            sql::number_literal(&lo.to_string()),
            sql::number_literal(&hi.to_string()),
        ),
        wide,
    )?;
    Ok(Emitted {
        sql: sql::cast(kept.sql, result),
        range,
        tiny: false,
        nodes: kept.nodes + 1,
    })
}

pub(in crate::rewrite) fn division(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
    arguments: &[Expr],
) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(emitted)? else {
        return Err(internal());
    };
    let float = is_float(result);
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result)?;
        if float { flush(value) } else { Ok(value) }
    };
    let (a, b) = (prepare(a)?, prepare(b)?);
    let range = of_call(function, &[a.range, b.range], result);
    let nodes = a.nodes + b.nodes + 2;
    let constant = arguments
        .get(1)
        .and_then(Expr::as_literal)
        .and_then(scalar)
        .is_some_and(|c| c != 0.0);
    // A tiny value was replaced by zero.
    let divisor = if constant && !b.range.contains(0.0) {
        b.sql
    } else {
        let zero = sql::cast(sql::number_literal("0"), &arguments[1].data_type);
        sql::call("nullif", vec![b.sql, zero])
    };
    if function == Function::Quotient {
        let value = Emitted {
            sql: sql::call("div", vec![a.sql, divisor]),
            range,
            tiny: false,
            nodes,
        };
        return keep_within(value, working(result), result);
    }
    let op = operator(function).ok_or_else(internal)?;
    let Some((lowest, _)) = integer_range(result) else {
        let value = Emitted {
            sql: sql::binary(sql::nest(a.sql), op, sql::nest(divisor)),
            range,
            tiny: float,
            nodes,
        };
        return keep_within(value, working(result), result);
    };
    // The only quotient that overflows is the lowest value divided by -1. For narrower types, int8
    // has room for it.
    let overflows = a.range.contains(lowest as f64) && b.range.contains(-1.0);
    if !overflows {
        return Ok(Emitted {
            sql: sql::binary(sql::nest(a.sql), op, sql::nest(divisor)),
            range,
            tiny: false,
            nodes,
        });
    }
    let above_lowest = bound_integer(lowest + 1);
    let (dividend, grown) = guard_operand((a.sql, a.nodes), (2, 8), result, |a| {
        sql::case(
            vec![(
                sql::binary(sql::nest(a.clone()), B::Lt, above_lowest.clone()),
                sql::cast(above_lowest, result),
            )],
            Some(a),
        )
    })?;
    let nodes = nodes - a.nodes + grown;
    Ok(Emitted {
        sql: sql::binary(sql::nest(dividend), op, sql::nest(divisor)),
        range,
        tiny: false,
        nodes,
    })
}

/// `gcd` and `lcm`, in the next wider type: the absolute value of the smallest integer does not fit
/// its own type.
pub(in crate::rewrite) fn divisor(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(emitted)? else {
        return Err(internal());
    };
    let wide = if *result == Type::Int8 {
        Type::Numeric(None)
    } else {
        Type::Int8
    };
    let name = if function == Function::Gcd {
        "gcd"
    } else {
        "lcm"
    };
    let range = of_call(function, &[a.range, b.range], result);
    let sql = sql::call(name, vec![sql::cast(a.sql, &wide), sql::cast(b.sql, &wide)]);
    restore(
        Emitted {
            sql,
            range,
            tiny: false,
            nodes: a.nodes + b.nodes + 3,
        },
        result,
        false,
    )
}

pub(in crate::rewrite) fn bound_integer(value: i64) -> ast::Expr {
    sql::number_literal(&value.to_string())
}

pub(in crate::rewrite) fn histogram(
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = of_call(Function::WidthBucket, &ranges, result);
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    if !ranges.first().is_some_and(|r| r.is_finite()) {
        return Err(internal());
    }
    Ok(Emitted {
        nodes,
        ..Emitted::plain(
            sql::call("width_bucket", emitted.into_iter().map(|e| e.sql).collect()),
            range,
        )
    })
}
