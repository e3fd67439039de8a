//! Translates between (epsilon, delta), zCDP and GDP, always against the analyst.
//!
//! Deltas and epsilons of a given loss are rounded up, losses that fit a given (epsilon, delta)
//! down. Each search ends at a point at which the *upper bound* of delta, computed with its margin,
//! was seen to fit: no accuracy of the search itself is trusted.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::loss::{Fixed, Mu};
use super::normal::sf;

/// Relative error of conversions between `Fixed` and `f64`, twice over.
const CONVERSION_MARGIN: f64 = 4.5e-16;
/// Searches for epsilon, rho and mu end here: no account is that large.
const SEARCH_LIMIT_BITS: u32 = 20;

/// The delta of mu-GDP at `epsilon`, rounded up: Phi(-epsilon/mu + mu/2) - e^epsilon
/// Phi(-epsilon/mu - mu/2).
///
/// `mu_squared` is one release's `Mu::square` or an account's sum.
///
/// # Guarantee
///
/// Everything mu-GDP is (epsilon, delta)-DP at the returned delta. Error margin: see
/// `delta_of_mu_bound`; at (1, 1e-6) it is 1e-12 relative.
///
/// # Reference
///
/// Dong, Roth, Su 2019, Corollary 2.13; Balle, Wang 2018 (arXiv 1805.06530), Theorem 8.
pub fn delta_of_mu(mu_squared: Fixed, epsilon: Fixed) -> Fixed {
    Fixed::round_up(delta_of_mu_bound(
        mu_upper(mu_squared),
        epsilon_lower(epsilon),
    ))
}

/// The largest mu whose GDP implies (`epsilon`, `delta`)-DP, rounded down to 2^-30; `None` when
/// there is none that large.
///
/// # Guarantee
///
/// Everything [`Mu`]-GDP at the returned value is (epsilon, delta)-DP; so is everything composed
/// within its square (Smith, Thakurta 2022).
///
/// # Reference
///
/// As [`delta_of_mu`], which increases in mu.
pub fn mu_of(epsilon: Fixed, delta: Fixed) -> Option<Mu> {
    // A question asks for the same few again and again.
    FOUND.with_borrow_mut(|found| {
        let is_it = |known: &&FoundMu| known.epsilon == epsilon && known.delta == delta;
        if let Some(known) = found.iter().find(is_it) {
            return known.mu;
        }
        let mu = search_mu(epsilon, delta);
        if found.len() == FOUND_MAX {
            found.pop_back();
        }
        found.push_front(FoundMu { epsilon, delta, mu });
        mu
    })
}

/// A result of [`mu_of`].
struct FoundMu {
    epsilon: Fixed,
    delta: Fixed,
    mu: Option<Mu>,
}

/// How many results each thread keeps.
const FOUND_MAX: usize = 16;

thread_local! {
    static FOUND: RefCell<VecDeque<FoundMu>> = RefCell::default();
}

fn search_mu(epsilon: Fixed, delta: Fixed) -> Option<Mu> {
    let epsilon = epsilon_lower(epsilon);
    let delta = delta_lower(delta);
    let fits =
        |units: u128| delta_of_mu_bound(units as f64 / (1u64 << 30) as f64, epsilon) <= delta;
    let units = largest(1 << (30 + SEARCH_LIMIT_BITS), fits)?;
    u64::try_from(units).ok().map(Mu)
}

/// The least epsilon that mu-GDP implies at `delta`, rounded up; for display. `None` when it is
/// past 2^20 or there is none (delta is 0).
///
/// # Guarantee
///
/// Holds for a `mu_squared` and a `delta` fixed beforehand. As a meter of what an adaptive analyst
/// has spent so far it is a description only: the filter of [`super::Cap`] is what binds.
///
/// # Reference
///
/// As [`delta_of_mu`], which decreases in epsilon.
pub fn epsilon_of_mu(mu_squared: Fixed, delta: Fixed) -> Option<Fixed> {
    let mu = mu_upper(mu_squared);
    let delta = delta_lower(delta);
    smallest(|epsilon| delta_of_mu_bound(mu, epsilon_lower(Fixed(epsilon))) <= delta).map(Fixed)
}

/// The delta of rho-zCDP at `epsilon`, rounded up.
///
/// # Guarantee
///
/// Everything rho-zCDP is (epsilon, delta)-DP at the returned delta. Error margin: see
/// `delta_of_rho_bound`; at (1, 1e-6) it is 1e-12 relative.
///
/// # Reference
///
/// Canonne, Kamath, Steinke 2020, Corollary 13: delta = min over a > 1 of exp((a - 1)(a rho -
/// epsilon)) / (a - 1) (1 - 1/a)^a. Every a gives a valid delta, so an imperfect minimum only
/// wastes.
pub fn delta_of_rho(rho: Fixed, epsilon: Fixed) -> Fixed {
    Fixed::round_up(delta_of_rho_bound(rho_upper(rho), epsilon_lower(epsilon)))
}

