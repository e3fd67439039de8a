//! Which sets of keys are worth measuring: those whose counts are farthest from what independent
//! keys would have. Offline multiplicative weights and AIM select in this way, by the exponential
//! mechanism; here the sets are selected before any of them is measured.
//!
//! First noise is added to the counts of each single key. Their products estimate the counts of
//! every candidate, a set of several keys. A candidate's *score* is the L1 distance of its exact
//! counts from that estimate, less the error that noise alone gives the estimate, and less the
//! noise that measuring the candidate would add. In each round the exponential mechanism selects a
//! candidate by its score, or none, whose score is 0. Candidates that have two keys in common with
//! a selected one are not offered again: the dependence of these two is measured.
//!
//! # Reference
//!
//! Hardt, Ligett, McSherry 2012 (arXiv 1012.4763); McKenna, Mullins, Sheldon, Miklau 2022 (arXiv
//! 2201.12677), whose rounds also measure what was selected.

use num_bigint::BigUint;
use num_traits::ToPrimitive;
use zeroize::Zeroizing;

use super::calibration::{Calibrated, CalibrationError};
use super::exponential::{CandidateRun, Exponential};
use super::gaussian::{gaussian, loss_gaussian};
use super::laplace::{laplace, loss_laplace};
use super::loss::{Fixed, Loss, Mu};
use super::noise::Sampler;
use super::samplers::SampleError;

/// The noise of the keys' own counts gets one part in this many, of mu squared or of epsilon.
const SINGLES_PART: u128 = 5;

/// What a selection may cost: as mu, or as pure epsilon where nothing else is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionBudget {
    Mu(Mu),
    Epsilon(Fixed),
}

/// Candidates, and the noise by which some of them are selected. All of it is public.
#[derive(Debug, Clone, PartialEq)]
pub struct SetSelection {
    /// The number of values of each key.
    sizes: Vec<usize>,
    /// The keys of each candidate, ascending; none is a single key.
    candidates: Vec<Vec<usize>>,
    singles: Calibrated,
    draw: Exponential,
    rounds: usize,
    /// The expected noise of a measured count, in steps of the counts' grid.
    noise_per_cell: f64,
    loss: Loss,
}

/// What is selected from, before noise.
pub struct ExactCounts<'c> {
    /// The counts of each key's values.
    pub singles: &'c [Zeroizing<Vec<i128>>],
    /// The counts of each candidate; its last key varies fastest.
    pub candidates: &'c [Zeroizing<Vec<i128>>],
}

impl SetSelection {
    /// A selection in `rounds` rounds.
    ///
    /// # Requires
    /// When one unit comes or goes, the counts of each key, and those of each candidate, move by at
    /// most `sensitivity` in L1, in steps of their grid.
    ///
    /// # Errors
    /// [`CalibrationError`]: no noise of the supported range hides this.
    pub fn new(
        (sizes, candidates): (Vec<usize>, Vec<Vec<usize>>),
        sensitivity: &BigUint,
        budget: SelectionBudget,
        (rounds, noise_per_cell): (usize, f64),
    ) -> Result<Self, CalibrationError> {
        let one = BigUint::from(1u8);
        let keys = BigUint::from(sizes.len());
        let (singles, of_singles, about) = match budget {
            SelectionBudget::Mu(mu) => {
                let whole = mu.square().0;
                let root = |square: u128| u64::try_from(square.isqrt()).map_or(Mu(0), Mu);
                let own = root(whole / SINGLES_PART);
                let left = root(whole - own.square().0).to_f64();
                let clip = root_above(&(sensitivity * sensitivity * keys));
                let eta = left / (rounds as f64 * std::f64::consts::FRAC_PI_8).sqrt();
                (gaussian(&clip, &one, own)?, loss_gaussian(own), eta)
            }
            SelectionBudget::Epsilon(epsilon) => {
                let own = Fixed(epsilon.0 / SINGLES_PART);
                let left = Fixed(epsilon.0 - own.0).to_f64();
                let clip = sensitivity * keys;
                let eta = left / rounds as f64;
                (laplace(&clip, &one, own)?, loss_laplace(own), eta)
            }
        };
        let eta = Exponential::eta(about).ok_or(CalibrationError::NotPositive)?;
        let fits = |loss: &Loss| match budget {
            SelectionBudget::Mu(mu) => loss.mu_squared <= mu.square(),
            SelectionBudget::Epsilon(epsilon) => loss.epsilon <= Some(epsilon),
        };
        // A loss has a margin for its own rounding, of a few units at most.
        let fitting = (eta.saturating_sub(64).max(1)..=eta).rev().find_map(|eta| {
            let draw = Exponential {
                eta,
                width: sensitivity * 2u8,
            };
            let whole = (0..rounds).try_fold(of_singles, |sum, _| sum.compose(draw.loss()));
            let loss = whole.filter(fits)?;
            Some((draw, loss))
        });
        let (draw, loss) = fitting.ok_or(CalibrationError::NotPositive)?;
        Ok(Self {
            sizes,
            candidates,
            singles,
            draw,
            rounds,
            noise_per_cell,
            loss,
        })
    }

