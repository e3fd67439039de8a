//! Stand-in until the merge: the shape of the mechanism branch's `account.rs`, with a crude translation of the budget.

use super::loss::{Fixed, Loss};

/// In which currency an account adds up what its epsilons do not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accounting {
    Gdp,
    Zcdp,
    Pure,
}

/// What one account may ever spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    pub epsilon: Fixed,
    pub mu_squared: Fixed,
    pub rho: Fixed,
    pub delta: Fixed,
    pub accounting: Accounting,
}

/// No cap can be made of this budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    #[error("epsilon must be positive")]
    Epsilon,
}

impl Cap {
    /// # Errors
    ///
    /// [`CapError`] when a parameter is out of range.
    pub fn new(epsilon: Fixed, delta: Fixed, threshold_share: Fixed, accounting: Accounting) -> Result<Self, CapError> {
        if epsilon == Fixed::ZERO {
            return Err(CapError::Epsilon);
        }
        let rho = Fixed::round_down(epsilon.to_f64().powi(2) / (4.0 * (epsilon.to_f64() + (1.0 / delta.to_f64().max(1e-300)).ln())));
        let (rho, mu_squared) = if accounting == Accounting::Pure { (Fixed::ZERO, Fixed::ZERO) } else { (rho, Fixed(rho.0 * 2)) };
        let delta = if accounting == Accounting::Pure { delta } else { Fixed((delta.0 * threshold_share.0) >> Fixed::BITS) };
        Ok(Self { epsilon, mu_squared, rho, delta, accounting })
    }

    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    pub fn epsilon(&self) -> Fixed {
        self.epsilon
    }

    pub fn rho(&self) -> Fixed {
        self.rho
    }

    pub fn mu_squared(&self) -> Fixed {
        self.mu_squared
    }

    pub fn delta(&self) -> Fixed {
        self.delta
    }

    /// Whether an account that has `spent` this much may lose `next` as well.
    pub fn admits(&self, spent: &Loss, next: &Loss) -> bool {
        let Some(total) = spent.compose(*next) else { return false };
        let pure = total.epsilon.is_some_and(|epsilon| epsilon <= self.epsilon);
        let branch = match self.accounting {
            Accounting::Gdp => pure || total.mu_squared <= self.mu_squared,
            Accounting::Zcdp => pure || total.rho <= self.rho,
            Accounting::Pure => pure,
        };
        branch && total.delta <= self.delta
    }
}
