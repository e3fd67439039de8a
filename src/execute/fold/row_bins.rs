//! Rows by group, value and bin of their unit.

use std::collections::HashMap;

use foldhash::fast::RandomState as QuickState;
use num_bigint::BigUint;
use num_traits::One;

use super::ENTRY_BYTES;
use super::group_key::KnownGroups;
use super::length::{BinEdges, Squared};
use crate::execute::TextRows;

/// Rows of a group, value and bin, and how many units have their first row there.
#[derive(Default)]
struct Rows {
    rows: i128,
    units: u64,
}

pub struct RowBins {
    /// How many columns are keys, where a unit's length is the root of the sum over groups of
    /// squared rows.
    by_keys: Option<usize>,
    edges: BinEdges,
    rows: HashMap<(u32, u32), Rows, QuickState>,
}

impl RowBins {
    pub fn new(by_keys: Option<usize>, thresholds: &[BigUint]) -> Self {
        Self {
            by_keys,
            edges: BinEdges::new(thresholds),
            rows: HashMap::default(),
        }
    }

    /// # Guarantee
    /// All rows of the unit are in one bin, by how many it has in each group.
    pub fn add_unit(&mut self, groups: &KnownGroups, of_unit: &[u32], rows: &[i64]) {
        let mut by_keys: HashMap<&[u8], i64> = HashMap::new();
        for (group, rows) in of_unit.iter().zip(rows) {
            let keys = self.by_keys.map(|keys| groups.first_columns(*group, keys));
            *by_keys.entry(keys.unwrap_or_default()).or_default() += rows;
        }
        let mut squared = Squared::default();
        for rows in by_keys.values() {
            squared.add(&BigUint::one(), *rows);
        }
        let bin = self.edges.bin(&squared);
        for (at, (group, rows)) in of_unit.iter().zip(rows).enumerate() {
            let sum = self.rows.entry((*group, bin)).or_default();
            sum.rows += i128::from(*rows);
            sum.units += u64::from(at == 0);
        }
    }

    /// About what the rows take.
    pub fn bytes(&self) -> usize {
        self.rows.len() * 2 * ENTRY_BYTES
    }

    pub fn take_rows(&mut self, groups: &KnownGroups) -> TextRows {
        let row = |((group, bin), sum): ((u32, u32), Rows)| {
            let mut row = groups.texts(group);
            let numbers = [bin.to_string(), sum.rows.to_string(), sum.units.to_string()];
            row.extend(numbers.map(Some));
            row
        };
        self.rows.drain().map(row).collect()
    }
}
