//! What one statement of a portion may cost.

use super::{Portion, to_fixed};
use crate::mechanism::{Fixed, Mu};

/// The limit on the cost of one statement of a portion: as a Gaussian's mu, where delta allows
/// one, and as pure epsilon. All of them together cost no more than the whole, exactly.
pub(super) struct PortionBudget {
    pub mu: Option<Mu>,
    pub epsilon: Fixed,
}

pub(super) fn budget(portion: &Portion<'_>) -> PortionBudget {
    let Portion {
        terms,
        epsilon,
        share,
        parts,
        mechanism: _,
        counted: _,
        totals_over: _,
        releases: _,
    } = portion;
    let (share, parts) = (*share as u128, *parts as u128);
    let part = |whole: Mu| {
        u64::try_from((whole.square().0 * parts / share).isqrt())
            .ok()
            .filter(|mu| *mu > 0)
            .map(Mu)
    };
    PortionBudget {
        mu: terms.mu(*epsilon).and_then(part),
        epsilon: Fixed(to_fixed(*epsilon).0 * parts / share),
    }
}
