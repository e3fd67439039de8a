//! Functions that are not defined everywhere, or leave every range: NULL outside their domain, operands held where the result stays in range.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, flushed, internal, is_float, keep_within, working};
use super::sql;
use crate::analyze::interval::{FLOAT_MAX, Interval, NUMERIC_MAX, scalar};
use crate::analyze::proof::of_call;
use crate::catalog::Type;
use crate::refusal::Refusal;
use crate::resolve::Expr;
use crate::resolve::catalogue::Function;

/// The largest number whose factorial stays within numeric's working range.
const FACTORIAL_MAX: f64 = 28.0;

fn compared(value: &ast::Expr, op: B, constant: &str) -> ast::Expr {
    sql::binary(sql::nested(value.clone()), op, sql::number(constant))
}

fn between(value: &ast::Expr, lo: &str, hi: &str) -> ast::Expr {
    let both = sql::all(vec![compared(value, B::GtEq, lo), compared(value, B::LtEq, hi)]);
    ast::Expr::Nested(Box::new(both.unwrap_or_else(sql::null)))
}

fn either(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::binary(a, B::Or, b)
}

/// Functions defined on part of the line: NULL outside it.
pub(super) fn domain(function: Function, emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    use Function as F;
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() * 2 + 3;
    let mut operands = emitted;
    if function == F::Factorial {
        if !operands.iter().all(|e| e.range.hi <= FACTORIAL_MAX) {
            return Err(Refusal::unsupported(format!("factorial() of a value that may be above {FACTORIAL_MAX}"))
                .hint("Clamp it inline, as in factorial(LEAST(x, 20))."));
        }
        operands = operands.into_iter().map(|e| keep_within(e, Interval::new(-1.0, FACTORIAL_MAX), &Type::Int8)).collect();
    } else if !matches!(function, F::Character | F::MakeDate | F::MakeTimestamp | F::MakeTime) {
        operands = operands.into_iter().map(|e| keep_within(e, working(result), result)).collect();
    }
    let subject = operands.last().ok_or_else(internal)?.sql.clone();
    let (name, inside) = match function {
        F::SquareRoot => ("sqrt", compared(&subject, B::GtEq, "0")),
        F::NaturalLog => ("ln", compared(&subject, B::Gt, "0")),
        F::Log10 | F::LogBase => ("log", compared(&subject, B::Gt, "0")),
        F::ArcSine => ("asin", between(&subject, "-1", "1")),
        F::ArcCosine => ("acos", between(&subject, "-1", "1")),
        F::ArcSineInDegrees => ("asind", between(&subject, "-1", "1")),
        F::ArcCosineInDegrees => ("acosd", between(&subject, "-1", "1")),
        F::ArcTanh => ("atanh", between(&subject, "-1", "1")),
        F::ArcCosh => ("acosh", compared(&subject, B::GtEq, "1")),
        F::Factorial => ("factorial", compared(&subject, B::GtEq, "0")),
        // Surrogates are no characters.
        F::Character => ("chr", either(between(&subject, "1", "55295"), between(&subject, "57344", "1114111"))),
        F::MakeDate => match operands.as_slice() {
            [year, month, day] => ("make_date", is_date(&year.sql, &month.sql, &day.sql)),
            _ => return Err(internal()),
        },
        F::MakeTime => match operands.as_slice() {
            [hour, minute, second] => ("make_time", is_time(&hour.sql, &minute.sql, &second.sql)),
            _ => return Err(internal()),
        },
        F::MakeTimestamp => match operands.as_slice() {
            [year, month, day, hour, minute, second] => {
                let all = sql::binary(is_date(&year.sql, &month.sql, &day.sql), B::And, is_time(&hour.sql, &minute.sql, &second.sql));
                ("make_timestamp", all)
            }
            _ => return Err(internal()),
        },
        _ => return Err(internal()),
    };
    let ranges: Vec<Interval> = operands.iter().map(|e| e.range).collect();
    let range = if function == F::Character { Interval::new(0.0, 1.0) } else { of_call(function, &ranges, result) };
    let call = sql::call(name, operands.into_iter().map(|e| e.sql).collect());
    let value = Emitted { sql: sql::case(vec![(inside, call)], None), range, tiny: is_float(result), nodes };
    // The hyperbolic tangent's inverse has poles at the ends of its domain.
    Ok(if is_float(result) { keep_within(value, working(result), result) } else { value })
}

/// The day is one of its month, in the years 1 to 9999.
fn is_date(year: &ast::Expr, month: &ast::Expr, day: &ast::Expr) -> ast::Expr {
    let one_of = |value: ast::Expr, list: &[&str], negated: bool| {
        let list = list.iter().map(|n| sql::number(n)).collect();
        sql::nested(ast::Expr::InList { expr: Box::new(sql::nested(value)), list, negated })
    };
    let rest = |by: &str| sql::binary(sql::nested(year.clone()), B::Modulo, sql::number(by));
    let is_leap =
        sql::all(vec![one_of(rest("4"), &["0"], false), sql::nested(either(one_of(rest("100"), &["0"], true), one_of(rest("400"), &["0"], false)))]);
    let is_leap = sql::nested(is_leap.unwrap_or_else(sql::null));
    let both = |a: ast::Expr, b: ast::Expr| sql::binary(a, B::And, b);
    let is_day = [
        compared(day, B::LtEq, "28"),
        both(compared(day, B::LtEq, "30"), compared(month, B::NotEq, "2")),
        both(compared(day, B::LtEq, "31"), one_of(month.clone(), &["1", "3", "5", "7", "8", "10", "12"], false)),
        both(compared(day, B::Eq, "29"), is_leap),
    ]
    .into_iter()
    .reduce(either)
    .unwrap_or_else(sql::null);
    let all = [between(year, "1", "9999"), between(month, "1", "12"), compared(day, B::GtEq, "1"), is_day];
    all.into_iter().reduce(both).unwrap_or_else(sql::null)
}

