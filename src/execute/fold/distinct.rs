//! The number of distinct values of each group.

use std::collections::{BTreeMap, HashMap};

use super::group_key::{KnownGroups, UnitPart};
use crate::execute::TextRows;

pub struct DistinctCounts {
    keys: usize,
    /// How many of a unit's pairs of group and value count, in all groups and in one.
    in_all: u64,
    in_group: u64,
    skips_null: bool,
    /// Whether a pair counts for some unit, by its number.
    counts: Vec<bool>,
}

impl DistinctCounts {
    pub fn new(keys: usize, in_all: u64, in_group: u64, skips_null: bool) -> Self {
        Self {
            keys,
            in_all,
            in_group,
            skips_null,
            counts: Vec::new(),
        }
    }

    /// # Guarantee
    /// At most `in_all` of the unit's pairs count, and `in_group` of those of one group: the first
    /// by hash and then by value, so that it depends on the set of its pairs alone.
    pub fn add_unit(&mut self, groups: &KnownGroups, parts: &[UnitPart<'_>]) {
        self.counts.resize(groups.len(), false);
        let mut pairs: Vec<u32> = parts.iter().map(|(pair, _)| *pair).collect();
        let number = pairs.len() as u64;
        if number <= self.in_all && number <= self.in_group {
            pairs
                .iter()
                .for_each(|pair| self.counts[*pair as usize] = true);
            return;
        }
        pairs.sort_by(|a, b| groups.hash_order(*a, *b));
        let mut of_group: HashMap<u32, u64> = HashMap::new();
        for (pair, _) in pairs.iter().zip(0..self.in_all) {
            let in_group = of_group.entry(groups.keys_of(*pair)).or_default();
            *in_group += 1;
            if *in_group <= self.in_group {
                self.counts[*pair as usize] = true;
            }
        }
    }

    pub fn rows(&self, groups: &KnownGroups) -> TextRows {
        let mut numbers: BTreeMap<Vec<Option<String>>, u64> = BTreeMap::new();
        if self.keys == 0 {
            numbers.insert(Vec::new(), 0);
        }
        let counted = self.counts.iter().zip(0..).filter(|(counts, _)| **counts);
        for (_, pair) in counted {
            let mut keys = groups.texts(pair);
            keys.truncate(self.keys);
            let is_counted = !(self.skips_null && groups.ends_with_null(pair));
            *numbers.entry(keys).or_default() += u64::from(is_counted);
        }
        let row = |(keys, number): (Vec<Option<String>>, u64)| {
            keys.into_iter().chain([Some(number.to_string())]).collect()
        };
        numbers.into_iter().map(row).collect()
    }
}
