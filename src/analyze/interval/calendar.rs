//! Intervals of dates, timestamps and intervals of time, and of their fields.

use super::{Interval, MICROS_PER_DAY, multiply, of_type, outward};
use crate::catalog::Type;
use crate::ir::functions::Function;

/// Dates and timestamps that are moved or made, and the times between them.
pub(super) fn moment(function: Function, a: Interval, b: Interval, result: &Type) -> Interval {
    use Function as F;
    let limit = of_type(result);
    let day = MICROS_PER_DAY as f64;
    match function {
        // Brought back to years 1 to 9999, whatever is added.
        F::DatePlusDays | F::Later => within(a.lo + b.lo, a.hi + b.hi, limit),
        F::DateMinusDays | F::Earlier => within(a.lo - b.hi, a.hi - b.lo, limit),
        F::TimesInterval => multiply(a, b),
        // Years and months count for more or less than the days in them.
        F::Age => {
            let span = Interval::new(a.lo - b.hi, a.hi - b.lo);
            let slack = |v: f64| v.abs() * 0.04 + 2.0 * day;
            Interval::new(span.lo - slack(span.lo), span.hi + slack(span.hi))
        }
        F::AtZone => Interval::new(b.lo - day, b.hi + day),
        // `40 days - 1 month` still has 40 in its field of days, so magnitudes are added.
        F::AddIntervals | F::SubtractIntervals => {
            let reach = a.magnitude() + b.magnitude();
            Interval::new(-reach, reach)
        }
        F::NegateInterval => Interval::new(-a.hi, -a.lo),
        // Thirty days become a month of up to 31, and a day may have 25 hours.
        F::JustifyDays | F::JustifyHours | F::JustifyInterval => {
            let slack = |v: f64| v.abs() * 0.2 + 2.0 * day;
            Interval::new(a.lo - slack(a.lo), a.hi + slack(a.hi))
        }
        // The start of the step that the instant lies in.
        F::AtTime => within(a.lo * day, (a.hi + 1.0) * day, limit),
        F::TimeBetween => Interval::new(-day, day),
        F::DateBin => within(b.lo - a.hi, b.hi, limit),
        F::FromEpoch => {
            let micros = |seconds: f64| (seconds - 946_684_800.0) * 1e6;
            within(micros(a.lo) - 1e6, micros(a.hi) + 1e6, limit)
        }
        _ => limit,
    }
}

fn within(lo: f64, hi: f64, limit: Interval) -> Interval {
    let clamp = |v: f64, otherwise: f64| {
        if v.is_nan() {
            otherwise
        } else {
            v.clamp(limit.lo, limit.hi)
        }
    };
    Interval::new(clamp(lo, limit.lo), clamp(hi, limit.hi))
}

/// The year of a date in days, or of a timestamp in microseconds; no further than the calendar's
/// arithmetic goes.
fn year(value: f64, data_type: &Type) -> i32 {
    let per_day = if *data_type == Type::Date {
        1.0
    } else {
        MICROS_PER_DAY as f64
    };
    crate::calendar::civil_from_days((value / per_day).floor().clamp(-1e7, 1e7) as i32).0
}

/// The interval of a field of a date, timestamp or interval; [`Interval::ALL`] where nothing is
/// known.
pub fn date_part(field: &str, operand: Interval, data_type: &Type) -> Interval {
    if *data_type == Type::Interval {
        return interval_part(field, operand);
    }
    if *data_type == Type::Time {
        // The last instant of a day may be written 24:00.
        return match field {
            "hour" => Interval::new(0.0, 24.0),
            "epoch" => Interval::new(0.0, 86_400.0),
            _ => date_part(field, Interval::ALL, &Type::Timestamp),
        };
    }
    // So far from 2000 a float8 does not represent every microsecond, so a year is added on either
    // side. The ISO year differs from the calendar's by one at most.
    let is_exact = operand.magnitude() < 9e15 && field != "isoyear";
    let slack = if is_exact { 0.0 } else { 1.0 };
    let years = operand.is_finite().then(|| {
        (
            f64::from(year(operand.lo, data_type)),
            f64::from(year(operand.hi, data_type)),
        )
    });
    let by_years = |length: f64| match years {
        Some((first, last)) if length <= 10.0 => Interval::new(
            ((first - slack) / length).floor(),
            ((last + slack) / length).floor(),
        ),
        Some((first, last)) => Interval::new(
            ((first - slack) / length).ceil(),
            ((last + slack) / length).ceil(),
        ),
        None => Interval::new(-1.0, 10_000.0 / length + 1.0),
    };
    match field {
        "year" | "isoyear" => by_years(1.0),
        "decade" => by_years(10.0),
        "century" => by_years(100.0),
        "millennium" => by_years(1000.0),
        "quarter" => Interval::new(1.0, 4.0),
        "month" => Interval::new(1.0, 12.0),
        "week" => Interval::new(1.0, 53.0),
        "day" => Interval::new(1.0, 31.0),
        "hour" => Interval::new(0.0, 23.0),
        "minute" => Interval::new(0.0, 59.0),
        "second" => Interval::new(0.0, 60.0),
        "millisecond" => Interval::new(0.0, 60_000.0),
        "microsecond" => Interval::new(0.0, 6e7),
        "dow" => Interval::new(0.0, 6.0),
        "isodow" => Interval::new(1.0, 7.0),
        "doy" => Interval::new(1.0, 366.0),
        // The offset is added before the division: near 1970 both terms nearly cancel, and a
        // rounded quotient would lose digits.
        "epoch" if *data_type == Type::Date => outward(
            operand.lo * 86_400.0 + 946_684_800.0,
            operand.hi * 86_400.0 + 946_684_800.0,
        ),
        "epoch" => outward(
            (operand.lo + 946_684_800e6) / 1e6,
            (operand.hi + 946_684_800e6) / 1e6,
        ),
        _ => Interval::ALL,
    }
}

/// The range of a field of an interval whose microseconds lie in `span`.
fn interval_part(field: &str, span: Interval) -> Interval {
    if !span.is_finite() {
        return Interval::ALL;
    }
    let by = |micros: f64| {
        Interval::new(
            (span.lo / micros).floor().min(0.0),
            (span.hi / micros).ceil().max(0.0),
        )
    };
    let day = MICROS_PER_DAY as f64;
    match field {
        "epoch" => outward(span.lo / 1e6, span.hi / 1e6),
        "year" => by(360.0 * day),
        "decade" | "century" | "millennium" => by(3600.0 * day),
        "quarter" => Interval::new(-4.0, 4.0),
        "month" => Interval::new(-11.0, 11.0),
        "day" => by(23.0 * 3.6e9),
        "hour" => by(3.6e9),
        "minute" => Interval::new(-59.0, 59.0),
        "second" => Interval::new(-60.0, 60.0),
        "millisecond" => Interval::new(-60_000.0, 60_000.0),
        "microsecond" => Interval::new(-6e7, 6e7),
        _ => Interval::ALL,
    }
}
