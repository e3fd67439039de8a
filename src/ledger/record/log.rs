//! Records on their way to the store. They wait at most [`PATIENCE`] and go there many at a time,
//! in one transaction with the debits that wait then; then to the file, where there is one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::super::error::Error;
use super::super::store::Access;
use super::super::worker::Worker;
use super::{Record, RecordFile, json};

/// How long a record may wait before it is written.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most records that wait; further statements wait for their turn.
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;
/// How many transactions of one batch may fail before the rest of it is given up: the store is out
/// of order then, not a record.
const FAILURES_MAX: usize = 64;

enum Note {
    Record(Box<Record>),
    /// Answered when all before it are written.
    Flush(oneshot::Sender<()>),
}

/// Where records are handed in.
#[derive(Debug)]
pub(in crate::ledger) struct RecordLog {
    notes: mpsc::Sender<Note>,
    file: SharedFile,
}

type SharedFile = Arc<OnceLock<Arc<RecordFile>>>;

impl RecordLog {
    /// Starts the task that writes.
    pub(in crate::ledger) fn start(worker: Worker) -> Self {
        let (notes, queue) = mpsc::channel(QUEUE_MAX);
        let file = SharedFile::default();
        tokio::spawn(write(worker, queue, Arc::clone(&file)));
        Self { notes, file }
    }

    /// Has records written to a file too, from now on. Once only.
    pub(in crate::ledger) fn copy_to(&self, file: Arc<RecordFile>) {
        let _ = self.file.set(file);
    }

    /// The file that records are written to as well.
    pub(in crate::ledger) fn file(&self) -> Option<&Arc<RecordFile>> {
        self.file.get()
    }

    /// Hands the file a record that the ledger has already.
    pub(in crate::ledger) fn copy(&self, number: i64, record: &Record) {
        if let Some(file) = self.file() {
            file.append(&json(Some(number), record));
        }
    }

    pub(in crate::ledger) async fn record(&self, record: Record) {
        if self
            .notes
            .send(Note::Record(Box::new(record)))
            .await
            .is_err()
        {
            tracing::error!("a statement was not recorded: the ledger is closed");
        }
    }

    /// Returns once everything handed in before is written, or could not be. For the file it waits
    /// a short time only.
    pub(in crate::ledger) async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        if self.notes.send(Note::Flush(flushed)).await.is_ok() {
            let _ = wait.await;
        }
        if let Some(file) = self.file() {
            file.flush().await;
        }
    }
}

async fn write(worker: Worker, mut queue: mpsc::Receiver<Note>, file: SharedFile) {
    while let Some(first) = queue.recv().await {
        let (records, waiting) = batch(first, &mut queue).await;
        for (number, record) in store(&worker, records).await {
            if let Some(file) = file.get() {
                file.append(&json(number, &record));
            }
        }
        for flushed in waiting {
            let _ = flushed.send(());
        }
    }
}

/// What waits, and what comes within [`PATIENCE`]; at once where somebody waits for it.
async fn batch(
    first: Note,
    queue: &mut mpsc::Receiver<Note>,
) -> (Vec<Record>, Vec<oneshot::Sender<()>>) {
    let (mut records, mut waiting) = (Vec::new(), Vec::new());
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut next = Some(first);
    while let Some(note) = next {
        match note {
            Note::Record(record) => records.push(*record),
            Note::Flush(flushed) => {
                waiting.push(flushed);
                break;
            }
        }
        if records.len() > BATCH_MAX {
            break;
        }
        next = tokio::time::timeout_at(deadline, queue.recv())
            .await
            .ok()
            .flatten();
    }
    (records, waiting)
}

/// Writes records and returns each with its number; `None` for one that could not be written. Such
/// a record loses no other: a part that fails is tried again in halves.
async fn store(worker: &Worker, records: Vec<Record>) -> Vec<(Option<i64>, Record)> {
    let mut stored = Vec::with_capacity(records.len());
    let (mut open, mut failures) = (vec![records], 0);
    while let Some(mut part) = open.pop() {
        if part.is_empty() {
            continue;
        }
        match put(worker, part.clone()).await {
            Ok(numbers) => stored.extend(numbers.into_iter().map(Some).zip(part)),
            Err(_) if part.len() > 1 && failures < FAILURES_MAX => {
                failures += 1;
                let rest = part.split_off(part.len() / 2);
                open.extend([rest, part]);
            }
            Err(error) => {
                failures += 1;
                tracing::error!(%error, lost = part.len(), "statements were not recorded");
                stored.extend(part.into_iter().map(|record| (None, record)));
            }
        }
    }
    stored
}

async fn put(worker: &Worker, records: Vec<Record>) -> Result<Vec<i64>, Error> {
    worker
        .call(Access::WriteSoon, move |books| books.record(&records))
        .await
}
