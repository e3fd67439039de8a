//! How the noise of two sums of groups of one table moves together.

use std::collections::HashSet;

use super::set_noise::Numbering;
use super::{NoiseRecord, SetNoise};
use crate::analyze::PlanningEffort;
use crate::ir::{GroupingSet, KeyId, SetId};
use crate::release::PrintedKey;
use crate::rewrite::Measure;

impl NoiseRecord {
    /// The covariance of the noise of two sums of groups, each given by the keys of its groups, in
    /// terms of the variance of one group ([`Self::deviation_of_one`]). `None` where it is not
    /// known, or where the computation takes more than is left of `effort`.
    pub(in crate::release) fn covariance(
        &self,
        one: &[PrintedKey],
        other: &[PrintedKey],
        effort: &PlanningEffort,
    ) -> Option<f64> {
        match &self.by_effects {
            Some(by) => by.covariance(one, other, effort),
            None => {
                effort.take_if_left(one.len().saturating_add(other.len()) as u64)?;
                let known: HashSet<&PrintedKey> = one.iter().collect();
                let shared = other.iter().filter(|key| known.contains(key));
                Some(shared.count() as f64)
            }
        }
    }

    /// The standard deviation of a measure's noise in one group as it was drawn; with effects, in
    /// the group that has most.
    pub(in crate::release) fn deviation_of_one(&self, measure: &Measure) -> f64 {
        let noise = self.noise_times(1.0, measure);
        noise.iter().map(|n| n * n).sum::<f64>().sqrt()
    }

    /// The record of values whose deviation is this share of what it was.
    pub(in crate::release) fn with_left(self, share: f64) -> Self {
        Self {
            left: Some(share),
            ..self
        }
    }
}

impl SetNoise {
    /// As [`NoiseRecord::covariance`].
    ///
    /// Two groups share the effects of the keys that both of their sets have. A group of the larger
    /// set has these effects as the group of the shared keys has them, divided by the number of
    /// combinations of its other keys.
    fn covariance(
        &self,
        one: &[PrintedKey],
        other: &[PrintedKey],
        effort: &PlanningEffort,
    ) -> Option<f64> {
        let (first, second) = (self.set_of(one)?, self.set_of(other)?);
        let shared: Vec<KeyId> = first.keys().filter(|key| second.contains(*key)).collect();
        let keys: Vec<usize> = shared.iter().map(|KeyId(at)| *at).collect();
        effort.take_if_left(self.effects.work_of(&keys).saturating_mul(2))?;
        let mut numbering = self.numbering(&keys);
        let (one, other) = (
            weights(one, &mut numbering)?,
            weights(other, &mut numbering)?,
        );
        let both = one.iter().zip(&other);
        let (sum, difference): (Vec<f64>, Vec<f64>) =
            both.map(|(one, other)| (one + other, one - other)).unzip();
        let variance = |w: &[f64]| self.effects.variance_of(&keys, w);
        let others = |set: &GroupingSet| {
            let others = set.keys().filter(|key| !shared.contains(key));
            let sizes = others.map(|KeyId(at)| self.effects.sizes()[at] as f64);
            sizes.product::<f64>()
        };
        let covariance = (variance(&sum) - variance(&difference)) / 4.0;
        Some(covariance / others(first) / others(second) / self.of_sets().largest)
    }

    fn set_of(&self, groups: &[PrintedKey]) -> Option<&GroupingSet> {
        let number = groups.first()?.first()?.as_ref()?;
        SetId::read(number)?.find(&self.sets)
    }
}

/// For each combination of values of the keys, in how many of the groups it is.
fn weights<'k>(groups: &'k [PrintedKey], numbering: &mut Numbering<'k>) -> Option<Vec<f64>> {
    let mut weights = vec![0.0; numbering.combinations()];
    for group in groups {
        *weights.get_mut(numbering.place(group)?)? += 1.0;
    }
    Some(weights)
}
