//! Whether sums are above thresholds, for one price up to the first that is: AboveThreshold, the
//! sparse vector technique with one positive answer.
//!
//! Sums, noise and thresholds are integers or fractions of integers, so that the law of the answers
//! is exact.

use num_bigint::BigInt;
use zeroize::Zeroizing;

use super::calibration::CalibrationError;
use super::laplace::loss_laplace;
use super::loss::{Fixed, Loss};
use super::noise::{Noise, Sampler};
use super::samplers::{SCALE_LIMIT, SampleError};

/// The noise of the threshold is a multiple of 2^-40 of the sensitivity.
const STEP_BITS: u32 = 40;

/// Which way the sums of an epoch move where a privacy unit is added to the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumDirection {
    /// No sum falls: counts, and sums of values that are not below zero.
    Up,
    /// No sum rises.
    Down,
    /// Any sum may rise or fall.
    Either,
}

impl SumDirection {
    /// Whether a sum that moves this way may be asked about in an epoch of `self`.
    pub fn admits(self, of_sum: Self) -> bool {
        self == Self::Either || self == of_sum
    }

    /// The epsilon at which Laplace noise is calibrated for one question of an epoch.
    ///
    /// # Guarantee
    /// Half of the epoch's epsilon where all sums move the same way, else a quarter, rounded down:
    /// what [`NoisyThreshold::draw`] requires.
    pub fn epsilon_of_question(self, epsilon: Fixed) -> Fixed {
        match self {
            Self::Up | Self::Down => Fixed(epsilon.0 / 2),
            Self::Either => Fixed(epsilon.0 / 4),
        }
    }
}

/// A question whether a sum is above a threshold, in steps of the sum's refined grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThresholdQuestion {
    /// The threshold, a fraction of numerator and positive denominator.
    pub threshold: (BigInt, BigInt),
    /// How far one unit moves the sum at most, in whole steps.
    pub sensitivity: BigInt,
}

/// The noise of all thresholds of one epoch, drawn once and kept secret.
pub struct NoisyThreshold {
    /// In units of 2^-40 of each question's sensitivity.
    noise: Zeroizing<i128>,
}

impl NoisyThreshold {
    /// Draws the noise of an epoch of this epsilon.
    ///
    /// # Guarantee
    /// Let an epoch answer any number of questions by [`Self::is_above`], each chosen after the
    /// earlier answers and over the data as it is then, and end with the first that is above. For
    /// neighbours that differ in all rows of one unit, at all times, its answers together are
    /// `epsilon`-differentially private.
    ///
    /// Proof. Let r be this noise in units of its step s = 2^-40, of scale at least 2 / (s
    /// epsilon), and let question i have the sum q_i, which a unit moves by at most D_i, and noise
    /// of scale at least 4 D_i / epsilon. Answers below mean q_i + n_i < T_i + s r D_i. Replace r
    /// by r + 1/s, which is an integer: an answer below over the neighbour is at least as likely,
    /// at a cost of e^(epsilon / 2). For the last answer, above, replace its noise n by n + 2 D,
    /// at a cost of e^(epsilon / 2): D to follow the threshold and D for the sum. Where all sums
    /// move the same way, one of the two neighbours needs the noise n + D alone, and the other
    /// keeps r and replaces n by n + D: half of the noise of questions is enough.
    ///
    /// # Requires
    /// The noise of each question is an independent draw of [`super::laplace`] for the epoch's
    /// [`SumDirection::epsilon_of_question`], and the question's sensitivity is at most the clip
    /// over the weight of that call. In an epoch whose direction is not `Either`, every sum moves
    /// that way. Nothing but answers leaves, and none after the first that is above.
    ///
    /// # Errors
    /// [`SampleError`]. The charge stands.
    ///
    /// # Reference
    /// Lyu, Su and Li 2017, "Understanding the Sparse Vector Technique for Differential Privacy",
    /// Algorithm 7 with one positive answer, and section 4.3 for monotone queries; Dwork and Roth
    /// 2014, Algorithm 1.
    pub fn draw(epsilon: Fixed, sampler: &mut dyn Sampler) -> Result<Self, SampleError> {
        let scale = scale_of_threshold(epsilon, STEP_BITS).map_err(|_| SampleError::Parameter)?;
        let noise = sampler.sample(&Noise::Laplace { scale })?;
        Ok(Self {
            noise: Zeroizing::new(noise),
        })
    }

