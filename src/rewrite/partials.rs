//! Aggregates as one vector of integer coordinates: equal parts shared, sums centred on their bounds, nulls counted instead of values.
//!
//! Over one row the vector's norm is bounded block by block: a filter's row count weighs 1; beside it, each summed value weighs at most 1 (centred), and where
//! the value may be NULL its null count and its sum never speak for the same row, so that the pair together weighs at most 1.

use num_bigint::BigUint;

use super::lattice::Lattice;
use crate::analyze::interval::Interval;
use crate::analyze::{AnalyzedRelease, BoundedAggregate, BoundedOperation, inline};
use crate::refusal::Refusal;
use crate::resolve::{ColumnInfo, Expr};

/// What one coordinate adds up over the rows of a unit in a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Partial {
    /// 1 for each row of the mask.
    Rows { mask: Mask },
    /// 1 for each row of the filter where the value is NULL.
    Nulls { filter: Option<Expr>, value: Expr },
    /// The value's integer, centred (`2 q - (lower + upper)`) or plain, for rows of the filter where it is not NULL.
    Values { filter: Option<Expr>, value: Expr, lattice: Lattice, centred: bool },
    /// 1 if the unit has any row of the mask.
    Units { mask: Mask },
}

/// Rows that count: those of a FILTER where a value is not NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    pub filter: Option<Expr>,
    pub not_null: Option<Expr>,
}

/// A number of rows, as noisy coordinates: `rows - nulls`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub rows: usize,
    pub nulls: Option<usize>,
}

/// What is computed of the noisy coordinates, exactly, before the outer query.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// A count, rounded and not below zero.
    Count(Count),
    /// A sum in the value's unit; `count` where the coordinate is centred.
    Sum { values: usize, count: Option<Count>, lattice: Lattice },
}

/// An aggregate in terms of measures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Output {
    Measure(usize),
    /// `sum / count`, clamped to the value's bounds; their midpoint where the noisy count is not positive.
    Average {
        sum: usize,
        count: usize,
        range: Interval,
    },
}

/// The vector of one release.
#[derive(Debug, Default)]
pub struct Partials {
    pub coordinates: Vec<Partial>,
    pub measures: Vec<Measure>,
    /// Parallel to the release's aggregates.
    pub outputs: Vec<Output>,
}

/// Bound of the vector that one row adds, or one unit's presence, in squared and in plain weights of 2^`scale`.
#[derive(Debug, Clone, PartialEq)]
pub struct RowNorm {
    pub squared: BigUint,
    pub absolute: BigUint,
}

impl Partials {
    /// Lays out the coordinates of a release.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no lattice.
    pub fn new(release: &AnalyzedRelease, columns: &[ColumnInfo], needs_presence: bool) -> Result<Self, Refusal> {
        let mut partials = Self::default();
        for aggregate in &release.aggregates {
            let output = partials.output(aggregate, release, columns)?;
            partials.outputs.push(output);
        }
        if needs_presence {
            partials.coordinate(Partial::Units { mask: Mask { filter: None, not_null: None } });
        }
        Ok(partials)
    }

    fn output(&mut self, aggregate: &BoundedAggregate, release: &AnalyzedRelease, columns: &[ColumnInfo]) -> Result<Output, Refusal> {
        let all = &release.aggregates;
        let BoundedAggregate { filter, operation, data_type: _ } = aggregate;
        Ok(match operation {
            BoundedOperation::CountRows | BoundedOperation::Count { argument: _, nullable: false } => {
                let rows = self.coordinate(Partial::Rows { mask: Mask { filter: filter.clone(), not_null: None } });
                Output::Measure(self.measure(Measure::Count(Count { rows, nulls: None })))
            }
            BoundedOperation::Count { argument, nullable: true } => {
                let count = if summed_with_nulls(argument, filter, all) && counts_every_row(filter, argument, all) {
                    self.count_of(argument, true, filter, all)
                } else {
                    let mask = Mask { filter: filter.clone(), not_null: Some(argument.clone()) };
                    Count { rows: self.coordinate(Partial::Rows { mask }), nulls: None }
                };
                Output::Measure(self.measure(Measure::Count(count)))
            }
            BoundedOperation::CountUnits => {
                let rows = self.coordinate(Partial::Units { mask: Mask { filter: filter.clone(), not_null: None } });
                Output::Measure(self.measure(Measure::Count(Count { rows, nulls: None })))
            }
            BoundedOperation::Sum { argument, range, nullable } => {
                Output::Measure(self.sum(argument, *range, *nullable, filter, release, columns)?.0)
            }
            BoundedOperation::Average { argument, range, nullable } => {
                let (sum, count) = self.sum(argument, *range, *nullable, filter, release, columns)?;
                let count = match count {
                    Some(count) => count,
                    None => self.count_of(argument, *nullable, filter, all),
                };
                Output::Average { sum, count: self.measure(Measure::Count(count)), range: *range }
            }
        })
    }

    /// The sum of a value, centred where its count is asked too; with that count.
    fn sum(
        &mut self,
        value: &Expr,
        range: Interval,
        nullable: bool,
        filter: &Option<Expr>,
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
    ) -> Result<(usize, Option<Count>), Refusal> {
        let all = &release.aggregates;
        let lattice = Lattice::new(&inline(value, &release.computed), range, columns)?;
        let centred = counts_every_row(filter, value, all) || averaged(value, filter, all);
        let count = centred.then(|| self.count_of(value, nullable, filter, all));
        let (filter, value) = (filter.clone(), value.clone());
        let values = self.coordinate(Partial::Values { filter, value, lattice: lattice.clone(), centred });
        Ok((self.measure(Measure::Sum { values, count, lattice }), count))
    }

