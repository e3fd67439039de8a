//! Sums by group and bin, for each block of a vector.

use std::borrow::Cow;
use std::collections::HashMap;

use num_bigint::BigUint;

use super::clamp;
use super::group_key::{KnownGroups, UnitPart};
use super::length::{BinEdges, Squared};
use crate::execute::TextRows;
use crate::mechanism::Norm;
use crate::rewrite::{Cell, FoldBlock, KeptGroups, PRESENCE};

/// The cells of a block, with their weights, and the edges of its bins.
struct Block {
    cells: Vec<(usize, BigUint)>,
    thresholds: BinEdges,
}

impl Block {
    /// Whether every unit is in the first bin.
    fn has_one_bin(&self) -> bool {
        self.cells.is_empty()
    }

    fn bin(&self, parts: &[(u32, Cow<'_, [i64]>)]) -> u32 {
        let mut squared = Squared::default();
        for (_, integers) in parts {
            for (at, weight) in &self.cells {
                squared.add(weight, integers[*at]);
            }
        }
        self.thresholds.bin(&squared)
    }
}

/// The sums of a group and bin, and how many units have their first row there.
#[derive(Default)]
struct Sums {
    integers: Vec<i128>,
    units: u64,
}

pub struct UnitBins {
    kept: Option<KeptGroups>,
    blocks: Vec<Block>,
    /// By the place of a block, group and bin.
    sums: HashMap<(usize, u32, u32), Sums>,
}

impl UnitBins {
    pub fn new(kept: Option<KeptGroups>, blocks: &[FoldBlock]) -> Self {
        let blocks = blocks.iter().map(|block| Block {
            cells: block.cells.clone(),
            thresholds: BinEdges::new(&block.thresholds),
        });
        Self {
            kept,
            blocks: blocks.collect(),
            sums: HashMap::new(),
        }
    }

    /// # Guarantee
    /// The unit is in one bin of each block, by the length of its vector over all kept groups.
    /// Which groups are kept, and what it adds, depends on its own rows alone.
    pub fn add_unit(&mut self, cells: &[Cell], groups: &KnownGroups, parts: &[UnitPart<'_>]) {
        let parts = self.keep(cells, groups, parts);
        let sorted = self.blocks.iter().enumerate();
        let mut bins: Vec<(usize, u32)> = sorted
            .filter(|(_, block)| !block.has_one_bin())
            .map(|(at, block)| (at, block.bin(&parts)))
            .collect();
        if bins.is_empty() {
            bins.push((0, 1));
        }
        for (at, (group, integers)) in parts.iter().enumerate() {
            for (block, bin) in &bins {
                let sums = self.sums.entry((*block, *group, *bin)).or_default();
                sums.integers.resize(integers.len(), 0);
                let added = sums.integers.iter_mut().zip(integers.iter());
                added.for_each(|(sum, integer)| *sum += i128::from(*integer));
                sums.units += u64::from(at == 0);
            }
        }
    }

    /// The groups that count, each integer within its bound, and each presence shared.
    fn keep<'p>(
        &self,
        cells: &[Cell],
        groups: &KnownGroups,
        parts: &[UnitPart<'p>],
    ) -> Vec<(u32, Cow<'p, [i64]>)> {
        let clamped = |integers: &'p [i64]| {
            let mut each = cells.iter().zip(integers);
            if each.all(|(cell, sum)| clamp(*cell, *sum) == *sum) {
                Cow::Borrowed(integers)
            } else {
                let each = cells.iter().zip(integers);
                Cow::Owned(each.map(|(cell, sum)| clamp(*cell, *sum)).collect())
            }
        };
        let parts = parts.iter().map(|(group, sums)| (*group, clamped(sums)));
        let mut parts: Vec<(u32, Cow<'p, [i64]>)> = parts.collect();
        let Some(kept) = &self.kept else {
            return parts;
        };
        if parts.len() > kept.limit as usize {
            parts.sort_by(|(a, _), (b, _)| groups.hash_order(*a, *b));
            parts.truncate(kept.limit as usize);
        }
        if let Some(presence) = kept.presence {
            let share = share_of(parts.len() as u64, kept.norm);
            for (_, integers) in &mut parts {
                integers.to_mut()[presence] *= share;
            }
        }
        parts
    }

    /// The keys, the bins, the sums and the units, as texts. A row is of one block: the bins of
    /// others are NULL, but for the one bin that all units are in, which the first block's rows
    /// have too.
    pub fn rows(&self, width: usize, groups: &KnownGroups) -> TextRows {
        let mut sorted = (0..self.blocks.len()).filter(|at| !self.blocks[*at].has_one_bin());
        let first = sorted.next().unwrap_or(0);
        let bin_of = |at: usize, (block, bin): (usize, u32)| {
            if self.blocks[at].has_one_bin() {
                (block == first).then(|| "1".to_owned())
            } else {
                (block == at).then(|| bin.to_string())
            }
        };
        let row = |((block, group, bin), sums): (&(usize, u32, u32), &Sums)| {
            let mut row = groups.texts(*group);
            row.extend((0..self.blocks.len()).map(|at| bin_of(at, (*block, *bin))));
            let integers = sums.integers.iter().take(width);
            row.extend(integers.map(|sum| Some(sum.to_string())));
            row.push(Some(sums.units.to_string()));
            row
        };
        self.sums.iter().map(row).collect()
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
