//! The noise of running totals of prepaid periods.

use num_bigint::BigUint;

use crate::mechanism::{Calibrated, Mu, SquareRoot, TotalsNoise};

/// How running totals of prepaid periods are drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct TotalsDrawn {
    pub root: SquareRoot,
    /// The noise of each coordinate of a row.
    pub drawn: Vec<Calibrated>,
}

/// The noise of a period and of rows where running totals are drawn; `None` where no noise of the
/// supported range hides them. The grid stays as fine as where periods are drawn apart, so that
/// clips round alike.
pub(super) fn totals_drawn(
    (clip, weights, apart): (&BigUint, &[BigUint], &[Calibrated]),
    mu: Mu,
    (periods, counted): (u32, u32),
) -> Option<(Vec<Calibrated>, TotalsDrawn)> {
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
