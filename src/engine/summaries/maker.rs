//! Makes a summary: once, for the owner, and keeps it in the ledger.

use tokio_util::sync::CancellationToken;

use super::question::SummaryQuestion;
use super::select_sets::SetsQuestion;
use crate::execute::Backend;
use crate::ledger::{Ledger, Newest, QuestionDigest};
use crate::mechanism::Sampler;
use crate::policy::{Policy, SelectedSets, Summary};
use crate::refusal::{Refusal, reason};
use crate::release::{ONLY, OwnerError, OwnerRelease};
use crate::rewrite::Plan;

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

    /// Whether the ledger has a selection of a summary's sets.
    ///
    /// # Errors
    /// [`OwnerError::Ledger`].
    pub async fn has_sets(&self, question: &SetsQuestion) -> Result<bool, OwnerError> {
        let found = self.ledger.newest_of_owner(question.kept_as.digest).await?;
        Ok(found.is_some())
    }

    /// Selects the sets of a summary, even if they were selected before, and keeps what was
    /// selected. Returns it, and the role in whose name it was entered.
    ///
    /// # Guarantee
    /// That of [`OwnerRelease::select_sets`]. What is kept is what was selected alone.
    ///
    /// # Errors
    /// Those of [`OwnerRelease::select_sets`].
    pub async fn select_sets(
        &self,
        summary: &Summary,
        question: &SetsQuestion,
        sampler: &mut (dyn Sampler + Send),
        cancel: &CancellationToken,
    ) -> Result<(String, SelectedSets), OwnerError> {
        let kept_as = question.kept_as;
        let counts = question.counts().map_err(OwnerError::Refused)?;
        let is_known = self.has_sets(question).await?;
        let release = self.release(summary, (&question.plan, kept_as), is_known);
        let made = release.select_sets(&counts, sampler, cancel, |paid, selected| {
            let sets = question.sets(&selected);
            paid.keep_finding(kept_as, &sets)?;
            Ok(sets)
        });
        made.await
    }

    fn release<'b>(
        &'b self,
        summary: &'b Summary,
        (plan, kept_as): (&'b Plan, QuestionDigest),
        is_known: bool,
    ) -> OwnerRelease<'b> {
        OwnerRelease {
            plan,
            kept_as,
            is_known,
            roles: summary.roles.iter().map(String::as_str).collect(),
            no_roles: Refusal::new(
                reason::NO_ROLES,
                "the summary cannot be made: no role may receive it",
            ),
            backend: self.backend,
            ledger: self.ledger,
            timeout: self.policy.limits.statement_timeout,
        }
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
        let is_known = self.newest(summary, question).await?.is_some();
        let release = self.release(summary, (&question.plan, kept_as), is_known);
        let made = release.make(sampler, cancel, |paid| {
            paid.keep_release(kept_as, ONLY);
            Ok(())
        });
        let (role, ()) = made.await?;
        Ok(role)
    }
}
