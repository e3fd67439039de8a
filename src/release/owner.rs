//! Releases that the owner makes once, for all roles that pay for them later: searches for bounds,
//! and summaries.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{EndedPart, Keeping, LockedPart, PaidPart, Released};
use crate::execute;
use crate::execute::Backend;
use crate::ir::ReleaseId;
use crate::ledger;
use crate::ledger::{Buyer, Charge, DebitError, Ledger, Purchase, QuestionDigest, QuestionId};
use crate::mechanism::Sampler;
use crate::refusal::Refusal;
use crate::rewrite::{MarginalCounts, Plan};

/// The name under which these statements take connections: they have their own share of the pool.
/// No role has this name.
const OWNER: &str = "";

/// The release of a plan that has only one.
pub const ONLY: ReleaseId = ReleaseId(0);

/// Why a release for the owner was not made, or not finished.
#[derive(Debug, thiserror::Error)]
pub enum OwnerError {
    /// Before anything was charged.
    #[error("{0}")]
    Refused(Refusal),
    #[error("another process is making this, or has just made it")]
    Awaited,
    #[error(transparent)]
    Backend(#[from] execute::Error),
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
    #[error(transparent)]
    Release(#[from] super::Error),
}

/// A plan, and those in whose names it can be entered.
pub struct OwnerRelease<'a> {
    pub plan: &'a Plan,
    pub kept_as: QuestionDigest,
    /// Whether the ledger has one already. Then this one does not wait for others that are being
    /// made: the existing one does not answer it either.
    pub is_known: bool,
    pub roles: Vec<&'a str>,
    /// The refusal where there is no role.
    pub no_roles: Refusal,
    pub backend: &'a Backend,
    pub ledger: &'a Ledger,
    pub timeout: Duration,
}

impl OwnerRelease<'_> {
    /// Makes the release, even if it was made before. `keep` marks what the ledger keeps of it.
    /// Returns the role in whose name it was entered, and what `keep` returned.
    ///
    /// # Guarantee
    /// The debit is durable before the database sees the statement, and is never refunded. A crash
    /// between the debit and the end of keeping costs a second release; it never gives one away.
    ///
    /// # Errors
    /// [`OwnerError::Refused`] and [`OwnerError::Awaited`]: nothing was charged. After any other
    /// error a charge may stand.
    pub async fn make<T>(
        self,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
        keep: impl FnOnce(&mut PaidPart<'_>) -> Result<T, super::Error>,
    ) -> Result<(String, T), OwnerError> {
        let counted = None;
        self.make_by(counted, sampler, cancel, |paid, _| keep(paid))
            .await
    }

    /// Selects sets of keys, even if they were selected before. `keep` marks what the ledger keeps
    /// of the selected candidates. Returns the role in whose name it was entered, and what `keep`
    /// returned.
    ///
    /// # Guarantee
    /// As [`Self::make`].
    ///
    /// # Errors
    /// As [`Self::make`].
    pub async fn select_sets<T>(
        self,
        counted: &MarginalCounts<'_>,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
        keep: impl FnOnce(&mut PaidPart<'_>, Vec<usize>) -> Result<T, super::Error>,
    ) -> Result<(String, T), OwnerError> {
        self.make_by(Some(counted), sampler, cancel, keep).await
    }

    async fn make_by<T>(
        self,
        counted: Option<&MarginalCounts<'_>>,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
        keep: impl FnOnce(&mut PaidPart<'_>, Vec<usize>) -> Result<T, super::Error>,
    ) -> Result<(String, T), OwnerError> {
        let claimed = match self.is_known {
            true => Vec::new(),
            false => vec![self.kept_as],
        };
        let unlike = |refusal: Refusal| execute::Error::Backend(refusal.message);
        let part = self.plan.part(|_| true).read_back().map_err(unlike)?;
        let opened = LockedPart::new(part, (self.backend, OWNER), self.timeout, cancel).await?;
        let debit = opened.part().digest().into();
        let loss = self.kept_as.loss;
        let purchase = Purchase::fresh(Buyer::Owner, loss, debit, claimed.clone());
        let (role, charge) = self.charge(&purchase).await?;
        let making = async {
            let mut paid = opened.with_charge(charge, Released::before(self.plan));
            let drawn = match counted {
                None => release(&mut paid, sampler, cancel)
                    .await
                    .map(|()| Vec::new()),
                Some(counted) => select(&mut paid, counted, sampler, cancel).await,
            };
            let made = match drawn {
                Ok(selected) => keep(&mut paid, selected).map_err(OwnerError::from),
                Err(error) => Err(error),
            };
            let ended = paid.end(made.is_ok(), (self.ledger, &role), Keeping::Durable);
            let EndedPart { kept, .. } = ended.await;
            let made = made?;
            kept?;
            Ok((role.clone(), made))
        };
        let claimed: Vec<QuestionId> = claimed.iter().map(|question| question.digest).collect();
        self.ledger.holding(&claimed, making).await
    }

    /// Debits the owner, and the first role that can pay.
    async fn charge(&self, purchase: &Purchase) -> Result<(String, Charge), OwnerError> {
        let mut refused = self.no_roles.clone();
        for role in &self.roles {
            match self.ledger.purchase(role, purchase.clone()).await {
                Ok(charge) => return Ok(((*role).to_owned(), charge)),
                Err(DebitError::Awaited) => return Err(OwnerError::Awaited),
                Err(DebitError::Ledger(error)) => return Err(OwnerError::Ledger(error)),
                Err(error) => refused = error.refusal().unwrap_or(refused),
            }
        }
        Err(OwnerError::Refused(refused))
    }
}

async fn release(
    paid: &mut PaidPart<'_>,
    sampler: &mut (dyn Sampler + Send),
    cancel: &CancellationToken,
) -> Result<(), OwnerError> {
    let read = paid.run(ONLY, &[], cancel).await?;
    paid.release(read, sampler)?;
    Ok(())
}

/// Reads all releases of the plan in its one snapshot, then selects.
async fn select(
    paid: &mut PaidPart<'_>,
    counted: &MarginalCounts<'_>,
    sampler: &mut (dyn Sampler + Send),
    cancel: &CancellationToken,
) -> Result<Vec<usize>, OwnerError> {
    let mut read = Vec::new();
    for at in 0..counted.plan().releases().len() {
        read.push(paid.run(ReleaseId(at), &[], cancel).await?);
    }
    Ok(paid.select_sets(counted, read, sampler)?)
}
