//! Ranges that guards rely on.
//!
//! # Guarantee
//! For operands within their intervals, PostgreSQL's result lies in the interval that is returned,
//! in exact arithmetic and with PostgreSQL's own roundings. A guard that is left out because of
//! such a range could never have met a row. Whether a statement can fail rests on this; noise does
//! not.
//!
//! The values are numerics, eight-byte integers and timestamps, and a float8 does not hold all of
//! these exactly. So an end stays as computed only where the computation is exact, and moves a
//! little outward everywhere else. [`interval`] and [`range`](super::range) compute the ends; a
//! range that only chooses a clip uses them as they are. An interval of time counts as the sum of
//! the sizes of its months, days and microseconds, whatever their signs: 40 days minus a month are
//! ten days, but the field of days holds 40, and the fields are added to an instant one after the
//! other.

use super::interval;
use super::interval::{Interval, MICROS_PER_DAY, of_type};
use super::range;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::{integer_range, interval_reach};
use crate::policy::Scalar;

/// Share of an end's magnitude by which it may be wrong: a few roundings of a float8, and the
/// digits to which PostgreSQL rounds a quotient, a root or a logarithm (16 at least).
const SLACK: f64 = 1e-12;

/// Whether a whole number is so small that float8s hold its neighbours too: sums, differences and
/// products of such numbers are exact while they stay so small.
fn is_whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < 9e15
}

fn of_whole(range: Interval) -> bool {
    is_whole(range.lo) && is_whole(range.hi)
}

/// The range with the next float8 at both ends.
fn with_neighbours(range: Interval) -> Interval {
    Interval::new(range.lo.next_down(), range.hi.next_up())
}

fn further(range: Interval) -> Interval {
    with_neighbours(range.widen(SLACK))
}

/// The range of values after they are rounded to four bytes.
fn in_four_bytes(range: Interval) -> Interval {
    let is_exact = |value: f64| f64::from(value as f32) == value;
    Interval {
        lo: if is_exact(range.lo) {
            range.lo
        } else {
            (range.lo as f32).next_down().into()
        },
        hi: if is_exact(range.hi) {
            range.hi
        } else {
            (range.hi as f32).next_up().into()
        },
    }
}

/// The range of a constant of a type: a point only if a float8 represents the constant exactly.
pub fn of_constant(constant: &Scalar, data_type: &Type) -> Interval {
    let near = interval::of_constant(constant);
    let held = |is_held: bool| if is_held { near } else { with_neighbours(near) };
    let found = match constant {
        Scalar::Interval {
            months,
            days,
            micros,
        } => {
            let reach = interval_reach(*months, *days, *micros);
            further(Interval::new(-reach, reach))
        }
        Scalar::Decimal(_) if *data_type == Type::Float8 => {
            interval::scalar(constant).map_or(near, Interval::point)
        }
        Scalar::Decimal(text) => held(is_whole_decimal(text)),
        Scalar::Int(value) | Scalar::Timestamp(value) => {
            held(*value as f64 as i128 == i128::from(*value))
        }
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Date(_) => near,
    };
    if *data_type == Type::Float4 {
        in_four_bytes(found)
    } else {
        found
    }
}

/// Whether a decimal is a whole number that a float8 represents exactly.
fn is_whole_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    fraction.bytes().all(|digit| digit == b'0')
        && whole
            .parse::<i64>()
            .is_ok_and(|value| value.unsigned_abs() < 1 << 53)
}

