//! Whether a mean over a holdout agrees with a value from other data, and the mean where it does
//! not: Thresholdout, the reusable holdout. Its verdicts are those of [`super::NoisyThreshold`].

use num_bigint::BigUint;
use num_integer::Integer;
use num_traits::{ToPrimitive, Zero};

use super::above_threshold::loss_of_epoch;
use super::calibration::CalibrationError;
use super::laplace::loss_laplace;
use super::loss::{Fixed, Loss};
use super::noise::Noise;
use super::samplers::SCALE_LIMIT;

/// The noise of one question to a holdout, in steps of the sum's refined grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldoutNoise {
    /// Decides whether the sum is far from zero.
    pub question: Noise,
    /// Is added to the sum that is shown.
    pub answer: Noise,
}

/// The noise for a sum that one unit moves by at most `sensitivity` steps.
///
/// # Guarantee
/// Let each question have a sum S, over rows of a value less the analyst's own, which a unit moves
/// by at most D = `sensitivity`, and let the verdict be |S| + `question` >= T + r D, for the
/// epoch's noise r. Up to the first true verdict this is [`super::NoisyThreshold::draw`] over the
/// sums |S|, which a unit moves by at most D, either way: noise of scale 4 D / epsilon, and
/// `epsilon`-differentially private. S + `answer`, of scale D / epsilon, is shown with the true
/// verdict alone, and is `epsilon`-differentially private by itself. Together they cost
/// [`loss_of_holdout`].
///
/// # Errors
/// [`CalibrationError`]; depends on the arguments alone, which are public.
///
/// # Reference
/// Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015, "The reusable holdout: Preserving
/// validity in adaptive data analysis", Thresholdout, with noise of the threshold that is drawn
/// anew after each answer.
pub fn holdout_noise(
    sensitivity: &BigUint,
    epsilon: Fixed,
) -> Result<HoldoutNoise, CalibrationError> {
    if epsilon == Fixed::ZERO || sensitivity.is_zero() {
        return Err(CalibrationError::NotPositive);
    }
    let of_share = |share: u32| {
        let clip: BigUint = (sensitivity * share) << Fixed::BITS;
        let scale = clip.div_ceil(&BigUint::from(epsilon.0)).to_u64();
        match scale.filter(|scale| *scale < SCALE_LIMIT) {
            Some(scale) => Ok(Noise::Laplace { scale }),
            None => Err(CalibrationError::TooWide),
        }
    };
    Ok(HoldoutNoise {
        question: of_share(4)?,
        answer: of_share(1)?,
    })
}

/// The cost of one epoch of a holdout: of its verdicts, and of the answer that ends it. `None`
/// where it is too large to be counted.
///
/// # Guarantee
/// Covers any adaptive use of the epoch among other releases. The verdicts are an interactive
/// mechanism of this epsilon, the answer a release of this epsilon after it; both are paid before
/// the first question is read.
pub fn loss_of_holdout(epsilon: Fixed) -> Option<Loss> {
    loss_of_epoch(epsilon).compose(loss_laplace(epsilon))
}

#[cfg(test)]
mod tests;
