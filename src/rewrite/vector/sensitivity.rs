//! A bound on the length of the vector of one row. Clips are chosen from it, and a release of one
//! row per unit rests on it.
//!
//! The norm is bounded block by block, in units in which each coordinate is at most 1. A filter's
//! row count, or its flags, add 1. Each summed value adds at most 1 more: its null count and its
//! sum never count the same row, and the square's distance from its maximum, 1 - s^2, is small
//! where the sum s is large: s^2 + (1 - s^2)^2 <= 1, |s| + (1 - s^2) <= 5/4. A product of two
//! values adds 1; in L1 both values and their product add 3 together.

mod pairs;

use num_bigint::BigUint;
use num_integer::Integer;

use super::coordinate::{Coordinate, PRESENCE};
use crate::ir::Expr;
use pairs::{is_centred, is_other_share, is_sum_of, pairs, value_block};

/// Bound of the weighted vector that one row adds, or one unit's presence: in L2, squared, and in
/// L1.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNorm {
    pub squared: BigUint,
    pub absolute: BigUint,
}

impl RowNorm {
    const ZERO: Self = Self {
        squared: BigUint::ZERO,
        absolute: BigUint::ZERO,
    };

    fn add(&mut self, magnitude: BigUint) {
        self.squared += &magnitude * &magnitude;
        self.absolute += magnitude;
    }

    /// Both at once, in separate coordinates.
    fn join(&mut self, other: &Self) {
        self.squared += &other.squared;
        self.absolute += &other.absolute;
    }

    /// One or the other.
    fn raise(&mut self, other: &Self) {
        self.squared = std::mem::take(&mut self.squared).max(other.squared.clone());
        self.absolute = std::mem::take(&mut self.absolute).max(other.absolute.clone());
    }
}

impl Coordinate {
    /// The largest magnitude that one row (or one unit's presence) adds, in steps of the base grid.
    pub fn magnitude(&self) -> u64 {
        match self {
            Self::Rows { .. } | Self::Flags { .. } | Self::Nulls { .. } | Self::Units { .. } => 1,
            Self::Presence => PRESENCE,
            Self::Values {
                fixed_point,
                centred: true,
                ..
            }
            | Self::DistanceFromEnd { fixed_point, .. } => fixed_point.spread(),
            Self::Values {
                fixed_point,
                centred: false,
                ..
            } => fixed_point.magnitude(),
            Self::SquareComplement {
                filter: _,
                value: _,
                fixed_point,
            } => fixed_point.products_with(fixed_point),
            Self::Products {
                filter: _,
                y: (_, y),
                x: (_, x),
            } => y.products_with(x),
        }
    }

    /// One row's part lies between these, and so does zero.
    pub fn range(&self) -> (i128, i128) {
        let most = i128::from(self.magnitude());
        match self {
            Self::Rows { .. }
            | Self::Nulls { .. }
            | Self::Units { .. }
            | Self::Presence
            | Self::DistanceFromEnd { .. }
            | Self::SquareComplement { .. } => (0, most),
            _ if self.is_square() => (0, most),
            Self::Flags { .. } | Self::Values { centred: true, .. } | Self::Products { .. } => {
                (-most, most)
            }
            Self::Values {
                fixed_point,
                centred: false,
                ..
            } => (
                fixed_point.lower.min(0).into(),
                fixed_point.upper.max(0).into(),
            ),
        }
    }
}

/// sqrt(2) 2^31, rounded up.
const ROOT_2: u32 = 3_037_000_500;

/// Weights F_j that bring every coordinate to about the same norm 2^scale, rounded up (so a norm
/// computed with them is never too small).
pub fn weights(coordinates: &[Coordinate]) -> Vec<BigUint> {
    let widest = coordinates
        .iter()
        .map(Coordinate::magnitude)
        .max()
        .unwrap_or(1);
    let scale = BigUint::from(1u8) << (20 + 64 - widest.leading_zeros());
    coordinates
        .iter()
        .map(|c| {
            let magnitude = BigUint::from(c.magnitude());
            match c {
                // As long as the pair that it was rotated from.
                Coordinate::DistanceFromEnd { .. } => {
                    (&scale * ROOT_2).div_ceil(&(magnitude << 31u8))
                }
                _ => scale.div_ceil(&magnitude),
            }
        })
        .collect()
}

/// Bounds on the part that each source adds to the weighted vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Norms {
    /// One row.
    pub row: RowNorm,
    /// A unit's presence in one group.
    pub presence: RowNorm,
    /// The part that a unit's groups share, over all of them.
    pub shared: RowNorm,
}

