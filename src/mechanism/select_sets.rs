//! Which sets of keys are worth measuring: those whose counts are farthest from what the sets
//! before them tell. Offline multiplicative weights and AIM select in this way: the exponential
//! mechanism picks a set, it is measured, and the next is compared with what is known then.
//!
//! First noise is added to the counts of each single key. A [`KeyTree`] estimates from them the
//! counts of every candidate, a set of several keys. A candidate's *score* is the L1 distance of
//! its exact counts from that estimate, less what noise and the rows' own sampling make of it. In
//! each round the exponential mechanism selects a candidate by its score, or none, whose score is
//! 0. Noise is added to the counts of each pair of the selected keys, and the tree takes notice of
//! them. This noise serves the selection alone. Candidates that have two keys in common with a
//! selected one are not offered again: the dependence of these two is measured.
//!
//! # Reference
//!
//! Hardt, Ligett, McSherry 2012 (arXiv 1012.4763); McKenna, Mullins, Sheldon, Miklau 2022 (arXiv
//! 2201.12677).

use num_bigint::BigUint;
use num_traits::ToPrimitive;
use zeroize::Zeroizing;

use super::calibration::{Calibrated, CalibrationError};
use super::exponential::{CandidateRun, Exponential};
use super::gaussian::{gaussian, loss_gaussian};
use super::laplace::{laplace, loss_laplace};
use super::loss::{Fixed, Loss, Mu};
use super::noise::{Noise, Sampler};
use super::samplers::SampleError;
use tree::{KeyTree, NoisyPair};

mod tree;

/// Mu squared, or epsilon, has this many parts. The noise of the keys' own counts gets
/// [`OF_SINGLES`], and that of the selected pairs [`OF_PAIRS`]; the rest is for the picks. These
/// parts, and the weights below, were chosen by simulation, on the data of the benchmark of made-up
/// rows (benches/peers/synthetic.py): other data may have better ones.
const PARTS: u128 = 20;
const OF_SINGLES: u128 = 2;
const OF_PAIRS: u128 = 8;

/// From the score of a set of k keys the expected noise of its counts is subtracted, times k less
/// this number. That is half the noise of a pair: rows take notice of a noisy pair only as far as
/// it is more than noise. It is 1.5 times the noise of a triple, which adds up in each of its
/// pairs.
const KEYS_WITHOUT_NOISE: f64 = 1.5;

/// From a score this part is subtracted of what the rows' own sampling adds to the distance.
/// Dependences that are less say nothing of other rows of the same law; but a part of the distance
/// to these very rows is theirs.
const OF_SAMPLING: f64 = 0.75;

/// The number of the law by which sets are selected. Another law has another number: what was
/// selected by one is no answer to the other. The constants here and in `tree.rs` are part of it.
pub const SELECTION_LAW: u32 = 2;

/// The most bits by which noise may refine the counts' grid.
const REFINED_MAX: u32 = 64;

/// What a selection may cost: as mu, or as pure epsilon where nothing else is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectionBudget {
    Mu(Mu),
    Epsilon(Fixed),
}

/// What is known of the counts before they are read. All of it is public.
#[derive(Debug, Clone, PartialEq)]
pub struct CountGrid {
    /// How far one unit moves the counts of a set in L1, in steps of their grid.
    pub sensitivity: BigUint,
    pub steps_per_row: f64,
    /// The expected noise of a count by a selected set once that is measured, in steps.
    pub noise_per_cell: f64,
}

