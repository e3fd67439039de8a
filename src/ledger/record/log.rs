//! Records on their way to the store. They wait at most [`PATIENCE`] and go there many at a time,
//! in one transaction with the debits that wait then; then to the file, where there is one.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::super::store::Access;
use super::super::worker::Worker;
use super::{Record, RecordFile};

/// How long a record may wait before it is written.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most records that wait; further statements wait for their turn.
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;

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
    pub(in crate::ledger) fn file(&self) -> Option<Arc<RecordFile>> {
        self.file.get().cloned()
    }

    /// Writes a record to the file that stands in the ledger already.
    pub(in crate::ledger) async fn copy(&self, number: i64, record: Record) {
        copy(&self.file, vec![number], vec![record]).await;
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

    /// Returns once everything handed in before is written, or could not be.
    pub(in crate::ledger) async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        if self.notes.send(Note::Flush(flushed)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

async fn write(worker: Worker, mut queue: mpsc::Receiver<Note>, file: SharedFile) {
    while let Some(first) = queue.recv().await {
        let (records, waiting) = batch(first, &mut queue).await;
        if !records.is_empty() {
            let copied = file.get().map(|_| records.clone());
            let lost = records.len();
            let written = worker
                .call(Access::Write, move |books| books.record(&records))
                .await;
            if let Err(error) = &written {
                tracing::error!(%error, lost, "statements were not recorded");
            }
            if let Some(copied) = copied {
                copy(&file, written.unwrap_or_default(), copied).await;
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

/// Off the tasks' threads: a disk may be slow.
async fn copy(file: &SharedFile, numbers: Vec<i64>, records: Vec<Record>) {
    let Some(file) = file.get().cloned() else {
        return;
    };
    let written = tokio::task::spawn_blocking(move || file.append(&numbers, &records)).await;
    if written.is_err() {
        tracing::error!("records were not written to the file; the ledger has them");
    }
}
