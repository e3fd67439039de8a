//! Counts the failures that a role may still cause, also among concurrent questions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::ledger;
use crate::ledger::Ledger;

/// Slots for running questions, by role: as many as the role has failures left, so that all of them
/// may fail without passing the limit.
#[derive(Default)]
pub struct Failures {
    places: Mutex<HashMap<String, Arc<RoleSlots>>>,
}

/// The slots of one role.
struct RoleSlots {
    free: Arc<Semaphore>,
    /// Slots that no failure has used up.
    left: AtomicU32,
}

/// The slot of one running question. Dropping it frees the slot, unless the question failed: then
/// the slot is gone for ever.
pub struct FailureSlot {
    places: Arc<RoleSlots>,
    place: OwnedSemaphorePermit,
}

impl Failures {
    /// Waits for a slot; `None` where the role has no failure left.
    ///
    /// # Guarantee
    /// Failures recorded by [`FailureSlot::failed`] never exceed `limit` on one proxy. Proxies that
    /// share a ledger see each other's failures before their next question; only questions that run
    /// at the same moment may exceed the limit.
    ///
    /// # Errors
    /// Where the ledger cannot be read.
    pub async fn enter(
        &self,
        ledger: &Ledger,
        role: &str,
        limit: u32,
    ) -> Result<Option<FailureSlot>, ledger::Error> {
        let places = {
            let mut all = self.places.lock().await;
            match all.get(role) {
                Some(places) => Arc::clone(places),
                None => {
                    let left = ledger.failures_left(role, limit).await?;
                    let places = Arc::new(RoleSlots {
                        free: Arc::new(Semaphore::new(left as usize)),
                        left: AtomicU32::new(left),
                    });
                    if left == 0 {
                        places.free.close();
                    }
                    all.insert(role.to_owned(), Arc::clone(&places));
                    places
                }
            }
        };
        if ledger.failures_left(role, limit).await? == 0 {
            places.free.close();
        }
        // The semaphore is closed when the last failure was used up, here or on another proxy.
        Ok(Arc::clone(&places.free)
            .acquire_owned()
            .await
            .ok()
            .map(|place| FailureSlot { places, place }))
    }
}

impl FailureSlot {
    /// Records the failure, durably. The slot is gone even where the record cannot be written,
    /// because the client sees the failure.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub async fn record_failure(
        self,
        ledger: &Ledger,
        role: &str,
        limit: u32,
    ) -> Result<(), ledger::Error> {
        self.place.forget();
        if self.places.left.fetch_sub(1, Ordering::SeqCst) <= 1 {
            self.places.free.close();
        }
        if ledger.record_failure(role).await? >= limit {
            self.places.free.close();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::AccountSpec;
    use crate::mechanism::{Accounting, Cap, Fixed};
    use crate::policy::{Budget, Renew};

    fn account(name: &str) -> AccountSpec {
        let cap = Cap::new(
            Fixed::round_down(1.0),
            Fixed::round_down(1e-6),
            Fixed::round_down(0.5),
            Accounting::Gdp,
        )
        .unwrap();
        AccountSpec {
            name: name.to_owned(),
            budget: Budget {
                epsilon: 1.0,
                delta: 1e-6,
            },
            threshold_share: 0.5,
            cap,
            renew: Renew::Never,
        }
    }

    /// A failure that cannot be recorded is visible too: its slot is gone, and after the last one
    /// the role is refused.
    #[tokio::test]
    async fn a_failure_that_is_not_recorded_takes_its_place() {
        let path = std::path::PathBuf::from(format!(
            "/tmp/pgveil-failures-{:x}.db",
            rand::random::<u64>()
        ));
        let ledger = Ledger::open(
            &format!("sqlite://{}", path.display()),
            account("owner"),
            &[account("ann")],
        )
        .await
        .unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        other
            .execute_batch(
                "CREATE TRIGGER deny BEFORE UPDATE ON account BEGIN SELECT RAISE(ABORT, 'no'); END",
            )
            .unwrap();
        let failures = Failures::default();
        for _ in 0..2 {
            let place = failures.enter(&ledger, "ann", 2).await.unwrap().unwrap();
            assert!(place.record_failure(&ledger, "ann", 2).await.is_err());
        }
        assert_eq!(ledger.failures("ann").await.unwrap(), 0);
        assert!(failures.enter(&ledger, "ann", 2).await.unwrap().is_none());
        drop((ledger, other));
        let _ = std::fs::remove_file(path);
    }
}