    /// What the whole selection costs.
    ///
    /// # Guarantee
    /// [`Self::select`] is a composition of two parts, within this loss.
    ///
    /// The noisy counts of single keys: one unit moves the counts of each key by at most the
    /// sensitivity D in L1, hence in L2. So those of d keys together move by at most D sqrt(d) in
    /// L2, and by D d in L1, which is what [`gaussian`] or [`laplace`] hides.
    ///
    /// The rounds: an estimate is a function of noisy counts, so a constant here. The distance |x -
    /// e|_1 of a candidate's counts from a constant moves by at most D (triangle inequality), up or
    /// down. What is subtracted is public. So the scores of two candidates move apart by
    /// at most 2 D, the width of each draw, and that of none does not move. Each round is an
    /// [`Exponential`] draw given the rounds before, which decide who is offered.
    ///
    /// # Reference
    /// As [`Exponential::loss`]; Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 3.2, and Smith,
    /// Thakurta 2022 (arXiv 2210.17520) for the composition.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    pub fn candidates(&self) -> &[Vec<usize>] {
        &self.candidates
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// The distance, in steps of the counts' grid, by which one candidate has to be better than
    /// all others together to be selected 19 times out of 20.
    pub fn resolution(&self) -> f64 {
        let eta = self.draw.eta as f64 / (1u64 << 30) as f64;
        let width = self.draw.width.to_f64().unwrap_or(f64::INFINITY);
        (19.0 * self.candidates.len() as f64).ln() * width / eta
    }

    /// Selects candidates, each by its place.
    ///
    /// # Guarantee
    /// The privacy loss of the result is at most [`Self::loss`].
    ///
    /// # Errors
    /// [`SampleError`]; nothing is released then.
    pub fn select(
        &self,
        exact: &ExactCounts<'_>,
        sampler: &mut dyn Sampler,
    ) -> Result<Vec<usize>, SampleError> {
        let mut noisy = Vec::with_capacity(exact.singles.len());
        for counts in exact.singles {
            let mut own = Vec::with_capacity(counts.len());
            for count in counts.iter() {
                let refined = count.saturating_mul(1 << self.singles.refine.min(64));
                let drawn = refined.saturating_add(sampler.sample(&self.singles.noise)?);
                own.push(drawn as f64 * 2f64.powi(-(self.singles.refine as i32)));
            }
            noisy.push(own);
        }
        let scores = self.scores(&noisy, exact.candidates);
        let mut selected = Vec::new();
        for _ in 0..self.rounds {
            let offered = self.left_after(&selected);
            let runs = runs(&scores, &offered);
            let (place, _) = sampler.choose(&self.draw, &runs)?;
            selected.extend(offered.get(place));
        }
        Ok(selected)
    }

