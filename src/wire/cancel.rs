//! CancelRequest: a secret names a session, and reaches only the statement that runs in it at that
//! moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::TryRng;
use rand::rngs::SysRng;
use tokio_util::sync::CancellationToken;

/// The token of the running statement, if one runs.
type Slot = Arc<Mutex<Option<CancellationToken>>>;

/// All sessions that can be cancelled.
#[derive(Default)]
pub(super) struct CancelKeys {
    by_process: Mutex<HashMap<i32, (Vec<u8>, Slot)>>,
}

/// One session's entry. Dropping it invalidates the key.
pub(super) struct CancelKey {
    sessions: Arc<CancelKeys>,
    slot: Slot,
    pub(super) process: i32,
    pub(super) secret: Vec<u8>,
}

/// One running statement. Each has a new token: a late cancel finds an empty slot, never the next
/// statement's token.
pub(super) struct Running {
    slot: Slot,
    pub(super) token: CancellationToken,
}

impl CancelKeys {
    /// A key of `secret_bytes` random bytes from the operating system; `None` where it has none.
    pub(super) fn enter(self: &Arc<Self>, secret_bytes: usize) -> Option<CancelKey> {
        let mut secret = vec![0; secret_bytes];
        SysRng.try_fill_bytes(&mut secret).ok()?;
        let slot = Slot::default();
        let mut sessions = lock(&self.by_process);
        let process = loop {
            let mut bytes = [0; 4];
            SysRng.try_fill_bytes(&mut bytes).ok()?;
            let process = i32::from_be_bytes(bytes) & i32::MAX;
            if process != 0 && !sessions.contains_key(&process) {
                break process;
            }
        };
        sessions.insert(process, (secret.clone(), slot.clone()));
        Some(CancelKey {
            sessions: self.clone(),
            slot,
            process,
            secret,
        })
    }

    /// Cancels the statement running in the session of this key. The caller cannot distinguish a
    /// right key from a wrong one.
    pub(super) fn cancel(&self, process: i32, secret: &[u8]) {
        let slot = lock(&self.by_process)
            .get(&process)
            .filter(|(known, _)| same(known, secret))
            .map(|(_, slot)| slot.clone());
        if let Some(token) = slot.and_then(|slot| lock(&slot).clone()) {
            token.cancel();
        }
    }
}

impl CancelKey {
    pub(super) fn run(&self) -> Running {
        let token = CancellationToken::new();
        *lock(&self.slot) = Some(token.clone());
        Running {
            slot: self.slot.clone(),
            token,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *lock(&self.slot) = None;
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        lock(&self.sessions.by_process).remove(&self.process);
    }
}

/// Equality in a time that does not depend on the bytes.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .fold(0, |differing, (x, y)| differing | (x ^ y))
            == 0
}

/// The maps have no invariant that a panic could break.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
