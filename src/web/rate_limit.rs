//! Limits how often each visitor asks, with a burst to begin with. All sessions of one name share
//! its limit.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// At most `most` at once, and one more after each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimit {
    pub most: u32,
    pub every: Duration,
}

impl Default for RequestLimit {
    fn default() -> Self {
        Self {
            most: 30,
            every: Duration::from_secs(2),
        }
    }
}

impl RequestLimit {
    /// The pace in words.
    pub fn words(&self) -> String {
        let Self { most, every } = self;
        format!(
            "{most} at once, and then one every {} seconds",
            every.as_secs()
        )
    }
}

/// The requests of each name that count.
#[derive(Debug)]
pub struct Rates {
    pub pace: RequestLimit,
    /// When all that was admitted is paid off. A name that is paid off is forgotten.
    paid_off: Mutex<HashMap<String, Instant>>,
}

impl Rates {
    pub fn new(pace: RequestLimit) -> Self {
        Self {
            pace,
            paid_off: Mutex::default(),
        }
    }

    /// Whether this name may ask once more now; if so it counts.
    pub fn admits(&self, name: &str, now: Instant) -> bool {
        let RequestLimit { most, every } = self.pace;
        let mut paid_off = self.paid_off.lock().unwrap_or_else(PoisonError::into_inner);
        paid_off.retain(|_, then| *then > now);
        let then = paid_off.get(name).map_or(now, |then| *then) + every;
        let is_admitted = then.saturating_duration_since(now) <= every * most;
        if is_admitted {
            paid_off.insert(name.to_owned(), then);
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
        let pace = RequestLimit {
            most: 3,
            every: 2 * second,
        };
        let (rates, begin) = (Rates::new(pace), Instant::now());
        let admitted = |name: &str, after: u32, tries: usize| -> usize {
            (0..tries)
                .filter(|_| rates.admits(name, begin + after * second))
                .count()
        };
        assert_eq!(admitted("ann", 0, 10), 3);
        assert_eq!(admitted("ann", 1, 10), 0);
        // Another name has its own.
        assert_eq!(admitted("bob", 1, 10), 3);
        assert_eq!(admitted("ann", 2, 10), 1);
        assert_eq!(admitted("ann", 7, 10), 2);
        // However long nothing happens, the burst is no longer.
        assert_eq!(admitted("ann", 1000, 10), 3);
        assert_eq!(rates.paid_off.lock().unwrap().len(), 1);
    }
}
