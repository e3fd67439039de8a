//! Whether one release can be read off another, before either is made.

use num_bigint::BigInt;

use super::{Grain, Rollup, coarser};
use crate::analyze::PlanningEffort;
use crate::release::{NoiseRecord, ReleasedTable, cells};
use crate::rewrite::ReleasePlan;

impl ReleasedTable {
    /// The number of values that are stored for coarser questions, which is the work of reading
    /// them.
    pub fn values_stored(&self) -> u64 {
        let rows = self.grain.iter().flat_map(|grain| &grain.noisy);
        rows.map(|row| row.len() as u64).sum()
    }
}

/// A number that stands for each noisy sum. Real sums are shorter.
const LONG: i128 = i128::MAX;

/// Errors closer than this count as equal.
const SLACK: f64 = 1e-9;

/// Whether the answers of `asked` can be read off those of `wide`, each group off one group: tried
/// with the groups that `wide` will have, all of which are known without the data.
///
/// # Guarantee
///
/// If so, [`coarser`] finds the answers of `asked` in what `wide` releases, whatever that is: what
/// it compares (keys, conditions, totals, noise) is the same here, and its work is no less. They
/// have the error that `asked` has by itself, or less.
pub fn reads_off(asked: &ReleasePlan, wide: &ReleasePlan) -> bool {
    let table = stand_in(wide);
    let Some(family) = asked.family() else {
        return false;
    };
    coarser(asked, &table.to_stored(), &PlanningEffort::small()).is_some_and(|made| {
        made.worse <= 1.0 + SLACK && made.summed == 1 && made.epsilon >= family.epsilon
    })
}

/// A table with the groups, the totals and the noise that the release will have, all of which are
/// known without the data. One number stands for each noisy sum.
pub fn stand_in(wide: &ReleasePlan) -> ReleasedTable {
    let keys = cells(wide);
    let noisy = vec![vec![BigInt::from(LONG); wide.coordinates().len()]; keys.len()];
    let refined: Vec<u32> = wide.price().map_or(Vec::new(), |price| {
        price.calibrated.iter().map(|c| c.refine).collect()
    });
    ReleasedTable {
        measures: vec![Vec::new(); keys.len()],
        drawn: NoiseRecord::of(wide),
        grain: Grain::of(wide, (&refined, &BigInt::from(1)), &noisy),
        keys,
        ..ReleasedTable::default()
    }
}

/// The answers of `asked`, read off a table that was released for another question.
pub fn read_off(
    asked: &ReleasePlan,
    released: &ReleasedTable,
    effort: &PlanningEffort,
) -> Option<Rollup> {
    coarser(asked, &released.to_stored(), effort)
}
