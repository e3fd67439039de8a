//! The choices of a release: noisy counts of distinct values, and values chosen from known
//! candidates. Groups that are not shown draw nothing.

use std::collections::{BTreeMap, HashMap};

use num_bigint::BigUint;
use zeroize::Zeroize;

pub use limit::draw_limit;

use super::quantiles::CandidateRows;
use super::{Error, PrintedKey, decode, refine};
use crate::execute::TextRows;
use crate::ir::End;
use crate::mechanism::{CandidateRun, Exponential, Sampler};
use crate::rewrite::{Candidates, ChoiceKind, ChoicePlan, Halving, Side, Subject, Target};

mod limit;

/// Weights and their sums stay below this, whatever a table holds.
const WEIGHT_MAX: u128 = 1 << 90;

/// The result of a choice's statement, by group.
pub enum Groups<'p> {
    Counts {
        choice: &'p ChoicePlan,
        counts: HashMap<PrintedKey, PrintedKey>,
    },
    Weights {
        choice: &'p ChoicePlan,
        weights: HashMap<PrintedKey, BTreeMap<u64, u128>>,
    },
}

impl<'p> Groups<'p> {
    /// Reads rows of `key_count` keys each. Values that are not candidates are left out.
    pub fn new(choice: &'p ChoicePlan, rows: &TextRows, key_count: usize) -> Self {
        let split = |row: &PrintedKey| {
            let (key, rest) = row.split_at(key_count.min(row.len()));
            (key.to_vec(), rest.to_vec())
        };
        match &choice.question.subject {
            Subject::Distinct { .. } => Self::Counts {
                choice,
                counts: rows.iter().map(split).collect(),
            },
            Subject::Value {
                value: _,
                candidates,
            } => {
                let mut weights: HashMap<PrintedKey, BTreeMap<u64, u128>> = HashMap::new();
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
                Self::Weights { choice, weights }
            }
        }
    }

    /// The choice's columns for one shown group, each with its own draw.
    ///
    /// # Guarantee
    /// Every number that is returned had fresh noise added or was drawn by the exponential
    /// mechanism, calibrated by the plan. A group that is asked for twice draws twice.
    ///
    /// # Errors
    /// [`Error::Noise`] where nothing can be drawn.
    pub fn columns(
        &self,
        key: &PrintedKey,
        sampler: &mut dyn Sampler,
    ) -> Result<Vec<String>, Error> {
        match self {
            Self::Counts { choice, counts } => noisy_counts(choice, counts.get(key), sampler),
            Self::Weights { choice, weights } => {
                let empty = BTreeMap::new();
                chosen_values(choice, weights.get(key).unwrap_or(&empty), sampler)
            }
        }
    }
}

fn noisy_counts(
    choice: &ChoicePlan,
    exact: Option<&PrintedKey>,
    sampler: &mut dyn Sampler,
) -> Result<Vec<String>, Error> {
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
    ) = (&choice.kind, &choice.question.subject)
    else {
        return Err(Error::Mismatch);
    };
    let mut noisy = Vec::with_capacity(calibrated.len());
    for (at, calibrated) in calibrated.iter().enumerate() {
        let exact = refine(
            exact.and_then(|row| row.get(at)).and_then(Option::as_deref),
            calibrated,
            false,
        );
        noisy.push((
            exact.saturating_add(sampler.sample(&calibrated.noise)?),
            calibrated,
        ));
    }
    decode::distinct(&noisy, degree).ok_or(Error::Mismatch)
}

fn chosen_values(
    choice: &ChoicePlan,
    weights: &BTreeMap<u64, u128>,
    sampler: &mut dyn Sampler,
) -> Result<Vec<String>, Error> {
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
    ) = (&choice.kind, &choice.question.subject)
    else {
        return Err(Error::Mismatch);
    };
    let mut together = match halving {
        Some(halving) => halve(
            weights,
            candidates,
            &choice.question.fractions(),
            halving,
            sampler,
        )?,
        None => HashMap::new(),
    };
    let mut chosen = Vec::new();
    for (target, draw) in choice.question.targets.iter().zip(draws) {
        chosen.push(match together.remove(target) {
            Some(text) => text,
            None => Choice {
                weights,
                candidates,
                target,
                draw,
                weight_max: *weight_max,
                row_weight: *row_weight,
                lost_rows: choice.lost_rows,
            }
            .draw(sampler)?,
        });
    }
    Ok(chosen)
}

/// Wipes exact numbers and keys, some of which are of groups that are not shown.
impl Drop for Groups<'_> {
    fn drop(&mut self) {
        match self {
            Self::Counts { choice: _, counts } => counts.drain().for_each(|mut row| row.zeroize()),
            Self::Weights { choice: _, weights } => {
                for (mut key, mut weights) in weights.drain() {
                    key.zeroize();
                    weights.values_mut().for_each(Zeroize::zeroize);
                }
            }
        }
    }
}

