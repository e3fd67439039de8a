//! Sums by group and bin, for each block of a vector.

use std::collections::HashMap;

use foldhash::fast::RandomState as QuickState;
use num_bigint::BigUint;

use super::ENTRY_BYTES;
use super::group_key::KnownGroups;
use super::length::{BinEdges, Squared};
use crate::execute::TextRows;
use crate::mechanism::Norm;
use crate::rewrite::{FoldBlock, KeptGroups, PRESENCE};

/// The cells of a block, with their weights, and the edges of its bins.
struct Block {
    cells: Vec<(usize, BigUint)>,
    edges: BinEdges,
}

impl Block {
    /// Whether every unit is in the first bin.
    fn has_one_bin(&self) -> bool {
        self.cells.is_empty()
    }

    /// The bin of a unit, by what it adds to each of its groups.
    fn bin<'p>(&self, parts: impl Iterator<Item = &'p [i64]>) -> u32 {
        let mut squared = Squared::default();
        for integers in parts {
            for (at, weight) in &self.cells {
                squared.add(weight, integers[*at]);
            }
        }
        self.edges.bin(&squared)
    }
}

/// The sums of a group and bin, and how many units have their first row there.
#[derive(Default)]
struct Sums {
    integers: Vec<i128>,
    units: u64,
}

pub struct UnitBins {
    /// How many integers a unit adds to a group.
    width: usize,
    kept: Option<KeptGroups>,
    blocks: Vec<Block>,
    /// By the place of a block, group and bin.
    sums: HashMap<(usize, u32, u32), Sums, QuickState>,
}

impl UnitBins {
    pub fn new(width: usize, kept: Option<KeptGroups>, blocks: &[FoldBlock]) -> Self {
        let blocks = blocks.iter().map(|block| Block {
            cells: block.cells.clone(),
            edges: BinEdges::new(&block.thresholds),
        });
        Self {
            width: width.max(1),
            kept,
            blocks: blocks.collect(),
            sums: HashMap::default(),
        }
    }

    /// # Guarantee
    /// The unit is in one bin of each block, by the length of its vector over all kept groups.
    /// Which groups are kept, and what it adds, depends on its own rows alone.
    pub fn add_unit(&mut self, groups: &KnownGroups, of_unit: &[u32], integers: &mut [i64]) {
        let kept = self.keep(groups, of_unit, integers);
        let integers = &*integers;
        let part = |at: usize| &integers[at * self.width..][..self.width];
        let sorted = self.blocks.iter().enumerate();
        let mut bins: Vec<(usize, u32)> = sorted
            .filter(|(_, block)| !block.has_one_bin())
            .map(|(at, block)| (at, block.bin(kept.iter().map(|kept| part(*kept)))))
            .collect();
        if bins.is_empty() {
            bins.push((0, 1));
        }
        for (number, at) in kept.iter().enumerate() {
            for (block, bin) in &bins {
                let sums = self.sums.entry((*block, of_unit[*at], *bin)).or_default();
                sums.integers.resize(self.width, 0);
                for (sum, integer) in sums.integers.iter_mut().zip(part(*at)) {
                    *sum += i128::from(*integer);
                }
                sums.units += u64::from(number == 0);
            }
        }
    }

    /// About what the sums take.
    pub fn bytes(&self) -> usize {
        self.sums.len() * (2 * ENTRY_BYTES + size_of::<i128>() * self.width)
    }

    /// The places of the groups that count. What each adds to the presence becomes its share.
    fn keep(&self, groups: &KnownGroups, of_unit: &[u32], integers: &mut [i64]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..of_unit.len()).collect();
        let Some(kept) = &self.kept else {
            return places;
        };
        if places.len() > kept.limit as usize {
            places.sort_by_cached_key(|at| groups.order(of_unit[*at]));
            places.truncate(kept.limit as usize);
        }
        if let Some(presence) = kept.presence {
            let share = share_of(places.len() as u64, kept.norm);
            for at in &places {
                integers[at * self.width + presence] *= share;
            }
        }
        places
    }

    /// The keys, the bins, the sums and the units, as texts. A row is of one block: the bins of
    /// others are NULL, but for the one bin that all units are in, which the first block's rows
    /// have too.
    pub fn take_rows(&mut self, groups: &KnownGroups) -> TextRows {
        let blocks = &self.blocks;
        let first = blocks.iter().position(|block| !block.has_one_bin());
        let first = first.unwrap_or(0);
        let bin_of = |at: usize, (block, bin): (usize, u32)| {
            if blocks[at].has_one_bin() {
                (block == first).then(|| "1".to_owned())
            } else {
                (block == at).then(|| bin.to_string())
            }
        };
        let row = |((block, group, bin), sums): ((usize, u32, u32), Sums)| {
            let mut row = groups.texts(group);
            row.extend((0..blocks.len()).map(|at| bin_of(at, (block, bin))));
            row.extend(sums.integers.iter().map(|sum| Some(sum.to_string())));
            row.push(Some(sums.units.to_string()));
            row
        };
        self.sums.drain().map(row).collect()
    }
}

/// The share of its presence that a unit has in each of its groups.
///
/// # Guarantee
/// Under Gaussian noise the squares of all shares add up to at most [`PRESENCE`]^2, under Laplace
/// noise the shares to at most [`PRESENCE`].
fn share_of(groups: u64, norm: Norm) -> i64 {
    let groups = groups.max(1);
    let share = match norm {
        Norm::L2 => (PRESENCE * PRESENCE / groups).isqrt(),
        Norm::L1 => PRESENCE / groups,
    };
    share as i64
}
