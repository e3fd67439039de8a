//! Functions that are undefined for some arguments or can overflow. They give NULL outside their
//! domain, and operands are clamped so that the result stays in range.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, flush, guard_operand, internal, is_float, keep_within, working};
use super::limits::{NODES_MAX, too_complex};
use super::sql;
use crate::analyze::guarded_ranges::of_call;
use crate::analyze::interval::{FLOAT_MAX, Interval, NUMERIC_MAX, scalar};
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::functions::Function;
use crate::refusal::{Refusal, reason};

/// The largest number whose factorial stays within numeric's working range.
const FACTORIAL_MAX: f64 = 28.0;

fn compare(value: &ast::Expr, op: B, constant: &str) -> ast::Expr {
    sql::binary(sql::nest(value.clone()), op, sql::number_literal(constant))
}

fn between(value: &ast::Expr, lo: &str, hi: &str) -> ast::Expr {
    let both = sql::all(vec![
        compare(value, B::GtEq, lo),
        compare(value, B::LtEq, hi),
    ]);
    ast::Expr::Nested(Box::new(both.unwrap_or_else(sql::null)))
}

fn either(a: ast::Expr, b: ast::Expr) -> ast::Expr {
    sql::binary(a, B::Or, b)
}

/// Functions defined on part of the line: NULL outside it.
pub(in crate::rewrite) fn domain(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    use Function as F;
    let mut operands = emitted;
    if function == F::Factorial {
        if !operands.iter().all(|e| e.range.hi <= FACTORIAL_MAX) {
            return Err(Refusal::new(
                reason::VALUE_RANGE_UNKNOWN,
                format!("the argument of factorial() must be known to be at most {FACTORIAL_MAX}"),
            )
            .hint("Clamp it inline, as in factorial(LEAST(x, 20))."));
        }
        operands = operands
            .into_iter()
            .map(|e| keep_within(e, Interval::new(-1.0, FACTORIAL_MAX), &Type::Int8))
            .collect::<Result<_, _>>()?;
    } else if !matches!(
        function,
        F::Character | F::MakeDate | F::MakeTimestamp | F::MakeTime
    ) {
        operands = operands
            .into_iter()
            .map(|e| keep_within(e, working(result), result))
            .collect::<Result<_, _>>()?;
    }
    let range = if function == F::Character {
        Interval::new(0.0, 1.0)
    } else {
        of_call(
            function,
            &operands.iter().map(|e| e.range).collect::<Vec<_>>(),
            result,
        )
    };
    let (sql, nodes) = match function {
        F::MakeDate | F::MakeTime | F::MakeTimestamp => of_parts(function, operands)?,
        _ => of_subject(function, operands, result)?,
    };
    let value = Emitted {
        sql,
        range,
        tiny: is_float(result),
        nodes,
    };
    // The hyperbolic tangent's inverse has poles at the ends of its domain.
    if is_float(result) {
        keep_within(value, working(result), result)
    } else {
        Ok(value)
    }
}

/// Whether the function is defined depends on its last operand.
fn of_subject(
    function: Function,
    mut operands: Vec<Emitted>,
    result: &Type,
) -> Result<(ast::Expr, usize), Refusal> {
    use Function as F;
    let subject = operands.pop().ok_or_else(internal)?;
    let others: usize = operands.iter().map(|e| e.nodes).sum();
    let mut arguments: Vec<ast::Expr> = operands.into_iter().map(|e| e.sql).collect();
    let (name, times, inside): (_, _, fn(&ast::Expr) -> ast::Expr) = match function {
        F::SquareRoot => ("sqrt", 2, |x| compare(x, B::GtEq, "0")),
        F::NaturalLog => ("ln", 2, |x| compare(x, B::Gt, "0")),
        F::Log10 | F::LogBase => ("log", 2, |x| compare(x, B::Gt, "0")),
        F::ArcSine => ("asin", 3, |x| between(x, "-1", "1")),
        F::ArcCosine => ("acos", 3, |x| between(x, "-1", "1")),
        F::ArcSineInDegrees => ("asind", 3, |x| between(x, "-1", "1")),
        F::ArcCosineInDegrees => ("acosd", 3, |x| between(x, "-1", "1")),
        F::ArcTanh => ("atanh", 3, |x| between(x, "-1", "1")),
        F::ArcCosh => ("acosh", 2, |x| compare(x, B::GtEq, "1")),
        F::Factorial => ("factorial", 2, |x| compare(x, B::GtEq, "0")),
        // Surrogates are no characters.
        F::Character => ("chr", 5, |x| {
            either(between(x, "1", "55295"), between(x, "57344", "1114111"))
        }),
        _ => return Err(internal()),
    };
    let data_type = if matches!(function, F::Character | F::Factorial) {
        &Type::Int8
    } else {
        result
    };
    guard_operand(
        (subject.sql, subject.nodes),
        (times, others + 20),
        data_type,
        |subject| {
            let inside = inside(&subject);
            arguments.push(subject);
            sql::case(vec![(inside, sql::call(name, arguments))], None)
        },
    )
}