/// Bound of what one row adds to the weighted vector, and of what a unit's presence adds to it.
///
/// # Guarantee
/// Let m be the largest weight times magnitude in a block.
///
/// - A block adds at most m in L2. In L1 it adds at most m; a sum with its squares' distances from
///   their maximum adds at most 5/4 m, and a pair of values with their product at most 3 m.
/// - A sum `d` and its square's distance from the maximum, `G w <= H^2 - d^2`, weigh at most m|s|
///   and m(1 - s^2), for s = d/H in [-1, 1]. Truncation makes no product larger.
/// - For a pair, |s| + 1 - s^2 + |t| + 1 - t^2 + |s t| is concave on [0, 1]^2. Its maximum is 3, at
///   (1, 1), where its gradient (1 - 2 s + t, 1 - 2 t + s) is zero. Where one value is NULL, so is
///   the product, and a null count with 5/4 is less.
/// - The distances from both ends of a grid are not negative and add up to H: m in L1, and no more
///   in L2.
/// - A presence that t groups share is h in each, with t h^2 <= H^2 (under Laplace noise t h <= H):
///   m over all groups.
/// - What a filter's coordinates add is zero unless the filter is true (but for flags). Of the
///   filters of one class of `exclusive` at most one is true, and the class adds at most what the
///   largest of them adds.
pub fn norms(coordinates: &[Coordinate], weights: &[BigUint], exclusive: &[Vec<Expr>]) -> Norms {
    let mut rows = FilteredNorms::default();
    let mut norms = Norms {
        row: RowNorm::ZERO,
        presence: RowNorm::ZERO,
        shared: RowNorm::ZERO,
    };
    let weighed = |at: usize| &weights[at] * coordinates[at].magnitude();
    let pairs = pairs(coordinates);
    for (at, coordinate) in coordinates.iter().enumerate() {
        let own = weighed(at);
        match coordinate {
            Coordinate::Units { .. } => norms.presence.add(own),
            Coordinate::Presence => norms.shared.add(own),
            Coordinate::DistanceFromEnd { filter, .. } => {
                match coordinates
                    .iter()
                    .position(|c| is_other_share(c, coordinate))
                {
                    // Added at the first of the two.
                    Some(other) if other < at => {}
                    Some(other) => rows.of(filter).add(own.max(weighed(other))),
                    None => rows.of(filter).add(own),
                }
            }
            Coordinate::Rows { mask } => rows.of(&mask.filter).add(own),
            Coordinate::Flags { .. } => rows.of(&None).add(own),
            Coordinate::Products { filter, .. } => {
                rows.of(filter).squared += &own * &own;
                // In L1 a product of a pair is added at the pair's first value.
                if !pairs.iter().any(|pair| pair.products == at) {
                    rows.of(filter).absolute += own;
                }
            }
            Coordinate::Nulls { filter, value } => {
                // With a sum of the value, the larger of the two is added at the sum.
                if !coordinates.iter().any(|c| is_sum_of(c, filter, value)) {
                    rows.of(filter).add(own);
                }
            }
            Coordinate::SquareComplement {
                filter,
                value,
                fixed_point,
            } => {
                // Otherwise added at the sum.
                if !coordinates
                    .iter()
                    .any(|c| is_centred(c, filter, value, fixed_point))
                {
                    rows.of(filter).add(own);
                }
            }
            Coordinate::Values { filter, .. } => {
                let (largest, absolute) = value_block(coordinates, &weighed, at);
                let row = rows.of(filter);
                row.squared += &largest * &largest;
                row.absolute += match pairs.iter().find(|pair| pair.values.contains(&at)) {
                    None => absolute,
                    Some(pair) if pair.values[0] == at => {
                        let (others_largest, others_absolute) =
                            value_block(coordinates, &weighed, pair.values[1]);
                        let product = weighed(pair.products);
                        let apart = absolute + others_absolute + &product;
                        (largest.max(others_largest).max(product) * 3u8).min(apart)
                    }
                    // Added at the pair's first value.
                    Some(_) => BigUint::ZERO,
                };
            }
        }
    }
    norms.row = rows.together(exclusive);
    norms
}

/// The norms that the coordinates of each filter add for a row that meets it.
#[derive(Default)]
struct FilteredNorms<'c>(Vec<(&'c Option<Expr>, RowNorm)>);

impl<'c> FilteredNorms<'c> {
    fn of(&mut self, filter: &'c Option<Expr>) -> &mut RowNorm {
        let at = match self.0.iter().position(|(known, _)| *known == filter) {
            Some(at) => at,
            None => {
                self.0.push((filter, RowNorm::ZERO));
                self.0.len() - 1
            }
        };
        &mut self.0[at].1
    }

