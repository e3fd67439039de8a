//! Turns a proved norm bound into integer noise, and prices the showing of keys. Each law has its
//! own calibration and loss: `laplace.rs`, `gaussian.rs`.
//!
//! # The model
//!
//! A release is a vector of integer coordinates in every group; coordinate j has an integer weight
//! F_j. The emitted SQL guarantees that what one privacy unit adds to the vector, v, obeys
//!
//! ```text
//! Gaussian:  sum over j and groups of (F_j v_j)^2  <=  C^2          Laplace:  sum over j and
//! groups of |F_j v_j|  <=  C
//! ```
//!
//! for an integer clip C. Noise is added to 2^s v_j, on a grid finer by s (`refine`) bits, so
//! that rounding the scale up to an integer costs nothing that shows. The released value is (2^s
//! T_j + Z_j) / 2^s in units of the base grid.

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

use super::loss::{Fixed, Loss};
use super::noise::Noise;

/// Noise that hides one unit's contribution to one coordinate, and the grid it is drawn on. Made
/// by [`super::gaussian`] and [`super::laplace`] alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::manual_non_exhaustive,
    reason = "`non_exhaustive` binds other crates only; the stages that must not build this live \
        in \
        this one"
)]
pub struct Calibrated {
    pub noise: Noise,
    /// s: the exact integer is multiplied by 2^s before the noise is added, the sum divided by 2^s
    /// afterwards.
    pub refine: u32,
    made_here: (),
}

impl Calibrated {
    /// # Requires
    ///
    /// The law's guarantee holds for this noise on this grid: only its calibration calls this.
    pub(super) fn by_its_law(noise: Noise, refine: u32) -> Self {
        Self {
            noise,
            refine,
            made_here: (),
        }
    }
}

/// No noise of the supported range hides this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    #[error("clip, weight and privacy parameter must be positive")]
    NotPositive,
    /// The scale would reach 2^59 steps of the grid: the grid is too fine for a bound this wide or
    /// a budget this small.
    #[error("noise scale past 2^59 grid steps")]
    TooWide,
    /// The grid would be refined by more than [`REFINE_MAX`] bits: the bound is far below one
    /// step of the grid.
    #[error("noise scale below 2^-{REFINE_MAX} grid steps")]
    TooNarrow,
}

/// Most bits a grid is refined by.
pub const REFINE_MAX: u32 = 128;
pub(super) const SCALE_MAX_BITS: u32 = 59;

/// (ceil(2^s n / d), s) for the smallest s >= 0 that brings the first to 2^`min_bits`.
pub(super) fn scale(
    numerator: BigUint,
    denominator: BigUint,
    min_bits: u32,
) -> Result<(u64, u32), CalibrationError> {
    if numerator.is_zero() || denominator.is_zero() {
        return Err(CalibrationError::NotPositive);
    }
    // With n / d < 2^(bits n - bits d + 1), every smaller s gives at most 2^(min_bits - 1), too
    // little.
    let first = (denominator.bits() + u64::from(min_bits)).saturating_sub(numerator.bits() + 1);
    let first = u32::try_from(first)
        .ok()
        .filter(|&s| s <= REFINE_MAX)
        .ok_or(CalibrationError::TooNarrow)?;
    for refine in first..=REFINE_MAX {
        let scale = (&numerator << refine).div_ceil(&denominator);
        if scale.bits() > u64::from(SCALE_MAX_BITS) {
            return Err(CalibrationError::TooWide);
        }
        if scale.bits() > u64::from(min_bits) {
            return Ok((scale.to_u64().ok_or(CalibrationError::TooWide)?, refine));
        }
    }
    Err(CalibrationError::TooNarrow)
}

/// What showing keys by [`super::threshold`] costs on top of the noise: `delta`, once for each
/// thresholded release.
///
/// # Guarantee
///
/// Composed with the loss of the noise. The release is a mixture (1 - d) P' + d P'' on both
/// neighbours, with P' under the noise's own bounds: no e^epsilon multiplies the delta.
///
/// # Reference
///
/// Kairouz, Oh, Viswanath 2015 for the mixture form; [`super::Cap::admits`] for its place in the
/// sum.
pub fn loss_threshold(delta: Fixed) -> Loss {
    Loss {
        delta,
        ..Loss::ZERO
    }
}

#[cfg(test)]
mod tests;