/// The parts decide whether the date or time exists.
fn of_parts(function: Function, parts: Vec<Emitted>) -> Result<(ast::Expr, usize), Refusal> {
    // The year is the argument that the SQL repeats most often.
    let nodes = parts
        .iter()
        .map(|e| e.nodes)
        .sum::<usize>()
        .saturating_mul(8)
        .saturating_add(80);
    if nodes > NODES_MAX {
        return Err(too_complex());
    }
    let parts: Vec<ast::Expr> = parts.into_iter().map(|e| e.sql).collect();
    let (name, inside) = match (function, parts.as_slice()) {
        (Function::MakeDate, [year, month, day]) => ("make_date", is_date(year, month, day)),
        (Function::MakeTime, [hour, minute, second]) => {
            ("make_time", is_time(hour, minute, second))
        }
        (Function::MakeTimestamp, [year, month, day, hour, minute, second]) => (
            "make_timestamp",
            sql::binary(
                is_date(year, month, day),
                B::And,
                is_time(hour, minute, second),
            ),
        ),
        _ => return Err(internal()),
    };
    Ok((
        sql::case(vec![(inside, sql::call(name, parts))], None),
        nodes,
    ))
}

/// The day exists in its month, in the years 1 to 9999.
fn is_date(year: &ast::Expr, month: &ast::Expr, day: &ast::Expr) -> ast::Expr {
    let one_of = |value: ast::Expr, list: &[&str], negated: bool| {
        let list = list.iter().map(|n| sql::number_literal(n)).collect();
        sql::nest(ast::Expr::InList {
            expr: Box::new(sql::nest(value)),
            list,
            negated,
        })
    };
    let rest = |by: &str| sql::binary(sql::nest(year.clone()), B::Modulo, sql::number_literal(by));
    let is_leap = sql::all(vec![
        one_of(rest("4"), &["0"], false),
        sql::nest(either(
            one_of(rest("100"), &["0"], true),
            one_of(rest("400"), &["0"], false),
        )),
    ]);
    let is_leap = sql::nest(is_leap.unwrap_or_else(sql::null));
    let both = |a: ast::Expr, b: ast::Expr| sql::binary(a, B::And, b);
    let is_day = [
        compare(day, B::LtEq, "28"),
        both(compare(day, B::LtEq, "30"), compare(month, B::NotEq, "2")),
        both(
            compare(day, B::LtEq, "31"),
            one_of(month.clone(), &["1", "3", "5", "7", "8", "10", "12"], false),
        ),
        both(compare(day, B::Eq, "29"), is_leap),
    ]
    .into_iter()
    .reduce(either)
    .unwrap_or_else(sql::null);
    let all = [
        between(year, "1", "9999"),
        between(month, "1", "12"),
        compare(day, B::GtEq, "1"),
        is_day,
    ];
    all.into_iter().reduce(both).unwrap_or_else(sql::null)
}

/// From 00:00:00 to 24:00:00, both written with whole minutes.
fn is_time(hour: &ast::Expr, minute: &ast::Expr, second: &ast::Expr) -> ast::Expr {
    let all = [
        between(hour, "0", "23"),
        between(minute, "0", "59"),
        between(second, "0", "60"),
    ];
    all.into_iter()
        .reduce(|a, b| sql::binary(a, B::And, b))
        .unwrap_or_else(sql::null)
}

