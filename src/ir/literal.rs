//! Constants: how a literal's text becomes a value of a type, as PostgreSQL reads it.

mod format;
mod instant;
mod interval;

pub use format::read as read_by_pattern;
pub use instant::local as timestamp;
pub use interval::{IntervalFields, interval, interval_reach, interval_text};

pub use super::unknown::{is_unknown, unknown, unknown_under};

use super::expression::{Expr, Node};
use super::unknown::{OUTSIDE_UTC, SQL_STANDARD, is_marked};
use crate::calendar::{DAYS, MICROS_PER_DAY, civil_from_days, days_from_civil, days_in_month};
use crate::catalog::Type;
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Most digits of a numeric constant.
const DIGITS_MAX: usize = 60;

/// How a boolean may be spelled, in lower case.
pub const TRUE: &[&str] = &["t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"];
pub const FALSE: &[&str] = &[
    "f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0",
];

/// What to write instead of an interval that is not read.
pub const INTERVAL_HINT: &str =
    "Write whole numbers of units, such as '1 year 2 months' or '36 hours', within 4000 years.";

/// A number as written: int4 if it fits without its sign, else int8, else numeric.
pub fn number_constant(text: &str) -> Result<Expr, Refusal> {
    if let Ok(value) = text.parse::<i64>()
        && value > i64::MIN
    {
        let data_type = if value.unsigned_abs() <= i32::MAX.unsigned_abs().into() {
            Type::Int4
        } else {
            Type::Int8
        };
        return Ok(Expr::literal(Some(Scalar::Int(value)), data_type));
    }
    Ok(Expr::literal(
        Some(Scalar::Decimal(plain_decimal(text)?)),
        Type::Numeric(None),
    ))
}

/// A decimal without exponent: `1.5e2` becomes `150`.
fn plain_decimal(text: &str) -> Result<String, Refusal> {
    let invalid = || {
        Refusal::new(
            reason::INVALID_VALUE,
            format!(
                "invalid input syntax for type numeric: \"{}\"",
                text.chars().take(80).collect::<String>()
            ),
        )
    };
    let (sign, unsigned) = match text.trim().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.trim().strip_prefix('+').unwrap_or(text.trim())),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(invalid());
    }
    let point = i64::try_from(whole.len()).map_err(|_| invalid())? + i64::from(exponent);
    if digits.len() > DIGITS_MAX || point.abs() > DIGITS_MAX as i64 {
        return Err(Refusal::unsupported(
            reason::UNSUPPORTED_CONSTANT,
            format!("a numeric constant of more than {DIGITS_MAX} digits"),
        ));
    }
    let count = digits.len() as i64;
    let plain = if point <= 0 {
        format!("0.{}{digits}", "0".repeat((-point) as usize))
    } else if point >= count {
        format!("{digits}{}", "0".repeat((point - count) as usize))
    } else {
        format!(
            "{}.{}",
            &digits[..point as usize],
            &digits[point as usize..]
        )
    };
    let trimmed = plain.trim_start_matches('0');
    let plain = if trimmed.is_empty() || trimmed.starts_with('.') {
        format!("0{trimmed}")
    } else {
        trimmed.to_owned()
    };
    Ok(format!("{sign}{plain}"))
}

/// Reads `text` as a constant of `to`.
///
/// # Errors
/// PostgreSQL's 22P02, 22007 or 22008 for malformed text; 0A000 for a type whose constants are not
/// read here.
pub fn parse(text: &str, to: &Type) -> Result<Scalar, Refusal> {
    let invalid = || invalid_syntax(text, to);
    match to {
        Type::Text | Type::Varchar(_) | Type::Uuid => Ok(Scalar::Text(if *to == Type::Uuid {
            uuid(text).ok_or_else(invalid)?
        } else {
            text.to_owned()
        })),
        Type::Int2 | Type::Int4 | Type::Int8 => parse_integer(text, to),
        Type::Numeric(_) | Type::Float4 | Type::Float8 => parse_decimal(text, to),
        Type::Bool => match text.trim().to_ascii_lowercase().as_str() {
            word if TRUE.contains(&word) => Ok(Scalar::Bool(true)),
            word if FALSE.contains(&word) => Ok(Scalar::Bool(false)),
            _ => Err(invalid()),
        },
        Type::Date => instant::date_of(text)
            .map(Scalar::Date)
            .ok_or_else(|| not_iso("date", text)),
        Type::Timestamp => instant::local(text)
            .map(Scalar::Timestamp)
            .ok_or_else(|| not_iso("timestamp", text)),
        Type::Timestamptz => instant::in_utc(text)
            .map(Scalar::Timestamp)
            .ok_or_else(|| not_iso("timestamp with time zone", text)),
        Type::Interval => interval_of(text, IntervalFields::Any, true),
        Type::Time => instant::time_of(text)
            .map(Scalar::Text)
            .ok_or_else(|| not_iso("time", text)),
        Type::Enum(made) if made.labels.iter().any(|label| label == text) => {
            Ok(Scalar::Text(text.to_owned()))
        }
        Type::Enum(made) => {
            let shown: String = text.chars().take(80).collect();
            Err(Refusal::new(
                reason::INVALID_VALUE,
                format!("invalid input value for enum {}: \"{shown}\"", made.name),
            ))
        }
        Type::Char(_) => Ok(Scalar::Text(to.as_stored(text.to_owned()))),
        Type::Other { .. } => Err(Refusal::unsupported(
            reason::UNSUPPORTED_CONSTANT,
            format!("a constant of type {}", type_name(to)),
        )),
    }
}