/// The largest rho whose zCDP implies (`epsilon`, `delta`)-DP by [`delta_of_rho`], rounded down to
/// 2^-60; `None` when there is none that large.
///
/// # Guarantee
///
/// Everything rho-zCDP at the returned value is (epsilon, delta)-DP.
///
/// # Reference
///
/// As [`delta_of_rho`], which increases in rho.
pub fn rho_of(epsilon: Fixed, delta: Fixed) -> Option<Fixed> {
    let epsilon = epsilon_lower(epsilon);
    let delta = delta_lower(delta);
    largest(1 << (Fixed::BITS + SEARCH_LIMIT_BITS), |rho| {
        delta_of_rho_bound(rho_upper(Fixed(rho)), epsilon) <= delta
    })
    .map(Fixed)
}

/// The least epsilon that rho-zCDP implies at `delta`, rounded up; for display. `None` when it is
/// past 2^20 or there is none (delta is 0).
///
/// # Guarantee
///
/// As [`epsilon_of_mu`]: for a `rho` and a `delta` fixed beforehand.
///
/// # Reference
///
/// As [`delta_of_rho`], which decreases in epsilon.
pub fn epsilon_of_rho(rho: Fixed, delta: Fixed) -> Option<Fixed> {
    let rho = rho_upper(rho);
    let delta = delta_lower(delta);
    smallest(|epsilon| delta_of_rho_bound(rho, epsilon_lower(Fixed(epsilon))) <= delta).map(Fixed)
}

/// Upper bound of the delta of mu-GDP at epsilon.
///
/// The two tails are each off by at most `margin` of themselves, with b the larger argument: 6e-16
/// (b + 1)^2 from the arguments' rounding (a tail's condition number is about b^2), the same again
/// from inputs rounded to f64, 1e-14 from erfc and exp (epsilon <= b^2 / 2). The bound takes the
/// first tail up and the second down by it. Where the second nears underflow or e^epsilon overflow
/// it is left out: it only ever lowers delta.
fn delta_of_mu_bound(mu: f64, epsilon: f64) -> f64 {
    if mu == 0.0 {
        return 0.0;
    }
    let (a, b) = (epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu);
    let margin = (1e-14 + 2e-15 * (b + 1.0) * (b + 1.0)).min(1.0);
    let far = sf(b);
    let second = if epsilon < 700.0 && far > 1e-290 {
        epsilon.exp() * far * (1.0 - margin)
    } else {
        0.0
    };
    // 1e-290 covers a first tail that underflowed: only mu = 0 has delta 0.
    (sf(a) * (1.0 + margin) + 1e-290 - second).clamp(0.0, 1.0)
}

/// Upper bound of the delta of rho-zCDP at epsilon, at a nearly best a = 1 + c.
///
/// ln delta = c ((1 + c) rho - epsilon - ln(1 + 1/c)) - ln(1 + c), stationary where (1 + 2c) rho -
/// epsilon - ln(1 + 1/c) = 0, whose left side increases in c from minus infinity and is positive at
/// c = (epsilon + 1) / (2 rho) + 1. Margin: 4e-15 of the sum of all terms' sizes, ten roundings
/// each.
fn delta_of_rho_bound(rho: f64, epsilon: f64) -> f64 {
    if rho == 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, (epsilon + 1.0) / (2.0 * rho) + 1.0);
    for _ in 0..90 {
        let c = 0.5 * (low + high);
        if (1.0 + 2.0 * c) * rho - epsilon - (1.0 / c).ln_1p() < 0.0 {
            low = c;
        } else {
            high = c;
        }
    }
    let c = high;
    let (gain, log) = ((1.0 + c) * rho, (1.0 / c).ln_1p());
    let exponent = c * (gain - epsilon - log) - c.ln_1p();
    let sizes = c * (gain + epsilon + log) + c.ln_1p() + 1.0;
    // 1e-290 covers an underflow: only rho = 0 has delta 0.
    ((exponent + 4e-15 * sizes).exp() + 1e-290).min(1.0)
}

/// The largest n in 1..=limit that fits, where whatever is below a fitting n fits too.
fn largest(limit: u128, fits: impl Fn(u128) -> bool) -> Option<u128> {
    if !fits(1) {
        return None;
    }
    let mut low = 1;
    let mut high = 2;
    while high < limit && fits(high) {
        low = high;
        high *= 2;
    }
    // `low` fits throughout; `high` does not, or is past the limit.
    let mut high = high.min(limit + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(low)
}

/// The smallest n up to 2^20 in units of 2^-60 that fits, where whatever is above a fitting n fits
/// too.
fn smallest(fits: impl Fn(u128) -> bool) -> Option<u128> {
    if fits(0) {
        return Some(0);
    }
    let mut low = 0;
    let mut high = 1;
    while !fits(high) {
        low = high;
        high *= 2;
        if high > 1 << (Fixed::BITS + SEARCH_LIMIT_BITS) {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

fn mu_upper(mu_squared: Fixed) -> f64 {
    mu_squared.to_f64().sqrt() * (1.0 + CONVERSION_MARGIN)
}

fn rho_upper(rho: Fixed) -> f64 {
    rho.to_f64() * (1.0 + CONVERSION_MARGIN)
}

fn epsilon_lower(epsilon: Fixed) -> f64 {
    epsilon.to_f64() * (1.0 - CONVERSION_MARGIN)
}

fn delta_lower(delta: Fixed) -> f64 {
    delta.to_f64() * (1.0 - CONVERSION_MARGIN)
}

#[cfg(test)]
mod tests;
