//! The number of distinct values of each group.

use std::collections::{BTreeMap, HashMap};

use super::pair_digest::KnownPairs;
use crate::execute::TextRows;

pub struct DistinctCounts {
    pub pairs: KnownPairs,
    keys: usize,
    /// How many of a unit's pairs of group and value count, in all groups and in one.
    in_all: u64,
    in_group: u64,
    skips_null: bool,
}

impl DistinctCounts {
    pub fn new(keys: usize, in_all: u64, in_group: u64, skips_null: bool) -> Self {
        Self {
            pairs: KnownPairs::new(keys),
            keys,
            in_all,
            in_group,
            skips_null,
        }
    }

    /// # Guarantee
    /// At most `in_all` of the unit's pairs count, and `in_group` of those of one group: the first
    /// by hash, so that it depends on the set of its pairs alone.
    pub fn add_unit(&mut self, of_unit: &[u32]) {
        let number = of_unit.len() as u64;
        let all = &mut self.pairs.all;
        if number <= self.in_all && number <= self.in_group {
            for pair in of_unit {
                all[*pair as usize].counts = true;
            }
            return;
        }
        let mut of_unit = of_unit.to_vec();
        of_unit.sort_by_key(|pair| all[*pair as usize].order());
        let mut of_group: HashMap<u32, u64> = HashMap::new();
        for (pair, _) in of_unit.iter().zip(0..self.in_all) {
            let pair = &mut all[*pair as usize];
            let in_group = of_group.entry(pair.keys).or_default();
            *in_group += 1;
            pair.counts |= *in_group <= self.in_group;
        }
    }

    pub fn take_rows(&mut self) -> TextRows {
        let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
        for pair in self.pairs.all.iter().filter(|pair| pair.counts) {
            let is_counted = !(self.skips_null && pair.ends_with_null());
            *numbers.entry(pair.keys).or_default() += u64::from(is_counted);
        }
        if self.keys == 0 {
            let number = numbers.into_values().sum::<u64>();
            return vec![vec![Some(number.to_string())]];
        }
        let row = |(keys, number): (u32, u64)| {
            let mut row = self.pairs.groups.texts(keys);
            row.push(Some(number.to_string()));
            row
        };
        numbers.into_iter().map(row).collect()
    }
}
