//! Casts of known values.

use super::number::Decimal;
use super::{NotEvaluable, Value, calendar};
use crate::calendar::MICROS_PER_DAY;
use crate::catalog::Type;
use crate::ir::literal::{integer_range, is_beyond};
use crate::policy::Scalar;

pub(super) fn cast(value: Value, from: &Type, to: &Type) -> Result<Value, NotEvaluable> {
    let Some(value) = value else { return Ok(None) };
    let is_integer = |t: &Type| integer_range(t).is_some();
    if is_beyond(&value) && from != to {
        return Err(NotEvaluable);
    }
    let day =
        |micros: i64| i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| NotEvaluable);
    match (value, to) {
        (Scalar::Int(v), to) if is_integer(to) => {
            let (lower, upper) = integer_range(to).ok_or(NotEvaluable)?;
            if (lower..=upper).contains(&v) {
                Ok(Some(Scalar::Int(v)))
            } else {
                Err(NotEvaluable)
            }
        }
        (Scalar::Int(v), Type::Float8 | Type::Numeric(None)) if v.unsigned_abs() < 1 << 50 => {
            Ok(Some(Scalar::Decimal(v.to_string())))
        }
        (Scalar::Int(v), Type::Text | Type::Varchar(None)) => Ok(Some(Scalar::Text(v.to_string()))),
        (Scalar::Int(v), Type::Bool) => Ok(Some(Scalar::Bool(v != 0))),
        (Scalar::Bool(v), Type::Int4) => Ok(Some(Scalar::Int(i64::from(v)))),
        (Scalar::Bool(v), Type::Text) => Ok(Some(Scalar::Text(v.to_string()))),
        (Scalar::Text(v), to) if to.is_string() => {
            strings(v, from, to).map(|text| Some(Scalar::Text(text)))
        }
        (Scalar::Decimal(v), Type::Float8) if *from == Type::Float8 => Ok(Some(Scalar::Decimal(v))),
        (Scalar::Decimal(v), Type::Numeric(None)) if matches!(from, Type::Numeric(_)) => {
            Ok(Some(Scalar::Decimal(v)))
        }
        (Scalar::Decimal(v), Type::Numeric(None) | Type::Float8)
            if Decimal::of(&Scalar::Decimal(v.clone()))?.is_whole() =>
        {
            Ok(Some(Scalar::Decimal(v)))
        }
        // Numerics round halves away from zero, floats to even.
        (Scalar::Decimal(v), to) if is_integer(to) => {
            let exact = Decimal::of(&Scalar::Decimal(v))?;
            let rounded = if matches!(from, Type::Numeric(_)) {
                exact.round_to(0)?
            } else {
                exact
            };
            cast(
                Some(Scalar::Int(rounded.whole().ok_or(NotEvaluable)?)),
                &Type::Int8,
                to,
            )
        }
        (Scalar::Date(v), Type::Timestamp | Type::Timestamptz) => {
            Ok(Some(Scalar::Timestamp(i64::from(v) * MICROS_PER_DAY)))
        }
        (Scalar::Timestamp(v), Type::Timestamp | Type::Timestamptz) => {
            Ok(Some(Scalar::Timestamp(v)))
        }
        (Scalar::Timestamp(v), Type::Date) => Ok(Some(Scalar::Date(day(v)?))),
        (Scalar::Date(v), Type::Text) => Ok(Some(Scalar::Text(calendar::date_text(v)))),
        _ => Err(NotEvaluable),
    }
}

/// A text cast to another text type: `char` loses its trailing blanks, or is padded to the other
/// length.
fn strings(text: String, from: &Type, to: &Type) -> Result<String, NotEvaluable> {
    match (from, to) {
        (Type::Char(_), Type::Text | Type::Varchar(None)) => {
            Ok(text.trim_end_matches(' ').to_owned())
        }
        (_, Type::Text | Type::Varchar(None) | Type::Char(None)) => Ok(text),
        (_, Type::Char(Some(length))) => {
            Ok(to.as_stored(text.chars().take(*length as usize).collect()))
        }
        _ => Err(NotEvaluable),
    }
}
