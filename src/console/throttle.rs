//! Slows down whoever guesses passwords: by name and by address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures that cost no time.
const FREE: u32 = 5;
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(60);
/// After this time without a failure, all is forgotten.
const MEMORY: Duration = Duration::from_secs(3600);
/// Names and addresses that are kept; the oldest give way.
const KEPT: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Name(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
}

/// Who failed to log in, how often, and when.
#[derive(Debug)]
pub struct Throttle {
    /// After the first failure that costs time.
    first_wait: Duration,
    known: Mutex<HashMap<Key, Failures>>,
}

impl Throttle {
    pub fn new(first_wait: Duration) -> Self {
        Self {
            first_wait,
            known: Mutex::default(),
        }
    }

    fn after(&self, failures: &Failures) -> Duration {
        match failures.count.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(more) => LONGEST.min(self.first_wait * (1 << more.min(6))),
        }
    }

    /// How long this name and this address must wait for their next try.
    pub fn wait(&self, name: &str, address: IpAddr, now: Instant) -> Duration {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, failures| now.saturating_duration_since(failures.last) < MEMORY);
        keys(name, address)
            .iter()
            .filter_map(|key| known.get(key))
            .map(|failures| (failures.last + self.after(failures)).saturating_duration_since(now))
            .max()
            .unwrap_or_default()
    }

    /// Counts a try before its password is compared, so that many at the same time are counted too.
    pub fn count(&self, name: &str, address: IpAddr, now: Instant) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(name, address) {
            if known.len() >= KEPT && !known.contains_key(&key) {
                let oldest = known.iter().min_by_key(|(_, failures)| failures.last);
                if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                    known.remove(&oldest);
                }
            }
            let failures = known.entry(key).or_insert(Failures {
                count: 0,
                last: now,
            });
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// Forgets the tries of whoever knew the password.
    pub fn forget(&self, name: &str, address: IpAddr) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys(name, address) {
            known.remove(&key);
        }
    }
}

fn keys(name: &str, address: IpAddr) -> [Key; 2] {
    [
        Key::Name(name.chars().take(63).collect()),
        Key::Address(address),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    #[test]
    fn each_failure_after_the_fifth_waits_longer() {
        let (throttle, mut now) = (Throttle::new(Duration::from_secs(1)), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..14 {
            let wait = throttle.wait("olga", HERE, now);
            waits.push(wait.as_secs());
            now += wait;
            throttle.count("olga", HERE, now);
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        // The name from elsewhere, and another name from here.
        assert_eq!(throttle.wait("olga", THERE, now), LONGEST);
        assert_eq!(throttle.wait("wim", HERE, now), LONGEST);
        assert_eq!(throttle.wait("wim", THERE, now), Duration::ZERO);
        throttle.forget("olga", HERE);
        assert_eq!(throttle.wait("olga", HERE, now), Duration::ZERO);
    }

    #[test]
    fn memory_is_limited_in_time_and_number() {
        let throttle = Throttle::new(Duration::from_secs(1));
        let mut now = Instant::now();
        for number in 0..KEPT + 100 {
            now += Duration::from_micros(1);
            throttle.count(&format!("a{number}"), THERE, now);
        }
        assert!(throttle.known.lock().unwrap().len() <= KEPT);
        assert!(throttle.wait("a", THERE, now) > Duration::ZERO);
        assert_eq!(throttle.wait("a", THERE, now + MEMORY), Duration::ZERO);
        assert!(throttle.known.lock().unwrap().is_empty());
    }
}
