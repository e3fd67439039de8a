//! The thread that owns the ledger's connection. Jobs that wait together share one transaction and
//! its syncs, and are answered after it. A job that fails is undone by itself.
//!
//! Where a commit costs syncs, writes that nobody waits for leave their transaction open for a
//! moment: the next debit commits them with itself. Reads in between see them.

use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::error::Error;
use super::rules::Rules;
use super::store::Access;

/// Most jobs in one transaction; bounds how long the first waits for the last.
const BATCH_MAX: usize = 256;
/// Most jobs that wait; further callers wait to enqueue.
const QUEUE_MAX: usize = 1024;

/// How long a transaction stays open for a debit that shares its syncs.
const OPEN_MAX: Duration = Duration::from_millis(10);

/// Upper edges of the times of commits, in seconds. The last bucket has no edge.
const COMMIT_EDGES: [f64; 11] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0,
];

/// Sends the job's result to its caller. The argument says whether the transaction was committed.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Does the job. The argument is the rules inside the transaction, or the reason why there is no
/// transaction. If the first result is an error, the job's changes are undone; where that is
/// impossible, the whole transaction is.
type Run = Box<dyn FnOnce(Result<&mut Rules, Error>) -> (Result<(), Error>, Answer) + Send>;

struct Job {
    access: Access,
    /// Whether somebody waits for its commit.
    is_awaited: bool,
    run: Run,
}

impl Job {
    /// Whether its batch has to be committed before anybody is answered.
    fn needs_commit(&self) -> bool {
        self.access != Access::Read && self.is_awaited
    }
}

/// Hands jobs to the thread. The thread ends, and the file is closed, when the last `Worker` is
/// dropped and its queue is empty.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
    commits: Histogram,
}

impl Worker {
    /// Starts the thread and opens the ledger in it.
    ///
    /// # Errors
    ///
    /// Those of `open`; [`Error::File`] if no thread can be started.
    pub(super) async fn start(
        open: impl FnOnce() -> Result<Rules, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let (opened, wait) = oneshot::channel();
        let commits = Histogram::new(COMMIT_EDGES);
        let times = commits.clone();
        let timer = Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || match open() {
                Ok(mut rules) => {
                    // A caller that left drops `jobs`, which ends the loop at once.
                    let _ = opened.send(Ok(()));
                    serve(&mut rules, queue, &timer, &times);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            })?;
        wait.await.map_err(|_| Error::Stopped)??;
        Ok(Self { jobs, commits })
    }

    /// How long commits took that outlast a loss of power, in seconds: from the COMMIT until the
    /// witnesses know of it. All of them, also those that failed.
    pub(super) fn commits(&self) -> &Histogram {
        &self.commits
    }

    /// Runs `work` in a transaction and returns its value after the commit. If the caller leaves
    /// before `work` begins, `work` does not run. If it leaves later, `work` still takes effect.
    ///
    /// # Errors
    ///
    /// Those of `work`, which is then undone; those of the commit; [`Error::Stopped`].
    pub(super) async fn call<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, wait) = oneshot::channel();
        let run = Box::new(
            move |rules: Result<&mut Rules, Error>| -> (Result<(), Error>, Answer) {
                if reply.is_closed() {
                    return (Ok(()), Box::new(|_| {}));
                }
                let value = rules.and_then(work);
                let outcome = value.as_ref().map(|_| ()).map_err(Clone::clone);
                // A caller that left meanwhile gets no answer.
                (
                    outcome,
                    Box::new(move |committed| drop(reply.send(committed.and(value)))),
                )
            },
        );
        self.queue(Job {
            access,
            is_awaited: true,
            run,
        })
        .await?;
        wait.await.map_err(|_| Error::Stopped)?
    }

    /// Queues `work` for a writing transaction that need not be synced, and does not wait for it.
    /// Work that is queued later sees what it did; other processes see it a little later. An error
    /// is logged.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub(super) async fn post(
        &self,
        work: impl FnOnce(&mut Rules) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let run = Box::new(
            move |rules: Result<&mut Rules, Error>| -> (Result<(), Error>, Answer) {
                let done = rules.and_then(work);
                if let Err(error) = &done {
                    tracing::error!(%error, "something was not written to the ledger");
                }
                (done, Box::new(|_| {}))
            },
        );
        self.queue(Job {
            access: Access::WriteSoon,
            is_awaited: false,
            run,
        })
        .await
    }

    async fn queue(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).await.map_err(|_| Error::Stopped)
    }
}

