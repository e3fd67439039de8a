//! Hours, days, weeks and months in UTC, numbered; and sets of them.

use serde::{Deserialize, Serialize};

use super::{DAYS, MICROS_PER_DAY, civil_from_days, days_from_civil};

const MICROS_PER_HOUR: i64 = MICROS_PER_DAY / 24;
/// The day 2000-01-03, a Monday: weeks begin on Mondays, as `date_trunc` has them.
const MONDAY: i64 = 2;

/// How long a period is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeriodLength {
    Hour,
    Day,
    Week,
    Month,
}

/// The number of a period, by its length. The period that 2000-01-01 is in has the number 0, a week
/// -1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Period(i64);

impl Period {
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    pub fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// The period this many later.
    pub fn plus(self, periods: i64) -> Self {
        Self(self.0.saturating_add(periods))
    }

    /// How many periods later the other one is.
    pub fn distance_to(self, later: Self) -> i64 {
        later.0.saturating_sub(self.0)
    }

    /// Its number, by which the ledger knows it.
    pub fn number(self) -> i64 {
        self.0
    }

    /// The period with this number.
    pub fn of_number(number: i64) -> Self {
        Self(number)
    }
}

impl PeriodLength {
    pub const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// The name in policies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// The period that a moment is in, in microseconds since 2000-01-01. Moments outside the years
    /// 1 to 9999 count as the first or the last of these.
    pub fn period_of(self, micros: i64) -> Period {
        let (first, last) = (i64::from(DAYS.0), i64::from(DAYS.1));
        let micros = micros.clamp(first * MICROS_PER_DAY, (last + 1) * MICROS_PER_DAY - 1);
        let day = micros.div_euclid(MICROS_PER_DAY);
        Period(match self {
            Self::Hour => micros.div_euclid(MICROS_PER_HOUR),
            Self::Day => day,
            Self::Week => (day - MONDAY).div_euclid(7),
            Self::Month => {
                // Clamped above, so that it fits.
                let (year, month, _) = civil_from_days(day as i32);
                (i64::from(year) - 2000) * 12 + i64::from(month) - 1
            }
        })
    }

    /// Its first moment, in microseconds since 2000-01-01.
    pub fn start(self, Period(number): Period) -> i64 {
        match self {
            Self::Hour => number.saturating_mul(MICROS_PER_HOUR),
            Self::Day => number.saturating_mul(MICROS_PER_DAY),
            Self::Week => number
                .saturating_mul(7)
                .saturating_add(MONDAY)
                .saturating_mul(MICROS_PER_DAY),
            Self::Month => {
                let year = number.div_euclid(12).saturating_add(2000).clamp(1, 10_000);
                let day = days_from_civil(year as i32, number.rem_euclid(12) as u32 + 1, 1);
                i64::from(day).saturating_mul(MICROS_PER_DAY)
            }
        }
    }

    /// Whether the moment is the first of a period.
    pub fn begins(self, micros: i64) -> bool {
        self.start(self.period_of(micros)) == micros
    }

    /// The beginning of a period, as people write it: `2026-11-01`, or `2026-11-01 14:00` of an
    /// hour.
    pub fn text(self, period: Period) -> String {
        let micros = self.start(period);
        let day = micros.div_euclid(MICROS_PER_DAY);
        let (year, month, day) = civil_from_days(i32::try_from(day).unwrap_or(i32::MAX / 2));
        let date = format!("{year:04}-{month:02}-{day:02}");
        match self {
            Self::Hour => {
                let hour = micros.rem_euclid(MICROS_PER_DAY) / MICROS_PER_HOUR;
                format!("{date} {hour:02}:00")
            }
            Self::Day | Self::Week | Self::Month => date,
        }
    }
}

/// A set of periods of one length: runs of consecutive ones, in order, none next to another.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PeriodSet(Vec<(Period, Period)>);

impl PeriodSet {
    /// The periods from `first` to before `end`.
    pub fn between(first: Period, end: Period) -> Self {
        Self(if first < end {
            vec![(first, end)]
        } else {
            Vec::new()
        })
    }

    /// Each run: its first period, and the one after its last.
    pub fn runs(&self) -> &[(Period, Period)] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many periods it has.
    pub fn count(&self) -> u64 {
        let lengths = self.0.iter().map(|(first, end)| end.0.abs_diff(first.0));
        lengths.fold(0, u64::saturating_add)
    }

    pub fn contains(&self, period: Period) -> bool {
        let at = self.0.partition_point(|(_, end)| *end <= period);
        self.0.get(at).is_some_and(|(first, _)| *first <= period)
    }

