//! Lengths by which units are sorted into bins, so that the sums of every clip are combinations of
//! the sums of bins.
//!
//! A unit whose vector is n long is in bin b where `edge(b - 1) < n <= edge(b)`. At a clip of
//! `edge(c)` the sums of bin b count in full up to b = c, and beyond it by the factor
//! `floor(2^r edge(c) / edge(b))` in steps of 2^-r. The factor is the bin's, so that clipped sums
//! are linear in what each unit adds: no rounding depends on which units are in a bin.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};

/// Bits between the ceiling and the least candidate.
const OCTAVES: u32 = 40;

/// Candidates for each doubling of the clip.
const PER_OCTAVE: u32 = 4;

/// 2^(k / 4) in steps of 2^-60.
const QUARTERS: [u64; PER_OCTAVE as usize] = [
    1 << 60,
    1_371_062_456_318_104_878,
    1_630_477_228_166_597_777,
    1_938_975_120_585_633_119,
];

/// Bins above the ceiling, each twice as long. A unit that is longer still is left out.
const BEYOND: usize = 24;

/// The square of this length, plus one, is below the largest eight-byte number. That number stands
/// for all longer lengths.
const NARROW: u64 = 3_037_000_499;

/// The bins above a ceiling that suffice: where they end by [`NARROW`], the database computes
/// squared lengths in eight bytes, in half of the time.
const BEYOND_NARROW: u64 = 8;

/// One of the clips to choose from, by its place in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(pub usize);

impl CandidateId {
    pub const LEAST: Self = Self(0);
    /// The last candidate, whatever its place is.
    pub const CEILING: Self = Self(usize::MAX);
}

/// The number of a bin as statements print it: 0 for no length, b + 1 for bin b, and one number
/// more for lengths past all edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BinNumber(pub usize);

impl std::str::FromStr for BinNumber {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// The bins of one block of coordinates, and the candidates for its clip.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bins {
    /// Ascending, positive. Those before `candidates` may become the clip.
    edges: Vec<BigUint>,
    candidates: usize,
}

impl Bins {
    /// Candidates up to the ceiling, which is one of them, four for each doubling.
    pub fn up_to(ceiling: &BigUint) -> Self {
        let least = ((ceiling + (BigUint::one() << OCTAVES) - 1u8) >> OCTAVES).max(BigUint::one());
        let mut edges: Vec<BigUint> = Vec::new();
        for step in 0.. {
            let scaled = (&least * QUARTERS[(step % PER_OCTAVE) as usize]) << (step / PER_OCTAVE);
            let edge = (scaled + (BigUint::one() << 60u8) - 1u8) >> 60u8;
            if edge >= *ceiling {
                break;
            }
            if edges.last().is_none_or(|last| *last < edge) {
                edges.push(edge);
            }
        }
        edges.push(ceiling.clone());
        Self::with_candidates(edges)
    }

    /// Bins with one candidate. Only units beyond what is declared are longer.
    pub fn single(clip: BigUint) -> Self {
        Self::with_candidates(vec![clip])
    }

    fn with_candidates(mut edges: Vec<BigUint>) -> Self {
        let candidates = edges.len();
        let narrow = BigUint::from(NARROW);
        let ends = edges
            .last()
            .is_some_and(|last| last << BEYOND_NARROW <= narrow);
        for _ in 0..BEYOND {
            let doubled = edges.last().map_or(BigUint::one(), |last| last << 1u8);
            if ends && doubled > narrow {
                break;
            }
            edges.push(doubled);
        }
        Self { edges, candidates }
    }

    /// How many clips there are to choose from.
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// The clips to choose from, the lowest first.
    pub fn all_candidates(&self) -> impl Iterator<Item = CandidateId> + use<> {
        (0..self.candidates).map(CandidateId)
    }

    pub fn has_choice(&self) -> bool {
        self.candidates > 1
    }

    /// The clip of a candidate; past the last one, that.
    pub fn clip(&self, candidate: CandidateId) -> &BigUint {
        &self.edges[candidate.0.min(self.candidates - 1)]
    }

    /// The largest clip.
    pub fn ceiling(&self) -> &BigUint {
        self.clip(CandidateId::CEILING)
    }

    /// The longest that is not left out.
    pub fn longest(&self) -> &BigUint {
        &self.edges[self.edges.len() - 1]
    }

    /// Whether the squares of all lengths that are not left out fit eight bytes.
    pub fn is_narrow(&self) -> bool {
        *self.longest() <= BigUint::from(NARROW)
    }

    /// The number of bin numbers: one for no length, one for each bin, and one for lengths past all
    /// edges.
    pub fn numbers(&self) -> usize {
        self.edges.len() + 2
    }

