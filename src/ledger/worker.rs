//! The thread that owns the ledger's connection. Jobs that wait together share one transaction and
//! one fsync, and are answered after it.

use tokio::sync::{mpsc, oneshot};

use super::error::Error;
use super::rules::Rules;
use super::store::Access;

/// Most jobs in one transaction; bounds how long the first waits for the last.
const BATCH_MAX: usize = 256;
/// Most jobs that wait; further callers wait to enqueue.
const QUEUE_MAX: usize = 1024;

/// Takes whether the transaction that holds the job was committed; passes the job's result on.
type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Takes the books inside the transaction, or why there is none. An error in the first place undoes
/// the whole transaction.
type Run = Box<dyn FnOnce(Result<&mut Rules, Error>) -> (Result<(), Error>, Answer) + Send>;

struct Job {
    access: Access,
    run: Run,
}

/// Hands jobs to the thread. The thread ends, and the file is closed, when the last `Worker` is
/// dropped and its queue is empty.
#[derive(Debug, Clone)]
pub(super) struct Worker {
    jobs: mpsc::Sender<Job>,
}

impl Worker {
    /// Starts the thread and opens the books in it.
    ///
    /// # Errors
    ///
    /// Those of `open`; [`Error::File`] if no thread can be started.
    pub(super) async fn start(
        open: impl FnOnce() -> Result<Rules, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        let (jobs, queue) = mpsc::channel(QUEUE_MAX);
        let (opened, wait) = oneshot::channel();
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || match open() {
                Ok(mut books) => {
                    // A caller that left drops `jobs`, which ends the loop at once.
                    let _ = opened.send(Ok(()));
                    serve(&mut books, queue);
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            })?;
        wait.await.map_err(|_| Error::Stopped)??;
        Ok(Self { jobs })
    }

    /// Runs `work` in a transaction and returns its value after the commit. A caller that leaves
    /// before `work` began has asked for nothing; one that leaves later has its effects made all
    /// the same.
    ///
    /// # Errors
    ///
    /// Those of `work`, of another job of the same transaction, or of the commit;
    /// [`Error::Stopped`].
    pub(super) async fn call<T: Send + 'static>(
        &self,
        access: Access,
        work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, wait) = oneshot::channel();
        let run = Box::new(
            move |books: Result<&mut Rules, Error>| -> (Result<(), Error>, Answer) {
                if reply.is_closed() {
                    return (Ok(()), Box::new(|_| {}));
                }
                let value = books.and_then(work);
                let outcome = value.as_ref().map(|_| ()).map_err(Clone::clone);
                // A caller that left meanwhile gets no answer.
                (
                    outcome,
                    Box::new(move |committed| drop(reply.send(committed.and(value)))),
                )
            },
        );
        self.queue(Job { access, run }).await?;
        wait.await.map_err(|_| Error::Stopped)?
    }

    /// Queues `work` for a writing transaction, and does not wait for it. Work that is queued later
    /// sees what it did. An error is logged, and undoes the work that shares the transaction.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub(super) async fn post(
        &self,
        work: impl FnOnce(&mut Rules) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Error> {
        let run = Box::new(
            move |books: Result<&mut Rules, Error>| -> (Result<(), Error>, Answer) {
                (books.and_then(work), Box::new(|_| {}))
            },
        );
        let access = Access::Write;
        self.queue(Job { access, run }).await
    }

    async fn queue(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).await.map_err(|_| Error::Stopped)
    }
}

fn serve(books: &mut Rules, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH_MAX
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
        run(books, batch);
    }
}

/// One transaction for all jobs, each decided in order on what those before it left; nobody is
/// answered before the commit returned.
fn run(books: &mut Rules, batch: Vec<Job>) {
    let access = if batch.iter().any(|job| job.access == Access::Write) {
        Access::Write
    } else {
        Access::Read
    };
    let mut answers = Vec::with_capacity(batch.len());
    let mut state = books.store.begin(access);
    let begun = state.is_ok();
    if begun {
        state = books.catch_up();
    }
    if state.is_ok() && access == Access::Write {
        state = books.stands();
    }
    for job in batch {
        // After a failure the rest of the batch runs nothing: the store may have left the
        // transaction.
        let (outcome, answer) = (job.run)(state.clone().map(|()| &mut *books));
        answers.push(answer);
        state = state.and(outcome);
    }
    let reached = match (&state, access) {
        (Ok(()), Access::Write) => books.reached().map(Some),
        (Ok(()), Access::Read) | (Err(_), _) => Ok(None),
    };
    let state = state.and(reached.as_ref().map(|_| ()).map_err(Clone::clone));
    let committed = if begun { books.store.end(state) } else { state };
    // The witness has the charge before anybody learns of it.
    let committed = committed.and_then(|()| match reached {
        Ok(Some(reached)) => books.note(reached),
        Ok(None) | Err(_) => Ok(()),
    });
    if let Err(error) = &committed {
        tracing::error!(%error, jobs = answers.len(), "ledger transaction failed");
    }
    for answer in answers {
        answer(committed.clone());
    }
}
