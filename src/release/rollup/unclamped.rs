//! Counts as they were drawn, for computations that add up many of them.

use num_traits::ToPrimitive;

use super::{Grain, sum_rows, value};
use crate::aggregates::MeasureId;
use crate::release::{ReleasedTable, decode};
use crate::rewrite::{CoordinateId, Family, Measure, ReleasePlan, Total};

impl ReleasedTable {
    /// A count of all groups as it was drawn: it may be below zero, where [`Self::measures`] has
    /// zero. Only then are sums of many groups right on average. `None` where the table is not of
    /// this release, or the measure no count.
    ///
    /// # Guarantee
    /// Post-processing of the released integers.
    pub fn unclamped_counts(&self, release: &ReleasePlan, id: MeasureId) -> Option<Vec<f64>> {
        let grain = self.grain.as_ref()?;
        let Measure::Count(count) = release.measure(id) else {
            return None;
        };
        let totals = totals(grain, release.family()?)?;
        let count = |row: usize| {
            let sums = sum_rows(grain, &[row])?;
            let of = |CoordinateId(at): CoordinateId| value(grain, totals[at], &sums);
            decode::noisy_count(*count, &of).to_f64()
        };
        (0..self.keys.len()).map(count).collect()
    }
}

/// The finer answer's totals that the release's coordinates are.
fn totals<'g>(grain: &'g Grain, family: &Family) -> Option<Vec<&'g Total>> {
    let digests = family.coordinates.iter();
    let total = digests.map(|digest| grain.totals.iter().find(|t| Some(t.digest) == *digest));
    total.collect()
}
