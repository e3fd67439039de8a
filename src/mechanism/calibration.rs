//! Turns a proved norm bound into integer noise, and says what the noise costs.
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

use super::loss::{Fixed, Loss, Mu};
use super::noise::Noise;
use super::normal::{centred_quantile, isf};

/// Noise that hides one unit's contribution to one coordinate, and the grid it is drawn on. Made
/// by [`gaussian`] and [`laplace`] alone.
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

/// No noise of the supported range hides this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    #[error("clip, weight and privacy parameter must be positive")]
    NotPositive,
    /// The scale would reach 2^59 steps of the grid: the grid is too fine for a bound this wide or
    /// a budget this small.
    #[error("noise scale past 2^59 lattice units")]
    TooWide,
    /// The grid would be refined by more than [`REFINE_MAX`] bits: the bound is far below one
    /// step of the grid.
    #[error("noise scale below 2^-{REFINE_MAX} lattice units")]
    TooNarrow,
}

/// Most bits a grid is refined by.
pub const REFINE_MAX: u32 = 128;
/// Rounding sigma up to an integer widens it by at most 2^-30 of itself.
const SIGMA_MIN_BITS: u32 = 30;
/// Rounding the scale up to an integer widens it by at most 2^-20 of itself.
const SCALE_MIN_BITS: u32 = 20;
const SCALE_MAX_BITS: u32 = 59;

/// Gaussian noise for one coordinate: the smallest s >= 0 with S = ceil(2^s C / (F mu)) >= 2^30; S
/// < 2^59.
///
/// # Guarantee
///
/// For neighbours that differ in all rows of one unit, the release of every coordinate with its own
/// calibrated draw, all for one C and one mu, is mu-GDP. Proof: S_j >= 2^(s_j) C / (F_j mu)
/// exactly, hence sum (2^(s_j) v_j / S_j)^2 <= (mu / C)^2 sum (F_j v_j)^2 <= mu^2. So the ideal
/// release, with real Gaussians of deviation S_j, is mu-GDP: it is N(w, I) against N(0, I) with |w|
/// <= mu. The exact rounded Gaussian is a function of it, coordinate by coordinate, since 2^(s_j)
/// T_j is an integer; post-processing keeps mu-GDP.
///
/// # Requires
///
/// The caller has proved the L2 bound of the module's model for `clip` and this coordinate's
/// `weight`. Independent draws.
///
/// # Errors
///
/// [`CalibrationError`]; depends on the arguments alone, which are public.
///
/// # Reference
///
/// Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 2.7 and Proposition 2.8; Smith, Thakurta 2022
/// (arXiv 2210.17520) for adaptive composition.
pub fn gaussian(clip: &BigUint, weight: &BigUint, mu: Mu) -> Result<Calibrated, CalibrationError> {
    let (scale, refine) = scale(clip << 30u32, weight * mu.0, SIGMA_MIN_BITS)?;
    Ok(Calibrated {
        noise: Noise::Gaussian { sigma: scale },
        refine,
        made_here: (),
    })
}

/// [`gaussian`] on a grid that is refined by at least `finer` bits, as far as the scale has room:
/// for sums of which a part is scaled by a factor in steps of 2^-s.
///
/// # Guarantee
///
/// That of [`gaussian`]: S = ceil(2^s C / (F mu)) for the refinement s that is returned, whatever
/// it is.
///
/// # Requires
///
/// As [`gaussian`].
///
/// # Errors
///
/// As [`gaussian`].
///
/// # Reference
///
/// As [`gaussian`].
pub fn gaussian_finer(
    clip: &BigUint,
    weight: &BigUint,
    mu: Mu,
    finer: u32,
) -> Result<Calibrated, CalibrationError> {
    let (numerator, denominator) = (clip << 30u32, weight * mu.0);
    let (coarse, least) = scale(numerator.clone(), denominator.clone(), SIGMA_MIN_BITS)?;
    let room = SCALE_MAX_BITS.saturating_sub(u64::BITS - coarse.leading_zeros());
    let refine = least + finer.saturating_sub(least).min(room);
    let sigma = (numerator << refine)
        .div_ceil(&denominator)
        .to_u64()
        .ok_or(CalibrationError::TooWide)?;
    Ok(Calibrated {
        noise: Noise::Gaussian { sigma },
        refine,
        made_here: (),
    })
}

