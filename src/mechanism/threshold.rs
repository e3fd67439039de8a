//! Which keys may be shown: those whose noisy number of distinct units passes a threshold.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};

use super::calibration::Calibrated;
use super::loss::Fixed;
use super::noise::Noise;
use super::noise_law::QUANTILE_MARGIN;

/// The coordinate of a release that counts, in every group, the distinct units present in it.
#[derive(Debug, Clone, Copy)]
pub struct Presence<'a> {
    /// C: the joint bound of the whole vector (L2 with Gaussian noise, L1 with Laplace), the same
    /// that calibrated the noise.
    pub clip: &'a BigUint,
    /// F: this coordinate's weight in that bound.
    pub weight: &'a BigUint,
    /// The presence that a unit adds to a group before the clip.
    pub height: Height,
}

/// A unit's presence in a group, in steps of the base grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Height {
    /// So much in each group: 1, or the grid's own 1.0.
    Each(u64),
    /// In each of t groups at most this over sqrt(t), under Laplace noise over t.
    Shared(u64),
}

/// No threshold can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    #[error("clip, weight, height and groups per unit must be positive")]
    NotPositive,
    #[error("delta of a threshold must lie in (0, 1)")]
    Delta,
    #[error("threshold past 128 bits")]
    TooWide,
}

/// Every number of groups up to this is tried by itself; above, blocks of 1/64 stand for their
/// worst.
const GROUPS_EXACT: u32 = 256;

/// The integer threshold: a key is shown iff (2^refine * presence + noise), an exact integer, is
/// **at least** the returned value.
///
/// # Guarantee
///
/// For neighbours that differ in all rows of one unit, the probability that any group is shown in
/// which this unit is alone is at most `delta`. With t such groups it adds at most V_t to each, and
/// they all stay hidden with probability (1 - p)^t >= 1 - delta as soon as P(V_t + Z >= tau) <= p =
/// 1 - (1 - delta)^(1/t). The returned tau is at least the largest, over 1 <= t <=
/// `groups_per_unit_max`, of
///
/// ```text
/// Gaussian:  V_t + 1/2 + S isf(p)                      V_t = 2^s min(h_t, C / (F sqrt t)) Laplace:
/// V_t + ceil(b ln(1 / (p (1 + r))))         V_t = 2^s min(h_t, C / (F t)),  r = exp(-1/b),  P(Z >=
/// m) = r^m / (1 + r) for m >= 1 height:    h_t = H where a unit counts as one in each of its
/// groups; shared, H / sqrt t with Gaussian noise and H / t with Laplace
/// ```
///
/// with V_t in exact integers and the quantile widened by its error margin. Then the release is a
/// mixture with weight `delta` on both neighbours, and costs [`super::loss_threshold`] on top of
/// its noise. The noisy presence itself is free to show, from the same draw.
///
/// # Requires
///
/// - The SQL **enforces** `groups_per_unit_max` (by row number in hash order, before the clip): the
///   L2 clip alone does not bound the number of groups, and without the cap delta can be off by
///   50,000. With several grouping sets, t counts the groups of all.
/// - A unit's presence is the same number in each of its groups, at most h_t in each of t groups,
///   times one common factor: uniform weights, not row counts.
/// - Each group has its own draw, for the presence and for every other coordinate.
/// - A group of the neighbour alone is neither shown nor hinted at otherwise: no limit, order or
///   error over raw groups.
///
/// # Errors
///
/// [`ThresholdError`]; depends on the arguments alone, which are public.
///
/// # Reference
///
/// The proof stands above, ours for several groups of one unit; Wilson et al. 2020 (arXiv
/// 1909.01917), Swanberg et al. 2023 for the weights.
pub fn threshold(
    presence: &Presence<'_>,
    calibrated: Calibrated,
    delta: Fixed,
    groups_per_unit_max: u32,
) -> Result<i128, ThresholdError> {
    if presence.clip.is_zero()
        || presence.weight.is_zero()
        || presence.height.is_zero()
        || groups_per_unit_max == 0
    {
        return Err(ThresholdError::NotPositive);
    }
    if delta == Fixed::ZERO || delta.0 >= 1 << Fixed::BITS {
        return Err(ThresholdError::Delta);
    }
    let mut highest = 0;
    let mut first = 1;
    while first <= groups_per_unit_max {
        let block = if first <= GROUPS_EXACT { 1 } else { first / 64 };
        let last = first.saturating_add(block - 1).min(groups_per_unit_max);
        // Contributions fall with t, quantiles rise: the block's first contribution with its last
        // quantile bounds all of it.
        let share = presence.share(calibrated, first)?;
        let margin = hiding_margin(calibrated.noise, delta, last)?;
        highest = highest.max(share.checked_add(margin).ok_or(ThresholdError::TooWide)?);
        match last.checked_add(1) {
            Some(next) => first = next,
            None => break,
        }
    }
    Ok(highest)
}

impl Presence<'_> {
    /// V_t: the most a unit in `groups` groups adds to each, on the refined grid. What it adds
    /// is an integer, so the floor of the bound bounds it.
    fn share(&self, calibrated: Calibrated, groups: u32) -> Result<i128, ThresholdError> {
        let clip = self.clip << calibrated.refine;
        let norm = calibrated.noise.mechanism().norm();
        let even = norm.equal_share(&clip, self.weight, groups);
        let own = match self.height {
            Height::Each(height) => BigUint::from(height) << calibrated.refine,
            Height::Shared(height) => {
                let whole = BigUint::from(height) << calibrated.refine;
                norm.equal_share(&whole, &BigUint::one(), groups)
            }
        };
        even.min(own).to_i128().ok_or(ThresholdError::TooWide)
    }
}

impl Height {
    fn is_zero(self) -> bool {
        matches!(self, Self::Each(0) | Self::Shared(0))
    }
}

/// Least m (up to the margin) with P(Z >= m) <= 1 - (1 - delta)^(1/groups).
fn hiding_margin(noise: Noise, delta: Fixed, groups: u32) -> Result<i128, ThresholdError> {
    // (1 - delta)^(1/t) itself would round to 1.
    let each = -((-delta.to_f64()).ln_1p() / f64::from(groups)).exp_m1() * (1.0 - QUANTILE_MARGIN);
    let (mechanism, scale) = noise.law();
    let distance = mechanism.law().tail_distance(scale, each);
    // A delta near 1 asks for a negative margin; the tail formula holds from 1 on.
    let distance = distance.ceil().max(1.0);
    // Exactly representable and far below 2^127: a scale below 2^60 times a quantile below 100.
    if distance < 1e30 {
        Ok(distance as i128)
    } else {
        Err(ThresholdError::TooWide)
    }
}

#[cfg(test)]
mod tests;
