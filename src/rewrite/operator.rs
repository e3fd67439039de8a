//! Operators and functions over guarded operands, each by the rule of its catalogue entry.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, clamped, flushed, internal, is_float, keep_within, working};
use super::sql;
use crate::analyze::interval::{DAYS, Interval, apply, date_part, of_type, scalar};
use crate::catalog::Type;
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::resolve::Expr;
use crate::resolve::catalogue::Function;
use crate::resolve::literal::integer_range;

/// Longest text that an operation on strings works on.
const TEXT_LENGTH: i64 = 4096;

pub(super) fn operator(function: Function) -> Option<B> {
    match function {
        Function::Add | Function::DatePlusDays => Some(B::Plus),
        Function::Subtract | Function::DateDifference | Function::DateMinusDays => Some(B::Minus),
        Function::Multiply => Some(B::Multiply),
        Function::Divide => Some(B::Divide),
        Function::Modulo => Some(B::Modulo),
        _ => None,
    }
}

pub(super) fn comparison_operator(function: Function) -> Option<B> {
    match function {
        Function::Equal => Some(B::Eq),
        Function::NotEqual => Some(B::NotEq),
        Function::Less => Some(B::Lt),
        Function::LessOrEqual => Some(B::LtEq),
        Function::Greater => Some(B::Gt),
        Function::GreaterOrEqual => Some(B::GtEq),
        _ => None,
    }
}

/// One or two operands.
pub(super) fn operands(emitted: Vec<Emitted>) -> Result<(Emitted, Option<Emitted>), Refusal> {
    let mut operands = emitted.into_iter();
    let first = operands.next().ok_or_else(internal)?;
    Ok((first, operands.next()))
}

pub(super) fn arithmetic(function: Function, emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result);
        if is_float(result) && function == Function::Multiply { flushed(value) } else { value }
    };
    let (a, b) = operands(emitted)?;
    let (a, b) = (prepare(a), b.map(prepare));
    let ranges: Vec<Interval> = [Some(a.range), b.as_ref().map(|b| b.range)].into_iter().flatten().collect();
    let range = apply(function, &ranges, result);
    let nodes = a.nodes + b.as_ref().map_or(0, |b| b.nodes) + 1;
    // 2^63 is a float8 and no int8, so eight bytes are full only below it.
    let fits = integer_range(result).is_none() || (range.within(of_type(result)) && range.hi < 9_223_372_036_854_775_808.0);
    let wide = |value: ast::Expr| match (fits, range.magnitude() < 9e18) {
        (true, _) => value,
        (false, true) => sql::cast(value, &Type::Int8),
        (false, false) => sql::cast(value, &Type::Numeric(None)),
    };
    let combined = match (function, b) {
        (Function::Negate, None) => {
            ast::Expr::Nested(Box::new(ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: Box::new(sql::nested(wide(a.sql))) }))
        }
        (Function::Abs, None) => sql::call("abs", vec![wide(a.sql)]),
        (function, Some(b)) => sql::binary(sql::nested(wide(a.sql)), operator(function).ok_or_else(internal)?, sql::nested(wide(b.sql))),
        (_, None) => return Err(internal()),
    };
    let value = Emitted { sql: combined, range, tiny: is_float(result), nodes };
    Ok(restored(value, result, fits))
}

/// Clamps a widened integer into its type and casts it back; keeps numerics and floats within working range.
pub(super) fn restored(value: Emitted, result: &Type, fits: bool) -> Emitted {
    if fits && integer_range(result).is_some() {
        return value;
    }
    if integer_range(result).is_none() {
        return keep_within(value, working(result), result);
    }
    let Some((lo, hi)) = integer_range(result) else { return value };
    let nodes = value.nodes * 3 + 5;
    let sql = clamped(&value.sql, sql::number(&lo.to_string()), sql::number(&hi.to_string()));
    Emitted { sql: sql::cast(sql, result), range: value.range.meet(of_type(result)), tiny: false, nodes }
}