fn invalid_syntax(text: &str, to: &Type) -> Refusal {
    Refusal::new(
        reason::INVALID_VALUE,
        format!(
            "invalid input syntax for type {}: \"{}\"",
            type_name(to),
            text.chars().take(80).collect::<String>()
        ),
    )
}

fn parse_integer(text: &str, to: &Type) -> Result<Scalar, Refusal> {
    let invalid = || invalid_syntax(text, to);
    let value: i64 = text.trim().parse().map_err(|_| invalid())?;
    let (lower, upper) = integer_range(to).ok_or_else(invalid)?;
    if value < lower || value > upper {
        return Err(Refusal::new(
            reason::VALUE_OUT_OF_RANGE,
            format!(
                "value \"{text}\" is out of range for type {}",
                type_name(to)
            ),
        ));
    }
    Ok(Scalar::Int(value))
}

/// Reads a numeric or a float. A float that overflows, or that rounds to zero, is out of range.
fn parse_decimal(text: &str, to: &Type) -> Result<Scalar, Refusal> {
    if let Some(word) = infinity_text(text) {
        return Ok(Scalar::Decimal(word.to_owned()));
    }
    let plain = plain_decimal(text).map_err(|_| invalid_syntax(text, to))?;
    let is_zero = plain.bytes().all(|b| matches!(b, b'-' | b'0' | b'.'));
    let held = |magnitude: f64| is_zero || (magnitude > 0.0 && magnitude.is_finite());
    let is_held = match to {
        Type::Float4 => plain
            .parse::<f32>()
            .is_ok_and(|value| held(f64::from(value.abs()))),
        Type::Float8 => plain.parse::<f64>().is_ok_and(|value| held(value.abs())),
        _ => true,
    };
    if !is_held {
        return Err(Refusal::new(
            reason::VALUE_OUT_OF_RANGE,
            format!("\"{text}\" is out of range for type {}", type_name(to)),
        ));
    }
    Ok(Scalar::Decimal(plain))
}

/// `NaN` and the infinities, as PostgreSQL prints them.
fn infinity_text(text: &str) -> Option<&'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "nan" => Some("NaN"),
        "infinity" | "+infinity" | "inf" | "+inf" => Some("Infinity"),
        "-infinity" | "-inf" => Some("-Infinity"),
        _ => None,
    }
}

/// Constants outside the range in which values are computed with: NaN, infinities, and days outside
/// the years 1 to 9999. Stored values are compared with them unclamped.
pub fn is_beyond(value: &Scalar) -> bool {
    match value {
        Scalar::Decimal(text) => is_unbounded(text),
        Scalar::Date(_) | Scalar::Timestamp(_) => clamp_to_calendar(value) != *value,
        Scalar::Bool(_) | Scalar::Int(_) | Scalar::Text(_) | Scalar::Interval { .. } => false,
    }
}

/// NaN or an infinity, which nothing is computed with.
pub fn is_unbounded(decimal: &str) -> bool {
    decimal.ends_with(|c: char| c.is_ascii_alphabetic())
}

/// A day or an instant within the years 1 to 9999, or their end.
pub fn clamp_to_calendar(value: &Scalar) -> Scalar {
    let micros = |day: i32| i64::from(day) * MICROS_PER_DAY;
    match value {
        Scalar::Date(day) => Scalar::Date((*day).clamp(DAYS.0, DAYS.1)),
        Scalar::Timestamp(at) => Scalar::Timestamp((*at).clamp(micros(DAYS.0), micros(DAYS.1 + 1))),
        other => other.clone(),
    }
}

