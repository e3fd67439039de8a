//! Dates and times in ISO form, with or without a zone. PostgreSQL's other forms depend on
//! DateStyle, or are words such as `now`.

use crate::calendar::iso::digits;
use crate::calendar::{DAY_OF_1970, MICROS_PER_DAY, existing_day};

/// Longest offset from UTC that PostgreSQL takes, in whole hours.
const OFFSET_HOURS_MAX: i64 = 15;
/// The range of dates and of timestamps that PostgreSQL stores, the end excluded: from 4714-11-24
/// BC on.
const DAYS: std::ops::Range<i64> = -2_451_545..2_145_031_949;
const MICROS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;
/// The day of `epoch`.
const EPOCH: i64 = DAY_OF_1970 as i64;

/// A date and a time as written.
enum ParsedInstant {
    /// `infinity`, or before all times.
    Infinite { negative: bool },
    At {
        /// Days from 2000-01-01.
        day: i64,
        /// Microseconds of that day: all of them for 24:00.
        clock: i64,
        /// How far the clock that it was read from is ahead of UTC, in microseconds, where the text
        /// says so.
        offset: Option<i64>,
    },
}

/// Microseconds from 2000-01-01 00:00 of a timestamp without zone; a zone in the text is left out,
/// as PostgreSQL leaves it out. Infinity is at the end of the type.
pub fn local(text: &str) -> Option<i64> {
    instant(&read(text)?, |_| 0)
}

/// Microseconds from 2000-01-01 00:00 UTC of a timestamp with zone; a text without a zone is read
/// in UTC.
pub(super) fn in_utc(text: &str) -> Option<i64> {
    instant(&read(text)?, |offset| offset.unwrap_or(0))
}

fn instant(written: &ParsedInstant, ahead: impl Fn(Option<i64>) -> i64) -> Option<i64> {
    match *written {
        ParsedInstant::Infinite { negative } => Some(if negative { i64::MIN } else { i64::MAX }),
        ParsedInstant::At { day, clock, offset } => {
            let micros = day
                .checked_mul(MICROS_PER_DAY)?
                .checked_add(clock)?
                .checked_sub(ahead(offset))?;
            Some(micros).filter(|micros| MICROS.contains(micros))
        }
    }
}

/// The day of a date, or of a timestamp's text, whatever its time.
pub(super) fn date_of(text: &str) -> Option<i32> {
    match read(text)? {
        ParsedInstant::Infinite { negative } => Some(if negative { i32::MIN } else { i32::MAX }),
        ParsedInstant::At {
            day,
            clock: _,
            offset: _,
        } => i32::try_from(day).ok(),
    }
}

/// A time of the day, as PostgreSQL prints it; a zone in the text is left out.
pub(super) fn time_of(text: &str) -> Option<String> {
    let text = text.trim().to_ascii_lowercase();
    let (micros, _) = clock_and_zone(text.strip_prefix('t').unwrap_or(&text))?;
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let fraction = if fraction == 0 {
        String::new()
    } else {
        format!(".{fraction:06}").trim_end_matches('0').to_owned()
    };
    Some(format!(
        "{:02}:{:02}:{:02}{fraction}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    ))
}

/// Whether the text names its zone, cannot be read here, or means the same in every zone.
pub(super) fn names_zone(text: &str) -> bool {
    match read(text) {
        Some(ParsedInstant::At {
            day: _,
            clock: _,
            offset,
        }) => offset.is_some(),
        Some(ParsedInstant::Infinite { .. }) | None => true,
    }
}

fn read(text: &str) -> Option<ParsedInstant> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "infinity" => return Some(ParsedInstant::Infinite { negative: false }),
        "-infinity" => return Some(ParsedInstant::Infinite { negative: true }),
        "epoch" => {
            return Some(ParsedInstant::At {
                day: EPOCH,
                clock: 0,
                offset: Some(0),
            });
        }
        _ => {}
    }
    // After a letter it would be the end of another word.
    let era = |era: &str| {
        text.strip_suffix(era)
            .filter(|before| !before.ends_with(|c: char| c.is_ascii_alphabetic()))
    };
    let (text, before_christ) = match (era("bc"), era("ad")) {
        (Some(rest), _) => (rest.trim_end(), true),
        (None, Some(rest)) => (rest.trim_end(), false),
        (None, None) => (text.as_str(), false),
    };
    let (date, rest) = text.split_at(
        text.find(|c: char| !(c.is_ascii_digit() || c == '-'))
            .unwrap_or(text.len()),
    );
    let day = day_of(date, before_christ)?;
    let rest = rest.trim_start();
    let (clock, offset) = match (rest, rest.strip_prefix('t')) {
        ("", _) => (0, None),
        (_, Some(time)) => clock_and_zone(time)?,
        (time, None) if time.starts_with(|c: char| c.is_ascii_digit()) => clock_and_zone(time)?,
        (zone, None) => (0, Some(offset(zone)?)),
    };
    Some(ParsedInstant::At { day, clock, offset })
}

/// `2024-01-31` or `20240131`, of a year of three digits at least.
fn day_of(text: &str, before_christ: bool) -> Option<i64> {
    let compact = || Some((text.get(..4)?, text.get(4..6)?, text.get(6..)?));
    let dashed = || {
        let (year, rest) = text.split_once('-')?;
        let (month, day) = rest.split_once('-')?;
        Some((year, month, day))
    };
    let (year, month, day) = if text.len() == 8 && !text.contains('-') {
        compact()?
    } else {
        dashed()?
    };
    if !(3..=7).contains(&year.len()) || month.len() > 2 || day.len() > 2 {
        return None;
    }
    let (year, month, day) = (digits(year)?, digits(month)?, digits(day)?);
    let year = i32::try_from(if before_christ { 1 - year } else { year })
        .ok()
        .filter(|_| year > 0)?;
    let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    // Years past PostgreSQL's last would overflow.
    let is_year = (-4713..=5_874_897).contains(&year);
    let day = is_year.then(|| existing_day(year, month, day)).flatten()?;
    Some(i64::from(day)).filter(|day| DAYS.contains(day))
}

