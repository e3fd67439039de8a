//! How long the vector of one row can be: the bound from which clips are chosen, and which a release of one row a unit rests on.
//!
//! The norm is bounded block by block, in units in which each coordinate is at most 1: a filter's row count weighs 1, also as flags. Beside it each summed value weighs at most
//! 1: where the value may be NULL its null count and its sum never speak for the same row, and what its square lacks, 1 - s^2, is small where the sum s is large:
//! s^2 + (1 - s^2)^2 <= 1, |s| + (1 - s^2) <= 5/4. A product of two values weighs 1.

use num_bigint::BigUint;
use num_integer::Integer;

use super::lattice::Lattice;
use super::partials::{PRESENCE, Partial};
use crate::resolve::Expr;

/// Bound of the vector that one row adds, or one unit's presence, in squared and in plain weights.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNorm {
    pub squared: BigUint,
    pub absolute: BigUint,
}

impl Partial {
    /// Largest magnitude of what one row (or one unit's presence) adds, in base lattice units.
    pub fn magnitude(&self) -> u64 {
        match self {
            Self::Rows { .. } | Self::Flags { .. } | Self::Nulls { .. } | Self::Units { .. } => 1,
            Self::Presence => PRESENCE,
            Self::Values { lattice, centred: true, .. } | Self::Share { lattice, .. } => lattice.spread(),
            Self::Values { lattice, centred: false, .. } => lattice.magnitude(),
            Self::Lacks { filter: _, value: _, lattice } => lattice.products_with(lattice),
            Self::Products { filter: _, y: (_, y), x: (_, x) } => y.products_with(x),
        }
    }
}

/// sqrt(2) 2^31, rounded up.
const ROOT_2: u32 = 3_037_000_500;

/// Weights F_j that bring every coordinate to about the same norm 2^scale, rounded up (so a norm computed with them is never too small).
pub fn weights(coordinates: &[Partial]) -> Vec<BigUint> {
    let widest = coordinates.iter().map(Partial::magnitude).max().unwrap_or(1);
    let scale = BigUint::from(1u8) << (20 + 64 - widest.leading_zeros());
    coordinates
        .iter()
        .map(|c| {
            let magnitude = BigUint::from(c.magnitude());
            match c {
                // As long as the pair that it was turned from.
                Partial::Share { .. } => (&scale * ROOT_2).div_ceil(&(magnitude << 31u8)),
                _ => scale.div_ceil(&magnitude),
            }
        })
        .collect()
}

/// Bounds of what adds to the weighted vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Norms {
    /// One row.
    pub row: RowNorm,
    /// A unit's presence in one group.
    pub presence: RowNorm,
    /// What a unit's groups share, all of them together.
    pub shared: RowNorm,
}

/// Bound of what one row adds to the weighted vector, and of what a unit's presence adds to it.
///
/// # Guarantee
/// With m the largest weight times magnitude of a block, the block adds at most m in L2, and at most m (5/4 m beside what a square lacks) in L1: a sum `d` and what its
/// square lacks, `G w <= H^2 - d^2`, weigh at most m|s| and m(1 - s^2) for s = d/H in [-1, 1]. Truncated products are no larger than the products. Distances from both ends are
/// not negative and add up to H: m in L1, and no more in L2. A presence that t groups share is h in each, t h^2 <= H^2 (under Laplace noise t h <= H): m for all of them.
pub fn norms(coordinates: &[Partial], weights: &[BigUint]) -> Norms {
    let zero = || RowNorm { squared: BigUint::ZERO, absolute: BigUint::ZERO };
    let (mut row, mut presence, mut shared) = (zero(), zero(), zero());
    let add = |norm: &mut RowNorm, magnitude: BigUint| {
        norm.squared += &magnitude * &magnitude;
        norm.absolute += magnitude;
    };
    let weighed = |at: usize| &weights[at] * coordinates[at].magnitude();
    for (at, coordinate) in coordinates.iter().enumerate() {
        let own = weighed(at);
        match coordinate {
            Partial::Units { .. } => add(&mut presence, own),
            Partial::Presence => add(&mut shared, own),
            Partial::Share { filter, value, lattice, end } => {
                let is_other = |c: &Partial| matches!(c, Partial::Share { filter: f, value: v, lattice: l, end: e } if f == filter && v == value && l == lattice && e != end);
                match coordinates.iter().position(is_other) {
                    // Added where the first of them stands.
                    Some(other) if other < at => {}
                    Some(other) => add(&mut row, own.max(weighed(other))),
                    None => add(&mut row, own),
                }
            }
            Partial::Rows { .. } | Partial::Flags { .. } | Partial::Products { .. } => add(&mut row, own),
            Partial::Nulls { filter, value } => {
                // The larger of the pair is added where the sum stands; a null count without a sum stands for itself.
                if !coordinates.iter().any(|c| is_sum_of(c, filter, value)) {
                    add(&mut row, own);
                }
            }
            // Added where its sum stands.
            Partial::Lacks { filter, value, lattice } => {
                if !coordinates.iter().any(|c| is_centred(c, filter, value, lattice)) {
                    add(&mut row, own);
                }
            }
            Partial::Values { filter, value, lattice, centred } => {
                // Two sums of one value (unlike ranges) both move when it is not NULL: the null count pairs with the first only.
                let is_first = coordinates.iter().position(|c| is_sum_of(c, filter, value)) == Some(at);
                let nulls = coordinates.iter().position(|c| matches!(c, Partial::Nulls { filter: f, value: v } if f == filter && v == value));
                let nulls = nulls.filter(|_| is_first).map_or(BigUint::ZERO, weighed);
                let lacks = coordinates
                    .iter()
                    .position(|c| matches!(c, Partial::Lacks { filter: f, value: v, lattice: l } if f == filter && v == value && l == lattice));
                let (squared, absolute) = match lacks.filter(|_| *centred).map(weighed) {
                    Some(lacks) => {
                        let larger = own.max(lacks);
                        let both = (&larger * 5u8).div_ceil(&BigUint::from(4u8));
                        (larger, both)
                    }
                    None => (own.clone(), own),
                };
                let squared = squared.max(nulls.clone());
                row.squared += &squared * &squared;
                row.absolute += absolute.max(nulls);
            }
        }
    }
    Norms { row, presence, shared }
}

/// The sum that a [`Partial::Lacks`] belongs to.
fn is_centred(coordinate: &Partial, filter: &Option<Expr>, value: &Expr, lattice: &Lattice) -> bool {
    matches!(coordinate, Partial::Values { filter: f, value: v, lattice: l, centred: true } if f == filter && v == value && l == lattice)
}

fn is_sum_of(coordinate: &Partial, filter: &Option<Expr>, value: &Expr) -> bool {
    matches!(coordinate, Partial::Values { filter: f, value: v, .. } if f == filter && v == value)
}
