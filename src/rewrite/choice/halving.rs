//! Several fractions of one value, chosen together by halving the candidates.

use num_bigint::BigUint;

use super::target::{ratio_of, spread_of};
use crate::mechanism::Exponential;

/// How fractions of one value are chosen together, the middle one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halving {
    /// Strength of each draw, in units of 2^-30.
    pub eta: u64,
    /// The most that one unit weighs.
    pub weight_max: u64,
    /// How many pieces a candidate is cut into, a power of two.
    pub pieces: u64,
}

impl Halving {
    /// Fewer fractions than this are chosen one by one: halving would save little.
    pub const LEAST: usize = 4;

    /// Large enough that one piece of the rows that share a value does not matter. With the largest
    /// grid there are at most 2^32 pieces.
    pub const PIECES: u64 = 1 << 16;

    /// How many draws one unit takes part in.
    pub fn levels(fractions: usize) -> u32 {
        fractions.max(1).ilog2() + 1
    }

    /// The error of each fraction's rank, in units of the reach of a draw with spread 1. It is the
    /// error of the fraction's own draw, plus a weighted mean of the errors of the two fractions
    /// that were chosen before and that it lies between: the nearer one weighs more. The fractions
    /// are in millionths and ascend.
    pub fn reach(fractions: &[u32]) -> Vec<f64> {
        fn descend(ends: [(u32, f64); 2], fractions: &[u32], reaches: &mut Vec<f64>) {
            let middle = fractions.len() / 2;
            let (Some(fraction), [(low, off_low), (high, off_high)]) =
                (fractions.get(middle), ends)
            else {
                return;
            };
            let (a, b) = ratio_of(fraction - low, high - low);
            let ratio = a as f64 / b as f64;
            let off =
                spread_of((a, b)) as f64 / b as f64 + (1.0 - ratio) * off_low + ratio * off_high;
            descend([ends[0], (*fraction, off)], &fractions[..middle], reaches);
            reaches.push(off);
            descend(
                [(*fraction, off), ends[1]],
                &fractions[middle + 1..],
                reaches,
            );
        }
        let mut reaches = Vec::with_capacity(fractions.len());
        descend([(0, 0.0), (1_000_000, 0.0)], fractions, &mut reaches);
        reaches
    }

    /// A draw for the rank a/b of a part's weight.
    ///
    /// # Guarantee
    /// Penalties of two candidates move apart by at most `width` when one unit comes or goes
    /// ([`Target::spread`](super::Target::spread), in pieces). The parts of one level hold
    /// different rows, so a unit pays for one draw of each of [`Self::levels`].
    pub fn draw(&self, ratio: (u64, u64)) -> Exponential {
        Exponential {
            eta: self.eta,
            width: BigUint::from(self.weight_max) * self.pieces * spread_of(ratio),
        }
    }
}
