//! Dates, timestamps and intervals as constants. Times outside of the years 1 to 9999, as arguments
//! or results, are not evaluated.

use super::{NotEvaluable, Value};
use crate::calendar::{
    FROM_1970_US, MICROS_PER_DAY, civil_from_days, days_from_civil, days_in_month,
};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::{date, in_calendar, is_beyond};
use crate::policy::Scalar;

/// Longest format that is evaluated, in bytes.
const FORMAT_MAX: usize = 60;

fn instant(value: &Scalar) -> Result<i64, NotEvaluable> {
    match value {
        Scalar::Date(_) | Scalar::Timestamp(_) if is_beyond(value) => Err(NotEvaluable),
        Scalar::Date(day) => Ok(i64::from(*day) * MICROS_PER_DAY),
        Scalar::Timestamp(micros) => Ok(*micros),
        _ => Err(NotEvaluable),
    }
}

fn day_of(micros: i64) -> Result<i32, NotEvaluable> {
    i32::try_from(micros.div_euclid(MICROS_PER_DAY)).map_err(|_| NotEvaluable)
}

/// Refuses an instant outside the calendar's years.
fn within(micros: i64) -> Result<i64, NotEvaluable> {
    if in_calendar(micros) {
        Ok(micros)
    } else {
        Err(NotEvaluable)
    }
}

/// EXTRACT and date_part.
pub(super) fn date_part(values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    let [Scalar::Text(field), operand] = values else {
        return Err(NotEvaluable);
    };
    let micros = instant(operand)?;
    let day = day_of(micros)?;
    let in_day = micros.rem_euclid(MICROS_PER_DAY);
    let (year, month, day_of_month) = civil_from_days(day);
    let decimal = |micros: i64, unit: i64| {
        let (whole, rest) = (micros.div_euclid(unit), micros.rem_euclid(unit));
        let digits = unit.ilog10() as usize;
        if rest == 0 {
            whole.to_string()
        } else {
            format!("{whole}.{rest:0digits$}")
                .trim_end_matches('0')
                .to_owned()
        }
    };
    let whole = match field.as_str() {
        "year" => i64::from(year),
        "decade" => i64::from(year.div_euclid(10)),
        "century" => i64::from((year + 99) / 100),
        "millennium" => i64::from((year + 999) / 1000),
        "quarter" => i64::from((month - 1) / 3 + 1),
        "month" => i64::from(month),
        "week" => i64::from((monday(day) - monday(days_from_civil(iso_year(day), 1, 4))) / 7 + 1),
        "isoyear" => i64::from(iso_year(day)),
        "day" => i64::from(day_of_month),
        "dow" => i64::from(iso_weekday(day) % 7),
        "isodow" => i64::from(iso_weekday(day)),
        "doy" => i64::from(day - days_from_civil(year, 1, 1) + 1),
        "hour" => in_day / 3_600_000_000,
        "minute" => in_day / 60_000_000 % 60,
        "second" => {
            return Ok(Some(Scalar::Decimal(decimal(
                in_day % 60_000_000,
                1_000_000,
            ))));
        }
        // Before the year 2000 the fraction would be counted from below.
        "epoch" if micros >= 0 || micros % 1_000_000 == 0 => {
            return Ok(Some(Scalar::Decimal(decimal(
                micros + FROM_1970_US,
                1_000_000,
            ))));
        }
        _ => return Err(NotEvaluable),
    };
    Ok(Some(Scalar::Decimal(whole.to_string())))
}

/// Monday is 1. The day 0, 2000-01-01, was a Saturday.
fn iso_weekday(day: i32) -> i32 {
    (day + 5).rem_euclid(7) + 1
}

fn monday(day: i32) -> i32 {
    day - iso_weekday(day) + 1
}

/// The year that the week's Thursday lies in.
fn iso_year(day: i32) -> i32 {
    civil_from_days(day - iso_weekday(day) + 4).0
}

