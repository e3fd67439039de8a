//! An account, as the rules see it while they decide.

use super::balance::Balance;
use super::seen_sums::Spent;
use crate::mechanism::Loss;

/// An account at one moment, and what the store has of it.
#[derive(Debug, Clone)]
pub(super) struct AccountStanding {
    pub(super) balance: Balance,
    /// What was spent since the period began, also where the budget is never renewed.
    pub(super) period: Loss,
    /// The start of the current period, where the store still has an earlier one.
    pub(super) begun: Option<i64>,
    /// What the store has.
    pub(super) stored: Spent,
}

impl AccountStanding {
    /// The period's sum once the account has paid that, and the lifetime's is `lifetime`.
    pub(super) fn period_after(&self, lifetime: &Loss, whole: &Loss) -> Loss {
        // This cannot overflow: the lifetime's sum is at least as large, and did not.
        self.period.compose(*whole).unwrap_or(*lifetime)
    }

    /// What the store has after [`super::rules::Rules::set_role`].
    pub(super) fn after(&self, lifetime: Loss, whole: &Loss) -> Spent {
        let period = self.period_after(&lifetime, whole);
        let start = self.begun.or(self.stored.period.map(|(start, _)| start));
        Spent {
            lifetime,
            period: start.map(|start| (start, period)),
        }
    }
}
