//! Records every debit durably before it is relied on, and refuses what the budgets do not cover.
//!
//! Two accounts pay for each debit: the owner's, which binds all roles together for ever, and the
//! role's own. [`Ledger::debit`] charges both or neither and returns a [`Charge`] only after the
//! debit is durable; without a charge nothing can run. Nothing is ever refunded, no lifetime's sum
//! ever shrinks, and a damaged ledger is refused, never started anew. Several processes may share a
//! ledger: each debit reads and writes the sums under one lock.
//!
//! The rules are in `rules` and the modules that it calls. A [`Store`] is a file of SQLite, for one
//! machine, or a schema of PostgreSQL, for many proxies.
//!
//! The ledger stores for a debit: role, time, the four components of the loss, and a digest of the
//! plan; never SQL, never a literal. For an answer: a digest of its question, the roles that have
//! paid for it, and the released values with the noisy sums that they were computed from. For every
//! statement: role, session, time, keyed digest, tables and verdict.
//!
//! A restored older copy is a valid ledger in which less was spent. A running process recognizes it
//! by the height that it saw before, a starting one by the witness.

mod accounts;
mod address;
mod answers;
mod backups;
mod balance;
mod batch;
mod charge;
mod claims;
mod clock;
mod compare_witnesses;
mod error;
mod families;
mod grants;
mod height;
mod history_entry;
mod inspect;
mod migrate;
mod owner_answers;
mod policies;
mod prepaid;
mod prepaid_step;
mod reader;
mod record;
mod refuse;
mod restore;
mod rules;
mod server;
mod spending;
mod sqlite;
mod store;
mod threshold_debits;
mod upgrade;
mod verify;
mod witness;
mod worker;

pub use address::{Address, open_store};
pub use answers::{
    AnswerId, Buyer, FamilyId, Found, Newest, Purchase, QuestionDigest, QuestionId, SeriesId,
    Stored,
};
pub use backups::LastBackup;
pub use balance::{Balance, Balances};
pub use charge::{
    Charge, EpochDebit, Fingerprint, HistoryEntry, KeyedPlanDigest, KeyedStatementDigest,
};
pub use clock::{Clock, date, period_start};
pub use compare_witnesses::WitnessStanding;
pub use error::{DebitError, Error};
pub use grants::{Act, Decided, Decision};
pub use height::{DebitHash, LedgerHeight};
pub use history_entry::Entry;
pub use inspect::{LedgerStanding, inspect};
pub use migrate::migrate;
pub use policies::PolicyRecord;
pub use prepaid::{PaidHorizon, PrepaidPeriods, drawing};
pub use prepaid_step::{PrepaidPrice, PrepaidQuestion, PrepaidStep};
pub use reader::LedgerReader;
pub use record::{
    Event, LOGINS_KEPT, LoggedStatement, NewestWithin, Origin, Record, RecordFile, STATEMENTS_KEPT,
    Verdict, Via, json as record_line, now, short_name,
};
pub use restore::{Restored, attest, back_up, restore};
pub use store::{Access, Contents, Row, Store, StoreValue};

use std::path::PathBuf;

use prometheus_client::metrics::histogram::Histogram;

use crate::mechanism::{Cap, Loss};
use crate::policy::{Budget, Renew};
use address::store_at;
use answers::AnswerSearch;
use compare_witnesses::{Attest, open_witnesses};
use inspect::may_change;
use record::RecordLog;
use rules::Rules;
use store::{Absent, OnOlderFormat};
use worker::Worker;

/// Bytes of an answer that may wait in memory for the disk, and that a session's thread reads.
const SHORT_ANSWER: usize = 64 << 10;

/// An account as the policy in force describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountSpec {
    /// The role, or a label for the ledger's one account of the owner.
    pub name: String,
    /// What the owner wrote; stored for the operator to read. A policy may change it: the cap then
    /// changes, the sums stay.
    pub budget: Budget,
    /// Share of delta that is kept for keys released by threshold. Fixed for ever when the account
    /// opens, as is the cap's accounting.
    pub threshold_share: f64,
    /// The budget and the share in the currencies of the filter.
    pub cap: Cap,
    /// The period over which a role's budget is counted. The owner's budget is for ever, whatever
    /// this says.
    pub renew: Renew,
}

