//! Integer noise with its parameter, ready to be drawn.

use super::exponential::{CandidateRun, Exponential};
use super::random::Randomness;
use super::samplers::SampleError;

/// A law of noise on the integers; the unit is one step of the grid that the noised integer
/// lives on.
///
/// Carries no guarantee by itself: [`super::gaussian`] and [`super::laplace`] pair it with the
/// bound that it hides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Noise {
    /// Discrete Laplace, P(x) proportional to exp(-|x| / scale). 1 <= scale < 2^60.
    Laplace { scale: u64 },
    /// A Gaussian of standard deviation sigma, rounded to the nearest integer. 1 <= sigma < 2^60.
    Gaussian { sigma: u64 },
}

/// Where a release draws its noise from: every [`Randomness`], through the exact samplers. Tests
/// stand in for it under `tests/`.
pub trait Sampler {
    /// One independent draw.
    ///
    /// # Errors
    /// [`SampleError`] where the random source fails; nothing is released then.
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError>;

    /// One independent choice: a run of candidates, and the place in it.
    ///
    /// # Errors
    /// [`SampleError`] where the random source fails; nothing is released then.
    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError>;
}

impl<R: Randomness> Sampler for R {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        noise.sample(self)
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        exponential.draw(runs, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64) {
        assert!(
            (actual / expected - 1.0).abs() < 1e-12,
            "{actual} is not {expected}"
        );
    }

    #[test]
    fn standard_deviations_are_those_of_the_laws() {
        for scale in [1u64, 2, 10, 141_304] {
            let r = (-1.0 / scale as f64).exp();
            let close_enough = Noise::Laplace { scale }.standard_deviation()
                / ((2.0 * r).sqrt() / -(-1.0 / scale as f64).exp_m1());
            assert!(
                (close_enough - 1.0).abs() < 1e-10,
                "{scale}: {close_enough}"
            );
        }
        close(
            Noise::Laplace { scale: 1 << 40 }.standard_deviation(),
            2f64.sqrt() * (1u64 << 40) as f64,
        );
        close(
            Noise::Gaussian { sigma: 1 << 40 }.standard_deviation(),
            (1u64 << 40) as f64,
        );
        close(
            Noise::Gaussian { sigma: 1 }.standard_deviation(),
            (13.0f64 / 12.0).sqrt(),
        );
    }
}
