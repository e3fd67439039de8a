//! Closed intervals of numbers, and what each function makes of them. Dates count in days, timestamps in microseconds from 2000-01-01.

use crate::catalog::Type;
use crate::policy::Scalar;
use crate::resolve::catalogue::Function;
use crate::resolve::literal::integer_range;

/// Magnitude to which numeric values without tighter bounds are clamped at the scan and after operations that may leave it.
pub const NUMERIC_MAX: f64 = 1e30;
/// The same for float8.
pub const FLOAT_MAX: f64 = 1e100;
/// 0001-01-01 and 9999-12-31 in days from 2000-01-01.
pub const DAYS: (i32, i32) = (-730_119, 2_921_939);
pub const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Every number from `lo` to `hi`, both included; infinite ends mean that nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub lo: f64,
    pub hi: f64,
}

impl Interval {
    pub const ALL: Self = Self { lo: f64::NEG_INFINITY, hi: f64::INFINITY };

    pub fn new(lo: f64, hi: f64) -> Self {
        Self { lo, hi }
    }

    pub fn point(value: f64) -> Self {
        Self { lo: value, hi: value }
    }

    pub fn is_finite(self) -> bool {
        self.lo.is_finite() && self.hi.is_finite()
    }

    pub fn contains(self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    pub fn within(self, outer: Self) -> bool {
        outer.lo <= self.lo && self.hi <= outer.hi
    }

    /// Smallest interval that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    /// Values in both; where there are none, `self` (an empty relation clips to anything).
    pub fn meet(self, other: Self) -> Self {
        let met = Self { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) };
        if met.lo <= met.hi { met } else { self }
    }

    pub fn magnitude(self) -> f64 {
        self.lo.abs().max(self.hi.abs())
    }

