//! Aggregates that are not sums: distinct values, and values chosen from a grid or a list. Each
//! has its own statement and its own noise.
//!
//! A bound on one unit's influence covers all groups together. For distinct values at most a fixed
//! number of a unit's (group, value) pairs is kept, in hash order. For chosen values each row has a
//! weight, and the rows of a unit that has more than the policy's bound are all scaled down.

pub(in crate::rewrite) mod candidates;
mod halving;
mod queries;
mod statement;
mod target;

use num_bigint::BigUint;

pub use halving::Halving;
pub use queries::ChoiceQueries;
pub use target::{Side, Target, ratio_of};

use super::emit::statement::Statement;
use super::vector::coordinates::{Coordinate, Mask};
use super::vector::fixed_point::FixedPoint;
use crate::analyze::AnalyzedRelease;
use crate::ir::{Distinct, Expr};
use crate::mechanism::{Calibrated, Exponential, Loss};
use candidates::Candidates;

/// What a whole row weighs, where rows may be scaled down.
pub const ROW_WEIGHT: u64 = 1 << 16;

/// What one statement outside the vector asks.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceQuery {
    pub filter: Option<Expr>,
    pub subject: Subject,
    /// Which values are chosen; empty where values are counted.
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Distinct values: their number, and perhaps sums of them.
    Distinct {
        values: Distinct,
        per_unit_max: u64,
        degree: Degree,
    },
    Value {
        value: Expr,
        candidates: Candidates,
    },
}

/// The highest power of distinct values that is added up, about the middle of their grid. The count
/// is the first column. A sum adds one column; squares add also the sum of distances from the
/// middle and the sum of their squares.
#[derive(Debug, Clone, PartialEq)]
pub enum Degree {
    Count,
    Sum(FixedPoint),
    Squares(FixedPoint),
}

impl Degree {
    pub const SUM: usize = 1;
    pub const CENTRED: usize = 2;
    pub const SQUARES: usize = 3;

    pub fn fixed_point(&self) -> Option<&FixedPoint> {
        match self {
            Self::Count => None,
            Self::Sum(fixed_point) | Self::Squares(fixed_point) => Some(fixed_point),
        }
    }

    /// How many columns it gives each group.
    pub fn width(&self) -> usize {
        match self {
            Self::Count => 1,
            Self::Sum(_) => 2,
            Self::Squares(_) => 4,
        }
    }

    /// What one value adds to the statement's integers, each of which has its own noise.
    pub fn coordinates(&self, value: &Expr) -> Vec<Coordinate> {
        let count = Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        };
        let sum = |fixed_point: &FixedPoint| Coordinate::Values {
            filter: None,
            value: value.clone(),
            fixed_point: fixed_point.clone(),
            centred: true,
        };
        match self {
            Self::Count => vec![count],
            Self::Sum(fixed_point) => vec![count, sum(fixed_point)],
            Self::Squares(fixed_point) => {
                vec![
                    count,
                    sum(fixed_point),
                    Coordinate::Lacks {
                        filter: None,
                        value: value.clone(),
                        fixed_point: fixed_point.clone(),
                    },
                ]
            }
        }
    }

    /// Whether it gives all columns of the other.
    fn includes(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Count) => true,
            (Self::Sum(a) | Self::Squares(a), Self::Sum(b))
            | (Self::Squares(a), Self::Squares(b)) => a == b,
            (Self::Count, Self::Sum(_) | Self::Squares(_)) | (Self::Sum(_), Self::Squares(_)) => {
                false
            }
        }
    }
}

/// The plan of one choice: its statement, and how the rows may leave.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoicePlan {
    pub(in crate::rewrite) statement: Statement,
    pub question: ChoiceQuery,
    pub kind: ChoiceKind,
    pub loss: Loss,
}

impl ChoicePlan {
    /// The columns are the keys as text; then the integers of a count, or a candidate (as text) and
    /// its weight.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum ChoiceKind {
    /// A count in each group, and perhaps sums. One unit moves all of them, each times its weight,
    /// by at most `clip` (in L2 under Gaussian noise, in L1 under Laplace).
    Count {
        calibrated: Vec<Calibrated>,
        weights: Vec<BigUint>,
        clip: BigUint,
    },
    /// One draw for each target. With a `halving`, fractions are chosen together instead. One unit
    /// adds at most `weight_max` to all weights together; a row that is not scaled down adds
    /// `row_weight`.
    Choice {
        draws: Vec<Exponential>,
        halving: Option<Halving>,
        weight_max: u64,
        row_weight: u64,
    },
}

impl ChoiceQuery {
    /// The fractions among the targets, in millionths.
    pub fn fractions(&self) -> Vec<u32> {
        let fraction = |target: &Target| match target {
            Target::Fraction(millionths) => Some(*millionths),
            Target::End(_) | Target::MostFrequent | Target::Beyond(..) => None,
        };
        self.targets.iter().filter_map(fraction).collect()
    }

    /// How many columns it gives each group.
    pub fn width(&self) -> usize {
        match &self.subject {
            Subject::Distinct {
                values: _,
                per_unit_max: _,
                degree,
            } => degree.width(),
            Subject::Value { .. } => self.targets.len(),
        }
    }

    /// The most that one unit weighs. For a count: (group, value) pairs over the groups of all
    /// keys. For choices: weights over all groups and grouping sets.
    pub fn unit_max(&self, release: &AnalyzedRelease) -> u64 {
        let rows = release.lineage.rows_per_unit.clamp(1, 1 << 32);
        match &self.subject {
            Subject::Distinct { .. } if release.one_row_per_unit => 1,
            Subject::Distinct {
                values: _,
                per_unit_max,
                degree: _,
            } => *per_unit_max,
            Subject::Value { .. } => {
                let sets = release.grouped().len() as u64;
                if release.one_row_per_unit {
                    sets
                } else {
                    rows * ROW_WEIGHT * sets
                }
            }
        }
    }
}
