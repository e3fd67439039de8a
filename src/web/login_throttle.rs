//! Slows down guessing of passwords: by address, and by name and address together. A stranger who
//! guesses a name's password from elsewhere does not delay the name's owner.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::server::network;

/// Failures of a name from one address that cost no time.
const FREE_OF_NAME: u32 = 5;
/// Failures from one address, of whatever names.
const FREE_OF_ADDRESS: u32 = 20;
/// The longest wait between two tries.
const LONGEST: Duration = Duration::from_secs(60);
/// After this time without a failure, all is forgotten.
const MEMORY: Duration = Duration::from_secs(3600);
/// Keys that are kept. Those with the fewest failures give way. An attacker who wants a key
/// forgotten has to fail more often elsewhere than that saves.
const KEPT: usize = 4096;
const NAME_MAX: usize = 63;

/// An address stands for its network: in IPv6 a client has a whole /64.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Name(String, IpAddr),
    Address(IpAddr),
}

impl Key {
    fn free(&self) -> u32 {
        match self {
            Self::Name(..) => FREE_OF_NAME,
            Self::Address(_) => FREE_OF_ADDRESS,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    /// Tries that came too early since the last failure.
    early: u32,
}

/// A try that comes too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    pub left: Duration,
    /// Whether the attempt is the first since the last failure: the others are not recorded one by
    /// one.
    pub is_first: bool,
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

    fn after(&self, key: &Key, failures: &Failures) -> Duration {
        match failures.count.checked_sub(key.free()) {
            None => Duration::ZERO,
            Some(more) => LONGEST.min(self.first_wait * (1 << more.min(6))),
        }
    }

    /// Counts a try before its password is compared, so that many at the same time are counted
    /// too; or says how long it has to wait.
    pub fn enter(&self, name: &str, address: IpAddr, now: Instant) -> Result<(), Wait> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, failures| now.saturating_duration_since(failures.last) < MEMORY);
        let keys = keys(name, address);
        let mut wait: Option<Wait> = None;
        for key in &keys {
            let Some(failures) = known.get_mut(key) else {
                continue;
            };
            let left = (failures.last + self.after(key, failures)).saturating_duration_since(now);
            if !left.is_zero() {
                failures.early = failures.early.saturating_add(1);
                let is_first = failures.early == 1 && wait.is_none_or(|wait| wait.is_first);
                let left = wait.map_or(left, |wait| wait.left.max(left));
                wait = Some(Wait { left, is_first });
            }
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        for key in keys {
            make_room(&mut known, &key);
            let failures = known.entry(key).or_insert(Failures {
                count: 0,
                last: now,
                early: 0,
            });
            failures.count = failures.count.saturating_add(1);
            (failures.last, failures.early) = (now, 0);
        }
        Ok(())
    }

    /// The try was right: it counts no more, and the name's earlier ones from here neither. Those
    /// of other names from the same address stay.
    pub fn forget(&self, name: &str, address: IpAddr) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_name, of_address] = keys(name, address);
        known.remove(&of_name);
        if let Some(failures) = known.get_mut(&of_address) {
            failures.count = failures.count.saturating_sub(1);
        }
    }
}

fn make_room(known: &mut HashMap<Key, Failures>, key: &Key) {
    if known.len() < KEPT || known.contains_key(key) {
        return;
    }
    let least = known
        .iter()
        .min_by_key(|(_, failures)| (failures.count, failures.last));
    if let Some(least) = least.map(|(key, _)| key.clone()) {
        known.remove(&least);
    }
}

fn keys(name: &str, address: IpAddr) -> [Key; 2] {
    let address = network(address);
    [
        Key::Name(name.chars().take(NAME_MAX).collect(), address),
        Key::Address(address),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn throttle() -> Throttle {
        Throttle::new(Duration::from_secs(1))
    }

    fn left(entered: Result<(), Wait>) -> Duration {
        entered.err().map_or(Duration::ZERO, |wait| wait.left)
    }

    #[test]
    fn each_failure_after_the_fifth_waits_longer() {
        let (throttle, mut now) = (throttle(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = left(throttle.enter("olga", HERE, now));
            waits.push(wait.as_secs());
            now += wait;
            if !wait.is_zero() {
                assert_eq!(throttle.enter("olga", HERE, now), Ok(()));
            }
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60]);
        // The name from elsewhere waits for nothing, nor does another name from here.
        assert_eq!(throttle.enter("olga", THERE, now), Ok(()));
        assert_eq!(throttle.enter("wim", HERE, now), Ok(()));
        throttle.forget("olga", HERE);
        assert_eq!(throttle.enter("olga", HERE, now), Ok(()));
    }

    #[test]
    fn an_address_waits_for_all_names_and_another_does_not() {
        let (throttle, now) = (throttle(), Instant::now());
        for name in 0..FREE_OF_ADDRESS {
            // Logging in under a name of one's own in between wipes out nothing.
            assert_eq!(throttle.enter("eve", HERE, now), Ok(()));
            throttle.forget("eve", HERE);
            assert_eq!(throttle.enter(&format!("a{name}"), HERE, now), Ok(()));
        }
        let first = throttle.enter("olga", HERE, now).unwrap_err();
        assert!(first.is_first && first.left == Duration::from_secs(1));
        let second = throttle.enter("olga", HERE, now).unwrap_err();
        assert!(!second.is_first);
        assert_eq!(throttle.enter("olga", THERE, now), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let (throttle, now) = (throttle(), Instant::now());
        let address = |text: &str| -> IpAddr { text.parse().unwrap() };
        for host in 0..FREE_OF_NAME {
            let from = address(&format!("2001:db8::{host}"));
            assert_eq!(throttle.enter("olga", from, now), Ok(()));
        }
        let same = address("2001:db8::ffff");
        assert!(throttle.enter("olga", same, now).is_err());
        let other = address("2001:db8:0:1::1");
        assert_eq!(throttle.enter("olga", other, now), Ok(()));
    }

    #[test]
    fn memory_is_limited_and_nobody_is_forgotten_by_many_others() {
        let throttle = throttle();
        let mut now = Instant::now();
        for _ in 0..FREE_OF_NAME {
            assert_eq!(throttle.enter("olga", HERE, now), Ok(()));
        }
        for number in 0..u32::try_from(KEPT).unwrap() {
            now += Duration::from_micros(1);
            let address = IpAddr::V4(std::net::Ipv4Addr::from(0x0a00_0000 + number));
            assert_eq!(throttle.enter("a", address, now), Ok(()));
        }
        assert_eq!(throttle.known.lock().unwrap().len(), KEPT);
        assert!(throttle.enter("olga", HERE, now).is_err());
        assert_eq!(throttle.enter("olga", HERE, now + MEMORY), Ok(()));
        assert_eq!(throttle.known.lock().unwrap().len(), 2);
    }
}
