//! Chooses one point of a public grid by the exponential mechanism: quantiles, smallest and largest values, the most frequent one.

use super::calibration::half_mu;
use super::loss::{Fixed, Loss};
use super::random::Randomness;
use super::samplers::{SampleError, below, bernoulli_exp};

/// How strongly scores count: the bounded range of one choice, in units of 2^-30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Eta(pub u64);

impl Eta {
    /// Largest `Eta` not above `value`; at least one unit, at most 2^10. `value` is finite and not negative.
    pub fn round_down(value: f64) -> Self {
        Self(((value.min(1024.0) * (1u64 << 30) as f64).floor() as u64).max(1))
    }

    pub fn to_f64(self) -> f64 {
        self.0 as f64 / (1u64 << 30) as f64
    }
}

/// The rank that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// The part `numerator / denominator` of all weight; 0 <= numerator <= denominator, 1 <= denominator <= 2^20.
    Fraction { numerator: u32, denominator: u32 },
    /// So much weight from below: near the smallest value.
    FromBottom(u64),
    /// So much weight from above: near the largest value.
    FromTop(u64),
}

/// Scores of a grid 0, …, size - 1, and the law by which one point is chosen: P(i) proportional to exp(eta * score(i) / range).
///
/// Made by [`ranks`] and [`frequencies`] alone, which know how far one unit moves the scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scores {
    size: u64,
    /// First point and score of each run of equal scores, in order; the first begins at 0.
    runs: Vec<(u64, i128)>,
    range: u128,
    eta: Eta,
}

/// Scores run no lower than this many ranges below the best that there can be: far outside what is ever chosen, and every product fits 128 bits.
const DEPTH: u32 = 20;
/// Largest weight of one unit, and largest grid.
const WEIGHT_BITS: u32 = 32;
const SIZE_MAX: u64 = 1 << 20;

/// Scores of a quantile: minus the distance of the wanted rank to the ranks that a point of the grid has.
///
/// `histogram` holds (point, weight), each point once, in order, below `size`. One unit adds at most `weight` to all of it together; 1 <= `weight` < 2^32,
/// 1 <= `size` <= 2^20, and the weights add up to less than 2^64.
///
/// # Guarantee
///
/// Adding or removing one unit moves all scores within a window of `range` (their differences have bounded range): 2 max(q, 1 - q) * weight for the fraction q, times
/// its denominator, and 2 * weight for a fixed rank from either end. Cutting scores off below keeps that. A choice is then eta-bounded-range.
///
/// # Requires
///
/// `weight` is enforced by the statement that the histogram comes from.
///
/// # Reference
///
/// Smith 2011 (STOC) for the score; Durfee, Rogers 2019 (arXiv 1905.04273) and Dong, Durfee, Rogers 2020 (arXiv 1909.13830) for the bounded range.
pub fn ranks(histogram: &[(u64, u64)], size: u64, target: Target, weight: u64, eta: Eta) -> Result<Scores, SampleError> {
    check(histogram, size, weight)?;
    let total: u128 = histogram.iter().map(|(_, w)| u128::from(*w)).sum();
    let (scale, wanted, span) = match target {
        Target::Fraction { numerator, denominator } => {
            if numerator > denominator || denominator == 0 || denominator > 1 << 20 {
                return Err(SampleError::Parameter);
            }
            let farther = u128::from(numerator.max(denominator - numerator));
            (u128::from(denominator), total * u128::from(numerator), 2 * farther)
        }
        Target::FromBottom(rank) => (1, u128::from(rank), 2),
        // Minus the distance of `rank` to the weight above, mirrored.
        Target::FromTop(rank) => {
            let mirrored: Vec<(u64, u64)> = histogram.iter().rev().map(|(at, w)| (size - 1 - at, *w)).collect();
            return Ok(ranks(&mirrored, size, Target::FromBottom(rank), weight, eta)?.mirrored());
        }
    };
    let range = span * u128::from(weight);
    let lowest = -((range << DEPTH) as i128);
    let score = |below: u128, up_to: u128| -> i128 {
        let distance = wanted.saturating_sub(scale * up_to).max((scale * below).saturating_sub(wanted));
        i128::try_from(distance).map_or(lowest, |d| (-d).max(lowest))
    };
    let mut scores = Scores { size, runs: Vec::with_capacity(2 * histogram.len() + 1), range, eta };
    let mut below = 0u128;
    let mut next = 0u64;
    for (at, w) in histogram {
        if next < *at {
            scores.push(next, score(below, below));
        }
        scores.push(*at, score(below, below + u128::from(*w)));
        below += u128::from(*w);
        next = at + 1;
    }
    if next < size {
        scores.push(next, score(below, below));
    }
    Ok(scores)
}

