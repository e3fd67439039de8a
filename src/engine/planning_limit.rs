//! Turns of large statements: reading and planning one takes a processor for long, so only so many
//! do at a time that a processor is left for everything else, and none of them keeps the others of
//! its thread waiting.

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use std::sync::Arc;

use crate::parse::Query;
use crate::postgres::FairPool;

/// From this length on a text is large. What is shorter takes milliseconds.
const LARGE_BYTES: usize = 8 << 10;
/// Most large statements at a time, however many processors there are: each takes memory as well,
/// up to about 200 MB.
const PLACES_MAX: usize = 4;

/// One for all that serves, also from one policy to the next.
#[derive(Debug)]
pub struct PlanningLimit {
    places: Arc<Semaphore>,
    shares: FairPool,
}

/// Whether work on a statement waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    Small,
    Large,
}

/// The turn of one stretch of work, which ends with it.
#[must_use]
#[derive(Debug)]
pub struct PlanningPermit(Option<[OwnedSemaphorePermit; 2]>);

impl Size {
    /// Of a text of so many bytes.
    pub fn of_bytes(bytes: usize) -> Self {
        if bytes > LARGE_BYTES {
            Self::Large
        } else {
            Self::Small
        }
    }

    /// Of the statement as it is printed.
    pub fn of(query: &Query) -> Self {
        if query.printed_within(LARGE_BYTES).is_none() {
            Self::Large
        } else {
            Self::Small
        }
    }
}

impl Default for PlanningLimit {
    /// As many places as there are processors, but one.
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

    /// Turns that one role may have at a time.
    pub fn each(&self) -> usize {
        self.shares.each()
    }

    /// Waits until the role has the turn for work on a statement of this size: first among its own,
    /// then among the roles' next.
    pub async fn turn(&self, role: &str, size: Size) -> PlanningPermit {
        match size {
            Size::Small => PlanningPermit::at_once(),
            Size::Large => {
                let share = self.shares.take(role).await;
                let place = Arc::clone(&self.places).acquire_owned().await.ok();
                // Neither is ever closed.
                PlanningPermit(share.zip(place).map(|(share, place)| [share, place]))
            }
        }
    }
}

impl PlanningPermit {
    /// For what is small.
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

/// Runs what may take long without a pause, as choosing among many candidates does: on a runtime of
/// several threads the others' work moves on to another one first.
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
            [Statement::Query(query)] => Size::of(query),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            [Size::of_bytes(LARGE_BYTES), Size::of_bytes(LARGE_BYTES + 1)],
            [Size::Small, Size::Large]
        );
        assert_eq!(
            size(&format!("SELECT   1 /* {} */", "x".repeat(LARGE_BYTES))),
            Size::Small
        );
        assert_eq!(
            size(&format!("SELECT '{}'", "x".repeat(LARGE_BYTES - 9))),
            Size::Small
        );
        assert_eq!(
            size(&format!("SELECT '{}'", "x".repeat(LARGE_BYTES - 8))),
            Size::Large
        );
        assert_eq!(
            size(&format!("SELECT 1{}", ", 1".repeat(LARGE_BYTES))),
            Size::Large
        );
    }

    /// One that waits behind many of another role is next, small ones wait for nobody, and who
    /// gives up leaves the row.
    #[tokio::test]
    async fn roles_take_turns_and_small_ones_wait_for_nobody() {
        let lane = PlanningLimit::of(1);
        let first = lane.turn("greedy", Size::Large).await;
        let mut queue: Vec<_> = (0..20)
            .map(|_| Box::pin(lane.turn("greedy", Size::Large)))
            .collect();
        for waiting in &mut queue {
            assert!(poll!(waiting).is_pending());
        }
        let mut modest = Box::pin(lane.turn("modest", Size::Large));
        assert!(poll!(&mut modest).is_pending());
        assert!(poll!(Box::pin(lane.turn("greedy", Size::Small))).is_ready());
        drop(queue.remove(0));
        assert_eq!(first.work(|| 7), 7);
        let modest = modest.await;
        // The next of the greedy role has its share now, and waits for the place.
        assert!(poll!(&mut queue[0]).is_pending());
        modest.work(|| ());
        let next = queue.remove(0).await;
        assert!(poll!(&mut queue[0]).is_pending());
        drop(next);
        queue.remove(0).await.work(|| ());
    }

    #[tokio::test]
    async fn a_place_stays_for_other_roles() {
        let lane = PlanningLimit::of(4);
        let mut turns = Vec::new();
        for _ in 0..3 {
            turns.push(lane.turn("greedy", Size::Large).await);
        }
        assert!(poll!(Box::pin(lane.turn("greedy", Size::Large))).is_pending());
        turns.push(lane.turn("modest", Size::Large).await);
        let mut late = Box::pin(lane.turn("third", Size::Large));
        assert!(poll!(&mut late).is_pending());
        turns.pop();
        late.await.work(|| ());
    }
}
