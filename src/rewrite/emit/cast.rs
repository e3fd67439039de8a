//! Casts over guarded operands.

use super::guard::{
    Emitted, flushed_above, flushed_to, is_float, keep_integer, keep_within, within_digits, working,
};
use super::parse_text::read;
use super::sql;
use crate::analyze::guarded_ranges::of_cast;
use crate::analyze::interval::{FLOAT_MAX, Interval, beyond_digits, of_type};
use crate::catalog::Type;
use crate::ir::literal::integer_range;
use crate::refusal::{Refusal, reason};

/// Largest float4 that is kept, and the magnitude below which one becomes zero.
const FLOAT4_MAX: f64 = 1e38;
const FLOAT4_TINY: &str = "1e-37";

/// Longest text that a value of a type can have; infinite where that depends on the value.
fn longest(data_type: &Type) -> f64 {
    match data_type {
        Type::Bool => 5.0,
        Type::Int2 | Type::Int4 | Type::Int8 => 20.0,
        Type::Float4 | Type::Float8 => 30.0,
        Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Time
        | Type::Enum(_) => 64.0,
        Type::Interval => 100.0,
        Type::Numeric(_) | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Other { .. } => {
            f64::INFINITY
        }
    }
}

/// The value with the digits that the target keeps. A numeric takes 15 digits of a float8 (6 of a
/// float4), the last one rounded. A text has the float4's own digits.
fn keep_digits(value: Emitted, from: &Type, to: &Type) -> Result<Emitted, Refusal> {
    match (from, to) {
        (Type::Float8, Type::Numeric(_)) => Ok(Emitted {
            range: value.range.widen(1e-14),
            ..value
        }),
        // The clamp turned it into a float8.
        (Type::Float4, Type::Text | Type::Varchar(_) | Type::Char(_)) => {
            cast(value, &Type::Float8, &Type::Float4)
        }
        _ => Ok(value),
    }
}

/// A float4 as a numeric of six digits. Whether it fits a target of few digits is tested on that
/// numeric.
fn of_float4(value: Emitted) -> Result<Emitted, Refusal> {
    let numeric = Type::Numeric(None);
    let Emitted {
        sql,
        range,
        tiny: _,
        nodes,
    } = cast(value, &Type::Float8, &Type::Float4)?;
    let own = Emitted {
        sql: sql::cast(sql, &numeric),
        range: range.widen(1e-5),
        tiny: false,
        nodes: nodes + 1,
    };
    keep_within(own, working(&numeric), &numeric)
}

/// Casts that cannot fail: the operand is brought into the target's range first.
pub(in crate::rewrite) fn cast(value: Emitted, from: &Type, to: &Type) -> Result<Emitted, Refusal> {
    if from.is_string() && !to.is_string() {
        let read = read(value, to)?;
        return if to.is_number() {
            cast(read, &Type::Numeric(None), to)
        } else {
            Ok(read)
        };
    }
    if let (Type::Float4, Type::Numeric(digits)) = (from, to) {
        let own = of_float4(value)?;
        return if digits.is_none() {
            Ok(own)
        } else {
            cast(own, &Type::Numeric(None), to)
        };
    }
    let value = keep_digits(value, from, to)?;
    let range = of_cast(value.range, from, to);
    match to {
        Type::Int2 | Type::Int4 | Type::Int8 if *from != Type::Bool => to_integer(value, from, to),
        Type::Numeric(Some((precision, scale))) => {
            to_digits(value, from, to, i32::from(*precision), i32::from(*scale))
        }
        Type::Numeric(None) => Ok(plain(
            keep_within(value, working(to), from)?,
            to,
            range.clamp_to(working(to)),
        )),
        Type::Float8 => to_float8(value, from),
        Type::Float4 => to_float4(value, from),
        Type::Char(Some(length)) => Ok(plain(value, to, Interval::new(0.0, f64::from(*length)))),
        Type::Text | Type::Varchar(_) | Type::Char(None) if from.is_string() => {
            Ok(plain(value, to, range))
        }
        Type::Text | Type::Varchar(_) | Type::Char(None) => {
            Ok(plain(value, to, Interval::new(0.0, longest(from))))
        }
        // The last timestamp that is kept is the start of the year 10000, one day past the last
        // date. Code that needs a date in the calendar clamps again.
        Type::Date | Type::Timestamp | Type::Timestamptz => {
            let kept = keep_within(value, of_type(from), from)?;
            let range = of_cast(kept.range, from, to);
            Ok(plain(kept, to, range))
        }
        Type::Bool => Ok(plain(value, to, range)),
        Type::Int2 | Type::Int4 | Type::Int8 => Ok(plain(value, to, Interval::new(0.0, 1.0))),
        Type::Time => {
            let kept = keep_within(value, of_type(from), from)?;
            Ok(plain(kept, to, Interval::ALL))
        }
        Type::Uuid | Type::Interval | Type::Enum(_) | Type::Other { .. } => Err(
            Refusal::unsupported(reason::UNSUPPORTED_CAST, format!("a cast to {to:?}")),
        ),
    }
}

