//! Closed intervals of numbers, and the interval of each function's results. Dates count in days,
//! timestamps in microseconds from 2000-01-01.

mod calendar;

pub use crate::calendar::{DAYS, MICROS_PER_DAY};
use crate::catalog::Type;
use crate::ir::functions::Function;
pub use crate::ir::interval::Interval;
pub use crate::ir::literal::as_number as scalar;
use crate::ir::literal::{integer_range, interval_reach};
use crate::policy::Scalar;
use crate::resolve::TEXT_MAX;
pub use calendar::date_part;
use calendar::moment;

/// Magnitude to which numeric values without tighter bounds are clamped at the scan and after
/// operations that may leave it.
pub const NUMERIC_MAX: f64 = 1e30;
/// Magnitude to which float8 values without tighter bounds are clamped, where numeric values are
/// clamped to [`NUMERIC_MAX`].
pub const FLOAT_MAX: f64 = 1e100;

impl Interval {
    fn corners(self, other: Self, op: impl Fn(f64, f64) -> f64) -> Self {
        let all = [
            op(self.lo, other.lo),
            op(self.lo, other.hi),
            op(self.hi, other.lo),
            op(self.hi, other.hi),
        ];
        if all.iter().any(|v| v.is_nan()) {
            return Self::ALL;
        }
        outward(
            all.iter().copied().fold(f64::INFINITY, f64::min),
            all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        )
    }
}

/// Widens by one unit in the last place unless both ends are exact integers.
fn outward(lo: f64, hi: f64) -> Interval {
    let exact = |v: f64| v.fract() == 0.0 && v.abs() < 9e15;
    Interval {
        lo: if exact(lo) { lo } else { lo.next_down() },
        hi: if exact(hi) { hi } else { hi.next_up() },
    }
}

/// The interval of a constant: for a number a point, for an interval of time the microseconds that
/// it may amount to.
pub fn of_constant(value: &Scalar) -> Interval {
    match value {
        // Parts of different signs count with their full length, whatever their sum is.
        Scalar::Interval {
            months,
            days,
            micros,
        } if (*months < 0 || *days < 0 || *micros < 0)
            && (*months > 0 || *days > 0 || *micros > 0) =>
        {
            let reach = interval_reach(*months, *days, *micros);
            Interval::new(-reach, reach)
        }
        Scalar::Interval {
            months,
            days,
            micros,
        } => {
            let hours = |days: f64, per: [f64; 2]| {
                Interval::new(
                    (days * per[0]).min(days * per[1]),
                    (days * per[0]).max(days * per[1]),
                )
            };
            let months = hours(f64::from(*months), [28.0 * 23.0, 31.0 * 25.0]);
            let days = hours(f64::from(*days), [23.0, 25.0]);
            let of = |hours: f64| hours * 3.6e9 + *micros as f64;
            Interval::new(of(months.lo + days.lo), of(months.hi + days.hi))
        }
        other => scalar(other).map_or(Interval::ALL, |value| {
            if is_near(other, value) {
                Interval::point(value)
            } else {
                Interval::new(value.next_down(), value.next_up())
            }
        }),
    }
}

/// A float8 distinguishes the constant from all others of its kind: integers as they are, decimals
/// of no more than 15 digits.
fn is_near(constant: &Scalar, value: f64) -> bool {
    match constant {
        Scalar::Int(exact) => value as i128 == i128::from(*exact),
        Scalar::Decimal(text) => text.replace(['-', '.'], "").trim_matches('0').len() <= 15,
        Scalar::Bool(_)
        | Scalar::Text(_)
        | Scalar::Date(_)
        | Scalar::Timestamp(_)
        | Scalar::Interval { .. } => true,
    }
}

/// The smallest float8 that is no less than every number of this many digits before the point, of
/// at most 30.
pub fn beyond_digits(whole: i32) -> f64 {
    let near = 10f64.powi(whole);
    let power = 10u128.pow(whole.clamp(0, 30).unsigned_abs());
    if whole > 0 && (near as u128) < power {
        near.next_up()
    } else {
        near
    }
}

