//! One coordinate of the vector, and the measures that are decoded from coordinates.

use std::ops::Index;

use super::coordinate_id::CoordinateId;
use super::fixed_point::FixedPoint;
use crate::ir::{End, Expr};

/// A unit's whole presence, which its groups share. Its square still fits in six bytes.
pub const PRESENCE: u64 = 1 << 20;

/// The summand of one coordinate over the rows of a unit in a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Coordinate {
    /// 1 for each row of the mask.
    Rows { mask: Mask },
    /// 1 for each row that meets the filter, -1 for every other row. The vector has a count of all
    /// rows too.
    Flags { filter: Expr },
    /// 1 for each row of the filter where the value is NULL.
    Nulls { filter: Option<Expr>, value: Expr },
    /// The value's integer, centred (`2 q - (lower + upper)`) or plain, for rows of the filter
    /// where it is not NULL.
    Values {
        filter: Option<Expr>,
        value: Expr,
        fixed_point: FixedPoint,
        centred: bool,
    },
    /// The square's distance from its maximum: `(H^2 - d^2) / G`, truncated, for a centred integer
    /// `d` in [-H, H]. Over the rows of the value's own sum, which the vector has too.
    SquareComplement {
        filter: Option<Expr>,
        value: Expr,
        fixed_point: FixedPoint,
    },
    /// The product of two centred integers, `d e / G`, truncated.
    Products {
        filter: Option<Expr>,
        y: (Expr, FixedPoint),
        x: (Expr, FixedPoint),
    },
    /// The value's distance from one end of its fixed-point grid, for rows of the filter where it
    /// is not NULL. The vector has the distance from the other end too.
    DistanceFromEnd {
        filter: Option<Expr>,
        value: Expr,
        fixed_point: FixedPoint,
        end: End,
    },
    /// 1 if the unit has any row of the mask.
    Units { mask: Mask },
    /// A unit's presence, shared by its groups: [`PRESENCE`] / sqrt(t) in each of t groups, under
    /// Laplace noise [`PRESENCE`] / t. Decides a threshold and is never shown.
    Presence,
}

impl Coordinate {
    /// Whether the coordinate adds up squares: products of a value with itself.
    pub fn is_square(&self) -> bool {
        matches!(self, Self::Products { y, x, .. } if y == x)
    }

    /// The expressions over a row that it adds up, and that of its filter.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let (filter, values) = match self {
            Self::Rows { mask } | Self::Units { mask } => {
                (mask.filter.as_ref(), [mask.not_null.as_ref(), None])
            }
            Self::Flags { filter } => (Some(filter), [None, None]),
            Self::Nulls { filter, value }
            | Self::Values { filter, value, .. }
            | Self::SquareComplement { filter, value, .. }
            | Self::DistanceFromEnd { filter, value, .. } => (filter.as_ref(), [Some(value), None]),
            Self::Products { filter, y, x } => (filter.as_ref(), [Some(&y.0), Some(&x.0)]),
            Self::Presence => (None, [None, None]),
        };
        filter.into_iter().chain(values.into_iter().flatten())
    }

    /// Whether a group's sum is the total of the sums of finer groups. `one_group`: a row is its
    /// unit's only one in the group, or a unit is in one group only.
    pub fn adds_up(&self, one_group: bool) -> bool {
        match self {
            Self::Units { .. } => one_group,
            Self::Rows { .. } | Self::Flags { .. } | Self::Nulls { .. } => true,
            Self::Values { .. }
            | Self::DistanceFromEnd { .. }
            | Self::SquareComplement { .. }
            | Self::Products { .. } => true,
            Self::Presence => false,
        }
    }
}

impl Index<CoordinateId> for [Coordinate] {
    type Output = Coordinate;

    fn index(&self, CoordinateId(at): CoordinateId) -> &Coordinate {
        &self[at]
    }
}

/// The rows that count: those that meet a FILTER and whose value is not NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    pub filter: Option<Expr>,
    pub not_null: Option<Expr>,
}

/// A number of rows from noisy coordinates: `rows - nulls`. Where `rows` is of flags, `(rows + all)
/// / 2` stands for `rows`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub rows: CoordinateId,
    /// The count of all rows where `rows` is of flags.
    pub all: Option<CoordinateId>,
    pub nulls: Option<CoordinateId>,
}

/// A value computed exactly from the noisy coordinates, before the outer query.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// A count, rounded and not below zero.
    Count(Count),
    /// A sum in the value's unit; `count` where the coordinate is centred.
    Sum {
        values: CoordinateId,
        count: Option<Count>,
        fixed_point: FixedPoint,
    },
    /// Sum of distances from the middle of the value's range.
    Centred {
        values: CoordinateId,
        fixed_point: FixedPoint,
    },
    /// Sum of squares of those distances.
    Squares {
        lacks: CoordinateId,
        count: Count,
        fixed_point: FixedPoint,
    },
    /// Sum of products of two values' distances.
    Products {
        products: CoordinateId,
        y: FixedPoint,
        x: FixedPoint,
    },
}
