//! What the policy's searches found is told to a role by every plan over private rows, so a role is
//! shown none before it has paid for it, once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Engine, internal};
use crate::error::Error;
use crate::ledger::Found;
use crate::policy::ViewKind;
use crate::rewrite::Plan;

/// What the policy rests on, and the roles that are known to have paid for all of it.
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

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The plan reads no private row and shows nothing of the policy: it is the same whatever was
/// found.
pub fn tells_nothing(plan: &Plan) -> bool {
    let is_of_the_role = |view: &ViewKind| match view {
        ViewKind::Budget | ViewKind::History => true,
        ViewKind::Tables | ViewKind::Columns | ViewKind::Settings => false,
    };
    plan.releases().is_empty() && plan.views().iter().all(is_of_the_role)
}

impl Engine {
    /// Has the role pay what it has not paid yet. One that cannot is refused until it can: a grant
    /// of the owner's counts at the next question.
    ///
    /// # Errors
    /// 53400 where an account does not cover it; nothing was told then.
    pub(super) async fn admitted(&self, role: &str) -> Result<(), Error> {
        if self.admission.found.is_empty() {
            return Ok(());
        }
        // Not held while the ledger writes, which knows by itself who has paid.
        if self.admission.known().contains(role) {
            return Ok(());
        }
        for found in &self.admission.found {
            self.ledger.receive(role, found).await.map_err(|error| match error.refusal() {
                Some(refusal) => {
                    let what = "The policy leaves bounds to a private search (auto), whose price \
                        every role pays once, before its first question.";
                    Error::Ledger(refusal.detail(what).hint("Ask the data owner for a larger \
                        budget, or to write the bounds in the policy."))
                }
                None => internal("ledger", &error),
            })?;
        }
        self.admission.known().insert(role.to_owned());
        Ok(())
    }
}
