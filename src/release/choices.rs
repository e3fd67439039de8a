//! The parts of a release: noisy counts of unlike values, and values chosen from known candidates.
//! Groups that are not shown draw nothing.

use std::collections::{BTreeMap, HashMap};

use num_bigint::BigUint;
use zeroize::Zeroize;

use super::quantiles::Values;
use super::{Error, Key, decode, refined};
use crate::execute::Rows;
use crate::ir::End;
use crate::mechanism::{Exponential, Run, Sampler};
use crate::rewrite::{Candidates, ChoiceKind, ChoicePlan, Halving, Side, Subject, Target};

/// Weights and their sums stay below this, whatever a table holds.
const WEIGHT_MAX: u128 = 1 << 90;

/// What a part's statement returned, by group.
pub enum Groups<'p> {
    Counts {
        part: &'p ChoicePlan,
        counts: HashMap<Key, Key>,
    },
    Weights {
        part: &'p ChoicePlan,
        weights: HashMap<Key, BTreeMap<u64, u128>>,
    },
}

impl<'p> Groups<'p> {
    /// Reads rows of `key_count` keys each. Candidates that are none are left out.
    pub fn new(part: &'p ChoicePlan, rows: &Rows, key_count: usize) -> Self {
        let split = |row: &Key| {
            let (key, rest) = row.split_at(key_count.min(row.len()));
            (key.to_vec(), rest.to_vec())
        };
        match &part.question.subject {
            Subject::Distinct { .. } => Self::Counts {
                part,
                counts: rows.iter().map(split).collect(),
            },
            Subject::Value {
                value: _,
                candidates,
            } => {
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
                let (
                    ChoiceKind::Count {
                        calibrated,
                        weights: _,
                        clip: _,
                    },
                    Subject::Distinct {
                        values: _,
                        per_unit_max: _,
                        degree,
                    },
                ) = (&part.kind, &part.question.subject)
                else {
                    return Err(Error::Mismatch);
                };
                let found = counts.get(key);
                let mut noisy = Vec::with_capacity(calibrated.len());
                for (at, calibrated) in calibrated.iter().enumerate() {
                    let exact = refined(
                        found.and_then(|row| row.get(at)).and_then(Option::as_deref),
                        calibrated,
                        false,
                    );
                    noisy.push((
                        exact.saturating_add(sampler.sample(&calibrated.noise)?),
                        calibrated,
                    ));
                }
                decode::unlike(&noisy, degree).ok_or(Error::Mismatch)
            }
            Self::Weights { part, weights } => {
                let (
                    ChoiceKind::Choice {
                        draws,
                        halving,
                        weight_max,
                        row_weight,
                    },
                    Subject::Value {
                        value: _,
                        candidates,
                    },
                ) = (&part.kind, &part.question.subject)
                else {
                    return Err(Error::Mismatch);
                };
                let none = BTreeMap::new();
                let weights = weights.get(key).unwrap_or(&none);
                let mut together = match halving {
                    Some(halving) => halved(
                        weights,
                        candidates,
                        &part.question.fractions(),
                        halving,
                        sampler,
                    )?,
                    None => HashMap::new(),
                };
                let mut chosen = Vec::new();
                for (target, draw) in part.question.targets.iter().zip(draws) {
                    chosen.push(match together.remove(target) {
                        Some(text) => text,
                        None => Choice {
                            weights,
                            candidates,
                            target,
                            draw,
                            weight_max: *weight_max,
                            row_weight: *row_weight,
                        }
                        .draw(sampler)?,
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
    let chosen = Values {
        weights,
        candidates: candidates.count(),
        halving,
    }
    .choose(&fractions, sampler)?;
    Ok(fractions
        .into_iter()
        .map(Target::Fraction)
        .zip(chosen.into_iter().map(|at| candidates.text(at)))
        .collect())
}

/// One draw, and what decides where it is near.
struct Choice<'c> {
    weights: &'c BTreeMap<u64, u128>,
    candidates: &'c Candidates,
    target: &'c Target,
    draw: &'c Exponential,
    weight_max: u64,
    row_weight: u64,
}

impl Choice<'_> {
    fn draw(&self, sampler: &mut dyn Sampler) -> Result<String, Error> {
        let spans = self.spans();
        let runs: Vec<Run> = spans.iter().map(|(_, run)| run.clone()).collect();
        let (run, place) = sampler.choose(self.draw, &runs)?;
        let (start, _) = spans.get(run).ok_or(Error::Mismatch)?;
        Ok(match self.target {
            Target::Beyond(_, side) => self.candidates.edge(start + place, *side),
            Target::Fraction(_) | Target::End(_) | Target::MostFrequent => {
                self.candidates.text(start + place)
            }
        })
    }

    fn spans(&self) -> Vec<(u64, Run)> {
        match self.target {
            Target::MostFrequent => by_frequency(self.weights, self.candidates.count()),
            Target::Fraction(_) | Target::End(_) => {
                let goal = goal(
                    self.weights,
                    self.target,
                    self.draw,
                    self.candidates.count(),
                    self.weight_max,
                );
                by_rank(self.weights, self.candidates.count(), &goal, BigUint::ZERO)
            }
            Target::Beyond(_, side) => self.beyond(*side),
        }
    }

    /// A public number of ranks lies before (behind) those of the rows, and is covered by the
    /// range's end: the rank that is wanted is so far before (behind) the quantile's, or the end's.
    fn beyond(&self, side: Side) -> Vec<(u64, Run)> {
        let (numerator, factor) = self.target.ratio();
        let total: BigUint = self.weights.values().map(|w| BigUint::from(*w)).sum();
        let reach = BigUint::from(
            self.target
                .reach(self.draw, self.candidates.count(), self.row_weight)
                .ceil()
                .min(1e27) as u128,
        );
        let count = self.candidates.count();
        let (rank, first, end, covered) = match side {
            Side::Low => (&total * numerator, reach.clone(), 0, BigUint::ZERO..reach),
            Side::High => (
                &total * numerator + &reach * factor,
                BigUint::ZERO,
                count - 1,
                total.clone()..total + reach,
            ),
        };
        let goal = Goal { rank, factor };
        let beyond_rows = Run::one(goal.penalty(&covered.start, &covered.end));
        let mut spans = by_rank(self.weights, count, &goal, first);
        spans.push((end, beyond_rows));
        spans
    }
}

/// A rank to be near, and what ranks are multiplied by.
struct Goal {
    rank: BigUint,
    factor: u64,
}

fn goal(
    weights: &BTreeMap<u64, u128>,
    target: &Target,
    draw: &Exponential,
    candidates: u64,
    weight_max: u64,
) -> Goal {
    let total: BigUint = weights.values().map(|w| BigUint::from(*w)).sum();
    let (numerator, factor) = target.ratio();
    match target {
        Target::Fraction(_) => Goal {
            rank: total * numerator,
            factor,
        },
        Target::MostFrequent | Target::Beyond(..) => Goal {
            rank: BigUint::ZERO,
            factor: 1,
        },
        Target::End(end) => {
            // So far inside that all candidates past the end together weigh a twentieth of the one
            // there; a public number.
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

impl Goal {
    /// How far it is from the ranks between these.
    fn penalty(&self, below: &BigUint, upto: &BigUint) -> BigUint {
        let (below, upto) = (below * self.factor, upto * self.factor);
        if self.rank < below {
            below - &self.rank
        } else if self.rank > upto {
            &self.rank - upto
        } else {
            BigUint::ZERO
        }
    }
}

/// Candidates in runs of one penalty: how far the goal is from the ranks that a candidate covers,
/// of which the rows' begin at `first`.
fn by_rank(
    weights: &BTreeMap<u64, u128>,
    candidates: u64,
    goal: &Goal,
    first: BigUint,
) -> Vec<(u64, Run)> {
    let mut spans = Vec::with_capacity(2 * weights.len() + 1);
    let (mut next, mut below) = (0, first);
    for (position, weight) in weights {
        spans.push((
            next,
            Run::level(goal.penalty(&below, &below), position - next),
        ));
        let upto = &below + *weight;
        spans.push((*position, Run::level(goal.penalty(&below, &upto), 1)));
        (next, below) = (position + 1, upto);
    }
    spans.push((
        next,
        Run::level(goal.penalty(&below, &below), candidates - next),
    ));
    spans
}

/// Each candidate's distance from the most frequent one; those that no row has, side by side, in
/// one run.
fn by_frequency(weights: &BTreeMap<u64, u128>, candidates: u64) -> Vec<(u64, Run)> {
    let most = weights.values().copied().max().unwrap_or(0);
    let mut spans = Vec::with_capacity(2 * weights.len() + 1);
    let mut next = 0;
    for (position, weight) in weights {
        spans.push((next, Run::level(BigUint::from(most), position - next)));
        spans.push((*position, Run::one(BigUint::from(most - weight))));
        next = position + 1;
    }
    spans.push((next, Run::level(BigUint::from(most), candidates - next)));
    spans
}

#[cfg(test)]
mod tests {
    use num_traits::ToPrimitive;

    use super::*;

    fn listed(count: u64) -> Candidates {
        Candidates::Listed((0..count).map(|at| at.to_string()).collect())
    }

    /// Of each candidate; of an end of an interval also of what lies past the rows.
    fn penalties(
        weights: &BTreeMap<u64, u128>,
        candidates: u64,
        target: &Target,
        draw: &Exponential,
        weight_max: u64,
    ) -> Vec<BigUint> {
        let listed = listed(candidates);
        let spans = Choice {
            weights,
            candidates: &listed,
            target,
            draw,
            weight_max,
            row_weight: 1,
        }
        .spans();
        let all: Vec<BigUint> = spans
            .iter()
            .flat_map(|(_, run)| vec![run.penalty.clone(); run.candidates as usize])
            .collect();
        assert_eq!(
            all.len() as u64,
            candidates + u64::from(matches!(target, Target::Beyond(..)))
        );
        all
    }

    /// No row tells the candidates apart: each of them is drawn, but with probability 6 (5/6)^300.
    #[test]
    fn every_candidate_of_a_run_is_drawn() {
        let (weights, listed) = (BTreeMap::from([(2, 1u128)]), listed(6));
        let draw = Exponential {
            eta: 1,
            width: BigUint::from(1_000_000u32),
        };
        let target = Target::Fraction(500_000);
        let choice = Choice {
            weights: &weights,
            candidates: &listed,
            target: &target,
            draw: &draw,
            weight_max: 1,
            row_weight: 1,
        };
        let mut sampler = crate::mechanism::OsRandomness::new();
        let drawn: std::collections::BTreeSet<String> = (0..300)
            .map(|_| choice.draw(&mut sampler).unwrap())
            .collect();
        assert_eq!(drawn.len(), 6, "{drawn:?}");
    }

    /// Over random weights and random units: no two candidates' penalties move apart by more than
    /// the spread times the unit's weight, and for every target some unit comes so near that half
    /// of it would be too little (but for the very ends of all ranks).
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
            Target::Beyond(0, Side::High),
            Target::Beyond(250_000, Side::Low),
            Target::Beyond(250_000, Side::High),
            Target::Beyond(500_000, Side::Low),
            Target::Beyond(900_000, Side::High),
            Target::Beyond(1_000_000, Side::Low),
        ];
        let mut state = 7u64;
        let mut next = |limit: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let candidates = 6;
        for target in &targets {
            let mut nearest = 0.0f64;
            for round in 0..3000 {
                let weights: BTreeMap<u64, u128> = (0..next(5))
                    .map(|_| {
                        (
                            next(candidates),
                            u128::from(1 + next(if round % 2 == 0 { 4 } else { 400 })),
                        )
                    })
                    .collect();
                let weight_max = 3;
                // A strong draw has a margin of a few rows, so that both kinds of goal occur.
                let draw = Exponential {
                    eta: (1 << 30) << next(7),
                    width: BigUint::from(1u8),
                };
                let mut more = weights.clone();
                let unit: Vec<u64> = (0..=next(weight_max)).map(|_| next(candidates)).collect();
                unit.iter()
                    .for_each(|at| *more.entry(*at).or_default() += 1);
                let before = penalties(&weights, candidates, target, &draw, weight_max);
                let after = penalties(&more, candidates, target, &draw, weight_max);
                let moves: Vec<i128> = before
                    .iter()
                    .zip(&after)
                    .map(|(b, a)| {
                        i128::try_from(a.clone()).unwrap() - i128::try_from(b.clone()).unwrap()
                    })
                    .collect();
                let apart = moves.iter().max().unwrap() - moves.iter().min().unwrap();
                let limit = i128::from(target.spread()) * unit.len() as i128;
                assert!(
                    apart <= limit,
                    "{target:?}: {weights:?} and {unit:?} move {apart}, at most {limit}"
                );
                nearest = nearest.max(apart as f64 / limit as f64);
            }
            let is_end = matches!(
                target,
                Target::Fraction(0 | 1_000_000) | Target::Beyond(0 | 1_000_000, _)
            );
            assert!(
                if is_end {
                    nearest >= 0.5
                } else {
                    nearest > 0.5
                },
                "{target:?}: {nearest}"
            );
        }
    }

    /// Whatever the rows: past the rank of the quantile each candidate is so far from the goal, and
    /// some candidate is at it, that such a one is drawn once in 40 times at most.
    #[test]
    fn ends_of_intervals_are_seldom_past_their_rank() {
        let candidates = 50;
        let draw = Exponential {
            eta: Exponential::eta(0.8).unwrap(),
            width: BigUint::from(4u8),
        };
        for (rows, target) in (0..60).flat_map(|rows| {
            [
                (0, Side::High),
                (300_000, Side::Low),
                (300_000, Side::High),
                (1_000_000, Side::Low),
            ]
            .map(|(q, s)| (rows * rows, Target::Beyond(q, s)))
        }) {
            let weights: BTreeMap<u64, u128> = BTreeMap::from_iter(
                (0..candidates)
                    .map(|at| (at, u128::from(rows * (1 + at % 7) / 90)))
                    .filter(|(_, w)| *w > 0),
            );
            let Target::Beyond(fraction, side) = target else {
                panic!("an end")
            };
            let total: u128 = weights.values().sum();
            let rank = f64::from(fraction) / 1e6 * total as f64;
            let penalties = penalties(&weights, candidates, &target, &draw, 1);
            let likely = |at: usize| (-0.8 * penalties[at].to_f64().unwrap() / 4.0).exp();
            let below = |at: u64| weights.range(..at).map(|(_, w)| *w).sum::<u128>() as f64;
            let is_past = |at: u64| match side {
                Side::Low => below(at) >= rank && total > 0,
                Side::High => below(at + 1) <= rank && total > 0,
            };
            let past: f64 = (0..candidates)
                .filter(|at| is_past(*at))
                .map(|at| likely(at as usize))
                .sum();
            let all: f64 = (0..penalties.len()).map(likely).sum();
            assert!(
                past / all <= 1.0 / 40.0,
                "{target:?} of {total}: {}",
                past / all
            );
        }
    }

    #[test]
    fn chosen_candidates_have_no_penalty_where_the_rank_is() {
        let weights = BTreeMap::from([(2, 10u128), (5, 30)]);
        let draw = Exponential {
            eta: 1 << 30,
            width: BigUint::from(1u8),
        };
        let of = |target| {
            penalties(&weights, 8, &target, &draw, 1)
                .into_iter()
                .map(|p| u64::try_from(p).unwrap())
                .collect::<Vec<_>>()
        };
        // The rank 20 of 40, doubled: 2 covers up to 20, 5 from 20 to 80.
        assert_eq!(
            of(Target::Fraction(500_000)),
            [40, 40, 20, 20, 20, 0, 40, 40]
        );
        assert_eq!(of(Target::MostFrequent), [30, 30, 20, 30, 30, 0, 30, 30]);
        // Three quarters: the rank 30, times four.
        assert_eq!(
            of(Target::Fraction(750_000)),
            [120, 120, 80, 80, 80, 0, 40, 40]
        );
        // 21 half rows inside: 2 ln(20 * 8), doubled and rounded up.
        assert_eq!(of(Target::End(End::Least)), [21, 21, 1, 1, 1, 0, 59, 59]);
        assert_eq!(
            of(Target::End(End::Greatest)),
            [59, 59, 39, 39, 39, 0, 21, 21]
        );
        // Of units that weigh three: three times as many.
        let many = BTreeMap::from([(2, 100u128), (5, 300)]);
        assert_eq!(
            penalties(&many, 8, &Target::End(End::Least), &draw, 3)[0],
            BigUint::from(61u8)
        );
        // Two ranks of nobody's before the rows, or behind them; the last number is theirs. Ten
        // times the rank 12.
        assert_eq!(
            of(Target::Beyond(300_000, Side::Low)),
            [100, 100, 0, 0, 0, 0, 300, 300, 100]
        );
        assert_eq!(
            of(Target::Beyond(300_000, Side::High)),
            [140, 140, 40, 40, 40, 0, 260, 260, 260]
        );
    }

    #[test]
    fn ranks_of_nobody_are_at_the_end_of_the_range() {
        let (weights, candidates) = (BTreeMap::from([(2, 10u128)]), listed(8));
        let draw = Exponential {
            eta: 1 << 30,
            width: BigUint::from(1u8),
        };
        for (side, end) in [(Side::Low, 0), (Side::High, 7)] {
            let target = Target::Beyond(500_000, side);
            let choice = Choice {
                weights: &weights,
                candidates: &candidates,
                target: &target,
                draw: &draw,
                weight_max: 1,
                row_weight: 1,
            };
            assert_eq!(
                choice.spans().last().map(|(at, run)| (*at, run.candidates)),
                Some((end, 1))
            );
        }
        assert_eq!(
            [333_333, 250_000, 0].map(|millionths| Target::Fraction(millionths).ratio()),
            [(333_333, 1_000_000), (1, 4), (0, 1)]
        );
    }

    #[test]
    fn the_most_frequent_of_many_takes_as_many_runs_as_there_are_values() {
        let weights = BTreeMap::from([(0, 7u128), (40_000, 9), (40_001, 9)]);
        let spans = by_frequency(&weights, 50_000);
        assert!(spans.len() <= 7, "{}", spans.len());
        assert_eq!(
            spans.iter().map(|(_, run)| run.candidates).sum::<u64>(),
            50_000
        );
        assert!(
            spans
                .windows(2)
                .all(|two| two[0].0 + two[0].1.candidates == two[1].0)
        );
        assert_eq!(by_frequency(&BTreeMap::new(), 50_000).len(), 1);
    }
}
