//! The ledger's part of the record's interface.

use std::sync::Arc;

use super::super::charge::{Fingerprint, KeyedPlanDigest, KeyedStatementDigest};
use super::super::error::Error;
use super::super::store::Access;
use super::{Record, RecordFile};
use crate::ledger::{Ledger, LedgerReader};

impl LedgerReader {
    /// The keyed digest by which records name a statement, as pgveil prints it.
    pub fn statement_digest(&self, sql: &str) -> KeyedStatementDigest {
        self.digests.of_statement(sql)
    }

    /// The keyed digest by which records and the owner's history name a plan.
    pub fn plan_digest(&self, plan: Fingerprint) -> KeyedPlanDigest {
        self.digests.of_plan(plan)
    }

    /// Records after the one of that number, oldest first, each with its number; of the newest
    /// [`super::STATEMENTS_KEPT`] statements and [`super::LOGINS_KEPT`] logins.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn records(&self, after: i64, rows_max: u32) -> Result<Vec<(i64, Record)>, Error> {
        self.worker
            .call(move |rules| rules.records(after, rows_max))
            .await
    }
}

impl Ledger {
    /// Hands in a record, which is written in the background.
    pub async fn record(&self, record: Record) {
        self.records.record(record).await;
    }

    /// Records what an operator is about to do, durably. What cannot be recorded is not done.
    ///
    /// # Errors
    ///
    /// [`Error`]; the act must then not be done.
    pub async fn record_act(&self, record: Record) -> Result<(), Error> {
        let copied = record.clone();
        let numbers = self
            .worker
            .call(Access::Write, move |rules| rules.record(&[record]))
            .await?;
        for number in numbers {
            self.records.copy(number, &copied);
        }
        Ok(())
    }

    /// How many records are not in the ledger, or may not be, since it was opened.
    pub fn records_lost(&self) -> u64 {
        self.records.lost_records()
    }

    /// How many records wait for the ledger.
    pub fn records_waiting(&self) -> usize {
        self.records.waiting()
    }

    /// Has records written to a file too, as lines of JSON.
    pub fn copy_records_to(&self, file: Arc<RecordFile>) {
        self.records.copy_to(file);
    }

    /// The file that records are written to as well.
    pub fn record_file(&self) -> Option<Arc<RecordFile>> {
        self.records.file().cloned()
    }

    /// Returns once every record and answer handed in before is written, or could not be.
    pub async fn flush(&self) {
        self.records.flush().await;
        // Work is done in order; what could not be written is logged already.
        let _ = self.worker.call(Access::WriteSoon, |_| Ok(())).await;
    }

    /// The newest acts of operators and of the owner, newest first.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn acts(&self, rows_max: u32) -> Result<Vec<Record>, Error> {
        self.worker
            .call(Access::Read, move |rules| rules.acts(rows_max))
            .await
    }
}
