//! The guarantee that a budget, or the spending so far, gives to units that act together: a
//! household, or one unit whose rows are replaced by others (which is two: one that leaves and one
//! that comes).
//!
//! All of it is for display, and is rounded so that a promise is never overstated.

use super::conversion::{delta_of_mu, delta_of_rho, epsilon_of_mu, epsilon_of_rho};
use super::loss::{Fixed, Loss};
use super::normal::{isf, sf};
use super::privacy_filter::{Accounting, Cap};

/// The numbers of units that are shown.
pub const UNITS: [u32; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 50, 100];

/// The share of false alarms for which [`Meaning::power`] is given.
pub const FALSE_ALARMS: f64 = 0.05;

/// Wider than the rounding of one step through the normal law: see [`isf`].
const MARGIN: f64 = 1e-8;

/// What holds for some units together.
///
/// # Guarantee
///
/// With probability 1 - `delta`, whatever is answered is at most e^`epsilon_at_delta` times as
/// likely as without them.
///
/// # Reference
///
/// Group privacy: Dong, Roth, Su 2019, Theorem 2.14 (k mu); Bun, Steinke 2016, Proposition 27 (k²
/// rho). Odds: Kasiviswanathan, Smith 2014. Power: Kairouz, Oh, Viswanath 2017, Theorem 2.1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meaning {
    pub units: u32,
    /// The pure bound; `None` where there is no such bound.
    pub epsilon: Option<f64>,
    /// The bound in Gaussian differential privacy; `None` where there is no such bound.
    pub mu: Option<f64>,
    /// `None` where nothing is promised: `delta` is 1, or epsilon is past every use.
    pub epsilon_at_delta: Option<f64>,
    pub delta: f64,
    /// The largest chance to detect the units by a test that is wrong in [`FALSE_ALARMS`] of the
    /// cases without them.
    pub power: f64,
}

impl Meaning {
    /// How much the odds of any suspicion may change: they are multiplied or divided by at most
    /// this.
    pub fn odds(&self) -> Option<f64> {
        self.epsilon_at_delta
            .map(f64::exp)
            .filter(|odds| odds.is_finite())
    }

    /// How sure somebody can become at most whose certainty was `prior` before.
    pub fn posterior(&self, prior: f64) -> f64 {
        let Some(epsilon) = self.epsilon_at_delta else {
            return 1.0;
        };
        // Written with e^-epsilon, which does not overflow.
        prior / (prior + (1.0 - prior) * (-epsilon).exp())
    }

    /// The part of a budget's delta that noise may take; the rest is for thresholds.
    pub fn delta_of_noise(cap: &Cap) -> Fixed {
        match cap.accounting() {
            Accounting::Gdp => delta_of_mu(cap.mu_squared(), cap.epsilon()),
            Accounting::Zcdp => delta_of_rho(cap.rho(), cap.epsilon()),
            Accounting::Pure => Fixed::ZERO,
        }
    }

    /// What a whole budget means.
    ///
    /// An account may be spent within its pure epsilon or within mu² (rho under `zcdp`), so the
    /// weaker of both is what holds.
    ///
    /// # Guarantee
    ///
    /// Of [`Cap::admits`]: transcripts that end within the pure epsilon are at most e^(k epsilon)
    /// times as likely; all others are those of a filter that admits mu² alone, which is k mu for
    /// k units. Keys found by threshold: see [`showing_chance`].
    pub fn of_budget(cap: &Cap, units: u32) -> Self {
        let one = cap.epsilon().to_f64();
        let epsilon = one * f64::from(units);
        let keys = cap.delta().to_f64();
        let pure = |a: f64| one.exp() * a;
        match cap.accounting() {
            Accounting::Pure => {
                let shown = showing_chance(keys, units, pure);
                Self {
                    epsilon: Some(epsilon),
                    mu: None,
                    ..Self::pair(units, Some(epsilon), shown)
                }
            }
            Accounting::Gdp => {
                let squared = cap.mu_squared();
                let rest = Self::delta_of_noise(cap);
                let mu = squared.to_f64().sqrt();
                // Up to here the Gaussian's curve is steeper than e^epsilon.
                let turn = sf(one / mu + 0.5 * mu);
                let step = |a: f64| match a <= turn {
                    true => lift(a, mu),
                    false => pure(a) + rest.to_f64(),
                };
                let shown = showing_chance(keys, units, step);
                let of_mu = epsilon_of_mu(grow(squared, units), rest);
                let weaker = of_mu.map(|of_mu| of_mu.to_f64().max(epsilon));
                let mu = mu * f64::from(units);
                let least = delta_of_mu(grow(squared, units), Fixed::round_up(epsilon));
                let power =
                    gaussian_power(mu, shown).max(pair_power(epsilon, least.to_f64() + shown));
                Self {
                    mu: Some(mu),
                    power,
                    ..Self::pair(units, weaker, rest.to_f64() + shown)
                }
            }
            Accounting::Zcdp => {
                let rho = cap.rho();
                let rest = Self::delta_of_noise(cap);
                let step = |a: f64| pure(a) + concentrate(a, rho.to_f64()).min(rest.to_f64());
                let shown = showing_chance(keys, units, step);
                let of_rho = epsilon_of_rho(grow(rho, units), rest);
                let weaker = of_rho.map(|of_rho| of_rho.to_f64().max(epsilon));
                Self::pair(units, weaker, rest.to_f64() + shown)
            }
        }
    }

    /// What a budget means that was spent whole in each of several periods, for one unit: the
    /// epsilons and the deltas add up.
    pub fn of_periods(cap: &Cap, periods: u32) -> Self {
        let one = Self::of_budget(cap, 1);
        let times = f64::from(periods);
        let epsilon = one.epsilon_at_delta.map(|epsilon| epsilon * times);
        Self {
            epsilon: one.epsilon.and(epsilon),
            ..Self::pair(1, epsilon, one.delta * times)
        }
    }

