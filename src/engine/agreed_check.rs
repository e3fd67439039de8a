//! A check of a summary's answer, as a price shows it.

use super::expected_error::Within;
use crate::mechanism::Loss;
use crate::release::EpochTerms;

/// A check as somebody agreed to it: what it compares, and what it and its question may cost.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AgreedCheck {
    pub summary: String,
    pub terms: EpochTerms,
    pub is_open: bool,
    pub losses: (Loss, Loss),
    /// The expected errors of the question, where it is bought.
    pub errors: Vec<(String, Within)>,
}

impl AgreedCheck {
    /// What the check says, in one text by which two checks are compared.
    pub fn text(&self) -> String {
        format!("{self:?}")
    }

    /// What opening the checks costs; nothing where they are open.
    pub fn opening(&self) -> Loss {
        self.losses.0
    }

    /// The most that the check and its question may cost; `None` where it is beyond all numbers.
    pub fn in_all(&self) -> Option<Loss> {
        let (opening, question) = self.losses;
        opening.compose(question)
    }
}
