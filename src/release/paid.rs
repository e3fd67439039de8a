//! The order of every release of private rows: pay, run, release, keep.
//!
//! The types hold it. [`LockedPart`] runs nothing: it becomes [`PaidPart`] by the receipt of its
//! debit alone. [`PaidPart`] alone runs statements, and their rows, [`PaidRows`], are of use to it
//! alone, which adds the noise. It ends by keeping what was released, also where a later step
//! failed.

use std::time::Duration;

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Error, FailedLook, Looked, Released, ReleasedTable, Releasing};
use crate::execute::{self, Backend, Sealed, Snapshot, TextRows};
use crate::ir::ReleaseId;
use crate::ledger::{self, Charge, HistoryEntry, Ledger, QuestionDigest};
use crate::mechanism::Sampler;
use crate::rewrite::{MarginalCounts, ReadBackPart, UnpaidPart};

/// A part of a plan whose tables are locked in a snapshot. Nothing is paid, and no row was read.
#[must_use = "it holds a connection; pay for it"]
pub struct LockedPart<'p> {
    part: UnpaidPart<'p>,
    snapshot: Snapshot,
}

impl<'p> LockedPart<'p> {
    /// Opens the snapshot for this role. Reads the catalog alone.
    ///
    /// # Errors
    /// As [`Backend::snapshot`].
    pub async fn new(
        part: ReadBackPart<'p>,
        (backend, role): (&Backend, &str),
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Self, execute::Error> {
        let part = part.into_part();
        let snapshot = backend.snapshot(&part, role, timeout, cancel).await?;
        Ok(Self { part, snapshot })
    }

    pub fn part(&self) -> &UnpaidPart<'p> {
        &self.part
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Ends the transaction, and keeps the connection.
    pub async fn close(self) {
        self.snapshot.close().await;
    }

    /// Opens the snapshot once more, after an error that ended its transaction.
    ///
    /// # Errors
    /// As [`Backend::snapshot`].
    pub async fn reopen(
        &mut self,
        (backend, role): (&Backend, &str),
        cancel: &CancellationToken,
    ) -> Result<(), execute::Error> {
        self.snapshot
            .reopen(backend, &self.part, role, cancel)
            .await
    }

    /// Takes the receipt, by value, so that no second answer can be made with it. `known` holds
    /// what is already answered.
    ///
    /// # Requires
    /// `charge` was debited for this very part (asserted).
    pub fn with_charge(self, charge: Charge, known: Released) -> PaidPart<'p> {
        PaidPart {
            snapshot: self.snapshot,
            releasing: Releasing::new(self.part, known, charge),
            fresh: Vec::new(),
        }
    }
}

/// A part of a plan whose debit is durable.
#[must_use = "it is paid for; only `end` keeps what was released"]
pub struct PaidPart<'p> {
    snapshot: Snapshot,
    releasing: Releasing<'p>,
    fresh: Vec<Fresh>,
}

/// The rows of one release, which were read under its charge.
pub struct PaidRows {
    release: ReleaseId,
    rows: Sealed<Vec<TextRows>>,
}

/// The record that the ledger will keep. Made by [`PaidPart`] alone, after its debit.
struct Fresh {
    question: QuestionDigest,
    values: Vec<u8>,
}

/// How long a release waits for the ledger's writes.
#[derive(Debug, Clone, Copy)]
pub enum Keeping {
    /// Until they are durable.
    Durable,
    /// Not at all: a crash loses them, and then they are bought once more.
    Soon,
}

/// How a part ended.
pub struct EndedPart {
    pub released: Released,
    pub kept: Result<(), ledger::Error>,
}