/// Hands jobs that read to the thread.
#[derive(Debug, Clone)]
pub(super) struct ReadingWorker(Worker);

impl ReadingWorker {
    pub(super) fn new(worker: Worker) -> Self {
        Self(worker)
    }

    /// As [`Worker::call`], in a transaction that reads.
    ///
    /// # Errors
    ///
    /// Those of `work`; [`Error::Stopped`].
    pub(super) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.0.call(Access::Read, work).await
    }
}

fn serve(rules: &mut Rules, mut queue: mpsc::Receiver<Job>, timer: &Runtime, commits: &Histogram) {
    let mut open_until: Option<Instant> = None;
    loop {
        let next = match open_until {
            None => Ok(queue.blocking_recv()),
            Some(at) => timer.block_on(async { timeout_at(at, queue.recv()).await }),
        };
        let is_closed = matches!(next, Ok(None));
        let mut batch: Vec<Job> = next.ok().flatten().into_iter().collect();
        while !batch.is_empty()
            && batch.len() < BATCH_MAX
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
        let window = Window {
            is_open: open_until.is_some(),
            may_stay: !batch.is_empty() && open_until.is_none_or(|at| Instant::now() < at),
        };
        if window.is_open || !batch.is_empty() {
            let stays = run(rules, batch, window, commits);
            let until = open_until.unwrap_or_else(|| Instant::now() + OPEN_MAX);
            open_until = stays.then_some(until);
        }
        if is_closed {
            return;
        }
    }
}

/// The transaction of a batch.
#[derive(Clone, Copy)]
struct Window {
    /// Whether the batch before left it open.
    is_open: bool,
    /// Whether the transaction may stay open after this batch.
    may_stay: bool,
}

/// One transaction for all jobs, each decided in order on what those before it left; nobody is
/// answered before the commit returned. Returns whether the transaction is left open, as it may be
/// where nobody waits for what was written in it.
fn run(rules: &mut Rules, batch: Vec<Job>, window: Window, commits: &Histogram) -> bool {
    let wanted = batch.iter().map(|job| job.access).max();
    let access = wanted.unwrap_or(Access::Read);
    let writes = window.is_open || access != Access::Read;
    let may_stay = window.may_stay && !batch.iter().any(Job::needs_commit);
    let mut answers = Vec::with_capacity(batch.len());
    let (begun, mut state) = match window.is_open {
        true => check_again(rules, access, commits),
        false => begin(rules, access),
    };
    // Each can be undone alone, also one that only reads: a statement that fails ends a transaction
    // of PostgreSQL. Where nothing is written, a read that fails can cost nobody a charge.
    let is_marked = writes && (window.is_open || batch.len() > 1);
    for job in batch {
        // After a failure of the whole the rest of the batch runs nothing: the store may have left
        // the transaction.
        if is_marked && state.is_ok() {
            state = mark(rules);
        }
        let reads = window.is_open && job.access == Access::Read;
        let (outcome, answer) = (job.run)(state.clone().map(|()| &mut *rules));
        answers.push(answer);
        if state.is_ok() {
            state = match outcome {
                Ok(()) if is_marked => release(rules),
                // A read that fails harms nothing that was written before it.
                Err(error) if is_marked && (is_alone(&error) || reads && !is_faulty(&error)) => {
                    undo(rules).map_err(|_| error)
                }
                outcome => outcome,
            };
        }
    }
    let stays = writes && may_stay && state.is_ok() && rules.store.may_stay_open();
    let committed = match stays {
        true => Ok(()),
        false => end(rules, (begun, state), (access, writes), commits),
    };
    if let Err(error) = &committed {
        let jobs = answers.len();
        tracing::error!(%error, jobs, was_open = window.is_open, "ledger transaction failed");
    }
    for answer in answers {
        answer(committed.clone());
    }
    stays
}

