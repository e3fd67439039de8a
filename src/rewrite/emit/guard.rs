//! Guards: clamps and flushes to zero that keep a value in the range where the next operator cannot
//! fail, together with the proved range of the value.

use sqlparser::ast::{self, BinaryOperator as B};

use super::limits::{NODES_MAX, too_complex};
use super::sql;
use crate::analyze::guarded_ranges::of_constant;
use crate::analyze::interval::{FLOAT_MAX, Interval, NUMERIC_MAX, beyond_digits, of_type};
use crate::catalog::Type;
use crate::ir::literal::{clamp_to_calendar, integer_range, is_unbounded};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Smallest magnitude of a float8 operand of `*` and `/` that is not flushed to zero. Products and
/// quotients of two such operands do not underflow.
pub const FLOAT_TINY: f64 = 1e-100;

/// An emitted expression and the proved range of its values.
#[derive(Debug, Clone)]
pub(in crate::rewrite) struct Emitted {
    pub(in crate::rewrite) sql: ast::Expr,
    pub(in crate::rewrite) range: Interval,
    /// May be a nonzero float8 that is too small to multiply or divide by.
    pub(in crate::rewrite) tiny: bool,
    pub(in crate::rewrite) nodes: usize,
}

impl Emitted {
    pub(in crate::rewrite) fn plain(sql: ast::Expr, range: Interval) -> Self {
        Self {
            sql,
            range,
            tiny: false,
            nodes: 1,
        }
    }
}

/// `CASE WHEN x < lo THEN lo WHEN x > hi THEN hi ELSE x END`: NULL stays NULL, NaN and infinities
/// land on a bound.
pub fn clamp_case(value: &ast::Expr, lo: ast::Expr, hi: ast::Expr) -> ast::Expr {
    between(value, lo, hi, value.clone())
}

/// Clamps with one mention of the value, where all of `present` are not NULL; else NULL. LEAST and
/// GREATEST skip NULL, so one of these must be NULL exactly where the value is.
pub fn clamped_once(
    value: ast::Expr,
    lo: ast::Expr,
    hi: ast::Expr,
    present: Vec<ast::Expr>,
) -> ast::Expr {
    let kept = sql::call("least", vec![sql::call("greatest", vec![value, lo]), hi]);
    match sql::all(present.into_iter().map(sql::is_not_null).collect()) {
        Some(known) => sql::case(vec![(known, kept)], None),
        None => kept,
    }
}

/// Clamps a column, which is also [`shorten`]. The bounds have no more decimals than the column
/// keeps.
pub(in crate::rewrite) fn clamp_column(
    value: &ast::Expr,
    (lo, hi): (ast::Expr, ast::Expr),
    data_type: &Type,
) -> ast::Expr {
    between(value, lo, hi, shorten(value.clone(), data_type))
}

fn between(value: &ast::Expr, lo: ast::Expr, hi: ast::Expr, inside: ast::Expr) -> ast::Expr {
    let below = sql::binary(sql::nest(value.clone()), B::Lt, lo.clone());
    let above = sql::binary(sql::nest(value.clone()), B::Gt, hi.clone());
    sql::case(vec![(below, lo), (above, hi)], Some(inside))
}

/// Decimals that a numeric keeps in computations. The cost of a multiplication grows with the
/// product of the digits, and a stored numeric may have 16,383 decimals.
pub const DECIMALS_MAX: u16 = 60;

/// `CASE WHEN scale(x) > 60 THEN round(x, 60) ELSE x END`, for a numeric whose type allows more
/// decimals.
pub(in crate::rewrite) fn shorten(value: ast::Expr, data_type: &Type) -> ast::Expr {
    let is_long = match data_type {
        Type::Numeric(None) => true,
        Type::Numeric(Some((_, scale))) => i32::from(*scale) > i32::from(DECIMALS_MAX),
        _ => false,
    };
    if !is_long {
        return value;
    }
    let decimals = || sql::number_literal(&DECIMALS_MAX.to_string());
    let long = sql::binary(sql::call("scale", vec![value.clone()]), B::Gt, decimals());
    sql::case(
        vec![(long, sql::call("round", vec![value.clone(), decimals()]))],
        Some(value),
    )
}

