//! What a question would give a role and what it would charge, before it is asked. It is free.

use std::sync::Arc;

use super::answer_errors::AnswerErrors;
use super::middle_queries::MiddleQueries;
use super::period_form::ONLY;
use super::periods_due::PeriodsDue;
use super::planning_limit::aside;
use super::prepaid_standing::HorizonStanding;
use super::question::Described;
use super::shown_periods::drawn_in_words;
use super::statement_log::StatementFacts;
use super::{Argument, Engine, Requester, Sql, check_words, explain, internal, system_catalog};
use crate::calendar::period::PeriodSet;
use crate::error::Error;
use crate::ledger::{Balance, Balances};
use crate::mechanism::Loss;
use crate::parse::{ExplainFormat, Query};
use crate::release::{PeriodAnswer, Released};
use crate::rewrite::Plan;

/// A question that is explained, and not asked.
pub(super) struct ExplainedQuestion {
    pub query: Query,
    pub plan: Arc<Plan>,
    pub due: explain::Due,
    pub balances: Balances,
}

impl Engine {
    pub(super) async fn explain_question(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments): (&[u32], &[Argument]),
        format: ExplainFormat,
        facts: &StatementFacts,
    ) -> Result<Vec<String>, Error> {
        let values = (parameters, arguments);
        if query.asks_epoch() {
            let bound = self.bound_epoch(requester, query, values).await?;
            let asked = (format, facts);
            let foreseen = self.foresee_epoch(requester, &bound, asked).await?;
            return Ok(foreseen.lines);
        }
        let foreseen = self.foresee(requester, query, values, facts).await?;
        let Some(ExplainedQuestion {
            query,
            plan,
            due,
            balances,
        }) = foreseen
        else {
            return Ok(system_catalog::explain(format));
        };
        let checkable = self.checkable(requester, &query, &plan, facts);
        let check = check_words::explain_check(Box::pin(checkable).await)?;
        let due = due.or_checked(check);
        let settings = &requester.session_settings;
        let of_role = (self.delta(&requester.role), &self.policy);
        let text = |sql| explain::text(&plan, sql, settings, &due, &balances.role, of_role);
        Ok(match format {
            ExplainFormat::Text => text(Sql::LeftOut),
            ExplainFormat::Verbose => text(Sql::Shown),
            ExplainFormat::Json => explain::json(&plan, settings, &due, &balances.role, of_role),
        })
    }

    /// The facts about a question before it is asked; `None` for one about the catalogs.
    pub(super) async fn foresee(
        &self,
        requester: &Requester,
        query: &Query,
        (parameters, arguments): (&[u32], &[Argument]),
        facts: &StatementFacts,
    ) -> Result<Option<ExplainedQuestion>, Error> {
        let (query, description) = match self.classify(requester, query, parameters).await? {
            Described::Catalogs(statement) => {
                self.describe_catalogs(requester, &statement, parameters)
                    .await?;
                return Ok(None);
            }
            Described::Question(query, description) => (query, description),
        };
        let (query, _held) = self.bind(requester, &query, parameters, arguments).await?;
        if query.asks_epoch() {
            return Err(internal("engine", &"an epoch is foreseen by itself"));
        }
        let (plan, balances) = self.plan_for(requester, &query, facts).await?;
        facts.note_plan(&plan, &self.policy);
        self.check_shape(requester, &plan, &description).await?;
        if let Some(due) = Box::pin(self.periods_due(requester, &plan)).await? {
            return self
                .foresee_periods(requester, query, (plan, due), balances)
                .await
                .map(Some);
        }
        let recalled = self
            .recall(
                requester,
                &plan,
                &mut MiddleQueries::new(self, requester, &plan),
            )
            .await?;
        let useful = self
            .usefulness(requester, &query, &plan, &recalled.released)
            .await?;
        let widens = self.widens(requester, &plan).is_some();
        let of_summaries = (facts, &recalled.released, &balances.role);
        let summaries = self.foresee_summaries(requester, &plan, of_summaries);
        let summaries = Box::pin(summaries).await?;
        let due = aside(|| explain::Due::of(&plan, recalled, useful, widens));
        let due = due.or_summaries(summaries);
        let settings = &requester.session_settings;
        Ok(Some(ExplainedQuestion {
            due: due.or_refused(settings.useless, self.reuse(requester)),
            query,
            plan,
            balances,
        }))
    }

    /// The summaries that might answer a question, of which the role holds `recalled`.
    async fn foresee_summaries(
        &self,
        requester: &Requester,
        plan: &Plan,
        (facts, recalled, balance): (&StatementFacts, &Released, &Balance),
    ) -> Result<explain::OfSummaries, Error> {
        let found = self.receivable(requester, plan, (facts, true)).await?;
        let receivable = found.summaries.iter().map(|(summary, declared)| {
            let mu = declared.question.kept_as.loss.mu_squared.to_f64().sqrt();
            (summary.name.clone(), declared.question.epsilon, mu)
        });
        let selected = self.receivable_sets(requester, plan, facts).await?;
        let losses = selected.iter().map(|(_, _, found)| found.loss);
        let whole = losses.fold(Loss::ZERO, |sum, loss| sum.compose(loss).unwrap_or(sum));
        let selections = selected.iter().map(|(_, summary, found)| {
            let mu = found.loss.mu_squared.to_f64().sqrt();
            (summary.name.clone(), mu)
        });
        let is_open = |release| recalled.table(release).is_none();
        let of_summaries = explain::OfSummaries {
            receivable: receivable.collect(),
            selections: selections.collect(),
            lacks: self.summaries_lack(requester, plan, is_open),
            if_made: None,
            loss_of_selections: (!selected.is_empty()).then_some(whole),
        };
        let left = of_summaries.after_selections(balance);
        Ok(explain::OfSummaries {
            if_made: aside(|| found.if_made(plan, recalled, &left)),
            ..of_summaries
        })
    }

    /// The facts about a question by periods: about the purchase, or about the whole question if
    /// nothing would be bought.
    async fn foresee_periods(
        &self,
        requester: &Requester,
        query: Query,
        (plan, due): (Arc<Plan>, PeriodsDue),
        balances: Balances,
    ) -> Result<ExplainedQuestion, Error> {
        let PeriodsDue {
            batch,
            loss,
            shown,
            answers,
            horizons,
            is_asked,
            held: _held,
        } = due;
        let mut lines = shown.describe(&plan, &self.policy, "to be bought");
        lines.extend(explain::noise_of_periods(&shown, &plan, &self.policy));
        // The batch shows the error of one horizon that is to be paid for.
        let drawn = match (&batch, horizons.as_slice()) {
            (Some(_), [] | [_]) => None,
            _ => Box::pin(self.errors_of_draws(requester, &plan, &horizons)).await?,
        };
        let of_horizons = horizons.into_iter().flat_map(|one| one.answers);
        let answers = answers.into_iter().chain(of_horizons).collect();
        let held = shown.held_in_words(&plan);
        let held = held.map(|periods| errors_of_held(&plan, answers, periods));
        let (plan, due) = match batch {
            Some(batch) => {
                let mut middles = MiddleQueries::new(self, requester, &batch);
                let recalled = self.recall(requester, &batch, &mut middles).await?;
                let known = &recalled.released;
                let useful = self.usefulness(requester, &query, &batch, known).await?;
                let due = explain::Due::of(&batch, recalled, useful, false).of_loss(loss);
                let bought = drawn.unwrap_or_else(|| due.errors().clone());
                let errors = bought.and(held.unwrap_or_default());
                (Arc::new(batch), due.with_errors(errors))
            }
            None => {
                let errors = match (drawn, held) {
                    (None, None) => AnswerErrors::of_nothing(shown.nothing_in_words(is_asked)),
                    (drawn, held) => drawn.unwrap_or_default().and(held.unwrap_or_default()),
                };
                let due = explain::Due::of_held_periods().of_loss(loss);
                (plan, due.with_errors(errors))
            }
        };
        let settings = &requester.session_settings;
        let due = due.or_refused(settings.useless, self.reuse(requester));
        Ok(ExplainedQuestion {
            query,
            plan,
            due: due.by_periods(lines),
            balances,
        })
    }

    /// The errors of prepaid periods that are drawn now: of each price, those of its horizons.
    async fn errors_of_draws(
        &self,
        requester: &Requester,
        plan: &Plan,
        horizons: &[HorizonStanding],
    ) -> Result<Option<AnswerErrors>, Error> {
        let mut all: Vec<(AnswerErrors, u64)> = Vec::new();
        for (draw, periods) in self.plan_draws(requester, plan, horizons).await? {
            let errors = aside(|| AnswerErrors::if_bought(&draw));
            match all.iter_mut().find(|(known, _)| *known == errors) {
                Some((_, count)) => *count += periods.count(),
                None => all.push((errors, periods.count())),
            }
        }
        let named =
            |(errors, count): (AnswerErrors, u64)| errors.in_periods(&drawn_in_words(plan, count));
        Ok(all.into_iter().map(named).reduce(AnswerErrors::and))
    }
}

/// The errors of a question by periods in those that the role holds.
fn errors_of_held(
    plan: &Plan,
    answers: Vec<(PeriodAnswer, PeriodSet)>,
    periods: String,
) -> AnswerErrors {
    let mut released = Released::before(plan);
    aside(|| {
        released.join_periods(plan, ONLY, answers);
        AnswerErrors::of_periods(plan.release(ONLY), released.table(ONLY), periods)
    })
}
