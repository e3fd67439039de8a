//! The periods of a table: stretches of time whose answers are bought once each, when they are
//! over.

use std::time::Duration;

use super::ColumnPosition;
use crate::calendar::period::{Period, PeriodLength, PeriodSet};

/// A run of periods that one price covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Counted from zero.
    pub number: i64,
    pub first: Period,
    /// The period after its last one.
    pub end: Period,
}

impl Horizon {
    pub fn periods(&self) -> PeriodSet {
        PeriodSet::between(self.first, self.end)
    }
}

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
    /// Where one price covers a run of them.
    pub prepaid: Option<Prepaid>,
}

/// One price covers all periods of a horizon; of each unit, only the first few periods count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepaid {
    /// The most periods of a unit that count, within one horizon.
    pub per_unit: u32,
    /// How many periods one price covers. Horizons follow each other.
    pub horizon: u32,
    /// The most rows that a unit contributes to one period; `None`: those of the table. It chooses
    /// the clip.
    pub rows: Option<u32>,
    pub answers: PrepaidAnswers,
}

/// What the noise of prepaid periods is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PrepaidAnswers {
    /// Each period has its own noise, and totals have that of all their periods.
    #[default]
    Periods,
    /// Running totals, where they have less noise by a square root. Single periods have more.
    Totals,
}

impl Prepaid {
    /// The most periods in which one unit counts.
    pub fn counted_periods(&self) -> u32 {
        self.per_unit.min(self.horizon)
    }
}

impl Periods {
    /// The horizon that a period is in, of horizons of this many periods.
    pub fn horizon_of(&self, prepaid: Prepaid, period: Period) -> Horizon {
        let length = i64::from(prepaid.horizon);
        let number = self.from.distance_to(period).div_euclid(length);
        let first = self.from.plus(number.saturating_mul(length));
        Horizon {
            number,
            first,
            end: first.plus(length),
        }
    }

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
        match self.prepaid {
            None => {
                format!("by {by} of {column} from {from}, each bought once, {after} after its end")
            }
            Some(Prepaid {
                per_unit,
                horizon,
                rows: _,
                answers,
            }) => {
                let totals = match answers {
                    PrepaidAnswers::Periods => "",
                    PrepaidAnswers::Totals => "; for running totals",
                };
                format!(
                    "by {by} of {column} from {from}, {horizon} {by}s at one price, {after} after \
                        their end; the first {per_unit} {by}s of a unit count{totals}"
                )
            }
        }
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
            prepaid: None,
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
        let prepaid = Prepaid {
            per_unit: 30,
            horizon: 7,
            rows: None,
            answers: PrepaidAnswers::Periods,
        };
        assert_eq!(prepaid.counted_periods(), 7);
        let horizon = |text| periods.horizon_of(prepaid, day(text));
        assert_eq!(horizon("2026-11-01"), horizon("2026-11-07"));
        let second = horizon("2026-11-08");
        assert_eq!((second.number, second.first), (1, day("2026-11-08")));
        assert_eq!(second.periods().count(), 7);
        assert_eq!(
            Periods {
                prepaid: Some(prepaid),
                ..periods
            }
            .describe("seen"),
            "by day of seen from 2026-11-01, 7 days at one price, 2d after their end; the first \
                30 days of a unit count"
        );
        let for_totals = Periods {
            prepaid: Some(Prepaid {
                answers: PrepaidAnswers::Totals,
                ..prepaid
            }),
            ..periods
        };
        assert!(
            for_totals
                .describe("seen")
                .ends_with("count; for running totals")
        );
        // Before the first one, and at the ends of the calendar.
        assert!(closed("2020-01-01").is_empty());
        assert!(periods.closed_at(i64::MIN).is_empty());
    }
}