/// Clamps operands so that the function stays within working range.
pub(in crate::rewrite) fn reach(
    function: Function,
    emitted: Vec<Emitted>,
    arguments: &[Expr],
    result: &Type,
) -> Result<Emitted, Refusal> {
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
    let kept = |e: Emitted| {
        keep_within(e, limit, result).and_then(|e| {
            if function == F::Radians {
                flush(e)
            } else {
                Ok(e)
            }
        })
    };
    let operands: Vec<Emitted> = emitted.into_iter().map(kept).collect::<Result<_, _>>()?;
    let ranges: Vec<Interval> = operands.iter().map(|e| e.range).collect();
    let nodes = operands.iter().map(|e| e.nodes).sum::<usize>() + 1;
    let value = Emitted {
        sql: sql::call(name, operands.into_iter().map(|e| e.sql).collect()),
        range: of_call(function, &ranges, result),
        tiny: is_float(result),
        nodes,
    };
    keep_within(value, working(result), result)
}

/// A power with a constant exponent or a constant base.
fn power(emitted: Vec<Emitted>, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
    let constant = |at: usize| {
        arguments
            .get(at)
            .and_then(Expr::as_literal)
            .and_then(scalar)
    };
    let [base, exponent] = <[Emitted; 2]>::try_from(emitted).map_err(|_| internal())?;
    let digits = if is_float(result) {
        FLOAT_MAX
    } else {
        NUMERIC_MAX
    }
    .log10();
    if let Some(by) = constant(1) {
        return power_by(base, exponent, by, digits, result);
    }
    let of = constant(0).ok_or_else(internal)?;
    let most = (digits / of.log10().abs()).min(1e6);
    let exponent = keep_within(exponent, Interval::new(-most, most), result)?;
    let range = of_call(Function::Power, &[base.range, exponent.range], result);
    let nodes = base.nodes + exponent.nodes + 1;
    let value = Emitted {
        sql: sql::call("power", vec![base.sql, exponent.sql]),
        range,
        tiny: is_float(result),
        nodes,
    };
    keep_within(value, working(result), result)
}

fn power_by(
    base: Emitted,
    exponent: Emitted,
    by: f64,
    digits: f64,
    result: &Type,
) -> Result<Emitted, Refusal> {
    // Beyond this magnitude the result leaves the working range; for a negative exponent, below its
    // inverse.
    let most = if by == 0.0 {
        10f64.powf(digits)
    } else {
        10f64.powf((digits / by.abs()).min(digits))
    };
    let base = keep_within(base, Interval::new(-most, most), result)?;
    let near_zero = is_float(result) && (base.tiny || by.abs() > 3.0) && by.abs() > 1.0;
    let least = format!("{:e}", 1.0 / most);
    let constant = |sign: &str| sql::cast(sql::text_literal(&format!("{sign}{least}")), result);
    // 2.00000000000000000001 is close to 2 but not a whole number; -1e-400 is close to zero but
    // negative.
    let is_whole = exponent.range == Interval::point(by) && by.fract() == 0.0;
    let is_negative = exponent.range.lo < 0.0;
    let range = of_call(Function::Power, &[base.range, Interval::point(by)], result);
    let range = if near_zero {
        range.hull(Interval::point(0.0))
    } else {
        range
    };
    let vanishes = |base: &ast::Expr| {
        let above = sql::binary(sql::nest(base.clone()), B::Gt, constant("-"));
        sql::binary(
            above,
            B::And,
            sql::binary(sql::nest(base.clone()), B::Lt, constant("")),
        )
    };
    let times = 1 + usize::from(!is_whole) + 2 * usize::from(is_negative || near_zero);
    let (sql, nodes) = guard_operand(
        (base.sql, base.nodes),
        (times, exponent.nodes + 20),
        result,
        |base| {
            let mut branches = Vec::new();
            if is_negative {
                branches.push((vanishes(&base), sql::null()));
            } else if near_zero {
                branches.push((vanishes(&base), sql::cast(sql::number_literal("0"), result)));
            }
            let positive = compare(&base, B::GtEq, "0");
            let call = sql::call("power", vec![base, exponent.sql]);
            if !is_whole {
                branches.push((positive, call));
                return sql::case(branches, None);
            }
            if branches.is_empty() {
                call
            } else {
                sql::case(branches, Some(call))
            }
        },
    )?;
    keep_within(
        Emitted {
            sql,
            range,
            tiny: is_float(result),
            nodes,
        },
        working(result),
        result,
    )
}