/// Candidates, and the noise by which some of them are selected. All of it is public.
#[derive(Debug, Clone, PartialEq)]
pub struct SetSelection {
    /// The number of values of each key.
    sizes: Vec<usize>,
    /// The keys of each candidate, ascending; none is a single key.
    candidates: Vec<Vec<usize>>,
    singles: Calibrated,
    /// For each candidate, the noise of the counts by its pairs of keys.
    pairs: Vec<Calibrated>,
    draw: Exponential,
    rounds: usize,
    grid: CountGrid,
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
    /// most the grid's `sensitivity` in L1.
    ///
    /// # Errors
    /// [`CalibrationError`]: no noise of the supported range hides this.
    pub fn new(
        (sizes, candidates): (Vec<usize>, Vec<Vec<usize>>),
        grid: CountGrid,
        budget: SelectionBudget,
        rounds: usize,
    ) -> Result<Self, CalibrationError> {
        let parts = BudgetParts::of(budget, rounds);
        let noise = |tables: usize, budget| noise(&grid.sensitivity, tables, budget);
        let (singles, of_singles) = noise(sizes.len(), parts.singles)?;
        let of_pairs = parts.pairs.loss();
        let pairs = candidates
            .iter()
            .map(|keys| Ok(noise(pairs_of(keys).count(), parts.pairs)?.0))
            .collect::<Result<_, _>>()?;
        let eta = Exponential::eta(parts.eta).ok_or(CalibrationError::NotPositive)?;
        let fits = |loss: &Loss| match budget {
            SelectionBudget::Mu(mu) => loss.mu_squared <= mu.square(),
            SelectionBudget::Epsilon(epsilon) => loss.epsilon <= Some(epsilon),
        };
        // A loss has a margin for its own rounding, of a few units at most.
        let fitting = (eta.saturating_sub(64).max(1)..=eta).rev().find_map(|eta| {
            let draw = Exponential {
                eta,
                width: &grid.sensitivity * 2u8,
            };
            let round = draw.loss().compose(of_pairs)?;
            let whole = (0..rounds).try_fold(of_singles, |sum, _| sum.compose(round));
            let loss = whole.filter(fits)?;
            Some((draw, loss))
        });
        let (draw, loss) = fitting.ok_or(CalibrationError::NotPositive)?;
        Ok(Self {
            sizes,
            candidates,
            singles,
            pairs,
            draw,
            rounds,
            grid,
            loss,
        })
    }

