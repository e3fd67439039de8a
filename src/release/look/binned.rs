//! Exact sums by group and bin, behind the seal: they offer numbers of units to be noised, and sums
//! that are clipped at chosen lengths, which use them up.

use std::collections::HashMap;

use zeroize::Zeroizing;

use super::super::{Found, Key};
use crate::execute::Rows;
use crate::mechanism::Calibrated;
use crate::rewrite::{Block, ReleasePlan};

/// The rows of a binned statement.
pub struct Binned {
    rows: Zeroizing<Rows>,
    blocks: usize,
    keys: usize,
}

impl Binned {
    pub fn new(release: &ReleasePlan, rows: Rows, blocks: usize) -> Self {
        Self {
            rows: Zeroizing::new(rows),
            blocks,
            keys: release.key_columns(),
        }
    }

    /// The exact number of units in each bin of a block, over all groups: those without length
    /// first.
    ///
    /// # Requires
    /// No group is left out. Which of its groups counts a unit is not determined; that it counts
    /// once is.
    pub fn units(&self, block: usize, bins: usize) -> Zeroizing<Vec<i128>> {
        let mut units = Zeroizing::new(vec![0i128; bins]);
        for row in self.rows.iter() {
            let Some(number) = self.number(row, block) else {
                continue;
            };
            let counted = row.last().and_then(Option::as_deref);
            let counted = counted.and_then(|c| c.parse::<i128>().ok()).unwrap_or(0);
            if let Some(units) = units.get_mut(number) {
                *units = units.saturating_add(counted);
            }
        }
        units
    }

    /// The sums of every group that the statement found, each block clipped at its candidate.
    ///
    /// # Guarantee
    /// With the refinement of `calibrated` the sums of block b are linear in what each unit adds,
    /// and no unit's part is longer than the candidate's clip: [`crate::rewrite::Bins::factor`].
    pub fn clipped(
        self,
        blocks: &[Block],
        candidates: &[usize],
        calibrated: &[Calibrated],
    ) -> Found {
        let all: Vec<usize> = (0..blocks.len()).collect();
        self.clipped_blocks(&all, blocks, candidates, calibrated)
    }

    /// The same of one block whose clip is known, without using the sums up: of the coordinate that
    /// decides which groups are shown.
    pub fn shown(&self, block: usize, blocks: &[Block], calibrated: &[Calibrated]) -> Found {
        let candidates = vec![0; blocks.len()];
        self.clipped_blocks(&[block], blocks, &candidates, calibrated)
    }

    fn clipped_blocks(
        &self,
        wanted: &[usize],
        blocks: &[Block],
        candidates: &[usize],
        calibrated: &[Calibrated],
    ) -> Found {
        let mut sums = Found::new();
        let mut factors: HashMap<(usize, usize, u32), i128> = HashMap::new();
        for row in self.rows.iter() {
            let has = |at: &usize| Some((*at, self.number(row, *at)?));
            for (at, number) in wanted.iter().filter_map(has) {
                let (block, candidate) = (&blocks[at], candidates[at]);
                let key = &row[..self.keys.min(row.len())];
                if !sums.contains_key(key) {
                    sums.insert(key.to_vec(), Zeroizing::new(vec![0; calibrated.len()]));
                }
                let Some(group) = sums.get_mut(key) else {
                    continue;
                };
                for coordinate in &block.coordinates {
                    let refine = calibrated[*coordinate].refine;
                    let factor = factors
                        .entry((at, number, refine))
                        .or_insert_with(|| block.bins.factor(candidate, number, refine));
                    let text = row
                        .get(self.keys + self.blocks + coordinate)
                        .and_then(Option::as_deref);
                    group[*coordinate] += within(text, refine) * *factor;
                }
            }
        }
        sums
    }

    /// The number of the row's bin in a block; `None` where it is a row of other blocks.
    fn number(&self, row: &Key, block: usize) -> Option<usize> {
        row.get(self.keys + block)?.as_deref()?.parse().ok()
    }
}

/// Room for the sums of all bins, in bits.
const BINS_BITS: u32 = 9;

/// A sum of one group and bin, clamped so that products with factors of `refine` bits add up
/// within 128 bits over all bins. No table holds as much. A clamp of one bin's sum makes no
/// difference of two sums larger, so it keeps the bound on what a unit adds.
fn within(text: Option<&str>, refine: u32) -> i128 {
    let most = 1i128 << 126u32.saturating_sub(refine + BINS_BITS);
    let Some(text) = text else { return 0 };
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    let beyond = if text.starts_with('-') { -most } else { most };
    text.parse().unwrap_or(beyond).clamp(-most, most)
}
