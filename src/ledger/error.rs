//! Why the ledger was not opened, and why a debit was not made.

use std::path::PathBuf;
use std::sync::Arc;

use super::balance::Balance;
use super::refuse;
use crate::mechanism::Loss;
use crate::refusal::Refusal;

/// The ledger could not be opened, read or written. For the operator: it names files, so it never
/// goes to a client.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(
        "ledger url {url:?} is not supported: give sqlite:///absolute/path/of/ledger.db or \
            postgres://user@host/database"
    )]
    Url { url: String },
    #[error(
        "directory {directory:?} of the ledger does not exist: create it, owned by the user that \
            runs pgveil"
    )]
    NoDirectory { directory: PathBuf },
    /// There is no ledger where one must be, and none was created.
    #[error("there is no ledger at {place}")]
    Missing { place: String },
    /// Written by something else; left as it is.
    #[error("{ledger} is not a pgveil ledger ({reason}): it was left as it is, name another one")]
    Foreign { ledger: String, reason: String },
    #[error(
        "{ledger} has format {found} and this pgveil knows up to {known}: it was left as it is, \
            run \
            a newer pgveil"
    )]
    Newer {
        ledger: String,
        found: i64,
        known: i64,
    },
    /// The ledger is whole, but this command cannot read its format: it is too old.
    #[error(
        "{ledger} has format {found} and this command reads formats from {least}: it was left as \
            it is, `pgveil serve` brings it to the newest format when it starts"
    )]
    OlderFormat {
        ledger: String,
        found: i64,
        least: i64,
    },
    /// An older pgveil uses the ledger. In a newer format it could not open the ledger again.
    #[error(
        "another pgveil is making an answer with {ledger} of format {found}, and may not be able \
            to open it again in format {newest}: stop every older pgveil first; or bring the \
            ledger to the new format under them with `pgveil serve --migrate`"
    )]
    InUse {
        ledger: String,
        found: i64,
        newest: i64,
    },
    /// The journal holds changes to undo, and only a process that may write can undo them.
    #[error(
        "a process ended in the middle of writing {ledger}: it was left as it is, `pgveil serve` \
            undoes the half-done part when it starts"
    )]
    HalfWritten { ledger: String },
    /// Truncated, altered, or its sums disagree with its history. Starting afresh would hand out
    /// spent budget again, so only a person may decide.
    #[error(
        "{ledger} is damaged ({reason}): it was left as it is, restore it from a copy that holds \
            every debit made since"
    )]
    Damaged { ledger: String, reason: String },
    #[error(
        "ledger {path:?} is missing and {leftover:?} remains of an earlier one: put the ledger \
            back, or remove the remains to start from nothing"
    )]
    Leftover { path: PathBuf, leftover: PathBuf },
    /// The server's settings would lose debits that were relied on.
    #[error(
        "the ledger's server runs with {setting}: a debit would not survive a crash; set it back"
    )]
    Unsafe { setting: String },
    #[error(
        "the ledger's witness {witness} cannot be used ({reason}): nothing is charged without it"
    )]
    Witness { witness: String, reason: String },
    /// Nobody knows how far the ledger had come when the witness was lost.
    #[error(
        "the ledger's witness {witness} {what}, and the ledger has charges: put the witness back; \
            if you know that this is the newest ledger, run pgveil ledger attest"
    )]
    Unwitnessed { witness: String, what: &'static str },
    #[error(
        "the ledger's witness {witness} lies on the disk or server of the ledger: whoever sets \
            that back sets both back; name a place on another one, or say same_disk: true"
    )]
    SameDisk { witness: String },
    /// A copy of an earlier day: it would refund everything spent since.
    #[error(
        "the ledger is older than its witness {witness} ({lacks}): put the newer ledger back, or \
            run pgveil ledger restore, which charges what the witness saw"
    )]
    Older { witness: String, lacks: String },
    #[error("{reason}")]
    Backup { reason: String },
    /// The store went back while this process used it.
    #[error(
        "the ledger went back under this process ({lacks}): nothing is charged any more; put the \
            newer ledger back and start pgveil again"
    )]
    WentBack { lacks: String },
    #[error("role {name:?} is named twice")]
    NamedTwice { name: String },
    /// The proof of the filter needs this to stay fixed for the life of an account.
    #[error(
        "{account} was opened with {what} {fixed}, which is fixed for ever, and the policy says \
            {wanted}: set it back, or use a new ledger"
    )]
    Fixed {
        account: String,
        what: &'static str,
        fixed: String,
        wanted: String,
    },
    #[error("no account of role {role:?} in the ledger")]
    UnknownRole { role: String },
    /// The owner asked for a decision that the ledger does not grant.
    #[error("{0}")]
    Decision(String),
    #[error("the ledger's file could not be used: {0}")]
    File(#[source] Arc<std::io::Error>),
    /// The debits of this moment may or may not be committed; none was acknowledged.
    #[error("the ledger could not be read or written: {0}")]
    Storage(#[source] Arc<dyn std::error::Error + Send + Sync>),
    #[error(
        "the ledger's thread has ended; nothing is charged or answered until pgveil is started \
            again"
    )]
    Stopped,
}

