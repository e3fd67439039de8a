//! Clips that a release chooses for itself: the candidates, and their noise.

use num_bigint::BigUint;

use crate::mechanism::{Calibrated, Loss, Mu, gaussian_finer};
use crate::refusal::Refusal;
use crate::rewrite::limits::out_of_reach;
use crate::rewrite::vector::bins::{Bins, CandidateId};
use crate::rewrite::vector::coordinate_id::CoordinateId;

/// Factors are rounded down to steps of 2^-24, where the noise leaves room for as fine a grid.
const FINER: u32 = 24;

/// Most bits of a factor: sums of 2^20 more than any table holds still fit with it.
const FINEST: u32 = 96;

/// Coordinates that are clipped together, and the clips to choose from.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Places in the vector, ascending.
    pub coordinates: Vec<CoordinateId>,
    /// The weight of each of them.
    pub weights: Vec<BigUint>,
    pub bins: Bins,
    /// The mu at which its sums are released.
    pub mu: Mu,
}

/// One block of a look's release.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub usize);

/// The bare number: digests of plans are taken of it.
impl std::fmt::Debug for BlockId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Block {
    /// The noise of the block's coordinates at a candidate.
    ///
    /// # Guarantee
    /// For sums that the factors of [`Bins::factor`] clip at this candidate, with the refinement of
    /// each coordinate, the release of the block is `mu`-GDP.
    ///
    /// # Errors
    /// 22023 past what samplers support. The price has tried every candidate.
    ///
    /// # Reference
    /// `docs/look.md`, lemma 1.
    pub fn calibrate(&self, candidate: CandidateId) -> Result<Vec<Calibrated>, Refusal> {
        let clip = self.bins.clip(candidate);
        self.weights
            .iter()
            .map(|weight| {
                gaussian_finer(clip, weight, self.mu, FINER)
                    .ok()
                    .filter(|calibrated| calibrated.refine <= FINEST)
                    .ok_or_else(out_of_reach)
            })
            .collect()
    }
}

/// A look sees units where some window of bins holds this many standard deviations of its noise.
pub const SEEN: f64 = 4.0;

/// How the clips of a release are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub blocks: Vec<Block>,
    /// The noise of the number of units in a bin.
    pub counts: Calibrated,
    /// The block of the coordinate that decides which groups are shown. It is drawn with the look.
    pub shown: Option<BlockId>,
    /// The loss that is paid before the statement runs.
    pub first: Loss,
    /// The loss that is paid before the sums are drawn, if the look saw enough to choose.
    pub second: Loss,
}

impl Look {
    /// The standard deviation of the number of units in a bin.
    pub fn deviation(&self) -> f64 {
        self.counts.noise.standard_deviation() / 2f64.powi(self.counts.refine as i32)
    }

    /// The largest mu at which sums are drawn after the look.
    pub fn accuracy_of_sums(&self) -> f64 {
        let later = self
            .with_numbers()
            .filter(|(at, _)| self.shown != Some(*at));
        let mus = later.map(|(_, block)| block.mu.to_f64());
        mus.fold(0.0, f64::max)
    }

    /// The blocks, each with its number.
    pub fn with_numbers(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        (0..).map(BlockId).zip(&self.blocks)
    }

    pub fn block(&self, block: BlockId) -> &Block {
        &self.blocks[block.0]
    }

    /// The block of a coordinate.
    pub fn block_of(&self, coordinate: CoordinateId) -> Option<BlockId> {
        let is_there = |(_, block): &(_, &Block)| block.coordinates.contains(&coordinate);
        self.with_numbers().find(is_there).map(|(at, _)| at)
    }

