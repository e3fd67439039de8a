//! One question from its text to its answer: classify, bind, plan, run, finish.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::final_rows::FinalRows;
use super::first_answer::AnswerWithinError;
use super::planning_limit::StatementSize;
use super::preview::Preview;
use super::run::Answered;
use super::service::Answer;
use super::statement_log::StatementFacts;
use super::summaries::Received;
use super::timing::Timing;
use super::{
    Argument, COPIES, Description, Engine, Format, HeldMemory, Requester, error_in_text,
    ledger_failed, notice, shadow_error,
};
use crate::error::Error;
use crate::finish::Fits;
use crate::ledger::Verdict;
use crate::parse::{HoldoutQuery, MonitorQuery, ParameterValue, Query, parameter_type};
use crate::policy::Notices;
use crate::refusal::{Refusal, reason};
use crate::resolve::check_dotted;
use crate::rewrite::Plan;
use crate::shadow::HeldRows;

/// A statement before it is planned.
pub(super) enum Described {
    /// A statement about the catalogs, as the shadow runs it.
    Catalogs(Query),
    /// Any other statement, with the types that PostgreSQL gives it.
    Question(Query, Description),
}

/// A question that is ready to be paid for.
struct PlannedQuestion {
    query: Query,
    /// The query with its parameters as constants.
    bound: Query,
    /// The memory of the constants.
    held: HeldMemory,
    description: Description,
    plan: Arc<Plan>,
    /// Whether the query shows rows, and the policy answers it with their columns only.
    is_preview: bool,
    warnings: Vec<Refusal>,
    /// Summaries that the role has just paid for.
    received: Vec<Received>,
}

/// A statement that needs no ordinary plan.
enum Unplanned {
    Answered(Answer, Verdict),
    /// A question to a monitor; and the memory of its constants.
    Monitor(Box<MonitorQuery>, Description, HeldMemory),
    /// A question to a holdout; and the memory of its constants.
    Holdout(Box<HoldoutQuery>, Description, HeldMemory),
}

/// What the ledger records of an answer that was shown.
fn verdict_of(plan: &Plan, is_free: bool) -> Verdict {
    match !plan.loss().is_zero() && is_free {
        true => Verdict::Reused,
        false => Verdict::Answered,
    }
}

impl Engine {
    /// The query with its parameters as constants of their types, which PostgreSQL itself reads;
    /// and the memory that the constants take.
    pub(super) async fn bind(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
        arguments: &[Argument],
    ) -> Result<(Query, HeldMemory), Error> {
        if parameters.len() != arguments.len() {
            let counts = format!(
                "bind message supplies {} parameters, but the statement requires {}",
                arguments.len(),
                parameters.len()
            );
            return Err(Error::Parse(Refusal::new(
                reason::PROTOCOL_VIOLATION,
                counts,
            )));
        }
        if parameters.is_empty() {
            return Ok((query.clone(), requester.share.begin()));
        }
        let texts = self
            .shadow
            .normalize_arguments(requester, parameters, arguments)
            .await
            .map_err(shadow_error)?;
        let bytes: usize = texts.iter().flatten().map(String::len).sum();
        let held = requester.share.hold(COPIES * bytes).map_err(Error::Parse)?;
        let bound = parameters
            .iter()
            .zip(texts)
            .map(|(oid, text)| {
                Ok(ParameterValue {
                    data_type: parameter_type(*oid)?,
                    text,
                })
            })
            .collect::<Result<Vec<_>, _>>();
        let bound = bound.map_err(Error::Parse)?;
        let permit = self
            .planning_limit
            .acquire(
                &requester.role,
                StatementSize::of(query).max(StatementSize::of_bytes(bytes)),
            )
            .await;
        permit
            .work(|| query.bind(&bound))
            .map(|query| (query, held))
            .map_err(Error::Parse)
    }

