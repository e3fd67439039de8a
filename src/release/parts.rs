//! The parts of a release: noisy counts of unlike values, and values chosen from known candidates. Groups that are not shown draw nothing.

use std::collections::{BTreeMap, HashMap};

use num_bigint::BigUint;
use zeroize::Zeroize;

use super::halving::Values;
use super::{Error, Key, decode, refined};
use crate::execute::Rows;
use crate::mechanism::{Exponential, Run, Sampler};
use crate::resolve::End;
use crate::rewrite::{Candidates, Halving, PartKind, PartPlan, Subject, Target};

/// Weights and their sums stay below this, whatever a table holds.
const WEIGHT_MAX: u128 = 1 << 90;

/// What a part's statement returned, by group.
pub enum Groups<'p> {
    Counts { part: &'p PartPlan, counts: HashMap<Key, Key> },
    Weights { part: &'p PartPlan, weights: HashMap<Key, BTreeMap<u64, u128>> },
}

impl<'p> Groups<'p> {
    /// Reads rows of `key_count` keys each. Candidates that are none are left out.
    pub fn new(part: &'p PartPlan, rows: &Rows, key_count: usize) -> Self {
        let split = |row: &Key| {
            let (key, rest) = row.split_at(key_count.min(row.len()));
            (key.to_vec(), rest.to_vec())
        };
        match &part.question.subject {
            Subject::Distinct { .. } => Self::Counts { part, counts: rows.iter().map(split).collect() },
            Subject::Value { value: _, candidates } => {
                let mut weights: HashMap<Key, BTreeMap<u64, u128>> = HashMap::new();
                for (key, mut rest) in rows.iter().map(split) {
                    if let [Some(candidate), Some(weight)] = rest.as_slice()
                        && let Some(position) = candidates.position(candidate)
                    {
                        let weight = weight.parse().unwrap_or(WEIGHT_MAX).min(WEIGHT_MAX);
                        let known = weights.entry(key).or_default().entry(position).or_default();
                        *known = known.saturating_add(weight).min(WEIGHT_MAX);
                    }
                    rest.zeroize();
                }
                Self::Weights { part, weights }
            }
        }
    }

    /// The part's columns for one shown group, each with a draw of its own.
    ///
    /// # Errors
    /// [`Error::Noise`] where nothing can be drawn.
    pub fn columns(&self, key: &Key, sampler: &mut dyn Sampler) -> Result<Vec<String>, Error> {
        match self {
            Self::Counts { part, counts } => {
                let (PartKind::Count { calibrated, weights: _, clip: _ }, Subject::Distinct { values: _, per_unit_max: _, degree }) =
                    (&part.kind, &part.question.subject)
                else {
                    return Err(Error::Mismatch);
                };
                let found = counts.get(key);
                let mut noisy = Vec::with_capacity(calibrated.len());
                for (at, calibrated) in calibrated.iter().enumerate() {
                    let exact = refined(found.and_then(|row| row.get(at)).and_then(Option::as_deref), calibrated, false);
                    noisy.push((exact.saturating_add(sampler.sample(&calibrated.noise)?), calibrated));
                }
                decode::unlike(&noisy, degree).ok_or(Error::Mismatch)
            }
            Self::Weights { part, weights } => {
                let (PartKind::Choice { draws, halving, weight_max, row_weight: _ }, Subject::Value { value: _, candidates }) =
                    (&part.kind, &part.question.subject)
                else {
                    return Err(Error::Mismatch);
                };
                let none = BTreeMap::new();
                let weights = weights.get(key).unwrap_or(&none);
                let mut together = match halving {
                    Some(halving) => halved(weights, candidates, &part.question.fractions(), halving, sampler)?,
                    None => HashMap::new(),
                };
                let mut chosen = Vec::new();
                for (target, draw) in part.question.targets.iter().zip(draws) {
                    chosen.push(match together.remove(target) {
                        Some(text) => text,
                        None => choice(weights, candidates, target, draw, *weight_max, sampler)?,
                    });
                }
                Ok(chosen)
            }
        }
    }
}

/// Exact numbers and keys that are shown to nobody.
impl Drop for Groups<'_> {
    fn drop(&mut self) {
        match self {
            Self::Counts { part: _, counts } => counts.drain().for_each(|mut row| row.zeroize()),
            Self::Weights { part: _, weights } => {
                for (mut key, mut weights) in weights.drain() {
                    key.zeroize();
                    weights.values_mut().for_each(Zeroize::zeroize);
                }
            }
        }
    }
}

