//! Shares a pool's connections among roles: no role can take the last ones for long work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many connections of a pool are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    pub used: usize,
    /// How many there may be.
    pub size: usize,
}

impl PoolUse {
    pub fn free(self) -> usize {
        self.size.saturating_sub(self.used)
    }
}

/// How many connections of a pool each role may use at a time.
#[derive(Debug)]
pub struct FairPool {
    each: usize,
    by_role: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl FairPool {
    /// For a pool of `size` connections: a quarter remains for the other roles.
    pub fn new(size: usize) -> Self {
        Self {
            each: (size - size / 4).max(1),
            by_role: Mutex::default(),
        }
    }

    /// The number of connections that each role may use at a time.
    pub fn each(&self) -> usize {
        self.each
    }

    /// Waits until the role uses less than its share. `None` only where the pool is gone.
    pub async fn take(&self, role: &str) -> Option<OwnedSemaphorePermit> {
        let places = {
            let mut all = self.by_role.lock().unwrap_or_else(PoisonError::into_inner);
            match all.get(role) {
                Some(places) => Arc::clone(places),
                // Roles come from the policy, so there are few.
                None => Arc::clone(
                    all.entry(role.to_owned())
                        .or_insert_with(|| Arc::new(Semaphore::new(self.each))),
                ),
            }
        };
        places.acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_role_leaves_room_for_another() {
        for (size, each) in [(1, 1), (2, 2), (4, 3), (8, 6)] {
            let shares = FairPool::new(size);
            let mut taken = Vec::new();
            for _ in 0..each {
                taken.push(shares.take("greedy").await.unwrap());
            }
            let mut waiting = std::pin::pin!(shares.take("greedy"));
            assert!(futures::poll!(&mut waiting).is_pending());
            assert!(shares.take("modest").await.is_some());
            taken.pop();
            assert!(waiting.await.is_some());
        }
    }
}