    fn corners(self, other: Self, op: impl Fn(f64, f64) -> f64) -> Self {
        let all = [op(self.lo, other.lo), op(self.lo, other.hi), op(self.hi, other.lo), op(self.hi, other.hi)];
        if all.iter().any(|v| v.is_nan()) {
            return Self::ALL;
        }
        outward(all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }
}

/// Widens by one unit in the last place unless both ends are exact integers.
fn outward(lo: f64, hi: f64) -> Interval {
    let exact = |v: f64| v.fract() == 0.0 && v.abs() < 9e15;
    Interval { lo: if exact(lo) { lo } else { lo.next_down() }, hi: if exact(hi) { hi } else { hi.next_up() } }
}

/// A constant as a number.
pub fn scalar(value: &Scalar) -> Option<f64> {
    match value {
        Scalar::Int(value) => Some(*value as f64),
        Scalar::Decimal(text) => text.parse().ok(),
        Scalar::Date(days) => Some(f64::from(*days)),
        Scalar::Timestamp(micros) => Some(*micros as f64),
        Scalar::Bool(_) | Scalar::Text(_) => None,
    }
}

/// What a stored value of this type may be after the scan's own clamp.
pub fn of_type(data_type: &Type) -> Interval {
    match data_type {
        Type::Int2 | Type::Int4 | Type::Int8 => integer_range(data_type).map_or(Interval::ALL, |(lo, hi)| Interval::new(lo as f64, hi as f64)),
        Type::Numeric(Some((precision, scale))) if i32::from(*precision) - i32::from(*scale) <= 30 => {
            let limit = 10f64.powi(i32::from(*precision) - i32::from(*scale));
            Interval::new(-limit, limit)
        }
        Type::Numeric(_) => Interval::new(-NUMERIC_MAX, NUMERIC_MAX),
        Type::Float4 | Type::Float8 => Interval::new(-FLOAT_MAX, FLOAT_MAX),
        Type::Date => Interval::new(f64::from(DAYS.0), f64::from(DAYS.1)),
        Type::Timestamp | Type::Timestamptz => {
            let micros = |days: i32| days as f64 * MICROS_PER_DAY as f64;
            Interval::new(micros(DAYS.0), micros(DAYS.1 + 1))
        }
        Type::Bool | Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Uuid | Type::Interval | Type::Other { .. } => Interval::ALL,
    }
}

/// The result's interval before any clamp, from the arguments' intervals. NULL results are not numbers and do not count.
pub fn apply(function: Function, arguments: &[Interval], result: &Type) -> Interval {
    use Function as F;
    let a = arguments.first().copied().unwrap_or(Interval::ALL);
    let b = arguments.get(1).copied().unwrap_or(Interval::ALL);
    match function {
        F::Among => Interval::ALL,
        F::Add => outward(a.lo + b.lo, a.hi + b.hi),
        F::Subtract | F::DateDifference => outward(a.lo - b.hi, a.hi - b.lo),
        // Brought back to years 1 to 9999, whatever is added.
        F::DatePlusDays => dates(a.lo + b.lo, a.hi + b.hi),
        F::DateMinusDays => dates(a.lo - b.hi, a.hi - b.lo),
        F::Multiply => multiply(a, b),
        F::Divide => divide(a, b, result),
        F::Modulo => modulo(a, b),
        F::Negate => Interval::new(-a.hi, -a.lo),
        F::Abs => Interval::new(if a.contains(0.0) { 0.0 } else { a.lo.abs().min(a.hi.abs()) }, a.magnitude()),
        F::Sign => Interval::new(-1.0, 1.0),
        F::Floor => Interval::new(a.lo.floor(), a.hi.floor()),
        F::Ceiling => Interval::new(a.lo.ceil(), a.hi.ceil()),
        F::Round | F::Truncate => Interval::new(a.lo.floor(), a.hi.ceil()),
        // To -2 digits, 151 becomes 200 or 100.
        F::RoundTo | F::TruncateTo => {
            let unit = 10f64.powf((-b.lo).clamp(0.0, 300.0)).max(1.0);
            if b.lo.is_finite() { outward((a.lo / unit).floor() * unit, (a.hi / unit).ceil() * unit) } else { Interval::ALL }
        }
        F::SquareRoot => outward(a.lo.max(0.0).sqrt(), a.hi.max(0.0).sqrt()),
        // The smallest positive float8 is above 1e-324, the smallest numeric that a scan lets through is 1e-16 or its own scale.
        F::NaturalLog => outward(if a.lo > 0.0 { a.lo.ln() } else { -38_000.0 }, a.hi.max(1e-300).ln()),
        F::Log10 => outward(if a.lo > 0.0 { a.lo.log10() } else { -17_000.0 }, a.hi.max(1e-300).log10()),
        F::WidthBucket => match arguments.get(3) {
            Some(count) => Interval::new(0.0, count.hi + 1.0),
            None => Interval::ALL,
        },
        F::Coalesce | F::Greatest | F::Least => arguments.iter().copied().reduce(Interval::hull).unwrap_or(Interval::ALL),
        F::NullIf => a,
        F::Length | F::Position => Interval::new(0.0, 1e6),
        F::Extract | F::DatePart => Interval::new(-1e6, 1e6),
        F::DateTrunc => Interval::new(a.lo - 400.0 * MICROS_PER_DAY as f64, a.hi),
        F::And | F::Or | F::Not | F::IsNull | F::IsNotNull | F::IsTrue | F::IsNotTrue | F::IsFalse | F::IsNotFalse => Interval::ALL,
        F::IsDistinctFrom | F::IsNotDistinctFrom | F::In | F::Like | F::ILike => Interval::ALL,
        F::Equal | F::NotEqual | F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual => Interval::ALL,
        F::Lower | F::Upper | F::Trim | F::TrimLeft | F::TrimRight | F::Left | F::Right | F::Substring | F::SubstringFor => Interval::ALL,
    }
}

fn dates(lo: f64, hi: f64) -> Interval {
    let (first, last) = (f64::from(DAYS.0), f64::from(DAYS.1));
    Interval::new(if lo.is_nan() { first } else { lo.clamp(first, last) }, if hi.is_nan() { last } else { hi.clamp(first, last) })
}

/// The year of a date in days, or of a timestamp in microseconds; no further than the calendar's arithmetic goes.
pub fn year(value: f64, data_type: &Type) -> i32 {
    let per_day = if *data_type == Type::Date { 1.0 } else { MICROS_PER_DAY as f64 };
    crate::resolve::literal::civil_from_days((value / per_day).floor().clamp(-1e7, 1e7) as i32).0
}

fn multiply(a: Interval, b: Interval) -> Interval {
    a.corners(b, |x, y| if x == 0.0 || y == 0.0 { 0.0 } else { x * y })
}

fn divide(a: Interval, b: Interval, result: &Type) -> Interval {
    let integer = integer_range(result).is_some();
    if b.contains(0.0) {
        // A non-zero integer divisor has magnitude at least 1; any other may be as small as the clamp allows.
        let reach = if integer { a.magnitude() } else { f64::INFINITY };
        return Interval::new(-reach, reach);
    }
    let quotient = a.corners(b, |x, y| x / y);
    if integer { Interval::new(quotient.lo.trunc().min(quotient.lo), quotient.hi) } else { quotient }
}

fn modulo(a: Interval, b: Interval) -> Interval {
    let reach = a.magnitude().min(b.magnitude());
    Interval::new(if a.lo >= 0.0 { 0.0 } else { -reach }, if a.hi <= 0.0 { 0.0 } else { reach })
}

/// The interval of a date part, where it is narrower than its type.
pub fn date_part(field: &str, years: Option<(i32, i32)>) -> Interval {
    match field {
        "year" | "isoyear" => match years {
            Some((first, last)) => Interval::new(f64::from(first - 1), f64::from(last + 1)),
            None => Interval::new(0.0, 10_000.0),
        },
        "quarter" => Interval::new(1.0, 4.0),
        "month" => Interval::new(1.0, 12.0),
        "week" => Interval::new(1.0, 53.0),
        "day" => Interval::new(1.0, 31.0),
        "hour" => Interval::new(0.0, 23.0),
        "minute" => Interval::new(0.0, 59.0),
        "second" => Interval::new(0.0, 60.0),
        "dow" => Interval::new(0.0, 6.0),
        "isodow" => Interval::new(1.0, 7.0),
        "doy" => Interval::new(1.0, 366.0),
        _ => Interval::new(-1e6, 1e6),
    }
}
