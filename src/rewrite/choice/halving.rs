//! Several fractions of one value, chosen together by halving the candidates.

use num_bigint::BigUint;

use super::target::{ratio_of, spread_of};
use crate::mechanism::Exponential;

/// Fractions of one value that are chosen together, the middle one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halving {
    /// Strength of each draw, in units of 2^-30.
    pub eta: u64,
    /// Most that one unit weighs.
    pub weight_max: u64,
    /// A candidate's pieces, a power of two.
    pub pieces: u64,
}

impl Halving {
    /// Fewer are chosen each for itself: little would be saved.
    pub const LEAST: usize = 4;

    /// So fine that one piece of the rows that share a value is no matter; with the largest grid
    /// within 2^32.
    pub const PIECES: u64 = 1 << 16;

    /// The draws that one unit meets.
    pub fn levels(fractions: usize) -> u32 {
        fractions.max(1).ilog2() + 1
    }

    /// How far off each fraction's rank is, in reaches of a draw whose penalty one unit moves as
    /// far as a rank: by its own draw, and by the parts' ends that it lies between, in proportion
    /// to its distance from the other one. The fractions are in millionths and in order.
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
    pub fn draw(&self, ratio: (u64, u64)) -> Exponential {
        Exponential {
            eta: self.eta,
            width: BigUint::from(self.weight_max) * self.pieces * spread_of(ratio),
        }
    }
}
