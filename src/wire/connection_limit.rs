//! Counts connections: in all, by role and by client address.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{ConnectionLimits, Service};
use crate::refusal::{Refusal, reason};

#[derive(Default)]
struct Taken {
    total: u32,
    by_role: HashMap<String, u32>,
    by_address: HashMap<IpAddr, u32>,
}

/// All connections.
#[derive(Clone, Default)]
pub(super) struct Registry(Arc<Mutex<Taken>>);

/// One session's count. It is held until the last answer of the session has ended.
pub(super) struct ConnectionSlot {
    registry: Registry,
    role: String,
    address: IpAddr,
}

impl Registry {
    /// # Errors
    /// 53300 where one of the limits is met.
    pub(super) fn take(
        &self,
        service: &impl Service,
        role: &str,
        address: IpAddr,
    ) -> Result<Arc<ConnectionSlot>, Refusal> {
        let ConnectionLimits {
            total,
            per_role,
            per_address,
        } = service.connection_limits();
        let mut taken = self.lock();
        let count = |counts: Option<&u32>| counts.copied().unwrap_or(0);
        let full = |message: String, places: u32| {
            Err(Refusal::new(reason::TOO_MANY_CONNECTIONS, message)
                .detail(format!("At most {places} connections are held.")))
        };
        if taken.total >= total {
            return full("sorry, too many clients already".to_owned(), total);
        }
        if count(taken.by_role.get(role)) >= per_role {
            return full(
                format!("too many connections for role \"{role}\""),
                per_role,
            );
        }
        if count(taken.by_address.get(&address)) >= per_address {
            return full(
                "too many connections from this address".to_owned(),
                per_address,
            );
        }
        taken.total += 1;
        *taken.by_role.entry(role.to_owned()).or_default() += 1;
        *taken.by_address.entry(address).or_default() += 1;
        Ok(Arc::new(ConnectionSlot {
            registry: self.clone(),
            role: role.to_owned(),
            address,
        }))
    }

    /// The counts have no invariant that a panic could break.
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut taken = self.registry.lock();
        taken.total = taken.total.saturating_sub(1);
        give_back(&mut taken.by_role, &self.role);
        give_back(&mut taken.by_address, &self.address);
    }
}

fn give_back<K: Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
