//! What the owner makes for all roles, and each role pays for once: findings of searches, and
//! summaries.

use super::error::{DebitError, Error};
use super::store::Access;
use super::{Found, Ledger, Newest, QuestionId};

impl Ledger {
    /// The newest answer to a question that the owner asked for all roles, and that the policy uses
    /// since. For the policy alone: a role pays by [`Ledger::receive`] before it sees anything that
    /// depends on it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn newest_of_owner(&self, question: QuestionId) -> Result<Option<Found>, Error> {
        self.worker
            .call(Access::Read, move |rules| rules.newest_of_owner(question))
            .await
    }

    /// Charges the role for a finding, unless it has paid already, and says whether it was charged.
    /// The owner has paid. A role never pays twice, whatever other tasks and processes do
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Ledger::debit`].
    pub async fn receive(&self, role: &str, found: &Found) -> Result<bool, DebitError> {
        let (role, found) = (
            self.require_role(role)?,
            (found.answer, found.question, found.loss),
        );
        self.worker
            .call(Access::Write, move |rules| rules.receive(&role, found))
            .await?
    }

    /// The newest answer that the owner made to a question, without its values, and whether the
    /// role holds it.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn newest(&self, role: &str, question: QuestionId) -> Result<Option<Newest>, Error> {
        let role = self.require_role(role)?;
        self.worker
            .call(Access::Read, move |rules| rules.newest(&role, question))
            .await
    }

    /// Charges the role for the newest answer, unless it has paid already: as [`Ledger::receive`].
    ///
    /// # Errors
    /// As [`Ledger::debit`].
    pub async fn receive_newest(&self, role: &str, newest: &Newest) -> Result<bool, DebitError> {
        let role = self.require_role(role)?;
        let newest = (newest.answer, newest.question, newest.loss);
        self.worker
            .call(Access::Write, move |rules| rules.receive(&role, newest))
            .await?
    }
}