pub(super) fn add_interval(
    function: Function,
    values: &[&Scalar],
    result: &Type,
) -> Result<Value, NotEvaluable> {
    use Function as F;
    match (function, values) {
        (F::DateTrunc, [Scalar::Text(field), operand]) => {
            Ok(Some(Scalar::Timestamp(truncate(field, instant(operand)?)?)))
        }
        (F::DateDifference, [a, b]) if is_beyond(a) || is_beyond(b) => Err(NotEvaluable),
        (F::DateDifference, [Scalar::Date(a), Scalar::Date(b)]) => {
            Ok(Some(Scalar::Int(i64::from(*a) - i64::from(*b))))
        }
        (F::DatePlusDays | F::DateMinusDays, [Scalar::Date(day), Scalar::Int(days)]) => {
            let days = if function == F::DatePlusDays {
                *days
            } else {
                -*days
            };
            let moved = i64::from(*day)
                .checked_add(days)
                .and_then(|d| d.checked_mul(MICROS_PER_DAY))
                .ok_or(NotEvaluable)?;
            Ok(Some(Scalar::Date(day_of(within(moved)?)?)))
        }
        (
            F::Later | F::Earlier,
            [
                operand,
                Scalar::Interval {
                    months,
                    days,
                    micros,
                },
            ],
        ) => {
            let sign = if function == F::Later { 1 } else { -1 };
            let moved = shift(
                instant(operand)?,
                sign * months,
                sign * days,
                i64::from(sign) * micros,
            )?;
            debug_assert!(*result != Type::Date);
            Ok(Some(Scalar::Timestamp(within(moved)?)))
        }
        (F::Elapsed, [a, b]) => {
            let span = instant(a)? - instant(b)?;
            let days = i32::try_from(span / MICROS_PER_DAY).map_err(|_| NotEvaluable)?;
            Ok(Some(Scalar::Interval {
                months: 0,
                days,
                micros: span % MICROS_PER_DAY,
            }))
        }
        _ => Err(NotEvaluable),
    }
}

/// Sums of intervals, part by part.
pub(super) fn combine_intervals(
    function: Function,
    values: &[&Scalar],
) -> Result<Value, NotEvaluable> {
    let sign = if function == Function::AddIntervals {
        1
    } else {
        -1
    };
    let zero = Scalar::Interval {
        months: 0,
        days: 0,
        micros: 0,
    };
    let (first, second) = match values {
        [only] => (&zero, *only),
        [first, second] => (*first, *second),
        _ => return Err(NotEvaluable),
    };
    let (
        Scalar::Interval {
            months,
            days,
            micros,
        },
        Scalar::Interval {
            months: m,
            days: d,
            micros: u,
        },
    ) = (first, second)
    else {
        return Err(NotEvaluable);
    };
    let part = |a: i32, b: i32| {
        b.checked_mul(sign)
            .and_then(|b| a.checked_add(b))
            .filter(|v| v.unsigned_abs() < 1 << 22)
            .ok_or(NotEvaluable)
    };
    let time = u
        .checked_mul(i64::from(sign))
        .and_then(|u| micros.checked_add(u))
        .filter(|v| v.unsigned_abs() < 1 << 60)
        .ok_or(NotEvaluable)?;
    Ok(Some(Scalar::Interval {
        months: part(*months, *m)?,
        days: part(*days, *d)?,
        micros: time,
    }))
}

/// Months first, to the last day of a shorter month; then days and time, as PostgreSQL adds them.
fn shift(micros: i64, months: i32, days: i32, time: i64) -> Result<i64, NotEvaluable> {
    let (day, in_day) = (day_of(micros)?, micros.rem_euclid(MICROS_PER_DAY));
    let (year, month, day_of_month) = civil_from_days(day);
    let total = year * 12 + month as i32 - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    if !(-4000..=14_000).contains(&year) {
        return Err(NotEvaluable);
    }
    let first = days_from_civil(year, month, day_of_month.min(days_in_month(year, month)));
    Ok((i64::from(first) + i64::from(days)) * MICROS_PER_DAY + in_day + time)
}

fn truncate(field: &str, micros: i64) -> Result<i64, NotEvaluable> {
    let day = day_of(micros)?;
    let (year, month, _) = civil_from_days(day);
    let first = match field {
        "year" => days_from_civil(year, 1, 1),
        "quarter" => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        "month" => days_from_civil(year, month, 1),
        "week" => monday(day),
        "day" => day,
        "hour" => return Ok(micros - micros.rem_euclid(3_600_000_000)),
        "minute" => return Ok(micros - micros.rem_euclid(60_000_000)),
        "second" => return Ok(micros - micros.rem_euclid(1_000_000)),
        _ => return Err(NotEvaluable),
    };
    within(i64::from(first) * MICROS_PER_DAY)
}

