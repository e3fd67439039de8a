//! The noise of weighted sums of groups.

use std::collections::HashMap;

use super::NoiseRecord;
use crate::analyze::PlanningEffort;
use crate::release::PrintedKey;
use crate::rewrite::Measure;

/// What each draw adds to a weighted sum of groups, in terms of the noise of one group: by the part
/// of the table that the draws belong to, a grouping set or an effect. The parts ascend.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NoiseParts(Vec<(usize, Vec<f64>)>);

/// A variance below this share of its sum's is rounding: the sum follows from those before it.
/// Covariances are products of draws, so that they are exact to as much of the two deviations,
/// whatever the units are.
const ROUNDING: f64 = 1e-12;

/// Products of two numbers that are added up in one step of [`PlanningEffort`].
const PRODUCTS: u64 = 32;

impl NoiseParts {
    fn covariance(&self, other: &Self) -> f64 {
        let mut others = other.0.iter().peekable();
        let mut sum = 0.0;
        for (at, one) in &self.0 {
            while others.next_if(|(other, _)| other < at).is_some() {}
            if let Some((_, other)) = others.next_if(|(other, _)| other == at) {
                sum += product(one, other);
            }
        }
        sum
    }

    /// For each sum what some independent draws of deviation 1 add to it, so that all of them
    /// together vary as the sums do; `one` is the deviation of one group. `None` where a number is
    /// too large, or where the computation takes more than what is left of `effort`.
    pub fn independent(sums: &[Self], one: f64, effort: &PlanningEffort) -> Option<Vec<Vec<f64>>> {
        let draws = |sum: &Self| sum.0.iter().map(|(_, of)| of.len()).sum::<usize>();
        let longest = sums.iter().map(draws).max().unwrap_or(0) as u64;
        let size = sums.len() as u64;
        let pairs = size.saturating_mul(size);
        effort.take_if_left(pairs.saturating_mul(longest) / 2 / PRODUCTS)?;
        let covariance = |row: usize, column: usize| sums[row].covariance(&sums[column]);
        independent_sums(sums.len(), covariance, one, effort)
    }
}

/// As [`NoiseParts::independent`], of this many sums with these covariances, each of which is
/// computed once.
pub(super) fn independent_sums(
    size: usize,
    covariance: impl Fn(usize, usize) -> f64,
    one: f64,
    effort: &PlanningEffort,
) -> Option<Vec<Vec<f64>>> {
    let products = (size as u64).saturating_pow(3) / 6;
    effort.take_if_left(1 + products / PRODUCTS)?;
    let mut lower = independent(size, covariance)?;
    let scaled = lower.iter_mut().flatten();
    scaled.for_each(|entry| *entry *= one);
    let is_finite = lower.iter().flatten().all(|entry| entry.is_finite());
    is_finite.then_some(lower)
}

/// L of G = L L', for the covariances G of this many sums. A sum that follows from those before it
/// adds no draw. `None` where a covariance is not finite.
///
/// # Reference
/// Golub and Van Loan, "Matrix Computations", algorithm 4.2.1, of a matrix that may be singular.
fn independent(size: usize, covariance: impl Fn(usize, usize) -> f64) -> Option<Vec<Vec<f64>>> {
    let mut lower: Vec<Vec<f64>> = Vec::with_capacity(size);
    for row in 0..size {
        let mut own = vec![0.0; size];
        for column in 0..row {
            let whole = covariance(row, column);
            if !whole.is_finite() {
                return None;
            }
            let before = &lower[column];
            let rest = whole - product(&own[..column], before);
            own[column] = match before[column] {
                0.0 => 0.0,
                pivot => rest / pivot,
            };
        }
        let whole = covariance(row, row);
        if !whole.is_finite() {
            return None;
        }
        let rest = whole - product(&own[..row], &own);
        if rest > whole * ROUNDING {
            own[row] = rest.sqrt();
        }
        lower.push(own);
    }
    Some(lower)
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
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
        if !self.has_one_draw_each() {
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

    /// Whether its groups are those of one answer, as they were drawn.
    pub(super) fn has_one_draw_each(&self) -> bool {
        self.parts.is_empty() && self.is_as_drawn()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn products(sums: &[NoiseParts], parts: &[Vec<f64>]) {
        for (at, one) in parts.iter().enumerate() {
            for (to, other) in parts.iter().enumerate() {
                let wanted = sums[at].covariance(&sums[to]);
                let both = sums[at].covariance(&sums[at]) * sums[to].covariance(&sums[to]);
                let difference = product(one, other) - wanted;
                assert!(difference.abs() <= 1e-12 * both.sqrt(), "{at} {to}");
            }
        }
    }

    /// The parts have the covariances that they are made of, also of sums that are equal, empty, or
    /// the sum of others.
    #[test]
    fn parts_have_the_covariances() {
        // Sums over groups as bits, of equal and independent noise.
        let sums: [u32; 7] = [
            0b111_1111, 0b000_0111, 0b111_1000, 0, 0b000_0111, 0b10_1010, 0b1,
        ];
        let weights = |sum: u32| (0..7).map(|bit| f64::from(sum >> bit & 1)).collect();
        let sums = sums.map(|sum| NoiseParts(vec![(0, weights(sum))]));
        let effort = PlanningEffort::default();
        let parts = NoiseParts::independent(&sums, 1.0, &effort).unwrap();
        products(&sums, &parts);
        // What is not met in a group has no noise there at all.
        assert_eq!(parts[3], vec![0.0; 7]);
        assert!((parts[2][2], parts[4][4]) == (0.0, 0.0));
    }

    /// Sums in very different units, and what follows from others but for rounding.
    #[test]
    fn units_and_rounding_change_no_covariance() {
        let of = |scale: f64, of: [f64; 4]| {
            let own = of.map(|weight| weight * scale);
            NoiseParts(vec![(1, own[..1].to_vec()), (4, own[1..].to_vec())])
        };
        let sums = [
            of(1.0, [1.0, 1.0, 1.0, 1.0]),
            of(1e12, [0.1, 0.2, 0.3, 0.4]),
            of(1e-9, [0.3, 0.6, 0.9, 1.2]),
            of(1e3, [1.1, 1.2, 1.3, 1.4]),
            NoiseParts(vec![
                (0, vec![2.0]),
                (4, vec![1.0, 0.0, 0.0]),
                (6, vec![1.0]),
            ]),
        ];
        let parts = NoiseParts::independent(&sums, 1.0, &PlanningEffort::default()).unwrap();
        products(&sums, &parts);
        assert_eq!((parts[2][2], parts[3][3]), (0.0, 0.0));
    }

    #[test]
    fn too_much_work_and_what_is_not_finite_are_not_known() {
        let sums = |weight: f64| vec![NoiseParts(vec![(0, vec![weight; 8])]); 400];
        let work = |weight: f64, effort: PlanningEffort| {
            NoiseParts::independent(&sums(weight), 1.0, &effort).is_some()
        };
        assert!(work(1.0, PlanningEffort::small()));
        let little = PlanningEffort::small();
        little.take(900_000).unwrap();
        assert!(!work(1.0, little));
        for weight in [f64::NAN, f64::INFINITY, 1e200] {
            assert!(!work(weight, PlanningEffort::default()), "{weight}");
        }
    }
}
