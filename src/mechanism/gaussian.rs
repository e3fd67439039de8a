//! Gaussian noise, rounded to integers: hides an L2 norm, and costs a mu of Gaussian differential
//! privacy.

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::ToPrimitive;

use super::calibration::{Calibrated, CalibrationError, SCALE_MAX_BITS, scale};
use super::loss::{Fixed, Loss, Mu};
use super::noise::Noise;
use super::noise_law::{self, Norm, QUANTILE_MARGIN};
use super::normal::isf;
use super::random::{Parts, Randomness};
use super::samplers::{SampleError, rounded_gaussian};

/// Rounding sigma up to an integer widens it by at most 2^-30 of itself.
const SIGMA_MIN_BITS: u32 = 30;

pub(super) struct GaussianLaw;

impl noise_law::Law for GaussianLaw {
    fn name(&self) -> &'static str {
        "Gaussian"
    }

    fn norm(&self) -> Norm {
        Norm::L2
    }

    fn quantile_95(&self) -> f64 {
        1.959_964
    }

    fn upper_quantile(&self, deviation: f64, probability: f64) -> f64 {
        deviation * isf(probability)
    }

    fn tail_distance(&self, sigma: u64, probability: f64) -> f64 {
        sigma as f64 * isf(probability) * (1.0 + QUANTILE_MARGIN) + 0.5
    }

    /// Rounding to integers adds the variance 1/12 of a uniform, up to exp(-2 pi^2 sigma^2).
    fn standard_deviation(&self, sigma: u64) -> f64 {
        (sigma as f64).hypot((1.0f64 / 12.0).sqrt())
    }

    fn sample(&self, sigma: u64, random: &mut dyn Randomness) -> Result<i128, SampleError> {
        rounded_gaussian(sigma, &mut Parts::new(random))
    }
}

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
    Ok(Calibrated::by_its_law(
        Noise::Gaussian { sigma: scale },
        refine,
    ))
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
    Ok(Calibrated::by_its_law(Noise::Gaussian { sigma }, refine))
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
    let mu_squared = mu.square();
    Loss {
        epsilon: None,
        rho: Fixed(mu_squared.0.div_ceil(2)),
        mu_squared,
        delta: Fixed::ZERO,
    }
}
