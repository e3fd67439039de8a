//! Evaluates an expression for known values of its columns. This folds constants, and lists the
//! domain of a group key without the data.
//!
//! The result is what the emitted SQL computes. Where agreement is not certain, nothing is
//! evaluated: a constant stays an expression, and a key is released by threshold.

mod calendar;
mod cast;
mod cost;
mod number;
mod text;
mod within;

pub use cost::weight;
pub use number::float_text;
pub use within::{KnownValue, ValueSpan, evaluate_within};

use std::cmp::Ordering;

use super::expression::{Expr, Node};
use super::functions::Function;
use super::relation::ColumnId;
use crate::catalog::Type;
use crate::policy::Scalar;
use cast::cast;
use number::Decimal;

/// The expression cannot be evaluated here.
#[derive(Debug, PartialEq)]
pub struct NotEvaluable;

type Value = Option<Scalar>;

/// Evaluates under `assignment`; `None` is NULL.
///
/// # Errors
/// If it is not certain that PostgreSQL computes the same value.
pub fn evaluate(expr: &Expr, assignment: &[(ColumnId, Value)]) -> Result<Value, NotEvaluable> {
    match &expr.node {
        Node::Column(id) => assignment
            .iter()
            .find(|(column, _)| column == id)
            .map(|(_, value)| value.clone())
            .ok_or(NotEvaluable),
        Node::Literal(value) => Ok(value.clone()),
        // Not known when the plan is made.
        Node::Constant(_) | Node::Exists { .. } => Err(NotEvaluable),
        Node::Cast(inner) => cast(
            evaluate(inner, assignment)?,
            &inner.data_type,
            &expr.data_type,
        ),
        Node::Case {
            branches,
            otherwise,
        } => {
            for (condition, result) in branches {
                if evaluate(condition, assignment)? == Some(Scalar::Bool(true)) {
                    return evaluate(result, assignment);
                }
            }
            otherwise
                .as_ref()
                .map_or(Ok(None), |e| evaluate(e, assignment))
        }
        Node::Call {
            function: Function::In,
            arguments,
        } => is_in(arguments, assignment),
        Node::Call {
            function,
            arguments,
        } => {
            let values = arguments
                .iter()
                .map(|a| evaluate(a, assignment))
                .collect::<Result<Vec<_>, _>>()?;
            call(*function, &values, &expr.data_type)
        }
    }
}

/// `subject IN (item, …)`; a long list is not copied for each subject.
fn is_in(arguments: &[Expr], assignment: &[(ColumnId, Value)]) -> Result<Value, NotEvaluable> {
    let [subject, items @ ..] = arguments else {
        return Err(NotEvaluable);
    };
    let subject = evaluate(subject, assignment)?;
    let others = items
        .iter()
        .filter(|item| !matches!(item.node, Node::Literal(_)));
    let made = others
        .map(|item| evaluate(item, assignment))
        .collect::<Result<Vec<_>, _>>()?;
    let Some(subject) = subject else {
        return Ok(None);
    };
    let mut made = made.iter();
    let mut unknown = false;
    for item in items {
        let item = if let Node::Literal(value) = &item.node {
            value.as_ref()
        } else {
            made.next().and_then(Option::as_ref)
        };
        match item {
            Some(item) if compare(&subject, item, true)?.is_eq() => {
                return Ok(Some(Scalar::Bool(true)));
            }
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(Scalar::Bool(false)))
}

/// The expression as a constant where it reads no column and its value is certain. Numerics and
/// floats stay as they are written: their scale and digits are PostgreSQL's.
pub fn fold(expr: Expr) -> Expr {
    let is_exact = match &expr.data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Text
        | Type::Varchar(None)
        | Type::Char(_) => true,
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval => true,
        Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Varchar(Some(_))
        | Type::Uuid
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => false,
    };
    if !is_exact || matches!(expr.node, Node::Literal(_) | Node::Column(_)) {
        return expr;
    }
    match evaluate(&expr, &[]) {
        Ok(value) => Expr::literal(value, expr.data_type),
        Err(NotEvaluable) => expr,
    }
}

