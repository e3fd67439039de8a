//! Claims: of sessions that ask the same, one makes the answer, and the others wait.

use std::future::Future;
use std::time::Duration;

use super::Ledger;
use super::answers::{QuestionDigest, QuestionId};
use super::clock::LEASE;
use super::error::Error;
use super::rules::Rules;
use super::store::{Access, StoreValue, blob};

/// How often the claims of a question that runs are renewed.
const RENEW_EVERY: Duration = Duration::from_micros(LEASE as u64 / 3);

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

impl Rules {
    /// Whether another process is making an answer to one of the questions.
    pub(super) fn is_claimed(&mut self, questions: &[QuestionId], now: i64) -> Result<bool, Error> {
        for question in questions {
            let sql = "SELECT until FROM claim WHERE question = $1 AND holder <> $2";
            let claims = self
                .store
                .query(sql, &[blob(&question.0), blob(&self.holder)])?;
            // A claim far in the future comes from a wrong clock.
            if claims
                .first()
                .map(|row| row.int(0))
                .transpose()?
                .is_some_and(|until| now < until && until <= now.saturating_add(2 * LEASE))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Claims the questions for a while, or renews the claims.
    pub(super) fn claim(&mut self, questions: &[QuestionDigest], now: i64) -> Result<(), Error> {
        for question in questions {
            let sql = "INSERT INTO claim (question, holder, until) VALUES ($1, $2, $3)
                       ON CONFLICT (question) DO UPDATE SET holder = excluded.holder, until = \
                       excluded.until";
            self.store.query(
                sql,
                &[
                    blob(&question.digest.0),
                    blob(&self.holder),
                    StoreValue::Int(now.saturating_add(LEASE)),
                ],
            )?;
        }
        Ok(())
    }

    /// Gives up this process's claims on the questions.
    pub(super) fn release(&mut self, questions: &[QuestionId]) -> Result<(), Error> {
        for question in questions {
            self.store.query(
                "DELETE FROM claim WHERE question = $1 AND holder = $2",
                &[blob(&question.0), blob(&self.holder)],
            )?;
        }
        Ok(())
    }

    /// Renews claims that this process still holds.
    pub(super) fn renew_claims(&mut self, questions: &[QuestionId]) -> Result<(), Error> {
        let until = StoreValue::Int(self.clock.now().saturating_add(LEASE));
        for question in questions {
            let sql = "UPDATE claim SET until = $1 WHERE question = $2 AND holder = $3";
            self.store
                .query(sql, &[until.clone(), blob(&question.0), blob(&self.holder)])?;
        }
        Ok(())
    }
}
