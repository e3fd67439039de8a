//! The hybrid filter: what an account may spend, and whether one more loss fits.

use super::conversion::{mu_of, rho_of};
use super::loss::{Fixed, Loss};

/// The currency in which an account adds up the losses that its epsilons do not cover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accounting {
    /// Sums of mu^2 (Gaussian differential privacy); about 15 % more Gaussian answers than `Zcdp`.
    Gdp,
    /// Sums of rho (zero-concentrated differential privacy).
    Zcdp,
    /// Sums of epsilon alone; no Gaussian is ever admitted.
    Pure,
}

impl Accounting {
    /// The name in policies and ledgers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gdp => "gdp",
            Self::Zcdp => "zcdp",
            Self::Pure => "pure",
        }
    }
}

/// What one account may ever spend: a budget (epsilon, delta) translated once, when the account
/// opens.
///
/// The split of delta is fixed with it. Were the threshold's share to float, the analyst could
/// spend the Gaussian part first and the deltas where they lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    accounting: Accounting,
    epsilon: Fixed,
    rho: Fixed,
    mu_squared: Fixed,
    delta: Fixed,
}

/// No cap can be made of this budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    #[error("epsilon must be positive")]
    Epsilon,
    #[error("delta must be below 1")]
    Delta,
    #[error("the threshold's share of delta must lie in (0, 1)")]
    ThresholdShare,
    /// No mu of 2^-30 or no rho of 2^-60 fits: delta is 0, or epsilon too small for it.
    #[error("epsilon and delta leave nothing for gdp or zcdp accounting")]
    DeltaTooSmall,
}

impl Cap {
    /// The cap of a budget (`epsilon`, `delta`), all three rounded down by the caller.
    ///
    /// `threshold_share` of delta, rounded down, is kept for released keys; the Gaussian branch
    /// gets mu_B and rho_B of the rest. `Pure` has no Gaussian branch to feed, so there keys have
    /// the whole delta, which may be 0.
    ///
    /// # Errors
    ///
    /// [`CapError`] when a parameter is out of range; nothing here is private.
    pub fn new(
        epsilon: Fixed,
        delta: Fixed,
        threshold_share: Fixed,
        accounting: Accounting,
    ) -> Result<Self, CapError> {
        let one = 1u128 << Fixed::BITS;
        if epsilon == Fixed::ZERO {
            return Err(CapError::Epsilon);
        }
        if delta.0 >= one {
            return Err(CapError::Delta);
        }
        if threshold_share == Fixed::ZERO || threshold_share.0 >= one {
            return Err(CapError::ThresholdShare);
        }
        if accounting == Accounting::Pure {
            return Ok(Self {
                accounting,
                epsilon,
                rho: Fixed::ZERO,
                mu_squared: Fixed::ZERO,
                delta,
            });
        }
        let kept = Fixed((delta.0 * threshold_share.0) >> Fixed::BITS);
        let rest = Fixed(delta.0 - kept.0);
        let mu = mu_of(epsilon, rest).ok_or(CapError::DeltaTooSmall)?;
        let rho = rho_of(epsilon, rest).ok_or(CapError::DeltaTooSmall)?;
        Ok(Self {
            accounting,
            epsilon,
            rho,
            mu_squared: mu.square(),
            delta: kept,
        })
    }

    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Most that the epsilons may sum to, on the pure branch.
    pub fn epsilon(&self) -> Fixed {
        self.epsilon
    }

    /// Most that the rhos may sum to, on the other branch under `Zcdp`.
    pub fn rho(&self) -> Fixed {
        self.rho
    }

    /// Most that the squares of mu may sum to, on the other branch under `Gdp`.
    pub fn mu_squared(&self) -> Fixed {
        self.mu_squared
    }

    /// Most that the thresholds' deltas may sum to.
    pub fn delta(&self) -> Fixed {
        self.delta
    }

    /// The most questions that the account pays for, where each costs at least what `least` is
    /// worth at `delta`.
    ///
    /// # Guarantee
    ///
    /// A question has at least the mu of `least`, hence at least its rho; Laplace noise of that
    /// error has √2 mu of epsilon or more, and an exponential mechanism of that mu more. The last
    /// one that is admitted is admitted by one of the sums, which all before it are in: there are
    /// at most as many as fit the roomier of them.
    pub fn questions(&self, least: Fixed, delta: Fixed) -> u64 {
        let fit = |cap: Fixed, each: f64| (cap.to_f64() / each * (1.0 + 1e-6)).floor() as u64;
        let gaussian = |cap: Fixed, share: f64| {
            let Some(mu) = mu_of(least, delta).map(|mu| mu.to_f64()) else {
                return u64::MAX;
            };
            fit(cap, mu * mu * share).max(fit(self.epsilon, std::f64::consts::SQRT_2 * mu))
        };
        match self.accounting {
            Accounting::Gdp => gaussian(self.mu_squared, 1.0),
            Accounting::Zcdp => gaussian(self.rho, 0.5),
            Accounting::Pure => fit(self.epsilon, least.to_f64()),
        }
    }

    /// Whether an account that has `spent` this much may lose `next` as well.
    ///
    /// True iff the deltas fit and either the epsilons fit or, by accounting, the mu^2 or the rhos
    /// fit. A loss of zero shows nothing private and always fits.
    ///
    /// # Guarantee
    ///
    /// However adaptively the analyst chooses questions and mechanisms, the whole transcript of
    /// admitted answers and refusals is (epsilon_B, delta_B)-differentially private for the budget
    /// of [`Cap::new`]. Sketch: write P and Q for the transcript on two neighbours; with
    /// probability at most the thresholds' deltas some step left its bounds. Otherwise transcripts
    /// that end within the epsilons have P <= e^epsilon Q and contribute nothing to the integral of
    /// (P - e^epsilon Q)+. All others end, and since sums only grow have always been, within
    /// mu_B^2: on them the interaction equals one that the plain GDP filter cuts off, whose whole
    /// integral is at most delta(mu_B, epsilon_B) = delta_B minus the kept share.
    ///
    /// # Requires
    ///
    /// `spent` is the exact sum of every loss admitted before under this same cap; each loss holds
    /// conditionally on everything shown before it; debits of one account are serialised. The share
    /// of delta kept for thresholds is fixed for the life of the account; where epsilon or delta of
    /// a budget change, what holds is the larger pair ever in force.
    ///
    /// # Reference
    ///
    /// The GDP filter: Smith, Thakurta 2022 (arXiv 2210.17520). Two branches at once: the sketch
    /// above, ours. zCDP: Whitehouse et al. 2023 (arXiv 2203.05481); pure: Rogers et al. 2016
    /// (arXiv 1605.08294).
    pub fn admits(&self, spent: &Loss, next: &Loss) -> bool {
        if next.is_zero() {
            return true;
        }
        // A sum past 128 bits is past every cap.
        let Some(total) = spent.compose(*next) else {
            return false;
        };
        let pure_fits = total.epsilon.is_some_and(|epsilon| epsilon <= self.epsilon);
        let branch_fits = match self.accounting {
            Accounting::Gdp => pure_fits || total.mu_squared <= self.mu_squared,
            Accounting::Zcdp => pure_fits || total.rho <= self.rho,
            Accounting::Pure => pure_fits,
        };
        branch_fits && total.delta <= self.delta
    }
}

#[cfg(test)]
mod tests;
