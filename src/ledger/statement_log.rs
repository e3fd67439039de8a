//! The record of every statement that was asked: who, when, which, what became of it and what it
//! cost. No SQL and no literal.
//!
//! Records are written by the way: they wait at most [`PATIENCE`] and go to the store many at a
//! time, in one transaction with the debits that wait then. The newest [`KEPT`] are kept.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::charge::Fingerprint;
use super::error::Error;
use super::rules::Rules;
use super::store::{Access, Row, Value, blob, first, loss as columns, text};
use super::worker::Worker;
use crate::mechanism::Loss;

/// Statements kept; some 150 bytes each.
pub const KEPT: i64 = 1_000_000;
/// Older ones are removed this many at a time.
const REMOVED: i64 = 1000;
/// How long a record may wait before it is written.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most records that wait; further statements wait for their turn.
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answered: with fresh noise, from the catalogs, or from public rows.
    Answered,
    /// Answered from what was released before, all of it.
    Reused,
    /// EXPLAIN.
    Explained,
    /// Not run, and nothing charged.
    Refused,
    /// Something broke; what was charged stays charged.
    Failed,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Reused => "reused",
            Self::Explained => "explained",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    fn of_name(name: &str) -> Self {
        let all = [Self::Answered, Self::Reused, Self::Explained, Self::Refused];
        all.into_iter()
            .find(|verdict| verdict.name() == name)
            .unwrap_or(Self::Failed)
    }
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// By the proxy's clock, since 1970.
    pub microseconds: i64,
    pub role: String,
    /// A digest of the statement; all zeros where it could not be read as one.
    pub fingerprint: Fingerprint,
    pub verdict: Verdict,
    /// The SQLSTATE that the client got; 00000 where the statement was answered.
    pub sqlstate: String,
    /// What was charged for it.
    pub loss: Loss,
}

enum Note {
    Record(Box<Record>),
    /// Answered when all before it are written.
    Flush(oneshot::Sender<()>),
}

/// Where records are handed in.
#[derive(Debug)]
pub(super) struct StatementLog {
    notes: mpsc::Sender<Note>,
}

impl StatementLog {
    /// Starts the task that writes.
    pub(super) fn start(worker: Worker) -> Self {
        let (notes, queue) = mpsc::channel(QUEUE_MAX);
        tokio::spawn(write(worker, queue));
        Self { notes }
    }

    pub(super) async fn record(&self, record: Record) {
        if self
            .notes
            .send(Note::Record(Box::new(record)))
            .await
            .is_err()
        {
            tracing::error!("a statement was not recorded: the ledger is closed");
        }
    }

    /// Returns once everything handed in before is written, or could not be.
    pub(super) async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        if self.notes.send(Note::Flush(flushed)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

async fn write(worker: Worker, mut queue: mpsc::Receiver<Note>) {
    while let Some(first) = queue.recv().await {
        let (mut records, mut waiting) = (Vec::new(), Vec::new());
        let mut take = |note| match note {
            Note::Record(record) => records.push(*record),
            Note::Flush(flushed) => waiting.push(flushed),
        };
        let hurry = matches!(first, Note::Flush(_));
        take(first);
        if !hurry {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            for _ in 0..BATCH_MAX {
                match tokio::time::timeout_at(deadline, queue.recv()).await {
                    Ok(Some(note)) => {
                        let hurry = matches!(note, Note::Flush(_));
                        take(note);
                        if hurry {
                            break;
                        }
                    }
                    Ok(None) | Err(_) => break,
                }
            }
        }
        let lost = records.len();
        if lost > 0
            && let Err(error) = worker
                .call(Access::WriteSoon, move |books| books.record(&records))
                .await
        {
            tracing::error!(%error, lost, "statements were not recorded");
        }
        for flushed in waiting {
            let _ = flushed.send(());
        }
    }
}

impl Rules {
    /// Writes records.
    ///
    /// # Requires
    ///
    /// A `Write` transaction is open.
    pub(super) fn record(&mut self, records: &[Record]) -> Result<(), Error> {
        for record in records {
            let Record {
                microseconds,
                role,
                fingerprint,
                verdict,
                sqlstate,
                loss,
            } = record;
            let [epsilon, rho, mu_squared, delta] = columns(loss);
            let sql = "INSERT INTO statement (id, microseconds, role, fingerprint, verdict, \
                sqlstate, epsilon, rho, mu_squared, delta)
                       VALUES ((SELECT coalesce(max(id), 0) + 1 FROM statement), $1, $2, $3, $4, \
                       $5, $6, $7, $8, $9) RETURNING id";
            let values = [
                Value::Int(*microseconds),
                text(role),
                blob(fingerprint.as_bytes()),
                text(verdict.name()),
                text(sqlstate),
                epsilon,
                rho,
                mu_squared,
                delta,
            ];
            let made = self.store.query(sql, &values)?;
            let id = first(&made)?.int(0)?;
            if id > KEPT && id % REMOVED == 0 {
                self.store.query(
                    "DELETE FROM statement WHERE id <= $1",
                    &[Value::Int(id - KEPT)],
                )?;
            }
        }
        Ok(())
    }

    /// Records after the one of this number, oldest first, each with its number.
    pub(super) fn records(
        &mut self,
        after: i64,
        rows_max: u32,
    ) -> Result<Vec<(i64, Record)>, Error> {
        let sql = "SELECT id, microseconds, role, fingerprint, verdict, sqlstate, epsilon, rho, \
            mu_squared, delta FROM statement
                   WHERE id > $1 ORDER BY id LIMIT $2";
        let rows = self
            .store
            .query(sql, &[Value::Int(after), Value::Int(i64::from(rows_max))])?;
        rows.iter().map(recorded).collect()
    }
}

fn recorded(row: &Row) -> Result<(i64, Record), Error> {
    let record = Record {
        microseconds: row.int(1)?,
        role: row.text(2)?.to_owned(),
        fingerprint: Fingerprint::new(row.digest(3)?),
        verdict: Verdict::of_name(row.text(4)?),
        sqlstate: row.text(5)?.to_owned(),
        loss: row.loss(6)?,
    };
    Ok((row.int(0)?, record))
}