/// From 00:00:00 to 24:00:00, both written with whole minutes.
fn is_time(hour: &ast::Expr, minute: &ast::Expr, second: &ast::Expr) -> ast::Expr {
    let all = [between(hour, "0", "23"), between(minute, "0", "59"), between(second, "0", "60")];
    all.into_iter().reduce(|a, b| sql::binary(a, B::And, b)).unwrap_or_else(sql::null)
}

/// Operands held where the function stays within working range.
pub(super) fn reach(function: Function, emitted: Vec<Emitted>, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
    use Function as F;
    if function == F::Power {
        return power(emitted, arguments, result);
    }
    let name = match function {
        F::CubeRoot => "cbrt",
        F::Exponential => "exp",
        F::Sine => "sin",
        F::Cosine => "cos",
        F::Tangent => "tan",
        F::Cotangent => "cot",
        F::ArcTangent => "atan",
        F::ArcTangent2 => "atan2",
        F::Sinh => "sinh",
        F::Cosh => "cosh",
        F::Tanh => "tanh",
        F::ArcSinh => "asinh",
        F::SineOfDegrees => "sind",
        F::CosineOfDegrees => "cosd",
        F::TangentOfDegrees => "tand",
        F::CotangentOfDegrees => "cotd",
        F::ArcTangentInDegrees => "atand",
        F::ArcTangent2InDegrees => "atan2d",
        F::Degrees => "degrees",
        F::Radians => "radians",
        _ => return Err(internal()),
    };
    let limit = match (function, is_float(result)) {
        (F::Sinh | F::Cosh, _) | (F::Exponential, true) => Interval::new(-230.0, 230.0),
        (F::Exponential, false) => Interval::new(-300.0, 69.0),
        _ => working(result),
    };
    let operands: Vec<Emitted> = emitted.into_iter().map(|e| keep_within(e, limit, result)).collect();
    let operands: Vec<Emitted> = if function == F::Radians { operands.into_iter().map(flushed).collect() } else { operands };
    let ranges: Vec<Interval> = operands.iter().map(|e| e.range).collect();
    let nodes = operands.iter().map(|e| e.nodes).sum::<usize>() + 1;
    let value = Emitted {
        sql: sql::call(name, operands.into_iter().map(|e| e.sql).collect()),
        range: of_call(function, &ranges, result),
        tiny: is_float(result),
        nodes,
    };
    Ok(keep_within(value, working(result), result))
}

/// A power with a constant exponent or a constant base.
fn power(emitted: Vec<Emitted>, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
    let constant = |at: usize| arguments.get(at).and_then(Expr::as_literal).and_then(scalar);
    let [base, exponent] = <[Emitted; 2]>::try_from(emitted).map_err(|_| internal())?;
    let digits = if is_float(result) { FLOAT_MAX } else { NUMERIC_MAX }.log10();
    if let Some(by) = constant(1) {
        return power_by(base, exponent, by, digits, result);
    }
    let of = constant(0).ok_or_else(internal)?;
    let most = (digits / of.log10().abs()).min(1e6);
    let exponent = keep_within(exponent, Interval::new(-most, most), result);
    let range = of_call(Function::Power, &[base.range, exponent.range], result);
    let nodes = base.nodes + exponent.nodes + 1;
    let value = Emitted { sql: sql::call("power", vec![base.sql, exponent.sql]), range, tiny: is_float(result), nodes };
    Ok(keep_within(value, working(result), result))
}

fn power_by(base: Emitted, exponent: Emitted, by: f64, digits: f64, result: &Type) -> Result<Emitted, Refusal> {
    // Beyond this magnitude the result leaves the working range; for a negative exponent, below its inverse.
    let most = if by == 0.0 { 10f64.powf(digits) } else { 10f64.powf((digits / by.abs()).min(digits)) };
    let base = keep_within(base, Interval::new(-most, most), result);
    let near_zero = is_float(result) && (base.tiny || by.abs() > 3.0) && by.abs() > 1.0;
    let least = format!("{:e}", 1.0 / most);
    let constant = |sign: &str| sql::cast(sql::text(&format!("{sign}{least}")), result);
    let vanishes = || {
        let above = sql::binary(sql::nested(base.sql.clone()), B::Gt, constant("-"));
        sql::binary(above, B::And, sql::binary(sql::nested(base.sql.clone()), B::Lt, constant("")))
    };
    // 2.00000000000000000001 is near 2, and no whole number; -1e-400 is near zero, and negative.
    let is_whole = exponent.range == Interval::point(by) && by.fract() == 0.0;
    let is_negative = exponent.range.lo < 0.0;
    let call = sql::call("power", vec![base.sql.clone(), exponent.sql]);
    let mut branches = Vec::new();
    if is_negative {
        branches.push((vanishes(), sql::null()));
    } else if near_zero {
        branches.push((vanishes(), sql::cast(sql::number("0"), result)));
    }
    let range = of_call(Function::Power, &[base.range, Interval::point(by)], result);
    let nodes = base.nodes * (2 + 2 * branches.len()) + 4;
    let sql = if !is_whole {
        branches.push((compared(&base.sql, B::GtEq, "0"), call));
        sql::case(branches, None)
    } else if branches.is_empty() {
        call
    } else {
        sql::case(branches, Some(call))
    };
    let range = if near_zero { range.hull(Interval::point(0.0)) } else { range };
    Ok(keep_within(Emitted { sql, range, tiny: is_float(result), nodes }, working(result), result))
}