/// The interval of a stored value of this type, after the scan's own clamp.
pub fn of_type(data_type: &Type) -> Interval {
    match data_type {
        Type::Int2 | Type::Int4 | Type::Int8 => integer_range(data_type)
            .map_or(Interval::ALL, |(lo, hi)| {
                Interval::new(lo as f64, hi as f64)
            }),
        Type::Numeric(Some((precision, scale)))
            if i32::from(*precision) - i32::from(*scale) <= 30 =>
        {
            let limit = beyond_digits(i32::from(*precision) - i32::from(*scale));
            Interval::new(-limit, limit)
        }
        Type::Numeric(_) => Interval::new(-NUMERIC_MAX, NUMERIC_MAX),
        Type::Float4 | Type::Float8 => Interval::new(-FLOAT_MAX, FLOAT_MAX),
        Type::Date => Interval::new(f64::from(DAYS.0), f64::from(DAYS.1)),
        Type::Timestamp | Type::Timestamptz => {
            let micros = |days: i32| days as f64 * MICROS_PER_DAY as f64;
            Interval::new(micros(DAYS.0), micros(DAYS.1 + 1))
        }
        Type::Bool
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Interval => Interval::ALL,
        Type::Time | Type::Enum(_) | Type::Other { .. } => Interval::ALL,
    }
}

/// The result's interval before any clamp, from the arguments' intervals.
///
/// # Guarantee
/// Where each argument lies in its interval, a result lies in the interval that is returned.
/// [`Interval::ALL`] promises nothing. NULL results are not numbers and do not count.
#[allow(clippy::too_many_lines, reason = "one arm for each function")]
pub fn apply(function: Function, arguments: &[Interval], result: &Type) -> Interval {
    use Function as F;
    let a = arguments.first().copied().unwrap_or(Interval::ALL);
    let b = arguments.get(1).copied().unwrap_or(Interval::ALL);
    match function {
        F::Add => outward(a.lo + b.lo, a.hi + b.hi),
        F::Subtract | F::DateDifference | F::Elapsed => outward(a.lo - b.hi, a.hi - b.lo),
        F::Multiply => multiply(a, b),
        F::Divide | F::Quotient => divide(a, b, integer_range(result).is_some(), function),
        F::Modulo => modulo(a, b, integer_range(result).is_some()),
        F::Negate => Interval::new(-a.hi, -a.lo),
        F::Abs => Interval::new(
            if a.contains(0.0) {
                0.0
            } else {
                a.lo.abs().min(a.hi.abs())
            },
            a.magnitude(),
        ),
        F::Sign => Interval::new(-1.0, 1.0),
        F::Floor => Interval::new(a.lo.floor(), a.hi.floor()),
        F::Ceiling => Interval::new(a.lo.ceil(), a.hi.ceil()),
        F::Scale | F::MinScale => Interval::new(0.0, 16_383.0),
        F::Gcd => Interval::new(0.0, a.magnitude().max(b.magnitude())),
        F::Lcm => Interval::new(0.0, a.magnitude() * b.magnitude()),
        F::Factorial => Interval::new(1.0, 1e30),
        F::CountNulls | F::CountNonNulls => Interval::new(0.0, arguments.len() as f64),
        F::Thresholds => Interval::new(0.0, arguments.len().saturating_sub(1) as f64),
        F::Round | F::Truncate => Interval::new(a.lo.floor(), a.hi.ceil()),
        // To -2 digits, 151 becomes 200 or 100.
        F::RoundTo | F::TruncateTo => {
            let unit = 10f64.powf((-b.lo).clamp(-15.0, 300.0));
            if b.lo.is_finite() {
                outward((a.lo / unit).floor() * unit, (a.hi / unit).ceil() * unit)
            } else {
                Interval::ALL
            }
        }
        F::BitAnd | F::BitOr | F::BitXor | F::BitNot | F::ShiftLeft | F::ShiftRight => {
            bits(function, a, b, result)
        }
        F::WidthBucket => match arguments.get(3) {
            Some(count) => Interval::new(0.0, count.hi + 1.0),
            None => Interval::ALL,
        },
        F::Coalesce | F::Greatest | F::Least => arguments
            .iter()
            .copied()
            .reduce(Interval::hull)
            .unwrap_or(Interval::ALL),
        F::NullIf | F::TrimScale => a,
        F::SquareRoot
        | F::CubeRoot
        | F::NaturalLog
        | F::Log10
        | F::LogBase
        | F::Exponential
        | F::Power => curve(function, a, b),
        F::Sine
        | F::Cosine
        | F::Tangent
        | F::Cotangent
        | F::ArcSine
        | F::ArcCosine
        | F::ArcTangent
        | F::ArcTangent2
        | F::Degrees
        | F::Radians => angle(function, a),
        F::Sinh | F::Cosh | F::Tanh | F::ArcSinh | F::ArcCosh | F::ArcTanh => {
            hyperbola(function, a)
        }
        F::SineOfDegrees | F::CosineOfDegrees => Interval::new(-1.0, 1.0),
        F::TangentOfDegrees | F::CotangentOfDegrees => Interval::ALL,
        F::ArcSineInDegrees
        | F::ArcCosineInDegrees
        | F::ArcTangentInDegrees
        | F::ArcTangent2InDegrees => Interval::new(-180.0, 180.0),
        F::DatePlusDays
        | F::DateMinusDays
        | F::Later
        | F::Earlier
        | F::TimesInterval
        | F::Age
        | F::AtZone
        | F::FromEpoch
        | F::MakeDate => moment(function, a, b, result),
        F::MakeTimestamp
        | F::DateBin
        | F::AddIntervals
        | F::SubtractIntervals
        | F::NegateInterval => moment(function, a, b, result),
        F::JustifyDays | F::JustifyHours | F::JustifyInterval | F::AtTime | F::TimeBetween => {
            moment(function, a, b, result)
        }
        F::MakeTime | F::TimeLater | F::TimeEarlier => Interval::ALL,
        F::DateTrunc => Interval::new(a.lo - 366_000.0 * MICROS_PER_DAY as f64, a.hi),
        F::Extract | F::DatePart => Interval::ALL,
        // The text was cut before.
        F::Length => Interval::new(0.0, f64::from(TEXT_MAX)),
        F::Position | F::CountMatching => Interval::new(0.0, f64::from(TEXT_MAX) + 1.0),
        F::OctetLength => Interval::new(0.0, 16_384.0),
        F::BitLength => Interval::new(0.0, 131_072.0),
        F::Ascii => Interval::new(0.0, 1_114_111.0),
        F::And
        | F::Or
        | F::Not
        | F::IsNull
        | F::IsNotNull
        | F::IsTrue
        | F::IsNotTrue
        | F::IsFalse
        | F::IsNotFalse => Interval::ALL,
        F::IsDistinctFrom
        | F::IsNotDistinctFrom
        | F::In
        | F::Among
        | F::Like
        | F::ILike
        | F::SimilarTo
        | F::Matches
        | F::MatchesInsensitive => Interval::ALL,
        F::Equal
        | F::NotEqual
        | F::Less
        | F::LessOrEqual
        | F::Greater
        | F::GreaterOrEqual
        | F::Overlaps
        | F::StartsWith
        | F::IsFinite => Interval::ALL,
        F::Lower
        | F::Upper
        | F::Initcap
        | F::Trim
        | F::TrimLeft
        | F::TrimRight
        | F::Left
        | F::Right
        | F::Substring
        | F::SubstringFor => Interval::ALL,
        F::SubstringMatching
        | F::ReplaceMatching
        | F::Replace
        | F::Translate
        | F::SplitPart
        | F::PadLeft
        | F::PadRight
        | F::Repeat => Interval::ALL,
        F::Reverse
        | F::Md5
        | F::Character
        | F::Formatted
        | F::Concatenate
        | F::Concat
        | F::ConcatSeparated => Interval::ALL,
        F::JsonField
        | F::JsonText
        | F::JsonPath
        | F::JsonPathText
        | F::JsonHas
        | F::JsonType
        | F::AnyElement
        | F::ReportBit
        | F::Element => Interval::ALL,
        F::JsonLength | F::Cardinality | F::ArrayLength => Interval::new(0.0, 134_217_727.0),
        F::ToHex | F::SubstringWhole | F::Overlay | F::OverlayFor => Interval::ALL,
    }
}

