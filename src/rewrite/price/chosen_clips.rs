//! Clips that a release chooses for itself: the candidates, and their noise.

use num_bigint::BigUint;

use crate::mechanism::{Calibrated, Loss, Mu, gaussian_finer};
use crate::refusal::Refusal;
use crate::rewrite::limits::out_of_reach;
use crate::rewrite::vector::bins::Bins;
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
    pub fn calibrated(&self, candidate: usize) -> Result<Vec<Calibrated>, Refusal> {
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
    pub shown: Option<usize>,
    /// Paid before the statement runs.
    pub first: Loss,
    /// Paid before the sums are drawn, if the look saw enough to choose.
    pub second: Loss,
}

impl Look {
    /// The standard deviation of the number of units in a bin.
    pub fn deviation(&self) -> f64 {
        self.counts.noise.standard_deviation() / 2f64.powi(self.counts.refine as i32)
    }

    /// The block of a coordinate, and its place in it.
    pub fn place(&self, coordinate: CoordinateId) -> Option<(&Block, usize)> {
        self.blocks.iter().find_map(|block| {
            let at = block.coordinates.iter().position(|c| *c == coordinate)?;
            Some((block, at))
        })
    }
}
