//! Coordinates of one value, or of a pair, whose parts of a row bound one another.

use num_bigint::BigUint;
use num_integer::Integer;

use crate::ir::Expr;
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::vector::fixed_point::FixedPoint;

/// The distance from the other end of the same value's grid.
pub(super) fn is_other_share(other: &Coordinate, share: &Coordinate) -> bool {
    let (
        Coordinate::DistanceFromEnd {
            filter: other_filter,
            value: other_value,
            fixed_point: other_grid,
            end: other_end,
        },
        Coordinate::DistanceFromEnd {
            filter,
            value,
            fixed_point,
            end,
        },
    ) = (other, share)
    else {
        return false;
    };
    (other_filter, other_value, other_grid) == (filter, value, fixed_point) && other_end != end
}

/// A value's sum, its null count, and its squares' distances from their maximum: the largest that
/// one of them is, and what all of them add in L1. `at` is the sum.
pub(super) fn value_block(
    coordinates: &[Coordinate],
    weighed: &impl Fn(usize) -> BigUint,
    at: usize,
) -> (BigUint, BigUint) {
    let own = weighed(at);
    let Coordinate::Values {
        filter,
        value,
        fixed_point,
        centred,
    } = &coordinates[at]
    else {
        return (own.clone(), own);
    };
    // Two sums of one value (over different ranges) both move when it is not NULL. The null count
    // pairs with the first of them.
    let is_first = coordinates.iter().position(|c| is_sum_of(c, filter, value)) == Some(at);
    let nulls = coordinates.iter().position(
        |c| matches!(c, Coordinate::Nulls { filter: f, value: v } if f == filter && v == value),
    );
    let nulls = nulls.filter(|_| is_first).map_or(BigUint::ZERO, weighed);
    let lacks = coordinates.iter().position(|c| {
        matches!(
            c,
            Coordinate::SquareComplement { filter: f, value: v, fixed_point: grid }
                if f == filter && v == value && grid == fixed_point
        )
    });
    let (largest, absolute) = match lacks.filter(|_| *centred).map(weighed) {
        Some(lacks) => {
            let larger = own.max(lacks);
            let both = (&larger * 5u8).div_ceil(&BigUint::from(4u8));
            (larger, both)
        }
        None => (own.clone(), own),
    };
    (largest.max(nulls.clone()), absolute.max(nulls))
}

/// A product and the sums of its two values.
pub(super) struct Pair {
    pub products: usize,
    pub values: [usize; 2],
}

/// Pairs of values that are summed together with their product. No value is in two pairs.
pub(super) fn pairs(coordinates: &[Coordinate]) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    for (products, coordinate) in coordinates.iter().enumerate() {
        let Coordinate::Products { filter, y, x } = coordinate else {
            continue;
        };
        let sum_of = |(value, fixed_point): &(Expr, FixedPoint)| {
            coordinates
                .iter()
                .position(|c| is_centred(c, filter, value, fixed_point))
        };
        let (Some(y), Some(x)) = (sum_of(y), sum_of(x)) else {
            continue;
        };
        let is_free = |at: usize| pairs.iter().all(|pair| !pair.values.contains(&at));
        if y != x && is_free(y) && is_free(x) {
            pairs.push(Pair {
                products,
                values: [y.min(x), y.max(x)],
            });
        }
    }
    pairs
}

/// The sum that a [`Coordinate::SquareComplement`] belongs to.
pub(super) fn is_centred(
    coordinate: &Coordinate,
    filter: &Option<Expr>,
    value: &Expr,
    fixed_point: &FixedPoint,
) -> bool {
    matches!(
        coordinate,
        Coordinate::Values { filter: f, value: v, fixed_point: grid, centred: true }
            if f == filter && v == value && grid == fixed_point
    )
}

pub(super) fn is_sum_of(coordinate: &Coordinate, filter: &Option<Expr>, value: &Expr) -> bool {
    matches!(
        coordinate,
        Coordinate::Values { filter: f, value: v, .. } if f == filter && v == value
    )
}
