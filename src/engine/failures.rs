//! The count of failures a role may still cause, kept also against many questions at once.

use std::collections::HashMap;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::ledger::{self, Ledger};

/// Questions that run now, by role. A role runs at most as many at a time as it has failures left, so that all of them may fail without passing the limit.
#[derive(Default)]
pub struct Failures {
    running: Mutex<HashMap<String, u32>>,
    ended: Notify,
}

/// One question that runs; its place is free again when this is dropped, after its failure, if any, was recorded.
pub struct Running<'f> {
    failures: &'f Failures,
    role: &'f str,
}

impl Failures {
    /// Waits for a place; `None` where the role has no failure left.
    ///
    /// # Guarantee
    /// Failures recorded before a [`Running`] is dropped never exceed `limit`, on one proxy.
    pub async fn enter<'f>(&'f self, ledger: &Ledger, role: &'f str, limit: u32) -> Result<Option<Running<'f>>, ledger::Error> {
        loop {
            // Created before the place is tried, so that no end is missed.
            let ended = self.ended.notified();
            let (running, place) = self.reserve(role);
            // Read after reserving: whoever ran then and has failed since is in this number.
            let left = ledger.failures_left(role, limit).await?;
            if running <= left {
                return Ok(Some(place));
            }
            drop(place);
            if running <= 1 || left == 0 {
                return Ok(None);
            }
            ended.await;
        }
    }

    fn reserve<'f>(&'f self, role: &'f str) -> (u32, Running<'f>) {
        let mut running = self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = running.entry(role.to_owned()).or_default();
        *count += 1;
        (*count, Running { failures: self, role })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut running = self.failures.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(count) = running.get_mut(self.role) {
            *count = count.saturating_sub(1);
        }
        self.failures.ended.notify_waiters();
    }
}