/// The cast itself, of a value that is in the target's range.
fn plain(value: Emitted, to: &Type, range: Interval) -> Emitted {
    Emitted {
        sql: sql::cast(value.sql, to),
        range,
        tiny: value.tiny && is_float(to),
        nodes: value.nodes + 1,
    }
}

fn to_integer(value: Emitted, from: &Type, to: &Type) -> Result<Emitted, Refusal> {
    // A float8 just below 2^63 rounds up to it: stay a little inside.
    let limit = if *to == Type::Int8 && is_float(from) {
        Interval::new(-9.2e18, 9.2e18)
    } else {
        of_type(to)
    };
    let kept = if integer_range(from).is_some() && value.range.within(limit) {
        value
    } else {
        keep_integer(value, limit, from)?
    };
    let range = of_cast(kept.range, from, to);
    Ok(plain(kept, to, range.clamp_to(of_type(to))))
}

/// To a numeric with a precision and a scale.
fn to_digits(
    value: Emitted,
    from: &Type,
    to: &Type,
    precision: i32,
    scale: i32,
) -> Result<Emitted, Refusal> {
    let whole = (precision - scale).min(30);
    let limit = beyond_digits(whole);
    // A value that rounds up to the limit is out of range.
    let step = 10f64.powi((-scale).max(0));
    let inside = value.range.lo > step - limit && value.range.hi < limit - step;
    let is_whole = scale >= 0 && integer_range(from).is_some();
    let kept = if inside || (is_whole && value.range.lo > -limit && value.range.hi < limit) {
        value
    } else {
        within_digits(value, whole, scale, from)?
    };
    let range = of_cast(kept.range, from, to);
    Ok(plain(kept, to, range))
}

fn to_float8(value: Emitted, from: &Type) -> Result<Emitted, Refusal> {
    let kept = keep_within(value, Interval::new(-FLOAT_MAX, FLOAT_MAX), from)?;
    // A numeric too small for float8 raises an error instead of becoming zero. A numeric with few
    // decimals is never that small.
    let may_be_tiny =
        matches!(from, Type::Numeric(digits) if digits.is_none_or(|(_, scale)| scale > 100));
    let kept = if may_be_tiny {
        flushed_to(kept, &Type::Numeric(None))?
    } else {
        kept
    };
    let range = kept.range;
    Ok(Emitted {
        tiny: integer_range(from).is_none(),
        ..plain(kept, &Type::Float8, range)
    })
}

/// Cast through float8, where values too small for float4 are replaced by zero.
fn to_float4(value: Emitted, from: &Type) -> Result<Emitted, Refusal> {
    let wide = cast(value, from, &Type::Float8)?;
    let kept = keep_within(wide, Interval::new(-FLOAT4_MAX, FLOAT4_MAX), &Type::Float8)?;
    let kept = flushed_above(kept, FLOAT4_TINY)?;
    // 2147483647 becomes 2147483648.
    let range = Interval::new(
        f64::from(kept.range.lo as f32),
        f64::from(kept.range.hi as f32),
    );
    Ok(Emitted {
        tiny: true,
        ..plain(kept, &Type::Float4, range)
    })
}