/// An open ledger. Safe to share among tasks; dropping it lets queued work finish and closes the
/// store.
#[derive(Debug)]
pub struct Ledger {
    worker: Worker,
    records: RecordLog,
    reader: LedgerReader,
    is_witnessed: bool,
}

/// Whatever is read of a ledger is read of an open one too.
impl std::ops::Deref for Ledger {
    type Target = LedgerReader;

    fn deref(&self) -> &LedgerReader {
        &self.reader
    }
}

impl Ledger {
    /// Opens the ledger at a URL as [`open_store`] does, and opens the accounts of the policy in
    /// it. Accounts that no policy names any more are kept.
    ///
    /// # Guarantee
    ///
    /// While the budgets stay as they are, all answers paid from one account are (epsilon,
    /// delta)-differentially private for its budget. Where a policy or a grant changed a budget,
    /// the same holds for the larger epsilon and the larger delta of all that were ever in force.
    /// Where a role's budget is renewed, it holds for each period by itself; k periods add up to k
    /// times the budget, and all of them to no more than the owner's, which is never renewed.
    ///
    /// # Errors
    /// Those of [`open_store`]; another `threshold_share` or accounting than an account was opened
    /// with is refused. [`Error::Older`] where the ledger is behind its witness; [`Error::InUse`]
    /// where it has an older format and another process makes answers until claims of one that
    /// crashed have ended.
    pub async fn open(
        at: impl Into<Address>,
        owner: AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        let at = at.into();
        at.check()?;
        let (specs, address) = (roles.to_vec(), at.clone());
        let is_witnessed = !at.witnesses.is_empty();
        let rules = move || {
            let url = address.url.expose();
            let witnesses = &address.witnesses;
            let asked = |store: &mut dyn Store, format| may_change(store, format, witnesses);
            let store = store_at(url, Absent::Make, OnOlderFormat::RaiseUnlessInUse(&asked))?;
            let mut rules = Rules::open(store, Clock::system(), &owner, &specs)?;
            rules.witnesses =
                open_witnesses(&mut *rules.store, &address.witnesses, Attest::IfUnused)?;
            Ok(rules)
        };
        let ledger = Self::of(roles, at.file()?, rules).await?;
        Ok(Self {
            is_witnessed,
            ..ledger
        })
    }

    /// Records a decision of the owner in a ledger that must exist. It is brought to no other
    /// format, and accounts stay as they are: the policy may not be in force yet.
    ///
    /// # Errors
    /// As [`Ledger::open`] and [`Ledger::decide`]; [`Error::Missing`], [`Error::OlderFormat`].
    /// [`Error::Decision`] for a role without an account.
    pub async fn decide_at(
        at: impl Into<Address>,
        owner: AccountSpec,
        roles: &[AccountSpec],
        decision: Decision,
    ) -> Result<(), Error> {
        let ledger = Self::open_existing(at.into(), owner, roles).await?;
        ledger.decide(decision).await
    }

    /// Records an act in a ledger that must exist, which is kept as [`Ledger::decide_at`] keeps it.
    ///
    /// # Errors
    /// As [`Ledger::open`]; [`Error::Missing`], [`Error::OlderFormat`].
    pub async fn record_at(
        at: impl Into<Address>,
        owner: AccountSpec,
        roles: &[AccountSpec],
        act: Record,
    ) -> Result<(), Error> {
        let ledger = Self::open_existing(at.into(), owner, roles).await?;
        ledger.record_act(act).await
    }

    /// Opens a ledger that must exist, brings it to no other format, and opens no account.
    async fn open_existing(
        at: Address,
        owner: AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        at.check()?;
        let specs = roles.to_vec();
        let rules = move || {
            let store = store_at(at.url.expose(), Absent::Refuse, OnOlderFormat::Keep)?;
            let mut rules = Rules::look(store, Clock::system(), &owner, &specs)?;
            rules.witnesses = open_witnesses(&mut *rules.store, &at.witnesses, Attest::IfUnused)?;
            Ok(rules)
        };
        Self::of(roles, None, rules).await
    }

