//! The connection for writing that a session holds.

use std::time::Duration;

use crate::engine::WriterLease;
use crate::refusal::{Refusal, reason};

/// What a session has of the connections for writing.
pub(super) enum Pinned {
    None,
    /// A transaction is open on it.
    Open(Box<WriterLease>),
    /// The connection broke, and the transaction's rows with it.
    Lost,
}

/// How long a client may hold a connection for writing. A test may say less.
#[derive(Debug, Clone, Copy)]
pub struct WriteLimits {
    /// How long it may be silent within a transaction that writes, or within a COPY.
    pub silence: Duration,
    /// How long a transaction may write, counted from its first write.
    pub age: Duration,
}

impl Default for WriteLimits {
    fn default() -> Self {
        Self {
            silence: Duration::from_secs(300),
            age: Duration::from_secs(600),
        }
    }
}

/// 25P03
pub(super) fn writing_too_long() -> Refusal {
    let message = "terminating connection: its transaction has been writing for too long";
    Refusal::new(reason::IDLE_TRANSACTION, message)
}

/// 25P03
pub(super) fn idle_in_transaction() -> Refusal {
    let message = "terminating connection due to idle-in-transaction timeout";
    Refusal::new(reason::IDLE_TRANSACTION, message)
}