/// What [`begin`] checks before a debit, for one that joins an open transaction. Where a witness
/// cannot be asked, what was written before is committed, and the debit fails alone.
fn check_again(
    rules: &mut Rules,
    access: Access,
    commits: &Histogram,
) -> (bool, Result<(), Error>) {
    if access != Access::Write {
        return (true, Ok(()));
    }
    let place = rules.store.check_place();
    match place.and_then(|()| rules.check_not_behind()) {
        Err(error) if !is_faulty(&error) => {
            let written = (Access::WriteSoon, true);
            let kept = end(rules, (true, Ok(())), written, commits);
            (false, Err(kept.err().unwrap_or(error)))
        }
        checked => (true, checked),
    }
}

/// Whether the store itself is not what it was.
fn is_faulty(error: &Error) -> bool {
    matches!(error, Error::Damaged { .. } | Error::WentBack { .. })
}

/// Whether a transaction is open, and whether work may begin in it.
fn begin(rules: &mut Rules, access: Access) -> (bool, Result<(), Error>) {
    let begun = rules.store.begin(access);
    let is_open = begun.is_ok();
    let mut state = begun.and_then(|()| rules.catch_up());
    if state.is_ok() && access != Access::Read {
        state = rules.check_not_behind();
    }
    (is_open, state)
}

/// Commits, or undoes everything where the state is an error.
fn end(
    rules: &mut Rules,
    (begun, state): (bool, Result<(), Error>),
    (access, writes): (Access, bool),
    commits: &Histogram,
) -> Result<(), Error> {
    let reached = match (&state, writes) {
        (Ok(()), true) => rules.reached_height().map(Some),
        (Ok(()), false) | (Err(_), _) => Ok(None),
    };
    let state = state.and(reached.as_ref().map(|_| ()).map_err(Clone::clone));
    let is_durable = begun && state.is_ok() && access == Access::Write;
    let since = Instant::now();
    let committed = if begun { rules.store.end(state) } else { state };
    // The witness has the charge before anybody learns of it.
    let committed = committed.and_then(|()| match reached {
        Ok(Some(reached)) => rules.note(reached),
        Ok(None) | Err(_) => Ok(()),
    });
    if is_durable {
        commits.observe(since.elapsed().as_secs_f64());
    }
    committed
}

/// Marks where a job begins.
fn mark(rules: &mut Rules) -> Result<(), Error> {
    rules.store.query("SAVEPOINT job", &[]).map(drop)
}

/// Forgets the newest mark. The changes since then stay.
fn release(rules: &mut Rules) -> Result<(), Error> {
    rules.store.query("RELEASE SAVEPOINT job", &[]).map(drop)
}

/// Undoes all changes since the newest mark, and forgets the mark. An error where the store has
/// left the transaction.
fn undo(rules: &mut Rules) -> Result<(), Error> {
    rules.store.query("ROLLBACK TO SAVEPOINT job", &[])?;
    release(rules)
}

/// Whether a failure is the job's alone. A store that is damaged or went back is not written at
/// all.
fn is_alone(error: &Error) -> bool {
    match error {
        Error::Storage(_) | Error::UnknownRole { .. } | Error::Decision(_) => true,
        Error::Url { .. }
        | Error::NoDirectory { .. }
        | Error::Missing { .. }
        | Error::Foreign { .. }
        | Error::Newer { .. }
        | Error::OlderFormat { .. }
        | Error::InUse { .. }
        | Error::HalfWritten { .. }
        | Error::Damaged { .. }
        | Error::Leftover { .. }
        | Error::Unsafe { .. }
        | Error::Witness { .. }
        | Error::SameDisk { .. }
        | Error::Older { .. }
        | Error::Backup { .. }
        | Error::WentBack { .. }
        | Error::NamedTwice { .. }
        | Error::Fixed { .. }
        | Error::File(_)
        | Error::Unwitnessed { .. }
        | Error::Stopped => false,
    }
}
