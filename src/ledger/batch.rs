//! Jobs of the ledger, and the transaction that those which wait together share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::Error;
use super::rules::Rules;
use super::store::Access;

/// Sends the job's result to its caller. The argument says whether the transaction was committed.
pub(super) type JobReply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// Does the job. The argument is the rules inside the transaction, or the reason why there is no
/// transaction. If the first result is an error, the job's changes are undone; where that is
/// impossible, the whole transaction is.
type Run = Box<dyn FnOnce(Result<&mut Rules, Error>) -> (Result<(), Error>, JobReply) + Send>;

pub(super) struct Job {
    pub access: Access,
    /// Whether somebody waits for its commit.
    pub is_awaited: bool,
    pub run: Run,
    /// Counts the job while the thread has yet to run it.
    pub _waiting: Option<Waiting>,
}

/// Counts a job until it has run, or is dropped.
pub(super) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    pub fn count(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(waiting))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Job {
    /// Whether its batch has to be committed before anybody is answered.
    fn needs_commit(&self) -> bool {
        self.access != Access::Read && self.is_awaited
    }
}

/// A job that somebody waits for, and its result.
pub(super) fn job_of<T: Send + 'static>(
    access: Access,
    work: impl FnOnce(&mut Rules) -> Result<T, Error> + Send + 'static,
) -> (Job, oneshot::Receiver<Result<T, Error>>) {
    let (reply, wait) = oneshot::channel();
    let run = Box::new(
        move |rules: Result<&mut Rules, Error>| -> (Result<(), Error>, JobReply) {
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
    let job = Job {
        access,
        is_awaited: true,
        run,
        _waiting: None,
    };
    (job, wait)
}

/// The transaction of a batch.
#[derive(Clone, Copy)]
pub(super) struct BatchWindow {
    /// Whether the batch before left it open.
    pub is_open: bool,
    /// Whether the transaction may stay open after this batch.
    pub may_stay: bool,
}

impl BatchWindow {
    /// A transaction that ends with the batch.
    pub const CLOSED: Self = Self {
        is_open: false,
        may_stay: false,
    };
}

/// Jobs that have run, whose callers are not answered yet.
#[must_use = "callers wait for their answers"]
pub(super) struct Ended {
    /// Whether the transaction is left open, as it may be where nobody waits for what was written
    /// in it.
    pub stays: bool,
    committed: Result<(), Error>,
    answers: Vec<JobReply>,
}

impl Ended {
    /// Answers the callers: once others may use the rules, since they may ask again at once.
    pub fn answer(self) {
        for answer in self.answers {
            answer(self.committed.clone());
        }
    }
}

/// One transaction for all jobs, each decided in order on what those before it left; nobody is
/// answered before the commit returned.
pub(super) fn run(
    rules: &mut Rules,
    batch: Vec<Job>,
    window: BatchWindow,
    commits: &Histogram,
) -> Ended {
    let access = most_access(&batch);
    let begun = match window.is_open {
        true => check_again(rules, access, commits),
        false => begin(rules, access),
    };
    run_in(rules, batch, window, begun, commits)
}

/// What the jobs may do together.
fn most_access(batch: &[Job]) -> Access {
    let most = batch.iter().map(|job| job.access).max();
    most.unwrap_or(Access::Read)
}

/// [`run`], in the transaction that was begun for it.
pub(super) fn run_in(
    rules: &mut Rules,
    batch: Vec<Job>,
    window: BatchWindow,
    (begun, mut state): (bool, Result<(), Error>),
    commits: &Histogram,
) -> Ended {
    let access = most_access(&batch);
    let writes = window.is_open || access != Access::Read;
    let may_stay = window.may_stay && !batch.iter().any(Job::needs_commit);
    let mut answers = Vec::with_capacity(batch.len());
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
    Ended {
        stays,
        committed,
        answers,
    }
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