/// Chooses the values of several fractions together.
fn halve(
    weights: &BTreeMap<u64, u128>,
    candidates: &Candidates,
    fractions: &[u32],
    halving: &Halving,
    sampler: &mut dyn Sampler,
) -> Result<HashMap<Target, String>, Error> {
    let mut fractions = fractions.to_vec();
    fractions.sort_unstable();
    fractions.dedup();
    let chosen = CandidateRows {
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

/// One draw and all that decides its law.
struct Choice<'c> {
    weights: &'c BTreeMap<u64, u128>,
    candidates: &'c Candidates,
    target: &'c Target,
    draw: &'c Exponential,
    weight_max: u64,
    row_weight: u64,
    lost_rows: f64,
}

impl Choice<'_> {
    fn draw(&self, sampler: &mut dyn Sampler) -> Result<String, Error> {
        let spans = self.spans();
        let runs: Vec<CandidateRun> = spans.iter().map(|(_, run)| run.clone()).collect();
        let (run, place) = sampler.choose(self.draw, &runs)?;
        let (start, _) = spans.get(run).ok_or(Error::Mismatch)?;
        Ok(match self.target {
            Target::Beyond(_, side) => self.candidates.edge(start + place, *side),
            Target::Fraction(_) | Target::End(_) | Target::MostFrequent => {
                self.candidates.text(start + place)
            }
        })
    }

    fn spans(&self) -> Vec<(u64, CandidateRun)> {
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

    /// A public number of ranks is added before (after) those of the rows, covered by the range's
    /// end. The target rank is that far before (after) the quantile's rank, or the end's.
    ///
    /// Where a limit cut L of N + L rows, qN + qL of them are below the quantile at q, and between
    /// qN + qL - L and qN + qL of what is left: the number of ranks grows by (1 - q) L before it,
    /// and by q L after it.
    fn beyond(&self, side: Side) -> Vec<(u64, CandidateRun)> {
        let (numerator, factor) = self.target.ratio();
        let total: BigUint = self.weights.values().map(|w| BigUint::from(*w)).sum();
        let below = numerator as f64 / factor as f64;
        let cut = match side {
            Side::Low => 1.0 - below,
            Side::High => below,
        };
        let reach = self
            .target
            .reach(self.draw, self.candidates.count(), self.row_weight)
            + cut * self.lost_rows * self.row_weight as f64;
        let reach = BigUint::from(reach.ceil().min(1e27) as u128);
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
        let beyond_rows = CandidateRun::one(goal.penalty(&covered.start, &covered.end));
        let mut spans = by_rank(self.weights, count, &goal, first);
        spans.push((end, beyond_rows));
        spans
    }
}

/// The target rank, and the factor by which ranks are multiplied.
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
            // At this public distance from the end, all candidates past it together have a
            // twentieth of the probability of the one at the target.
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
    /// The goal's distance from the ranks between these two.
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

/// Candidates in runs of one penalty: the goal's distance from the ranks that a candidate covers.
/// The ranks of the rows begin at `first`.
fn by_rank(
    weights: &BTreeMap<u64, u128>,
    candidates: u64,
    goal: &Goal,
    first: BigUint,
) -> Vec<(u64, CandidateRun)> {
    let mut spans = Vec::with_capacity(2 * weights.len() + 1);
    let (mut next, mut below) = (0, first);
    for (position, weight) in weights {
        spans.push((
            next,
            CandidateRun::level(goal.penalty(&below, &below), position - next),
        ));
        let upto = &below + *weight;
        spans.push((
            *position,
            CandidateRun::level(goal.penalty(&below, &upto), 1),
        ));
        (next, below) = (position + 1, upto);
    }
    spans.push((
        next,
        CandidateRun::level(goal.penalty(&below, &below), candidates - next),
    ));
    spans
}

/// How much rarer each candidate is than the most frequent one. Neighbouring candidates without
/// rows are one run.
fn by_frequency(weights: &BTreeMap<u64, u128>, candidates: u64) -> Vec<(u64, CandidateRun)> {
    let most = weights.values().copied().max().unwrap_or(0);
    let mut spans = Vec::with_capacity(2 * weights.len() + 1);
    let mut next = 0;
    for (position, weight) in weights {
        spans.push((
            next,
            CandidateRun::level(BigUint::from(most), position - next),
        ));
        spans.push((*position, CandidateRun::one(BigUint::from(most - weight))));
        next = position + 1;
    }
    spans.push((
        next,
        CandidateRun::level(BigUint::from(most), candidates - next),
    ));
    spans
}

#[cfg(test)]
mod tests;
