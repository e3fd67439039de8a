//! The thread that runs the ledger's jobs. Jobs that wait together share one transaction and its
//! syncs, and are answered after it. A job that fails is undone by itself.
//!
//! Where a commit costs syncs, writes that nobody waits for leave their transaction open for a
//! moment: the next debit commits them with itself. Reads in between see them.
//!
//! To wake the thread takes longer than a short read. While it has nothing to do, such a read runs
//! on its caller's thread.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::batch::{BatchWindow, Job, JobReply, Waiting, job_of, run, run_in};
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

/// What the thread and callers that read at once use in turn.
#[derive(Default)]
struct Shared {
    /// `None` before the ledger is open, and after the thread has ended.
    served: Mutex<Option<Served>>,
    /// Jobs that were handed to the thread and have not run.
    waiting: Arc<AtomicUsize>,
}

struct Served {
    rules: Rules,
    /// Until when the open transaction may stay open, if there is one.
    open_until: Option<Instant>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

/// Hands jobs to the thread. The thread ends, and the file is closed, when the last `Worker` is
/// dropped and its queue is empty.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
    commits: Histogram,
    shared: Arc<Shared>,
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
        let shared = Arc::<Shared>::default();
        let used = Arc::clone(&shared);
        let timer = Builder::new_current_thread().enable_time().build()?;
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || match open() {
                Ok(rules) => {
                    let _closed = ClosedAtEnd(&used);
                    used.begin(rules);
                    // A caller that left drops `jobs`, which ends the loop at once.
                    let _ = opened.send(Ok(()));
                    serve(&used, queue, &timer, &times);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            })?;
        wait.await.map_err(|_| Error::Stopped)??;
        Ok(Self {
            jobs,
            commits,
            shared,
        })
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
        let (job, wait) = job_of(access, work);
        self.queue(job).await?;
        wait.await.map_err(|_| Error::Stopped)?
    }

    /// As [`Self::call`] with a transaction that reads, for `work` that reads little. It runs on
    /// the caller's thread if nothing has to be waited for.
    ///
    /// # Errors
    ///
    /// As [`Self::call`].
    pub(super) async fn read_little<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (job, wait) = job_of(Access::Read, work);
        if let Err(job) = self.shared.run_at_once(job, &self.commits) {
            self.queue(job).await?;
        }
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
            move |rules: Result<&mut Rules, Error>| -> (Result<(), Error>, JobReply) {
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
            _waiting: None,
        })
        .await
    }

    async fn queue(&self, job: Job) -> Result<(), Error> {
        let job = Job {
            _waiting: Some(Waiting::count(&self.shared.waiting)),
            ..job
        };
        self.jobs.send(job).await.map_err(|_| Error::Stopped)
    }
}

impl Shared {
    fn begin(&self, rules: Rules) {
        if let Ok(mut served) = self.served.lock() {
            *served = Some(Served {
                rules,
                open_until: None,
            });
        }
    }

    /// Runs a job that reads on this thread. Gives it back where it would have to wait: for the
    /// ledger's thread, for another process, or for a store on another machine.
    ///
    /// # Guarantee
    ///
    /// The job sees what jobs that were queued before it did: none of them has yet to run.
    fn run_at_once(&self, job: Job, commits: &Histogram) -> Result<(), Job> {
        let Ok(mut served) = self.served.try_lock() else {
            return Err(job);
        };
        let Some(Served { rules, open_until }) = served.as_mut() else {
            return Err(job);
        };
        let is_idle = self.waiting.load(Ordering::SeqCst) == 0 && open_until.is_none();
        if !is_idle || rules.lags || !rules.store.begin_at_once() {
            return Err(job);
        }
        let begun = (true, Ok(()));
        let rules = UndoneByPanic(rules);
        let ended = run_in(rules.0, vec![job], BatchWindow::CLOSED, begun, commits);
        drop(rules);
        drop(served);
        ended.answer();
        Ok(())
    }
}

/// Closes the store when the ledger's thread ends, also by a job that panics: what is open is
/// undone, and its locks are free. A store on another machine has a runtime, which must not be
/// dropped by a caller's thread.
struct ClosedAtEnd<'a>(&'a Shared);

impl Drop for ClosedAtEnd<'_> {
    fn drop(&mut self) {
        let mut served = (self.0.served.lock()).unwrap_or_else(PoisonError::into_inner);
        let ended = served.take();
        drop(served);
        drop(ended);
    }
}

/// Ends the transaction of a read that panics on its caller's thread. The ledger's thread closes
/// the store later.
struct UndoneByPanic<'a>(&'a mut Rules);

impl Drop for UndoneByPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.store.end(Err(Error::Stopped));
        }
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

    /// As [`Worker::read_little`].
    ///
    /// # Errors
    ///
    /// Those of `work`; [`Error::Stopped`].
    pub(super) async fn read_little<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.0.read_little(work).await
    }
}

fn serve(shared: &Shared, mut queue: mpsc::Receiver<Job>, timer: &Runtime, commits: &Histogram) {
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
        // A caller's read that panicked ends the ledger, as a job of this thread does.
        let Ok(mut turn) = shared.served.lock() else {
            return;
        };
        let Some(served) = turn.as_mut() else {
            return;
        };
        let window = BatchWindow {
            is_open: served.open_until.is_some(),
            may_stay: !batch.is_empty() && served.open_until.is_none_or(|at| Instant::now() < at),
        };
        let mut ended = None;
        if window.is_open || !batch.is_empty() {
            let ran = run(&mut served.rules, batch, window, commits);
            let until = served
                .open_until
                .unwrap_or_else(|| Instant::now() + OPEN_MAX);
            served.open_until = ran.stays.then_some(until);
            ended = Some(ran);
        }
        open_until = served.open_until;
        drop(turn);
        if let Some(ended) = ended {
            ended.answer();
        }
        if is_closed {
            return;
        }
    }
}