pub(super) fn division(function: Function, emitted: Vec<Emitted>, result: &Type, arguments: &[Expr]) -> Result<Emitted, Refusal> {
    let (a, Some(b)) = operands(emitted)? else { return Err(internal()) };
    let float = is_float(result);
    let prepare = |value: Emitted| {
        let value = keep_within(value, working(result), result);
        if float { flushed(value) } else { value }
    };
    let (a, b) = (prepare(a), prepare(b));
    let range = apply(function, &[a.range, b.range], result);
    let nodes = a.nodes + b.nodes + 2;
    let constant = arguments.get(1).and_then(Expr::as_literal).and_then(scalar).is_some_and(|c| c != 0.0);
    let divisor = if constant { b.sql } else { sql::call("nullif", vec![b.sql, sql::cast(sql::number("0"), &arguments[1].data_type)]) };
    let op = operator(function).ok_or_else(internal)?;
    let Some((lowest, _)) = integer_range(result) else {
        let value = Emitted { sql: sql::binary(sql::nested(a.sql), op, sql::nested(divisor)), range, tiny: float, nodes };
        return Ok(keep_within(value, working(result), result));
    };
    // The one quotient that overflows is the lowest value by -1; in eight bytes there is room for the narrower types.
    let overflows = a.range.contains(lowest as f64) && b.range.contains(-1.0);
    if !overflows {
        return Ok(Emitted { sql: sql::binary(sql::nested(a.sql), op, sql::nested(divisor)), range, tiny: false, nodes });
    }
    let above_lowest = bound_integer(lowest + 1);
    let dividend =
        sql::case(vec![(sql::binary(sql::nested(a.sql.clone()), B::Lt, above_lowest.clone()), sql::cast(above_lowest, result))], Some(a.sql));
    Ok(Emitted { sql: sql::binary(sql::nested(dividend), op, sql::nested(divisor)), range, tiny: false, nodes: nodes * 2 })
}

pub(super) fn bound_integer(value: i64) -> ast::Expr {
    sql::number(&value.to_string())
}

/// Functions defined on part of the line: NULL outside it.
pub(super) fn domain(function: Function, emitted: &[Emitted], result: &Type) -> Result<Emitted, Refusal> {
    let a = keep_within(emitted.first().cloned().ok_or_else(internal)?, working(result), result);
    let (name, op) = match function {
        Function::SquareRoot => ("sqrt", B::GtEq),
        Function::NaturalLog => ("ln", B::Gt),
        Function::Log10 => ("log", B::Gt),
        _ => return Err(internal()),
    };
    let inside = sql::binary(sql::nested(a.sql.clone()), op, sql::number("0"));
    let range = apply(function, &[a.range], result);
    Ok(Emitted { sql: sql::case(vec![(inside, sql::call(name, vec![a.sql.clone()]))], None), range, tiny: is_float(result), nodes: a.nodes * 2 + 3 })
}

pub(super) fn bounded(function: Function, emitted: Vec<Emitted>, arguments: &[Expr]) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    let mut values = emitted.into_iter().map(|e| e.sql);
    let first = values.next().ok_or_else(internal)?;
    // A constant is as long as it is.
    let subject = if arguments[0].as_literal().is_some() { first } else { sql::call("left", vec![first, sql::number(&TEXT_LENGTH.to_string())]) };
    // The same as for LIKE: a search under such a collation is an error.
    let subject = if function == Function::Position {
        sql::nested(ast::Expr::Collate { expr: Box::new(subject), collation: sql::name(&["C"]) })
    } else {
        subject
    };
    let rest: Vec<ast::Expr> = values.collect();
    let name = match function {
        Function::Lower => "lower",
        Function::Upper => "upper",
        Function::Length => "length",
        Function::Trim => "btrim",
        Function::TrimLeft => "ltrim",
        Function::TrimRight => "rtrim",
        Function::Left => "left",
        Function::Right => "right",
        Function::Substring | Function::SubstringFor => "substr",
        Function::Position => "strpos",
        _ => return Err(internal()),
    };
    let range = apply(function, &[], &Type::Int4);
    Ok(Emitted { nodes, ..Emitted::plain(sql::call(name, [vec![subject], rest].concat()), range) })
}

