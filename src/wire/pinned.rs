//! The connection for writing that a session holds.

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

/// 25P03
pub(super) fn writing_too_long() -> Refusal {
    let message = "terminating connection: its transaction has been writing for too long";
    Refusal::new(reason::IDLE_TRANSACTION, message)
}

/// 25P03
pub(super) fn idle_while_writing() -> Refusal {
    let message = "terminating connection due to idle-in-transaction timeout";
    Refusal::new(reason::IDLE_TRANSACTION, message)
}
