//! The noise of running totals of prepaid periods.

use num_bigint::BigUint;

use crate::mechanism::{Calibrated, Mu, SquareRoot, TotalsNoise};

/// The most periods of a horizon, times the sums and counts of a question. Undoing the square root
/// takes the square of the periods in steps, for each of them and each combination of other keys.
const SUMS_MAX: usize = 3_000;

/// How running totals of prepaid periods are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalsDrawn {
    pub root: SquareRoot,
    /// The noise of each coordinate of a row.
    pub drawn: Vec<Calibrated>,
}

/// The noise of a period and of rows where running totals are drawn; `None` where no noise of the
/// supported range hides them, or where there are too many sums. The grid stays as fine as where
/// periods are drawn apart, so that clips round alike.
pub(super) fn totals_drawn(
    (clip, weights, apart): (&BigUint, &[BigUint], &[Calibrated]),
    mu: Mu,
    (periods, counted): (u32, u32),
) -> Option<(Vec<Calibrated>, TotalsDrawn)> {
    let sums = weights.len().checked_mul(periods as usize)?;
    if sums > SUMS_MAX {
        return None;
    }
    let root = SquareRoot::new(periods);
    let noise = weights.iter().zip(apart).map(|(weight, apart)| {
        let noise = root.noise((clip, weight), mu, (counted, apart.refine));
        noise.ok()
    });
    let noise = noise.collect::<Option<Vec<TotalsNoise>>>()?;
    let drawn = noise.iter().map(|noise| noise.drawn).collect();
    let of_period = noise.iter().map(|noise| noise.of_period).collect();
    Some((of_period, TotalsDrawn { root, drawn }))
}
