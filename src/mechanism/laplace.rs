//! Discrete Laplace noise: hides an L1 norm, and costs a pure epsilon.

use num_bigint::BigUint;

use super::calibration::{Calibrated, CalibrationError, scale};
use super::loss::{Fixed, Loss};
use super::noise::Noise;
use super::noise_law::{self, Norm, QUANTILE_MARGIN};
use super::normal::{centred_quantile, isf};
use super::random::{Parts, Randomness};
use super::samplers::{SampleError, discrete_laplace};

/// Rounding the scale up to an integer widens it by at most 2^-20 of itself.
const SCALE_MIN_BITS: u32 = 20;

pub(super) struct LaplaceLaw;

impl noise_law::Law for LaplaceLaw {
    fn name(&self) -> &'static str {
        "Laplace"
    }

    fn norm(&self) -> Norm {
        Norm::L1
    }

    /// A Laplace tail is e^(-x / b) with b = error / sqrt 2. Sums of Laplace noises are closer to
    /// normal.
    fn quantile_95(&self) -> f64 {
        20f64.ln() / std::f64::consts::SQRT_2
    }

    fn upper_quantile(&self, deviation: f64, probability: f64) -> f64 {
        deviation * std::f64::consts::FRAC_1_SQRT_2 * -(2.0 * probability).ln()
    }

    fn tail_distance(&self, scale: u64, probability: f64) -> f64 {
        let scale = scale as f64;
        -scale * (probability.ln() + (-1.0 / scale).exp().ln_1p()) * (1.0 + QUANTILE_MARGIN)
    }

    /// The variance 2r / (1 - r)^2 with r = exp(-1 / scale) is 1 / (2 sinh^2(1 / (2 scale))), which
    /// does not cancel.
    fn standard_deviation(&self, scale: u64) -> f64 {
        std::f64::consts::FRAC_1_SQRT_2 / (0.5 / scale as f64).sinh()
    }

    fn sample(&self, scale: u64, random: &mut dyn Randomness) -> Result<i128, SampleError> {
        discrete_laplace(scale, &mut Parts::new(random))
    }
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
    Ok(Calibrated::by_its_law(Noise::Laplace { scale }, refine))
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
