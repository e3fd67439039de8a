//! An answer of a summary that may be compared with the rows.

use std::sync::Arc;

use super::agreed_check::AgreedCheck;
use super::answer_errors::errors_of;
use crate::error::Error;
use crate::ir::ReleaseId;
use crate::mechanism::{Loss, SumDirection, loss_of_epoch, margin};
use crate::refusal::Refusal;
use crate::release::EpochTerms;
use crate::rewrite::{MonitoredSum, Plan};
use crate::shadow::Requester;

/// Whether an answer is compared with the rows.
pub(super) enum Checkable {
    /// The session does not ask for it, or the answer is no summary's.
    No,
    /// Why the answer cannot be compared.
    NotPossible(&'static str),
    Yes(Box<Check>),
}

impl Checkable {
    /// The check, where there is one.
    pub fn check(&self) -> Option<&Check> {
        match self {
            Self::Yes(check) => Some(check),
            Self::No | Self::NotPossible(_) => None,
        }
    }
}

/// An answer of a summary that is compared with the rows.
pub(super) struct Check {
    /// The summary.
    pub name: String,
    /// The question as the summary answers it.
    pub form: Arc<Plan>,
    pub release: ReleaseId,
    /// The summary's answer.
    pub value: f64,
    pub tolerance: f64,
    /// The plan of the sum that is compared.
    pub sum: Plan,
    pub terms: EpochTerms,
    pub is_open: bool,
    /// What is bought where the answer is too far off.
    pub asking: Requester,
    pub bought: Arc<Plan>,
    pub warnings: Vec<Refusal>,
}

impl Check {
    /// What a price says of it, and its question is held to.
    pub fn agreement(&self) -> AgreedCheck {
        AgreedCheck {
            summary: self.name.clone(),
            terms: self.terms,
            is_open: self.is_open,
            losses: self.losses(),
            errors: errors_of(&self.bought),
        }
    }

    /// What the statement may cost: for opening the checks, and for the question.
    pub fn losses(&self) -> (Loss, Loss) {
        let opening = match self.is_open {
            true => Loss::ZERO,
            false => loss_of_epoch(self.terms.epsilon),
        };
        (opening, self.bought.loss())
    }

    /// The distance that `questions` checks distinguish from none, but for a chance of 5 %.
    pub fn margin(&self, questions: u32) -> Result<f64, Error> {
        let sum = MonitoredSum::of(&self.sum).map_err(Error::Rewrite)?;
        let epsilon = self.terms.epsilon.to_f64();
        Ok(margin(epsilon, SumDirection::Either, questions) * sum.unit_moves())
    }
}