/// An interval, with or without trailing fields. The session's IntervalStyle decides whether each
/// number has its own sign.
///
/// # Errors
/// 0A000 if it is not read, or if the first sign applies to all numbers: its meaning for two
/// numbers of one part differs between versions.
pub fn interval_of(
    text: &str,
    fields: IntervalFields,
    signs_each: bool,
) -> Result<Scalar, Refusal> {
    if !signs_each && interval::signs_all(text) {
        return Err(Refusal::new(
            reason::UNSUPPORTED_CONSTANT,
            "an interval constant with one sign before several numbers is ambiguous under \
                IntervalStyle sql_standard",
        )
        .hint("Write a sign before each number, or run SET IntervalStyle = 'postgres' first."));
    }
    interval(text, fields).ok_or_else(|| {
        Refusal::unsupported(
            reason::UNSUPPORTED_CONSTANT,
            "this form of interval constant",
        )
        .hint(INTERVAL_HINT)
    })
}

fn not_iso(name: &str, text: &str) -> Refusal {
    let shown: String = text.chars().take(80).collect();
    Refusal::new(
        reason::INVALID_DATE_OR_TIME,
        format!("invalid input syntax for type {name}: \"{shown}\""),
    )
    .hint(
        "Write dates as YYYY-MM-DD and timestamps as YYYY-MM-DD HH:MM:SS. Words such \
                as 'today' are not accepted.",
    )
}

fn uuid(text: &str) -> Option<String> {
    let hex: String = text
        .trim()
        .trim_start_matches('{')
        .trim_end_matches('}')
        .chars()
        .filter(|c| *c != '-')
        .collect();
    if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let hex = hex.to_ascii_lowercase();
    Some(format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    ))
}

/// Smallest and largest value of an integer type.
pub fn integer_range(data_type: &Type) -> Option<(i64, i64)> {
    match data_type {
        Type::Int2 => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
        Type::Int4 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
        Type::Int8 => Some((i64::MIN, i64::MAX)),
        Type::Bool
        | Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid => None,
        Type::Time | Type::Enum(_) => None,
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Other { .. } => {
            None
        }
    }
}

/// Whether an instant, in microseconds from 2000-01-01, lies in the years 0001 to 9999.
pub fn in_calendar(micros: i64) -> bool {
    i32::try_from(micros.div_euclid(MICROS_PER_DAY))
        .is_ok_and(|day| (1..=9999).contains(&civil_from_days(day).0))
}

/// Days from 2000-01-01 of an ISO date of years 0001 to 9999.
pub fn date(text: &str) -> Option<i32> {
    let mut parts = text.trim().split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 || month.len() > 2 || day.len() > 2 {
        return None;
    }
    let all_digits = [year, month, day]
        .iter()
        .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
    if !all_digits {
        return None;
    }
    let (year, month, day): (i32, u32, u32) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    if !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_in_month(year, month)
    {
        return None;
    }
    Some(days_from_civil(year, month, day))
}

/// A constant that has a place on the line of numbers: dates in days, timestamps in microseconds,
/// as they are [`clamp_to_calendar`].
pub fn as_number(value: &Scalar) -> Option<f64> {
    match clamp_to_calendar(value) {
        Scalar::Int(value) => Some(value as f64),
        Scalar::Decimal(text) => text.parse().ok().filter(|_| !is_unbounded(&text)),
        Scalar::Date(days) => Some(f64::from(days)),
        Scalar::Timestamp(micros) => Some(micros as f64),
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Interval { .. } => None,
    }
}

/// PostgreSQL's name of a type, as `format_type` prints it without modifier.
pub fn type_name(data_type: &Type) -> &str {
    match data_type {
        Type::Bool => "boolean",
        Type::Int2 => "smallint",
        Type::Int4 => "integer",
        Type::Int8 => "bigint",
        Type::Numeric(_) => "numeric",
        Type::Float4 => "real",
        Type::Float8 => "double precision",
        Type::Text => "text",
        Type::Varchar(_) => "character varying",
        Type::Char(_) => "character",
        Type::Uuid => "uuid",
        Type::Date => "date",
        Type::Timestamp => "timestamp without time zone",
        Type::Timestamptz => "timestamp with time zone",
        Type::Interval => "interval",
        Type::Time => "time without time zone",
        Type::Enum(made) => &made.name,
        Type::Other { oid: _, name } => name,
    }
}

