//! Interval constants, as PostgreSQL reads them under every IntervalStyle except sql_standard. They
//! are read under sql_standard too, unless one sign stands for all numbers.

use crate::policy::Scalar;

const MICROS_PER_SECOND: i64 = 1_000_000;
/// Farthest that a constant interval may reach, in months; days and microseconds have the same
/// limit in their units.
const MONTHS_MAX: i64 = 12 * 4000;
const DAYS_MAX: i64 = 366 * 4000;
const MICROS_MAX: i64 = DAYS_MAX * 86_400 * MICROS_PER_SECOND;

/// Sums of each part while the text is read.
#[derive(Default)]
struct Parts {
    months: i64,
    days: i64,
    micros: i64,
}

/// The fields after the constant, as in `INTERVAL '1' DAY`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalFields {
    /// Nothing, or what cuts nothing off.
    Any,
    YearToMonth,
    /// The unit of a bare number.
    One(&'static str),
}

/// The constant, if PostgreSQL keeps all that its text says. PostgreSQL cuts off units finer than
/// the last of the fields.
pub fn interval(text: &str, fields: IntervalFields) -> Option<Scalar> {
    let text = text.trim().to_ascii_lowercase();
    if text.is_empty() || text.len() > 200 {
        return None;
    }
    let mut parts = Parts::default();
    match (fields, text.strip_prefix('p')) {
        (IntervalFields::Any, Some(iso)) => iso_8601(iso, &mut parts)?,
        (IntervalFields::Any, None) => words(&text, &mut parts)?,
        (IntervalFields::YearToMonth, _) => years_months(&text, &mut parts)?,
        (IntervalFields::One(unit), _) if unit != "second" && text.contains('.') => return None,
        (IntervalFields::One(unit), _) => read_measure(&text, unit, &mut parts)?,
    }
    parts.scalar()
}

/// Under IntervalStyle sql_standard the sign of the first number stands for all: it is a minus,
/// more numbers follow, and no other number has a sign.
pub fn signs_all(text: &str) -> bool {
    let text = text.trim();
    let tokens = split(text.strip_prefix('@').unwrap_or(text));
    let Some((first, others)) = tokens.split_first() else {
        return false;
    };
    let mut others = others
        .iter()
        .filter(|token| !token.starts_with(|c: char| c.is_ascii_alphabetic()))
        .peekable();
    first.starts_with('-')
        && others.peek().is_some()
        && !others.any(|number| number.starts_with(['-', '+']))
}

impl Parts {
    /// The constant, where every part lies within reach.
    fn scalar(self) -> Option<Scalar> {
        let within = self.months.abs() <= MONTHS_MAX
            && self.days.abs() <= DAYS_MAX
            && self.micros.abs() <= MICROS_MAX;
        let (months, days) = (
            i32::try_from(self.months).ok()?,
            i32::try_from(self.days).ok()?,
        );
        within.then_some(Scalar::Interval {
            months,
            days,
            micros: self.micros,
        })
    }

    fn add(&mut self, months: i64, days: i64, micros: i64) -> Option<()> {
        self.months = self.months.checked_add(months)?;
        self.days = self.days.checked_add(days)?;
        self.micros = self.micros.checked_add(micros)?;
        Some(())
    }
}

/// `1 year 2 mons -3 days 04:05:06 ago`.
fn words(text: &str, parts: &mut Parts) -> Option<()> {
    let mut text = text.strip_prefix('@').unwrap_or(text).trim();
    let ago = text.strip_suffix("ago");
    if let Some(rest) = ago {
        text = rest.trim_end();
    }
    let mut found = false;
    let tokens = split(text);
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at].as_str();
        found = true;
        if token.contains(':') {
            parts.add(0, 0, clock(token)?)?;
            at += 1;
            continue;
        }
        if token.trim_start_matches(['-', '+']).contains('-') {
            years_months(token, parts)?;
            at += 1;
            continue;
        }
        match tokens
            .get(at + 1)
            .filter(|unit| unit.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            Some(unit) => {
                read_measure(token, unit, parts)?;
                at += 2;
            }
            // A bare number is days before a clock, else seconds.
            None => {
                let unit = if tokens.get(at + 1).is_some_and(|next| next.contains(':')) {
                    "day"
                } else {
                    "second"
                };
                read_measure(token, unit, parts)?;
                at += 1;
            }
        }
    }
    if ago.is_some() {
        *parts = Parts {
            months: parts.months.checked_neg()?,
            days: parts.days.checked_neg()?,
            micros: parts.micros.checked_neg()?,
        };
    }
    found.then_some(())
}