impl<'p> PaidPart<'p> {
    pub fn part(&self) -> &UnpaidPart<'p> {
        self.releasing.part()
    }

    /// Where the debit stands in the history.
    pub fn entry(&self) -> HistoryEntry {
        self.releasing.charge().entry()
    }

    pub fn as_released(&self) -> &Released {
        self.releasing.as_released()
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Runs the statements of one release with its constants.
    ///
    /// # Errors
    /// As [`Snapshot::run`]. The charge stands.
    pub async fn run(
        &self,
        release: ReleaseId,
        constants: &[Vec<Option<String>>],
        cancel: &CancellationToken,
    ) -> Result<PaidRows, execute::Error> {
        let (part, charge) = (self.releasing.part(), self.releasing.charge());
        let rows = self.snapshot.run(part, release, constants, charge, cancel);
        Ok(PaidRows {
            release,
            rows: rows.await?,
        })
    }

    /// Opens the snapshot once more, under the same charge, after an error that ended its
    /// transaction before a row of it was released.
    ///
    /// # Errors
    /// As [`Backend::snapshot`].
    pub async fn reopen(
        &mut self,
        (backend, role): (&Backend, &str),
        cancel: &CancellationToken,
    ) -> Result<(), execute::Error> {
        let part = self.releasing.part();
        self.snapshot.reopen(backend, part, role, cancel).await
    }

    /// Adds the noise: [`Releasing::release`].
    ///
    /// # Errors
    /// [`Error`]. The charge stands.
    pub fn release(&mut self, read: PaidRows, sampler: &mut dyn Sampler) -> Result<(), Error> {
        self.releasing.release(read.release, read.rows, sampler)
    }

    /// Selects the sets of keys of a summary, from the rows of all releases in their order:
    /// [`Releasing::select_sets`].
    ///
    /// # Errors
    /// [`Error`]. The charge stands.
    pub fn select_sets(
        &mut self,
        counted: &MarginalCounts<'_>,
        read: Vec<PaidRows>,
        sampler: &mut dyn Sampler,
    ) -> Result<Vec<usize>, Error> {
        let rows = read.into_iter().map(|read| (read.release, read.rows));
        self.releasing.select_sets(counted, rows.collect(), sampler)
    }

    /// Draws the noisy counts of a look: [`Releasing::look`].
    ///
    /// # Errors
    /// [`Error`]. The charge stands.
    pub fn look(
        &mut self,
        read: PaidRows,
        earlier: Option<&FailedLook>,
        sampler: &mut dyn Sampler,
    ) -> Result<Looked, Error> {
        let PaidRows { release, rows } = read;
        self.releasing.look(release, rows, earlier, sampler)
    }

    /// Draws the sums after a look, by the receipt of its second debit:
    /// [`Releasing::release_looked`].
    ///
    /// # Errors
    /// [`Error`]. Both charges stand.
    pub fn release_looked(
        &mut self,
        looked: Looked,
        charge: Charge,
        sampler: &mut dyn Sampler,
    ) -> Result<(), Error> {
        self.releasing.release_looked(looked, charge, sampler)
    }

    /// Notes that the end is to keep this release, if it was made.
    pub fn keep_release(&mut self, question: QuestionDigest, release: ReleaseId) {
        let made = self.as_released().table(release);
        let values = made.map(ReleasedTable::to_stored);
        self.fresh
            .extend(values.map(|values| Fresh { question, values }));
    }

    /// Asks the end of the release to keep a search's finding instead of the released values it
    /// came from.
    ///
    /// # Errors
    /// [`Error::Unreadable`]. The charge stands.
    pub fn keep_finding<T: Serialize>(
        &mut self,
        question: QuestionDigest,
        finding: &T,
    ) -> Result<(), Error> {
        let values = serde_json::to_vec(finding).map_err(|_| Error::Unreadable)?;
        self.fresh.push(Fresh { question, values });
        Ok(())
    }

    /// Ends the transaction, and hands the ledger what was released, before anything of it is
    /// shown. `is_whole`: whether every statement ended as it should; after a failure the state of
    /// the connection is unknown, so it does not return to the pool.
    pub async fn end(self, is_whole: bool, ledger: (&Ledger, &str), keeping: Keeping) -> EndedPart {
        let Self {
            snapshot,
            releasing,
            fresh,
            ..
        } = self;
        let close = async {
            if is_whole {
                snapshot.close().await;
            }
        };
        let kept = match keeping {
            // A search's paid result is kept before an end that may hang and be killed.
            Keeping::Durable => {
                let kept = keep(ledger, fresh, keeping).await;
                close.await;
                kept
            }
            Keeping::Soon => {
                close.await;
                keep(ledger, fresh, keeping).await
            }
        };
        EndedPart {
            released: releasing.into_released(),
            kept,
        }
    }
}

async fn keep(
    (ledger, role): (&Ledger, &str),
    fresh: Vec<Fresh>,
    keeping: Keeping,
) -> Result<(), ledger::Error> {
    for Fresh { question, values } in fresh {
        match keeping {
            Keeping::Durable => ledger.keep(role, question, values).await?,
            Keeping::Soon => ledger.keep_soon(role, question, values).await?,
        }
    }
    Ok(())
}
