//! Exact sums by group and bin, behind the seal: they offer numbers of units to be noised, and sums
//! that are clipped at chosen lengths, which use them up.

use std::collections::HashMap;

use zeroize::Zeroizing;

use super::super::{FoundGroups, PrintedKey};
use crate::execute::TextRows;
use crate::mechanism::Calibrated;
use crate::rewrite::{BinNumber, Block, BlockId, CandidateId, CoordinateId, ReleasePlan};

/// The rows of a binned statement.
pub struct Binned {
    rows: Zeroizing<TextRows>,
    blocks: usize,
    keys: usize,
}

impl Binned {
    pub fn new(release: &ReleasePlan, rows: TextRows, blocks: usize) -> Self {
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
    pub fn units(&self, block: BlockId, bins: usize) -> Zeroizing<Vec<i128>> {
        let mut units = Zeroizing::new(vec![0i128; bins]);
        for row in self.rows.iter() {
            let Some(number) = self.number(row, block) else {
                continue;
            };
            let counted = row.last().and_then(Option::as_deref);
            let counted = counted.and_then(|c| c.parse::<i128>().ok()).unwrap_or(0);
            if let Some(units) = units.get_mut(number.0) {
                *units = units.saturating_add(counted);
            }
        }
        units
    }

    /// The sums of every group that the statement found, each block that is drawn clipped at its
    /// candidate. Those of other blocks are zero, whatever their rows are.
    ///
    /// # Guarantee
    /// With the refinement of `calibrated` the sums of block b are linear in what each unit adds,
    /// and no unit's part is longer than the candidate's clip: [`crate::rewrite::Bins::factor`].
    pub fn sums_at_clips(
        self,
        drawn: &[BlockId],
        (blocks, candidates): (&[Block], &[CandidateId]),
        calibrated: &[Calibrated],
    ) -> FoundGroups {
        self.clipped_blocks(drawn, blocks, candidates, calibrated)
    }

    /// The clipped sums of the block that decides which groups are shown. Its clip is known, and
    /// the sums are not consumed.
    pub fn sums_that_show_groups(
        &self,
        block: BlockId,
        blocks: &[Block],
        calibrated: &[Calibrated],
    ) -> FoundGroups {
        let candidates = vec![CandidateId::LEAST; blocks.len()];
        self.clipped_blocks(&[block], blocks, &candidates, calibrated)
    }

    fn clipped_blocks(
        &self,
        wanted: &[BlockId],
        blocks: &[Block],
        candidates: &[CandidateId],
        calibrated: &[Calibrated],
    ) -> FoundGroups {
        let mut sums = FoundGroups::new();
        let mut factors: HashMap<(BlockId, BinNumber, u32), i128> = HashMap::new();
        for row in self.rows.iter() {
            let has = |at: &BlockId| Some((*at, self.number(row, *at)?));
            for (at, number) in wanted.iter().filter_map(has) {
                let (block, candidate) = (&blocks[at.0], candidates[at.0]);
                let key = &row[..self.keys.min(row.len())];
                if !sums.contains_key(key) {
                    sums.insert(key.to_vec(), Zeroizing::new(vec![0; calibrated.len()]));
                }
                let Some(group) = sums.get_mut(key) else {
                    continue;
                };
                for CoordinateId(coordinate) in &block.coordinates {
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
    fn number(&self, row: &PrintedKey, block: BlockId) -> Option<BinNumber> {
        row.get(self.keys + block.0)?.as_deref()?.parse().ok()
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

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;

    use super::*;
    use crate::mechanism::Mu;
    use crate::rewrite::Bins;

    fn row(key: &str, bins: [Option<usize>; 2], sums: [i64; 2], units: u32) -> PrintedKey {
        let bins = bins.map(|number| number.map(|number| number.to_string()));
        let sums = sums.map(|sum| Some(sum.to_string()));
        let units = Some(units.to_string());
        [
            vec![Some(key.to_owned())],
            bins.to_vec(),
            sums.to_vec(),
            vec![units],
        ]
        .concat()
    }

    fn block(coordinate: usize, bins: Bins) -> Block {
        Block {
            coordinates: vec![CoordinateId(coordinate)],
            weights: vec![BigUint::from(1u8)],
            bins,
            mu: Mu(1 << 29),
        }
    }

    /// Edges 1, 2, 3, 4, 5, …, 16, and double that beyond.
    fn blocks() -> [Block; 2] {
        let bins = Bins::up_to(&BigUint::from(16u8));
        [block(0, bins.clone()), block(1, bins)]
    }

    fn binned() -> Binned {
        let past = blocks()[0].bins.numbers() - 1;
        let rows = vec![
            // A unit of length 4, one of 16 and one past all edges, in two groups; in the rows of
            // the other block two of length 2 and one without length.
            row("a", [Some(4), None], [4, 900], 1),
            row("a", [Some(12), None], [10, 900], 1),
            row("b", [Some(12), None], [-9, 900], 0),
            row("a", [Some(past), None], [1_000_000, 900], 1),
            row("a", [None, Some(2)], [900, 4], 2),
            row("b", [None, Some(0)], [900, 0], 1),
        ];
        Binned {
            rows: Zeroizing::new(rows),
            blocks: 2,
            keys: 1,
        }
    }

    /// The clipped sums are linear in the sums of each bin, by the bin's factor at the candidate:
    /// in full up to the clip, no longer than the clip beyond it, nothing past all edges.
    #[test]
    fn sums_leave_clipped_alone() {
        let blocks = blocks();
        assert_eq!(*blocks[0].bins.clip(CandidateId(11)), BigUint::from(16u8));
        for candidate in blocks[0].bins.all_candidates() {
            let calibrated = blocks
                .each_ref()
                .map(|b| b.calibrate(candidate).unwrap()[0]);
            let refine = calibrated[0].refine;
            let factor = |number| blocks[0].bins.factor(candidate, BinNumber(number), refine);
            let mut found = binned().sums_at_clips(
                &[BlockId(0), BlockId(1)],
                (&blocks, &[candidate; 2]),
                &calibrated,
            );
            let a = found.remove(&vec![Some("a".to_owned())]).unwrap();
            let b = found.remove(&vec![Some("b".to_owned())]).unwrap();
            assert!(found.is_empty());
            assert_eq!(a[..], [4 * factor(4) + 10 * factor(12), 4 * factor(2)]);
            assert_eq!(b[..], [-9 * factor(12), 0]);
            // The unit of length 16 adds 10 and -9, which is 13.5 long.
            let whole = 1i128 << refine;
            let clip = blocks[0].bins.lengths()[candidate.0] * whole as f64;
            assert!(factor(12) as f64 * f64::hypot(10.0, 9.0) <= clip);
            assert_eq!(factor(12) == whole, candidate == CandidateId(11));
        }
    }

    /// The factor of a bin is rounded down, and the sum is not: else the rounding of each group
    /// would move the sums by more than the unit.
    #[test]
    fn factors_are_rounded_and_sums_are_not() {
        let blocks = blocks();
        for candidate in (0..4).map(CandidateId) {
            let calibrated = blocks
                .each_ref()
                .map(|b| b.calibrate(candidate).unwrap()[0]);
            let refine = calibrated[0].refine;
            let binned = Binned {
                rows: Zeroizing::new(vec![row("a", [Some(5), None], [1_001, 0], 300)]),
                blocks: 2,
                keys: 1,
            };
            let chosen = (&blocks[..], &[candidate; 2][..]);
            let found = binned.sums_at_clips(&[BlockId(0)], chosen, &calibrated);
            let factor = blocks[0].bins.factor(candidate, BinNumber(5), refine);
            let clip = candidate.0 as i128 + 1;
            assert_eq!(factor, (clip << refine) / 5);
            let sum = found[&vec![Some("a".to_owned())]][0];
            assert_eq!(sum, 1_001 * factor);
            assert_ne!(sum, 1_001 * (clip << refine) / 5);
        }
    }

    /// No sum of a block that is not drawn leaves.
    #[test]
    fn sums_of_blocks_that_are_not_drawn_stay() {
        let blocks = blocks();
        let calibrated = blocks
            .each_ref()
            .map(|b| b.calibrate(CandidateId(11)).unwrap()[0]);
        for drawn in [0, 1] {
            let found = binned().sums_at_clips(
                &[BlockId(drawn)],
                (&blocks, &[CandidateId(11); 2]),
                &calibrated,
            );
            assert_eq!(found.len(), 2);
            for sums in found.values() {
                assert_eq!(sums[1 - drawn], 0);
            }
            assert!(found.values().any(|sums| sums[drawn] != 0));
        }
    }

    #[test]
    fn units_are_counted_over_all_groups() {
        let numbers = blocks()[0].bins.numbers();
        let of = |block| {
            let units = binned().units(BlockId(block), numbers);
            let counted = units.iter().enumerate().filter(|(_, units)| **units != 0);
            counted
                .map(|(number, units)| (number, *units))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(4, 1), (12, 1), (numbers - 1, 1)]);
        assert_eq!(of(1), [(0, 1), (2, 2)]);
    }
}
