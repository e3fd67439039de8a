//! Records on their way to the store. They wait at most [`PATIENCE`] and go there many at a time,
//! in one transaction with the debits that wait then; then to the file, where there is one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::super::error::Error;
use super::super::store::Access;
use super::super::worker::Worker;
use super::rows::REMOVED;
use super::{Event, Record, RecordFile, json};
use crate::refusal::Ending;

/// How long a record may wait before it is written.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most records that wait; further statements wait for their turn.
const QUEUE_MAX: usize = 4096;
const BATCH_MAX: usize = 512;
/// How long a batch that fails may be tried again in parts. After that the store is out of order,
/// not a record.
const RETRIES_MAX: Duration = Duration::from_secs(5);
/// How far apart the store is asked whether records are committed whose COMMIT failed.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long an end of pgveil waits for the ledger.
const FLUSH_MAX: Duration = Duration::from_secs(30);
/// Places that refused logins leave free, so that tries without a password hold no statement up.
const STATEMENTS_FIRST: usize = QUEUE_MAX / 2;

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
    /// Refused logins that were not recorded, since one last was.
    left_out: AtomicU64,
    /// Records that are not in the ledger, or may not be.
    lost: Arc<AtomicU64>,
}

type SharedFile = Arc<OnceLock<Arc<RecordFile>>>;

impl RecordLog {
    /// Starts the task that writes.
    pub(in crate::ledger) fn start(worker: Worker) -> Self {
        let (notes, queue) = mpsc::channel(QUEUE_MAX);
        let file = SharedFile::default();
        let lost = Arc::<AtomicU64>::default();
        tokio::spawn(write(worker, queue, Arc::clone(&file), Arc::clone(&lost)));
        Self {
            notes,
            file,
            left_out: AtomicU64::new(0),
            lost,
        }
    }

    /// How many records are not in the ledger, or may not be: its store failed, or they were
    /// refused logins that came too fast.
    pub(in crate::ledger) fn lost_records(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// How many records wait.
    pub(in crate::ledger) fn waiting(&self) -> usize {
        QUEUE_MAX - self.notes.capacity()
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
        if is_refused_login(&record) && !self.has_room_for_refused() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if self
            .notes
            .send(Note::Record(Box::new(record)))
            .await
            .is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a statement was not recorded: the ledger is closed");
        }
    }

    /// Refused logins are counted instead, as long as the queue is half full.
    fn has_room_for_refused(&self) -> bool {
        if self.notes.capacity() <= STATEMENTS_FIRST {
            if self.left_out.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!("refused logins come faster than they can be recorded");
            }
            return false;
        }
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            tracing::warn!(left_out, "refused logins are recorded again");
        }
        true
    }

    /// Returns once everything handed in before is written, could not be, or took too long.
    pub(in crate::ledger) async fn flush(&self) {
        let (flushed, wait) = oneshot::channel();
        let written = async {
            if self.notes.send(Note::Flush(flushed)).await.is_ok() {
                let _ = wait.await;
            }
        };
        if tokio::time::timeout(FLUSH_MAX, written).await.is_err() {
            let waiting = self.waiting();
            tracing::error!(
                waiting,
                "the ledger takes no records: those that wait may be lost"
            );
        }
        if let Some(file) = self.file() {
            file.flush().await;
        }
    }
}