/// Roots, logarithms, exponentials and powers, all monotone where they are defined.
fn curve(function: Function, a: Interval, b: Interval) -> Interval {
    use Function as F;
    match function {
        F::SquareRoot => outward(a.lo.max(0.0).sqrt(), a.hi.max(0.0).sqrt()),
        F::CubeRoot => loose(a.lo.cbrt(), a.hi.cbrt()),
        // The smallest positive float8 is above 1e-324, the smallest numeric that a scan lets
        // through is 1e-16 or its own scale.
        F::NaturalLog => outward(
            if a.lo > 0.0 { a.lo.ln() } else { -38_000.0 },
            a.hi.max(1e-300).ln(),
        ),
        F::Log10 => outward(
            if a.lo > 0.0 { a.lo.log10() } else { -17_000.0 },
            a.hi.max(1e-300).log10(),
        ),
        F::LogBase => {
            let natural = curve(F::NaturalLog, b, b);
            let base = a.lo.ln();
            if a.lo == a.hi && base.is_finite() && base != 0.0 {
                natural.corners(Interval::point(base), |x, y| x / y)
            } else {
                Interval::ALL
            }
        }
        F::Exponential => loose(a.lo.exp(), a.hi.exp()),
        _ if b.lo == b.hi => power_of(a, b.lo),
        _ if a.lo == a.hi && a.lo > 0.0 => {
            let ends = [a.lo.powf(b.lo), a.lo.powf(b.hi)];
            loose(ends[0].min(ends[1]), ends[0].max(ends[1]))
        }
        _ => Interval::ALL,
    }
}

