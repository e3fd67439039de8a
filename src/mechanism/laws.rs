//! The table of laws of noise, each in its own file.

use super::noise::Noise;
use super::noise_law::{Law, Norm};
use super::random::Randomness;
use super::samplers::SampleError;
use super::{gaussian, laplace};

/// Which noise a statement's releases take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    Laplace,
    Gaussian,
}

impl Mechanism {
    /// The file of each law.
    pub(super) fn law(self) -> &'static dyn Law {
        match self {
            Self::Laplace => &laplace::LaplaceLaw,
            Self::Gaussian => &gaussian::GaussianLaw,
        }
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        self.law().name()
    }

    /// The norm that its noise hides.
    pub fn norm(self) -> Norm {
        self.law().norm()
    }

    /// The value that a draw of this standard deviation exceeds with this probability.
    pub fn upper_quantile(self, deviation: f64, probability: f64) -> f64 {
        self.law().upper_quantile(deviation, probability)
    }
}

impl Noise {
    /// One fresh, independent draw. Every coordinate of every group takes its own: a draw shared by
    /// two groups cancels in their difference, and breaks the proof of released keys.
    ///
    /// # Errors
    ///
    /// Any [`SampleError`] means no noise, hence no answer; the charge stands.
    pub fn sample(&self, random: &mut dyn Randomness) -> Result<i128, SampleError> {
        let (mechanism, scale) = self.law();
        mechanism.law().sample(scale, random)
    }

    /// Standard error that the noise adds, in steps of the grid; for display.
    pub fn standard_deviation(&self) -> f64 {
        let (mechanism, scale) = self.law();
        mechanism.law().standard_deviation(scale)
    }

    /// The law, and its scale.
    pub(super) fn law(&self) -> (Mechanism, u64) {
        match *self {
            Self::Laplace { scale } => (Mechanism::Laplace, scale),
            Self::Gaussian { sigma } => (Mechanism::Gaussian, sigma),
        }
    }

    pub fn mechanism(&self) -> Mechanism {
        self.law().0
    }
}