async fn write(
    worker: Worker,
    mut queue: mpsc::Receiver<Note>,
    file: SharedFile,
    lost: Arc<AtomicU64>,
) {
    while let Some(first) = queue.recv().await {
        let (records, waiting) = batch(first, &mut queue).await;
        let stored = store(&worker, records).await;
        let unconfirmed = stored.iter().filter(|(number, _)| number.is_none());
        lost.fetch_add(unconfirmed.count() as u64, Ordering::Relaxed);
        let mut numbers = stored.iter().filter_map(|(number, _)| *number);
        let is_due = numbers.any(|number| number % REMOVED == 0);
        if is_due && let Err(error) = remove_older(&worker).await {
            tracing::error!(%error, "older records were not removed");
        }
        for (number, record) in stored {
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

/// Writes records and returns each with its number; `None` for one that is not known to be written.
/// Such a record loses no other: a part that fails is tried again in halves. None is written twice.
async fn store(worker: &Worker, records: Vec<Record>) -> Vec<(Option<i64>, Record)> {
    let mut stored = Vec::with_capacity(records.len());
    let mut open = vec![records];
    let deadline = tokio::time::Instant::now() + RETRIES_MAX;
    let is_in_time = || tokio::time::Instant::now() < deadline;
    while let Some(mut part) = open.pop() {
        if part.is_empty() {
            continue;
        }
        let mut put = put(worker, &part).await;
        while let Put::Unknown(numbers, _) = &put
            && is_in_time()
        {
            tokio::time::sleep(ASK_EVERY).await;
            put = ask(worker, numbers.clone(), &part).await;
        }
        match put {
            Put::Written(numbers) => stored.extend(numbers.into_iter().map(Some).zip(part)),
            Put::CommitFailed(_) if is_in_time() => {
                tokio::time::sleep(ASK_EVERY).await;
                open.push(part);
            }
            Put::NotWritten(Error::Storage(_)) if part.len() > 1 && is_in_time() => {
                let rest = part.split_off(part.len() / 2);
                open.extend([rest, part]);
            }
            // The witness or the ledger itself stands in the way: the part may be written.
            Put::NotWritten(error) | Put::CommitFailed(error) | Put::Unknown(_, error) => {
                tracing::error!(%error, lost = part.len(), "records were not confirmed");
                stored.extend(part.into_iter().map(|record| (None, record)));
            }
        }
    }
    stored
}

/// The outcome for records that were handed to the store.
enum Put {
    /// The records were committed, under these numbers.
    Written(Vec<i64>),
    /// Nothing was committed: one of the records cannot be written, or the store cannot be reached.
    NotWritten(Error),
    /// Nothing was committed: the commit failed.
    CommitFailed(Error),
    /// The records got these numbers, and may have been committed.
    Unknown(Vec<i64>, Error),
}

async fn put(worker: &Worker, records: &[Record]) -> Put {
    let given = Arc::new(Mutex::new(Vec::new()));
    let (noted, handed) = (Arc::clone(&given), records.to_vec());
    let put = worker.call(Access::WriteSoon, move |rules| {
        let numbers = rules.record(&handed)?;
        numbers.clone_into(&mut noted.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(numbers)
    });
    let put = put.await;
    let given = std::mem::take(&mut *given.lock().unwrap_or_else(PoisonError::into_inner));
    match put {
        Ok(numbers) => Put::Written(numbers),
        // The commit failed, or what came after it: they may be committed all the same.
        Err(_) if !given.is_empty() => ask(worker, given, records).await,
        Err(error) => Put::NotWritten(error),
    }
}

/// Asks the store what became of records whose commit failed.
async fn ask(worker: &Worker, numbers: Vec<i64>, records: &[Record]) -> Put {
    let (wanted, handed) = (numbers.clone(), records.to_vec());
    let are_committed = worker.call(Access::Read, move |rules| {
        rules.are_committed(&wanted, &handed)
    });
    match are_committed.await {
        Ok(true) => Put::Written(numbers),
        Ok(false) => Put::CommitFailed(Error::storage(std::io::Error::other(
            "a commit of the ledger failed",
        ))),
        Err(error) => Put::Unknown(numbers, error),
    }
}

fn is_refused_login(record: &Record) -> bool {
    matches!(record.event, Event::Login) && record.ending != Ending::Succeeded
}

async fn remove_older(worker: &Worker) -> Result<(), Error> {
    worker
        .call(Access::Write, |rules| rules.remove_older_records())
        .await
}
