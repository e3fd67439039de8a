//! The periods of a table: stretches of time whose answers are bought once each, when they are
//! over.

use std::time::Duration;

use super::ColumnPosition;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};

/// The periods that the owner declares of a private table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// The column with the moment of a row: a date or a timestamp.
    pub column: ColumnPosition,
    pub length: PeriodLength,
    /// The first period.
    pub from: Period,
    /// How long after its end a period is closed: late rows come before.
    pub close_after: Duration,
}

impl Periods {
    /// The periods that are closed at a moment, in microseconds since 2000-01-01. It depends on the
    /// policy and the clock alone.
    pub fn closed_at(&self, now: i64) -> PeriodSet {
        let after = i64::try_from(self.close_after.as_micros()).unwrap_or(i64::MAX);
        let open = self.length.period_of(now.saturating_sub(after));
        PeriodSet::between(self.from, open)
    }

    /// In words: `by day of visited_at from 2026-01-01, each bought once, 2d after its end`.
    pub fn describe(&self, column: &str) -> String {
        let minutes = self.close_after.as_secs() / 60;
        let after = match (minutes % 1440, minutes % 60) {
            (0, _) => format!("{}d", minutes / 1440),
            (_, 0) => format!("{}h", minutes / 60),
            _ => format!("{minutes}min"),
        };
        let (by, from) = (self.length.name(), self.length.text(self.from));
        format!("by {by} of {column} from {from}, each bought once, {after} after its end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::iso::{Zone, timestamp};

    #[test]
    fn a_period_closes_some_time_after_its_end() {
        let micros = |text| timestamp(text, Zone::Refused).unwrap();
        let day = |text| PeriodLength::Day.period_of(micros(text));
        let periods = Periods {
            column: ColumnPosition(0),
            length: PeriodLength::Day,
            from: day("2026-11-01"),
            close_after: Duration::from_secs(2 * 86_400),
        };
        let closed = |now| periods.closed_at(micros(now));
        assert!(closed("2026-11-03 23:59:59.999999").is_empty());
        let first = PeriodSet::between(day("2026-11-01"), day("2026-11-02"));
        assert_eq!(closed("2026-11-04"), first);
        assert_eq!(closed("2026-11-04 23:59:59"), first);
        assert_eq!(
            periods.describe("seen"),
            "by day of seen from 2026-11-01, each bought once, 2d after its end"
        );
        // Before the first one, and at the ends of the calendar.
        assert!(closed("2020-01-01").is_empty());
        assert!(periods.closed_at(i64::MIN).is_empty());
    }
}
