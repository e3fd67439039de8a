//! What is read of a ledger, and the opening of one that is only read.

use std::collections::HashSet;
use std::path::PathBuf;

use super::accounts::NOT_OPENED;
use super::inspect::inspect_store;
use super::record::DigestKey;
use super::rules::Rules;
use super::store::Access;
use super::upgrade::check_readable;
use super::worker::{ReadingWorker, Worker};
use super::{
    AccountSpec, Address, Balance, Balances, Clock, Decided, Entry, Error, Found, LastBackup,
    LedgerHeight, QuestionId, SeriesId,
};

/// A ledger that is read. No method writes, and [`LedgerReader::open`] opens one whose store
/// refuses to be written.
#[derive(Debug)]
pub struct LedgerReader {
    pub(super) worker: ReadingWorker,
    pub(super) digests: DigestKey,
    roles: HashSet<String>,
    /// The ledger's file and identity.
    file: Option<(PathBuf, [u8; 16])>,
}

impl LedgerReader {
    /// Opens a ledger that must exist, to read it: neither it nor a witness is written. Nothing is
    /// brought to another format, and no account is opened or changed: one that the policy names
    /// and the ledger does not have reads as it will be when it is opened.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`], [`Error::OlderFormat`], [`Error::HalfWritten`]; [`Error::Older`] and
    /// [`Error::Unwitnessed`] where no proxy would open it either; those of the store.
    pub async fn open(
        at: impl Into<Address>,
        owner: AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        let at = at.into();
        let (specs, file) = (roles.to_vec(), at.file()?);
        let rules = move || {
            let (store, standing) = inspect_store(&at)?;
            if let Some(fault) = standing.fault() {
                return Err(fault);
            }
            check_readable("the ledger", standing.format)?;
            Rules::look(store, Clock::system(), &owner, &specs)
        };
        let worker = Worker::start(rules).await?;
        Self::of(&worker, roles, file).await
    }

    pub(super) async fn of(
        worker: &Worker,
        roles: &[AccountSpec],
        file: Option<PathBuf>,
    ) -> Result<Self, Error> {
        let known = |rules: &mut Rules| Ok((rules.digest_key()?, rules.seen.birth));
        let (digests, birth) = worker.call(Access::Read, known).await?;
        Ok(Self {
            worker: ReadingWorker::new(worker.clone()),
            digests,
            roles: roles.iter().map(|role| role.name.clone()).collect(),
            file: file.map(|file| (file, birth)),
        })
    }

    /// Whether the ledger has an account of the role.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn has_account(&self, role: &str) -> Result<bool, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(move |rules| rules.role(&role).map(|account| account.id != NOT_OPENED))
            .await
    }

    /// Whether the ledger is a file of SQLite, which `pgveil ledger backup` copies.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// The bytes that the ledger takes on its disk; `None` where its store does not say.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn bytes(&self) -> Result<Option<i64>, Error> {
        self.worker.call(|rules| rules.store.bytes()).await
    }

    /// When and where `pgveil ledger backup` last copied a ledger in SQLite; `None` where that is
    /// not known, as for one in PostgreSQL.
    pub fn last_backup(&self) -> Option<LastBackup> {
        let (file, birth) = self.file.as_ref()?;
        LastBackup::of(file, *birth)
    }

    /// The newest answer to a question that the owner asked for all roles, and that the policy uses
    /// since. For the policy alone: a role pays by [`Ledger::receive`] before it sees anything that
    /// depends on it.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn newest_of_owner(&self, question: QuestionId) -> Result<Option<Found>, Error> {
        self.worker
            .call(move |rules| rules.newest_of_owner(question))
            .await
    }

    /// The role's account: for the role itself.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balance(&self, role: &str) -> Result<Balance, Error> {
        self.balances(role).await.map(|both| both.role)
    }

    /// Both accounts that the role's debits touch, read at one moment: for the planner. The owner's
    /// is not the role's to see.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balances(&self, role: &str) -> Result<Balances, Error> {
        let role = self.require_role(role)?;
        self.worker
            .read_little(move |rules| rules.balances(&role))
            .await
    }

    /// The owner's account, over every role: for the operator.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn balance_owner(&self) -> Result<Balance, Error> {
        self.worker.call(Rules::balance_owner).await
    }

    /// How many failures of the role were counted.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn failures(&self, role: &str) -> Result<u32, Error> {
        let role = self.require_role(role)?;
        self.worker.call(move |rules| rules.failures(&role)).await
    }

    /// How many more failures the role may see under `limits.failures`; at zero the engine refuses
    /// to run its plans.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn failures_left(&self, role: &str, limit: u32) -> Result<u32, Error> {
        Ok(limit.saturating_sub(self.failures(role).await?))
    }

    /// How many debits of a series the role has.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn debits_of_series(&self, role: &str, series: SeriesId) -> Result<i64, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(move |rules| rules.debits_of_series(&role, series))
            .await
    }

    /// The role's newest debits, newest first, at most `rows_max`.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn history(&self, role: &str, rows_max: u32) -> Result<Vec<Entry>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(move |rules| rules.history(&role, rows_max))
            .await
    }

    /// Every decision of the owner, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn decisions(&self) -> Result<Vec<Decided>, Error> {
        self.worker.call(Rules::decisions).await
    }

    /// How far the ledger has come.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`] where it is behind what this process saw of it.
    pub async fn height(&self) -> Result<LedgerHeight, Error> {
        self.worker
            .call(|rules| {
                rules.check_not_behind()?;
                rules.height()
            })
            .await
    }

    pub(super) fn require_role(&self, role: &str) -> Result<String, Error> {
        self.roles
            .get(role)
            .cloned()
            .ok_or_else(|| Error::UnknownRole {
                role: role.to_owned(),
            })
    }
}
