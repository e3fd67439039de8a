//! Makes a summary: once, for the owner, and keeps it in the ledger.

use tokio_util::sync::CancellationToken;

use super::question::{ONLY, SummaryQuestion};
use crate::error::Error as Refused;
use crate::execute;
use crate::execute::Backend;
use crate::ledger;
use crate::ledger::{Buyer, DebitError, Ledger, Newest, Purchase, QuestionId};
use crate::mechanism::Sampler;
use crate::policy::{Policy, Summary};
use crate::refusal::{Refusal, reason};
use crate::release;
use crate::release::{EndedPart, Keeping, LockedPart, PaidPart, Released};

/// Not a role's name: what is made for the owner has its own share of the connections.
const OWNER: &str = "";

/// Why a summary was not made, or not finished.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// Before anything was charged.
    #[error("{0}")]
    Refused(Refusal),
    #[error("another process is making this summary, or has just made it")]
    Awaited,
    #[error(transparent)]
    Backend(#[from] execute::Error),
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Release(#[from] release::Error),
}

impl From<Refused> for SummaryError {
    fn from(error: Refused) -> Self {
        Self::Refused(error.report())
    }
}

/// What making summaries needs. The policy has the findings of its searches.
pub struct SummaryMaker<'a> {
    pub policy: &'a Policy,
    pub backend: &'a Backend,
    pub ledger: &'a Ledger,
}

impl SummaryMaker<'_> {
    /// The summary as the ledger has it; `None` where it is due.
    ///
    /// # Errors
    /// [`SummaryError::Ledger`].
    pub async fn known(
        &self,
        summary: &Summary,
        question: &SummaryQuestion,
    ) -> Result<Option<Newest>, SummaryError> {
        let Some(role) = summary.roles.first() else {
            return Ok(None);
        };
        Ok(self.ledger.newest(role, question.kept_as.digest).await?)
    }

    /// Makes a summary, even if it was made before, and keeps it. Returns the role in whose name it
    /// was entered, which holds it then.
    ///
    /// # Guarantee
    /// The debit is durable before the database sees the statement, and is never refunded. A crash
    /// between the debit and the end of keeping costs a second summary; it never gives one away.
    ///
    /// # Errors
    /// [`SummaryError::Refused`] and [`SummaryError::Awaited`]: nothing was charged. After any
    /// other error a charge may stand.
    pub async fn make(
        &self,
        summary: &Summary,
        question: &SummaryQuestion,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<String, SummaryError> {
        let kept_as = question.kept_as;
        // A repeated one does not wait for others: an existing one does not answer it.
        let claimed = match self.known(summary, question).await? {
            Some(_) => Vec::new(),
            None => vec![kept_as],
        };
        let part = question.plan.part(|_| true);
        let timeout = self.policy.limits.statement_timeout;
        let opened = LockedPart::new(part, (self.backend, OWNER), timeout, cancel).await?;
        let debit = opened.part().digest().into();
        let purchase = Purchase::fresh(Buyer::Owner, kept_as.loss, debit, claimed.clone());
        let (role, charge) = self.charged(summary, &purchase).await?;
        let making = async {
            let mut paid = opened.paid(charge, Released::before(&question.plan));
            let made = made(&mut paid, sampler, cancel).await;
            if made.is_ok() {
                paid.keep_release(kept_as, ONLY);
            }
            let ended = paid.end(made.is_ok(), (self.ledger, &role), Keeping::Durable);
            let EndedPart { kept, .. } = ended.await;
            made?;
            kept?;
            Ok(role.clone())
        };
        let claimed: Vec<QuestionId> = claimed.iter().map(|question| question.digest).collect();
        self.ledger.holding(&claimed, making).await
    }

    /// Debits the owner, and the first of the summary's roles that can pay, which holds the
    /// summary.
    async fn charged(
        &self,
        summary: &Summary,
        purchase: &Purchase,
    ) -> Result<(String, ledger::Charge), SummaryError> {
        let mut refused = Refusal::new(
            reason::NO_ROLES,
            "the summary cannot be made: no role may receive it",
        );
        for role in &summary.roles {
            match self.ledger.purchase(role, purchase.clone()).await {
                Ok(charge) => return Ok((role.clone(), charge)),
                Err(DebitError::Awaited) => return Err(SummaryError::Awaited),
                Err(DebitError::Ledger(error)) => return Err(SummaryError::Ledger(error)),
                Err(error) => refused = error.refusal().unwrap_or(refused),
            }
        }
        Err(SummaryError::Refused(refused))
    }
}

async fn made(
    paid: &mut PaidPart<'_>,
    sampler: &mut (dyn Sampler + Send),
    cancel: &CancellationToken,
) -> Result<(), SummaryError> {
    paid.allow().await?;
    let read = paid.run(ONLY, &[], cancel).await?;
    paid.release(read, sampler)?;
    Ok(())
}
