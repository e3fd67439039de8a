//! Dates and times in ISO form, with or without a zone. What else PostgreSQL reads depends on DateStyle, or is a word such as `now`.

use super::{MICROS_PER_DAY, date, in_calendar};

/// Longest offset from UTC that PostgreSQL takes, in minutes.
const OFFSET_MAX: i64 = 15 * 60 + 59;

/// A date and a time as written.
struct Written {
    /// Microseconds from 2000-01-01 00:00, on the clock that it was read from.
    local: i64,
    /// How far that clock is ahead of UTC, in microseconds, where the text says so.
    offset: Option<i64>,
}

/// Microseconds from 2000-01-01 00:00 of a timestamp without zone; a zone in the text is left out, as PostgreSQL leaves it out.
pub fn local(text: &str) -> Option<i64> {
    read(text).map(|written| written.local)
}

/// The same of a timestamp with zone; without one in the text, in a session of UTC. Zones do not lead out of the years 1 to 9999.
pub(super) fn in_utc(text: &str) -> Option<i64> {
    read(text).map(|written| written.local - written.offset.unwrap_or(0)).filter(|micros| in_calendar(*micros))
}

/// The day of a date, or of a timestamp's text.
pub(super) fn date_of(text: &str) -> Option<i32> {
    i32::try_from(local(text)?.div_euclid(MICROS_PER_DAY)).ok()
}

/// A time of the day, as PostgreSQL prints it.
pub(super) fn time_of(text: &str) -> Option<String> {
    let micros = clock_of(text.trim())?;
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let fraction = if fraction == 0 { String::new() } else { format!(".{fraction:06}").trim_end_matches('0').to_owned() };
    Some(format!("{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60))
}

/// The text says which zone it means, or is none that is read here.
pub(super) fn names_zone(text: &str) -> bool {
    read(text).is_none_or(|written| written.offset.is_some())
}

fn read(text: &str) -> Option<Written> {
    let text = text.trim();
    let Some((day, time)) = text.split_once([' ', 'T', 't']) else {
        return Some(Written { local: i64::from(day_of(text)?) * MICROS_PER_DAY, offset: None });
    };
    let time = time.trim_start();
    let zone = time.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone);
    let offset = if zone.is_empty() { None } else { Some(offset(zone.trim_start())?) };
    Some(Written { local: i64::from(day_of(day)?) * MICROS_PER_DAY + clock_of(clock)?, offset })
}

/// `2024-01-31` or `20240131`.
fn day_of(text: &str) -> Option<i32> {
    match text.len() {
        8 if text.bytes().all(|b| b.is_ascii_digit()) => date(&format!("{}-{}-{}", &text[..4], &text[4..6], &text[6..])),
        _ => date(text),
    }
}

/// `Z`, `UTC`, `+HH`, `-HHMM`, `+HH:MM`.
fn offset(text: &str) -> Option<i64> {
    if ["z", "utc", "gmt"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Some(0);
    }
    let (sign, text) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (-1, rest),
        (None, None) => return None,
    };
    let (hours, minutes) = match (text.split_once(':'), text.len()) {
        (Some((hours, minutes)), _) if minutes.len() == 2 => (hours, minutes),
        (None, 1 | 2) => (text, "0"),
        (None, 4) if text.is_ascii() => text.split_at(2),
        _ => return None,
    };
    let digits = |part: &str| if part.bytes().all(|b| b.is_ascii_digit()) { part.parse::<i64>().ok() } else { None };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let all = hours * 60 + minutes;
    if minutes > 59 || all > OFFSET_MAX { None } else { Some(sign * all * 60_000_000) }
}

/// `HH:MM[:SS[.fraction]]` in microseconds; digits past the sixth are rounded.
fn clock_of(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let part = |p: &str| if p.len() == 2 && p.bytes().all(|b| b.is_ascii_digit()) { p.parse::<i64>().ok() } else { None };
    let parts: Vec<i64> = clock.split(':').map(part).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts.as_slice() {
        [h, m] if fraction.is_empty() => (*h, *m, 0),
        [h, m, s] => (*h, *m, *s),
        _ => return None,
    };
    if hours > 23 || minutes > 59 || seconds > 59 || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    // A half is rounded by its float, up or down: not followed here.
    if nanos % 1000 == 500 {
        return None;
    }
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + (nanos + 500) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_timestamps_are_read_as_postgresql_reads_them() {
        let hour = 3_600_000_000;
        for (text, wanted, in_zone) in [
            ("2000-01-01", 0, 0),
            ("2000-01-01T01:00:00Z", hour, hour),
            ("2000-01-01 01:00+02", hour, -hour),
            ("20000101T010000", -1, -1),
            ("20000101 01:00:00", hour, hour),
            ("2000-01-01t01:00:00.5-0130", hour + 500_000, 2 * hour + 1_800_500_000),
            ("2000-01-01 01:00:00.000000700 UTC", hour + 1, hour + 1),
            ("2000-01-01 01:00:00 +05:30", hour, hour - 19_800_000_000),
        ] {
            let known = |micros: i64| if micros < 0 && wanted < 0 { None } else { Some(micros) };
            assert_eq!((local(text), in_utc(text)), (known(wanted), known(in_zone)), "{text}");
        }
        for text in [
            "",
            "now",
            "2000-01-01 25:00",
            "2000-01-01 1:00",
            "2000-01-01 01:00 +16:00",
            "01/02/2000",
            "2000-01-01 01:00 PST",
            "2000-1-1T",
            "2000-01-01Z",
        ] {
            assert_eq!(local(text), None, "{text}");
        }
        assert_eq!((in_utc("0001-01-01 00:00+15"), in_utc("9999-12-31 23:00-02"), in_utc("9999-12-31 23:00+02").is_some()), (None, None, true));
        assert!(names_zone("2000-01-01 00:00Z") && !names_zone("2000-01-01 00:00") && names_zone("tomorrow"));
    }
}
