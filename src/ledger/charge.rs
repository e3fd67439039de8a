//! The receipt of a durable debit.

use std::fmt;

use crate::mechanism::Loss;

/// A digest of a separate type, since a plain one must never stand where a keyed one is shown.
macro_rules! digest {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Takes a finished digest; the ledger does not look inside.
            pub fn new(digest: [u8; 32]) -> Self {
                Self(digest)
            }

            /// The digest, as the ledger stores it.
            pub fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Its first eight bytes, by which people can distinguish them.
            pub fn short(&self) -> String {
                self.0
                    .iter()
                    .take(8)
                    .map(|byte| format!("{byte:02x}"))
                    .collect()
            }
        }

        impl fmt::Display for $name {
            /// Lower-case hexadecimal.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

digest! {
    /// Identifies the plan that a debit pays for: a SHA-256 digest, made by the caller. It contains
    /// no literal and no SQL.
    Fingerprint
}

digest! {
    /// By which records name a statement: keyed, so that nobody can check a guess of one.
    KeyedStatementDigest
}

digest! {
    /// By which records and the owner's history name a plan: keyed, like that of a statement.
    KeyedPlanDigest
}

impl KeyedStatementDigest {
    /// The digest that stands for a text that could not be read as a statement.
    pub const UNREAD: Self = Self([0; 32]);
}

/// Proof that a loss was debited, durably, for one plan.
///
/// # Guarantee
///
/// A `Charge` exists only after the commit of its debit returned (or for a loss of zero, which
/// shows nothing private). That of a draw of prepaid periods has a loss of zero too: it exists only
/// after the commit of the draw, whose periods an earlier debit covers. It can neither be copied
/// nor be made elsewhere: running a plan borrows it, releasing the plan's rows consumes it. A debit
/// is never refunded, not even if its charge is dropped unused.
#[derive(Debug)]
#[must_use = "a charge is paid for; run the plan it covers"]
pub struct Charge {
    loss: Loss,
    fingerprint: Fingerprint,
    entry: HistoryEntry,
}

/// The place of a debit in its role's history. All debits of one statement share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryEntry {
    pub(super) microseconds: i64,
    pub(super) bought: Fingerprint,
}

impl HistoryEntry {
    /// The purchase's name in the history.
    pub fn purchase_name(&self) -> Fingerprint {
        self.bought
    }
}

/// Proof of a debit that pays for all answers of one epoch of a monitor.
///
/// # Guarantee
///
/// As [`Charge`]: it exists only after the commit of its debit.
#[derive(Debug)]
#[must_use = "an epoch is paid for; ask its questions"]
pub struct EpochDebit {
    loss: Loss,
    entry: HistoryEntry,
}

impl EpochDebit {
    /// A charge for the plan of one question of the epoch.
    ///
    /// # Requires
    ///
    /// Nothing is released under it but the epoch's own verdict. `release::epoch` alone calls this.
    pub(crate) fn for_question(&self, fingerprint: Fingerprint) -> Charge {
        Charge {
            loss: self.loss,
            fingerprint,
            entry: self.entry,
        }
    }
}

impl Charge {
    /// Turns it into the payment for an epoch. No plan runs under it then but by the epoch.
    pub fn into_epoch(self) -> EpochDebit {
        EpochDebit {
            loss: self.loss,
            entry: self.entry,
        }
    }

    /// # Requires
    ///
    /// The debit of `loss` is durable, or `loss` is zero.
    pub(super) fn of_debit(loss: Loss, fingerprint: Fingerprint, entry: HistoryEntry) -> Self {
        Self {
            loss,
            fingerprint,
            entry,
        }
    }

    /// Its place in the history.
    pub fn entry(&self) -> HistoryEntry {
        self.entry
    }

    /// What was paid.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// The plan it was paid for.
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Whether the charge pays for this plan.
    pub fn covers(&self, fingerprint: &Fingerprint) -> bool {
        self.fingerprint == *fingerprint
    }
}
