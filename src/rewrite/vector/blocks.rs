//! Coordinates of one scale are clipped together. A common norm of rows and of values would need an
//! exchange rate between them, which nobody knows without the data.

use super::coordinate::Coordinate;
use super::coordinate_id::CoordinateId;
use crate::ir::Expr;
use crate::rewrite::FixedPoint;

/// The most blocks that are looked at; each of them takes its share of the look.
const BLOCKS_MAX: usize = 4;

/// What coordinates of one block have in common.
#[derive(PartialEq)]
enum Scale<'c> {
    /// The coordinate decides which groups are shown, and its length is known.
    Shown,
    Units(Rows<'c>),
    Rows(Rows<'c>),
    Values(&'c Expr, &'c FixedPoint, Rows<'c>),
    Squares(&'c Expr, &'c FixedPoint, Rows<'c>),
    /// First and second moments, and the rows that they are of.
    Moments,
}

/// Which rows count: all, those of one filter, or those of a class of filters that exclude each
/// other, of which each row meets at most one.
#[derive(PartialEq, Clone, Copy)]
enum Rows<'c> {
    Of(Option<&'c Expr>),
    Class(usize),
}

/// The coordinates of each block, in ascending order. `shown` decides which groups are shown.
pub(in crate::rewrite) fn blocks(
    coordinates: &[Coordinate],
    exclusive: &[Vec<Expr>],
    shown: Option<CoordinateId>,
) -> Vec<Vec<CoordinateId>> {
    let fine = group_coordinates(coordinates, |at| scale(coordinates, at, exclusive, shown));
    if fine.len() <= BLOCKS_MAX {
        return fine;
    }
    let coarse = |at: CoordinateId| match scale(coordinates, at, &[], shown) {
        Scale::Units(_) => Scale::Units(Rows::Of(None)),
        Scale::Rows(_) => Scale::Rows(Rows::Of(None)),
        // Values of different scale share a norm, each by its weight.
        Scale::Values(..) | Scale::Squares(..) | Scale::Moments => Scale::Moments,
        Scale::Shown => Scale::Shown,
    };
    group_coordinates(coordinates, coarse)
}

fn group_coordinates<'c>(
    coordinates: &'c [Coordinate],
    scale: impl Fn(CoordinateId) -> Scale<'c>,
) -> Vec<Vec<CoordinateId>> {
    let mut blocks: Vec<(Scale<'c>, Vec<CoordinateId>)> = Vec::new();
    for at in (0..coordinates.len()).map(CoordinateId) {
        let scale = scale(at);
        match blocks.iter_mut().find(|(known, _)| *known == scale) {
            Some((_, block)) => block.push(at),
            None => blocks.push((scale, vec![at])),
        }
    }
    blocks.into_iter().map(|(_, block)| block).collect()
}

fn scale<'c>(
    coordinates: &'c [Coordinate],
    at: CoordinateId,
    exclusive: &[Vec<Expr>],
    shown: Option<CoordinateId>,
) -> Scale<'c> {
    if shown == Some(at) {
        return Scale::Shown;
    }
    let rows = |filter: &'c Option<Expr>| {
        let class = filter
            .as_ref()
            .and_then(|filter| exclusive.iter().position(|class| class.contains(filter)));
        class.map_or(Rows::Of(filter.as_ref()), Rows::Class)
    };
    let has_moments = coordinates.iter().any(is_moment);
    match &coordinates[at] {
        Coordinate::Units { mask } => Scale::Units(rows(&mask.filter)),
        Coordinate::Presence => Scale::Units(Rows::Of(None)),
        Coordinate::Rows { .. } | Coordinate::Flags { .. } | Coordinate::Nulls { .. }
            if has_moments =>
        {
            Scale::Moments
        }
        Coordinate::Rows { mask } => Scale::Rows(rows(&mask.filter)),
        Coordinate::Flags { filter: _ } => Scale::Rows(Rows::Of(None)),
        Coordinate::Nulls { filter, value: _ } => Scale::Rows(rows(filter)),
        Coordinate::Values {
            filter,
            value,
            fixed_point,
            centred: false,
        } => Scale::Values(value, fixed_point, rows(filter)),
        Coordinate::Products {
            filter,
            y: (value, grid),
            x: _,
        } if coordinates[at].is_square() => Scale::Squares(value, grid, rows(filter)),
        Coordinate::Values { .. }
        | Coordinate::DistanceFromEnd { .. }
        | Coordinate::SquareComplement { .. }
        | Coordinate::Products { .. } => Scale::Moments,
    }
}

/// Whether a coordinate is bounded together with the number of rows that it is centred on.
fn is_moment(coordinate: &Coordinate) -> bool {
    match coordinate {
        Coordinate::Values { centred, .. } => *centred,
        Coordinate::DistanceFromEnd { .. } | Coordinate::SquareComplement { .. } => true,
        Coordinate::Products { .. } => !coordinate.is_square(),
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Units { .. }
        | Coordinate::Presence => false,
    }
}