fn call(function: Function, values: &[Value], result: &Type) -> Result<Value, NotEvaluable> {
    use Function as F;
    let boolean = |value: Option<bool>| Ok(value.map(Scalar::Bool));
    match function {
        F::And => boolean(connect(values, false)?),
        F::Or => boolean(connect(values, true)?),
        F::Not => boolean(truth(&values[0])?.map(|b| !b)),
        F::IsNull => boolean(Some(values[0].is_none())),
        F::IsNotNull => boolean(Some(values[0].is_some())),
        F::IsTrue => boolean(Some(truth(&values[0])? == Some(true))),
        F::IsNotTrue => boolean(Some(truth(&values[0])? != Some(true))),
        F::IsFalse => boolean(Some(truth(&values[0])? == Some(false))),
        F::IsNotFalse => boolean(Some(truth(&values[0])? != Some(false))),
        F::IsDistinctFrom | F::IsNotDistinctFrom => {
            let equal = match (&values[0], &values[1]) {
                (Some(a), Some(b)) => compare(a, b, true)? == Ordering::Equal,
                (a, b) => a.is_none() && b.is_none(),
            };
            boolean(Some(equal == (function == F::IsNotDistinctFrom)))
        }
        F::Coalesce => Ok(values.iter().flatten().next().cloned()),
        F::Greatest | F::Least => extreme(function, values),
        F::NullIf => match (&values[0], &values[1]) {
            (Some(a), Some(b)) if compare(a, b, true)?.is_eq() => Ok(None),
            (a, _) => Ok(a.clone()),
        },
        F::Concat | F::ConcatSeparated => text::concatenate(function, values),
        F::CountNulls => Ok(Some(Scalar::Int(
            values.iter().filter(|v| v.is_none()).count() as i64,
        ))),
        F::CountNonNulls => Ok(Some(Scalar::Int(values.iter().flatten().count() as i64))),
        _ if values.iter().any(Option::is_none) => Ok(None),
        _ => {
            let known: Vec<&Scalar> = values.iter().flatten().collect();
            strict(function, &known, result)
        }
    }
}

