//! Claims: of sessions that ask the same, one makes the answer, and the others wait.

use std::future::Future;
use std::time::Duration;

use super::answers::QuestionId;
use super::error::Error;
use super::store::Access;
use super::{Ledger, clock};

/// How often the claims of a question that runs are renewed.
const RENEW_EVERY: Duration = Duration::from_micros(clock::LEASE as u64 / 3);

impl Ledger {
    /// Makes answers to questions that this process claims, and renews the claims meanwhile.
    /// [`Ledger::keep`] ends a claim; after an error the claims of questions without an answer end
    /// too.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn holding<T, E>(
        &self,
        questions: &[QuestionId],
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let made = self.renewing(questions, work).await;
        if made.is_err() {
            self.release(questions).await;
        }
        made
    }

    async fn renewing<T>(&self, questions: &[QuestionId], work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(RENEW_EVERY, &mut work).await {
                Ok(done) => return done,
                Err(_) if questions.is_empty() => return work.await,
                Err(_) => {
                    let questions = questions.to_vec();
                    // A claim that is lost costs a second answer, nothing else.
                    let renewed = self.worker.call(Access::WriteSoon, move |rules| {
                        rules.renew_claims(&questions)
                    });
                    tokio::select! {
                        done = &mut work => return done,
                        _ = renewed => {}
                    }
                }
            }
        }
    }

    /// Whether another process is making an answer to one of the questions just now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn is_claimed(&self, questions: &[QuestionId]) -> Result<bool, Error> {
        let questions = questions.to_vec();
        self.worker
            .call(Access::Read, move |rules| {
                rules.is_claimed(&questions, rules.clock.now())
            })
            .await
    }

    /// Gives back claims of questions that got no answer.
    pub async fn release(&self, questions: &[QuestionId]) {
        if questions.is_empty() {
            return;
        }
        let questions = questions.to_vec();
        if let Err(error) = self
            .worker
            .call(Access::WriteSoon, move |rules| rules.release(&questions))
            .await
        {
            tracing::warn!(%error, "claims were not given back; they end by themselves");
        }
    }
}
