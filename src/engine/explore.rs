//! A question that nobody asks yet: its plan in words, its price and its curve, in a role's terms.
//!
//! # Guarantee
//! Pure planning: nothing is charged, not even what a role owes for the policy's searches, no
//! statement runs anywhere, and no row is read.

use super::curve::{Curve, curve};
use super::explain::budget;
use super::notice::{Sql, describe};
use super::planning::{plain_terms, plan, requester_of};
use super::planning_limit::Size;
use super::useless::{Asked, refuse_useless};
use super::{Engine, Service, in_words};
use crate::error::Error;
use crate::ledger::Balance;
use crate::parse::Query;
use crate::policy::{Role, schemas};
use crate::refusal::Refusal;

/// What the owner learns of a question.
pub struct Explored {
    pub lines: Vec<String>,
    pub curve: Curve,
}

/// The plan in words and in lines; the budget last, where what was spent is known.
///
/// # Errors
/// Where the question is refused.
pub fn explained(
    asked: &Asked<'_>,
    spent: Option<&Balance>,
    sql: Sql,
) -> Result<Vec<String>, Refusal> {
    let Asked {
        query,
        policy,
        search_path,
        constants,
        terms,
    } = asked;
    let planned =
        plan(query, policy, search_path, constants, terms).map_err(|error| error.report())?;
    let mut lines = Vec::new();
    let fresh = terms
        .accounts
        .first()
        .map(|account| Balance::lasting(account.cap, account.spent));
    if let Some(balance) = spent.or(fresh.as_ref()) {
        lines.push(in_words(&planned, &planned.loss(), balance));
    }
    lines.extend(describe(&planned, terms.delta, sql));
    if let Some(useless) = refuse_useless(asked, &planned, |_| true) {
        lines.push(format!("Useless: {}", useless.message));
        lines.extend(useless.hint.iter().map(|hint| format!("  Hint: {hint}")));
    }
    lines.extend(spent.map(|balance| budget(&planned.loss(), balance)));
    Ok(lines)
}

impl Engine {
    /// What a question of a role would cost and how far off it would be, at `epsilon` or at the
    /// role's own.
    ///
    /// # Errors
    /// The refusal that the role would get when it is planned; those of the ledger.
    pub async fn explore(
        &self,
        role: &Role,
        query: &Query,
        epsilon: Option<f64>,
    ) -> Result<Explored, Error> {
        let path = schemas(&self.search_path(&role.name), &role.name);
        let requester = requester_of(role, path);
        let balances = self.ledger.balances(&role.name).await;
        let balances = balances.map_err(|error| super::internal("ledger", &error))?;
        let mut terms = plain_terms(&self.policy, role, &balances);
        if let Some(epsilon) = epsilon {
            terms.session_settings.epsilon = Some(epsilon);
            terms.epsilon = epsilon;
        }
        let within = terms.session_settings.within(&self.policy);
        within.map_err(Error::Rewrite)?;
        let constants = self.constants(&requester);
        let permit = self
            .planning_limit
            .acquire(&role.name, Size::of(query))
            .await;
        let explored = permit.work(|| {
            let query = query.within(&self.database);
            let asked = Asked {
                query: &query,
                policy: &self.policy,
                search_path: &requester.search_path,
                constants: &constants,
                terms: &terms,
            };
            let lines = explained(&asked, Some(&balances.role), Sql::LeftOut)?;
            let curve = curve(&asked)?;
            Ok::<_, Refusal>(Explored { lines, curve })
        });
        explored.map_err(Error::Rewrite)
    }
}