/// `[-]Y-M`.
fn years_months(text: &str, parts: &mut Parts) -> Option<()> {
    let (sign, unsigned) = split_sign(text);
    let (years, months) = unsigned.split_once('-')?;
    let months = digits(months).filter(|months| *months < 12)?;
    parts.add(
        sign * digits(years)?.checked_mul(12)?.checked_add(months)?,
        0,
        0,
    )
}

fn split_sign(text: &str) -> (i64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Numbers and units, whether or not blanks stand between them.
fn split(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut previous = ' ';
    for c in text.chars() {
        let starts =
            previous.is_whitespace() || (c.is_ascii_alphabetic() != previous.is_ascii_alphabetic());
        if !c.is_whitespace() {
            if starts || tokens.is_empty() {
                tokens.push(String::new());
            }
            if let Some(last) = tokens.last_mut() {
                last.push(c);
            }
        }
        previous = c;
    }
    tokens
}

/// `P1Y2M3DT4H5M6S` or `P0001-02-03T04:05:06`, after the P.
fn iso_8601(text: &str, parts: &mut Parts) -> Option<()> {
    let (date, time) = text
        .split_once('t')
        .map_or((text, None), |(d, t)| (d, Some(t)));
    if let [years, months, days] = date.split('-').collect::<Vec<_>>().as_slice()
        && years.len() == 4
    {
        parts.add(
            digits(years)?
                .checked_mul(12)?
                .checked_add(digits(months)?)?,
            digits(days)?,
            0,
        )?;
        return time.map_or(Some(()), |time| parts.add(0, 0, clock(time)?));
    }
    let mut found = false;
    for (half, is_time) in [(date, false), (time.unwrap_or(""), true)] {
        let mut rest = half;
        while !rest.is_empty() {
            let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
            let unit = match (&rest[end..=end], is_time) {
                ("y", false) => "year",
                ("m", false) => "month",
                ("w", false) => "week",
                ("d", false) => "day",
                ("h", true) => "hour",
                ("m", true) => "minute",
                ("s", true) => "second",
                _ => return None,
            };
            read_measure(&rest[..end], unit, parts)?;
            found = true;
            rest = &rest[end + 1..];
        }
    }
    found.then_some(())
}

/// A number with its unit. Fractions are read for days and smaller units, where every part is
/// exact.
fn read_measure(number: &str, unit: &str, parts: &mut Parts) -> Option<()> {
    let (sign, unsigned) = split_sign(number);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if fraction.len() > 6
        || !fraction.bytes().all(|b| b.is_ascii_digit())
        || (whole.is_empty() && fraction.is_empty())
    {
        return None;
    }
    let whole = sign * if whole.is_empty() { 0 } else { digits(whole)? };
    let millionths: i64 = sign * format!("{fraction:0<6}").parse::<i64>().ok()?;
    let months = match unit.trim_end_matches('s') {
        "millennium" | "millennia" | "mil" => Some(12_000),
        "century" | "centurie" | "cent" | "c" => Some(1200),
        "decade" | "dec" => Some(120),
        "year" | "yr" | "y" => Some(12),
        "month" | "mon" => Some(1),
        _ => None,
    };
    if let Some(months) = months {
        // A fraction is read where it makes whole months, or of one month whole days: anything
        // finer is not the same in every version.
        let fraction = millionths.checked_mul(months)?;
        let (rest, whole) = (
            fraction % 1_000_000,
            whole
                .checked_mul(months)?
                .checked_add(fraction / 1_000_000)?,
        );
        return match (rest, months) {
            (0, _) => parts.add(whole, 0, 0),
            (rest, 1) if rest * 30 % 1_000_000 == 0 => parts.add(whole, rest * 30 / 1_000_000, 0),
            _ => None,
        };
    }
    let micros = match if unit == "ms" {
        unit
    } else {
        unit.trim_end_matches('s')
    } {
        "week" | "w" => {
            return if millionths == 0 {
                parts.add(0, whole.checked_mul(7)?, 0)
            } else {
                None
            };
        }
        "day" | "d" => {
            return parts.add(0, whole, millionths.checked_mul(86_400)?);
        }
        "hour" | "hr" | "h" => 3600 * MICROS_PER_SECOND,
        "minute" | "min" | "m" => 60 * MICROS_PER_SECOND,
        "second" | "sec" | "" => MICROS_PER_SECOND,
        "millisecond" | "msec" | "ms" => 1000,
        "microsecond" | "usec" | "u" => 1,
        _ => return None,
    };
    let fraction = if micros >= MICROS_PER_SECOND {
        millionths.checked_mul(micros / MICROS_PER_SECOND)?
    } else {
        millionths.checked_mul(micros)? / 1_000_000
    };
    parts.add(0, 0, whole.checked_mul(micros)?.checked_add(fraction)?)
}

/// `[-]HH:MM[:SS[.ffffff]]`.
fn clock(text: &str) -> Option<i64> {
    let (sign, text) = split_sign(text);
    let mut fields = text.split(':');
    let (hours, minutes) = (digits(fields.next()?)?, digits(fields.next()?)?);
    let (seconds, fraction) = match fields.next() {
        Some(seconds) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            if fraction.len() > 6 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (
                digits(whole)?,
                format!("{fraction:0<6}").parse::<i64>().ok()?,
            )
        }
        None => (0, 0),
    };
    if fields.next().is_some() || minutes > 59 || seconds > 59 || hours > 1_000_000 {
        return None;
    }
    Some(sign * (((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND + fraction))
}

fn digits(text: &str) -> Option<i64> {
    if text.is_empty() || text.len() > 12 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The text that PostgreSQL reads back as exactly these parts. Before version 15, a field has at
/// most four bytes: more seconds are written with hours.
pub fn interval_text(months: i32, days: i32, micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let (seconds, fraction) = (
        micros.unsigned_abs() / 1_000_000,
        micros.unsigned_abs() % 1_000_000,
    );
    let fraction = if fraction == 0 {
        String::new()
    } else {
        format!(".{fraction:06}").trim_end_matches('0').to_owned()
    };
    let time = if seconds <= i32::MAX.unsigned_abs().into() {
        format!("{seconds}{fraction} secs")
    } else {
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        format!(
            "{}:{:02}:{seconds:02}{fraction}",
            minutes / 60,
            minutes % 60
        )
    };
    format!("{months} mons {days} days {sign}{time}")
}

/// Longest time that the interval can mean, in microseconds: months of 31 days, days of 25 hours.
pub fn interval_reach(months: i32, days: i32, micros: i64) -> f64 {
    let hours =
        f64::from(months.unsigned_abs()) * 31.0 * 24.0 + f64::from(days.unsigned_abs()) * 25.0;
    hours * 3.6e9 + micros.unsigned_abs() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_of_a_printed_interval_has_more_than_four_bytes() {
        let most = i64::from(i32::MAX) * 1_000_000;
        for (micros, wanted) in [
            (-1_500_000, "1 mons -2 days -1.5 secs"),
            (most, "1 mons -2 days 2147483647 secs"),
            (most + 1_000_000, "1 mons -2 days 596523:14:08"),
            (-most - 1_250_000, "1 mons -2 days -596523:14:08.25"),
        ] {
            assert_eq!(interval_text(1, -2, micros), wanted);
        }
    }

    #[allow(clippy::too_many_lines, reason = "one table of cases")]
    #[test]
    fn intervals_are_read_as_postgresql_reads_them() {
        let parts = |months, days, micros| {
            Some(Scalar::Interval {
                months,
                days,
                micros,
            })
        };
        for (text, fields, wanted) in [
            ("1 day", IntervalFields::Any, parts(0, 1, 0)),
            ("-12 month", IntervalFields::Any, parts(-12, 0, 0)),
            (
                "1 year 2 mons -3 days 04:05:06.5",
                IntervalFields::Any,
                parts(14, -3, 14_706_500_000),
            ),
            ("1.5 days", IntervalFields::Any, parts(0, 1, 43_200_000_000)),
            (
                "90 minutes",
                IntervalFields::Any,
                parts(0, 0, 5_400_000_000),
            ),
            ("1h30m", IntervalFields::Any, parts(0, 0, 5_400_000_000)),
            ("0.25 seconds", IntervalFields::Any, parts(0, 0, 250_000)),
            ("2 weeks ago", IntervalFields::Any, parts(0, -14, 0)),
            ("1-2", IntervalFields::Any, parts(14, 0, 0)),
            (
                "3 04:05:06",
                IntervalFields::Any,
                parts(0, 3, 14_706_000_000),
            ),
            (
                "P1Y2M3DT4H5M6S",
                IntervalFields::Any,
                parts(14, 3, 14_706_000_000),
            ),
            ("12", IntervalFields::One("month"), parts(12, 0, 0)),
            ("-1", IntervalFields::One("day"), parts(0, -1, 0)),
            ("7", IntervalFields::Any, parts(0, 0, 7_000_000)),
            (
                "1.55",
                IntervalFields::One("second"),
                parts(0, 0, 1_550_000),
            ),
            ("-1-2", IntervalFields::YearToMonth, parts(-14, 0, 0)),
            ("1.5 years", IntervalFields::Any, parts(18, 0, 0)),
            ("-2.5 months", IntervalFields::Any, parts(-2, -15, 0)),
            ("@ 1 year 2 mons ago", IntervalFields::Any, parts(-14, 0, 0)),
            (
                "1-2 3 4:05:06",
                IntervalFields::Any,
                parts(14, 3, 14_706_000_000),
            ),
            (
                "P0001-02-03T04:05:06",
                IntervalFields::Any,
                parts(14, 3, 14_706_000_000),
            ),
            ("PT36H", IntervalFields::Any, parts(0, 0, 129_600_000_000)),
            ("P1W", IntervalFields::Any, parts(0, 7, 0)),
        ] {
            assert_eq!(interval(text, fields), wanted, "{text}");
        }
        // PostgreSQL cuts off units finer than the field, takes a bare number for the last field's,
        // and has no more than 11 months next to years.
        for (text, fields) in [
            ("1.9", IntervalFields::One("month")),
            ("1.5", IntervalFields::One("hour")),
            ("1.", IntervalFields::One("day")),
            ("1 day", IntervalFields::One("hour")),
            ("P1D", IntervalFields::One("hour")),
            ("2:03", IntervalFields::One("hour")),
            ("5", IntervalFields::YearToMonth),
            ("1 year 2 days", IntervalFields::YearToMonth),
            ("1-12", IntervalFields::YearToMonth),
            ("1-12", IntervalFields::Any),
            ("--1-2", IntervalFields::Any),
            ("1 quarter", IntervalFields::Any),
        ] {
            assert_eq!(interval(text, fields), None, "{text} {fields:?}");
        }
        for text in [
            "",
            "day",
            "1 dog",
            "1 day x",
            "0.51 months",
            "1.55 years",
            "1:2:3:4",
            "1000000 years",
            "infinity",
            "now",
        ] {
            assert_eq!(interval(text, IntervalFields::Any), None, "{text}");
        }
    }

    #[test]
    fn one_sign_before_several_numbers_stands_for_all() {
        for text in [
            "-1 year 2 mons",
            "@ -1 year 2 mons",
            " -1 day 04:05:06",
            "-1-2 3",
            "-1 04:05",
            "-1y2mon",
            "-1 day 2 hours ago",
        ] {
            assert!(signs_all(text), "{text}");
        }
        for text in [
            "-1 day",
            "-1-2",
            "-04:05",
            "1 year -2 mons",
            "-1 year +2 mons 3 days",
            "-1 year -2 mons",
            "P-1Y2M",
            "+1 day 2 hours",
            "-1 day ago",
            "",
            "@",
        ] {
            assert!(!signs_all(text), "{text}");
        }
    }
}
