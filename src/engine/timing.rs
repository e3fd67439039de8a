//! Hides when a statement over private rows ends: clients see its end only at multiples of the
//! policy's quantum from its beginning. Its time reveals which multiple, and nothing more.
//!
//! Only what reads private rows is delayed, each such statement separately. Plans, catalogs, public
//! tables, middle queries, stored answers and refusals before the charge take a time that does not
//! depend on private rows. If that time counted too, an analyst could choose it to end just before
//! a multiple, and distinguish a private statement of some milliseconds from a shorter one.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// The moments at which one statement may end, and its cancellation.
pub(super) struct Timing {
    began: Mutex<Instant>,
    quantum: Option<Duration>,
    asked: CancellationToken,
    acting: CancellationToken,
}

impl Timing {
    /// The timing of a statement that begins now. Without a quantum it may end at any moment.
    /// `cancel` is the client's.
    pub(super) fn new(quantum: Option<Duration>, cancel: CancellationToken) -> Self {
        Self {
            began: Mutex::new(Instant::now()),
            quantum,
            asked: cancel,
            acting: CancellationToken::new(),
        }
    }

    /// Ends the statement when the client cancels, but only at the end of a quantum. A cancel that
    /// acted earlier would reveal whether the rows had been read by then.
    pub(super) fn cancel(&self) -> &CancellationToken {
        &self.acting
    }

    /// The client's cancel itself, for work that reads no private row.
    pub(super) fn client_cancel(&self) -> &CancellationToken {
        &self.asked
    }

    /// Runs work that reads no private row, until the client cancels.
    pub(super) async fn until_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            done = work => done,
            () = self.asked.cancelled() => Err(Error::Cancelled),
        }
    }

    /// Starts counting quanta: nothing before this moment read a private row.
    pub(super) fn begin(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn began(&self) -> Instant {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the current quantum ends, without holding a thread.
    pub(super) async fn rest(&self) {
        let Some(quantum) = self.quantum else { return };
        let began = self.began();
        if let Some(end) = began.checked_add(whole(began.elapsed(), quantum)) {
            tokio::time::sleep_until(end).await;
        }
    }

    /// Runs work that listens to [`Self::cancel`].
    pub(super) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let passing = async {
            self.asked.cancelled().await;
            // A statement that has begun since then counts its own quanta.
            let mut began = None;
            while began != Some(self.began()) {
                began = Some(self.began());
                self.rest().await;
            }
            self.acting.cancel();
            std::future::pending().await
        };
        tokio::select! {
            biased;
            done = work => done,
            never = passing => never,
        }
    }
}

/// How long to wait for an answer under a client's own timeout: to the end of the quantum that the
/// timeout falls in, and one quantum more. An answer that was ready in time has then been held to
/// the end of its quantum.
pub fn answer_deadline(timeout: Duration, quantum: Option<Duration>) -> Duration {
    match quantum {
        None => timeout,
        Some(quantum) => whole(timeout, quantum).saturating_add(quantum),
    }
}

/// The least positive multiple of the quantum that is not below `passed`.
fn whole(passed: Duration, quantum: Duration) -> Duration {
    let one = quantum.as_nanos().max(1);
    let nanoseconds = passed.as_nanos().div_ceil(one).max(1).saturating_mul(one);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const Q: Duration = Duration::from_millis(100);

    #[test]
    fn times_are_rounded_up_to_multiples() {
        for (passed, wanted) in [
            (0, 100),
            (1, 100),
            (99_999, 100),
            (100_000, 100),
            (100_001, 200),
            (250_000, 300),
            (60_000_000, 60_000),
        ] {
            assert_eq!(
                whole(Duration::from_micros(passed), Q),
                Duration::from_millis(wanted),
                "{passed}"
            );
        }
        assert_eq!(whole(Duration::MAX, Q), Duration::from_nanos(u64::MAX));
    }

    #[test]
    fn a_timeout_leaves_time_for_the_rest() {
        let milliseconds = Duration::from_millis;
        for (timeout, wanted) in [(1, 200), (100, 200), (101, 300), (60_000, 60_100)] {
            assert_eq!(
                answer_deadline(milliseconds(timeout), Some(Q)),
                milliseconds(wanted),
                "{timeout}"
            );
        }
        assert_eq!(answer_deadline(milliseconds(7), None), milliseconds(7));
    }

    #[test]
    fn public_time_is_no_part_of_a_quantum() {
        let timing = Timing::new(Some(Q), CancellationToken::new());
        let first = timing.began();
        while Instant::now() == first {}
        timing.begin();
        assert!(timing.began() > first);
    }

    #[tokio::test]
    async fn what_is_ready_goes_before_a_cancel() {
        let asked = CancellationToken::new();
        asked.cancel();
        for quantum in [None, Some(Duration::from_millis(1))] {
            let timing = Timing::new(quantum, asked.clone());
            assert_eq!(timing.run(async { 1 }).await, 1);
            assert!(!timing.cancel().is_cancelled());
            timing.run(timing.cancel().cancelled()).await;
        }
    }

    #[tokio::test]
    async fn a_cancel_waits_for_the_quantum() {
        let asked = CancellationToken::new();
        asked.cancel();
        let timing = Timing::new(Some(Duration::from_secs(3600)), asked);
        let work = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            timing.cancel().is_cancelled()
        };
        assert!(!timing.run(work).await);
    }
}
