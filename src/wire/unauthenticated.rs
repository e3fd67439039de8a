//! Connections of which nobody is known yet: clients that have not logged in, browsers that have
//! not sent a whole request. Where there are too many, the connection that has waited longest is
//! closed, of the network that has most. Logging in and sending a request take milliseconds, so
//! this closes clients that stall or come in a crowd, and no other client waits for them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The least limit, however few sessions the policy allows.
const WAITING_MIN: usize = 16;

/// All connections of which nobody is known yet.
#[derive(Default)]
pub struct Unauthenticated {
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In order of arrival.
    by_network: HashMap<IpAddr, BTreeMap<u64, CancellationToken>>,
}

impl PendingConnection {
    /// Removes the entry. Whether it was there: else the connection is being shown out.
    pub fn leave(self) -> bool {
        let mut waiting = self.unauthenticated.lock();
        waiting.remove(self.network, self.number).is_some()
    }
}

/// One connection's entry. Dropping it removes the entry.
pub struct PendingConnection {
    unauthenticated: Arc<Unauthenticated>,
    network: IpAddr,
    number: u64,
    /// Cancelled when the connection has to close.
    pub shown_out: CancellationToken,
}

impl Unauthenticated {
    /// Lets a connection wait for its login. At most as many wait as there may be `sessions`, or
    /// sixteen where that is more: else the oldest is shown out.
    pub fn enter(self: &Arc<Self>, address: IpAddr, sessions: u32) -> PendingConnection {
        let most = usize::try_from(sessions)
            .unwrap_or(usize::MAX)
            .max(WAITING_MIN);
        let (network, shown_out) = (network(address), CancellationToken::new());
        let mut waiting = self.lock();
        while waiting.len() >= most
            && let Some(oldest) = waiting.pop()
        {
            oldest.cancel();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting
            .by_network
            .entry(network)
            .or_default()
            .insert(number, shown_out.clone());
        drop(waiting);
        PendingConnection {
            unauthenticated: self.clone(),
            network,
            number,
            shown_out,
        }
    }

    /// The map has no invariant that a panic could break.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn len(&self) -> usize {
        self.by_network.values().map(BTreeMap::len).sum()
    }

    /// The longest waiting connection of the network that has most; where networks have equally
    /// many, the longest waiting of all.
    fn pop(&mut self) -> Option<CancellationToken> {
        let first = |pending: &BTreeMap<u64, CancellationToken>| {
            pending
                .first_key_value()
                .map(|(number, _)| Reverse(*number))
        };
        let (network, number) = self
            .by_network
            .iter()
            .max_by_key(|(_, pending)| (pending.len(), first(pending)))
            .and_then(|(network, pending)| Some((*network, *pending.first_key_value()?.0)))?;
        self.remove(network, number)
    }

    fn remove(&mut self, network: IpAddr, number: u64) -> Option<CancellationToken> {
        let pending = self.by_network.get_mut(&network)?;
        let token = pending.remove(&number);
        if pending.is_empty() {
            self.by_network.remove(&network);
        }
        token
    }
}

/// The network that an address counts for: a host has 64 bits of IPv6 to itself.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.unauthenticated
            .lock()
            .remove(self.network, self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn the_longest_waiting_is_shown_out() {
        let unauthenticated = Arc::new(Unauthenticated::default());
        let mut pending: Vec<PendingConnection> = (0..WAITING_MIN)
            .map(|_| unauthenticated.enter(HOME, 3))
            .collect();
        drop(pending.remove(5));
        pending.push(unauthenticated.enter(HOME, 3));
        assert!(
            pending
                .iter()
                .all(|pending| !pending.shown_out.is_cancelled()),
            "one had left"
        );
        let late = unauthenticated.enter(HOME, 3);
        let gone: Vec<bool> = pending
            .iter()
            .map(|pending| pending.shown_out.is_cancelled())
            .collect();
        assert!(gone[0] && !gone[1..].contains(&true) && !late.shown_out.is_cancelled());
        drop((pending, late));
        assert!(unauthenticated.lock().by_network.is_empty());
    }

    #[test]
    fn a_crowd_shows_out_its_own() {
        let unauthenticated = Arc::new(Unauthenticated::default());
        let modest = unauthenticated.enter(HOME, 3);
        // Each from another address of one host.
        let crowd: Vec<PendingConnection> = (0..1_000)
            .map(|host| {
                unauthenticated.enter(
                    IpAddr::V6(Ipv6Addr::from_bits((0x2001_0db8 << 96) + host)),
                    3,
                )
            })
            .collect();
        let other = unauthenticated.enter(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)), 3);
        assert!(!modest.shown_out.is_cancelled() && !other.shown_out.is_cancelled());
        assert_eq!(
            crowd
                .iter()
                .filter(|pending| !pending.shown_out.is_cancelled())
                .count(),
            WAITING_MIN - 2
        );
        assert!(
            crowd[..1_000 - WAITING_MIN]
                .iter()
                .all(|pending| pending.shown_out.is_cancelled()),
            "the oldest of them went"
        );
        drop((modest, crowd, other));
        assert!(unauthenticated.lock().by_network.is_empty());
    }
}
