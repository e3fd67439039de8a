//! Limits how many large statements are read and planned at once. Each keeps a processor busy for
//! long, so one processor stays free for everything else, and other tasks of the same thread are
//! moved away first.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use std::sync::Arc;

use crate::parse::Query;
use crate::postgres::FairPool;

/// Texts of at least this length are large. Shorter ones take milliseconds.
const LARGE_BYTES: usize = 8 << 10;
/// The most large statements at once, however many processors there are: each takes up to about 200
/// MB of memory as well.
const PLACES_MAX: usize = 4;

/// One limit for the whole process. It survives a reload of the policy.
#[derive(Debug)]
pub struct PlanningLimit {
    places: Arc<Semaphore>,
    shares: FairPool,
}

/// Whether work on a statement waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatementSize {
    Small,
    Large,
}

/// The permit for one stretch of work. Dropping it gives it back.
#[must_use]
#[derive(Debug)]
pub struct PlanningPermit(Option<[OwnedSemaphorePermit; 2]>);

impl StatementSize {
    /// The size of a text of `bytes` bytes.
    pub fn of_bytes(bytes: usize) -> Self {
        if bytes > LARGE_BYTES {
            Self::Large
        } else {
            Self::Small
        }
    }

    /// The size of the statement as it is printed.
    pub fn of(query: &Query) -> Self {
        if query.printed_within(LARGE_BYTES).is_none() {
            Self::Large
        } else {
            Self::Small
        }
    }
}

impl Default for PlanningLimit {
    /// One permit fewer than there are processors.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::of((processors - 1).clamp(1, PLACES_MAX))
    }
}

impl PlanningLimit {
    fn of(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            shares: FairPool::new(places),
        }
    }

    /// How many permits one role may hold at once.
    pub fn each(&self) -> usize {
        self.shares.each()
    }

    /// Waits until the role may work on a statement of this size: first among the role's own
    /// statements, then among the roles.
    pub async fn acquire(&self, role: &str, size: StatementSize) -> PlanningPermit {
        match size {
            StatementSize::Small => PlanningPermit::at_once(),
            StatementSize::Large => {
                let share = self.shares.take(role).await;
                let place = Arc::clone(&self.places).acquire_owned().await.ok();
                // Neither semaphore is ever closed.
                PlanningPermit(share.zip(place).map(|(share, place)| [share, place]))
            }
        }
    }
}

impl PlanningPermit {
    /// A permit for small statements, which never wait.
    pub fn at_once() -> Self {
        Self(None)
    }

    pub fn work<T>(self, work: impl FnOnce() -> T) -> T {
        match self.0 {
            None => work(),
            Some(places) => {
                let done = aside(work);
                drop(places);
                done
            }
        }
    }
}

/// Runs work that may take long without a pause, such as choosing among many candidates. On a
/// runtime of several threads, other tasks move to another thread first.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;
    use crate::parse::{Statement, parse};

    #[test]
    fn what_is_long_as_text_is_large() {
        let size = |sql: &str| match parse(sql).unwrap().as_slice() {
            [Statement::Query(query)] => StatementSize::of(query),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [
                StatementSize::of_bytes(LARGE_BYTES),
                StatementSize::of_bytes(LARGE_BYTES + 1)
            ],
            [StatementSize::Small, StatementSize::Large]
        );
        assert_eq!(
            size(&format!("SELECT   1 /* {} */", "x".repeat(LARGE_BYTES))),
            StatementSize::Small
        );
        assert_eq!(
            size(&format!("SELECT '{}'", "x".repeat(LARGE_BYTES - 9))),
            StatementSize::Small
        );
        assert_eq!(
            size(&format!("SELECT '{}'", "x".repeat(LARGE_BYTES - 8))),
            StatementSize::Large
        );
        assert_eq!(
            size(&format!("SELECT 1{}", ", 1".repeat(LARGE_BYTES))),
            StatementSize::Large
        );
    }

    /// A statement that waits behind many of another role is next; small ones wait for nothing; a
    /// waiter that gives up leaves the queue.
    #[tokio::test]
    async fn roles_take_turns_and_small_ones_wait_for_nobody() {
        let limit = PlanningLimit::of(1);
        let first = limit.acquire("greedy", StatementSize::Large).await;
        let mut queue: Vec<_> = (0..20)
            .map(|_| Box::pin(limit.acquire("greedy", StatementSize::Large)))
            .collect();
        for waiting in &mut queue {
            assert!(poll!(waiting).is_pending());
        }
        let mut modest = Box::pin(limit.acquire("modest", StatementSize::Large));
        assert!(poll!(&mut modest).is_pending());
        assert!(poll!(Box::pin(limit.acquire("greedy", StatementSize::Small))).is_ready());
        drop(queue.remove(0));
        assert_eq!(first.work(|| 7), 7);
        let modest = modest.await;
        // The greedy role's next statement has the role's share now, and waits for a permit.
        assert!(poll!(&mut queue[0]).is_pending());
        modest.work(|| ());
        let next = queue.remove(0).await;
        assert!(poll!(&mut queue[0]).is_pending());
        drop(next);
        queue.remove(0).await.work(|| ());
    }

    #[tokio::test]
    async fn a_place_stays_for_other_roles() {
        let limit = PlanningLimit::of(4);
        let mut permits = Vec::new();
        for _ in 0..3 {
            permits.push(limit.acquire("greedy", StatementSize::Large).await);
        }
        assert!(poll!(Box::pin(limit.acquire("greedy", StatementSize::Large))).is_pending());
        permits.push(limit.acquire("modest", StatementSize::Large).await);
        let mut late = Box::pin(limit.acquire("third", StatementSize::Large));
        assert!(poll!(&mut late).is_pending());
        permits.pop();
        late.await.work(|| ());
    }
}
