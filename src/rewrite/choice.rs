//! Aggregates that are not sums: distinct values, and values chosen from a grid or a list. Each
//! has its own statement and its own noise.
//!
//! A bound on one unit's influence covers all groups together. For distinct values at most a fixed
//! number of a unit's (group, value) pairs is kept, in hash order. For chosen values each row has a
//! weight, and the rows of a unit that has more than the policy's bound are all scaled down.

mod binned;
pub(in crate::rewrite) mod candidates;
mod halving;
mod queries;
mod statement;
mod streamed;
mod target;

use num_bigint::BigUint;
use num_traits::ToPrimitive;

pub use halving::Halving;
pub use queries::{ChoiceQueries, targets};
pub use target::{Side, Target, ratio_of};

use super::emit::statement::EmittedStatement;
use super::vector::bins::{Bins, CandidateId};
use super::vector::coordinate::{Coordinate, Mask};
use super::vector::fixed_point::FixedPoint;
use super::vector::row_lengths::{ceil_sqrt, length_in_rows};
use crate::aggregates::{PairLimits, distinct_moment};
use crate::analyze::AnalyzedRelease;
use crate::ir::{Distinct, Expr};
use crate::mechanism::{Calibrated, Exponential, Loss};
use candidates::Candidates;

/// The weight of a whole row, where rows may be scaled down.
pub const ROW_WEIGHT: u64 = 1 << 16;

/// The values or the count that one statement outside the vector asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceQuery {
    pub filter: Option<Expr>,
    pub subject: Subject,
    /// The values to choose; empty where values are counted.
    pub targets: Vec<Target>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// Distinct values: their number, and perhaps sums of them.
    Distinct {
        values: Distinct,
        per_unit_max: PairLimits,
        degree: Degree,
    },
    Value {
        value: Expr,
        candidates: Candidates,
    },
}

/// The highest power of distinct values that the statement sums, about the middle of their grid.
/// The count is the first column. A sum adds one column. Squares add another two: the sum of
/// distances from the middle, and the sum of their squares.
#[derive(Debug, Clone, PartialEq)]
pub enum Degree {
    Count,
    Sum(FixedPoint),
    Squares(FixedPoint),
}

impl Degree {
    pub const SUM: usize = distinct_moment::SUM;
    pub const CENTRED: usize = distinct_moment::CENTRED;
    pub const SQUARES: usize = distinct_moment::SQUARES;

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

    /// The part of one value in the statement's integers, each of which has its own noise.
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
                    Coordinate::SquareComplement {
                        filter: None,
                        value: value.clone(),
                        fixed_point: fixed_point.clone(),
                    },
                ]
            }
        }
    }

    /// Whether this degree has all columns of the other.
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
    pub(in crate::rewrite) statement: EmittedStatement,
    pub question: ChoiceQuery,
    pub kind: ChoiceKind,
    pub loss: Loss,
    /// The look that chooses how many rows of a unit count in full, if there is one. Then the
    /// widths of `kind` are those of the largest limit.
    pub look: Option<RowsLook>,
    /// How many rows the chosen limit cuts, at most, as far as the look shows.
    pub lost_rows: f64,
}

/// How the limit on a unit's rows is chosen: from noisy numbers of units by their rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsLook {
    /// Lengths are rows, or roots of the sum over groups of squared rows.
    pub bins: Bins,
    /// The noise of the number of units in a bin.
    pub counts: Calibrated,
}

impl ChoicePlan {
    /// The columns are the keys as text; then the integers of a count, or a candidate (as text) and
    /// its weight. With a look, the candidate is followed by the number of a bin, the rows of the
    /// bin's units, and how many of these units have their first row here.
    pub fn sql(&self) -> &str {
        self.statement.sql()
    }

    /// The choice at one of the look's limits, which cuts this many rows.
    ///
    /// # Guarantee
    /// The strength of each draw stays, and so does the loss. Its width becomes that of the limit:
    /// in the rows of a bin, each weighed by [`Bins::factor`] with 16 bits, one unit weighs at most
    /// limit times [`ROW_WEIGHT`].
    pub fn limited_to(&self, look: &RowsLook, candidate: CandidateId, lost_rows: f64) -> Self {
        let rows = look.bins.clip(candidate).to_u64().unwrap_or(u64::MAX);
        let limit = rows.saturating_mul(ROW_WEIGHT);
        let kind = match &self.kind {
            ChoiceKind::Choice {
                draws,
                halving,
                weight_max: _,
                row_weight,
            } => ChoiceKind::Choice {
                draws: draws
                    .iter()
                    .zip(&self.question.targets)
                    .map(|(draw, target)| Exponential {
                        width: BigUint::from(limit) * target.spread(),
                        ..draw.clone()
                    })
                    .collect(),
                halving: halving.clone().map(|halving| Halving {
                    weight_max: limit,
                    ..halving
                }),
                weight_max: limit,
                row_weight: *row_weight,
            },
            count @ ChoiceKind::Count { .. } => count.clone(),
        };
        Self {
            kind,
            look: None,
            lost_rows,
            ..self.clone()
        }
    }

