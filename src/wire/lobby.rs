//! Connections that have not logged in yet. Where there are too many, the one that has waited longest is closed: to log in takes milliseconds, so that those who
//! stall are shown out and nobody else waits for them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// Fewest that may wait, however few sessions the policy allows.
const WAITING_MIN: usize = 16;

/// All who wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Lobby {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

/// One connection's place in the lobby, until it is dropped.
pub(super) struct Seat {
    lobby: Arc<Lobby>,
    number: u64,
    /// Cancelled where the connection is to go.
    pub(super) shown_out: CancellationToken,
}

impl Lobby {
    /// As many may wait as there may be `sessions`.
    pub(super) fn enter(self: &Arc<Self>, sessions: u32) -> Seat {
        let most = usize::try_from(sessions).unwrap_or(usize::MAX).max(WAITING_MIN);
        let shown_out = CancellationToken::new();
        let mut waiting = self.lock();
        while waiting.by_number.len() >= most
            && let Some((_, oldest)) = waiting.by_number.pop_first()
        {
            oldest.cancel();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_number.insert(number, shown_out.clone());
        drop(waiting);
        Seat { lobby: self.clone(), number, shown_out }
    }

    /// The map holds no invariant that a panic could break.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.lobby.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_waiting_is_shown_out() {
        let lobby = Arc::new(Lobby::default());
        let mut seats: Vec<Seat> = (0..WAITING_MIN).map(|_| lobby.enter(3)).collect();
        drop(seats.remove(5));
        seats.push(lobby.enter(3));
        assert!(seats.iter().all(|seat| !seat.shown_out.is_cancelled()), "one had left");
        let late = lobby.enter(3);
        let gone: Vec<bool> = seats.iter().map(|seat| seat.shown_out.is_cancelled()).collect();
        assert!(gone[0] && !gone[1..].contains(&true) && !late.shown_out.is_cancelled());
        drop((seats, late));
        assert!(lobby.lock().by_number.is_empty());
    }
}