pub(super) fn calendar(function: Function, emitted: Vec<Emitted>, arguments: &[Expr], result: &Type) -> Result<Emitted, Refusal> {
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 2;
    match function {
        Function::DateTrunc | Function::DatePart => {
            let name = if function == Function::DateTrunc { "date_trunc" } else { "date_part" };
            let operand = arguments.get(1).ok_or_else(internal)?;
            let range = match (function, arguments[0].as_literal()) {
                (Function::DatePart, Some(Scalar::Text(field))) => part_range(field, emitted[1].range, &operand.data_type),
                _ => apply(function, &[emitted[1].range], result),
            };
            Ok(Emitted { nodes, ..Emitted::plain(sql::call(name, emitted.into_iter().map(|e| e.sql).collect()), range) })
        }
        _ => {
            let (a, Some(b)) = operands(emitted)? else { return Err(internal()) };
            let range = apply(function, &[a.range, b.range], result);
            let op = operator(function).ok_or_else(internal)?;
            if function == Function::DateDifference {
                return Ok(Emitted { nodes, ..Emitted::plain(sql::binary(sql::nested(a.sql), op, sql::nested(b.sql)), range) });
            }
            // As a count of days in eight bytes, brought back to years 1 to 9999 before it is a date again: PostgreSQL's dates end at 4713 BC.
            let epoch = || sql::constant(Some(&Scalar::Date(0)), &Type::Date);
            let day = sql::cast(sql::binary(sql::nested(a.sql), B::Minus, epoch()), &Type::Int8);
            let moved = sql::binary(day, op, sql::cast(b.sql, &Type::Int8));
            let kept = clamped(&moved, sql::number(&DAYS.0.to_string()), sql::number(&DAYS.1.to_string()));
            let date = sql::binary(epoch(), B::Plus, sql::cast(kept, &Type::Int4));
            Ok(Emitted { nodes: nodes * 3 + 5, ..Emitted::plain(date, range.meet(of_type(&Type::Date))) })
        }
    }
}

pub(super) fn part_range(field: &str, operand: Interval, data_type: &Type) -> Interval {
    let year = |value: f64| crate::analyze::interval::year(value, data_type);
    date_part(field, operand.is_finite().then(|| (year(operand.lo), year(operand.hi))))
}

pub(super) fn histogram(emitted: Vec<Emitted>, result: &Type) -> Result<Emitted, Refusal> {
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = apply(Function::WidthBucket, &ranges, result);
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    if !ranges.first().is_some_and(|r| r.is_finite()) {
        return Err(internal());
    }
    Ok(Emitted { nodes, ..Emitted::plain(sql::call("width_bucket", emitted.into_iter().map(|e| e.sql).collect()), range) })
}

