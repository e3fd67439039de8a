//! The value that a draw aims at.

use num_traits::ToPrimitive;

use crate::ir::End;
use crate::mechanism::Exponential;

/// The value that a draw aims at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The value at this many millionths of all rows.
    Fraction(u32),
    /// Near the least or greatest value: so far inside that the many candidates beyond it are
    /// seldom drawn.
    End(End),
    MostFrequent,
    /// An end of an interval for the value at this many millionths of all rows. Its target is so
    /// far to the side that the drawn end is on the wrong side of the value at most once in 40
    /// times.
    Beyond(u32, Side),
}

/// Which end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Low,
    High,
}

impl Target {
    /// The draws that bound this one's error. An extreme has one, on its inner side: beyond it any
    /// value within the range is possible.
    pub fn sides(&self) -> Vec<Self> {
        match self {
            Self::Fraction(millionths) => vec![
                Self::Beyond(*millionths, Side::Low),
                Self::Beyond(*millionths, Side::High),
            ],
            Self::End(End::Least) => vec![Self::Beyond(0, Side::High)],
            Self::End(End::Greatest) => vec![Self::Beyond(1_000_000, Side::Low)],
            Self::MostFrequent | Self::Beyond(..) => Vec::new(),
        }
    }

    /// How far one unit of weight can move two candidates' penalties apart, in this target's units.
    ///
    /// # Guarantee
    /// - A fraction q = a/b has penalties `dist(a N, [b below, b upto])`. A weight w moves the
    ///   target by a w, and the intervals of candidates above it by b w. Penalties on one side move
    ///   in one direction, so they move apart by at most max(b, 2a, 2(b - a)) w. Of q = 0 and q = 1
    ///   a penalty is the weight below or above a candidate: it moves by at most w, and no two in
    ///   opposite directions.
    /// - The target of an end is a public number or N/2, whichever is less (b = 2). It moves by at
    ///   most w, and penalties by at most 4 w apart.
    /// - The most frequent value's penalties are differences of counts. Each moves by at most w,
    ///   and no two in opposite directions.
    /// - An end of an interval shifts a fraction's target by a public number, and adds a public
    ///   number of ranks before or after the rows. It moves as the fraction does.
    pub fn spread(&self) -> u64 {
        match self {
            Self::Fraction(_) => spread_of(self.ratio()),
            Self::Beyond(..) => moved_spread(self.ratio()),
            Self::End(_) => 4,
            Self::MostFrequent => 1,
        }
    }

    /// q = a/b of a fraction, in lowest terms.
    pub fn ratio(&self) -> (u64, u64) {
        match self {
            Self::Fraction(millionths) | Self::Beyond(millionths, _) => {
                ratio_of(*millionths, 1_000_000)
            }
            Self::End(_) => (1, 2),
            Self::MostFrequent => (1, 1),
        }
    }

    /// The distance, in weight, from a rank to the target of its interval's end. Candidates past
    /// the rank are drawn at most once in 40 times: the range's end is given this much weight
    /// before (after) the rows, so some candidate has no penalty, while each candidate past the
    /// rank has this penalty or more. One row is added for values between two rows.
    ///
    /// # Reference
    /// McSherry, Talwar 2007, Theorem 6.
    pub fn reach(&self, draw: &Exponential, candidates: u64, row_weight: u64) -> f64 {
        self.deviation(draw) / std::f64::consts::SQRT_2 * (40.0 * (candidates + 1) as f64).ln()
            + row_weight as f64
    }

    /// Standard deviation of a draw's rank, in weight, where there are many ranks: the probability
    /// falls by a factor e every width / eta, on both sides.
    pub fn deviation(&self, draw: &Exponential) -> f64 {
        let width = draw.width.to_f64().unwrap_or(f64::MAX);
        std::f64::consts::SQRT_2 * width
            / self.ratio().1 as f64
            / (draw.eta as f64 / (1u64 << 30) as f64)
    }
}

/// `of / all` in lowest terms; `all` is not 0.
pub fn ratio_of(of: u32, all: u32) -> (u64, u64) {
    let divisor = num_integer::gcd(of, all).max(1);
    (u64::from(of / divisor), u64::from(all / divisor))
}

/// [`Target::spread`] of a fraction a/b.
pub(super) fn spread_of((a, b): (u64, u64)) -> u64 {
    if a == 0 || a == b {
        b
    } else {
        moved_spread((a, b))
    }
}

/// [`spread_of`] where the target may be shifted: candidates may then be on both sides of it.
fn moved_spread((a, b): (u64, u64)) -> u64 {
    b.max(2 * a).max(2 * (b - a))
}
