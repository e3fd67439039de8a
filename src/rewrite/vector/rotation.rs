//! A count and the centred sum over its rows, rotated by 45 degrees. Instead of `c` and `s` the
//! statement returns the distances from both ends of the value's grid, `A = (H c + s) / 2` and
//! `B = (H c - s) / 2`, with H the grid's spread.
//!
//! In L2 a rotation changes nothing. In L1 a row adds `A + B = H`, whatever its value, while the
//! pair adds up to `2 H`. Laplace noise of the same epsilon is half as wide on A and B, and the
//! count `c = (A + B) / H` and the sum `s = A - B` have half the variance.

use super::coordinate::{Coordinate, Count, Measure};
use super::coordinate_id::CoordinateId;
use crate::ir::End;

/// The coordinates with every such pair rotated: the distance from the lower end in the count's
/// place, that from the upper end in the sum's. `None` where there is no such pair.
///
/// Pairs of a value whose squares are asked too stay: rotated, they would cost more in L1
/// (1 + sqrt 2 instead of 9/4).
///
/// # Guarantee
/// Both coordinates of a rotated pair are integers from 0 to H for each row, and their sum is H:
/// a row adds at most H to the pair in L1 and in L2. [`made_of`] gives the count and the sum back
/// exactly.
pub fn rotate(coordinates: &[Coordinate], measures: &[Measure]) -> Option<Vec<Coordinate>> {
    let mut all = coordinates.to_vec();
    for measure in measures {
        let Measure::Sum {
            values,
            count:
                Some(Count {
                    rows,
                    all: None,
                    nulls: None,
                }),
            fixed_point: _,
        } = measure
        else {
            continue;
        };
        let (
            Some(Coordinate::Rows { .. }),
            Some(Coordinate::Values {
                filter,
                value,
                fixed_point,
                centred: true,
            }),
        ) = (all.get(rows.0), all.get(values.0))
        else {
            continue;
        };
        let has_squares = all.iter().any(|c| {
            matches!(
                c,
                Coordinate::SquareComplement { filter: f, value: v, fixed_point: grid }
                    if f == filter && v == value && grid == fixed_point
            )
        });
        if has_squares
            || all
                .iter()
                .any(|c| is_share_of(c, filter, value, fixed_point))
        {
            continue;
        }
        let share = |end| Coordinate::DistanceFromEnd {
            filter: filter.clone(),
            value: value.clone(),
            fixed_point: fixed_point.clone(),
            end,
        };
        let (lower, upper) = (share(End::Least), share(End::Greatest));
        (all[rows.0], all[values.0]) = (lower, upper);
    }
    (all != coordinates).then_some(all)
}

fn is_share_of(
    coordinate: &Coordinate,
    filter: &Option<crate::ir::Expr>,
    value: &crate::ir::Expr,
    fixed_point: &crate::rewrite::FixedPoint,
) -> bool {
    matches!(
        coordinate,
        Coordinate::DistanceFromEnd { filter: f, value: v, fixed_point: grid, end: _ }
            if f == filter && v == value && grid == fixed_point
    )
}

/// A coordinate of the plain layout in terms of released coordinates: their places and integer
/// factors, and what their sum is divided by.
pub fn made_of(coordinates: &[Coordinate], at: CoordinateId) -> (Vec<(CoordinateId, i64)>, u64) {
    let Some(Coordinate::DistanceFromEnd {
        filter,
        value,
        fixed_point,
        end,
    }) = coordinates.get(at.0)
    else {
        return (vec![(at, 1)], 1);
    };
    let other = coordinates
        .iter()
        .enumerate()
        .position(|(i, c)| i != at.0 && is_share_of(c, filter, value, fixed_point))
        .map_or(at, CoordinateId);
    match end {
        // The count.
        End::Least => (vec![(at, 1), (other, 1)], fixed_point.spread()),
        // The centred sum: the lower end's less the upper end's.
        End::Greatest => (vec![(other, 1), (at, -1)], 1),
    }
}