/// Fractions that are chosen together, each with its value.
fn halved(
    weights: &BTreeMap<u64, u128>,
    candidates: &Candidates,
    fractions: &[u32],
    halving: &Halving,
    sampler: &mut dyn Sampler,
) -> Result<HashMap<Target, String>, Error> {
    let mut fractions = fractions.to_vec();
    fractions.sort_unstable();
    fractions.dedup();
    let chosen = Values { weights, candidates: candidates.count(), halving }.choose(&fractions, sampler)?;
    Ok(fractions.into_iter().map(Target::Fraction).zip(chosen.into_iter().map(|at| candidates.text(at))).collect())
}

fn choice(
    weights: &BTreeMap<u64, u128>,
    candidates: &Candidates,
    target: &Target,
    draw: &Exponential,
    weight_max: u64,
    sampler: &mut dyn Sampler,
) -> Result<String, Error> {
    let spans = match target {
        Target::MostFrequent => by_frequency(weights, candidates.count()),
        Target::Fraction(_) | Target::End(_) => by_rank(weights, candidates.count(), &goal(weights, target, draw, candidates.count(), weight_max)),
    };
    let runs: Vec<Run> = spans.iter().map(|(_, run)| run.clone()).collect();
    let (run, place) = sampler.choose(draw, &runs)?;
    let (start, _) = spans.get(run).ok_or(Error::Mismatch)?;
    Ok(candidates.text(start + place))
}

/// A rank to be near, and what ranks are multiplied by.
struct Goal {
    rank: BigUint,
    factor: u64,
}

fn goal(weights: &BTreeMap<u64, u128>, target: &Target, draw: &Exponential, candidates: u64, weight_max: u64) -> Goal {
    let total: BigUint = weights.values().map(|w| BigUint::from(*w)).sum();
    let (numerator, factor) = target.ratio();
    match target {
        Target::Fraction(_) => Goal { rank: total * numerator, factor },
        Target::MostFrequent => Goal { rank: BigUint::ZERO, factor: 1 },
        Target::End(end) => {
            // So far inside that all candidates past the end together weigh a twentieth of the one there; a public number.
            let eta = draw.eta as f64 / (1u64 << 30) as f64;
            let margin = 2.0 * weight_max as f64 * (20.0 * candidates as f64).ln() / eta;
            let doubled = BigUint::from((2.0 * margin).ceil().min(1e27) as u128);
            let inside = doubled.min(total.clone());
            let rank = match end {
                End::Least => inside,
                End::Greatest => total * 2u8 - inside,
            };
            Goal { rank, factor }
        }
    }
}

/// Candidates in runs of one penalty: how far the goal is from the ranks that a candidate covers.
fn by_rank(weights: &BTreeMap<u64, u128>, candidates: u64, goal: &Goal) -> Vec<(u64, Run)> {
    let penalty = |below: &BigUint, upto: &BigUint| {
        let (below, upto) = (below * goal.factor, upto * goal.factor);
        if goal.rank < below {
            below - &goal.rank
        } else if goal.rank > upto {
            &goal.rank - upto
        } else {
            BigUint::ZERO
        }
    };
    let mut spans = Vec::with_capacity(2 * weights.len() + 1);
    let (mut next, mut below) = (0, BigUint::ZERO);
    for (position, weight) in weights {
        spans.push((next, Run::level(penalty(&below, &below), position - next)));
        let upto = &below + *weight;
        spans.push((*position, Run::level(penalty(&below, &upto), 1)));
        (next, below) = (position + 1, upto);
    }
    spans.push((next, Run::level(penalty(&below, &below), candidates - next)));
    spans
}

