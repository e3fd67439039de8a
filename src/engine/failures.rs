//! The count of failures a role may still cause, kept also against many questions at once.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

use crate::ledger::{self, Ledger};

/// Places for questions that run, by role: as many as the role has failures left, so that all of them may fail without passing the limit.
#[derive(Default)]
pub struct Failures {
    places: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The place of one question that runs; free again when it is dropped, gone for ever where the question failed.
pub struct Place {
    places: Arc<Semaphore>,
    place: OwnedSemaphorePermit,
}

impl Failures {
    /// Waits for a place; `None` where the role has no failure left.
    ///
    /// # Guarantee
    /// Failures recorded by [`Place::failed`] never exceed `limit` on one proxy. Of several on one ledger, each sees the others' failures before its next
    /// question; only those that run at that moment may come on top.
    ///
    /// # Errors
    /// Where the ledger cannot be read.
    pub async fn enter(&self, ledger: &Ledger, role: &str, limit: u32) -> Result<Option<Place>, ledger::Error> {
        let places = {
            let mut all = self.places.lock().await;
            match all.get(role) {
                Some(places) => Arc::clone(places),
                None => {
                    let left = ledger.failures_left(role, limit).await?;
                    let places = Arc::new(Semaphore::new(left as usize));
                    if left == 0 {
                        places.close();
                    }
                    all.insert(role.to_owned(), Arc::clone(&places));
                    places
                }
            }
        };
        if ledger.failures_left(role, limit).await? == 0 {
            places.close();
        }
        // Closed when the last failure was used up, here or on another proxy.
        Ok(Arc::clone(&places).acquire_owned().await.ok().map(|place| Place { places, place }))
    }
}

impl Place {
    /// Records the failure, durably, before anyone may take the place again: nobody may.
    ///
    /// # Errors
    /// Where the ledger cannot be written.
    pub async fn failed(self, ledger: &Ledger, role: &str, limit: u32) -> Result<(), ledger::Error> {
        let failures = ledger.record_failure(role).await?;
        self.place.forget();
        if failures >= limit {
            self.places.close();
        }
        Ok(())
    }
}