    /// What the whole selection costs.
    ///
    /// # Guarantee
    /// [`Self::select`] is an adaptive composition of these steps, within this loss. Let D be the
    /// sensitivity.
    ///
    /// The noisy counts of single keys: one unit moves the counts of each key by at most D in L1,
    /// hence in L2. So those of d keys together move by at most D sqrt(d) in L2, and by D d in L1,
    /// which is what [`gaussian`] or [`laplace`] hides.
    ///
    /// Each round's pick, given all that was drawn before: an estimate is a function of noisy
    /// counts, so a constant here. The distance |x - e|_1 of a candidate's counts from a constant
    /// moves by at most D (triangle inequality), up or down. What is subtracted is a function of
    /// noisy counts too. So the scores of two candidates move apart by at most 2 D, the width of
    /// the [`Exponential`] draw, and that of none does not move. Who is offered was drawn before.
    ///
    /// Each round's measurement, given the pick: the counts by a pair of the candidate's keys are
    /// sums of the candidate's own counts, each of which is in one of the sums. So they move by at
    /// most D in L1, and those of q pairs together by at most D sqrt(q) in L2, and D q in L1. The
    /// noise hides that for the q of the picked candidate: whichever it is, the measurement costs
    /// the same. It is charged for every round, also for one that picks none, which measures
    /// nothing.
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
        let others = self.candidates.len() as f64 + weight_of_none(self.candidates.len()) as f64;
        (19.0 * others).ln() * width / eta
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
            noisy.push(with_noise(counts, &self.singles, sampler)?);
        }
        let mut known = KeyTree::of(&noisy);
        // Functions of exact counts.
        let mut scores = self.scores(&known, exact.candidates);
        let mut selected = Vec::new();
        for _ in 0..self.rounds {
            let offered = self.left_after(&selected);
            let (place, _) = sampler.choose(&self.draw, &runs(&scores, &offered))?;
            let Some(at) = offered.get(place) else {
                continue;
            };
            selected.push(*at);
            known.add(self.measure(*at, &exact.candidates[*at], sampler)?);
            scores = self.scores(&known, exact.candidates);
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

    /// The noisy counts by each pair of a candidate's keys.
    ///
    /// # Errors
    /// [`SampleError`].
    fn measure(
        &self,
        at: usize,
        counts: &[i128],
        sampler: &mut dyn Sampler,
    ) -> Result<Vec<NoisyPair>, SampleError> {
        let (keys, calibrated) = (&self.candidates[at], &self.pairs[at]);
        let mut measured = Vec::new();
        for pair in pairs_of(keys) {
            let exact = self.sums_by(pair, keys, counts);
            measured.push(NoisyPair {
                keys: pair,
                counts: with_noise(&exact, calibrated, sampler)?,
                noise: noise_per_count(calibrated) * exact.len() as f64,
            });
        }
        Ok(measured)
    }

    /// The sums of a candidate's counts by two of its keys.
    fn sums_by(
        &self,
        [first, second]: [usize; 2],
        keys: &[usize],
        counts: &[i128],
    ) -> Zeroizing<Vec<i128>> {
        let size = |key: &usize| self.sizes[*key];
        let value = |place: usize, key: usize| {
            let after = keys.iter().skip_while(|other| **other != key).skip(1);
            place / after.map(size).product::<usize>() % size(&key)
        };
        let mut sums = Zeroizing::new(vec![0i128; size(&first) * size(&second)]);
        for (place, count) in counts.iter().enumerate() {
            let sum = &mut sums[value(place, first) * size(&second) + value(place, second)];
            *sum = sum.saturating_add(*count);
        }
        sums
    }

    /// The score of each candidate, given what is known.
    fn scores(&self, known: &KeyTree, exact: &[Zeroizing<Vec<i128>>]) -> Zeroizing<Vec<i128>> {
        let score = |(keys, counts): (&Vec<usize>, &Zeroizing<Vec<i128>>)| {
            let estimated = known.counts(keys);
            let apart = counts.iter().zip(&estimated);
            let distance = apart.fold(0i128, |sum, (count, estimate)| {
                sum.saturating_add(
                    count
                        .saturating_sub(estimate.round() as i128)
                        .saturating_abs(),
                )
            });
            distance.saturating_sub(self.no_dependence(keys, &estimated).round() as i128)
        };
        Zeroizing::new(self.candidates.iter().zip(exact).map(score).collect())
    }

    /// How far a candidate's counts may be from an estimate without being worth their noise: by the
    /// noise of the single keys, by its own, and by how the rows happened to be drawn.
    fn no_dependence(&self, keys: &[usize], estimated: &[f64]) -> f64 {
        let values = keys.iter().map(|key| self.sizes[*key] as f64);
        let of_estimate = noise_per_count(&self.singles) * values.sum::<f64>();
        let of_cells = self.grid.noise_per_cell * estimated.len() as f64;
        // A count of n rows is Poisson, nearly: its expected distance is sqrt(2 n / pi) rows.
        let steps = self.grid.steps_per_row * std::f64::consts::FRAC_2_PI;
        let of_rows: f64 = estimated.iter().map(|count| (count * steps).sqrt()).sum();
        of_estimate + (keys.len() as f64 - KEYS_WITHOUT_NOISE) * of_cells + OF_SAMPLING * of_rows
    }
}

/// What each step of a selection may cost.
struct BudgetParts {
    singles: SelectionBudget,
    /// The measurement of one round.
    pairs: SelectionBudget,
    /// The eta of one round's pick.
    eta: f64,
}

