//! An account's cap, its spending, and the rest.

use super::clock::date;
use crate::mechanism::{Accounting, Cap, Fixed, Loss};
use crate::policy::Renew;

/// One account at one moment. A role may see its own; the owner's is for the operator and the
/// planner.
#[derive(Debug, Clone, PartialEq)]
pub struct Balance {
    /// The account's cap under the policy in force, with the owner's grants since.
    pub cap: Cap,
    /// Sum of the debits that count against the cap: all of them, or those of the current period.
    /// It may exceed the cap after the policy has lowered it.
    pub spent: Loss,
    /// Sum of all debits ever. What was learnt adds up, also over periods.
    pub lifetime: Loss,
    pub renew: Renew,
    /// When the current period ends, in microseconds since 1970; `None` where nothing is renewed.
    pub renews_at: Option<i64>,
    /// The owner's grants on top of the policy's budget, in epsilon and delta.
    pub granted: (Fixed, Fixed),
    /// Whether the owner has frozen the account, or all of them.
    pub frozen: bool,
    /// Whether the owner's total has refused the account, and the owner has not acted since:
    /// nothing more is charged.
    pub closed: bool,
}

impl Balance {
    /// A balance of an account that is never renewed, raised or frozen.
    pub fn lasting(cap: Cap, spent: Loss) -> Self {
        Self {
            cap,
            spent,
            lifetime: spent,
            renew: Renew::Never,
            renews_at: None,
            granted: (Fixed::ZERO, Fixed::ZERO),
            frozen: false,
            closed: false,
        }
    }

    /// The day (UTC) on which the budget renews.
    pub fn renewal_date(&self) -> Option<String> {
        self.renews_at.map(date)
    }

    /// Whether a pure loss could still be admitted by its epsilon: no loss without a pure bound was
    /// charged, and epsilon is left.
    pub fn pure_open(&self) -> bool {
        self.spent
            .epsilon
            .is_some_and(|spent| spent < self.cap.epsilon())
    }

    /// The rest of epsilon on the pure branch; zero once the branch is closed.
    pub fn epsilon_left(&self) -> Fixed {
        self.spent
            .epsilon
            .map_or(Fixed::ZERO, |spent| left_of(self.cap.epsilon(), spent))
    }

    /// The rest of mu^2, in which `gdp` adds up Gaussians.
    pub fn mu_squared_left(&self) -> Fixed {
        left_of(self.cap.mu_squared(), self.spent.mu_squared)
    }

    /// The rest of rho, in which `zcdp` adds up Gaussians.
    pub fn rho_left(&self) -> Fixed {
        left_of(self.cap.rho(), self.spent.rho)
    }

    /// The rest for keys released by threshold.
    pub fn delta_left(&self) -> Fixed {
        left_of(self.cap.delta(), self.spent.delta)
    }

    /// The remaining share of the whole, from 0 to 1, in the currency that has more left. For
    /// display only.
    pub fn fraction_left(&self) -> f64 {
        let pure = ratio(self.epsilon_left(), self.cap.epsilon());
        match self.cap.accounting() {
            Accounting::Gdp => pure.max(ratio(self.mu_squared_left(), self.cap.mu_squared())),
            Accounting::Zcdp => pure.max(ratio(self.rho_left(), self.cap.rho())),
            Accounting::Pure => pure,
        }
    }
}

/// Both accounts that a role's debits touch. The planner chooses the mechanism by them.
#[derive(Debug, Clone, PartialEq)]
pub struct Balances {
    pub role: Balance,
    /// Never shown to a role.
    pub owner: Balance,
}

fn left_of(cap: Fixed, spent: Fixed) -> Fixed {
    Fixed(cap.0.saturating_sub(spent.0))
}

/// `part / whole` for display; 0 where there is no whole.
pub(super) fn ratio(part: Fixed, whole: Fixed) -> f64 {
    if whole == Fixed::ZERO {
        0.0
    } else {
        part.to_f64() / whole.to_f64()
    }
}