    /// What was lost so far. All components of a loss hold at once, so the strongest is given, at
    /// the `delta` that the budget leaves to noise.
    ///
    /// `keyed` are the parts of `spent` that showed keys by threshold, each with all that the same
    /// statement cost. What is missing there is taken as one part of the whole cost, the weakest
    /// that it can be.
    ///
    /// # Guarantee
    ///
    /// As of [`epsilon_of_mu`]: a description of what was spent, for an analyst who did not choose
    /// when to look at it.
    pub fn of_books(spent: &Loss, keyed: &[Loss], delta: Fixed, units: u32) -> Self {
        let known = keyed
            .iter()
            .fold(0u128, |sum, loss| sum.saturating_add(loss.delta.0));
        let missing = Loss {
            delta: Fixed(spent.delta.0.saturating_sub(known)),
            ..*spent
        };
        let parts = keyed.iter().chain(std::iter::once(&missing));
        let shown: f64 = parts
            .map(|loss| shown_by(loss, units))
            .sum::<f64>()
            .min(1.0);
        let epsilon = spent.epsilon.map(|one| one.to_f64() * f64::from(units));
        let mu = spent.mu_squared.to_f64().sqrt() * f64::from(units);
        let at = |found: Option<Fixed>| found.map(|epsilon| (epsilon.to_f64(), delta.to_f64()));
        let bounds = [
            epsilon.map(|epsilon| (epsilon, 0.0)),
            at(epsilon_of_mu(grow(spent.mu_squared, units), delta)),
            at(epsilon_of_rho(grow(spent.rho, units), delta)),
        ];
        let strongest = bounds
            .into_iter()
            .flatten()
            .min_by(|a, b| a.0.total_cmp(&b.0));
        let (strongest, rest) = strongest.map_or((None, 0.0), |(e, rest)| (Some(e), rest));
        let pure = epsilon.map_or(1.0, |epsilon| pair_power(epsilon, shown));
        Self {
            epsilon,
            mu: Some(mu),
            power: gaussian_power(mu, shown).min(pure),
            ..Self::pair(units, strongest, rest + shown)
        }
    }

    /// (epsilon, delta) alone.
    fn pair(units: u32, epsilon: Option<f64>, delta: f64) -> Self {
        let delta = delta.min(1.0);
        let epsilon_at_delta = epsilon.filter(|_| delta < 1.0);
        Self {
            units,
            epsilon: None,
            mu: None,
            epsilon_at_delta,
            delta,
            power: epsilon_at_delta.map_or(1.0, |epsilon| pair_power(epsilon, delta)),
        }
    }
}

/// mu² or rho for k units: k² times as much.
fn grow(one: Fixed, units: u32) -> Fixed {
    Fixed(one.0.saturating_mul(u128::from(units).pow(2)))
}

/// The chance that the units show a group in which there is nobody else.
///
/// A threshold hides one unit's groups but for a chance of `delta`. Several units in one group lift
/// its count together, so the chance grows by far more than their number.
///
/// # Guarantee
///
/// Take the units in one by one. Without any the event has no chance. One more unit changes the
/// release by what `step` bounds, except with a chance of `delta`: an event of chance a has at most
/// `delta` + `step`(a) after. That holds for whatever shares the units' groups have, and whatever
/// else the release shows.
///
/// # Requires
///
/// `step` maps 0 to 0 and increases.
fn showing_chance(delta: f64, units: u32, step: impl Fn(f64) -> f64) -> f64 {
    let mut chance = 0.0;
    for _ in 0..units {
        let before = match chance > 0.0 {
            true => step(chance) * (1.0 + MARGIN),
            false => 0.0,
        };
        chance = (delta + before).min(1.0);
    }
    chance
}

/// The chance for one debit, by the tightest of the bounds that its loss gives.
fn shown_by(loss: &Loss, units: u32) -> f64 {
    let mu = loss.mu_squared.to_f64().sqrt();
    let rho = loss.rho.to_f64();
    let pure = |a: f64| loss.epsilon.map_or(1.0, |one| one.to_f64().exp() * a);
    let step = |a: f64| lift(a, mu).min(concentrate(a, rho)).min(pure(a));
    showing_chance(loss.delta.to_f64(), units, step)
}

/// The most that the chance of an event can be on one side of mu-GDP whose chance on the other is
/// `a`.
fn lift(a: f64, mu: f64) -> f64 {
    if a <= 0.0 {
        0.0
    } else if a >= 1.0 {
        1.0
    } else {
        sf(isf(a) - mu)
    }
}

/// `lift` for rho-zCDP: the logarithm of the result is -(sqrt(ln 1/a) - sqrt rho)², by the best
/// order of the Rényi divergence.
fn concentrate(a: f64, rho: f64) -> f64 {
    if a <= 0.0 {
        return 0.0;
    }
    let length = -a.min(1.0).ln();
    if length <= rho {
        return 1.0;
    }
    (-(length.sqrt() - rho.sqrt()).powi(2)).exp()
}

fn gaussian_power(mu: f64, delta: f64) -> f64 {
    (lift(FALSE_ALARMS, mu) + delta).min(1.0)
}

/// The power of the best test under (epsilon, delta)-differential privacy.
fn pair_power(epsilon: f64, delta: f64) -> f64 {
    let near = epsilon.exp() * FALSE_ALARMS + delta;
    let far = 1.0 - (-epsilon).exp() * (1.0 - delta - FALSE_ALARMS);
    near.min(far).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests;