/// Gives an expression the type that its context requires. Constants are parsed again (a numeric
/// keeps its digits); everything else gets a cast node.
pub fn coerce(expr: Expr, to: &Type) -> Result<Expr, Refusal> {
    if &expr.data_type == to {
        return Ok(expr);
    }
    if is_unknown(&expr.data_type) {
        return match expr.node {
            Node::Literal(None) => Ok(Expr::literal(None, to.clone())),
            // A constant is not rounded to the digits of the other operand.
            Node::Literal(Some(_)) if matches!(to, Type::Numeric(Some(_))) => {
                coerce(expr, &Type::Numeric(None))
            }
            Node::Literal(Some(Scalar::Text(text)))
                if *to == Type::Timestamptz
                    && is_marked(&expr.data_type, OUTSIDE_UTC)
                    && !instant::names_zone(&text) =>
            {
                Err(Refusal::new(
                    reason::TIME_ZONE_NOT_UTC,
                    "a timestamp with time zone must name its zone unless TimeZone is UTC",
                )
                .hint(
                    "Write the zone, as in '2024-01-01 00:00:00+00', or run SET TimeZone = 'UTC' \
                        first.",
                ))
            }
            Node::Literal(Some(Scalar::Text(text))) => {
                let signs_each = !is_marked(&expr.data_type, SQL_STANDARD);
                let value = if *to == Type::Interval {
                    interval_of(&text, IntervalFields::Any, signs_each)?
                } else {
                    parse(&text, to)?
                };
                Ok(Expr::literal(Some(value), to.clone()))
            }
            Node::Literal(Some(_))
            | Node::Constant(_)
            | Node::Column(_)
            | Node::Call { .. }
            | Node::Cast(_)
            | Node::Case { .. }
            | Node::Exists { .. } => Ok(expr.cast(to.clone())),
        };
    }
    if let Node::Literal(Some(Scalar::Int(value))) = &expr.node {
        match to {
            Type::Int2 | Type::Int4 | Type::Int8
                if integer_range(to).is_some_and(|(l, u)| (l..=u).contains(value)) =>
            {
                return Ok(Expr::literal(Some(Scalar::Int(*value)), to.clone()));
            }
            Type::Numeric(None) | Type::Float8 if value.unsigned_abs() < 1 << 53 => {
                return Ok(Expr::literal(
                    Some(Scalar::Decimal(value.to_string())),
                    to.clone(),
                ));
            }
            _ => {}
        }
    }
    if let (Node::Literal(Some(Scalar::Decimal(text))), Type::Float8) = (&expr.node, to)
        && expr.data_type != Type::Float4
    {
        return Ok(Expr::literal(
            Some(Scalar::Decimal(text.clone())),
            Type::Float8,
        ));
    }
    Ok(expr.cast(to.clone()))
}

/// The common type of two operands, as PostgreSQL chooses it; `None` if PostgreSQL has no common
/// type, or pgveil does not follow it.
pub fn common_type(a: &Type, b: &Type) -> Option<Type> {
    use Type::{
        Bool, Char, Date, Enum, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Text, Time,
        Timestamp, Timestamptz, Uuid, Varchar,
    };
    let integer_rank = |t: &Type| match t {
        Int2 => Some(2),
        Int4 => Some(4),
        Int8 => Some(8),
        _ => None,
    };
    match (a, b) {
        (a, b) if is_unknown(a) && is_unknown(b) => Some(a.clone()),
        (a, b) if is_unknown(a) => Some(b.clone()),
        (a, b) if is_unknown(b) => Some(a.clone()),
        (Bool, Bool)
        | (Uuid, Uuid)
        | (Date, Date)
        | (Timestamp, Timestamp)
        | (Timestamptz, Timestamptz)
        | (Interval, Interval)
        | (Time, Time) => Some(a.clone()),
        (Enum(x), Enum(y)) if x.oid == y.oid => Some(a.clone()),
        (Date | Timestamp, Timestamptz) | (Timestamptz, Date | Timestamp) => Some(Timestamptz),
        (Text | Varchar(_), Text | Varchar(_)) => Some(if a == b { a.clone() } else { Text }),
        // Each has an implicit cast to the other: the first wins.
        (Char(_), Text | Varchar(_) | Char(_)) => Some(if a == b { a.clone() } else { Char(None) }),
        (Text, Char(_)) => Some(Text),
        (Varchar(_), Char(_)) => Some(Varchar(None)),
        (Date, Timestamp) | (Timestamp, Date) => Some(Timestamp),
        (Float4, Float4) => Some(Float4),
        (Numeric(m), Numeric(n)) => Some(if m == n { a.clone() } else { Numeric(None) }),
        (a, b) => match (integer_rank(a), integer_rank(b)) {
            (Some(i), Some(j)) => Some(if i >= j { a.clone() } else { b.clone() }),
            (Some(_), None) if matches!(b, Numeric(_)) => Some(Numeric(None)),
            (None, Some(_)) if matches!(a, Numeric(_)) => Some(Numeric(None)),
            (Some(_), None) if matches!(b, Float4 | Float8) => Some(Float8),
            (None, Some(_)) if matches!(a, Float4 | Float8) => Some(Float8),
            _ if matches!(
                (a, b),
                (Numeric(_) | Float4 | Float8, Numeric(_) | Float4 | Float8)
            ) =>
            {
                Some(Float8)
            }
            _ => None,
        },
    }
}