    /// Separates statements about the catalogs from questions, which PostgreSQL describes.
    pub(super) async fn classify(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Described, Error> {
        let size = StatementSize::of(query);
        let permit = self.planning_limit.acquire(&requester.role, size).await;
        let query = permit.work(|| {
            let query = query.within(&self.database);
            check_dotted(&query, self.shadow.callable()).map_err(Error::Resolve)?;
            let statement = self.catalogs(requester, &query)?;
            let sql = query.to_sql();
            Ok::<_, Error>((query, sql, statement))
        });
        let (query, sql) = match query? {
            (_, _, Some(statement)) => return Ok(Described::Catalogs(statement)),
            (query, sql, None) => (query, sql),
        };
        self.require_asking(requester, &query)
            .map_err(Error::Resolve)?;
        match self.shadow.describe(requester, &sql, parameters).await {
            Ok(description) => Ok(Described::Question(query, description)),
            Err(error) => {
                let permit = self.planning_limit.acquire(&requester.role, size).await;
                Err(permit.work(|| error_in_text(&query, error)))
            }
        }
    }

    pub(super) async fn describe_question(
        &self,
        requester: &Requester,
        query: &Query,
        parameters: &[u32],
    ) -> Result<Description, Error> {
        if let Some(description) = self.constant_description(requester, query, parameters) {
            return Ok(description);
        }
        let (query, description) = match self.classify(requester, query, parameters).await? {
            Described::Catalogs(statement) => {
                return self
                    .describe_catalogs(requester, &statement, parameters)
                    .await;
            }
            Described::Question(query, description) => (query, description),
        };
        if !query.has_parameters() {
            // Parse already refuses questions that cannot be answered.
            if let Some(monitor) = query.monitor().map_err(Error::Parse)? {
                let facts = StatementFacts::new();
                self.plan_monitor_now(requester, &monitor, &facts).await?;
                return Ok(description);
            }
            if let Some(asked) = query.holdout().map_err(Error::Parse)? {
                let facts = StatementFacts::new();
                self.plan_holdout(requester, &asked, &facts).await?;
                return Ok(description);
            }
            self.plan_or_preview(requester, &query, &StatementFacts::new())
                .await?;
        }
        Ok(description)
    }

    pub(super) async fn answer_question(
        &self,
        requester: &Requester,
        query: &Query,
        values: (&[u32], &[Argument], &[Format]),
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<(Answer, Verdict), Error> {
        let mut laps = self.metrics.laps();
        // Nothing of the question is charged yet (what a role pays once for searches stays paid),
        // and no private row was read.
        let planned = tokio::select! {
            planned = Box::pin(self.plan_question(requester, query, values, facts)) => planned?,
            () = timing.client_cancel().cancelled() => return Err(Error::Cancelled),
        };
        let planned = match planned {
            ControlFlow::Break(unplanned) => {
                let (_, _, formats) = values;
                let answering = self.answer_unplanned(requester, unplanned, formats, timing, facts);
                return Box::pin(answering).await;
            }
            ControlFlow::Continue(planned) => planned,
        };
        let PlannedQuestion {
            query,
            bound,
            held: _held,
            description,
            plan,
            is_preview,
            mut warnings,
            received,
        } = planned;
        laps.lap("plan");
        let running = self.run_checked(requester, (&bound, plan), (timing, facts));
        let checked = Box::pin(running).await?;
        let (plan, answered) = (checked.plan, checked.answered);
        let aiming = self.answer_within_error(requester, &bound, (plan, answered), (timing, facts));
        let AnswerWithinError {
            plan,
            answered,
            notice: aimed,
        } = Box::pin(aiming).await?;
        laps.lap("release");
        let (_, _, formats) = values;
        let of_columns = (&description, formats);
        let asked = (&bound, is_preview);
        let finishing = self.final_rows(requester, asked, (&plan, &answered), of_columns, timing);
        let FinalRows {
            rows: HeldRows { rows, held },
            fits,
            preview,
        } = finishing.await?;
        laps.lap("finish");
        let of_answer = (&answered, &fits);
        let mut notices = self.notices(requester, &query, &plan, of_answer).await?;
        if requester.session_settings.notices != Notices::Off {
            let before = received.iter().map(Received::describe);
            notices.splice(0..0, before.chain(checked.notices));
        }
        if requester.session_settings.notices == Notices::Full {
            notices.extend(aimed);
        }
        notices.extend(preview.as_ref().map(Preview::notice));
        let is_free = answered.paid.is_zero() && received.is_empty() && !checked.is_paid;
        let verdict = verdict_of(&plan, is_free);
        warnings.extend(checked.warnings);
        warnings.extend(self.of_changed_rows(&plan));
        let answer = Answer {
            columns: description.columns,
            rows,
            notices,
            warnings,
            held,
        };
        Ok((answer, verdict))
    }

    async fn answer_unplanned(
        &self,
        requester: &Requester,
        unplanned: Unplanned,
        formats: &[Format],
        timing: &Timing,
        facts: &StatementFacts,
    ) -> Result<(Answer, Verdict), Error> {
        match unplanned {
            Unplanned::Answered(answer, verdict) => Ok((answer, verdict)),
            Unplanned::Monitor(monitor, description, _held) => {
                let question = (&*monitor, description);
                self.answer_monitor(requester, question, formats, (timing, facts))
                    .await
            }
            Unplanned::Holdout(asked, description, _held) => {
                let question = (&*asked, description);
                self.answer_holdout(requester, question, formats, (timing, facts))
                    .await
            }
        }
    }

    /// The plan of a question, or the answer to a statement about the catalogs.
    async fn plan_question(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments, formats): (&[u32], &[Argument], &[Format]),
        facts: &StatementFacts,
    ) -> Result<ControlFlow<Unplanned, PlannedQuestion>, Error> {
        let (query, description) = match self.classify(requester, query, parameters).await? {
            Described::Catalogs(statement) => {
                let answer = self
                    .answer_catalogs(requester, &statement, parameters, arguments, formats)
                    .await?;
                return Ok(ControlFlow::Break(Unplanned::Answered(
                    answer,
                    Verdict::Answered,
                )));
            }
            Described::Question(query, description) => (query, description),
        };
        let (bound, held) = self.bind(requester, &query, parameters, arguments).await?;
        if let Some(monitor) = bound.monitor().map_err(Error::Parse)? {
            let unplanned = Unplanned::Monitor(Box::new(monitor), description, held);
            return Ok(ControlFlow::Break(unplanned));
        }
        if let Some(asked) = bound.holdout().map_err(Error::Parse)? {
            let unplanned = Unplanned::Holdout(Box::new(asked), description, held);
            return Ok(ControlFlow::Break(unplanned));
        }
        let (plan, is_preview) = Box::pin(self.plan_or_preview(requester, &bound, facts)).await?;
        facts.note_plan(&plan, &self.policy);
        // The answers that the role holds are read again where they are joined.
        let due = Box::pin(self.periods_due(requester, &plan)).await?;
        let due = due.map(|due| due.batch);
        let priced = due.as_ref().and_then(Option::as_ref);
        facts.admits_errors(priced.unwrap_or(&plan))?;
        self.check_shape(requester, &plan, &description).await?;
        let warnings = match (&due, priced) {
            (Some(_), None) => Vec::new(),
            _ => {
                let priced = priced.unwrap_or(&plan);
                Box::pin(self.check_useful(requester, &bound, priced)).await?
            }
        };
        // A question that is refused receives no summary.
        let received = Box::pin(self.receive_summaries(requester, &plan, facts)).await?;
        let plan = match received.is_empty() {
            true => plan,
            false => self.plan_for_summaries(requester, plan).await?,
        };
        Ok(ControlFlow::Continue(PlannedQuestion {
            query,
            bound,
            held,
            description,
            plan,
            is_preview,
            warnings,
            received,
        }))
    }

    async fn notices(
        &self,
        requester: &Requester,
        query: &Query,
        plan: &Plan,
        answered: (&Answered, &Fits),
    ) -> Result<Vec<String>, Error> {
        let level = requester.session_settings.notices;
        let mut notices = Vec::new();
        if level == Notices::Off {
            return Ok(notices);
        }
        if !plan.loss().is_zero() {
            let balances = self
                .ledger
                .balances(&requester.role)
                .await
                .map_err(|e| ledger_failed(&e))?;
            let owner = (self.delta(&requester.role), &self.policy);
            notices.extend(notice::of_answer(plan, answered, level, &balances, owner));
        }
        notices.extend(notice::of_no_row(plan));
        notices.extend(notice::of_clock(plan, query, &self.policy));
        Ok(notices)
    }

    /// The question to a monitor or a holdout, with its parameters as constants.
    pub(super) async fn bound_epoch(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments): (&[u32], &[Argument]),
    ) -> Result<Query, Error> {
        let query = match self.classify(requester, query, parameters).await? {
            Described::Catalogs(query) | Described::Question(query, _) => query,
        };
        let (bound, _held) = self.bind(requester, &query, parameters, arguments).await?;
        Ok(bound)
    }
}
