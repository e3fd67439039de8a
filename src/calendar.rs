//! The calendar: days and months, counted as PostgreSQL stores them, from 2000-01-01. Each reader
//! of texts decides which texts are dates.
//!
//! It is our own because the libraries end too early: PostgreSQL's dates go from 4714 BC to the
//! year 5874897, jiff's from -9999 to 9999 and chrono's to 262142. What they would do for us is the
//! two conversions below; nothing else here needs a time zone or a clock.

pub mod iso;
pub mod period;

pub const MICROS_PER_DAY: i64 = 86_400_000_000;
/// The day 1970-01-01, where clocks begin.
pub const DAY_OF_1970: i32 = -10_957;
/// Microseconds from 1970 to 2000.
pub const FROM_1970_US: i64 = -(DAY_OF_1970 as i64) * MICROS_PER_DAY;
/// The first day of the year 1 and the last of 9999: the years of values over private rows.
pub const DAYS: (i32, i32) = (-730_119, 2_921_939);

/// The day 2000-01-01, counted from 0000-03-01.
const DAY_OF_2000: i32 = 730_425;
const DAYS_OF_400_YEARS: i32 = 146_097;

pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The day of a date. The year 0 is 1 BC. Years count from March, so that the leap day is the last.
///
/// # Reference
/// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i32 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year =
        (153 * (month as i32 + if month > 2 { -3 } else { 9 }) + 2) / 5 + day as i32 - 1;
    era * DAYS_OF_400_YEARS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year
        - DAY_OF_2000
}

/// The day of a date that the calendar has.
pub fn existing_day(year: i32, month: u32, day: u32) -> Option<i32> {
    let exists = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    exists.then(|| days_from_civil(year, month, day))
}

/// Year, month and day.
pub fn civil_from_days(days: i32) -> (i32, u32, u32) {
    let z = days + DAY_OF_2000;
    let era = z.div_euclid(DAYS_OF_400_YEARS);
    let day_of_era = z.rem_euclid(DAYS_OF_400_YEARS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let mp = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * mp + 2) / 5 + 1) as u32;
    let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
    (year_of_era + era * 400 + i32::from(month <= 2), month, day)
}

/// A moment in UTC, to the second, as ISO 8601 writes it. `microseconds` count from 1970.
pub fn utc(microseconds: i64) -> String {
    let days = microseconds.div_euclid(MICROS_PER_DAY);
    let second = microseconds.rem_euclid(MICROS_PER_DAY) / 1_000_000;
    let days = i32::try_from(days).unwrap_or(i32::MAX / 2);
    let (year, month, day) = civil_from_days(days + DAY_OF_1970);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59Z");
        assert_eq!(utc(1_795_553_999_999_999), "2026-11-24T20:59:59Z");
    }

    /// Each checked with PostgreSQL: SELECT date '…' - date '2000-01-01'.
    #[test]
    fn days_are_postgresqls() {
        for (days, date) in [
            (0, (2000, 1, 1)),
            (-1, (1999, 12, 31)),
            (60, (2000, 3, 1)),
            (DAY_OF_1970, (1970, 1, 1)),
            (DAYS.0, (1, 1, 1)),
            (DAYS.1, (9999, 12, 31)),
            (-730_120, (0, 12, 31)),
            (-2_451_545, (-4713, 11, 24)),
            (2_145_031_948, (5_874_897, 12, 31)),
        ] {
            assert_eq!(days_from_civil(date.0, date.1, date.2), days, "{date:?}");
            assert_eq!(civil_from_days(days), date, "{days}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (-4713, 11, 24);
        for days in -2_451_545..DAYS.1 + 1000 {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
            day += 1;
            if day > days_in_month(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
