//! ISO dates and times as policies and pages write them, and as PostgreSQL stores them: days and
//! microseconds since 2000-01-01. Constants of statements may have other forms too, which
//! `ir::literal` reads as PostgreSQL does.

use super::{MICROS_PER_DAY, existing_day};

/// Whether a timestamp may carry an offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    Refused,
    Offset,
}

/// `YYYY-MM-DD`, years 0001 to 9999, as days since 2000-01-01.
pub fn date(text: &str) -> Option<i32> {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let year = i32::try_from(digits(text.get(0..4)?)?).ok()?;
    let month = u32::try_from(digits(text.get(5..7)?)?).ok()?;
    let day = u32::try_from(digits(text.get(8..10)?)?).ok()?;
    existing_day(year, month, day).filter(|_| year >= 1)
}

/// `YYYY-MM-DD`, or that with `HH:MM[:SS[.ffffff]]` after a blank or `T`, as microseconds since
/// 2000-01-01. Without an offset it is taken as UTC.
pub fn timestamp(text: &str, zone: Zone) -> Option<i64> {
    let days = i64::from(date(text.get(0..10)?)?);
    let Some(rest) = text.get(10..).filter(|r| !r.is_empty()) else {
        return Some(days * MICROS_PER_DAY);
    };
    let clock = rest.strip_prefix([' ', 'T'])?;
    let (clock, offset) = match (clock.find(['Z', '+', '-']), zone) {
        (None, _) => (clock, 0),
        (Some(at), Zone::Offset) => (clock.get(..at)?, offset(clock.get(at..)?)?),
        (Some(_), Zone::Refused) => return None,
    };
    Some(days * MICROS_PER_DAY + time(clock)? - offset)
}

fn time(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let (hour, minute, second) = match parts.as_slice() {
        [h, m] if !text.contains('.') => (two(h)?, two(m)?, 0),
        [h, m, s] => (two(h)?, two(m)?, two(s)?),
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 || fraction.len() > 6 {
        return None;
    }
    let micros = digits(&format!("{fraction:0<6}"))?;
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

/// `Z`, `+HH` or `+HH:MM`, as microseconds east of UTC.
fn offset(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hour, minute) = text
        .get(1..)?
        .split_once(':')
        .map_or((text.get(1..)?, "00"), |parts| parts);
    let (hour, minute) = (two(hour)?, two(minute)?);
    (hour <= 15 && minute <= 59).then_some(sign * (hour * 60 + minute) * 60_000_000)
}

fn two(text: &str) -> Option<i64> {
    (text.len() == 2).then(|| digits(text)).flatten()
}

/// A number of digits alone.
pub fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_2000() {
        // Each checked with PostgreSQL: SELECT date '…' - date '2000-01-01'.
        for (text, days) in [
            ("2000-01-01", 0),
            ("1999-12-31", -1),
            ("2000-03-01", 60),
            ("1970-01-01", -10957),
            ("0001-01-01", -730_119),
            ("9999-12-31", 2_921_939),
        ] {
            assert_eq!(date(text), Some(days), "{text}");
        }
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2023-13-01",
            "2023-00-10",
            "0000-01-01",
            "2023-1-1",
            "today",
            "infinity",
            "10000-01-01",
            "2023-01-01 BC",
        ] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_are_utc() {
        assert_eq!(timestamp("2000-01-01", Zone::Refused), Some(0));
        assert_eq!(
            timestamp("2000-01-02 00:00:01.5", Zone::Refused),
            Some(MICROS_PER_DAY + 1_500_000)
        );
        assert_eq!(timestamp("2000-01-01T01:00:00+01", Zone::Offset), Some(0));
        assert_eq!(
            timestamp("2000-01-01 00:00:00-05:30", Zone::Offset),
            Some(19_800_000_000)
        );
        assert_eq!(timestamp("2000-01-01 00:00Z", Zone::Offset), Some(0));
        for text in [
            "2000-01-01 00:00:00+01",
            "2000-01-01 24:00:00",
            "2000-01-01 1:00",
            "2000-01-01 00:00:60",
            "2000-01-01x",
            "2000-01-01 00:00.5",
        ] {
            assert_eq!(timestamp(text, Zone::Refused), None, "{text}");
        }
    }
}
