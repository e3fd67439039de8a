//! A role's debits for keys found by threshold. For units that act together they mean more than
//! their sum says.

use super::error::Error;
use super::history_entry::join_statements;
use super::rules::Rules;
use super::store::{Access, StoreValue, fixed_value};
use super::{Entry, Ledger};
use crate::mechanism::{Fixed, Loss};

impl Ledger {
    /// What each statement cost the role whose keys were found by threshold, over all periods.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn threshold_losses(&self, role: &str) -> Result<Vec<Loss>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| rules.threshold_losses(&role))
            .await
    }
}

impl Rules {
    /// [`Ledger::threshold_losses`], within a transaction. The debits and the receipt of one
    /// statement are one loss, as in the history: what a role sees of it must not depend on what
    /// other roles asked before.
    pub(super) fn threshold_losses(&mut self, role: &str) -> Result<Vec<Loss>, Error> {
        let sql = "SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint FROM debit \
                     WHERE role = $1 AND (microseconds, fingerprint) IN \
                       (SELECT microseconds, fingerprint FROM debit \
                          WHERE role = $1 AND delta > $2 \
                        UNION SELECT microseconds, fingerprint FROM receipt \
                          WHERE role = $1 AND delta > $2) \
                   UNION ALL SELECT epsilon, rho, mu_squared, delta, microseconds, fingerprint \
                     FROM receipt \
                     WHERE role = $1 AND (microseconds, fingerprint) IN \
                       (SELECT microseconds, fingerprint FROM debit \
                          WHERE role = $1 AND delta > $2 \
                        UNION SELECT microseconds, fingerprint FROM receipt \
                          WHERE role = $1 AND delta > $2) \
                   ORDER BY microseconds, fingerprint";
        let rows = self.store.query(
            sql,
            &[
                StoreValue::Int(self.role(role)?.id),
                fixed_value(Fixed::ZERO),
            ],
        )?;
        let mut entries = rows.iter().map(Entry::of).collect::<Result<Vec<_>, _>>()?;
        join_statements(&mut entries);
        Ok(entries.into_iter().map(|entry| entry.loss).collect())
    }
}