/// `x ^ exponent`. Even powers turn at zero; negative ones have a pole there.
fn power_of(a: Interval, exponent: f64) -> Interval {
    let is_whole = exponent.fract() == 0.0;
    let base = if is_whole {
        a
    } else {
        Interval::new(a.lo.max(0.0), a.hi.max(0.0))
    };
    if exponent < 0.0 && base.contains(0.0) {
        return Interval::ALL;
    }
    let ends = [base.lo.powf(exponent), base.hi.powf(exponent)];
    let (lo, hi) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let turns = base.contains(0.0) && exponent > 0.0 && exponent % 2.0 == 0.0;
    loose(if turns { 0.0 } else { lo }, hi)
}

/// A library's last digits may differ from another's.
fn loose(lo: f64, hi: f64) -> Interval {
    let wider = |v: f64| {
        if v.fract() == 0.0 && v.abs() < 9e15 {
            0.0
        } else {
            v.abs() * 1e-12
        }
    };
    Interval::new(lo - wider(lo), hi + wider(hi))
}

fn angle(function: Function, a: Interval) -> Interval {
    use Function as F;
    match function {
        F::Sine | F::Cosine => Interval::new(-1.0, 1.0),
        F::ArcSine | F::ArcCosine | F::ArcTangent | F::ArcTangent2 => Interval::new(-3.15, 3.15),
        F::Degrees => loose(a.lo.to_degrees(), a.hi.to_degrees()),
        F::Radians => loose(a.lo.to_radians(), a.hi.to_radians()),
        _ => Interval::ALL,
    }
}

fn hyperbola(function: Function, a: Interval) -> Interval {
    use Function as F;
    match function {
        F::Sinh => loose(a.lo.sinh(), a.hi.sinh()),
        F::Cosh => loose(1.0, a.magnitude().cosh()),
        F::Tanh => Interval::new(-1.0, 1.0),
        F::ArcSinh => loose(a.lo.asinh(), a.hi.asinh()),
        F::ArcCosh => loose(0.0, a.hi.max(1.0).acosh()),
        // The function has poles at -1 and 1.
        _ => Interval::ALL,
    }
}

fn bits(function: Function, a: Interval, b: Interval, result: &Type) -> Interval {
    let whole = of_type(result);
    match function {
        Function::BitAnd if a.lo >= 0.0 && b.lo >= 0.0 => Interval::new(0.0, a.hi.min(b.hi)),
        Function::BitAnd if a.lo >= 0.0 => Interval::new(0.0, a.hi),
        Function::BitAnd if b.lo >= 0.0 => Interval::new(0.0, b.hi),
        Function::BitOr | Function::BitXor if a.lo >= 0.0 && b.lo >= 0.0 => {
            // One bit more than the larger of the two begins with: past 2^53 a float8 does not
            // distinguish 2^n - 1 from 2^n.
            let power = (a.hi.max(b.hi).log2().floor() + 1.0).exp2();
            Interval::new(0.0, power.min(whole.hi))
        }
        Function::BitNot => Interval::new(-a.hi - 1.0, -a.lo - 1.0),
        Function::ShiftRight if a.lo >= 0.0 => Interval::new(0.0, a.hi),
        _ => whole,
    }
}

fn multiply(a: Interval, b: Interval) -> Interval {
    a.corners(b, |x, y| if x == 0.0 || y == 0.0 { 0.0 } else { x * y })
}

fn divide(a: Interval, b: Interval, of_integers: bool, function: Function) -> Interval {
    if b.contains(0.0) {
        // A non-zero integer divisor has magnitude at least 1; any other may be as small as the
        // clamp allows.
        let reach = if of_integers {
            a.magnitude()
        } else {
            f64::INFINITY
        };
        return Interval::new(-reach, reach);
    }
    let quotient = a.corners(b, |x, y| x / y);
    if of_integers || function == Function::Quotient {
        Interval::new(
            quotient.lo.trunc().min(quotient.lo),
            quotient.hi.trunc().max(quotient.hi),
        )
    } else {
        quotient
    }
}

fn modulo(a: Interval, b: Interval, of_integers: bool) -> Interval {
    let reach = a.magnitude().min(if of_integers {
        (b.magnitude() - 1.0).max(0.0)
    } else {
        b.magnitude()
    });
    Interval::new(
        if a.lo >= 0.0 { 0.0 } else { -reach },
        if a.hi <= 0.0 { 0.0 } else { reach },
    )
}

#[cfg(test)]
mod tests;
