//! Explores a question without asking it: its plan in words, its price and its curve, in a role's
//! terms.
//!
//! # Guarantee
//! Pure planning: nothing is charged, not even what a role owes for the policy's searches, no
//! statement runs anywhere, and no row is read.

use std::sync::Arc;

use super::curve::{Curve, curve_within};
use super::explain::budget;
use super::notice::{Sql, describe};
use super::planning::{plain_terms, plan_within, requester_of};
use super::planning_limit::StatementSize;
use super::useless::{QuestionPlan, refuse_useless};
use super::{Engine, Service, in_words};
use crate::analyze::PlanningEffort;
use crate::ledger::{Balance, Balances};
use crate::parse::{Query, Statement, parse};
use crate::policy::{Role, schemas};
use crate::refusal::Refusal;
use crate::rewrite::Widened;

/// Whose turn to plan an exploration takes: as one role for all operators. No role has this name,
/// and every exploration counts as a large statement, since it is planned at many prices.
const EXPLORER: &str = "(console)";

/// The result of exploring a question.
pub struct Explored {
    pub lines: Vec<String>,
    pub curve: Curve,
}

/// One exploration: the statement as it is printed, for the record, and what was found.
pub struct Exploration {
    pub statement: String,
    pub outcome: Result<Explored, Refusal>,
}

/// Why a text is not explored.
pub enum Unread {
    /// It is not one SELECT.
    NotOne,
    Refused(Refusal),
}

impl From<Refusal> for Unread {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The plan in words and in lines; the budget last, where what was spent is known.
///
/// # Errors
/// Where the question is refused.
pub fn explained(
    asked: &QuestionPlan<'_>,
    spent: Option<&Balance>,
    sql: Sql,
) -> Result<Vec<String>, Refusal> {
    explained_within(asked, spent, sql, &Arc::default())
}

/// The same where it takes no more work than `effort` has left.
fn explained_within(
    asked: &QuestionPlan<'_>,
    spent: Option<&Balance>,
    sql: Sql,
    effort: &Arc<PlanningEffort>,
) -> Result<Vec<String>, Refusal> {
    let QuestionPlan {
        query,
        policy,
        search_path,
        constants,
        terms,
    } = asked;
    let planned = plan_within(query, policy, search_path, constants, terms, effort);
    let planned = planned.map_err(|error| error.report())?;
    let mut lines = Vec::new();
    let fresh = terms
        .accounts
        .first()
        .map(|account| Balance::lasting(account.cap, account.spent));
    if let Some(balance) = spent.or(fresh.as_ref()) {
        lines.push(in_words(&planned, &planned.loss(), balance));
    }
    lines.extend(describe(&planned, terms.delta, sql));
    lines.extend(planned.widened().map(Widened::describe));
    if let Some(useless) = refuse_useless(asked, &planned, |_| true) {
        lines.push(format!("Useless: {}", useless.message));
        lines.extend(useless.hint.iter().map(|hint| format!("  Hint: {hint}")));
    }
    lines.extend(spent.map(|balance| budget(&planned.loss(), balance)));
    Ok(lines)
}

impl Engine {
    /// A role's cost for a question and its error, at `epsilon` or at the role's own. It is read
    /// and planned when it has a turn among large statements, and all its plans together take as
    /// much work as one statement may.
    ///
    /// # Errors
    /// Where the text is not one SELECT; where the ledger cannot be asked. The refusal that the
    /// role would get is in the exploration.
    pub async fn explore(
        &self,
        role: &Role,
        sql: &str,
        epsilon: Option<f64>,
    ) -> Result<Exploration, Unread> {
        let balances = self.ledger.balances(&role.name).await;
        let balances = balances.map_err(|error| super::ledger_failed(&error).report())?;
        let permit = self
            .planning_limit
            .acquire(EXPLORER, StatementSize::Large)
            .await;
        permit.work(|| {
            let statements = parse(sql)?;
            let [Statement::Query(query) | Statement::Explain(query, _)] = statements.as_slice()
            else {
                return Err(Unread::NotOne);
            };
            Ok(Exploration {
                statement: query.to_sql(),
                outcome: self.explored(role, query, epsilon, &balances),
            })
        })
    }

    fn explored(
        &self,
        role: &Role,
        query: &Query,
        epsilon: Option<f64>,
        balances: &Balances,
    ) -> Result<Explored, Refusal> {
        let path = schemas(&self.search_path(&role.name), &role.name);
        let requester = requester_of(role, path);
        let mut terms = plain_terms(&self.policy, role, balances);
        if let Some(epsilon) = epsilon {
            terms.session_settings.epsilon = Some(epsilon);
            terms.epsilon = epsilon;
        }
        terms.session_settings.within(&self.policy)?;
        let constants = self.constants(&requester);
        let query = query.within(&self.database);
        let asked = QuestionPlan {
            query: &query,
            policy: &self.policy,
            search_path: &requester.search_path,
            constants: &constants,
            terms: &terms,
        };
        let effort = Arc::default();
        let lines = explained_within(&asked, Some(&balances.role), Sql::LeftOut, &effort)?;
        let curve = curve_within(&asked, Some(&effort))?;
        Ok(Explored { lines, curve })
    }
}