    /// Whether a noisy sum is at least the noisy threshold.
    pub fn is_above(&self, noisy: i128, question: &ThresholdQuestion) -> bool {
        is_above((*self.noise, STEP_BITS), noisy, question)
    }
}

/// The cost of an epoch, whatever is asked in it.
///
/// # Guarantee
/// Covers any adaptive use of the epoch among other releases: an interactive mechanism of this
/// epsilon is a post-processing of one randomised bit, which [`loss_laplace`] prices.
///
/// # Reference
/// Vadhan and Wang 2021, "Concurrent Composition of Differential Privacy": interactive mechanisms
/// of pure epsilon are simulated from randomised response.
pub fn loss_of_epoch(epsilon: Fixed) -> Loss {
    loss_laplace(epsilon)
}

/// The scale of the threshold's noise, 2 / epsilon in steps, rounded up.
///
/// # Errors
/// [`CalibrationError`] for an epsilon too small for the samplers.
pub fn check_epoch(epsilon: Fixed) -> Result<(), CalibrationError> {
    scale_of_threshold(epsilon, STEP_BITS).map(|_| ())
}

pub(super) fn scale_of_threshold(epsilon: Fixed, step_bits: u32) -> Result<u64, CalibrationError> {
    let scale = match epsilon.0 {
        0 => None,
        epsilon => Some((1u128 << (step_bits + 1 + Fixed::BITS)).div_ceil(epsilon)),
    };
    scale
        .and_then(|scale| u64::try_from(scale).ok())
        .filter(|scale| *scale < SCALE_LIMIT)
        .ok_or(CalibrationError::TooWide)
}

/// `noisy >= threshold + noise * 2^-step_bits * sensitivity`.
pub(super) fn is_above(
    (noise, step_bits): (i128, u32),
    noisy: i128,
    ThresholdQuestion {
        threshold: (numerator, denominator),
        sensitivity,
    }: &ThresholdQuestion,
) -> bool {
    let of_noise = BigInt::from(noise) * sensitivity;
    ((BigInt::from(noisy) << step_bits) - of_noise) * denominator >= (numerator << step_bits)
}

/// How far from its threshold a sum has to be so that `questions` sums at that distance below it
/// are all answered below but for a chance of 5 %, in units of the sensitivity.
pub fn margin(epsilon: f64, direction: SumDirection, questions: u32) -> f64 {
    let (of_threshold, of_question) = match direction {
        SumDirection::Up | SumDirection::Down => (2.0 / epsilon, 2.0 / epsilon),
        SumDirection::Either => (2.0 / epsilon, 4.0 / epsilon),
    };
    let below = |distance: f64| all_below(distance, (of_threshold, of_question), questions);
    let (mut near, mut far) = (0.0, 100.0 / epsilon * (1.0 + f64::from(questions).ln()));
    for _ in 0..60 {
        let middle = (near + far) / 2.0;
        match below(middle) < 0.95 {
            true => near = middle,
            false => far = middle,
        }
    }
    far
}

/// The chance that all of these sums, at this distance below the threshold, are answered below: an
/// integral over the threshold's noise.
fn all_below(distance: f64, (of_threshold, of_question): (f64, f64), questions: u32) -> f64 {
    const PARTS: i32 = 4_000;
    let step = 40.0 * of_threshold / f64::from(PARTS);
    let at = |part: i32| {
        let noise = (f64::from(part) + 0.5 - f64::from(PARTS) / 2.0) * step;
        let density = (-noise.abs() / of_threshold).exp() / (2.0 * of_threshold);
        let room = (distance + noise) / of_question;
        let below = match room < 0.0 {
            true => room.exp() / 2.0,
            false => 1.0 - (-room).exp() / 2.0,
        };
        density * below.powf(f64::from(questions)) * step
    };
    (0..PARTS).map(at).sum()
}

#[cfg(test)]
mod tests;
