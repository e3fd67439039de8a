//! The outcome of a question that was run. The question goes on whether or not its page waits, so
//! that a page that is loaded again, or a form that is sent twice, finds the same answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::answer_html::Rendered;
use crate::engine::{QuestionPrice, SearchesDue};
use crate::refusal::Refusal;

/// Pages of one question that wait for it.
const WAITING_MAX: usize = 2;

/// A question that was run.
pub struct RunningQuestion {
    /// The number of the question's price.
    pub number: u64,
    /// The text as it was typed.
    pub sql: String,
    ended: watch::Receiver<Option<Arc<PageQuestionEnd>>>,
    waiting: Semaphore,
}

/// How it ended.
pub enum PageQuestionEnd {
    Answered(Rendered),
    Refused(Box<Refusal>),
    /// The question would cost something else now; the number of its new price, and its statement's
    /// digest.
    Changed(Box<QuestionPrice>, u64, String),
    /// The role has to pay for the policy's searches first.
    Searches(SearchesDue),
}

/// Where the end is reported.
pub struct Reporter(watch::Sender<Option<Arc<PageQuestionEnd>>>);

impl Reporter {
    pub fn report(self, end: PageQuestionEnd) {
        self.0.send_replace(Some(Arc::new(end)));
    }
}

/// The state in which a page finds a question.
pub enum QuestionState {
    Ended(Arc<PageQuestionEnd>),
    /// The question still runs.
    Running,
    /// Its task was lost.
    Lost,
}

impl RunningQuestion {
    pub fn begin(number: u64, sql: &str) -> (Arc<Self>, Reporter) {
        let (reporter, ended) = watch::channel(None);
        let outcome = Self {
            number,
            sql: sql.to_owned(),
            ended,
            waiting: Semaphore::new(WAITING_MAX),
        };
        (Arc::new(outcome), Reporter(reporter))
    }

    /// Waits for the end, but not longer than `most`, unless the desk closes: then nobody can ask
    /// again.
    pub async fn wait(&self, most: Duration, closing: &CancellationToken) -> QuestionState {
        let mut ended = self.ended.clone();
        let Ok(_waiting) = self.waiting.try_acquire() else {
            let ended = ended.borrow_and_update().clone();
            return ended.map_or(QuestionState::Running, QuestionState::Ended);
        };
        let patience = async {
            tokio::time::sleep(most).await;
            if closing.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            ended = ended.wait_for(Option::is_some) => match ended.ok().and_then(|e| e.clone()) {
                Some(end) => QuestionState::Ended(end),
                None => QuestionState::Lost,
            },
            () = patience => QuestionState::Running,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::reason;

    const LONG: Duration = Duration::from_secs(3600);

    fn refused() -> PageQuestionEnd {
        PageQuestionEnd::Refused(Box::new(Refusal::new(reason::INTERNAL_ERROR, "no")))
    }

    #[tokio::test]
    async fn every_page_finds_the_same_end() {
        let open = CancellationToken::new();
        let (outcome, reporter) = RunningQuestion::begin(1, "SELECT 1");
        assert!(matches!(
            outcome.wait(Duration::ZERO, &open).await,
            QuestionState::Running
        ));
        let waits = |outcome: &Arc<RunningQuestion>| {
            let (outcome, open) = (Arc::clone(outcome), open.clone());
            tokio::spawn(async move { outcome.wait(LONG, &open).await })
        };
        let (one, two) = (waits(&outcome), waits(&outcome));
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        // A third does not wait.
        assert!(matches!(
            outcome.wait(LONG, &open).await,
            QuestionState::Running
        ));
        reporter.report(refused());
        let (Ok(QuestionState::Ended(one)), Ok(QuestionState::Ended(two))) = (one.await, two.await)
        else {
            panic!("nothing was found");
        };
        assert!(Arc::ptr_eq(&one, &two));
        assert!(matches!(
            outcome.wait(LONG, &open).await,
            QuestionState::Ended(_)
        ));
    }

    #[tokio::test]
    async fn a_lost_task_is_noticed() {
        let (outcome, reporter) = RunningQuestion::begin(1, "SELECT 1");
        drop(reporter);
        let open = CancellationToken::new();
        assert!(matches!(
            outcome.wait(LONG, &open).await,
            QuestionState::Lost
        ));
    }

    #[tokio::test]
    async fn a_desk_that_closes_has_its_pages_wait_for_the_end() {
        let (outcome, reporter) = RunningQuestion::begin(1, "SELECT 1");
        let closing = CancellationToken::new();
        closing.cancel();
        let late = async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            reporter.report(refused());
        };
        let (found, ()) = tokio::join!(outcome.wait(Duration::ZERO, &closing), late);
        assert!(matches!(found, QuestionState::Ended(_)));
    }
}