    /// All filters may hold for one row, except that filters of one class exclude each other.
    fn together(self, exclusive: &[Vec<Expr>]) -> RowNorm {
        let mut all = RowNorm::ZERO;
        let mut largest = vec![RowNorm::ZERO; exclusive.len()];
        for (filter, norm) in self.0 {
            let class = filter
                .as_ref()
                .and_then(|filter| exclusive.iter().position(|class| class.contains(filter)));
            match class {
                Some(class) => largest[class].raise(&norm),
                None => all.join(&norm),
            }
        }
        largest.iter().for_each(|norm| all.join(norm));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::coordinate::Mask;
    use super::super::fixed_point::FixedPoint;
    use super::*;
    use crate::analyze::interval::Interval;
    use crate::catalog::Type;
    use crate::policy::Scalar;

    fn value(number: i64) -> (Expr, FixedPoint) {
        let value = Expr::literal(Some(Scalar::Int(number)), Type::Int8);
        let fixed_point = FixedPoint::new(
            &Expr::literal(None, Type::Int8),
            Interval::new(0.0, 64.0),
            &[],
        )
        .unwrap();
        (value, fixed_point)
    }

    /// COUNT and CORR of each pair of the values.
    fn correlations(pairs: &[(i64, i64)]) -> Vec<Coordinate> {
        let mut coordinates = vec![Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        }];
        let mut add = |coordinate: Coordinate| {
            if !coordinates.contains(&coordinate) {
                coordinates.push(coordinate);
            }
        };
        for (y, x) in pairs {
            for one in [y, x] {
                let (value, fixed_point) = value(*one);
                add(Coordinate::Values {
                    filter: None,
                    value: value.clone(),
                    fixed_point: fixed_point.clone(),
                    centred: true,
                });
                add(Coordinate::SquareComplement {
                    filter: None,
                    value,
                    fixed_point,
                });
            }
            add(Coordinate::Products {
                filter: None,
                y: value(*y),
                x: value(*x),
            });
        }
        coordinates
    }

    /// The vector of a row of these values, each from -64 to 64 about the middle.
    fn row(coordinates: &[Coordinate], of: &dyn Fn(&Expr) -> i64) -> Vec<i64> {
        let moved = |coordinate: &Coordinate| match coordinate {
            Coordinate::Values { value, .. } => of(value),
            Coordinate::SquareComplement {
                value, fixed_point, ..
            } => (64 * 64 - of(value) * of(value)) / fixed_point.divisor_with(fixed_point) as i64,
            Coordinate::Products {
                y: (y, y_grid),
                x: (x, x_grid),
                ..
            } => of(y) * of(x) / y_grid.divisor_with(x_grid) as i64,
            _ => 1,
        };
        coordinates.iter().map(moved).collect()
    }

    #[test]
    fn a_correlation_weighs_four_and_two() {
        for (pairs, least) in [
            (vec![(1, 2)], 4.0),
            (vec![(1, 2), (1, 3)], 0.0),
            (vec![(1, 2), (1, 3), (2, 3)], 0.0),
            (vec![(1, 1)], 0.0),
        ] {
            let coordinates = correlations(&pairs);
            let weights = weights(&coordinates);
            let Norms {
                row: bound,
                presence: _,
                shared: _,
            } = norms(&coordinates, &weights, &[]);
            let mut longest = (BigUint::ZERO, BigUint::ZERO);
            let steps = || (-64..=64).step_by(8);
            for (a, b, c) in
                steps().flat_map(|a| steps().flat_map(move |b| steps().map(move |c| (a, b, c))))
            {
                let of = |value: &Expr| {
                    [(1, a), (2, b), (3, c)]
                        .into_iter()
                        .find(|(n, _)| self::value(*n).0 == *value)
                        .unwrap()
                        .1
                };
                let weighed: Vec<BigUint> = row(&coordinates, &of)
                    .iter()
                    .zip(&weights)
                    .map(|(moved, weight)| weight * moved.unsigned_abs())
                    .collect();
                let (squared, absolute) = (
                    weighed.iter().map(|w| w * w).sum::<BigUint>(),
                    weighed.into_iter().sum::<BigUint>(),
                );
                assert!(
                    squared <= bound.squared && absolute <= bound.absolute,
                    "{pairs:?} at {a}, {b}, {c}"
                );
                longest = (longest.0.max(squared), longest.1.max(absolute));
            }
            if least > 0.0 {
                // Reached: at both ends.
                assert_eq!(
                    longest,
                    (bound.squared.clone(), bound.absolute.clone()),
                    "{pairs:?}"
                );
                assert_eq!(bound.absolute, (&weights[0] * 4u8), "{pairs:?}");
            }
        }
    }

    /// Where the coordinates have different weights, as a wanted error makes them, the bound is no
    /// larger than that of the coordinates apart.
    #[test]
    fn unlike_weights_do_not_raise_the_bound() {
        let coordinates = correlations(&[(1, 2)]);
        let even = weights(&coordinates);
        for heavy in 0..coordinates.len() {
            let weights: Vec<BigUint> = even
                .iter()
                .enumerate()
                .map(|(at, w)| if at == heavy { w * 100u8 } else { w.clone() })
                .collect();
            let bound = norms(&coordinates, &weights, &[]).row.absolute;
            for (a, b) in (-64..=64)
                .step_by(4)
                .flat_map(|a| (-64..=64).step_by(4).map(move |b| (a, b)))
            {
                let moved = row(&coordinates, &|value| {
                    if *value == self::value(1).0 { a } else { b }
                });
                let absolute: BigUint = moved
                    .iter()
                    .zip(&weights)
                    .map(|(moved, weight)| weight * moved.unsigned_abs())
                    .sum();
                assert!(absolute <= bound, "{heavy} at {a}, {b}");
            }
            let unit = &even[0];
            assert!(bound <= unit * 100u8 + unit * 150u8, "{heavy}");
        }
    }
}