pub fn is_float(data_type: &Type) -> bool {
    matches!(data_type, Type::Float4 | Type::Float8)
}

/// A bound as SQL of a type, from a number.
pub fn bound(value: f64, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Date => sql::constant(Some(&Scalar::Date(value as i32)), data_type),
        Type::Timestamp | Type::Timestamptz => {
            sql::constant(Some(&Scalar::Timestamp(value as i64)), data_type)
        }
        Type::Float4 | Type::Float8 => {
            sql::cast(sql::text_literal(&value.to_string()), &Type::Float8)
        }
        _ => sql::number_literal(&value.to_string()),
    }
}

/// # Errors
/// 0A000 for NaN and infinities: nothing is computed with them.
pub(in crate::rewrite) fn literal(
    value: Option<&Scalar>,
    data_type: &Type,
) -> Result<Emitted, Refusal> {
    if let Some(Scalar::Decimal(text)) = value
        && is_unbounded(text)
    {
        return Err(Refusal::new(
            reason::UNSUPPORTED_EXPRESSION,
            format!("{text} can only be compared with a column"),
        ));
    }
    let range = match value {
        Some(Scalar::Text(text)) => Interval::point(text.chars().count() as f64),
        Some(value) => of_constant(value, data_type),
        None => Interval::ALL,
    };
    let magnitude = range.lo.abs();
    let tiny = is_float(data_type) && magnitude > 0.0 && magnitude < FLOAT_TINY;
    Ok(Emitted {
        tiny,
        ..Emitted::plain(
            sql::constant(value.map(clamp_to_calendar).as_ref(), data_type),
            range,
        )
    })
}

/// A guard mentions its operand several times. An operand larger than this is computed once, in its
/// own subquery, so that a guard adds to the emitted text instead of doubling it. Numerics are
/// excepted: their cost follows from their digits, which a column of that subquery would not show.
const SHARED_FROM: usize = 250;

/// The column of that subquery.
fn shared_column() -> ast::Expr {
    sql::column("once", "x")
}

/// `(SELECT guard of x FROM (SELECT operand AS x OFFSET 0) AS once)`. Without OFFSET, PostgreSQL
/// would put the operand in place of each mention.
fn computed_once(operand: ast::Expr, guard: impl FnOnce(ast::Expr) -> ast::Expr) -> ast::Expr {
    let once = sql::computed_once(sql::select(
        vec![sql::alias(operand, "x")],
        Vec::new(),
        None,
        Vec::new(),
    ));
    let guarded = vec![ast::SelectItem::UnnamedExpr(guard(shared_column()))];
    ast::Expr::Subquery(Box::new(sql::select(
        guarded,
        vec![sql::tables(sql::derived_table(once, "once"))],
        None,
        Vec::new(),
    )))
}

/// Puts an operand under a guard that mentions it `times` times and adds `more` nodes. The size is
/// checked first, so an expression that would grow too large is never built.
///
/// # Errors
/// 54001.
pub(in crate::rewrite) fn guard_operand(
    (operand, nodes): (ast::Expr, usize),
    (times, more): (usize, usize),
    data_type: &Type,
    guard: impl FnOnce(ast::Expr) -> ast::Expr,
) -> Result<(ast::Expr, usize), Refusal> {
    if times > 1 && nodes > SHARED_FROM && !matches!(data_type, Type::Numeric(_)) {
        return Ok((computed_once(operand, guard), nodes + times + more + 4));
    }
    let copied = nodes.saturating_mul(times).saturating_add(more);
    if copied > NODES_MAX {
        Err(too_complex())
    } else {
        Ok((guard(operand), copied))
    }
}