    /// Opens the ledger on a store and a clock, for tests that break the store or move the clock.
    /// No command, setting or feature leads here.
    ///
    /// # Errors
    /// As [`Ledger::open`]; those of `store`.
    pub async fn on(
        store: impl FnOnce() -> Result<Box<dyn Store>, Error> + Send + 'static,
        clock: Clock,
        owner: AccountSpec,
        roles: &[AccountSpec],
    ) -> Result<Self, Error> {
        let specs = roles.to_vec();
        let rules = move || Rules::open(store()?, clock, &owner, &specs);
        Self::of(roles, None, rules).await
    }

    async fn of(
        roles: &[AccountSpec],
        file: Option<PathBuf>,
        rules: impl FnOnce() -> Result<Rules, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let worker = Worker::start(rules).await?;
        let reader = LedgerReader::of(&worker, roles, file).await?;
        let records = RecordLog::start(worker.clone());
        Ok(Self {
            worker,
            records,
            reader,
            is_witnessed: false,
        })
    }

    /// Debits `loss` to the role's and the owner's account for the plan of that fingerprint.
    ///
    /// A loss of zero is always admitted, and neither waits for nor touches the disk.
    ///
    /// # Guarantee
    ///
    /// When this returns a charge, the debit survives a crash of the process and a loss of power,
    /// and both accounts admitted it, whatever other tasks and processes did meanwhile. Dropping
    /// the future may leave a debit without a charge, never a charge without a debit.
    ///
    /// # Errors
    /// [`DebitError::Exhausted`], [`DebitError::TotalExhausted`], [`DebitError::Closed`] and
    /// [`DebitError::Frozen`]: nothing was charged. [`DebitError::Ledger`]: unknown role, or
    /// storage failed; then the debit may or may not be committed, and is not acknowledged.
    pub async fn debit(
        &self,
        role: &str,
        loss: Loss,
        fingerprint: Fingerprint,
    ) -> Result<Charge, DebitError> {
        let purchase = Purchase::fresh(Buyer::Role, loss, fingerprint, Vec::new());
        self.purchase(role, purchase).await
    }

    /// Debits a purchase: the fresh part to the role's and the owner's accounts, the part that was
    /// made for other roles to the role's account alone.
    ///
    /// # Guarantee
    ///
    /// As [`Ledger::debit`]. The charge covers the fresh part. The owner's total must cover the
    /// whole of a role's own purchase, also what was made for other roles and is not charged to it
    /// again. So a refusal does not reveal what others have asked. Where the total does not cover
    /// the purchase, the role's account is closed, durably, before the role learns of it. A closed
    /// account refuses whatever the role would pay until the owner acts. So for each act of the
    /// owner a role learns of one question at most that the total did not cover it.
    ///
    /// What the same statement will pay later has to fit too, and is not debited.
    ///
    /// The questions of the fresh part are claimed with it, for a while, so that no other process
    /// answers them meanwhile; see [`Ledger::holding`].
    ///
    /// # Errors
    /// As [`Ledger::debit`]; [`DebitError::Awaited`], after which nothing was charged, and another
    /// search for the answers finds something else.
    pub async fn purchase(&self, role: &str, purchase: Purchase) -> Result<Charge, DebitError> {
        let role = self.require_role(role)?;
        let (loss, fingerprint) = (purchase.fresh, purchase.fingerprint);
        let mut entry = HistoryEntry {
            microseconds: 0,
            bought: purchase.bought,
        };
        if !loss.is_zero() || !purchase.answers.is_empty() || purchase.prepaid.is_some() {
            entry.microseconds = self
                .worker
                .call(Access::Write, move |rules| rules.purchase(&role, &purchase))
                .await??;
        }
        Ok(Charge::of_debit(loss, fingerprint, entry))
    }

