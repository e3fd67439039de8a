//! The durable store that the ledger needs: transactions and one dialect of SQL. The rules stand
//! above it, once for all stores.
//!
//! Statements are written so that SQLite and PostgreSQL read them alike: parameters `$1`, `$2`, …
//! first appear in that order, and every number is a 64-bit integer or a double.

use super::error::Error;
use crate::mechanism::{Fixed, Loss};

/// Whether a transaction may write. Writers are serialised across processes from their first read
/// on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    /// A loss of power soon after the commit may undo it. No debit is written so.
    WriteSoon,
    Write,
}

/// Names what a store holds, as one connection to it sees that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// Changes when another connection has written.
    pub of_others: i64,
    /// Transactions of this connection that might write.
    pub own: u64,
}

/// What becomes of a store that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    Make,
    Refuse,
}

/// Whether a whole store of that format may be changed. No transaction is open.
pub(super) type UpgradeCheck<'w> = &'w dyn Fn(&mut dyn Store, i64) -> Result<(), Error>;

/// What becomes of a store of an older format.
#[derive(Clone, Copy)]
pub(super) enum OnOlderFormat<'w> {
    /// The store is brought to the newest format, where it may be changed.
    Raise(UpgradeCheck<'w>),
    /// Like `Raise`, unless another process is making an answer just now: it could not open the
    /// store again.
    RaiseUnlessInUse(UpgradeCheck<'w>),
    /// The store stays as it is.
    Keep,
}

/// One value, in or out.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreValue {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// A durable store of a ledger, as one thread at a time uses it. Two implementations: SQLite and
/// PostgreSQL; tests wrap them.
pub trait Store: Send {
    /// Opens a transaction. In one that writes, everything read is current until its end, whatever
    /// other processes do.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`], also when other processes held the lock for too long. Nothing is open
    /// then.
    fn begin(&mut self, access: Access) -> Result<(), Error>;

    /// Opens a transaction that reads, where neither another process nor another machine has to be
    /// waited for, now or by what is read in it. Otherwise none is open.
    fn begin_at_once(&mut self) -> bool {
        false
    }

    /// What is different whenever anything was written between two transactions; `None` where the
    /// store does not say, and in a transaction that [`Store::begin`] opened.
    fn contents(&self) -> Option<Contents> {
        None
    }

    /// Runs one statement in the open transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`]; [`Error::Damaged`] where the store is not whole. The transaction must
    /// then be ended with that error.
    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error>;

    /// Commits if all went well; else undoes the transaction and returns why.
    ///
    /// # Guarantee
    ///
    /// On success everything written survives a crash of the process, and, unless it was begun with
    /// [`Access::WriteSoon`], a loss of power, with all that was committed before. On an error it
    /// may or may not be committed.
    ///
    /// # Errors
    ///
    /// `outcome`'s, or the commit's.
    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error>;

    /// Whether an open transaction that writes is worth leaving open for a moment: each commit
    /// costs syncs, also one that was begun with [`Access::WriteSoon`], and no other process waits
    /// to write.
    fn may_stay_open(&self) -> bool;

    /// Whether the store is still the one that was opened, for a debit in a transaction that was
    /// left open.
    ///
    /// # Errors
    ///
    /// [`Error::WentBack`].
    fn check_place(&mut self) -> Result<(), Error>;

    /// The system identifier of its PostgreSQL, where it is in one that says so. No transaction is
    /// open.
    fn cluster(&mut self) -> Option<String> {
        None
    }

    /// The bytes that the ledger takes on its disk; `None` where the store does not say.
    ///
    /// # Requires
    ///
    /// A transaction is open.
    ///
    /// # Errors
    ///
    /// As [`Store::query`].
    fn bytes(&mut self) -> Result<Option<i64>, Error> {
        Ok(None)
    }
}

/// A store that is only read. Its connection refuses to write as well.
pub(super) struct ReadOnly<S>(pub(super) S);

impl<S: Store> Store for ReadOnly<S> {
    fn begin(&mut self, access: Access) -> Result<(), Error> {
        match access {
            Access::Read => self.0.begin(access),
            Access::WriteSoon | Access::Write => Err(Error::storage(std::io::Error::new(
                std::io::ErrorKind::ReadOnlyFilesystem,
                "the ledger was opened to be read",
            ))),
        }
    }

    fn query(&mut self, sql: &'static str, values: &[StoreValue]) -> Result<Vec<Row>, Error> {
        self.0.query(sql, values)
    }

    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        self.0.end(outcome)
    }

    fn may_stay_open(&self) -> bool {
        false
    }

    fn check_place(&mut self) -> Result<(), Error> {
        self.0.check_place()
    }

    fn cluster(&mut self) -> Option<String> {
        self.0.cluster()
    }

    fn bytes(&mut self) -> Result<Option<i64>, Error> {
        self.0.bytes()
    }
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<StoreValue>);