/// [`guard_operand`] for an emitted value with its range.
fn under(
    value: Emitted,
    data_type: &Type,
    guard: impl FnOnce(ast::Expr) -> ast::Expr,
) -> Result<Emitted, Refusal> {
    let (sql, nodes) = guard_operand((value.sql, value.nodes), (3, 13), data_type, guard)?;
    Ok(Emitted {
        sql,
        nodes,
        range: value.range,
        tiny: value.tiny,
    })
}

/// [`clamp_case`], of an emitted value.
pub(in crate::rewrite) fn clamp(
    value: Emitted,
    (lo, hi): (ast::Expr, ast::Expr),
    data_type: &Type,
) -> Result<Emitted, Refusal> {
    under(value, data_type, |value| clamp_case(&value, lo, hi))
}

/// [`guard_operand`], for an expression of unknown range.
pub(in crate::rewrite) fn guard(
    operand: ast::Expr,
    times: usize,
    data_type: &Type,
    guard: impl FnOnce(ast::Expr) -> ast::Expr,
) -> Result<ast::Expr, Refusal> {
    let nodes = sql::weight(&operand);
    Ok(guard_operand((operand, nodes), (times, 20), data_type, guard)?.0)
}

/// Clamps a value to an interval that its type and later operations need.
pub(in crate::rewrite) fn keep_within(
    value: Emitted,
    limit: Interval,
    data_type: &Type,
) -> Result<Emitted, Refusal> {
    if value.range.within(limit) {
        return Ok(value);
    }
    let range = value.range.clamp_to(limit);
    // An integer is always within its type. The float8 nearest to the end of int8 lies outside
    // int8, and would be read as a numeric.
    if integer_range(data_type).is_some() && of_type(data_type).within(limit) {
        return Ok(Emitted { range, ..value });
    }
    let kept = clamp(
        value,
        (bound(limit.lo, data_type), bound(limit.hi, data_type)),
        data_type,
    )?;
    Ok(Emitted { range, ..kept })
}

/// Replaces too small float operands of `*` and `/` by zero: underflow is an error in PostgreSQL.
pub(in crate::rewrite) fn flush(value: Emitted) -> Result<Emitted, Refusal> {
    if value.tiny {
        flushed_to(value, &Type::Float8)
    } else {
        Ok(value)
    }
}

/// Zero in place of magnitudes below [`FLOAT_TINY`].
pub(in crate::rewrite) fn flushed_to(value: Emitted, data_type: &Type) -> Result<Emitted, Refusal> {
    let range = value.range.hull(Interval::point(0.0));
    let flushed = under(value, data_type, |value| without_tiny(value, data_type))?;
    Ok(Emitted {
        range,
        tiny: false,
        ..flushed
    })
}

/// Zero in place of float8 magnitudes below `least`.
pub(in crate::rewrite) fn flushed_above(value: Emitted, least: &str) -> Result<Emitted, Refusal> {
    let range = value.range.hull(Interval::point(0.0));
    let flushed = under(value, &Type::Float8, |value| {
        without(value, least, &Type::Float8)
    })?;
    Ok(Emitted {
        range,
        tiny: false,
        ..flushed
    })
}

/// The expression, zero where its magnitude is below [`FLOAT_TINY`].
pub fn without_tiny(value: ast::Expr, data_type: &Type) -> ast::Expr {
    without(value, &format!("{FLOAT_TINY:e}"), data_type)
}

/// The expression, zero where its magnitude is below another limit.
pub fn without(value: ast::Expr, least: &str, data_type: &Type) -> ast::Expr {
    let constant = |text: &str| sql::cast(sql::text_literal(text), data_type);
    let above = sql::binary(
        sql::nest(value.clone()),
        B::Gt,
        constant(&format!("-{least}")),
    );
    let below = sql::binary(sql::nest(value.clone()), B::Lt, constant(least));
    let small = ast::Expr::BinaryOp {
        left: Box::new(above),
        op: B::And,
        right: Box::new(below),
    };
    sql::case(
        vec![(small, sql::cast(sql::number_literal("0"), data_type))],
        Some(value),
    )
}