    /// Squared lengths in ascending order: as many of them as do not exceed a unit's squared length
    /// is the number of its bin. Number 0 means no length, number b + 1 means bin b.
    pub fn thresholds(&self) -> Vec<BigUint> {
        std::iter::once(BigUint::one())
            .chain(self.edges.iter().map(|edge| edge * edge + 1u8))
            .collect()
    }

    /// By what the sums of a bin count at a clip, in steps of 2^-`refine`: 1 up to the clip, beyond
    /// it the ratio of clip and edge, rounded down; 0 past the last edge.
    ///
    /// # Guarantee
    /// A unit of the bin whose vector is v has a squared length of at most `edge(b)`^2. So
    /// `factor * |v| <= 2^refine * clip`, exactly.
    pub fn factor(&self, candidate: CandidateId, number: BinNumber, refine: u32) -> i128 {
        // Those of number 0 add zeros.
        let edge = number.0.checked_sub(1).and_then(|bin| self.edges.get(bin));
        let clip = self.clip(candidate);
        let factor = match edge {
            None => BigUint::ZERO,
            Some(edge) if edge <= clip => BigUint::one() << refine,
            Some(edge) => (clip << refine) / edge,
        };
        // Less is no more than the bound either.
        factor.to_i128().unwrap_or(0)
    }

    /// Edges as numbers, for choosing: of all bins, those beyond the ceiling too.
    pub fn lengths(&self) -> Vec<f64> {
        self.edges.iter().map(approximate).collect()
    }
}

fn approximate(value: &BigUint) -> f64 {
    value.to_f64().unwrap_or(f64::INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_ascend_by_quarters_of_an_octave_up_to_the_ceiling() {
        for ceiling in [1u64, 2, 3, 7, 1000, 600_000, (1 << 52) + 12_345] {
            let bins = Bins::up_to(&BigUint::from(ceiling));
            let edges = &bins.edges;
            assert!(edges.windows(2).all(|pair| pair[0] < pair[1]), "{ceiling}");
            assert_eq!(*bins.ceiling(), BigUint::from(ceiling));
            assert!(bins.candidates() <= 161, "{ceiling}: {}", bins.candidates());
            assert_eq!(bins.thresholds().len(), edges.len() + 1);
            let lengths = bins.lengths();
            for pair in lengths[..bins.candidates()].windows(2) {
                assert!(pair[1] <= (pair[0] * 1.1893).ceil(), "{pair:?}");
            }
        }
    }

    /// The proof's one inequality, at the longest vector of each bin.
    #[test]
    fn nobody_exceeds_the_clip_at_any_candidate() {
        for ceiling in [1u64, 5, 77, 4_096, 1 << 45] {
            let bins = Bins::up_to(&BigUint::from(ceiling));
            for candidate in bins.all_candidates() {
                for (bin, edge) in bins.edges.iter().enumerate() {
                    for refine in [0u32, 7, 24, 31] {
                        let factor = bins.factor(candidate, BinNumber(bin + 1), refine);
                        let factor = BigUint::try_from(factor).unwrap();
                        assert!(&factor * edge <= bins.clip(candidate) << refine);
                        if bin <= candidate.0 {
                            assert_eq!(factor, BigUint::one() << refine);
                        }
                    }
                }
                assert_eq!(bins.factor(candidate, BinNumber(0), 24), 0);
                let past = BinNumber(bins.edges.len() + 1);
                assert_eq!(bins.factor(candidate, past, 24), 0);
            }
        }
    }

    /// Lengths of eight bytes: the largest number stands for lengths past all edges.
    #[test]
    fn squares_of_narrow_bins_fit_eight_bytes() {
        for ceiling in [1u64, 5_000, NARROW >> 8] {
            let bins = Bins::up_to(&BigUint::from(ceiling));
            assert!(bins.is_narrow(), "{ceiling}");
            let thresholds = bins.thresholds();
            let largest = BigUint::from(i64::MAX.unsigned_abs());
            assert!(thresholds.iter().all(|t| *t < largest));
            assert!(*bins.longest() >= BigUint::from(ceiling << BEYOND_NARROW));
            let past = BinNumber(thresholds.len());
            assert_eq!(bins.factor(CandidateId::LEAST, past, 24), 0);
        }
        let wide = Bins::up_to(&BigUint::from((NARROW >> 8) + 1));
        assert!(!wide.is_narrow());
        assert_eq!(wide.numbers(), wide.candidates() + BEYOND + 2);
    }

    #[test]
    fn a_unit_on_an_edge_is_in_the_bin_below_it() {
        let bins = Bins::up_to(&BigUint::from(1_000u32));
        let thresholds = bins.thresholds();
        let number = |squared: &BigUint| thresholds.iter().filter(|t| *t <= squared).count();
        assert_eq!(number(&BigUint::ZERO), 0);
        for (bin, edge) in bins.edges.iter().enumerate() {
            assert_eq!(number(&(edge * edge)), bin + 1);
            assert_eq!(number(&(edge * edge + 1u8)), bin + 2);
        }
    }
}