    /// How far a rank may move for each row that a limit cuts: the largest value over the draws
    /// that are answers. Among the N rows that are left, a fraction q has the rank qN. With the L
    /// rows that were cut it would be qN + qL, of which 0 to L are cut rows. So the rank moves by
    /// at most max(q, 1 - q) L.
    pub fn moved_by_lost_rows(&self) -> f64 {
        let of = |target: &Target| match target {
            Target::Fraction(millionths) => {
                let below = f64::from(*millionths) / 1e6;
                below.max(1.0 - below)
            }
            Target::End(_) | Target::MostFrequent => 1.0,
            Target::Beyond(..) => 0.0,
        };
        let moved = self.question.targets.iter().map(of).fold(0.0, f64::max);
        if moved > 0.0 { moved } else { 1.0 }
    }

    /// The error in ranks that a chosen value exceeds in 1 of 20 cases, for a limit of one row: the
    /// largest over the draws that are answers.
    pub fn ranks_per_row(&self) -> f64 {
        let (ChoiceKind::Choice { draws, .. }, Subject::Value { candidates, .. }) =
            (&self.kind, &self.question.subject)
        else {
            return 0.0;
        };
        let candidates = candidates.count();
        let of = |(target, draw): (&Target, &Exponential)| {
            let one = Exponential {
                width: BigUint::from(target.spread()),
                ..draw.clone()
            };
            target.reach(&one, candidates, 0)
        };
        let answers = self.question.targets.iter().zip(draws);
        answers
            .filter(|(target, _)| !matches!(target, Target::Beyond(..)))
            .map(of)
            .fold(0.0, f64::max)
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
    /// adds weights to groups whose squares add up to at most that of `weight_max` (the weights
    /// themselves, under pure accounting); a row that is not scaled down adds `row_weight`.
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

    /// The (group, value) pairs that are kept of one unit, over the groups of all keys.
    pub fn pair_limits(&self, release: &AnalyzedRelease) -> PairLimits {
        match &self.subject {
            Subject::Distinct {
                values: _,
                per_unit_max,
                degree: _,
            } if !release.one_row_per_unit => *per_unit_max,
            Subject::Distinct { .. } | Subject::Value { .. } => PairLimits {
                in_all: 1,
                in_group: 1,
            },
        }
    }
}

/// The limit to which the rows of one unit are scaled down, where values are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowLimit {
    /// The catalog proves that a unit has one row, so nothing is scaled.
    One,
    /// The number of rows in all groups together.
    Sum(u64),
    /// The root of the sum over groups of squared numbers of rows.
    RootOfSquares(u64),
}

impl RowLimit {
    /// The tightest limit that cuts no unit within the bounds on rows. Under pure accounting the
    /// losses of groups add up, so the limit is on the sum of rows. Otherwise their squares add up,
    /// so it is on the root of the sum of squares. With several grouping sets a row counts in each
    /// set, and the limit is on the sum.
    pub fn of(release: &AnalyzedRelease, is_pure: bool) -> Self {
        let rows = release.lineage.rows_per_unit.clamp(1, 1 << 32);
        if release.one_row_per_unit {
            Self::One
        } else if is_pure
            || release.one_group_per_unit
            || release.keys.is_empty()
            || !release.sets.is_empty()
        {
            Self::Sum(rows)
        } else {
            Self::RootOfSquares(length_in_rows(release).clamp(1, rows))
        }
    }

    /// The most that a unit weighs: the root of the sum over groups and grouping sets of squared
    /// weights, or their sum under pure accounting.
    ///
    /// # Guarantee
    /// Let a statement enforce the limit on each unit's rows. In each of m sets of groups the
    /// weights add up to at most the limit times [`ROW_WEIGHT`], and so does the root of the sum
    /// of their squares. Over all sets the squares add up to at most m times the limit's square.
    pub fn weight_max(self, sets: u64, is_pure: bool) -> u64 {
        let one = match self {
            Self::One => 1,
            Self::Sum(rows) | Self::RootOfSquares(rows) => rows * ROW_WEIGHT,
        };
        if is_pure {
            one * sets
        } else {
            let squared = BigUint::from(one).pow(2) * sets;
            ceil_sqrt(&squared).to_u64().unwrap_or(u64::MAX)
        }
    }
}
