//! Which candidate a draw is to be near.

use num_traits::ToPrimitive;

use crate::ir::End;
use crate::mechanism::Exponential;

/// Which candidate is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// The one at this many millionths of all rows.
    Fraction(u32),
    /// Near the end: so far inside it that the candidates past the end do not drown it.
    End(End),
    MostFrequent,
    /// An end of the interval of the value at this many millionths of all rows: so far to that side
    /// of it that the draw is past it once in 40 times at most.
    Beyond(u32, Side),
}

/// Which end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    Low,
    High,
}

impl Target {
    /// The draws that tell how far off this one may be; of an extreme, on its inner side: past it
    /// there may be anything within the range.
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

    /// How far one unit of weight can move two candidates' penalties apart, the penalties in this
    /// target's own units.
    ///
    /// # Guarantee
    /// With q = a/b and penalties `dist(a N, [b below, b upto])`: a weight w moves the target by a
    /// w, and the intervals of candidates above it by b w. Penalties of one side move one way:
    /// apart by at most max(b, 2a, 2(b - a)) w. A target that is a public number or N/2, whichever
    /// is less (b = 2), moves by at most w: 4 w. A count of the most frequent moves by w, and no
    /// two in unlike directions. A target that is moved by a public number, among ranks that a
    /// public number is put before or after, moves as without it.
    pub fn spread(&self) -> u64 {
        match self {
            Self::Fraction(_) | Self::Beyond(..) => spread_of(self.ratio()),
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

    /// How far, in weight, an end of an interval is drawn from the rank that it is an end for. No
    /// candidate past that rank is drawn more often than once in 40 times: among the ranks that
    /// this much is put before (behind) the rows, as weight of the range's end, some candidate has
    /// no penalty, and each past the rank one of this much or more. A row more is for values
    /// between two rows.
    ///
    /// # Reference
    /// McSherry, Talwar 2007, Theorem 6.
    pub fn reach(&self, draw: &Exponential, candidates: u64, row_weight: u64) -> f64 {
        self.deviation(draw) / std::f64::consts::SQRT_2 * (40.0 * (candidates + 1) as f64).ln()
            + row_weight as f64
    }

    /// Standard deviation of a draw's rank, in weight, where ranks are many: their law falls by e
    /// every width / eta to both sides.
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
    b.max(2 * a).max(2 * (b - a))
}
