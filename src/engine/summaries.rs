//! Summaries that the policy declares. The owner makes one once; every question that its groups
//! answer is then free for roles that have received it. A role receives it at the first such
//! question, at the price that the owner paid.
//!
//! # Guarantee
//! Nothing that a role sees before it has received a summary depends on the summary's values, nor
//! on whether it was made, except the column `made` of `pgveil.summaries`, and that a selection of
//! sets is received only where the summary was made. Whether it would answer a question follows
//! from the policy ([`crate::release::stand_in`]). Sets that were selected from the data are a part
//! of the policy once the role has paid for them ([`Selections`]). Before, it sees what follows
//! from the policy without them: the summary's price is the same for all sets
//! ([`crate::rewrite::Terms::after_selection`]), and `made` is of this selection, whether or not
//! another had the same sets. A summary's values are read from the ledger for roles that hold it
//! alone. What it answers is post-processing.

mod corrections;
mod counted_rows;
mod join_form;
mod lacks;
mod maker;
mod question;
mod receivable;
mod receive_sets;
mod select_sets;
mod view;

pub use maker::SummaryMaker;
pub use question::SummaryQuestion;
pub(super) use select_sets::Selections;
pub use select_sets::{SetsQuestion, UnsettledSets, sets_in_words, settle_sets};

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use corrections::AllCorrections;
use question::OtherJoin;
use receivable::Receivable;
use view::LargestErrors;

use super::expected_error::after;
use super::middle_queries::MiddleQueries;
use super::planning_limit::aside;
use super::rollup::{FinerAnswer, FromFiner, SLACK, is_good, shares_as_asked};
use super::statement_log::StatementFacts;
use super::{Engine, internal, ledger_failed};
use crate::analyze::PlanningEffort;
use crate::error::Error;
use crate::ir::ReleaseId;
use crate::ledger::{AnswerId, DebitError, Newest};
use crate::mechanism::Loss;
use crate::policy::{Policy, Reuse, Summary};
use crate::release::{ReleasedTable, Rollup, from_finer, stand_in};
use crate::rewrite::{Plan, ReleasePlan};
use crate::shadow::Requester;

/// A summary of the policy, planned.
pub(super) struct Declared {
    pub question: SummaryQuestion,
    /// The groups, totals and noise that it has whatever the data are.
    shape: ReleasedTable,
    /// For a summary of several tables: other forms of FROM that have its rows.
    other_joins: Vec<OtherJoin>,
    /// The errors that `pgveil.summaries` has, computed once.
    largest_errors: OnceLock<LargestErrors>,
}

impl Declared {
    /// `None` where it cannot be planned.
    fn new(policy: &Policy, summary: &Summary) -> Option<Self> {
        let question = SummaryQuestion::new(policy, summary).ok()?;
        let shape = stand_in(question.release());
        let other_joins = question.other_joins(policy, summary);
        Some(Self {
            question,
            shape,
            other_joins,
            largest_errors: OnceLock::new(),
        })
    }
}

/// A summary that reads what a question reads.
struct Related<'e> {
    at: usize,
    summary: &'e Summary,
    declared: &'e Declared,
    /// The question's FROM, where its form is not the summary's.
    other_join: Option<&'e OtherJoin>,
}

impl Related<'_> {
    /// The summary's table as it reads for the question's FROM.
    fn read<'t>(&self, table: &'t ReleasedTable) -> Option<Cow<'t, ReleasedTable>> {
        match self.other_join {
            None => Some(Cow::Borrowed(table)),
            Some(other) => other.read(table).map(Cow::Owned),
        }
    }
}

/// The summaries of the policy in force, and the tables that were read from the ledger.
#[derive(Default)]
pub(super) struct Summaries {
    /// Parallel to the policy's; `None` where one cannot be planned, which `pgveil check` reports.
    declared: OnceLock<Vec<Option<Declared>>>,
    read: Mutex<HashMap<usize, (AnswerId, Arc<ReleasedTable>)>>,
    corrections: AllCorrections,
    pub selections: Selections,
}

/// What a question received.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Received {
    Summary {
        name: String,
        mu: f64,
        epsilon: f64,
        keys: Vec<String>,
    },
    /// Which sets of keys a summary has.
    Sets { name: String, mu: f64, sets: String },
}

impl Received {
    /// The purchase in words, for a notice.
    pub fn describe(&self) -> String {
        match self {
            Self::Summary {
                name,
                mu,
                epsilon,
                keys,
            } => format!(
                "received summary {name} for epsilon {epsilon} (mu {mu:.4}), once: what its groups \
                    over {} answer is free from now on",
                keys.join(", ")
            ),
            Self::Sets { name, mu, sets } => format!(
                "received which sets summary {name} has, selected from the data, for mu {mu:.4}, \
                    once: {sets}"
            ),
        }
    }
}

