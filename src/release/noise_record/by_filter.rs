//! The noise of coordinates that add up the rows of filters, of groups that are sums of groups.
//!
//! A count of all rows and one of a filter's have the noise of the filter's groups in common. So a
//! group's noise is written over independent parts, as many as there are sums: the sum of all its
//! groups, and that of each filter's. Let G be the covariances of these sums, in terms of the
//! variance of a draw, and G = L L' (Cholesky): the sums move together as the rows of L say.

use super::NoiseRecord;
use crate::analyze::PlanningEffort;
use crate::release::PrintedKey;
use crate::release::rollup::{FilterId, Met, Picked, Source};
use crate::rewrite::{CoordinateId, Measure, measure_terms};

/// Variances below this share of their sum's are rounding.
const ROUNDING: f64 = 1e-13;

/// The key of a sum of groups, and the places of the groups.
type SummedGroup = (PrintedKey, Vec<usize>);

/// The noise of coordinates that add up different groups.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::release) struct ByFilter {
    /// What each coordinate adds up.
    picked: Vec<Picked>,
    /// For each group: the noise of the sum of all its groups, and then of each filter's, over
    /// independent parts, in terms of the deviation of a draw.
    of_groups: Vec<Vec<Vec<f64>>>,
}

impl ByFilter {
    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.of_groups.len()
    }

    /// The number of independent parts that each draw's noise has.
    pub fn parts(&self) -> usize {
        self.of_groups.first().map_or(1, Vec::len)
    }

    /// The noise of a coordinate in a group, over the independent parts.
    pub fn parts_of(&self, CoordinateId(at): CoordinateId, group: usize) -> Vec<f64> {
        let Some((sums, picked)) = self.of_groups.get(group).zip(self.picked.get(at)) else {
            return Vec::new();
        };
        let of = |FilterId(filter): &FilterId| &sums[1 + filter];
        match picked {
            Picked::All => sums[0].clone(),
            Picked::Met(filter) => of(filter).clone(),
            Picked::MetLessOthers(filter) => {
                let both = of(filter).iter().zip(&sums[0]);
                both.map(|(met, all)| 2.0 * met - all).collect()
            }
        }
    }
}

impl NoiseRecord {
    /// The noise of coordinates that pick groups by filters, for sums of these groups: the keys of
    /// the groups, what each coordinate picks, the places of the groups in each sum, and which
    /// filters they meet. `None` where it is not known, or where the computation takes more than is
    /// left of `effort`.
    pub(in crate::release) fn by_filter(
        &self,
        keys: &[PrintedKey],
        (sources, members, met): (&[Source<'_>], &[SummedGroup], &Met),
        effort: &PlanningEffort,
    ) -> Option<ByFilter> {
        let filters = met.values().next().map_or(0, Vec::len);
        let of_group = |(_, rows): &SummedGroup| {
            let key = |row: &usize| keys.get(*row).cloned();
            let mut sums: Vec<Vec<PrintedKey>> = vec![rows.iter().map(key).collect::<Option<_>>()?];
            for filter in 0..filters {
                let is_met = |row: &&usize| met.get(row).is_some_and(|met| met[filter]);
                let picked = rows.iter().filter(is_met);
                sums.push(picked.map(key).collect::<Option<_>>()?);
            }
            self.parts_of_sums(&sums, effort)
        };
        Some(ByFilter {
            picked: sources.iter().map(|source| source.picked).collect(),
            of_groups: members.iter().map(of_group).collect::<Option<_>>()?,
        })
    }

    /// The noise of sums of groups over independent parts.
    fn parts_of_sums(
        &self,
        sums: &[Vec<PrintedKey>],
        effort: &PlanningEffort,
    ) -> Option<Vec<Vec<f64>>> {
        let mut moving = vec![vec![0.0; sums.len()]; sums.len()];
        for (one, of_one) in sums.iter().enumerate() {
            for (other, of_other) in sums.iter().enumerate().take(one + 1) {
                if !of_one.is_empty() && !of_other.is_empty() {
                    moving[one][other] = self.covariance(of_one, of_other, effort)?;
                }
            }
        }
        Some(independent_parts(&moving))
    }

    /// As [`NoiseRecord::noise`]: each part of each draw.
    pub(super) fn noise_by_filter(
        &self,
        by: &ByFilter,
        measure: &Measure,
        group: usize,
    ) -> Vec<f64> {
        let width = by.parts();
        let mut noise = vec![0.0; self.draws.len() * width];
        for (coordinate, factor) in measure_terms(measure) {
            let parts = by.parts_of(coordinate, group);
            for (CoordinateId(draw), times) in self.draws_in(coordinate) {
                let own = noise[draw * width..].iter_mut().zip(&parts);
                own.for_each(|(sum, part)| *sum += factor * times * part);
            }
        }
        noise
    }

    /// The record with the noise of coordinates that pick groups by filters.
    pub(in crate::release) fn with_filters(self, by_filter: Option<ByFilter>) -> Self {
        Self { by_filter, ..self }
    }

    /// Whether coordinates pick groups by filters.
    pub(in crate::release) fn picks_by_filters(&self) -> bool {
        self.by_filter.is_some()
    }
}

/// L of G = L L', for the lower triangle of covariances G. A sum that follows from others adds
/// no part.
fn independent_parts(covariances: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut parts: Vec<Vec<f64>> = Vec::with_capacity(covariances.len());
    for (at, of) in covariances.iter().enumerate() {
        let mut own = vec![0.0; covariances.len()];
        for other in 0..=at {
            let known: f64 = match parts.get(other) {
                Some(before) => (0..other).map(|k| own[k] * before[k]).sum(),
                None => own[..other].iter().map(|part| part * part).sum(),
            };
            let left = of[other] - known;
            own[other] = match parts.get(other).map(|before| before[other]) {
                Some(before) if before > 0.0 => left / before,
                Some(_) => 0.0,
                None if left > ROUNDING * of[at] => left.sqrt(),
                None => 0.0,
            };
        }
        parts.push(own);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::independent_parts;

    /// The parts have the covariances that they are made of, also of sums that are equal, empty, or
    /// the sum of others.
    #[test]
    fn parts_have_the_covariances() {
        // Sums over groups as bits, of equal and independent noise.
        let sums: [u32; 7] = [
            0b111_1111, 0b000_0111, 0b111_1000, 0, 0b000_0111, 0b10_1010, 0b1,
        ];
        let shared = |one: u32, other: u32| f64::from((one & other).count_ones());
        let covariances = sums.map(|one| sums.map(|other| shared(one, other)).to_vec());
        let parts = independent_parts(&covariances);
        let product = |one: &[f64], other: &[f64]| -> f64 {
            one.iter().zip(other).map(|(one, other)| one * other).sum()
        };
        for (at, one) in parts.iter().enumerate() {
            for (to, other) in parts.iter().enumerate() {
                let difference = product(one, other) - covariances[at][to];
                assert!(difference.abs() < 1e-12, "{at} {to}: {difference}");
            }
        }
        // What is not met in a group has no noise there at all.
        assert_eq!(parts[3], vec![0.0; 7]);
        let equal = parts[4].iter().zip(&parts[1]);
        assert!(
            equal
                .into_iter()
                .all(|(one, other)| (one - other).abs() < 1e-12)
        );
    }
}
