//! One question to the engine, and the wait for it.
//!
//! The engine charges before it runs, and counts failures after. So its future is never dropped
//! half-way: it runs in a separate task and ends under the policy's timeout, whatever becomes of
//! the client. A CancelRequest and a vanished client only cancel the token, which the engine checks
//! where it is safe to stop. `statement_timeout` ends only the client's wait, and the session goes
//! on. To bound what one session leaves behind, a question waits while [`UNFINISHED_MAX`] abandoned
//! answers still run, and the session counts as a connection until all of them have ended.

use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::outcome::Outcome;
use super::portal::{Reply, text_column};
use crate::engine::{
    Answer, Argument, COPIES, ColumnDescription, Description, Format, PlanningPermit, QuestionEnd,
    Requester, Service, StatementSize,
};
use crate::error::Error;
use crate::ledger::Origin;
use crate::parse;
use crate::parse::{ExplainFormat, Query};
use crate::refusal::{Ending, Reason, Refusal, reason};

const JSON_OID: u32 = 114;
/// How many abandoned answers of one session may still run.
const UNFINISHED_MAX: usize = 4;

impl<S: Service> Connection<S> {
    pub(super) async fn answer(
        &mut self,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
        formats: &[Format],
    ) -> Result<Reply, Outcome> {
        let (requester, question) = (self.requester(), query.clone());
        let (parameters, arguments, formats) =
            (parameters.to_vec(), arguments.to_vec(), formats.to_vec());
        let given_up = Arc::clone(&requester.given_up);
        let answered = self.ask("answer", query, |service, token| async move {
            service
                .answer(
                    &requester,
                    &question,
                    &parameters,
                    &arguments,
                    &formats,
                    token,
                )
                .await
        });
        let Answer {
            columns,
            rows,
            notices,
            warnings,
            held,
        } = answered
            .await
            .inspect_err(|outcome| note(&given_up, outcome))?;
        let notices = notices
            .into_iter()
            .map(|text| ("NOTICE", Refusal::new(reason::NOTICE, text)));
        let notices = warnings
            .into_iter()
            .map(|warning| ("WARNING", warning))
            .chain(notices)
            .collect();
        Ok(Reply {
            notices,
            columns: Some(columns),
            rows,
            held: Some(held),
            ..Reply::done("SELECT")
        })
    }

    /// Describes a query. Free, and reads no data.
    pub(super) async fn describe_query(
        &mut self,
        query: &Query,
        types: &[u32],
    ) -> Result<Description, Outcome> {
        let (requester, question, types) = (self.requester(), query.clone(), types.to_vec());
        self.ask("describe", query, |service, token| async move {
            tokio::select! {
                described = service.describe(&requester, &question, &types) => described,
                () = token.cancelled() => Err(Error::Cancelled),
            }
        })
        .await
    }

    pub(super) async fn explain(
        &mut self,
        query: &Query,
        (parameters, arguments): (&[u32], &[Argument]),
        format: ExplainFormat,
    ) -> Result<Reply, Outcome> {
        let (requester, question) = (self.requester(), query.clone());
        let (parameters, arguments) = (parameters.to_vec(), arguments.to_vec());
        let given_up = Arc::clone(&requester.given_up);
        let explained = self.ask("explain", query, |service, token| async move {
            service
                .explain(
                    &requester,
                    &question,
                    &parameters,
                    &arguments,
                    format,
                    token,
                )
                .await
        });
        let lines = explained
            .await
            .inspect_err(|outcome| note(&given_up, outcome))?;
        let rows = match format {
            ExplainFormat::Text | ExplainFormat::Verbose => {
                lines.into_iter().map(|line| vec![line]).collect()
            }
            ExplainFormat::Json => vec![vec![lines.join("\n")]],
        };
        Ok(Reply::texts("EXPLAIN", vec![explain_column(format)], rows))
    }

    pub(super) fn requester(&self) -> Requester {
        Requester {
            role: self.role.clone(),
            session_settings: self.settings.session_settings(),
            settings: self.settings.of_answers(),
            search_path: self.settings.search_path(&self.role),
            process: self.key.process,
            origin: Origin {
                application: self.settings.application(),
                ..self.origin.clone()
            },
            given_up: Arc::default(),
            share: self.share.clone(),
        }
    }

