//! Makes a summary: once, for the owner, and keeps it in the ledger.

use tokio_util::sync::CancellationToken;

use super::question::SummaryQuestion;
use crate::execute::Backend;
use crate::ledger::{Ledger, Newest};
use crate::mechanism::Sampler;
use crate::policy::{Policy, Summary};
use crate::refusal::{Refusal, reason};
use crate::release::{ONLY, OwnerError, OwnerRelease};

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
    /// [`OwnerError::Ledger`].
    pub async fn newest(
        &self,
        summary: &Summary,
        question: &SummaryQuestion,
    ) -> Result<Option<Newest>, OwnerError> {
        let Some(role) = summary.roles.first() else {
            return Ok(None);
        };
        Ok(self.ledger.newest(role, question.kept_as.digest).await?)
    }

    /// Makes a summary, even if it was made before, and keeps it. Returns the role in whose name it
    /// was entered, which holds it then.
    ///
    /// # Guarantee
    /// That of [`OwnerRelease::make`].
    ///
    /// # Errors
    /// Those of [`OwnerRelease::make`].
    pub async fn make(
        &self,
        summary: &Summary,
        question: &SummaryQuestion,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<String, OwnerError> {
        let kept_as = question.kept_as;
        let release = OwnerRelease {
            plan: &question.plan,
            kept_as,
            is_known: self.newest(summary, question).await?.is_some(),
            roles: summary.roles.iter().map(String::as_str).collect(),
            no_roles: Refusal::new(
                reason::NO_ROLES,
                "the summary cannot be made: no role may receive it",
            ),
            backend: self.backend,
            ledger: self.ledger,
            timeout: self.policy.limits.statement_timeout,
        };
        let made = release.make(sampler, cancel, |paid| {
            paid.keep_release(kept_as, ONLY);
            Ok(())
        });
        let (role, ()) = made.await?;
        Ok(role)
    }
}