fn clock_and_zone(text: &str) -> Option<(i64, Option<i64>)> {
    let (clock, zone) = text.split_at(
        text.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'))
            .unwrap_or(text.len()),
    );
    let offset = match zone.trim_start() {
        "" => None,
        zone => Some(offset(zone)?),
    };
    Some((clock_of(clock)?, offset))
}

/// `Z`, `UTC`, `+H`, `+HH`, `-HHMM`, `+HH:MM`, `+HH:MM:SS`.
fn offset(text: &str) -> Option<i64> {
    if ["z", "utc", "gmt", "zulu"].contains(&text) {
        return Some(0);
    }
    let (sign, text) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        (None, None) => return None,
    };
    let parts: Vec<&str> = match text.len() {
        3 | 4 if !text.contains(':') => {
            vec![text.get(..text.len() - 2)?, text.get(text.len() - 2..)?]
        }
        _ => text.split(':').collect(),
    };
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours] => (two(hours)?, 0, 0),
        [hours, minutes] => (two(hours)?, two(minutes)?, 0),
        [hours, minutes, seconds] => (two(hours)?, two(minutes)?, two(seconds)?),
        _ => return None,
    };
    let is_within = hours <= OFFSET_HOURS_MAX && minutes < 60 && seconds < 60;
    is_within.then_some(sign * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
}

/// `HH:MM[:SS[.fraction]]` in microseconds, up to 24:00.
fn clock_of(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let (hours, minutes, seconds) = match clock.split(':').collect::<Vec<_>>().as_slice() {
        [h, m] if !text.contains('.') => (two(h)?, two(m)?, 0),
        [h, m, s] => (two(h)?, two(m)?, two(s)?),
        _ => return None,
    };
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros_of(fraction)?;
    (hours <= 24 && minutes < 60 && seconds <= 60 && micros <= MICROS_PER_DAY).then_some(micros)
}

/// Digits after the point in microseconds, through a float8 as PostgreSQL rounds them.
fn micros_of(fraction: &str) -> Option<i64> {
    if fraction.len() > 18 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let share: f64 = format!("0.{fraction}0").parse().ok()?;
    Some((share * 1e6).round_ties_even() as i64)
}

/// A number of one or two digits.
fn two(text: &str) -> Option<i64> {
    if text.len() <= 2 { digits(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::too_many_lines, reason = "one table of cases")]
    #[test]
    fn iso_timestamps_are_read_as_postgresql_reads_them() {
        let hour = 3_600_000_000;
        for (text, wanted, in_zone) in [
            ("2000-01-01", 0, 0),
            ("2000-01-01 +00", 0, 0),
            ("2000-01-01 -05", 0, 5 * hour),
            ("2000-01-01Z", 0, 0),
            ("2000-01-01T01:00:00Z", hour, hour),
            ("2000-01-01 01:00+02", hour, -hour),
            ("2000-01-01 1:0:60", hour + 60_000_000, hour + 60_000_000),
            ("20000101 01:00:00", hour, hour),
            (
                "2000-01-01t01:00:00.5-0130",
                hour + 500_000,
                2 * hour + 1_800_500_000,
            ),
            ("2000-01-01 01:00:00.000000700 UTC", hour + 1, hour + 1),
            ("2000-01-01 01:00:00 +05:30", hour, hour - 19_800_000_000),
            ("1999-12-31 24:00", 0, 0),
            ("epoch", EPOCH * MICROS_PER_DAY, EPOCH * MICROS_PER_DAY),
            ("infinity", i64::MAX, i64::MAX),
            ("-Infinity", i64::MIN, i64::MIN),
            (
                "0001-12-31 24:00:00 BC",
                -730_119 * MICROS_PER_DAY,
                -730_119 * MICROS_PER_DAY,
            ),
        ] {
            assert_eq!(
                (local(text), in_utc(text)),
                (Some(wanted), Some(in_zone)),
                "{text}"
            );
        }
        for text in [
            "",
            "now",
            "2000-01-01 25:00",
            "2000-01-01 24:01",
            "2000-01-01 01:00 +16:00",
            "01/02/2000",
            "2000-01-01 01:00 PST",
            "2000-1-1T",
            "1995-01-01-05",
            "0000-01-01",
            "294277-01-01",
            "4714-11-23 BC",
            "+infinity",
        ] {
            assert_eq!(local(text), None, "{text}");
        }
        assert_eq!(
            (
                date_of("1999-12-31 24:00"),
                date_of("294277-01-01").is_some(),
                date_of("infinity")
            ),
            (Some(-1), true, Some(i32::MAX))
        );
        let [day, minute] = ["24:00", "23:59:59.9999999"].map(|text| time_of(text).unwrap());
        assert_eq!(
            (
                day.as_str(),
                minute.as_str(),
                time_of("4:5:6.70+02").as_deref()
            ),
            ("24:00:00", "24:00:00", Some("04:05:06.7"))
        );
        assert!(
            names_zone("2000-01-01 00:00Z")
                && !names_zone("2000-01-01 00:00")
                && names_zone("tomorrow")
                && names_zone("infinity")
        );
    }
}