/// The range of a function's values, from the ranges of its arguments; before any clamp, as in
/// [`interval::apply`].
pub fn of_call(function: Function, arguments: &[Interval], result: &Type) -> Interval {
    let found = interval::apply(function, arguments, result);
    if *result == Type::Interval {
        let reach = further(found).magnitude();
        return Interval::new(-reach, reach);
    }
    if takes_ends(function, result)
        || (of_whole(found)
            && arguments.iter().copied().all(of_whole)
            && keeps_whole(function, result))
    {
        return found;
    }
    let wider = match function {
        // Rounded to digits after it was divided by a power of ten that is no float8.
        Function::TruncateTo | Function::RoundTo => {
            let wider: Vec<Interval> = arguments
                .iter()
                .enumerate()
                .map(|(at, a)| if at == 0 { further(*a) } else { *a })
                .collect();
            further(interval::apply(function, &wider, result))
        }
        Function::Divide | Function::Quotient
            if integer_range(result).is_some() || function == Function::Quotient =>
        {
            let wider = further(found);
            Interval::new(wider.lo.floor(), wider.hi.ceil())
        }
        _ => further(found),
    };
    match result {
        // A function that moves a day or an instant brings it back into the calendar.
        Type::Date | Type::Timestamp | Type::Timestamptz if found.within(of_type(result)) => {
            wider.clamp_to(of_type(result))
        }
        Type::Float4 => in_four_bytes(wider),
        // PostgreSQL computes these in the type; sums and products may be computed in a wider one.
        Type::Int2 | Type::Int4 | Type::Int8
            if matches!(
                function,
                Function::Divide | Function::Modulo | Function::BitNot
            ) =>
        {
            wider.clamp_to(of_type(result))
        }
        _ => wider,
    }
}

/// Whether each end of the result's range is an end of an argument's range, an integer next to one,
/// or a constant.
fn takes_ends(function: Function, result: &Type) -> bool {
    use Function as F;
    let is_remainder = function == F::Modulo && integer_range(result).is_none();
    is_remainder
        || matches!(
            function,
            F::Negate
                | F::Abs
                | F::Sign
                | F::Floor
                | F::Ceiling
                | F::Round
                | F::Truncate
                | F::Coalesce
                | F::Greatest
                | F::Least
                | F::NullIf
                | F::TrimScale
                | F::Gcd
                | F::BitAnd
                | F::BitOr
                | F::BitXor
                | F::ShiftLeft
                | F::ShiftRight
                | F::Factorial
                | F::Sine
                | F::Cosine
                | F::Tanh
                | F::ArcSine
                | F::ArcCosine
                | F::ArcTangent
                | F::ArcTangent2
                | F::SineOfDegrees
                | F::CosineOfDegrees
        )
}

/// Whether a function gives whole numbers for whole numbers, so that its range's ends are exact.
fn keeps_whole(function: Function, result: &Type) -> bool {
    use Function as F;
    match function {
        F::Divide
        | F::SquareRoot
        | F::CubeRoot
        | F::NaturalLog
        | F::Log10
        | F::LogBase
        | F::Exponential
        | F::Power => integer_range(result).is_some(),
        F::Degrees | F::Radians | F::Sinh | F::Cosh | F::ArcSinh | F::ArcCosh | F::ArcTanh => false,
        _ => *result != Type::Float4,
    }
}

/// The interval of a cast's result, as [`range::cast`].
pub fn of_cast(from: Interval, source: &Type, target: &Type) -> Interval {
    let found = range::cast(from, source, target);
    match (source, target) {
        (Type::Timestamp | Type::Timestamptz, Type::Date) => {
            let day = |micros: f64| (micros as i64).div_euclid(MICROS_PER_DAY) as f64;
            Interval::new(day(from.lo), day(from.hi))
        }
        (_, Type::Numeric(Some((_, scale)))) if *scale < 0 || !of_whole(from) => further(found),
        (_, Type::Numeric(Some(_))) => from.clamp_to(of_type(target)),
        _ => found,
    }
}

/// The interval of a field of a date, timestamp or interval, as [`interval::date_part`].
pub fn of_field(field: &str, operand: Interval, data_type: &Type) -> Interval {
    let found = interval::date_part(field, operand, data_type);
    let of_seconds = |micros: f64| is_whole(micros) && micros % 1e6 == 0.0;
    let is_exact = field != "epoch"
        || *data_type == Type::Date
        || (of_seconds(operand.lo) && of_seconds(operand.hi));
    if is_exact { found } else { further(found) }
}

#[cfg(test)]
mod tests;
