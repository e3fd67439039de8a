//! Records every debit durably before it is relied on, and refuses what the budgets do not cover.
//!
//! Two accounts pay for each debit: the owner's, which binds all roles together for ever, and the role's own. [`Ledger::debit`] charges both or neither and
//! returns a [`Charge`] only after the debit is on disk; without a charge nothing can run. Nothing is ever refunded, no sum ever shrinks, and a file that is
//! not whole is refused, never started afresh. Several processes may share one file: each debit reads the sums and writes them under one lock.
//!
//! Stored of a debit: role, time, the four components of the loss, a digest of the plan. Never SQL, never a literal. Stored of an answer: a digest of its question,
//! who has paid for it, and the released values, which are what those roles were shown.
//!
//! What the file cannot defend against is whoever may replace it: a restored older copy is a whole ledger in which less was spent.

mod answers;
mod balance;
mod charge;
mod error;
mod file;
mod refuse;
mod sqlite;
mod verify;
mod worker;

pub use answers::{AnswerId, Purchase, Question, Stored};
pub use balance::{Balance, Balances};
pub use charge::{Charge, Fingerprint};
pub use error::{DebitError, Error};

use std::collections::HashSet;

use crate::mechanism::{Cap, Loss};
use crate::policy::Budget;
use sqlite::{Access, Store};
use worker::Worker;

/// An account as the policy in force wants it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountSpec {
    /// The role; for the owner's account, of which a ledger has one, a label.
    pub name: String,
    /// What the owner wrote; stored for the operator to read. A policy may change it: the cap then changes, the sums stay.
    pub budget: Budget,
    /// Share of delta that is kept for keys released by threshold. Fixed for ever when the account opens, as is the cap's accounting.
    pub threshold_share: f64,
    /// The budget and the share in the currencies of the filter.
    pub cap: Cap,
}

/// One debit of a role, as it stands in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub loss: Loss,
    /// By the proxy's clock, since 1970.
    pub microseconds: i64,
    pub fingerprint: Fingerprint,
}

/// An open ledger. Safe to share among tasks; dropping it lets queued work finish and closes the file.
#[derive(Debug)]
pub struct Ledger {
    worker: Worker,
    roles: HashSet<String>,
}

impl Ledger {
    /// Opens the ledger at `sqlite:///path` (or a bare path), verifies the whole file, and opens the accounts of the policy in it. A missing file is made,
    /// readable by its owner only; its directory must exist. Accounts that no policy names any more are kept.
    ///
    /// # Guarantee
    ///
    /// While the budgets stay as they are, all answers paid from one account are (epsilon, delta)-differentially private for its budget. Where a policy
    /// changed a budget, the same holds for the larger epsilon and the larger delta of all that were ever in force.
    ///
    /// # Errors
    ///
    /// [`Error`]: a file that is foreign, newer or damaged is refused and left byte for byte as it was; so is another `threshold_share` or accounting
    /// than an account was opened with.
    pub async fn open(url: &str, owner: AccountSpec, roles: &[AccountSpec]) -> Result<Self, Error> {
        let path = file::path(url)?;
        let specs = roles.to_vec();
        let worker = Worker::start(move || Store::open(&path, &owner, &specs)).await?;
        Ok(Self { worker, roles: roles.iter().map(|role| role.name.clone()).collect() })
    }

    /// Debits `loss` to the role's and the owner's account for the plan of that fingerprint.
    ///
    /// A loss of zero is always admitted, and neither waits for nor touches the disk.
    ///
    /// # Guarantee
    ///
    /// When this returns a charge, the debit survives a crash of the process and a loss of power, and both accounts admitted it, whatever other tasks and
    /// processes did meanwhile. Dropping the future may leave a debit without a charge, never a charge without a debit.
    ///
    /// # Errors
    ///
    /// [`DebitError::Exhausted`] and [`DebitError::TotalExhausted`]: nothing was charged. [`DebitError::Ledger`]: unknown role, or storage failed; then the
    /// debit may or may not stand, and is not acknowledged.
    pub async fn debit(&self, role: &str, loss: Loss, fingerprint: Fingerprint) -> Result<Charge, DebitError> {
        self.purchase(role, Purchase { fresh: loss, offered: Loss::ZERO, answers: Vec::new(), fingerprint }).await
    }

    /// Debits a purchase: what is fresh to the role's and the owner's account, what was made for other roles to the role's alone.
    ///
    /// # Guarantee
    ///
    /// As [`Ledger::debit`]. The charge covers the fresh part.
    ///
    /// # Errors
    ///
    /// As [`Ledger::debit`].
    pub async fn purchase(&self, role: &str, purchase: Purchase) -> Result<Charge, DebitError> {
        let role = self.known(role)?;
        let (loss, fingerprint) = (purchase.fresh, purchase.fingerprint);
        if !loss.is_zero() || !purchase.answers.is_empty() {
            self.worker.call(Access::Write, move |store| store.purchase(&role, &purchase)).await??;
        }
        Ok(Charge::paid(loss, fingerprint))
    }

    /// An answer to the question that the role may see for nothing, or one made for another role.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn find(&self, role: &str, question: Question) -> Result<Option<Stored>, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Read, move |store| store.find(&role, &question)).await
    }

    /// The values of an answer that the role holds.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn held(&self, role: &str, answer: AnswerId) -> Result<Option<Vec<u8>>, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Read, move |store| store.held(&role, answer)).await
    }

    /// Keeps released values, durably, as an answer that the role has paid for.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn keep(&self, role: &str, question: Question, released: Vec<u8>) -> Result<(), Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Write, move |store| store.keep(&role, &question, &released)).await
    }

    /// The role's account: for the role itself.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balance(&self, role: &str) -> Result<Balance, Error> {
        self.balances(role).await.map(|both| both.role)
    }

    /// Both accounts that the role's debits touch, read at one moment: for the planner. The owner's is not the role's to see.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balances(&self, role: &str) -> Result<Balances, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Read, move |store| store.balances(&role)).await
    }

    /// The owner's account, over every role: for the operator.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balance_owner(&self) -> Result<Balance, Error> {
        self.worker.call(Access::Read, Store::balance_owner).await
    }

    /// Counts one failure that showed the role something of private rows (a timeout, a backend error), durably, and returns how many there are. They are
    /// never renewed. Call it before the role is told.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn record_failure(&self, role: &str) -> Result<u32, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Write, move |store| store.record_failure(&role)).await
    }

    /// How many failures of the role were counted.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn failures(&self, role: &str) -> Result<u32, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Read, move |store| store.failures(&role)).await
    }

    /// How many more failures the role may see under `limits.failures`; at zero the engine refuses to run its plans.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn failures_left(&self, role: &str, limit: u32) -> Result<u32, Error> {
        Ok(limit.saturating_sub(self.failures(role).await?))
    }

    /// The role's newest debits, newest first, at most `rows_max`.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn history(&self, role: &str, rows_max: u32) -> Result<Vec<Entry>, Error> {
        let role = self.known(role)?;
        self.worker.call(Access::Read, move |store| store.history(&role, rows_max)).await
    }

    fn known(&self, role: &str) -> Result<String, Error> {
        self.roles.get(role).cloned().ok_or_else(|| Error::UnknownRole { role: role.to_owned() })
    }
}
