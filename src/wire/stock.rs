//! Rows that sessions hold: answers on their way to a client that reads slowly, cursors, portals that are read in parts. A little is every session's own; what is
//! beyond comes out of one stock for all, so that no number of sessions takes the machine's memory, and of which a quarter stays for other roles than the greediest.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::portal::Row;
use crate::refusal::Refusal;

/// What a session may hold before the common stock is asked.
const OWN_BYTES: usize = 2 << 20;
/// The common stock: of all sessions together.
const COMMON_BYTES: usize = 1 << 30;
/// Weight of a row and of a value beside their bytes.
const ROW_BYTES: usize = 48;
const VALUE_BYTES: usize = 64;

/// What may still be held from one source.
struct Source {
    held: AtomicUsize,
    most: usize,
}

impl Source {
    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { held: AtomicUsize::new(0), most })
    }

    fn take(self: &Arc<Self>, bytes: usize) -> Option<Taken> {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Taken { source: self.clone(), bytes })
    }
}

/// The common stock, and what each role has of it.
pub(super) struct Stock {
    common: Arc<Source>,
    by_role: Mutex<HashMap<String, Arc<Source>>>,
}

/// One session's: its own, then the role's part of the common one.
pub(super) struct Share {
    own: Arc<Source>,
    of_role: Arc<Source>,
    common: Arc<Source>,
}

/// Some of a source; given back when it is dropped.
struct Taken {
    source: Arc<Source>,
    bytes: usize,
}

/// The weight of some rows; given back when they are dropped.
pub(super) struct Held {
    _taken: Taken,
    /// Where the first is the role's.
    _common: Option<Taken>,
}

impl Stock {
    pub(super) fn new() -> Self {
        Self::of(COMMON_BYTES)
    }

    fn of(bytes: usize) -> Self {
        Self { common: Source::new(bytes), by_role: Mutex::default() }
    }

    pub(super) fn share(&self, role: &str) -> Share {
        let most = self.common.most - self.common.most / 4;
        let mut all = self.by_role.lock().unwrap_or_else(PoisonError::into_inner);
        // Roles are the policy's: few.
        let of_role = Arc::clone(all.entry(role.to_owned()).or_insert_with(|| Source::new(most)));
        Share { own: Source::new(OWN_BYTES), of_role, common: Arc::clone(&self.common) }
    }
}

impl Share {
    /// # Errors
    /// 53200 where the stock is at its end.
    pub(super) fn hold(&self, rows: &[Row]) -> Result<Held, Refusal> {
        let value = |value: &Option<bytes::Bytes>| VALUE_BYTES + value.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = rows.iter().map(|row| ROW_BYTES + row.iter().map(value).sum::<usize>()).sum();
        self.take(bytes).ok_or_else(|| {
            Refusal::new("53200", "out of memory")
                .detail("Sessions hold too many rows that no client has read yet. What was paid is kept: to ask again is free.")
                .hint("Read or close open cursors and portals, or ask for fewer rows.")
        })
    }

    fn take(&self, bytes: usize) -> Option<Held> {
        if let Some(own) = self.own.take(bytes) {
            return Some(Held { _taken: own, _common: None });
        }
        let of_role = self.of_role.take(bytes)?;
        Some(Held { _taken: of_role, _common: Some(self.common.take(bytes)?) })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.source.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn rows(bytes: usize) -> Vec<Row> {
        vec![vec![Some(Bytes::from(vec![0; bytes])), None]]
    }

    #[test]
    fn little_is_ones_own_and_much_is_everybodys() {
        let stock = Stock::of(3 * OWN_BYTES);
        let (greedy, modest) = (stock.share("ann"), stock.share("ann"));
        let mut held: Vec<Held> = (0..2).map(|_| greedy.hold(&rows(OWN_BYTES)).ok().unwrap()).collect();
        assert_eq!(greedy.hold(&rows(OWN_BYTES)).err().unwrap().sqlstate, "53200");
        // Who holds little is not touched by it.
        let small = modest.hold(&rows(1000)).ok().unwrap();
        assert!(modest.hold(&rows(OWN_BYTES)).is_err());
        held.pop();
        assert!(modest.hold(&rows(OWN_BYTES)).is_ok());
        drop((held, small));
        assert_eq!(stock.common.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn one_role_leaves_room_for_another() {
        let stock = Stock::of(8 * OWN_BYTES);
        let greedy: Vec<Share> = (0..8).map(|_| stock.share("ann")).collect();
        let held: Vec<Held> = greedy.iter().cycle().map_while(|share| share.hold(&rows(OWN_BYTES)).ok()).collect();
        assert_eq!(held.len(), 5, "six of eight, less what the rows weigh beside their bytes");
        let other = stock.share("bob");
        let others = [other.hold(&rows(OWN_BYTES)).ok().unwrap(), other.hold(&rows(OWN_BYTES / 2)).ok().unwrap()];
        drop(held);
        assert!(greedy[0].hold(&rows(OWN_BYTES)).is_ok());
        drop(others);
        assert_eq!((stock.common.held.load(Ordering::Relaxed), other.of_role.held.load(Ordering::Relaxed)), (0, 0));
    }
}