/// The interval in which operands of a type need no guard.
pub(in crate::rewrite) fn working(data_type: &Type) -> Interval {
    match data_type {
        Type::Numeric(_) => Interval::new(-NUMERIC_MAX, NUMERIC_MAX),
        Type::Float4 | Type::Float8 => Interval::new(-FLOAT_MAX, FLOAT_MAX),
        other => of_type(other),
    }
}

pub(in crate::rewrite) fn internal() -> Refusal {
    Refusal::new(reason::INTERNAL_ERROR, "a function has no emission")
}

/// Clamps to the largest value with `whole` digits before the point and `scale` after it. That
/// value consists of nines; if `whole` or `scale` is negative, zeros stand between the point and
/// the nines.
pub(in crate::rewrite) fn within_digits(
    value: Emitted,
    whole: i32,
    scale: i32,
    from: &Type,
) -> Result<Emitted, Refusal> {
    // A float8 holds 15 digits: more nines would round up to a power of ten.
    let exact = if is_float(from) { 14 } else { 1000 };
    // Positions from `whole - 1` before the point down to `-scale` after it.
    let digit = |place: i32| {
        if place < whole && place >= -scale && whole - 1 - place < exact {
            '9'
        } else {
            '0'
        }
    };
    let before: String = (0..whole.max(1)).rev().map(digit).collect();
    let after: String = (1..=scale.max(0)).map(|at| digit(-at)).collect();
    let largest = format!("{before}.{after}").trim_end_matches('.').to_owned();
    let constant = |text: &str| {
        sql::cast(
            sql::text_literal(text),
            if is_float(from) {
                &Type::Float8
            } else {
                &Type::Numeric(None)
            },
        )
    };
    let limit = beyond_digits(whole);
    let range = value.range.clamp_to(Interval::new(-limit, limit));
    let kept = clamp(
        value,
        (constant(&format!("-{largest}")), constant(&largest)),
        from,
    )?;
    Ok(Emitted { range, ..kept })
}

/// Clamps to integer bounds written as integers, whatever the operand's type.
pub(in crate::rewrite) fn keep_integer(
    value: Emitted,
    limit: Interval,
    from: &Type,
) -> Result<Emitted, Refusal> {
    // Limits of int8 are not exact as float8. They are written as integers, and a float8 that
    // reaches them may lie outside.
    if value.range.within(limit) && value.range.magnitude() < 9.2e18 {
        return Ok(value);
    }
    let (lo, hi) = if limit.hi > 9.21e18 {
        (i64::MIN.to_string(), i64::MAX.to_string())
    } else {
        (format!("{:.0}", limit.lo), format!("{:.0}", limit.hi))
    };
    let range = value.range.clamp_to(limit);
    let as_from = |t: &str| {
        sql::cast(
            sql::number_literal(t),
            if is_float(from) {
                &Type::Float8
            } else {
                &Type::Numeric(None)
            },
        )
    };
    let kept = clamp(value, (as_from(&lo), as_from(&hi)), from)?;
    Ok(Emitted {
        range,
        tiny: false,
        ..kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_of_a_numeric_has_its_nines_where_its_scale_says() {
        for (whole, scale, largest) in [
            (-2, 4, "0.0099"),
            (0, 3, "0.999"),
            (3, 2, "999.99"),
            (3, 0, "999"),
            (5, -2, "99900"),
        ] {
            let value = Emitted::plain(sql::column("t", "x"), Interval::ALL);
            let written = within_digits(value, whole, scale, &Type::Numeric(None))
                .unwrap()
                .sql
                .to_string();
            assert!(
                written.contains(&format!("'{largest}'"))
                    && written.contains(&format!("'-{largest}'")),
                "{whole} {scale}: {written}"
            );
        }
    }
}
