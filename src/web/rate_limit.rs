//! Limits how often something happens, with a burst to begin with.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most `most` at once, and one more after each `every`.
#[derive(Debug)]
pub struct Rate {
    most: u32,
    every: Duration,
    /// When all that was admitted is paid off.
    paid_off: Mutex<Option<Instant>>,
}

impl Rate {
    pub fn new(most: u32, every: Duration) -> Self {
        Self {
            most,
            every,
            paid_off: Mutex::default(),
        }
    }

    /// Whether another one may happen now; if so it counts.
    pub fn admits(&self, now: Instant) -> bool {
        let mut paid_off = self.paid_off.lock().unwrap_or_else(PoisonError::into_inner);
        let then = paid_off.map_or(now, |then| then.max(now)) + self.every;
        let is_admitted = then.saturating_duration_since(now) <= self.every * self.most;
        if is_admitted {
            *paid_off = Some(then);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_after_the_other() {
        let second = Duration::from_secs(1);
        let (rate, begin) = (Rate::new(3, 2 * second), Instant::now());
        let admitted = |after: u32, tries: usize| -> usize {
            (0..tries)
                .filter(|_| rate.admits(begin + after * second))
                .count()
        };
        assert_eq!(admitted(0, 10), 3);
        assert_eq!(admitted(1, 10), 0);
        assert_eq!(admitted(2, 10), 1);
        assert_eq!(admitted(7, 10), 2);
        // However long nothing happens, the burst is no longer.
        assert_eq!(admitted(1000, 10), 3);
    }
}