    /// Asks the service for something that charges nothing and reads released values only.
    pub(super) async fn ask_free<T, F>(
        &mut self,
        question: impl FnOnce(Arc<S>) -> F,
    ) -> Result<T, Outcome>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.wait(|service, token| {
            let asked = question(service);
            async move {
                tokio::select! {
                    given = asked => given,
                    () = token.cancelled() => Err(Error::Cancelled),
                }
            }
        })
        .await
    }

    /// Waits for the right to work on a text of this size.
    pub(super) async fn permit(&mut self, size: StatementSize) -> Result<PlanningPermit, Outcome> {
        match size {
            StatementSize::Small => Ok(PlanningPermit::at_once()),
            StatementSize::Large => {
                let role = self.role.clone();
                self.ask_free(|service| async move {
                    Ok(service.planning_limit().acquire(&role, size).await)
                })
                .await
            }
        }
    }

    /// Runs the question and logs it, without its text and its values.
    async fn ask<T, F>(
        &mut self,
        kind: &'static str,
        query: &Query,
        question: impl FnOnce(Arc<S>, CancellationToken) -> F,
    ) -> Result<T, Outcome>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let started = Instant::now();
        let _held = match StatementSize::of(query) {
            StatementSize::Small => None,
            StatementSize::Large => Some(self.share.hold(COPIES * parse::weight(&query.to_sql()))?),
        };
        let result = self.wait(question).await;
        let end = match &result {
            Ok(_) => QuestionEnd::ANSWERED,
            Err(outcome) => outcome.into(),
        };
        self.service.meter().question(kind, &end, started.elapsed());
        let milliseconds = started.elapsed().as_secs_f64() * 1e3;
        tracing::info!(
            role = self.role,
            kind,
            statement = self.service.digest(query).get(..12),
            milliseconds,
            sqlstate = end.ending.sqlstate(),
            reason = end.reason.map(Reason::id),
            "asked"
        );
        result
    }

    pub(super) async fn wait<T, F>(
        &mut self,
        question: impl FnOnce(Arc<S>, CancellationToken) -> F,
    ) -> Result<T, Outcome>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        self.entry.run();
        let running = self.key.run();
        let token = running.token.clone();
        let patience = |timeout| crate::engine::answer_deadline(timeout, self.service.quantum());
        let deadline = self
            .settings
            .duration("statement_timeout")
            .map(|timeout| tokio::time::Instant::now() + patience(timeout));
        self.make_room(deadline, &token).await?;
        let future = question(self.service.clone(), token.clone());
        let held = (self.place.clone(), self.answers.clone());
        let mut task = tokio::spawn(async move {
            let result = future.await;
            drop(held);
            result
        });
        match self.watch(&mut task, deadline, &token).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(Outcome::Refused(error.report())),
            Ok(Err(error)) => Err(Outcome::Refused(panic_refusal(&error))),
            Err(stop) => {
                self.unfinished.push(tokio::spawn(async move {
                    let _ = task.await;
                }));
                Err(stop)
            }
        }
    }

    /// Waits while too many abandoned answers still run.
    async fn make_room(
        &mut self,
        deadline: Option<tokio::time::Instant>,
        token: &CancellationToken,
    ) -> Result<(), Outcome> {
        self.unfinished.retain(|task| !task.is_finished());
        if self.unfinished.len() < UNFINISHED_MAX {
            return Ok(());
        }
        let mut before = std::mem::take(&mut self.unfinished);
        let freed = async {
            tokio::select! {
                _ = futures::future::select_all(before.iter_mut()) => Ok(()),
                () = token.cancelled() => Err(Outcome::Refused(Error::Cancelled.report())),
            }
        };
        let freed = self
            .watch(freed, deadline, token)
            .await
            .and_then(|freed| freed);
        before.retain(|task| !task.is_finished());
        self.unfinished = before;
        freed
    }

    /// The future's output, unless the deadline passes, the client disconnects or the server stops
    /// first.
    async fn watch<T>(
        &mut self,
        future: impl Future<Output = T>,
        deadline: Option<tokio::time::Instant>,
        token: &CancellationToken,
    ) -> Result<T, Outcome> {
        let overdue = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (shutdown, drain) = (self.shutdown.clone(), self.drain);
        let ended = self.entry.end_token();
        let drained = async {
            shutdown.cancelled().await;
            tokio::time::sleep(drain).await;
        };
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = ended.cancelled() => {
                token.cancel();
                Err(Outcome::operator_ended())
            }
            () = overdue => {
                let message = "canceling statement due to statement timeout";
                let refusal = Refusal::new(reason::STATEMENT_CANCELLED, message);
                Err(Outcome::Refused(refusal.detail("What was charged stays charged.")))
            }
            () = self.channel.gone() => {
                token.cancel();
                Err(Outcome::Closed)
            }
            () = drained => {
                token.cancel();
                Err(Outcome::shutdown())
            }
        }
    }
}

/// Leaves for the record what the client got instead of an answer.
fn note(given_up: &OnceLock<Ending>, outcome: &Outcome) {
    let _ = given_up.set(QuestionEnd::from(outcome).ending);
}

pub(super) fn explain_column(format: ExplainFormat) -> ColumnDescription {
    let column = text_column("QUERY PLAN");
    match format {
        ExplainFormat::Text | ExplainFormat::Verbose => column,
        ExplainFormat::Json => ColumnDescription {
            type_oid: JSON_OID,
            ..column
        },
    }
}

/// The engine's task panicked. The panic's message may hold values, so only an incident number is
/// logged.
pub(super) fn panic_refusal(error: &JoinError) -> Refusal {
    let incident = format!("{:08x}", rand::random::<u32>());
    tracing::error!(incident, panicked = error.is_panic(), "an answer was lost");
    Error::Internal { incident }.report()
}