impl Row {
    pub(super) fn int(&self, at: usize) -> Result<i64, Error> {
        match self.0.get(at) {
            Some(StoreValue::Int(value)) => Ok(*value),
            _ => Err(malformed_value()),
        }
    }

    pub(super) fn real(&self, at: usize) -> Result<f64, Error> {
        match self.0.get(at) {
            Some(StoreValue::Real(value)) => Ok(*value),
            _ => Err(malformed_value()),
        }
    }

    pub(super) fn text(&self, at: usize) -> Result<&str, Error> {
        match self.0.get(at) {
            Some(StoreValue::Text(value)) => Ok(value),
            _ => Err(malformed_value()),
        }
    }

    pub(super) fn blob(&self, at: usize) -> Result<&[u8], Error> {
        match self.0.get(at) {
            Some(StoreValue::Blob(value)) => Ok(value),
            _ => Err(malformed_value()),
        }
    }

    pub(super) fn is_null(&self, at: usize) -> bool {
        matches!(self.0.get(at), Some(StoreValue::Null))
    }

    pub(super) fn digest(&self, at: usize) -> Result<[u8; 32], Error> {
        self.blob(at)?.try_into().map_err(|_| malformed_value())
    }

    pub(super) fn read_fixed(&self, at: usize) -> Result<Fixed, Error> {
        let bytes: [u8; 16] = self.blob(at)?.try_into().map_err(|_| malformed_value())?;
        Ok(Fixed(u128::from_be_bytes(bytes)))
    }

    /// Four columns from `at`: epsilon, rho, mu^2, delta. An infinite epsilon is NULL.
    pub(super) fn loss(&self, at: usize) -> Result<Loss, Error> {
        let epsilon = if self.is_null(at) {
            None
        } else {
            Some(self.read_fixed(at)?)
        };
        Ok(Loss {
            epsilon,
            rho: self.read_fixed(at + 1)?,
            mu_squared: self.read_fixed(at + 2)?,
            delta: self.read_fixed(at + 3)?,
        })
    }
}

/// Losses are stored as 16-byte big-endian integers in units of 2^-60, which both stores compare in
/// their order.
pub(super) fn fixed_value(value: Fixed) -> StoreValue {
    StoreValue::Blob(value.0.to_be_bytes().to_vec())
}

/// The four columns of a loss.
pub(super) fn loss(loss: &Loss) -> [StoreValue; 4] {
    let Loss {
        epsilon,
        rho,
        mu_squared,
        delta,
    } = loss;
    [
        epsilon.map_or(StoreValue::Null, fixed_value),
        fixed_value(*rho),
        fixed_value(*mu_squared),
        fixed_value(*delta),
    ]
}

pub(super) fn text_value(text: &str) -> StoreValue {
    StoreValue::Text(text.to_owned())
}

pub(super) fn blob(bytes: &[u8]) -> StoreValue {
    StoreValue::Blob(bytes.to_vec())
}

fn malformed_value() -> Error {
    Error::Damaged {
        ledger: "the ledger".to_owned(),
        reason: "a value of it has the wrong type or length".to_owned(),
    }
}

/// The row that must be there.
///
/// # Errors
/// [`Error::Damaged`] without any.
pub(super) fn first_row(rows: &[Row]) -> Result<&Row, Error> {
    rows.first().ok_or_else(gone)
}

pub(super) fn gone() -> Error {
    Error::Damaged {
        ledger: "the ledger".to_owned(),
        reason: "an account is gone from it".to_owned(),
    }
}
