//! The error of a running total. Known where the noise of its periods was drawn for totals:
//! elsewhere counts below zero are shown as zero, and a sum of them has no known error.

use super::Row;
use crate::aggregates::{Estimate, Foreseen};
use crate::ir::{AggregateId, KeyId};

/// The most groups of an answer whose totals have errors, times the values that are asked of them.
/// Each reads all groups.
const VALUES_MAX: usize = 2_000;

impl Row<'_> {
    /// The sum of a count or a sum over the groups up to this one, by the key of their period, of
    /// those with equal values of some keys.
    pub(super) fn running_total(
        &self,
        of: AggregateId,
        (order, partition): (KeyId, &[KeyId]),
    ) -> Option<Estimate> {
        let (output, _) = self.release.output(of)?;
        let Foreseen::Measure(id) = output.foreseen() else {
            return None;
        };
        let (keys, drawn) = (&self.table.keys, self.drawn?);
        let values = keys.len().checked_mul(self.release.uncertainties().len())?;
        let own = keys.get(self.group).filter(|_| values <= VALUES_MAX)?;
        let is_summed = |group: &usize| {
            let is_of = |KeyId(at): &KeyId| keys[*group].get(*at) == own.get(*at);
            partition.iter().all(is_of)
        };
        let groups = drawn.groups_up_to(self.group, order)?.filter(is_summed);
        let groups: Vec<usize> = groups.collect();
        let value = |group: &usize| -> Option<f64> {
            let measures = self.table.measures.get(*group)?;
            measures.get(id.0)?.parse().ok()
        };
        let value: f64 = groups.iter().map(value).sum::<Option<f64>>()?;
        let noise = drawn.noise_of_sum(self.release.measure(id), &groups)?;
        Some(Estimate::new(value, noise, self.z))
    }
}
