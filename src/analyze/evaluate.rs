//! Values of an expression for known values of its columns: how the domain of a group key is listed without the data.
//!
//! Follows what the emitted SQL computes. Whatever is not certain to agree is not evaluated, and the key is released by threshold instead.

use crate::catalog::Type;
use crate::policy::Scalar;
use crate::resolve::catalogue::Function;
use crate::resolve::literal::{civil_from_days, days_from_civil, integer_range};
use crate::resolve::{ColumnId, Expr, Node};

/// The expression cannot be evaluated here.
#[derive(Debug, PartialEq)]
pub struct NotEvaluable;

type Value = Option<Scalar>;

/// Evaluates under `assignment`; `None` is NULL.
pub fn evaluate(expr: &Expr, assignment: &[(ColumnId, Value)]) -> Result<Value, NotEvaluable> {
    match &expr.node {
        Node::Column(id) => assignment.iter().find(|(column, _)| column == id).map(|(_, value)| value.clone()).ok_or(NotEvaluable),
        Node::Literal(value) => Ok(value.clone()),
        // Not known when the plan is made.
        Node::Constant(_) => Err(NotEvaluable),
        Node::Cast(inner) => cast(evaluate(inner, assignment)?, &inner.data_type, &expr.data_type),
        Node::Case { branches, otherwise } => {
            for (condition, result) in branches {
                if evaluate(condition, assignment)? == Some(Scalar::Bool(true)) {
                    return evaluate(result, assignment);
                }
            }
            otherwise.as_ref().map_or(Ok(None), |e| evaluate(e, assignment))
        }
        Node::Call { function, arguments } => {
            let values = arguments.iter().map(|a| evaluate(a, assignment)).collect::<Result<Vec<_>, _>>()?;
            call(*function, &values, &expr.data_type)
        }
    }
}

fn call(function: Function, values: &[Value], result: &Type) -> Result<Value, NotEvaluable> {
    use Function as F;
    let boolean = |value: Option<bool>| Ok(value.map(Scalar::Bool));
    match function {
        F::And => boolean(fold(values, false)?),
        F::Or => boolean(fold(values, true)?),
        F::Not => boolean(truth(&values[0])?.map(|b| !b)),
        F::IsNull => boolean(Some(values[0].is_none())),
        F::IsNotNull => boolean(Some(values[0].is_some())),
        F::IsTrue => boolean(Some(truth(&values[0])? == Some(true))),
        F::IsNotTrue => boolean(Some(truth(&values[0])? != Some(true))),
        F::IsFalse => boolean(Some(truth(&values[0])? == Some(false))),
        F::IsNotFalse => boolean(Some(truth(&values[0])? != Some(false))),
        F::IsDistinctFrom | F::IsNotDistinctFrom => {
            let equal = match (&values[0], &values[1]) {
                (Some(a), Some(b)) => compare(a, b, true)? == std::cmp::Ordering::Equal,
                (a, b) => a.is_none() && b.is_none(),
            };
            boolean(Some(equal == (function == F::IsNotDistinctFrom)))
        }
        F::Coalesce => Ok(values.iter().flatten().next().cloned()),
        F::In => {
            let Some(subject) = &values[0] else { return Ok(None) };
            let mut unknown = false;
            for item in &values[1..] {
                match item {
                    Some(item) if compare(subject, item, true)?.is_eq() => return boolean(Some(true)),
                    Some(_) => {}
                    None => unknown = true,
                }
            }
            boolean(if unknown { None } else { Some(false) })
        }
        F::NullIf => match (&values[0], &values[1]) {
            (Some(a), Some(b)) if compare(a, b, true)?.is_eq() => Ok(None),
            (a, _) => Ok(a.clone()),
        },
        _ if values.iter().any(Option::is_none) => match function {
            F::Greatest | F::Least => Err(NotEvaluable),
            _ => Ok(None),
        },
        _ => {
            let known: Vec<&Scalar> = values.iter().flatten().collect();
            strict(function, &known, result)
        }
    }
}