    /// The blocks, where the sums of some are not drawn: their mu^2 is shared equally among the
    /// others. The block that is drawn with the look stays as it is.
    ///
    /// # Guarantee
    /// The blocks that are drawn after the look cost at most `second` together, whichever they are.
    ///
    /// # Reference
    /// `docs/look.md`, the theorem: its sum over the blocks is what is charged.
    pub fn shared_out(&self, is_drawn: &[bool]) -> Vec<Block> {
        let is_later = |at: BlockId| self.shown != Some(at) && is_drawn[at.0];
        let later = self.with_numbers().filter(|(at, _)| is_later(*at)).count();
        let squared = self.second.mu_squared.0 / (later.max(1) as u128);
        // One step less leaves room for the rounding of other currencies.
        let mu = u64::try_from(squared.isqrt()).map_or(0, |mu| mu.saturating_sub(1));
        let shared = self.with_numbers().map(|(at, block)| {
            let better = Block {
                mu: Mu(mu.max(block.mu.0)),
                ..block.clone()
            };
            let fits = |candidate| better.calibrate(candidate).is_ok();
            match is_later(at) && fits(CandidateId::LEAST) && fits(CandidateId::CEILING) {
                true => better,
                false => block.clone(),
            }
        });
        shared.collect()
    }

    /// The block of a coordinate, and its place in it.
    pub fn place(&self, coordinate: CoordinateId) -> Option<(&Block, usize)> {
        self.blocks.iter().find_map(|block| {
            let at = block.coordinates.iter().position(|c| *c == coordinate)?;
            Some((block, at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{gaussian, loss_gaussian};

    /// A look with blocks of these mu, of which one may be drawn with the look.
    fn look(mus: &[u64], shown: Option<usize>) -> Look {
        let one = BigUint::from(1u8);
        let block = |(at, mu): (usize, &u64)| Block {
            coordinates: vec![CoordinateId(at)],
            weights: vec![one.clone()],
            bins: Bins::up_to(&BigUint::from(1_000u16)),
            mu: Mu(*mu),
        };
        let later = mus.iter().enumerate().filter(|(at, _)| shown != Some(*at));
        let sum = |sum: Loss, (_, mu): (usize, &u64)| sum.compose(loss_gaussian(Mu(*mu))).unwrap();
        Look {
            blocks: mus.iter().enumerate().map(block).collect(),
            counts: gaussian(&one, &one, Mu::round_down(0.1)).unwrap(),
            shown: shown.map(BlockId),
            first: Loss::ZERO,
            second: later.fold(Loss::ZERO, sum),
        }
    }

    /// Whichever blocks are drawn, they use up what is paid, and no more in any currency.
    #[test]
    fn blocks_that_are_drawn_use_up_the_second_debit() {
        let sums = Mu::round_down(0.1241).0;
        for (blocks, shown) in [(1, None), (2, None), (3, None), (4, None), (4, Some(1))] {
            for odd in [0, 1] {
                let mut mus = vec![sums + odd; blocks];
                shown.iter().for_each(|at: &usize| mus[*at] = sums / 3);
                let look = look(&mus, shown);
                for drawn in 1u32..1 << blocks {
                    let is_drawn: Vec<bool> = (0..blocks).map(|at| drawn >> at & 1 == 1).collect();
                    let shared = look.shared_out(&is_drawn);
                    let later = |at: &usize| is_drawn[*at] && shown != Some(*at);
                    let later: Vec<usize> = (0..blocks).filter(later).collect();
                    let losses = later.iter().map(|at| loss_gaussian(shared[*at].mu));
                    let all = losses.fold(Loss::ZERO, |sum, loss| sum.compose(loss).unwrap());
                    assert!(all.mu_squared <= look.second.mu_squared, "{drawn:b}");
                    assert!(all.rho <= look.second.rho, "{drawn:b}");
                    let used = all.mu_squared.to_f64() / look.second.mu_squared.to_f64();
                    assert!(later.is_empty() || used > 1.0 - 1e-6, "{drawn:b}: {used}");
                    for at in (0..blocks).filter(|at| !later.contains(at)) {
                        assert_eq!(shared[at], look.blocks[at]);
                    }
                }
            }
        }
    }
}