/// Each candidate's distance from the most frequent one.
fn by_frequency(weights: &BTreeMap<u64, u128>, candidates: u64) -> Vec<(u64, Run)> {
    let most = weights.values().copied().max().unwrap_or(0);
    (0..candidates).map(|at| (at, Run::level(BigUint::from(most - weights.get(&at).copied().unwrap_or(0)), 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalties(weights: &BTreeMap<u64, u128>, candidates: u64, target: &Target, draw: &Exponential, weight_max: u64) -> Vec<BigUint> {
        let spans = match target {
            Target::MostFrequent => by_frequency(weights, candidates),
            Target::Fraction(_) | Target::End(_) => by_rank(weights, candidates, &goal(weights, target, draw, candidates, weight_max)),
        };
        let all: Vec<BigUint> = spans.iter().flat_map(|(_, run)| vec![run.penalty.clone(); run.candidates as usize]).collect();
        assert_eq!(all.len() as u64, candidates);
        all
    }

    /// Over random weights and random units: no two candidates' penalties move apart by more than the spread times the unit's weight, and for every target some
    /// unit comes so near that half of it would be too little (but for the very ends of all ranks).
    #[test]
    fn penalties_move_apart_by_at_most_the_spread() {
        let targets = [
            Target::Fraction(0),
            Target::Fraction(100_000),
            Target::Fraction(500_000),
            Target::Fraction(333_333),
            Target::Fraction(1_000_000),
            Target::End(End::Least),
            Target::End(End::Greatest),
            Target::MostFrequent,
        ];
        let mut state = 7u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let candidates = 6;
        for target in &targets {
            let mut nearest = 0.0f64;
            for round in 0..3000 {
                let weights: BTreeMap<u64, u128> =
                    (0..next(5)).map(|_| (next(candidates), u128::from(1 + next(if round % 2 == 0 { 4 } else { 400 })))).collect();
                let weight_max = 3;
                // A strong draw has a margin of a few rows, so that both kinds of goal occur.
                let draw = Exponential { eta: (1 << 30) << next(7), width: BigUint::from(1u8) };
                let mut more = weights.clone();
                let unit: Vec<u64> = (0..=next(weight_max)).map(|_| next(candidates)).collect();
                unit.iter().for_each(|at| *more.entry(*at).or_default() += 1);
                let before = penalties(&weights, candidates, target, &draw, weight_max);
                let after = penalties(&more, candidates, target, &draw, weight_max);
                let moves: Vec<i128> =
                    before.iter().zip(&after).map(|(b, a)| i128::try_from(a.clone()).unwrap() - i128::try_from(b.clone()).unwrap()).collect();
                let apart = moves.iter().max().unwrap() - moves.iter().min().unwrap();
                let limit = i128::from(target.spread()) * unit.len() as i128;
                assert!(apart <= limit, "{target:?}: {weights:?} and {unit:?} move {apart}, at most {limit}");
                nearest = nearest.max(apart as f64 / limit as f64);
            }
            let is_end = matches!(target, Target::Fraction(0 | 1_000_000));
            assert!(if is_end { nearest >= 0.5 } else { nearest > 0.5 }, "{target:?}: {nearest}");
        }
    }

    #[test]
    fn chosen_candidates_have_no_penalty_where_the_rank_is() {
        let weights = BTreeMap::from([(2, 10u128), (5, 30)]);
        let draw = Exponential { eta: 1 << 30, width: BigUint::from(1u8) };
        let of = |target| penalties(&weights, 8, &target, &draw, 1).into_iter().map(|p| u64::try_from(p).unwrap()).collect::<Vec<_>>();
        // The rank 20 of 40, doubled: 2 covers up to 20, 5 from 20 to 80.
        assert_eq!(of(Target::Fraction(500_000)), [40, 40, 20, 20, 20, 0, 40, 40]);
        assert_eq!(of(Target::MostFrequent), [30, 30, 20, 30, 30, 0, 30, 30]);
    }
}