impl Engine {
    /// For each of the policy's summaries its plan, where it can be planned.
    fn planned_summaries(&self) -> &[Option<Declared>] {
        let plan = |summary| Declared::new(&self.policy, summary);
        let all = || self.policy.summaries.iter().map(plan).collect();
        self.summaries.declared.get_or_init(|| aside(all))
    }

    /// The policy's summaries, each with its plan.
    pub(super) fn declared_summaries(&self) -> impl Iterator<Item = (usize, &Summary, &Declared)> {
        let planned = self.planned_summaries();
        let both = self.policy.summaries.iter().zip(planned).enumerate();
        both.filter_map(|(at, (summary, planned))| Some((at, summary, planned.as_ref()?)))
    }

    /// Whether the role may receive the summary, and knows of what it has groups.
    pub(super) fn is_summary_of(&self, role: &str, (at, summary): (usize, &Summary)) -> bool {
        let is_of_role = summary.roles.iter().any(|own| own == role);
        is_of_role && self.summaries.selections.is_known(role, at)
    }

    /// The role's summaries that read what the release reads.
    fn related_summaries<'e>(
        &'e self,
        requester: &Requester,
        release: &ReleasePlan,
    ) -> Vec<Related<'e>> {
        let serves = self.reuse(requester).sums_groups() && !self.policy.summaries.is_empty();
        let Some(family) = release.family().filter(|_| serves) else {
            return Vec::new();
        };
        let related = |(at, summary, declared): (usize, &'e Summary, &'e Declared)| {
            let own = declared.question.release().family();
            let is_same = own.is_some_and(|own| own.digest == family.digest);
            let mut others = declared.other_joins.iter();
            let other_join = others.find(|other| !is_same && other.is_of(family));
            let is_related = is_same || other_join.is_some();
            let is_of_role = self.is_summary_of(&requester.role, (at, summary));
            (is_related && is_of_role).then_some(Related {
                at,
                summary,
                declared,
                other_join,
            })
        };
        self.declared_summaries().filter_map(related).collect()
    }

    /// The release as answered by a summary that the role holds, and the source in words. `plan` is
    /// what would be bought instead, and `effort` the statement's.
    pub(super) async fn read_off_summary(
        &self,
        requester: &Requester,
        plan: &Plan,
        release: ReleaseId,
        effort: &PlanningEffort,
    ) -> Result<Option<(Rollup, FromFiner)>, Error> {
        let shape = plan.release(release);
        let mut best: Option<(Rollup, &Summary)> = None;
        for related in self.related_summaries(requester, shape) {
            let (at, summary) = (related.at, related.summary);
            let Some(newest) = self.newest(requester, related.declared).await? else {
                continue;
            };
            if !newest.is_held {
                continue;
            }
            let Some(table) = self.read(requester, at, &newest).await? else {
                continue;
            };
            let Some(table) = aside(|| related.read(&table)) else {
                continue;
            };
            let made = aside(|| read_within(shape, &table, effort));
            let Some(made) = made.filter(|made| shares_as_asked(requester, made)) else {
                continue;
            };
            let read = (at, newest.answer, &*table);
            let made = self.correct_answer(requester, read, (shape, made));
            let serves = is_good(requester, &made)
                || requester.session_settings.target_error.is_none()
                    && (self.reuse(requester) == Reuse::Summary
                        || self.is_out_of_reach(requester, plan).await?);
            if serves
                && best
                    .as_ref()
                    .is_none_or(|(known, _)| made.worse < known.worse)
            {
                best = Some((made, summary));
            }
        }
        Ok(best.map(|(made, summary)| {
            let source = FinerAnswer::Summary(summary.name.clone());
            let from = FromFiner {
                source,
                ..FromFiner::of(release, shape, &made)
            };
            (made, from)
        }))
    }

    /// The summary that would answer the release best if the role held it, by what the policy says;
    /// and the groups and the noise that the answer would have.
    ///
    /// # Guarantee
    /// A function of the plan, the session and the policy. It does not depend on whether the
    /// summary was made, or on its values.
    fn would_answer<'e>(
        &'e self,
        requester: &Requester,
        release: &ReleasePlan,
        effort: &PlanningEffort,
    ) -> Option<(&'e Summary, &'e Declared, Rollup)> {
        let related = self.related_summaries(requester, release);
        let read = |found| would_read(found, requester, release, effort);
        let all = related
            .iter()
            .filter_map(|found| Some((read(found)?, found)));
        let best = all.min_by(|(a, _), (b, _)| a.worse.total_cmp(&b.worse));
        best.map(|(made, found)| (found.summary, found.declared, made))
    }

    /// The plan without looks, which summaries can answer, if two things hold: the role's summaries
    /// answer all of it, and the role has bought no part of the plan itself. Otherwise the plan. So
    /// a question that was bought shows the same values again.
    pub(super) async fn plan_for_summaries(
        &self,
        requester: &Requester,
        plan: Arc<Plan>,
    ) -> Result<Arc<Plan>, Error> {
        let Some(form) = plan.without_looks().map(Arc::clone) else {
            return Ok(plan);
        };
        if self.policy.summaries.is_empty() || !self.reuse(requester).sums_groups() {
            return Ok(plan);
        }
        let effort = PlanningEffort::default();
        for at in asked_releases(&form) {
            let read = self.read_off_summary(requester, &form, at, &effort);
            if read.await?.is_none() {
                return Ok(plan);
            }
        }
        let is_bought = {
            let mut middles = MiddleQueries::new(self, requester, &plan);
            let known = self.recall(requester, &plan, &mut middles).await?;
            asked_releases(&form).any(|at| known.is_bought(at))
        };
        Ok(if is_bought { plan } else { form })
    }

    /// Receives the summaries that answer questions that the role would have to buy. A role that
    /// cannot pay for one goes on as if there were none; so does a session that allows a statement
    /// less than the summary costs, or that agreed on a price.
    pub(super) async fn receive_summaries(
        &self,
        requester: &Requester,
        plan: &Plan,
        facts: &StatementFacts,
    ) -> Result<Vec<Received>, Error> {
        let mut all = self.receive_sets(requester, plan, facts).await?;
        let wanted = self.receivable(requester, plan, (facts, false)).await?;
        let wanted = wanted.summaries;
        let (mut made, mut found) = (Vec::new(), Vec::new());
        for (summary, declared) in &wanted {
            if let Some(newest) = self.newest(requester, declared).await? {
                made.push((*summary, *declared));
                found.push(newest);
            }
        }
        // A part whose summary was not made yet has to be bought.
        if made.len() < wanted.len()
            && (plan.without_looks().is_some()
                || !self.fits(requester, &made, Some(plan.loss())).await?)
        {
            return Ok(all);
        }
        for ((summary, declared), newest) in made.into_iter().zip(found) {
            match self.ledger.receive_newest(&requester.role, &newest).await {
                Ok(false) | Err(DebitError::Awaited) => continue,
                Ok(true) => facts.add_search(newest.loss),
                Err(DebitError::Ledger(error)) => return Err(ledger_failed(&error)),
                Err(_) => continue,
            }
            all.push(self.describe_received((summary, declared), &newest));
        }
        Ok(all)
    }

    fn describe_received(
        &self,
        (summary, declared): (&Summary, &Declared),
        newest: &Newest,
    ) -> Received {
        Received::Summary {
            name: summary.name.clone(),
            mu: newest.loss.mu_squared.to_f64().sqrt(),
            epsilon: declared.question.epsilon,
            keys: summary.key_names(&self.policy),
        }
    }

    /// The summaries, each once, that would answer what the role would have to buy, and that its
    /// session may pay for. The list is empty for a first answer, which does not show yet what
    /// error is wanted. It is empty too where a part of the plan has to be bought as well and the
    /// budget does not hold both. Nothing of it depends on a value of a summary that the role does
    /// not hold. What they would answer is kept where it is asked for.
    pub(super) async fn receivable<'e>(
        &'e self,
        requester: &Requester,
        plan: &Plan,
        (facts, keeps_answers): (&StatementFacts, bool),
    ) -> Result<Receivable<'e>, Error> {
        let mut found = Receivable::default();
        let may = self.reuse(requester) == Reuse::On && !facts.is_agreed();
        if self.policy.summaries.is_empty() || !may || plan.first_answer().is_some() {
            return Ok(found);
        }
        let mut middles = MiddleQueries::new(self, requester, plan);
        let known = self.recall(requester, plan, &mut middles).await?;
        let effort = PlanningEffort::default();
        // The form without looks is taken whole or not at all.
        let is_whole = plan.without_looks().is_some();
        let form = plan.without_looks().map_or(plan, Arc::as_ref);
        let mut is_answered = true;
        for at in asked_releases(form) {
            if known.released.table(at).is_some() {
                is_answered &= !(is_whole && known.is_bought(at));
                continue;
            }
            let would = self.would_answer(requester, form.release(at), &effort);
            let Some((summary, declared, made)) = would else {
                is_answered = false;
                continue;
            };
            if keeps_answers {
                found.answers.push((at, made));
            }
            let is_new = found
                .summaries
                .iter()
                .all(|(known, _)| known.name != summary.name);
            let newest = self.newest(requester, declared).await?;
            let is_held = newest.is_some_and(|newest| newest.is_held);
            if is_new && !is_held {
                found.summaries.push((summary, declared));
            }
        }
        let bought = (!is_answered).then(|| plan.loss());
        let fits = self.fits(requester, &found.summaries, bought).await?;
        if (is_whole && !is_answered) || !fits {
            return Ok(Receivable::default());
        }
        Ok(found)
    }

    /// Whether the role may pay for these summaries and for the rest of the question: its account
    /// is open and covers both, and the session allows a statement this much.
    async fn fits(
        &self,
        requester: &Requester,
        summaries: &[(&Summary, &Declared)],
        bought: Option<Loss>,
    ) -> Result<bool, Error> {
        if summaries.is_empty() {
            return Ok(true);
        }
        let epsilon: f64 = summaries.iter().map(|(_, d)| d.question.epsilon).sum();
        let settings = &requester.session_settings;
        let of_target = settings.target_error.as_ref();
        let of_target = of_target.map(|_| settings.most_of_wanted(&self.policy));
        let most = settings.epsilon.or(of_target);
        let losses = summaries.iter().map(|(_, d)| d.question.kept_as.loss);
        let whole = losses
            .chain(bought)
            .try_fold(Loss::ZERO, |sum, loss| sum.compose(loss));
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        let is_open = !balance.closed && !balance.frozen;
        let holds = whole.is_some_and(|loss| after(&balance, loss).is_some());
        Ok(is_open && holds && most.is_none_or(|most| epsilon <= most * (1.0 + SLACK)))
    }

    /// The newest summary of that definition in the ledger.
    pub(super) async fn newest(
        &self,
        requester: &Requester,
        declared: &Declared,
    ) -> Result<Option<Newest>, Error> {
        let question = declared.question.kept_as.digest;
        let newest = self.ledger.newest(&requester.role, question).await;
        newest.map_err(|e| ledger_failed(&e))
    }

    /// The values of a summary that the role holds. The ledger itself says so; one that was read
    /// before is not read again.
    pub(super) async fn read(
        &self,
        requester: &Requester,
        at: usize,
        newest: &Newest,
    ) -> Result<Option<Arc<ReleasedTable>>, Error> {
        let known = || {
            self.summaries
                .read
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some((answer, table)) = known().get(&at)
            && *answer == newest.answer
        {
            return Ok(Some(Arc::clone(table)));
        }
        let held = self
            .ledger
            .values_held_by(&requester.role, newest.answer)
            .await;
        let Some(values) = held.map_err(|e| ledger_failed(&e))? else {
            return Ok(None);
        };
        let table = aside(|| ReleasedTable::read(&values));
        let table = Arc::new(table.map_err(|e| internal("release", &e))?);
        known().insert(at, (newest.answer, Arc::clone(&table)));
        Ok(Some(table))
    }

    /// Whether the role's account does not cover the plan.
    async fn is_out_of_reach(&self, requester: &Requester, plan: &Plan) -> Result<bool, Error> {
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|e| ledger_failed(&e))?;
        Ok(after(&balance, plan.loss()).is_none())
    }
}

/// The release as it would be read off the summary, with values that mean nothing; `None` where it
/// would not be read off it.
fn would_read(
    related: &Related<'_>,
    requester: &Requester,
    release: &ReleasePlan,
    effort: &PlanningEffort,
) -> Option<Rollup> {
    let shape = &related.declared.shape;
    let made = aside(|| read_within(release, related.read(shape)?.as_ref(), effort))?;
    let serves = shares_as_asked(requester, &made) && is_good(requester, &made);
    serves.then_some(made)
}

/// The releases of a plan that the backend is asked for.
fn asked_releases(plan: &Plan) -> impl Iterator<Item = ReleaseId> {
    let all = (0..plan.releases().len()).map(ReleaseId);
    all.filter(|at| !plan.release(*at).statements().is_empty())
}

/// The release from a summary's table, where reading all of it is within what is left of `effort`.
fn read_within(
    release: &ReleasePlan,
    table: &ReleasedTable,
    effort: &PlanningEffort,
) -> Option<Rollup> {
    effort.take(table.values_stored())?;
    from_finer(release, table, effort).filter(|made| !made.table.leaves_out())
}