    /// The places of the candidates that have no two keys in common with a selected one.
    fn left_after(&self, selected: &[usize]) -> Vec<usize> {
        let shared = |a: &[usize], b: &[usize]| a.iter().filter(|key| b.contains(key)).count();
        let is_offered = |at: &usize| {
            let own = &self.candidates[*at];
            let mut known = selected.iter().map(|at| &self.candidates[*at]);
            known.all(|known| shared(own, known) < 2)
        };
        (0..self.candidates.len()).filter(is_offered).collect()
    }

    /// The expected noise of a single key's count, in steps of the counts' grid.
    fn noise_per_value(&self) -> f64 {
        let refined = self.singles.noise.standard_deviation();
        refined * 2f64.powi(-(self.singles.refine as i32)) * std::f64::consts::FRAC_2_PI.sqrt()
    }

    /// The score of each candidate, given the noisy counts of single keys.
    fn scores(&self, noisy: &[Vec<f64>], exact: &[Zeroizing<Vec<i128>>]) -> Vec<i128> {
        let estimates = Estimates::of(noisy);
        let score = |(keys, counts): (&Vec<usize>, &Zeroizing<Vec<i128>>)| {
            let estimated = estimates.of_cells(keys, &self.sizes);
            let apart = counts.iter().zip(&estimated);
            let distance = apart.fold(0i128, |sum, (count, estimate)| {
                sum.saturating_add(count.saturating_sub(*estimate).saturating_abs())
            });
            let values = keys.iter().map(|key| self.sizes[*key] as f64);
            let of_estimate = self.noise_per_value() * values.sum::<f64>();
            let noise = of_estimate + self.noise_per_cell * estimated.len() as f64;
            distance.saturating_sub(noise.round() as i128)
        };
        self.candidates.iter().zip(exact).map(score).collect()
    }
}

/// The offered candidates, and none last, as the exponential mechanism draws them.
fn runs(scores: &[i128], offered: &[usize]) -> Vec<CandidateRun> {
    let own = || offered.iter().map(|at| scores[*at]).chain([0]);
    let best = own().max().unwrap_or(0);
    let penalty = |score: i128| CandidateRun::one(BigUint::from(best.abs_diff(score)));
    own().map(penalty).collect()
}

/// What noisy counts say of independent keys.
struct Estimates {
    /// The share of each value among those of its key.
    shares: Vec<Vec<f64>>,
    whole: f64,
}

impl Estimates {
    fn of(noisy: &[Vec<f64>]) -> Self {
        let positive = |counts: &Vec<f64>| -> Vec<f64> {
            let counts = counts.iter();
            counts.map(|count| count.max(0.0)).collect()
        };
        let positive: Vec<Vec<f64>> = noisy.iter().map(positive).collect();
        let totals = positive.iter().map(|counts| counts.iter().sum::<f64>());
        let whole = totals.clone().sum::<f64>() / noisy.len().max(1) as f64;
        let share = |(counts, total): (&Vec<f64>, f64)| {
            let share = |count: &f64| match total > 0.0 {
                true => count / total,
                false => 1.0 / counts.len() as f64,
            };
            counts.iter().map(share).collect()
        };
        Self {
            shares: positive.iter().zip(totals).map(share).collect(),
            whole,
        }
    }

    /// The estimated counts of a set of keys, rounded; its last key varies fastest.
    fn of_cells(&self, keys: &[usize], sizes: &[usize]) -> Vec<i128> {
        let mut cells = vec![self.whole];
        for key in keys {
            let shares = self.shares[*key].iter().take(sizes[*key]);
            let longer = cells
                .iter()
                .flat_map(|cell| shares.clone().map(move |share| cell * share));
            cells = longer.collect();
        }
        cells.into_iter().map(|cell| cell.round() as i128).collect()
    }
}

/// The least integer whose square is not below this.
fn root_above(square: &BigUint) -> BigUint {
    let root = square.sqrt();
    match &root * &root == *square {
        true => root,
        false => root + 1u8,
    }
}

#[cfg(test)]
mod tests;
