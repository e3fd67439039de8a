//! Privacy loss in exact integers: what a release costs in each currency at once.

use serde::{Deserialize, Serialize};

/// A non-negative number in units of 2^-60, rounded up where it stands for a loss and down where it
/// stands for a budget.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
pub struct Fixed(pub u128);

impl Fixed {
    pub const BITS: u32 = 60;
    pub const ZERO: Self = Self(0);

    /// Smallest `Fixed` not below `value`. `value` is finite, in [0, 2^60).
    pub fn round_up(value: f64) -> Self {
        assert!(
            value.is_finite() && (0.0..1e18).contains(&value),
            "a loss is finite and not negative"
        );
        // Scaling by a power of two is exact; so is ceil.
        Self((value * (1u64 << Self::BITS) as f64).ceil() as u128)
    }

    /// Largest `Fixed` not above `value`. `value` is finite, in [0, 2^60).
    pub fn round_down(value: f64) -> Self {
        assert!(
            value.is_finite() && (0.0..1e18).contains(&value),
            "a budget is finite and not negative"
        );
        Self((value * (1u64 << Self::BITS) as f64).floor() as u128)
    }

    /// For display only.
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / (1u64 << Self::BITS) as f64
    }

    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

/// The parameter of Gaussian differential privacy, in units of 2^-30, so that its square is exact
/// in units of 2^-60.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mu(pub u64);

impl Mu {
    /// Largest `Mu` not above `value`; at least one unit. `value` is in [2^-30, 2^30].
    pub fn round_down(value: f64) -> Self {
        Self(((value * (1u64 << 30) as f64).floor() as u64).max(1))
    }

    pub fn square(self) -> Fixed {
        Fixed(u128::from(self.0) * u128::from(self.0))
    }

    pub fn to_f64(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }
}

/// What one release (or one debit of several) costs. All components hold at once; an account adds
/// each up by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Pure differential privacy; `None` is infinite (a Gaussian has no pure bound).
    pub epsilon: Option<Fixed>,
    /// Zero-concentrated differential privacy.
    pub rho: Fixed,
    /// Gaussian differential privacy, as the square of mu.
    pub mu_squared: Fixed,
    /// Probability mass outside all of these: thresholds of released keys.
    pub delta: Fixed,
}

impl Loss {
    pub const ZERO: Self = Self {
        epsilon: Some(Fixed::ZERO),
        rho: Fixed::ZERO,
        mu_squared: Fixed::ZERO,
        delta: Fixed::ZERO,
    };

    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Loss of both, in sequence.
    pub fn compose(self, other: Self) -> Option<Self> {
        Some(Self {
            epsilon: match (self.epsilon, other.epsilon) {
                (Some(a), Some(b)) => Some(a.checked_add(b)?),
                (None, _) | (_, None) => None,
            },
            rho: self.rho.checked_add(other.rho)?,
            mu_squared: self.mu_squared.checked_add(other.mu_squared)?,
            delta: self.delta.checked_add(other.delta)?,
        })
    }
}