/// The largest or smallest value that is not NULL.
fn extreme(function: Function, values: &[Value]) -> Result<Value, NotEvaluable> {
    let wanted = if function == Function::Greatest {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    let mut best: Option<&Scalar> = None;
    for value in values.iter().flatten() {
        best = match best {
            Some(known) if compare(value, known, false)? != wanted => Some(known),
            _ => Some(value),
        };
    }
    Ok(best.cloned())
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
        F::Add
        | F::Subtract
        | F::Multiply
        | F::Divide
        | F::Modulo
        | F::Negate
        | F::Abs
        | F::Sign => number::arithmetic(function, values, result),
        F::Floor | F::Ceiling | F::Truncate | F::Round | F::RoundTo | F::TruncateTo => {
            number::round(function, values, result)
        }
        F::TrimScale => Ok(Some(values[0].clone())),
        F::Thresholds => {
            let reached = values[1..]
                .iter()
                .map(|limit| Ok(compare(values[0], limit, false)?.is_ge()))
                .collect::<Result<Vec<_>, NotEvaluable>>()?;
            Ok(Some(Scalar::Int(
                reached.into_iter().filter(|is_reached| *is_reached).count() as i64,
            )))
        }
        F::AddIntervals | F::SubtractIntervals | F::NegateInterval => {
            calendar::combine_intervals(function, values)
        }
        F::Extract | F::DatePart => calendar::date_part(values),
        F::DateTrunc
        | F::DateDifference
        | F::DatePlusDays
        | F::DateMinusDays
        | F::Later
        | F::Earlier
        | F::Elapsed => calendar::add_interval(function, values, result),
        F::TimesInterval | F::AtZone | F::MakeDate | F::FromEpoch => {
            calendar::make_date_or_time(function, values)
        }
        F::Formatted => calendar::format_number(values),
        _ => text::strict(function, values),
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
fn connect(values: &[Value], absorbing: bool) -> Result<Option<bool>, NotEvaluable> {
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

/// Order of two constants of one type. Texts are only compared for equality: their order depends on
/// the collation.
fn compare(a: &Scalar, b: &Scalar, equality_only: bool) -> Result<Ordering, NotEvaluable> {
    match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => Ok(a.cmp(b)),
        (Scalar::Bool(a), Scalar::Bool(b)) => Ok(a.cmp(b)),
        (Scalar::Date(a), Scalar::Date(b)) => Ok(a.cmp(b)),
        (Scalar::Timestamp(a), Scalar::Timestamp(b)) => Ok(a.cmp(b)),
        (Scalar::Text(a), Scalar::Text(b)) if equality_only => Ok(a.cmp(b)),
        (Scalar::Decimal(_) | Scalar::Int(_), Scalar::Decimal(_) | Scalar::Int(_)) => {
            Decimal::of(a)?.order(&Decimal::of(b)?)
        }
        _ => Err(NotEvaluable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::MICROS_PER_DAY;
    use Function as F;

    fn of(function: Function, arguments: &[Scalar], result: Type) -> Result<Value, NotEvaluable> {
        let arguments = arguments
            .iter()
            .map(|a| Expr::literal(Some(a.clone()), Type::Text))
            .collect();
        evaluate(&Expr::call(function, arguments, result), &[])
    }

    fn text(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    fn decimal(text: &str) -> Scalar {
        Scalar::Decimal(text.to_owned())
    }

    #[test]
    fn decimals_are_exact() {
        let numeric = || Type::Numeric(None);
        for (function, arguments, wanted) in [
            (F::Add, vec![decimal("0.1"), decimal("0.2")], "0.3"),
            (F::Multiply, vec![decimal("-2.50"), decimal("4")], "-10"),
            (F::Divide, vec![decimal("35"), decimal("10.0")], "3.5"),
            (F::Modulo, vec![decimal("-7.5"), decimal("2")], "-1.5"),
            (F::Floor, vec![decimal("-0.5")], "-1"),
            (F::Ceiling, vec![decimal("-0.5")], "0"),
            (F::Round, vec![decimal("-2.5")], "-3"),
            (F::RoundTo, vec![decimal("151"), Scalar::Int(-2)], "200"),
            (F::TruncateTo, vec![decimal("2.789"), Scalar::Int(1)], "2.7"),
        ] {
            assert_eq!(
                of(function, &arguments, numeric()),
                Ok(Some(decimal(wanted))),
                "{function:?} {arguments:?}"
            );
        }
        assert_eq!(
            of(F::Divide, &[decimal("1"), decimal("3")], numeric()),
            Err(NotEvaluable)
        );
    }

    #[test]
    fn parts_of_dates_are_postgresqls() {
        // 2024-12-30 10:11:12.5 lies in week 1 of 2025.
        let instant = Scalar::Timestamp(
            (i64::from(days("2024-12-30")) * 86_400 + 10 * 3600 + 11 * 60 + 12) * 1_000_000
                + 500_000,
        );
        for (field, wanted) in [
            ("week", "1"),
            ("isoyear", "2025"),
            ("isodow", "1"),
            ("dow", "1"),
            ("doy", "365"),
            ("century", "21"),
            ("second", "12.5"),
            ("epoch", "1735553472.5"),
        ] {
            assert_eq!(
                of(
                    F::Extract,
                    &[text(field), instant.clone()],
                    Type::Numeric(None)
                ),
                Ok(Some(decimal(wanted))),
                "{field}"
            );
        }
        let month = |months| Scalar::Interval {
            months,
            days: 0,
            micros: 0,
        };
        let later = of(
            F::Later,
            &[Scalar::Date(days("2024-01-31")), month(1)],
            Type::Timestamp,
        );
        assert_eq!(
            later,
            Ok(Some(Scalar::Timestamp(
                i64::from(days("2024-02-29")) * MICROS_PER_DAY
            )))
        );
        assert_eq!(
            of(
                F::Later,
                &[Scalar::Date(days("9999-12-31")), month(1)],
                Type::Timestamp
            ),
            Err(NotEvaluable)
        );
        let shown = of(
            F::Formatted,
            &[Scalar::Date(days("2024-02-03")), text("YYYY-MM")],
            Type::Text,
        );
        assert_eq!(shown, Ok(Some(text("2024-02"))));
    }

    fn days(text: &str) -> i32 {
        super::super::literal::date(text).unwrap()
    }

    #[test]
    fn long_texts_are_neither_compared_nor_made() {
        let long = |unit: &str, times| text(&unit.repeat(times));
        for (function, arguments) in [
            (
                F::Like,
                vec![long("a", 1000), text(&format!("%{}b%", "a".repeat(500)))],
            ),
            (F::Trim, vec![long("b", 1000), long("é", 500)]),
            (
                F::Replace,
                vec![long("a", 1000), text("a"), long("b", 1000)],
            ),
            (F::Repeat, vec![long("a", 1000), Scalar::Int(100)]),
            (F::Concat, vec![long("a", 600); 2]),
            (F::Concatenate, vec![long("a", 600); 2]),
            (F::Formatted, vec![Scalar::Date(0), long("YYYY", 16)]),
        ] {
            assert_eq!(
                of(function, &arguments, Type::Text),
                Err(NotEvaluable),
                "{function:?}"
            );
        }
        assert_eq!(
            of(F::Like, &[long("a", 100), text("%aab%")], Type::Bool),
            Ok(Some(Scalar::Bool(false)))
        );
        assert_eq!(
            of(
                F::Replace,
                &[long("ab", 500), text("ab"), text("cd")],
                Type::Text
            ),
            Ok(Some(long("cd", 500)))
        );
    }

    #[test]
    fn texts_are_postgresqls() {
        for (function, arguments, wanted) in [
            (F::Left, vec![text("abcdef"), Scalar::Int(-2)], "abcd"),
            (F::Right, vec![text("abcdef"), Scalar::Int(-2)], "cdef"),
            (
                F::SubstringFor,
                vec![text("abcdef"), Scalar::Int(-1), Scalar::Int(4)],
                "ab",
            ),
            (F::Initcap, vec![text("hello wORLD-x9a")], "Hello World-X9a"),
            (
                F::SplitPart,
                vec![text("a,b,c"), text(","), Scalar::Int(2)],
                "b",
            ),
            (
                F::PadLeft,
                vec![text("7"), Scalar::Int(3), text("0")],
                "007",
            ),
            (F::PadRight, vec![text("abcd"), Scalar::Int(2)], "ab"),
            (F::TrimLeft, vec![text("xxaxx"), text("x")], "axx"),
            (F::Replace, vec![text("aabb"), text("a"), text("c")], "ccbb"),
        ] {
            assert_eq!(
                of(function, &arguments, Type::Text),
                Ok(Some(text(wanted))),
                "{function:?} {arguments:?}"
            );
        }
        let like = |subject: &str, pattern: &str| {
            of(F::Like, &[text(subject), text(pattern)], Type::Bool) == Ok(Some(Scalar::Bool(true)))
        };
        assert!(like("a%b", "a\\%_") && like("", "%") && !like("ab", "a") && !like("axb", "a\\_b"));
    }
}
