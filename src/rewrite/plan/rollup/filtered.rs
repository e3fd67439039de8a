//! Coordinates that add up the rows of a FILTER, as what they add up over all rows.

use super::CoordinateDigest;
use crate::ir::Expr;
use crate::refusal::Refusal;
use crate::rewrite::vector::coordinate::{Coordinate, Mask};

/// A coordinate that counts the rows of a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct FilteredCoordinate {
    pub filter: Expr,
    /// Digest of the coordinate without the filter.
    pub whole: CoordinateDigest,
    /// What a row that does not meet the filter adds.
    pub others: OtherRows,
}

/// What a row that does not meet the filter adds to a coordinate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherRows {
    Nothing,
    /// What the row adds without the filter, negated.
    Negated,
}

impl FilteredCoordinate {
    /// A coordinate by its filter; `None` where it has none.
    pub(super) fn of(
        coordinate: &Coordinate,
        digest_of: impl Fn(&Coordinate) -> Result<CoordinateDigest, Refusal>,
    ) -> Result<Option<Self>, Refusal> {
        let Some((filter, whole, others)) = without_filter(coordinate) else {
            return Ok(None);
        };
        let whole = digest_of(&whole)?;
        Ok(Some(Self {
            filter,
            whole,
            others,
        }))
    }
}

/// The filter of a coordinate, and the coordinate without it. `None` without a filter, and for
/// numbers of units: a unit with rows in two groups counts once in their sum.
///
/// # Guarantee
/// Where the filter is true, a row adds to the coordinate what it adds without the filter; where it
/// is false or NULL, it adds what [`OtherRows`] says.
fn without_filter(coordinate: &Coordinate) -> Option<(Expr, Coordinate, OtherRows)> {
    if let Coordinate::Flags { filter } = coordinate {
        let mask = Mask {
            filter: None,
            not_null: None,
        };
        let rows = Coordinate::Rows { mask };
        return Some((filter.clone(), rows, OtherRows::Negated));
    }
    let mut whole = coordinate.clone();
    let filter = match &mut whole {
        Coordinate::Rows { mask } => mask.filter.take(),
        Coordinate::Nulls { filter, value: _ }
        | Coordinate::Values { filter, .. }
        | Coordinate::SquareComplement { filter, .. }
        | Coordinate::Products { filter, .. }
        | Coordinate::DistanceFromEnd { filter, .. } => filter.take(),
        Coordinate::Flags { .. } | Coordinate::Units { .. } | Coordinate::Presence => None,
    };
    Some((filter?, whole, OtherRows::Nothing))
}
