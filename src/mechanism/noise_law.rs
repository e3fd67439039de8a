//! The trait of a law of noise, which its file implements, and the norm that noise hides.

use num_bigint::BigUint;

use super::random::Randomness;
use super::samplers::SampleError;

/// A law of noise, in its own file. Its calibration and its loss are functions of the file, since
/// each law takes its own privacy parameter.
pub(super) trait Law {
    fn name(&self) -> &'static str;

    /// The norm in which one unit's contribution has to be bounded.
    fn norm(&self) -> Norm;

    /// Half the width of a 95 % interval, in standard errors.
    fn quantile_95(&self) -> f64;

    /// The value that a draw of this standard deviation exceeds with this probability.
    fn upper_quantile(&self, deviation: f64, probability: f64) -> f64;

    /// The least distance, up to the margin, that a draw reaches with at most this probability, in
    /// steps of the grid.
    fn tail_distance(&self, scale: u64, probability: f64) -> f64;

    /// Standard error that the noise adds, in steps of the grid; for display.
    fn standard_deviation(&self, scale: u64) -> f64;

    /// One fresh, independent draw.
    ///
    /// # Errors
    /// [`SampleError`] where the random source fails.
    fn sample(&self, scale: u64, random: &mut dyn Randomness) -> Result<i128, SampleError>;
}

/// Relative margin on quantiles of the noise, over errors below 1e-12.
pub(super) const QUANTILE_MARGIN: f64 = 1e-11;

/// How a unit's contributions add up to what noise hides: by their magnitudes (L1), or by their
/// squares (L2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Norm {
    L1,
    L2,
}

impl Norm {
    pub fn name(self) -> &'static str {
        match self {
            Self::L1 => "L1",
            Self::L2 => "L2",
        }
    }

    /// The summand of a length: itself, or its square.
    pub fn norm_summand(self, length: BigUint) -> BigUint {
        match self {
            Self::L1 => length,
            Self::L2 => &length * &length,
        }
    }

    /// The exponent that leads from the sum back to a length.
    pub fn root(self) -> f64 {
        match self {
            Self::L1 => 1.0,
            Self::L2 => 0.5,
        }
    }

    /// The largest value of each of `parts` equal parts of weight `weight` that together have this
    /// length; rounded down.
    pub fn equal_share(self, length: &BigUint, weight: &BigUint, parts: u32) -> BigUint {
        match self {
            Self::L1 => length / (weight * parts),
            Self::L2 => (length * length / (weight * weight * parts)).sqrt(),
        }
    }
}