impl BudgetParts {
    fn of(budget: SelectionBudget, rounds: usize) -> Self {
        let each = rounds.max(1) as u128;
        match budget {
            SelectionBudget::Mu(mu) => {
                let whole = mu.square().0;
                let root = |square: u128| u64::try_from(square.isqrt()).map_or(Mu(0), Mu);
                let singles = root(whole / PARTS * OF_SINGLES);
                let pairs = root(whole / PARTS * OF_PAIRS / each);
                let spent = singles.square().0 + each * pairs.square().0;
                let left = root(whole.saturating_sub(spent)).to_f64();
                Self {
                    singles: SelectionBudget::Mu(singles),
                    pairs: SelectionBudget::Mu(pairs),
                    eta: left / (each as f64 * std::f64::consts::FRAC_PI_8).sqrt(),
                }
            }
            SelectionBudget::Epsilon(epsilon) => {
                let singles = epsilon.0 / PARTS * OF_SINGLES;
                let pairs = epsilon.0 / PARTS * OF_PAIRS / each;
                let left = epsilon.0.saturating_sub(singles + each * pairs);
                Self {
                    singles: SelectionBudget::Epsilon(Fixed(singles)),
                    pairs: SelectionBudget::Epsilon(Fixed(pairs)),
                    eta: Fixed(left).to_f64() / each as f64,
                }
            }
        }
    }
}

impl SelectionBudget {
    fn loss(self) -> Loss {
        match self {
            Self::Mu(mu) => loss_gaussian(mu),
            Self::Epsilon(epsilon) => loss_laplace(epsilon),
        }
    }
}

/// The noise of several tables of counts together, each of which one unit moves by at most the
/// sensitivity in L1, and what it costs.
fn noise(
    sensitivity: &BigUint,
    tables: usize,
    budget: SelectionBudget,
) -> Result<(Calibrated, Loss), CalibrationError> {
    let (one, tables) = (BigUint::from(1u8), BigUint::from(tables));
    let calibrated = match budget {
        SelectionBudget::Mu(mu) => {
            gaussian(&root_above(&(sensitivity * sensitivity * tables)), &one, mu)?
        }
        SelectionBudget::Epsilon(epsilon) => laplace(&(sensitivity * tables), &one, epsilon)?,
    };
    if calibrated.refine > REFINED_MAX {
        return Err(CalibrationError::TooNarrow);
    }
    Ok((calibrated, budget.loss()))
}

/// The counts with noise, in steps of their grid.
fn with_noise(
    counts: &[i128],
    calibrated: &Calibrated,
    sampler: &mut dyn Sampler,
) -> Result<Vec<f64>, SampleError> {
    let mut noisy = Vec::with_capacity(counts.len());
    for count in counts {
        let refined = count.saturating_mul(1 << calibrated.refine);
        let drawn = refined.saturating_add(sampler.sample(&calibrated.noise)?);
        noisy.push(drawn as f64 * 2f64.powi(-(calibrated.refine as i32)));
    }
    Ok(noisy)
}

/// The expected noise of a count, in steps of the counts' grid.
fn noise_per_count(calibrated: &Calibrated) -> f64 {
    let of_deviation = match calibrated.noise {
        Noise::Gaussian { .. } => std::f64::consts::FRAC_2_PI.sqrt(),
        Noise::Laplace { .. } => std::f64::consts::FRAC_1_SQRT_2,
    };
    let refined = calibrated.noise.standard_deviation();
    refined * 2f64.powi(-(calibrated.refine as i32)) * of_deviation
}

/// Every two of these keys, in their order.
fn pairs_of(keys: &[usize]) -> impl Iterator<Item = [usize; 2]> + '_ {
    let with_later = |(at, first): (usize, &usize)| {
        let first = *first;
        keys[at + 1..].iter().map(move |second| [first, *second])
    };
    keys.iter().enumerate().flat_map(with_later)
}

/// The offered candidates, and none last, as the exponential mechanism draws them.
fn runs(scores: &[i128], offered: &[usize]) -> Vec<CandidateRun> {
    let own = || offered.iter().map(|at| scores[*at]);
    let best = own().chain([0]).max().unwrap_or(0);
    let penalty = |score: i128| BigUint::from(best.abs_diff(score));
    let none = CandidateRun::level(penalty(0), weight_of_none(offered.len()));
    let candidates = own().map(|score| CandidateRun::one(penalty(score)));
    candidates.chain([none]).collect()
}

/// The number of candidates that none counts as. If it were one, several of many candidates that
/// are not worth their noise would be selected; if it were as many, few of those that are, where
/// noise is large.
fn weight_of_none(offered: usize) -> u64 {
    offered.isqrt().max(1) as u64
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
