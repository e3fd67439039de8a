//! Time, as the ledger counts it: microseconds since 1970 (UTC), and the beginnings of weeks and
//! months.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::calendar::{DAY_OF_1970, MICROS_PER_DAY as DAY, civil_from_days};
use crate::policy::Renew;

/// How long a claim lasts unless it is renewed, in microseconds. After that its process counts as
/// dead.
pub(super) const LEASE: i64 = 15_000_000;

/// Where the ledger reads the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::new(|| {
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| {
                    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
                })
        })
    }

    /// Another clock, in microseconds since 1970: for tests of renewal.
    pub fn new(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(super) fn now(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// When the period that contains `now` began: Monday or the first of the month, 00:00 UTC. `None`
/// where the budget is never renewed.
pub fn period_start(renew: Renew, now: i64) -> Option<i64> {
    let day = now.div_euclid(DAY);
    let before = match renew {
        Renew::Never => return None,
        // 1970-01-01 was a Thursday.
        Renew::Weekly => (day + 3).rem_euclid(7),
        Renew::Monthly => i64::from(civil(day).2) - 1,
    };
    Some((day - before) * DAY)
}

/// When the period that contains `now` ends.
pub(super) fn period_end(renew: Renew, now: i64) -> Option<i64> {
    let start = period_start(renew, now)?;
    // The longest week or month, added to the first day, always ends in the next period.
    let longest = match renew {
        Renew::Never => return None,
        Renew::Weekly => 7,
        Renew::Monthly => 31,
    };
    period_start(renew, start + longest * DAY)
}

/// `YYYY-MM-DD` of a moment.
pub fn date(microseconds: i64) -> String {
    let (year, month, day) = civil(microseconds.div_euclid(DAY));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day, from days since 1970. Microseconds in an i64 are fewer than 2^27 days.
fn civil(day: i64) -> (i32, u32, u32) {
    civil_from_days(day as i32 + DAY_OF_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_on_mondays_and_firsts() {
        let hour = DAY / 24;
        // Days since 1970 by PostgreSQL: date '2026-11-21' (a Saturday) is 20778.
        let now = 20_778 * DAY + 17 * hour;
        assert_eq!(period_start(Renew::Weekly, now), Some(20_773 * DAY));
        assert_eq!(period_end(Renew::Weekly, now), Some(20_780 * DAY));
        assert_eq!(period_start(Renew::Monthly, now), Some(20_758 * DAY));
        assert_eq!(period_end(Renew::Monthly, now), Some(20_788 * DAY));
        assert_eq!(period_start(Renew::Never, now), None);
        // 2024-02-29 and 2024-03-01, 1969-12-31.
        assert_eq!(
            period_start(Renew::Monthly, 19_782 * DAY),
            Some(19_754 * DAY)
        );
        assert_eq!(
            period_start(Renew::Monthly, 19_783 * DAY),
            Some(19_783 * DAY)
        );
        assert_eq!(period_start(Renew::Monthly, -1), Some(-31 * DAY));
        assert_eq!(period_start(Renew::Weekly, -1), Some(-3 * DAY));
        for (day, text) in [
            (20_778, "2026-11-21"),
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
        ] {
            assert_eq!(date(day * DAY + hour), text);
        }
    }

    #[test]
    fn periods_tile_time() {
        for renew in [Renew::Weekly, Renew::Monthly] {
            let mut at = 0;
            for _ in 0..2000 {
                let end = period_end(renew, at).unwrap();
                assert_eq!(period_start(renew, end), Some(end));
                assert_eq!(period_start(renew, end - 1), period_start(renew, at));
                at = end;
            }
        }
    }
}
