//! Laws of a made-up value. Of all laws with a wanted mean, the one with the greatest entropy is
//! used, because it assumes nothing else about the values.
//!
//! # Reference
//! Cover, Thomas: "Elements of Information Theory", theorem 12.1.1: on an interval or a list, the
//! law of a given mean is exponential.

use rand::{Rng, RngExt};

/// A law on an interval, by shares of it, or on a list of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueLaw {
    /// The density grows by e to this rate over the interval from `low` to `high`.
    Interval { low: f64, high: f64, rate: f64 },
    /// The share of each number of the list.
    List(Vec<f64>),
}

impl ValueLaw {
    /// The law on an interval with this mean.
    pub fn on_interval(low: f64, high: f64, mean: f64) -> Self {
        let share = ((mean - low) / (high - low).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        let rate = solve(share, mean_on_interval);
        Self::Interval { low, high, rate }
    }

    /// The law on a list with this mean.
    pub fn on_list(numbers: &[f64], mean: f64) -> Self {
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let width = (most - least).max(f64::MIN_POSITIVE);
        let places: Vec<f64> = numbers.iter().map(|n| (n - least) / width).collect();
        let mean = ((mean - least) / width).clamp(0.0, 1.0);
        let of_rate = |rate| mean_on_list(&places, &shares_on_list(&places, rate));
        Self::List(shares_on_list(&places, solve(mean, of_rate)))
    }

    /// A number of the interval, or a place in the list.
    pub fn draw(&self, random: &mut impl Rng) -> f64 {
        let below: f64 = random.random();
        match self {
            Self::Interval { low, high, rate } => low + (high - low) * quantile(*rate, below),
            Self::List(shares) => {
                let mut left = below;
                let is_here = |share: &f64| {
                    left -= share;
                    left < 0.0
                };
                let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
                shares.iter().position(is_here).unwrap_or(last) as f64
            }
        }
    }
}

/// The rate at which a growing function has this value.
fn solve(wanted: f64, of_rate: impl Fn(f64) -> f64) -> f64 {
    const STEEPEST: f64 = 1e5;
    let (mut low, mut high) = (-STEEPEST, STEEPEST);
    for _ in 0..70 {
        let middle = low.midpoint(high);
        match of_rate(middle) < wanted {
            true => low = middle,
            false => high = middle,
        }
    }
    low.midpoint(high)
}

fn mean_on_interval(rate: f64) -> f64 {
    match rate.abs() < 1e-5 {
        true => 0.5 + rate / 12.0,
        false => 1.0 / -(-rate).exp_m1() - 1.0 / rate,
    }
}

fn shares_on_list(places: &[f64], rate: f64) -> Vec<f64> {
    // The largest weight is 1.
    let end = if rate > 0.0 { 1.0 } else { 0.0 };
    let weights: Vec<f64> = places
        .iter()
        .map(|place| (rate * (place - end)).exp())
        .collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn mean_on_list(places: &[f64], shares: &[f64]) -> f64 {
    places
        .iter()
        .zip(shares)
        .map(|(place, share)| place * share)
        .sum()
}

/// The share of the interval below which the law has `below` of all.
fn quantile(rate: f64, below: f64) -> f64 {
    if rate.abs() < 1e-5 {
        below
    } else if rate < 0.0 {
        1.0 - quantile(-rate, 1.0 - below)
    } else {
        (1.0 + (below + (1.0 - below) * (-rate).exp()).ln() / rate).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_law_of_a_mean_has_that_mean() {
        for mean in [0.001, 0.05, 0.3, 0.5, 0.77, 0.99] {
            let ValueLaw::Interval { rate, .. } = ValueLaw::on_interval(0.0, 1.0, mean) else {
                unreachable!()
            };
            let drawn = (0..100_000).map(|at| quantile(rate, (f64::from(at) + 0.5) / 1e5));
            let of_drawn = drawn.sum::<f64>() / 1e5;
            assert!((of_drawn - mean).abs() < 1e-4, "{mean}: {of_drawn}");
        }
    }

    #[test]
    fn a_list_has_the_mean_as_far_as_it_can() {
        let numbers = [0.0, 5.0, 10.0];
        for (mean, had) in [
            (5.0, 5.0),
            (1.0, 1.0),
            (9.9, 9.9),
            (-3.0, 0.0),
            (12.0, 10.0),
        ] {
            let ValueLaw::List(shares) = ValueLaw::on_list(&numbers, mean) else {
                unreachable!()
            };
            let found = mean_on_list(&numbers, &shares);
            assert!((found - had).abs() < 1e-3, "{mean}: {found}");
        }
    }
}
