//! Rows by group, value and bin of their unit.

use std::collections::HashMap;

use num_bigint::BigUint;
use num_traits::One;

use super::group_key::{KnownGroups, UnitPart};
use super::length::{BinEdges, Squared};
use crate::execute::TextRows;

/// Rows of a group, value and bin, and how many units have their first row there.
#[derive(Default)]
struct Rows {
    rows: i128,
    units: u64,
}

pub struct RowBins {
    by_group: bool,
    thresholds: BinEdges,
    rows: HashMap<(u32, u32), Rows>,
}

impl RowBins {
    pub fn new(by_group: bool, thresholds: &[BigUint]) -> Self {
        Self {
            by_group,
            thresholds: BinEdges::new(thresholds),
            rows: HashMap::new(),
        }
    }

    /// # Guarantee
    /// All rows of the unit are in one bin, by how many it has in each group.
    pub fn add_unit(&mut self, groups: &KnownGroups, parts: &[UnitPart<'_>]) {
        let mut by_keys: HashMap<u32, i64> = HashMap::new();
        for (group, rows) in parts {
            let keys = if self.by_group {
                groups.keys_of(*group)
            } else {
                0
            };
            *by_keys.entry(keys).or_default() += rows[0];
        }
        let mut squared = Squared::default();
        let lengths = by_keys.values();
        lengths.for_each(|rows| squared.add(&BigUint::one(), *rows));
        let bin = self.thresholds.bin(&squared);
        for (at, (group, rows)) in parts.iter().enumerate() {
            let sum = self.rows.entry((*group, bin)).or_default();
            sum.rows += i128::from(rows[0]);
            sum.units += u64::from(at == 0);
        }
    }

    pub fn rows(&self, groups: &KnownGroups) -> TextRows {
        let row = |((group, bin), sum): (&(u32, u32), &Rows)| {
            let mut row = groups.texts(*group);
            let numbers = [bin.to_string(), sum.rows.to_string(), sum.units.to_string()];
            row.extend(numbers.map(Some));
            row
        };
        self.rows.iter().map(row).collect()
    }
}