/// Functions that are NULL on NULL.
fn strict(function: Function, values: &[&Scalar], result: &Type) -> Result<Value, NotEvaluable> {
    use Function as F;
    let boolean = |value: bool| Ok(Some(Scalar::Bool(value)));
    match function {
        F::Equal => boolean(compare(values[0], values[1], true)?.is_eq()),
        F::NotEqual => boolean(compare(values[0], values[1], true)?.is_ne()),
        F::Less => boolean(compare(values[0], values[1], false)?.is_lt()),
        F::LessOrEqual => boolean(compare(values[0], values[1], false)?.is_le()),
        F::Greater => boolean(compare(values[0], values[1], false)?.is_gt()),
        F::GreaterOrEqual => boolean(compare(values[0], values[1], false)?.is_ge()),
        F::Add | F::Subtract | F::Multiply | F::Divide | F::Modulo | F::Negate | F::Abs | F::Sign => arithmetic(function, values, result),
        F::Floor | F::Ceiling | F::Truncate if *result == Type::Float8 => {
            let value = float(values[0])?;
            let rounded = match function {
                F::Floor => value.floor(),
                F::Ceiling => value.ceil(),
                _ => value.trunc(),
            };
            Ok(Some(Scalar::Decimal(float_text(rounded)?)))
        }
        F::Lower | F::Upper => match values[0] {
            Scalar::Text(text) if text.is_ascii() => {
                Ok(Some(Scalar::Text(if function == F::Lower { text.to_ascii_lowercase() } else { text.to_ascii_uppercase() })))
            }
            _ => Err(NotEvaluable),
        },
        F::Length => match values[0] {
            Scalar::Text(text) if text.len() <= 1000 => Ok(Some(Scalar::Int(text.chars().count() as i64))),
            _ => Err(NotEvaluable),
        },
        F::Extract => Ok(Some(Scalar::Decimal(date_part(values)?.to_string()))),
        F::DatePart => Ok(Some(Scalar::Decimal(date_part(values)?.to_string()))),
        F::DateTrunc => date_trunc(values),
        F::DateDifference => match values {
            [Scalar::Date(a), Scalar::Date(b)] => Ok(Some(Scalar::Int(i64::from(*a) - i64::from(*b)))),
            _ => Err(NotEvaluable),
        },
        _ => Err(NotEvaluable),
    }
}