/// Scores of the most frequent value: each point's own weight. Arguments as of [`ranks`].
///
/// # Guarantee
///
/// One unit moves every score the same way, by at most `weight`: the range.
///
/// # Requires
///
/// `weight` is enforced by the statement that the histogram comes from.
pub fn frequencies(histogram: &[(u64, u64)], size: u64, weight: u64, eta: Eta) -> Result<Scores, SampleError> {
    check(histogram, size, weight)?;
    let best = i128::from(histogram.iter().map(|(_, w)| *w).max().unwrap_or(0));
    let range = u128::from(weight);
    // Relative to the best, so that the lowest score is one of the scores' own differences.
    let lowest = best - (range << DEPTH) as i128;
    let mut scores = Scores { size, runs: Vec::new(), range, eta };
    let mut next = 0u64;
    for (at, w) in histogram {
        if next < *at {
            scores.push(next, lowest.max(0));
        }
        scores.push(*at, i128::from(*w).max(lowest));
        next = at + 1;
    }
    if next < size {
        scores.push(next, lowest.max(0));
    }
    Ok(scores)
}

fn check(histogram: &[(u64, u64)], size: u64, weight: u64) -> Result<(), SampleError> {
    let ordered = histogram.windows(2).all(|pair| pair[0].0 < pair[1].0) && histogram.last().is_none_or(|(at, _)| *at < size);
    let total = histogram.iter().try_fold(0u64, |sum, (_, w)| sum.checked_add(*w));
    let fits = (1..=SIZE_MAX).contains(&size) && weight > 0 && weight >> WEIGHT_BITS == 0;
    if ordered && fits && total.is_some() { Ok(()) } else { Err(SampleError::Parameter) }
}

impl Scores {
    fn push(&mut self, first: u64, score: i128) {
        if self.runs.last().is_none_or(|(_, last)| *last != score) {
            self.runs.push((first, score));
        }
    }

    fn mirrored(self) -> Self {
        let ends = self.runs.iter().skip(1).map(|(first, _)| *first).chain([self.size]);
        let mut runs: Vec<(u64, i128)> = self.runs.iter().zip(ends).map(|((_, score), end)| (self.size - end, *score)).collect();
        runs.reverse();
        Self { runs, ..self }
    }

    fn score(&self, point: u64) -> i128 {
        let run = self.runs.partition_point(|(first, _)| *first <= point) - 1;
        self.runs[run].1
    }

    fn best_score(&self) -> i128 {
        self.runs.iter().map(|(_, score)| *score).max().unwrap_or(0)
    }

    /// The point in the middle of the first run of the best score: what an answer without noise would be.
    pub fn best(&self) -> u64 {
        let best = self.best_score();
        let run = self.runs.iter().position(|(_, score)| *score == best).unwrap_or(0);
        let end = self.runs.get(run + 1).map_or(self.size, |(first, _)| *first);
        let first = self.runs[run].0;
        first + (end - 1 - first) / 2
    }

    /// One fresh, independent choice.
    ///
    /// # Guarantee
    ///
    /// Exactly the law above: points are proposed uniformly and kept with probability exp(-eta * (best - score) / range), in integers only.
    ///
    /// # Errors
    ///
    /// Any [`SampleError`] means no choice, hence no answer; the charge stands.
    ///
    /// # Reference
    ///
    /// McSherry, Talwar 2007 (FOCS), Definition 2; [`bernoulli_exp`] for the trial.
    pub fn choose<R: Randomness + ?Sized>(&self, random: &mut R) -> Result<u64, SampleError> {
        let best = self.best_score();
        let unit = self.range << 30;
        loop {
            let point = u64::try_from(below(u128::from(self.size), random)?).map_err(|_| SampleError::Parameter)?;
            let gap = u128::try_from(best - self.score(point)).map_err(|_| SampleError::Parameter)?;
            let exponent = gap.checked_mul(u128::from(self.eta.0)).ok_or(SampleError::Exhausted)?;
            if bernoulli_exp(exponent, unit, random)? {
                return Ok(point);
            }
        }
    }
}

/// What `choices` choices at `eta` cost together, where one unit may sway each of them: one for each group that it can be in.
///
/// # Guarantee
///
/// For each choice: epsilon = eta, rho = eta^2 / 8, mu = 2 `quantile`(e^(eta/2) / (1 + e^(eta/2))); all rounded up, and added up over the choices.
///
/// # Reference
///
/// Dong, Durfee, Rogers 2020 (arXiv 1909.13830) for epsilon; Cesar, Rogers 2021 (arXiv 2004.07223) for rho; the trade-off function of a bounded-range mechanism lies above that of a
/// Gaussian of this mu, both being symmetric and the former having its kinks on a line through the latter.
pub fn loss_choices(eta: Eta, choices: u64) -> Loss {
    let value = eta.to_f64();
    let mu = 2.0 * half_mu(0.5 * value);
    let times = |one: Fixed| Fixed(one.0.saturating_mul(u128::from(choices)));
    Loss {
        epsilon: Some(times(Fixed(u128::from(eta.0) << 30))),
        rho: times(Fixed::round_up(value * value / 8.0 * (1.0 + 1e-12))),
        mu_squared: times(Fixed::round_up(mu * mu * (1.0 + 1e-10))),
        delta: Fixed::ZERO,
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
