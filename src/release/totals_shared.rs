//! The noise that periods share where they are computed from rows of running totals.

use std::collections::{BTreeMap, BTreeSet};

use crate::calendar::period::Period;
use crate::ir::KeyId;
use crate::mechanism::Noise;

/// The noise of the rows of one block.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TotalsBlock {
    /// The noise of each coordinate of a row.
    pub draws: Vec<(Noise, u32)>,
    /// The weight of a row in a total, by its age.
    pub factors: Vec<f64>,
}

/// Where a group comes from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TotalsPlace {
    pub period: Period,
    pub block: usize,
    /// The combination of the other keys, within its block.
    pub line: usize,
    /// The number of its row in the block.
    pub row: usize,
}

/// The rows that each group was computed from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TotalsShared {
    pub blocks: Vec<TotalsBlock>,
    /// The place of each group.
    pub places: Vec<TotalsPlace>,
    /// The place of the period's key.
    pub key: usize,
}

impl TotalsShared {
    /// The groups whose period is not later than that of a group; `None` for another key.
    pub fn groups_up_to(
        &self,
        group: usize,
        KeyId(key): KeyId,
    ) -> Option<impl Iterator<Item = usize>> {
        let own = self.places.get(group).filter(|_| key == self.key)?.period;
        let places = self.places.iter().enumerate();
        Some(places.filter_map(move |(at, place)| (place.period <= own).then_some(at)))
    }

    /// The noise of a row, and the deviation of the sum of some groups in terms of it; `None` where
    /// they come from rows with different noise.
    ///
    /// Rows are drawn apart. A run of periods from a to b is the difference of two totals: row i
    /// has the weight of its age in the total up to b, less that in the total before a.
    pub fn noise_of_sum(&self, groups: &[usize]) -> Option<(Vec<(Noise, u32)>, f64)> {
        let mut lines: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
        for group in groups {
            let place = self.places.get(*group)?;
            lines
                .entry((place.block, place.line))
                .or_default()
                .insert(place.row);
        }
        let draws = &self.blocks.first()?.draws;
        let mut variance = 0.0;
        for ((block, _), rows) in lines {
            let block = self.blocks.get(block)?;
            if block.draws != *draws {
                return None;
            }
            variance += variance_of_line(&block.factors, &rows)?;
        }
        Some((draws.clone(), variance.sqrt()))
    }
}

/// The variance of the sum of some periods of one line, in terms of that of a row.
fn variance_of_line(factors: &[f64], rows: &BTreeSet<usize>) -> Option<f64> {
    let mut weights = vec![0.0; rows.last()? + 1];
    let mut add = |end: usize, sign: f64| {
        for (row, weight) in weights.iter_mut().enumerate().take(end) {
            *weight += sign * factors[end - 1 - row];
        }
    };
    for row in rows {
        let is_first = row
            .checked_sub(1)
            .is_none_or(|before| !rows.contains(&before));
        if is_first {
            add(*row, -1.0);
        }
        if !rows.contains(&(row + 1)) {
            add(row + 1, 1.0);
        }
    }
    Some(weights.iter().map(|weight| weight * weight).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::SquareRoot;

    /// Variances are those of the weights of each row in the sum.
    #[test]
    fn variances_of_sums_count_what_periods_share() {
        let root = SquareRoot::new(12);
        let factors = root.factors_of_totals();
        let of_period = |row: usize, at: usize| {
            let of_total = |end: Option<usize>| match end {
                Some(end) if at <= end => factors[end - at],
                _ => 0.0,
            };
            of_total(Some(row)) - of_total(row.checked_sub(1))
        };
        for rows in [
            vec![0],
            vec![11],
            vec![0, 1, 2, 3],
            vec![3, 4, 5, 9, 11],
            vec![5, 6, 7],
        ] {
            let weight = |at: usize| -> f64 { rows.iter().map(|row| of_period(*row, at)).sum() };
            let wanted: f64 = (0..12).map(|at| weight(at) * weight(at)).sum();
            let found = variance_of_line(&factors, &rows.iter().copied().collect()).unwrap();
            assert!((found / wanted - 1.0).abs() < 1e-9, "{rows:?}");
        }
        let apart = root.deviations_of_periods()[11].powi(2);
        let one = variance_of_line(&factors, &BTreeSet::from([11])).unwrap();
        assert!((one / apart - 1.0).abs() < 1e-9);
        let total = root.deviations_of_totals()[11].powi(2);
        let all = variance_of_line(&factors, &(0..12).collect()).unwrap();
        assert!((all / total - 1.0).abs() < 1e-9 && all < 12.0 * one / 3.0);
    }
}