fn truth(value: &Value) -> Result<Option<bool>, NotEvaluable> {
    match value {
        None => Ok(None),
        Some(Scalar::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(NotEvaluable),
    }
}

/// AND (absorbing false) or OR (absorbing true) of three-valued truths.
fn fold(values: &[Value], absorbing: bool) -> Result<Option<bool>, NotEvaluable> {
    let mut result = Some(!absorbing);
    for value in values {
        match truth(value)? {
            Some(value) if value == absorbing => return Ok(Some(absorbing)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

/// Order of two constants of one type. Texts are only told equal or not: their order is the collation's.
fn compare(a: &Scalar, b: &Scalar, equality_only: bool) -> Result<std::cmp::Ordering, NotEvaluable> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Ok(a.cmp(b)),
        (Scalar::Bool(a), Scalar::Bool(b)) => Ok(a.cmp(b)),
        (Scalar::Date(a), Scalar::Date(b)) => Ok(a.cmp(b)),
        (Scalar::Timestamp(a), Scalar::Timestamp(b)) => Ok(a.cmp(b)),
        (Scalar::Text(a), Scalar::Text(b)) if equality_only => Ok(a.cmp(b)),
        (Scalar::Decimal(_) | Scalar::Int(_), Scalar::Decimal(_) | Scalar::Int(_)) => float(a)?.partial_cmp(&float(b)?).ok_or(NotEvaluable),
        _ => Err(NotEvaluable),
    }
}

/// The value as float8, where that is exact enough to agree with PostgreSQL: at most 15 digits.
fn float(value: &Scalar) -> Result<f64, NotEvaluable> {
    match value {
        Scalar::Int(value) if value.unsigned_abs() < 1 << 50 => Ok(*value as f64),
        Scalar::Decimal(text) if text.bytes().filter(u8::is_ascii_digit).count() <= 15 => text.parse().map_err(|_| NotEvaluable),
        _ => Err(NotEvaluable),
    }
}

/// A float8 as PostgreSQL prints it (shortest form), where no exponent is needed.
pub fn float_text(value: f64) -> Result<String, NotEvaluable> {
    if value == 0.0 {
        return Ok("0".to_owned());
    }
    if (1e-4..1e15).contains(&value.abs()) { Ok(value.to_string()) } else { Err(NotEvaluable) }
}

fn arithmetic(function: Function, values: &[&Scalar], result: &Type) -> Result<Value, NotEvaluable> {
    use Function as F;
    if *result == Type::Float8 {
        let a = float(values[0])?;
        let b = values.get(1).map_or(Ok(0.0), |v| float(v))?;
        let value = match function {
            F::Add => a + b,
            F::Subtract => a - b,
            F::Multiply => a * b,
            F::Divide if b == 0.0 => return Ok(None),
            F::Divide => a / b,
            F::Negate => -a,
            F::Abs => a.abs(),
            _ => return Err(NotEvaluable),
        };
        return Ok(Some(Scalar::Decimal(float_text(value)?)));
    }
    let Some((lower, upper)) = integer_range(result) else { return Err(NotEvaluable) };
    let integer = |value: &Scalar| match value {
        Scalar::Int(value) => Ok(*value),
        _ => Err(NotEvaluable),
    };
    let a = integer(values[0])?;
    let b = values.get(1).map_or(Ok(0), |v| integer(v))?;
    let value = match function {
        F::Add => a.checked_add(b),
        F::Subtract => a.checked_sub(b),
        F::Multiply => a.checked_mul(b),
        F::Divide | F::Modulo if b == 0 => return Ok(None),
        F::Divide => a.checked_div(b),
        F::Modulo => a.checked_rem(b),
        F::Negate => a.checked_neg(),
        F::Abs => a.checked_abs(),
        _ => None,
    };
    value.filter(|v| (lower..=upper).contains(v)).map(|v| Some(Scalar::Int(v))).ok_or(NotEvaluable)
}

fn cast(value: Value, from: &Type, to: &Type) -> Result<Value, NotEvaluable> {
    let Some(value) = value else { return Ok(None) };
    let is_integer = |t: &Type| integer_range(t).is_some();
    match (value, to) {
        (Scalar::Int(v), to) if is_integer(to) => {
            let (lower, upper) = integer_range(to).ok_or(NotEvaluable)?;
            if (lower..=upper).contains(&v) { Ok(Some(Scalar::Int(v))) } else { Err(NotEvaluable) }
        }
        (Scalar::Int(v), Type::Float8 | Type::Numeric(None)) if v.unsigned_abs() < 1 << 50 => Ok(Some(Scalar::Decimal(v.to_string()))),
        (Scalar::Int(v), Type::Text | Type::Varchar(None)) => Ok(Some(Scalar::Text(v.to_string()))),
        (Scalar::Int(v), Type::Bool) => Ok(Some(Scalar::Bool(v != 0))),
        (Scalar::Bool(v), Type::Int4) => Ok(Some(Scalar::Int(i64::from(v)))),
        (Scalar::Bool(v), Type::Text) => Ok(Some(Scalar::Text(v.to_string()))),
        (Scalar::Text(v), Type::Text | Type::Varchar(None)) => Ok(Some(Scalar::Text(v))),
        (Scalar::Decimal(v), Type::Float8) if *from == Type::Float8 => Ok(Some(Scalar::Decimal(v))),
        (Scalar::Decimal(v), to) if is_integer(to) && !v.contains('.') => {
            let v: i64 = v.parse().map_err(|_| NotEvaluable)?;
            cast(Some(Scalar::Int(v)), &Type::Int8, to)
        }
        (Scalar::Date(v), Type::Timestamp) => Ok(Some(Scalar::Timestamp(i64::from(v) * super::interval::MICROS_PER_DAY))),
        (Scalar::Timestamp(v), Type::Date) => {
            i32::try_from(v.div_euclid(super::interval::MICROS_PER_DAY)).map(|d| Some(Scalar::Date(d))).map_err(|_| NotEvaluable)
        }
        _ => Err(NotEvaluable),
    }
}

/// Field and day of a date function's arguments; only fields of a day or longer.
fn field_and_day<'v>(values: &[&'v Scalar]) -> Result<(&'v str, i32), NotEvaluable> {
    match values {
        [Scalar::Text(field), Scalar::Date(day)] => Ok((field, *day)),
        [Scalar::Text(field), Scalar::Timestamp(micros)] => {
            Ok((field, i32::try_from(micros.div_euclid(super::interval::MICROS_PER_DAY)).map_err(|_| NotEvaluable)?))
        }
        _ => Err(NotEvaluable),
    }
}

fn date_part(values: &[&Scalar]) -> Result<i64, NotEvaluable> {
    let (field, day) = field_and_day(values)?;
    let (year, month, day_of_month) = civil_from_days(day);
    Ok(match field {
        "year" => i64::from(year),
        "quarter" => i64::from((month - 1) / 3 + 1),
        "month" => i64::from(month),
        "day" => i64::from(day_of_month),
        // 2000-01-01 was a Saturday.
        "dow" => i64::from((day + 6).rem_euclid(7)),
        "isodow" => i64::from((day + 5).rem_euclid(7) + 1),
        "doy" => i64::from(day - days_from_civil(year, 1, 1) + 1),
        _ => return Err(NotEvaluable),
    })
}

fn date_trunc(values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    if !matches!(values, [_, Scalar::Timestamp(_)]) {
        return Err(NotEvaluable);
    }
    let (field, day) = field_and_day(values)?;
    let (year, month, _) = civil_from_days(day);
    let first = match field {
        "year" => days_from_civil(year, 1, 1),
        "quarter" => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        "month" => days_from_civil(year, month, 1),
        "week" => day - (day + 5).rem_euclid(7),
        "day" => day,
        _ => return Err(NotEvaluable),
    };
    Ok(Some(Scalar::Timestamp(i64::from(first) * super::interval::MICROS_PER_DAY)))
}