/// Laplace noise for one coordinate: the smallest s >= 0 with b = ceil(2^s C / (F epsilon)) >=
/// 2^20; b < 2^59.
///
/// # Guarantee
///
/// For neighbours that differ in all rows of one unit, the release of every coordinate with its own
/// calibrated draw, all for one C and one epsilon, is epsilon-differentially private. Proof: the
/// log-ratio of the probabilities of any outcome is at most sum 2^(s_j) |v_j| / b_j, and b_j >=
/// 2^(s_j) C / (F_j epsilon) exactly, hence it is at most (epsilon / C) sum |F_j v_j| <= epsilon.
///
/// # Requires
///
/// The caller has proved the **L1** bound of the module's model for `clip` and this coordinate's
/// `weight`: an L2 norm must never come here. Independent draws.
///
/// # Errors
///
/// [`CalibrationError`]; depends on the arguments alone, which are public.
///
/// # Reference
///
/// Ghosh, Roughgarden, Sundararajan 2009 (geometric mechanism); Canonne, Kamath, Steinke 2020,
/// section 5.
pub fn laplace(
    clip: &BigUint,
    weight: &BigUint,
    epsilon: Fixed,
) -> Result<Calibrated, CalibrationError> {
    let (scale, refine) = scale(clip << Fixed::BITS, weight * epsilon.0, SCALE_MIN_BITS)?;
    Ok(Calibrated {
        noise: Noise::Laplace { scale },
        refine,
        made_here: (),
    })
}

/// (ceil(2^s n / d), s) for the smallest s >= 0 that brings the first to 2^`min_bits`.
fn scale(
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

/// What a mu-GDP Gaussian release costs: no pure epsilon, rho = mu^2 / 2 rounded up, mu^2 exact, no
/// delta.
///
/// # Guarantee
///
/// Every component holds at once for a release of [`gaussian`] noise at this mu.
///
/// # Reference
///
/// Bun, Steinke 2016 (arXiv 1605.02065), Proposition 1.6; Dong, Roth, Su 2019, Theorem 2.7.
pub fn loss_gaussian(mu: Mu) -> Loss {
    let mu_squared = mu.squared();
    Loss {
        epsilon: None,
        rho: Fixed(mu_squared.0.div_ceil(2)),
        mu_squared,
        delta: Fixed::ZERO,
    }
}

/// Relative margin on rho and mu of a pure release: formula, function and conversion errors are
/// below 1e-12 together.
const PURE_MARGIN: f64 = 1e-11;
/// Above this the closed forms give way to the bounds rho <= epsilon and mu^2 <= 8 epsilon.
const PURE_EPSILON_MAX: f64 = 600.0;

/// What a pure epsilon-differentially private release costs, by whatever mechanism.
///
/// # Guarantee
///
/// rho = epsilon tanh(epsilon / 2) and mu = 2 `quantile`(e^epsilon / (1 + e^epsilon)), both rounded
/// up, hold for **every** epsilon-DP mechanism: they are those of randomised response, which all
/// others are post-processings of. (The smaller rho = epsilon + e^-epsilon - 1 holds only for
/// continuous Laplace noise on a scalar; not used.) Past epsilon = 600 the upper bounds rho <=
/// epsilon and mu^2 <= 8 epsilon stand in; mu^2 <= 8 epsilon follows from P(N > x) <= exp(-x^2 / 2)
/// / 2.
///
/// # Reference
///
/// Kairouz, Oh, Viswanath 2015 (randomised response dominates); Bun, Steinke 2016, Proposition 3.3;
/// the tanh form is that of randomised response, which the tests compare order by order.
pub fn loss_laplace(epsilon: Fixed) -> Loss {
    let value = epsilon.to_f64();
    let (rho, mu_squared) = if value > PURE_EPSILON_MAX {
        (epsilon, Fixed(epsilon.0.saturating_mul(8)))
    } else {
        let rho = value * (0.5 * value).tanh();
        let mu = 2.0 * half_mu(value);
        (
            Fixed::round_up(rho * (1.0 + PURE_MARGIN)),
            Fixed::round_up(mu * mu * (1.0 + 2.0 * PURE_MARGIN)),
        )
    };
    Loss {
        epsilon: Some(epsilon),
        rho,
        mu_squared,
        delta: Fixed::ZERO,
    }
}

/// `quantile`(e^epsilon / (1 + e^epsilon)): the x with P(|N| <= x) = tanh(epsilon / 2), by
/// whichever side keeps its digits.
fn half_mu(epsilon: f64) -> f64 {
    if epsilon < 1.0 {
        centred_quantile((0.5 * epsilon).tanh())
    } else {
        isf(1.0 / (1.0 + epsilon.exp()))
    }
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
