//! The part of a plan that has to be asked of the data: answered parts need no statement and no
//! charge.

use super::digest::DebitDigest;
use crate::ir::ReleaseId;
use crate::mechanism::Loss;
use crate::refusal::Refusal;
use crate::rewrite::{Plan, ReleasePlan};

/// Some releases of a plan, to be made under one charge.
#[derive(Debug, Clone)]
pub struct UnpaidPart<'p> {
    plan: &'p Plan,
    /// Ascending.
    releases: Vec<ReleaseId>,
}

/// A part whose statements were parsed again and compared with what was built. Nothing else is
/// locked, paid for and run.
#[derive(Debug)]
pub struct ReadBackPart<'p>(UnpaidPart<'p>);

impl<'p> ReadBackPart<'p> {
    pub fn into_part(self) -> UnpaidPart<'p> {
        self.0
    }

    /// A release of the part.
    pub fn release(&self, release: ReleaseId) -> Option<&'p ReleasePlan> {
        let is_in_it = self.0.contains(release);
        is_in_it.then(|| self.0.plan.release(release))
    }
}

impl Plan {
    /// The part of the plan that consists of those given releases that have a price.
    pub fn part(&self, releases: impl Fn(ReleaseId) -> bool) -> UnpaidPart<'_> {
        let releases = (0..self.releases.len())
            .map(ReleaseId)
            .filter(|at| !self.release(*at).statements().is_empty() && releases(*at))
            .collect();
        UnpaidPart {
            plan: self,
            releases,
        }
    }
}

impl<'p> UnpaidPart<'p> {
    pub fn plan(&self) -> &'p Plan {
        self.plan
    }

    pub fn contains(&self, release: ReleaseId) -> bool {
        self.releases.binary_search(&release).is_ok()
    }

    pub fn releases(&self) -> impl Iterator<Item = &'p ReleasePlan> {
        let plan = self.plan;
        self.releases.clone().into_iter().map(|at| plan.release(at))
    }

    /// Reads back all statements that may be sent for the part.
    ///
    /// # Errors
    /// 54001, XX000: as those of each
    /// [`EmittedStatement`](crate::rewrite::EmittedStatement::read_back).
    pub fn read_back(self) -> Result<ReadBackPart<'p>, Refusal> {
        for statement in self.releases().flat_map(ReleasePlan::statements) {
            statement.read_back()?;
        }
        Ok(ReadBackPart(self))
    }

    /// The bytes of all texts that may be sent for the part.
    pub fn printed_bytes(&self) -> usize {
        self.releases().map(ReleasePlan::printed_bytes).sum()
    }

    /// The price of the part, in one debit. No part costs more than the plan, whose price was found
    /// countable.
    pub fn loss(&self) -> Loss {
        self.added_up(ReleasePlan::loss)
    }

    /// The price that is paid before its first statement runs.
    pub fn loss_at_first(&self) -> Loss {
        self.added_up(ReleasePlan::loss_at_first)
    }

    /// The price that is paid after looks.
    pub fn loss_after_looks(&self) -> Loss {
        self.added_up(ReleasePlan::loss_after_look)
    }

    fn added_up(&self, own: impl Fn(&ReleasePlan) -> Option<Loss>) -> Loss {
        let whole = self.plan.loss;
        self.releases().fold(Loss::ZERO, |sum, release| {
            own(release)
                .and_then(|own| sum.compose(own))
                .unwrap_or(whole)
        })
    }

    /// Digest of the second step of a release; its charge names it.
    pub fn digest_after_look(&self, release: ReleaseId) -> DebitDigest {
        self.digest().after_look(release)
    }

    /// Digest of the plan and of which releases are made; a charge names it.
    pub fn digest(&self) -> DebitDigest {
        self.plan.digest.of_part(&self.releases)
    }
}
