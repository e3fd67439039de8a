//! Rows that sessions hold: answers on their way to a client that reads slowly, cursors, portals that are read in parts. A little is every session's own; what is
//! beyond comes out of one stock for all, so that no number of sessions takes the machine's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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

    fn take(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        Some(Held { source: self.clone(), bytes })
    }
}

/// The common stock.
#[derive(Clone)]
pub(super) struct Stock(Arc<Source>);

/// One session's: its own, then the common one.
pub(super) struct Share {
    own: Arc<Source>,
    common: Stock,
}

/// The weight of some rows; given back when they are dropped.
pub(super) struct Held {
    source: Arc<Source>,
    bytes: usize,
}

impl Stock {
    pub(super) fn new() -> Self {
        Self(Source::new(COMMON_BYTES))
    }

    pub(super) fn share(&self) -> Share {
        Share { own: Source::new(OWN_BYTES), common: self.clone() }
    }
}

impl Share {
    /// # Errors
    /// 53200 where the stock is at its end.
    pub(super) fn hold(&self, rows: &[Row]) -> Result<Held, Refusal> {
        let value = |value: &Option<bytes::Bytes>| VALUE_BYTES + value.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = rows.iter().map(|row| ROW_BYTES + row.iter().map(value).sum::<usize>()).sum();
        self.own.take(bytes).or_else(|| self.common.0.take(bytes)).ok_or_else(|| {
            Refusal::new("53200", "out of memory")
                .detail("Sessions hold too many rows that no client has read yet. What was paid is kept: to ask again is free.")
                .hint("Read or close open cursors and portals, or ask for fewer rows.")
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.source.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn little_is_ones_own_and_much_is_everybodys() {
        let stock = Stock(Source::new(3 * OWN_BYTES));
        let (greedy, modest) = (stock.share(), stock.share());
        let rows = |bytes: usize| vec![vec![Some(Bytes::from(vec![0; bytes])), None]];
        let mut held: Vec<Held> = (0..2).map(|_| greedy.hold(&rows(OWN_BYTES)).ok().unwrap()).collect();
        assert_eq!(greedy.hold(&rows(OWN_BYTES)).err().unwrap().sqlstate, "53200");
        // Who holds little is not touched by it.
        let small = modest.hold(&rows(1000)).ok().unwrap();
        assert!(modest.hold(&rows(OWN_BYTES)).is_err());
        held.pop();
        assert!(modest.hold(&rows(OWN_BYTES)).is_ok());
        drop((held, small));
        assert_eq!(stock.0.held.load(Ordering::Relaxed), 0);
    }
}