/// Functions that cannot fail.
pub(super) fn grammar(function: Function, emitted: Vec<Emitted>, arguments: &[Expr], types: &[&Type], result: &Type) -> Result<Emitted, Refusal> {
    use Function as F;
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = apply(function, &ranges, result);
    let (nodes, tiny) = (emitted.iter().map(|e| e.nodes).sum::<usize>() + 1, emitted.iter().any(|e| e.tiny));
    if function == F::Extract {
        let Some(Scalar::Text(field)) = arguments[0].as_literal() else { return Err(internal()) };
        let range = part_range(field, ranges[1], types[1]);
        let operand = emitted.into_iter().nth(1).ok_or_else(internal)?.sql;
        return Ok(Emitted { nodes, ..Emitted::plain(sql::extract(field, operand).ok_or_else(internal)?, range) });
    }
    let mut values: Vec<ast::Expr> = emitted.into_iter().map(|e| e.sql).collect();
    let one = |values: &mut Vec<ast::Expr>| values.pop().map(|v| Box::new(sql::nested(v))).ok_or_else(internal);
    if let Some(op) = comparison_operator(function) {
        let (Some(right), Some(left)) = (values.pop(), values.pop()) else { return Err(internal()) };
        return Ok(Emitted { nodes, ..Emitted::plain(sql::binary(sql::nested(left), op, sql::nested(right)), Interval::ALL) });
    }
    let expr = match function {
        F::And => sql::nested(sql::all(values.into_iter().map(sql::nested).collect()).ok_or_else(internal)?),
        F::Or => {
            let any = values.into_iter().map(sql::nested).reduce(|a, b| ast::Expr::BinaryOp { left: Box::new(a), op: B::Or, right: Box::new(b) });
            sql::nested(any.ok_or_else(internal)?)
        }
        F::Not => sql::not(*one(&mut values)?),
        F::IsNull => ast::Expr::Nested(Box::new(ast::Expr::IsNull(one(&mut values)?))),
        F::IsNotNull => ast::Expr::Nested(Box::new(ast::Expr::IsNotNull(one(&mut values)?))),
        F::IsTrue => ast::Expr::Nested(Box::new(ast::Expr::IsTrue(one(&mut values)?))),
        F::IsNotTrue => ast::Expr::Nested(Box::new(ast::Expr::IsNotTrue(one(&mut values)?))),
        F::IsFalse => ast::Expr::Nested(Box::new(ast::Expr::IsFalse(one(&mut values)?))),
        F::IsNotFalse => ast::Expr::Nested(Box::new(ast::Expr::IsNotFalse(one(&mut values)?))),
        F::IsDistinctFrom | F::IsNotDistinctFrom => {
            let (b, a) = (one(&mut values)?, one(&mut values)?);
            let expr = if function == F::IsDistinctFrom { ast::Expr::IsDistinctFrom(a, b) } else { ast::Expr::IsNotDistinctFrom(a, b) };
            ast::Expr::Nested(Box::new(expr))
        }
        F::In => {
            let subject = Box::new(sql::nested(values.remove(0)));
            ast::Expr::Nested(Box::new(ast::Expr::InList { expr: subject, list: values, negated: false }))
        }
        F::Like | F::ILike => {
            let (pattern, subject) = (one(&mut values)?, values.pop().ok_or_else(internal)?);
            // Under a collation that is not deterministic, LIKE is an error on the first row that reaches it; a match by bytes or by the database's own letters is not.
            let collation = sql::name(if function == F::Like { &["C"] } else { &["default"] });
            let subject = ast::Expr::Collate { expr: Box::new(sql::call("left", vec![subject, sql::number(&TEXT_LENGTH.to_string())])), collation };
            let expr = Box::new(sql::nested(subject));
            let (negated, any, escape_char) = (false, false, None);
            ast::Expr::Nested(Box::new(if function == F::Like {
                ast::Expr::Like { negated, any, expr, pattern, escape_char }
            } else {
                ast::Expr::ILike { negated, any, expr, pattern, escape_char }
            }))
        }
        F::Coalesce => sql::call("coalesce", values),
        F::NullIf => sql::call("nullif", values),
        F::Greatest => sql::call("greatest", values),
        F::Least => sql::call("least", values),
        F::Sign => sql::call("sign", values),
        F::Floor => sql::call("floor", values),
        F::Ceiling => sql::call("ceil", values),
        F::Round | F::RoundTo => sql::call("round", values),
        F::Truncate | F::TruncateTo => sql::call("trunc", values),
        _ => return Err(internal()),
    };
    Ok(Emitted { sql: expr, range, tiny, nodes })
}