    /// The first period, and the one after the last.
    pub fn hull(&self) -> Option<(Period, Period)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// The periods that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        let (mut runs, mut mine, mut theirs) = (Vec::new(), 0, 0);
        while let (Some(a), Some(b)) = (self.0.get(mine), other.0.get(theirs)) {
            let (first, end) = (a.0.max(b.0), a.1.min(b.1));
            if first < end {
                runs.push((first, end));
            }
            if a.1 <= b.1 {
                mine += 1;
            } else {
                theirs += 1;
            }
        }
        Self(runs)
    }

    /// The periods that are in either set.
    pub fn or(&self, other: &Self) -> Self {
        let mut all: Vec<_> = self.0.iter().chain(&other.0).copied().collect();
        all.sort_unstable();
        let mut runs: Vec<(Period, Period)> = Vec::new();
        for (first, end) in all {
            match runs.last_mut() {
                Some((_, last)) if first <= *last => *last = (*last).max(end),
                Some(_) | None => runs.push((first, end)),
            }
        }
        Self(runs)
    }

    /// The periods that are not in the other set.
    pub fn without(&self, other: &Self) -> Self {
        let mut runs = Vec::new();
        for (first, end) in &self.0 {
            let mut from = *first;
            let from_here = other.0.partition_point(|(_, last)| last <= first);
            for (out, back) in other.0.iter().skip(from_here) {
                if out >= end {
                    break;
                }
                if from < *out {
                    runs.push((from, *out));
                }
                from = from.max(*back);
            }
            if from < *end {
                runs.push((from, *end));
            }
        }
        Self(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::iso;

    fn micros(text: &str) -> i64 {
        iso::timestamp(text, iso::Zone::Refused).unwrap()
    }

    /// Each checked with PostgreSQL: SELECT date_trunc('week', timestamp '…').
    #[test]
    fn periods_begin_where_date_trunc_has_them() {
        use PeriodLength as L;
        for (length, moment, begins) in [
            (L::Hour, "2026-11-05 14:59:59.999999", "2026-11-05 14:00:00"),
            (L::Hour, "1999-12-31 23:59:59", "1999-12-31 23:00:00"),
            (L::Day, "2026-11-05 00:00:00", "2026-11-05"),
            (L::Day, "1969-12-31 23:59:59", "1969-12-31"),
            (L::Week, "2000-01-01", "1999-12-27"),
            (L::Week, "2000-01-03", "2000-01-03"),
            (L::Week, "2026-11-29 23:59:59", "2026-11-23"),
            (L::Month, "2000-02-29 12:00:00", "2000-02-01"),
            (L::Month, "1999-12-31 23:59:59", "1999-12-01"),
            (L::Month, "0001-01-31", "0001-01-01"),
            (L::Month, "9999-12-31", "9999-12-01"),
        ] {
            let period = length.period_of(micros(moment));
            assert_eq!(length.start(period), micros(begins), "{length:?} {moment}");
            assert!(length.begins(micros(begins)), "{length:?} {moment}");
            assert_eq!(
                length.begins(micros(moment)),
                micros(moment) == micros(begins)
            );
            assert!(length.start(period.next()) > micros(moment));
        }
        assert_eq!(L::Month.period_of(0), Period(0));
        assert_eq!(L::Week.period_of(0), Period(-1));
        assert_eq!(
            L::Hour.text(L::Hour.period_of(micros("2026-11-05 14:30:00"))),
            "2026-11-05 14:00"
        );
        assert_eq!(
            L::Week.text(L::Week.period_of(micros("2026-11-29"))),
            "2026-11-23"
        );
    }

    /// Sets against lists of numbers, for all sets within eight numbers.
    #[test]
    fn sets_are_sets() {
        let set = |bits: u8| {
            let singles = (0..8).filter(|at| bits >> at & 1 == 1);
            singles.fold(PeriodSet::default(), |set, at| {
                set.or(&PeriodSet::between(Period(at), Period(at + 1)))
            })
        };
        let bits = |set: &PeriodSet| {
            (0..8).fold(0u8, |bits, at| {
                bits | u8::from(set.contains(Period(at))) << at
            })
        };
        for a in 0..=255u8 {
            assert_eq!(bits(&set(a)), a);
            assert_eq!(set(a).count(), u64::from(a.count_ones()));
            for b in 0..=255u8 {
                let (one, other) = (set(a), set(b));
                // Equal sets have equal runs.
                assert_eq!(one.and(&other), set(a & b), "{a} {b}");
                assert_eq!(one.or(&other), set(a | b), "{a} {b}");
                assert_eq!(one.without(&other), set(a & !b), "{a} {b}");
            }
        }
    }
}