    /// An answer to the question that the role may see for nothing, or one made for another role.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn find(
        &self,
        role: &str,
        question: QuestionDigest,
    ) -> Result<Option<Stored>, Error> {
        self.find_except(role, question, Vec::new()).await
    }

    /// Like [`Self::find`], for a purchase that already contains the answers `taken`. An answer
    /// that was made for another role is sold once in a purchase, as a new one would be.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn find_except(
        &self,
        role: &str,
        question: QuestionDigest,
        taken: Vec<AnswerId>,
    ) -> Result<Option<Stored>, Error> {
        let role = self.require_role(role)?;
        let (name, others) = (role.clone(), taken.clone());
        let short =
            move |rules: &mut Rules| rules.find(&name, &question, &others, SHORT_ANSWER as i64);
        if let AnswerSearch::Ended(found) = self.worker.read_little(short).await? {
            return Ok(found);
        }
        let any = move |rules: &mut Rules| rules.find(&role, &question, &taken, i64::MAX);
        match self.worker.call(Access::Read, any).await? {
            AnswerSearch::Ended(found) => Ok(found),
            AnswerSearch::Longer => Ok(None),
        }
    }

    /// The values of an answer that the role holds.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn values_held_by(
        &self,
        role: &str,
        answer: AnswerId,
    ) -> Result<Option<Vec<u8>>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| {
                rules.values_held_by(&role, answer)
            })
            .await
    }

    /// The values of the answers of a family that the role has paid for and that may be summed, one
    /// for each question. Of very many, some are left out, always the same.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn relatives(&self, role: &str, family: FamilyId) -> Result<Vec<Vec<u8>>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| rules.relatives(&role, family))
            .await
    }

    /// Keeps released values, durably, as an answer that the role has paid for.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn keep(
        &self,
        role: &str,
        question: QuestionDigest,
        released: Vec<u8>,
    ) -> Result<(), Error> {
        let role = self.require_role(role)?;
        let work = move |rules: &mut Rules| rules.keep(&role, &question, &released);
        self.worker.call(Access::Write, work).await
    }

    /// Like [`Self::keep`], without waiting for the disk. A later request to the ledger finds the
    /// answer. A crash, a loss of power before the next debit's sync, or a write that fails loses
    /// it, and the role pays once more: no privacy is lost. The write of a long answer is waited
    /// for, so that few bytes wait in memory.
    ///
    /// # Errors
    /// As [`Ledger::keep`]; an error of a write that is not waited for is logged.
    pub async fn keep_soon(
        &self,
        role: &str,
        question: QuestionDigest,
        released: Vec<u8>,
    ) -> Result<(), Error> {
        let role = self.require_role(role)?;
        let is_long = released.len() > SHORT_ANSWER;
        let work = move |rules: &mut Rules| rules.keep(&role, &question, &released);
        match is_long {
            true => self.worker.call(Access::WriteSoon, work).await,
            false => self.worker.post(work).await,
        }
    }

    /// Counts one failure that showed the role something of private rows (a timeout, a backend
    /// error), durably, and returns how many there are. They are never renewed. Call it before the
    /// role is answered.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn record_failure(&self, role: &str) -> Result<u32, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Write, move |rules| rules.record_failure(&role))
            .await
    }

    /// How long commits of debits took, and of whatever else must outlast a loss of power, in
    /// seconds: from the COMMIT until the witnesses know of it.
    pub fn commit_times(&self) -> &Histogram {
        self.worker.commits()
    }

    /// Whether there is a witness of its height.
    pub fn is_witnessed(&self) -> bool {
        self.is_witnessed
    }

    /// The debits that each witness has seen, by the witness's name: 0 where it is empty or
    /// damaged. One that cannot be read is left out.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn witnessed_debits(&self) -> Result<Vec<(String, i64)>, Error> {
        self.worker
            .call(Access::Read, |rules| Ok(rules.witnessed_debits()))
            .await
    }

    /// Records a decision of the owner; every process on this ledger obeys it from the next debit
    /// on.
    ///
    /// # Errors
    /// [`Error::Decision`] for a grant past the owner's total; [`Error::UnknownRole`]; those of the
    /// store.
    pub async fn decide(&self, decision: Decision) -> Result<(), Error> {
        self.decide_from(decision, Origin::default()).await
    }

    /// Like [`Self::decide`], from another place than a command.
    ///
    /// # Errors
    /// As [`Ledger::decide`].
    pub async fn decide_from(&self, decision: Decision, origin: Origin) -> Result<(), Error> {
        if let Act::Grant { role, .. }
        | Act::Freeze { role: Some(role) }
        | Act::Unfreeze { role: Some(role) } = &decision.act
        {
            self.require_role(role)?;
        }
        let recorded = self
            .worker
            .call(Access::Write, move |rules| rules.decide(&decision, origin))
            .await??;
        for (number, record) in recorded {
            self.records.copy(number, &record);
        }
        Ok(())
    }
}