    /// Rows where the value is not NULL: directly where nothing else needs the filter's rows, else as rows less nulls, which share the filter's count.
    fn count_of(&mut self, value: &Expr, nullable: bool, filter: &Option<Expr>, all: &[BoundedAggregate]) -> Count {
        if !nullable || counts_every_row(filter, value, all) {
            let rows = self.coordinate(Partial::Rows { mask: Mask { filter: filter.clone(), not_null: None } });
            let nulls = nullable.then(|| self.coordinate(Partial::Nulls { filter: filter.clone(), value: value.clone() }));
            return Count { rows, nulls };
        }
        let mask = Mask { filter: filter.clone(), not_null: Some(value.clone()) };
        Count { rows: self.coordinate(Partial::Rows { mask }), nulls: None }
    }

    fn coordinate(&mut self, partial: Partial) -> usize {
        position_or_push(&mut self.coordinates, partial)
    }

    fn measure(&mut self, measure: Measure) -> usize {
        position_or_push(&mut self.measures, measure)
    }
}

fn position_or_push<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|other| *other == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

/// Some other aggregate needs the number of all rows of the filter: COUNT(*), or the count beside another value.
fn counts_every_row(filter: &Option<Expr>, value: &Expr, all: &[BoundedAggregate]) -> bool {
    all.iter().filter(|a| a.filter == *filter).any(|a| match &a.operation {
        BoundedOperation::CountRows | BoundedOperation::Count { argument: _, nullable: false } => true,
        BoundedOperation::Average { argument, range: _, nullable: _ } => argument != value,
        BoundedOperation::Count { .. } | BoundedOperation::CountUnits | BoundedOperation::Sum { .. } => false,
    })
}

fn averaged(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    all.iter().filter(|a| a.filter == *filter).any(|a| matches!(&a.operation, BoundedOperation::Average { argument, .. } if argument == value))
}

/// Its nulls are counted anyway, since its sum is centred on a count of all rows.
fn summed_with_nulls(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    all.iter().filter(|a| a.filter == *filter).any(|a| match &a.operation {
        BoundedOperation::Sum { argument, range: _, nullable } | BoundedOperation::Average { argument, range: _, nullable } => {
            *nullable && argument == value
        }
        BoundedOperation::CountRows | BoundedOperation::Count { .. } | BoundedOperation::CountUnits => false,
    })
}

impl Partial {
    /// Largest magnitude of what one row (or one unit's presence) adds, in base lattice units.
    pub fn magnitude(&self) -> u64 {
        match self {
            Self::Rows { .. } | Self::Nulls { .. } | Self::Units { .. } => 1,
            Self::Values { lattice, centred: true, .. } => lattice.spread(),
            Self::Values { lattice, centred: false, .. } => lattice.magnitude(),
        }
    }
}

/// Weights F_j that bring every coordinate to about the same norm 2^scale, rounded up (so a norm computed with them is never too small).
pub fn weights(coordinates: &[Partial]) -> Vec<BigUint> {
    let widest = coordinates.iter().map(Partial::magnitude).max().unwrap_or(1);
    let scale = BigUint::from(1u8) << (20 + 64 - widest.leading_zeros());
    coordinates
        .iter()
        .map(|c| {
            let magnitude = BigUint::from(c.magnitude());
            (&scale + &magnitude - 1u8) / magnitude
        })
        .collect()
}

/// Bound of what one row adds to the weighted vector, and of what a unit's presence adds to it.
///
/// A null count and the sum of the same value and filter never move together: the larger of the two stands for both.
pub fn norms(coordinates: &[Partial], weights: &[BigUint]) -> (RowNorm, RowNorm) {
    let zero = || RowNorm { squared: BigUint::ZERO, absolute: BigUint::ZERO };
    let (mut row, mut presence) = (zero(), zero());
    let add = |norm: &mut RowNorm, magnitude: BigUint| {
        norm.squared += &magnitude * &magnitude;
        norm.absolute += magnitude;
    };
    for (coordinate, weight) in coordinates.iter().zip(weights) {
        let own = weight * coordinate.magnitude();
        match coordinate {
            Partial::Units { .. } => add(&mut presence, own),
            Partial::Rows { .. } => add(&mut row, own),
            Partial::Nulls { filter, value } => {
                // The larger of the pair is added where the sum stands; a null count without a sum stands for itself.
                if !coordinates.iter().any(|c| is_sum_of(c, filter, value)) {
                    add(&mut row, own);
                }
            }
            Partial::Values { filter, value, .. } => {
                let nulls =
                    coordinates.iter().zip(weights).find(|(c, _)| matches!(c, Partial::Nulls { filter: f, value: v } if f == filter && v == value));
                let beside = nulls.map_or(BigUint::ZERO, |(c, w)| w * c.magnitude());
                let first =
                    coordinates.iter().position(|c| is_sum_of(c, filter, value)) == coordinates.iter().position(|c| std::ptr::eq(c, coordinate));
                // Two sums of one value (unlike ranges) both move when it is not NULL: the null count pairs with the first only.
                add(&mut row, if first { own.max(beside) } else { own });
            }
        }
    }
    (row, presence)
}

fn is_sum_of(coordinate: &Partial, filter: &Option<Expr>, value: &Expr) -> bool {
    matches!(coordinate, Partial::Values { filter: f, value: v, .. } if f == filter && v == value)
}