impl Error {
    /// Whether the store or a witness failed, or the store is not the one that it was. The rest are
    /// mistakes of a policy, of a command or of pgveil.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Damaged { .. }
            | Self::HalfWritten { .. }
            | Self::Leftover { .. }
            | Self::Missing { .. }
            | Self::NoDirectory { .. }
            | Self::Unsafe { .. }
            | Self::Witness { .. }
            | Self::Older { .. }
            | Self::WentBack { .. }
            | Self::File(_)
            | Self::Storage(_)
            | Self::Stopped => true,
            Self::Url { .. }
            | Self::Foreign { .. }
            | Self::InUse { .. }
            | Self::Newer { .. }
            | Self::OlderFormat { .. }
            | Self::Unwitnessed { .. }
            | Self::SameDisk { .. }
            | Self::Backup { .. }
            | Self::NamedTwice { .. }
            | Self::Fixed { .. }
            | Self::UnknownRole { .. }
            | Self::Decision(_) => false,
        }
    }

    pub(super) fn storage(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Storage(Arc::new(cause))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        Self::storage(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::File(Arc::new(error))
    }
}

/// A debit that was not made. Nothing was charged, but for [`DebitError::Ledger`], after which it
/// is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DebitError {
    /// The role's own account does not admit the loss; both numbers are the role's to see.
    #[error("the budget of role {role:?} is exhausted")]
    Exhausted {
        role: String,
        needs: Loss,
        balance: Box<Balance>,
    },
    /// The role's account admits it, the owner's total over all roles does not. Carries no balance:
    /// roles see none of the owner's.
    #[error("the total budget is exhausted for a debit of role {role:?}")]
    TotalExhausted { role: String },
    /// The owner's total has refused an earlier debit of the role, and the owner has not acted
    /// since.
    #[error("the account of role {role:?} is closed by the total budget")]
    Closed { role: String },
    /// The owner has frozen the role's account, or all of them.
    #[error("the account of role {role:?} is frozen")]
    Frozen { role: String },
    /// The role has as many debits of a series as it may have.
    #[error("{most} debits of a series are made")]
    UsedUp { most: u32 },
    /// Another process is making an answer to the same question, or has just made one, or an answer
    /// that was to be taken is gone: look for it again in a moment.
    #[error("the same question is being answered by another process")]
    Awaited,
    #[error(transparent)]
    Ledger(#[from] Error),
}

impl DebitError {
    /// What the client sees; `None` where the failure is not the client's to see (an internal
    /// error with an incident number).
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Exhausted {
                role: _,
                needs,
                balance,
            } => Some(refuse::refuse_exhausted(needs, balance)),
            Self::TotalExhausted { role: _ } => Some(refuse::total_exhausted()),
            Self::Closed { role: _ } => Some(refuse::refuse_closed()),
            Self::Frozen { role: _ } => Some(refuse::frozen()),
            Self::UsedUp { most } => Some(refuse::holdout_used_up(*most)),
            Self::Awaited | Self::Ledger(_) => None,
        }
    }
}