pub(super) fn make_date_or_time(
    function: Function,
    values: &[&Scalar],
) -> Result<Value, NotEvaluable> {
    use Function as F;
    match (function, values) {
        (
            F::TimesInterval,
            [
                Scalar::Decimal(number),
                Scalar::Interval {
                    months,
                    days,
                    micros,
                },
            ],
        ) => {
            let factor: i32 = number.parse().map_err(|_| NotEvaluable)?;
            let times = |part: i32| {
                part.checked_mul(factor)
                    .filter(|p| p.unsigned_abs() < 1 << 20)
                    .ok_or(NotEvaluable)
            };
            let micros = micros.checked_mul(i64::from(factor)).ok_or(NotEvaluable)?;
            Ok(Some(Scalar::Interval {
                months: times(*months)?,
                days: times(*days)?,
                micros,
            }))
        }
        (F::AtZone, [Scalar::Text(zone), Scalar::Timestamp(micros)])
            if zone.eq_ignore_ascii_case("utc") =>
        {
            Ok(Some(Scalar::Timestamp(*micros)))
        }
        (F::FromEpoch, [Scalar::Decimal(seconds)]) => {
            let seconds: i64 = seconds.parse().map_err(|_| NotEvaluable)?;
            let micros = seconds
                .checked_sub(FROM_1970_US / 1_000_000)
                .and_then(|s| s.checked_mul(1_000_000))
                .ok_or(NotEvaluable)?;
            Ok(Some(Scalar::Timestamp(within(micros)?)))
        }
        (F::MakeDate, [Scalar::Int(year), Scalar::Int(month), Scalar::Int(day)]) => {
            let text = format!("{year:04}-{month:02}-{day:02}");
            Ok(date(&text).map(Scalar::Date))
        }
        _ => Err(NotEvaluable),
    }
}

/// Fields of `to_char` that are evaluated, longest first.
const FIELDS: &[&str] = &["YYYY", "HH24", "MM", "DD", "MI", "SS", "Q"];

/// `to_char` with the plain numeric fields.
pub(super) fn format_number(values: &[&Scalar]) -> Result<Value, NotEvaluable> {
    let [operand, Scalar::Text(format)] = values else {
        return Err(NotEvaluable);
    };
    if format.len() > FORMAT_MAX {
        return Err(NotEvaluable);
    }
    let micros = instant(operand)?;
    let (year, month, day) = civil_from_days(day_of(micros)?);
    let in_day = micros.rem_euclid(MICROS_PER_DAY);
    let mut out = String::new();
    for token in fields(format).ok_or(NotEvaluable)? {
        match token {
            "YYYY" => out += &format!("{year:04}"),
            "MM" => out += &format!("{month:02}"),
            "DD" => out += &format!("{day:02}"),
            "HH24" => out += &format!("{:02}", in_day / 3_600_000_000),
            "MI" => out += &format!("{:02}", in_day / 60_000_000 % 60),
            "SS" => out += &format!("{:02}", in_day / 1_000_000 % 60),
            "Q" => out += &((month - 1) / 3 + 1).to_string(),
            separator => out += separator,
        }
    }
    Ok(Some(Scalar::Text(out)))
}

/// A format's fields and separators; `None` where it holds anything else.
pub fn fields(format: &str) -> Option<Vec<&str>> {
    let mut rest = format;
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        // Seconds since midnight, and the day of the year: longer words win.
        if rest.starts_with("SSSS") || rest.starts_with("DDD") {
            return None;
        }
        let token = match FIELDS.iter().find(|field| rest.starts_with(**field)) {
            Some(field) => field,
            None if matches!(first, '-' | '/' | ':' | '.' | ' ' | '_') => &rest[..1],
            None => return None,
        };
        found.push(&rest[..token.len()]);
        rest = &rest[token.len()..];
    }
    Some(found)
}

pub(super) fn date_text(day: i32) -> String {
    let (year, month, day) = civil_from_days(day);
    format!("{year:04}-{month:02}-{day:02}")
}
