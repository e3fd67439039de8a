//! Transactions as a client sees them. Each answer runs alone, so a transaction here is a state, a
//! stack of names and the settings to go back to.

use super::settings::{SettingValues, Settings};
use crate::refusal::{Refusal, reason};

/// Savepoints of one transaction: each holds a snapshot of the settings.
const SAVEPOINTS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Idle,
    /// Several statements in one string.
    Implicit,
    /// Messages up to the next Sync.
    Pipeline,
    Open,
    Failed,
}

#[derive(Debug)]
pub(super) struct Transaction {
    status: Status,
    before: SettingValues,
    savepoints: Vec<(String, SettingValues)>,
}

impl Transaction {
    pub(super) fn new() -> Self {
        Self {
            status: Status::Idle,
            before: SettingValues::default(),
            savepoints: Vec::new(),
        }
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    /// A string of several statements begins. In a pipeline its statements belong together too.
    pub(super) fn begin_implicit(&mut self, settings: &Settings) {
        self.begin_unasked(Status::Implicit, settings);
        if self.status == Status::Pipeline {
            self.status = Status::Implicit;
        }
    }

    /// A message of the extended protocol has come.
    pub(super) fn begin_pipeline(&mut self, settings: &Settings) {
        self.begin_unasked(Status::Pipeline, settings);
    }

    fn begin_unasked(&mut self, status: Status, settings: &Settings) {
        if self.status == Status::Idle {
            self.status = status;
            self.before = settings.snapshot();
        }
    }

    /// How many savepoints stand.
    pub(super) fn depth(&self) -> usize {
        self.savepoints.len()
    }

    /// The string or the pipeline is over; true where a transaction ended with it.
    pub(super) fn end_implicit(&mut self, settings: &mut Settings) -> bool {
        if matches!(
            self.status,
            Status::Implicit | Status::Pipeline | Status::Idle
        ) {
            self.end(settings);
            return true;
        }
        false
    }

    /// A statement failed.
    pub(super) fn fail(&mut self, settings: &mut Settings) {
        match self.status {
            Status::Idle => {}
            Status::Implicit | Status::Pipeline => self.roll_back(settings),
            Status::Open | Status::Failed => self.status = Status::Failed,
        }
    }

    /// BEGIN; false where a transaction was open already.
    pub(super) fn begin(&mut self, settings: &Settings) -> bool {
        let fresh = self.status != Status::Open;
        if self.status == Status::Idle {
            self.before = settings.snapshot();
        }
        self.status = Status::Open;
        fresh
    }

    /// COMMIT; the command tag, or nothing where no transaction was open.
    pub(super) fn commit(&mut self, settings: &mut Settings) -> Option<&'static str> {
        match self.status {
            Status::Open => {
                self.end(settings);
                Some("COMMIT")
            }
            Status::Failed => {
                self.roll_back(settings);
                Some("ROLLBACK")
            }
            Status::Idle | Status::Implicit | Status::Pipeline => {
                self.end(settings);
                None
            }
        }
    }

    /// ROLLBACK; false where no transaction was open.
    pub(super) fn rollback(&mut self, settings: &mut Settings) -> bool {
        let open = matches!(self.status, Status::Open | Status::Failed);
        if self.status != Status::Idle {
            self.roll_back(settings);
        }
        open
    }

    pub(super) fn savepoint(&mut self, name: String, settings: &Settings) -> Result<(), Refusal> {
        self.require_block("SAVEPOINT")?;
        if self.savepoints.len() >= SAVEPOINTS_MAX {
            return Err(Refusal::new(
                reason::SESSION_TOO_LARGE,
                "too many savepoints in this transaction",
            ));
        }
        self.savepoints.push((name, settings.snapshot()));
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Refusal> {
        self.require_block("RELEASE SAVEPOINT")?;
        let at = self.find(name)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    pub(super) fn rollback_to(
        &mut self,
        name: &str,
        settings: &mut Settings,
    ) -> Result<(), Refusal> {
        self.require_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.find(name)?;
        self.savepoints.truncate(at + 1);
        if let Some((_, values)) = self.savepoints.last() {
            settings.restore(values.clone());
        }
        self.status = Status::Open;
        Ok(())
    }

    /// 25P01 outside BEGIN … COMMIT.
    pub(super) fn require_block(&self, what: &str) -> Result<(), Refusal> {
        match self.status {
            Status::Open | Status::Failed => Ok(()),
            Status::Idle | Status::Implicit | Status::Pipeline => Err(outside(what)),
        }
    }

    /// 25P01 outside BEGIN … COMMIT and strings of several statements.
    pub(super) fn require_string_or_block(&self, what: &str) -> Result<(), Refusal> {
        match self.status {
            Status::Open | Status::Failed | Status::Implicit => Ok(()),
            Status::Idle | Status::Pipeline => Err(outside(what)),
        }
    }

    fn find(&self, name: &str) -> Result<usize, Refusal> {
        let found = self.savepoints.iter().rposition(|(known, _)| known == name);
        found.ok_or_else(|| {
            Refusal::new(
                reason::UNKNOWN_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }

    fn roll_back(&mut self, settings: &mut Settings) {
        settings.restore(std::mem::take(&mut self.before));
        self.end(settings);
    }

    fn end(&mut self, settings: &mut Settings) {
        settings.end_local();
        self.savepoints.clear();
        self.before = SettingValues::default();
        self.status = Status::Idle;
    }
}

fn outside(what: &str) -> Refusal {
    Refusal::new(
        reason::NO_TRANSACTION,
        format!("{what} can only be used in transaction blocks"),
    )
}

/// 25P02: only the end of the transaction is taken now.
pub(super) fn refuse_aborted() -> Refusal {
    Refusal::new(
        reason::TRANSACTION_ABORTED,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
