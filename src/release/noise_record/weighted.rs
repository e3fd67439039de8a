//! The noise of weighted sums of groups.

use std::collections::HashMap;

use super::NoiseRecord;
use crate::analyze::PlanningEffort;
use crate::release::PrintedKey;
use crate::rewrite::Measure;

/// What each draw adds to a weighted sum of groups, in terms of the noise of one group: by the part
/// of the table that the draws belong to, a grouping set or an effect.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NoiseParts(Vec<(usize, Vec<f64>)>);

/// A covariance below this share of the variances counts as none.
const NONE: f64 = 1e-12;

impl NoiseParts {
    fn covariance(&self, other: &Self) -> f64 {
        let known: HashMap<usize, &Vec<f64>> = other.0.iter().map(|(at, of)| (*at, of)).collect();
        let shared = self
            .0
            .iter()
            .filter_map(|(at, of)| Some((of, known.get(at)?)));
        let each = shared.map(|(one, other)| {
            let products = one.iter().zip(other.iter()).map(|(a, b)| a * b);
            products.sum::<f64>()
        });
        each.sum()
    }

    /// For each sum what some independent draws of deviation 1 add to it, so that all of them
    /// together vary as the sums do; `one` is the deviation of one group. `None` where a number is
    /// too large.
    ///
    /// # Reference
    /// Golub and Van Loan, "Matrix Computations", algorithm 4.2.1, of a matrix that may be
    /// singular.
    pub fn independent(sums: &[Self], one: f64) -> Option<Vec<Vec<f64>>> {
        let size = sums.len();
        let mut lower = vec![vec![0.0; size]; size];
        for row in 0..size {
            for column in 0..=row {
                let whole = sums[row].covariance(&sums[column]);
                let known = (0..column).map(|k| lower[row][k] * lower[column][k]);
                let rest = whole - known.sum::<f64>();
                lower[row][column] = match (row == column, lower[column][column]) {
                    (true, _) if rest > whole * NONE => rest.sqrt(),
                    (true, _) | (false, 0.0) => 0.0,
                    (false, pivot) => rest / pivot,
                };
            }
        }
        let scaled = lower.iter_mut().flatten();
        scaled.for_each(|entry| *entry *= one);
        let is_finite = lower.iter().flatten().all(|entry| entry.is_finite());
        is_finite.then_some(lower)
    }
}

impl NoiseRecord {
    /// The noise of a weighted sum of the groups of one set: `weights` are by the place of a group
    /// among the combinations of the values of its keys, the last of which varies fastest. `None`
    /// where it is not known, or where that takes more than what is left of `effort`.
    pub(in crate::release) fn parts_of(
        &self,
        (set, keys): (Option<usize>, &[usize]),
        weights: &[f64],
        effort: &PlanningEffort,
    ) -> Option<NoiseParts> {
        if !self.parts.is_empty() || !self.is_as_drawn() {
            return None;
        }
        let Some(by) = &self.by_effects else {
            effort.take_if_left(weights.len() as u64)?;
            return Some(NoiseParts(vec![(set.unwrap_or(0), weights.to_vec())]));
        };
        effort.take_if_left(by.effects.work_of(keys))?;
        if weights.len() != by.effects.groups_in(keys) {
            return None;
        }
        let one = by.of_sets().largest.sqrt();
        let mut parts = by.effects.draws_of(keys, weights);
        for (_, draws) in &mut parts {
            draws.iter_mut().for_each(|draw| *draw /= one);
        }
        Some(NoiseParts(parts))
    }

    /// The record of one group whose measures are weighted sums of this many groups: what
    /// independent draws add to each of them.
    pub(in crate::release) fn of_weighted_sums(
        &self,
        noise: Vec<(Measure, Vec<f64>)>,
        summed: usize,
    ) -> Self {
        Self {
            summed: vec![summed],
            weighted: noise,
            ..self.clone()
        }
    }

    /// The noise of sums of groups, relative to the largest noise, where groups are computed from
    /// effects. Each sum is given by the keys of its groups. `None` if unknown.
    pub(in crate::release) fn factors<'k>(
        &self,
        sums: impl Iterator<Item = Vec<&'k PrintedKey>>,
        effort: &PlanningEffort,
    ) -> Option<Vec<f64>> {
        let Some(by) = &self.by_effects else {
            return Some(Vec::new());
        };
        let mut known = HashMap::new();
        sums.map(|groups| by.of_groups(&groups, &mut known, effort))
            .collect()
    }

    /// The noise of a measure that is a weighted sum.
    pub(super) fn noise_of_weighted(&self, measure: &Measure) -> Option<Vec<f64>> {
        let mut known = self.weighted.iter();
        let found = known.find(|(of, _)| of == measure);
        found.map(|(_, noise)| noise.clone())
    }
}
