//! Explores a question without asking it: its plan in words, its price and its curve, in a role's
//! terms.
//!
//! # Guarantee
//! Pure planning: nothing is charged, not even what a role owes for the policy's searches, no
//! statement runs anywhere, and no row is read.

use std::sync::Arc;

use super::answer_errors::{AnswerErrors, in_words};
use super::curve::{Curve, curve_within};
use super::expected_error::after;
use super::explain::budget;
use super::made_reports::{self, MadeReports};
use super::notice::{Sql, describe};
use super::planning::{plain_terms, plan_within, requester_of};
use super::planning_limit::StatementSize;
use super::statement_log::StatementFacts;
use super::useless::{QuestionPlan, refuse_useless};
use super::{Engine, Requester, Service};
use crate::analyze::PlanningEffort;
use crate::error::Error;
use crate::ledger::{Balance, Balances, Origin, Verdict};
use crate::parse::{Query, Statement, parse};
use crate::policy::{Role, SessionSettings};
use crate::refusal::Refusal;
use crate::rewrite::{Plan, UnitCount, Widened};

/// The name under which explorations wait to be planned: all operators count as one role. No role
/// has this name. Every exploration counts as a large statement, since it is planned at many
/// prices.
const EXPLORER: &str = "(console)";

/// The result of exploring a question.
pub struct Explored {
    pub lines: Vec<String>,
    pub curve: Curve,
}

/// The plan in words and in lines; the budget last, where what was spent is known.
///
/// # Errors
/// Where the question is refused.
pub fn explain(
    asked: &QuestionPlan<'_>,
    spent: Option<&Balance>,
    sql: Sql,
) -> Result<Vec<String>, Refusal> {
    let planned = planned_within(asked, &Arc::default()).map_err(|error| error.report())?;
    Ok(lines_of(asked, &planned, spent, sql))
}

/// The plan, where it takes no more work than `effort` has left.
fn planned_within(asked: &QuestionPlan<'_>, effort: &Arc<PlanningEffort>) -> Result<Plan, Error> {
    let QuestionPlan {
        query,
        policy,
        search_path,
        constants,
        terms,
        units: _,
    } = asked;
    plan_within(query, policy, search_path, constants, terms, effort)
}

fn lines_of(
    asked: &QuestionPlan<'_>,
    planned: &Plan,
    spent: Option<&Balance>,
    sql: Sql,
) -> Vec<String> {
    let terms = asked.terms;
    let mut lines = Vec::new();
    let fresh = terms
        .accounts
        .first()
        .map(|account| Balance::lasting(account.cap, account.spent));
    if let Some(balance) = spent.or(fresh.as_ref()) {
        let errors = AnswerErrors::if_bought(planned);
        lines.push(in_words(planned, &errors, &planned.loss(), balance));
    }
    lines.extend(describe(planned, terms.delta, sql));
    let made = made_reports::of(planned, asked.policy);
    lines.extend(made.iter().map(MadeReports::line));
    lines.extend(planned.bought_instead().map(Widened::describe));
    if let Some(useless) = refuse_useless(asked, planned, |_| true) {
        lines.push(format!("Useless: {}", useless.message));
        lines.extend(useless.hint.iter().map(|hint| format!("  Hint: {hint}")));
    }
    lines.extend(spent.map(|balance| budget(&planned.loss(), balance)));
    lines
}

/// The rest of the owner's total, before and after.
fn total(plan: &Plan, owner: &Balance) -> String {
    let left = 100.0 * owner.fraction_left();
    match after(owner, plan.loss()) {
        _ if plan.loss().is_zero() => format!("Of all roles together: {left:.2} % left"),
        Some(after) => format!(
            "Of all roles together: {left:.2} % left; after this query {:.2} %",
            after * 100.0
        ),
        None => format!("Of all roles together: {left:.2} % left; this query does not fit it"),
    }
}

impl Engine {
    /// A role's cost for a question and its error, at `epsilon` or at the session's own. It is read
    /// and planned when it has a turn among large statements, and all its plans together take as
    /// much work as one statement may. It is recorded as explained, like the statements of the
    /// role, under this origin.
    ///
    /// `read` finds the question among the statements of the text, and the settings of its session.
    ///
    /// # Errors
    /// The refusal that the role would get; those of `read`; where the ledger cannot be asked.
    pub async fn explore(
        &self,
        role: &Role,
        (sql, epsilon): (&str, Option<f64>),
        origin: Origin,
        read: impl FnOnce(Vec<Statement>) -> Result<(Query, Requester), Refusal>,
    ) -> Result<Explored, Refusal> {
        let balances = self.ledger.balances(&role.name).await;
        let balances = balances.map_err(|error| super::ledger_failed(&error).report())?;
        let facts = StatementFacts::new();
        let permit = self
            .planning_limit
            .acquire(EXPLORER, StatementSize::Large)
            .await;
        let explored = permit.work(|| {
            let (query, requester) = read(parse(sql)?)?;
            let requester = Requester {
                origin: origin.clone(),
                ..requester
            };
            let explored = self.explore_as(role, (&query, &requester), epsilon, &balances, &facts);
            Ok::<_, Refusal>((query, requester, explored))
        });
        match explored {
            Ok((query, requester, explored)) => {
                let outcome = explored.as_ref();
                self.record_end(
                    &requester,
                    Some(&query),
                    Verdict::Explained,
                    outcome,
                    &facts,
                )
                .await;
                explored.map_err(|error| error.report())
            }
            Err(refusal) => {
                let requester = Requester {
                    origin,
                    ..requester_of(role, Vec::new())
                };
                self.unread(&requester, &refusal).await;
                Err(refusal)
            }
        }
    }

    fn explore_as(
        &self,
        role: &Role,
        (query, requester): (&Query, &Requester),
        epsilon: Option<f64>,
        balances: &Balances,
        facts: &StatementFacts,
    ) -> Result<Explored, Error> {
        let mut terms = plain_terms(&self.policy, role, balances);
        let own = requester.session_settings;
        terms.session_settings = SessionSettings {
            target_error: None,
            epsilon: epsilon.or(own.epsilon),
            ..own
        };
        terms.epsilon = terms.session_settings.epsilon.unwrap_or(terms.epsilon);
        let is_admitted = terms.session_settings.within(&self.policy);
        is_admitted.map_err(Error::Rewrite)?;
        let constants = self.constants(requester);
        let query = query.within(&self.database);
        let asked = QuestionPlan {
            query: &query,
            policy: &self.policy,
            search_path: &requester.search_path,
            constants: &constants,
            terms: &terms,
            units: UnitCount::of_policy(&self.policy),
        };
        let effort = Arc::default();
        let planned = planned_within(&asked, &effort)?;
        facts.note_plan(&planned, &self.policy);
        let mut lines = lines_of(&asked, &planned, Some(&balances.role), Sql::LeftOut);
        lines.push(total(&planned, &balances.owner));
        if own.target_error.is_some() {
            let line = "pgveil.target_error is left out: what it needs is known after a first \
                answer.";
            lines.push(line.to_owned());
        }
        let curve = curve_within(&asked, Some(&effort)).map_err(Error::Rewrite)?;
        Ok(Explored { lines, curve })
    }
}
