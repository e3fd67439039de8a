//! Every plan over private rows reveals what the policy's searches found. So each role pays for the
//! searches once, before it sees a plan.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::statement_log::StatementFacts;
use super::{Engine, internal, ledger_failed};
use crate::error::Error;
use crate::ledger::{DebitError, Found};
use crate::policy::ViewKind;
use crate::rewrite::Plan;

/// The searches that the policy uses, and the roles that are known to have paid for all of them.
#[derive(Debug, Default)]
pub struct SearchPayment {
    found: Vec<Found>,
    admitted: Mutex<HashSet<String>>,
}

impl SearchPayment {
    pub fn new(found: Vec<Found>) -> Self {
        Self {
            found,
            admitted: Mutex::default(),
        }
    }

    pub(super) fn results(&self) -> &[Found] {
        &self.found
    }

    /// Whether the role is known to have paid for all searches.
    pub fn has_admitted(&self, role: &str) -> bool {
        self.lock_known().contains(role)
    }

    fn lock_known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the plan reveals nothing of the searches' findings: it reads no private row.
pub fn reveals_nothing(plan: &Plan) -> bool {
    let is_of_the_role = |view: &ViewKind| match view {
        ViewKind::Budget | ViewKind::History => true,
        ViewKind::GroupPrivacy | ViewKind::Meaning => true,
        ViewKind::Tables | ViewKind::Columns | ViewKind::Settings | ViewKind::Worth => false,
        ViewKind::Monitors | ViewKind::Periods => true,
        ViewKind::Holdouts => false,
        ViewKind::Summaries => false,
    };
    plan.releases().is_empty() && plan.views().iter().all(is_of_the_role)
}

impl Engine {
    /// Charges the role for the searches that it has not paid for. A role that cannot pay is
    /// refused until it can; the owner's grant counts from the next question on.
    ///
    /// # Errors
    /// 53400 where an account does not cover the charge; 55000 where the statement's price was
    /// agreed on without it. Nothing is revealed then.
    pub(super) async fn admit(&self, role: &str, facts: &StatementFacts) -> Result<(), Error> {
        self.note_selections(role).await?;
        if self.admission.found.is_empty() {
            return Ok(());
        }
        // The lock is not held while the ledger writes: the ledger itself knows who has paid.
        if self.admission.lock_known().contains(role) {
            return Ok(());
        }
        for found in &self.admission.found {
            let is_held = self.ledger.values_held_by(role, found.answer).await;
            if is_held.map_err(|e| ledger_failed(&e))?.is_some() {
                continue;
            }
            facts.admits_search(found.loss)?;
            let received = self.ledger.receive(role, found).await;
            let is_charged = received.map_err(|error| match error.refusal() {
                Some(refusal) => {
                    let what = "The policy leaves bounds to a private search (auto), whose price \
                        every role pays once, before its first question.";
                    Error::Ledger(refusal.detail(what).hint(
                        "Ask the data owner for a larger \
                        budget, or to write the bounds in the policy.",
                    ))
                }
                None => match &error {
                    DebitError::Ledger(error) => ledger_failed(error),
                    _ => internal("ledger", &error),
                },
            })?;
            if is_charged {
                facts.add_search(found.loss);
            }
        }
        self.admission.lock_known().insert(role.to_owned());
        Ok(())
    }
}
