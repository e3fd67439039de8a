//! Aggregates as one vector of integer coordinates: equal parts shared, sums centred on their
//! bounds, nulls counted instead of values.
//!

use super::fixed_point::FixedPoint;
use crate::analyze::interval::Interval;
use crate::analyze::{
    AnalyzedRelease, BoundedAggregate, BoundedOperation, Dispersion, Joint, inline,
};
use crate::ir::{ColumnInfo, End, Expr, Moment, Quantifier};
use crate::refusal::{Refusal, sqlstate};
use crate::rewrite::choice::{ChoiceQueries, ChoiceQuery};

/// The whole of a presence that is shared by a unit's groups: its square still fits in six bytes.
pub const PRESENCE: u64 = 1 << 20;

/// What one coordinate adds up over the rows of a unit in a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Coordinate {
    /// 1 for each row of the mask.
    Rows { mask: Mask },
    /// 1 for each row that meets the filter, -1 for each other: a count of all rows stands beside
    /// it.
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
    /// What the centred integer's square lacks to the most it can be, `(H^2 - d^2) / G` towards
    /// zero, for the rows of the sum beside it.
    Lacks {
        filter: Option<Expr>,
        value: Expr,
        fixed_point: FixedPoint,
    },
    /// The product of two centred integers, `d e / G` towards zero.
    Products {
        filter: Option<Expr>,
        y: (Expr, FixedPoint),
        x: (Expr, FixedPoint),
    },
    /// The value's distance from an end of its lattice, for rows of the filter where it is not
    /// NULL; the other end's stands beside it.
    Share {
        filter: Option<Expr>,
        value: Expr,
        fixed_point: FixedPoint,
        end: End,
    },
    /// 1 if the unit has any row of the mask.
    Units { mask: Mask },
    /// A unit's presence, shared by its groups: in each of t groups [`PRESENCE`] / sqrt(t), under
    /// Laplace noise [`PRESENCE`] / t. For a threshold, and shown nowhere.
    Presence,
}

/// Rows that count: those of a FILTER where a value is not NULL.
#[derive(Debug, Clone, PartialEq)]
pub struct Mask {
    pub filter: Option<Expr>,
    pub not_null: Option<Expr>,
}

/// A number of rows, as noisy coordinates: `rows - nulls`, with `(rows + all) / 2` for `rows` where
/// all rows are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub rows: usize,
    /// The count of all rows, where `rows` is of flags.
    pub all: Option<usize>,
    pub nulls: Option<usize>,
}

/// What is computed of the noisy coordinates, exactly, before the outer query.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// A count, rounded and not below zero.
    Count(Count),
    /// A sum in the value's unit; `count` where the coordinate is centred.
    Sum {
        values: usize,
        count: Option<Count>,
        fixed_point: FixedPoint,
    },
    /// Sum of distances from the middle of the value's range.
    Centred {
        values: usize,
        fixed_point: FixedPoint,
    },
    /// Sum of squares of those distances.
    Squares {
        lacks: usize,
        count: Count,
        fixed_point: FixedPoint,
    },
    /// Sum of products of two values' distances.
    Products {
        products: usize,
        y: FixedPoint,
        x: FixedPoint,
    },
}

/// An aggregate in terms of measures.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    Measure(usize),
    /// `sum / count`, clamped to the value's bounds; their midpoint where the noisy count is not
    /// positive.
    Average {
        sum: usize,
        count: usize,
        range: Interval,
    },
    /// From distances from the middle of `range`.
    Dispersion {
        count: usize,
        sum: usize,
        squares: usize,
        range: Interval,
        kind: Dispersion,
    },
    /// From both values' distances from the middle of their ranges.
    Joint {
        count: usize,
        y: Centred,
        x: Centred,
        products: usize,
        kind: Joint,
    },
    /// Whether a count is at most (All) or above (Any) what noise alone would often make of none.
    Truth {
        count: usize,
        of: Quantifier,
    },
    /// Of a part's unlike values, which lie within the range.
    Unlike {
        part: usize,
        range: Interval,
        moment: Moment,
    },
    /// What a part counts or sums, or some of what it chooses.
    Part {
        part: usize,
        draws: Vec<usize>,
        is_array: bool,
    },
}

/// The measures of one value of pairs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Centred {
    pub sum: usize,
    pub squares: usize,
    pub range: Interval,
}

/// The vector of one release.
#[derive(Debug, Default, Clone)]
pub struct Coordinates {
    pub coordinates: Vec<Coordinate>,
    pub measures: Vec<Measure>,
    /// Parallel to the release's aggregates.
    pub outputs: Vec<Output>,
    /// What is asked beside the vector.
    pub questions: Vec<ChoiceQuery>,
}

impl Coordinates {
    /// Lays out the coordinates of a release; the error of the aggregates `told` is asked too.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no lattice.
    pub fn new(
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
        told: &[usize],
    ) -> Result<Self, Refusal> {
        let mut partials = Self::default();
        let mut questions = ChoiceQueries::default();
        for (at, aggregate) in release.aggregates.iter().enumerate() {
            let output = match questions.add(aggregate, told.contains(&at), release, columns)? {
                Some(output) => output,
                None => partials.output(aggregate, release, columns)?,
            };
            partials.outputs.push(output);
        }
        partials.questions = questions.0;
        if release.is_thresholded() {
            let whole = Coordinate::Units {
                mask: Mask {
                    filter: None,
                    not_null: None,
                },
            };
            let is_capped =
                !release.one_row_per_unit && !release.one_group_per_unit && release.cells.is_none();
            // One that is shown counts a unit as one everywhere.
            let is_shared = is_capped && !partials.coordinates.contains(&whole);
            partials.coordinate(if is_shared {
                Coordinate::Presence
            } else {
                whole
            });
        }
        Ok(partials)
    }

    /// How many statements ask it of the data.
    pub fn statements(&self) -> usize {
        usize::from(!self.coordinates.is_empty()) + self.questions.len()
    }

    fn output(
        &mut self,
        aggregate: &BoundedAggregate,
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
    ) -> Result<Output, Refusal> {
        let all = &release.aggregates;
        let BoundedAggregate {
            filter,
            operation,
            data_type: _,
        } = aggregate;
        Ok(match operation {
            BoundedOperation::CountRows
            | BoundedOperation::Count {
                argument: _,
                nullable: false,
            } => {
                let count = self.rows_of(filter, all);
                Output::Measure(self.measure(Measure::Count(count)))
            }
            BoundedOperation::Count {
                argument,
                nullable: true,
            } => {
                let count = if summed_with_nulls(argument, filter, all)
                    && counts_every_row(filter, argument, all)
                {
                    self.count_of(argument, true, filter, all)
                } else {
                    let mask = Mask {
                        filter: filter.clone(),
                        not_null: Some(argument.clone()),
                    };
                    Count {
                        rows: self.coordinate(Coordinate::Rows { mask }),
                        all: None,
                        nulls: None,
                    }
                };
                Output::Measure(self.measure(Measure::Count(count)))
            }
            BoundedOperation::CountUnits => {
                let rows = self.coordinate(Coordinate::Units {
                    mask: Mask {
                        filter: filter.clone(),
                        not_null: None,
                    },
                });
                Output::Measure(self.measure(Measure::Count(Count {
                    rows,
                    all: None,
                    nulls: None,
                })))
            }
            BoundedOperation::Sum {
                argument,
                range,
                nullable,
            } => Output::Measure(
                self.sum(argument, *range, *nullable, filter, release, columns)?
                    .0,
            ),
            BoundedOperation::Average {
                argument,
                range,
                nullable,
            } => {
                let (sum, count) =
                    self.sum(argument, *range, *nullable, filter, release, columns)?;
                let count = match count {
                    Some(count) => count,
                    None => self.count_of(argument, *nullable, filter, all),
                };
                Output::Average {
                    sum,
                    count: self.measure(Measure::Count(count)),
                    range: *range,
                }
            }
            BoundedOperation::Dispersion {
                argument,
                range,
                nullable,
                kind,
            } => {
                let count = self.count_of(argument, *nullable, filter, all);
                let fixed_point =
                    FixedPoint::new(&inline(argument, &release.computed), *range, columns)?;
                let Centred {
                    sum,
                    squares,
                    range,
                } = self.moments(argument, fixed_point, count, filter);
                Output::Dispersion {
                    count: self.measure(Measure::Count(count)),
                    sum,
                    squares,
                    range,
                    kind: *kind,
                }
            }
            BoundedOperation::Joint {
                y,
                y_range,
                x,
                x_range,
                kind,
            } => {
                let count = self.rows_of(filter, all);
                let fixed_point = |value: &Expr, range: Interval| {
                    FixedPoint::new(&inline(value, &release.computed), range, columns)
                };
                let (y_lattice, x_lattice) = (fixed_point(y, *y_range)?, fixed_point(x, *x_range)?);
                let (y_moments, x_moments) = (
                    self.moments(y, y_lattice.clone(), count, filter),
                    self.moments(x, x_lattice.clone(), count, filter),
                );
                let (y, x) = (
                    (y.clone(), y_lattice.clone()),
                    (x.clone(), x_lattice.clone()),
                );
                let products = self.coordinate(Coordinate::Products {
                    filter: filter.clone(),
                    y,
                    x,
                });
                let products = self.measure(Measure::Products {
                    products,
                    y: y_lattice,
                    x: x_lattice,
                });
                Output::Joint {
                    count: self.measure(Measure::Count(count)),
                    y: y_moments,
                    x: x_moments,
                    products,
                    kind: *kind,
                }
            }
            BoundedOperation::Truth(of) => {
                let count = self.rows_of(filter, all);
                Output::Truth {
                    count: self.measure(Measure::Count(count)),
                    of: *of,
                }
            }
            BoundedOperation::Distinct { .. }
            | BoundedOperation::Unlike { .. }
            | BoundedOperation::Ranked { .. }
            | BoundedOperation::Mode { .. } => {
                return Err(Refusal::new(
                    sqlstate::INTERNAL_ERROR,
                    "an aggregate of a part has no coordinates",
                ));
            }
        })
    }

    /// The first two moments of a value about the middle of its range, over the rows of `count`.
    fn moments(
        &mut self,
        value: &Expr,
        fixed_point: FixedPoint,
        count: Count,
        filter: &Option<Expr>,
    ) -> Centred {
        let (filter, value) = (filter.clone(), value.clone());
        let values = self.coordinate(Coordinate::Values {
            filter: filter.clone(),
            value: value.clone(),
            fixed_point: fixed_point.clone(),
            centred: true,
        });
        let lacks = self.coordinate(Coordinate::Lacks {
            filter,
            value,
            fixed_point: fixed_point.clone(),
        });
        let range = fixed_point.ends();
        let sum = self.measure(Measure::Centred {
            values,
            fixed_point: fixed_point.clone(),
        });
        Centred {
            sum,
            squares: self.measure(Measure::Squares {
                lacks,
                count,
                fixed_point,
            }),
            range,
        }
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
        let fixed_point = FixedPoint::new(&inline(value, &release.computed), range, columns)?;
        let centred = counts_every_row(filter, value, all) || averaged(value, filter, all);
        let count = centred.then(|| self.count_of(value, nullable, filter, all));
        let (filter, value) = (filter.clone(), value.clone());
        let values = self.coordinate(Coordinate::Values {
            filter,
            value,
            fixed_point: fixed_point.clone(),
            centred,
        });
        Ok((
            self.measure(Measure::Sum {
                values,
                count,
                fixed_point,
            }),
            count,
        ))
    }

    /// Rows where the value is not NULL: directly where nothing else needs the filter's rows, else
    /// as rows less nulls, which share the filter's count.
    fn count_of(
        &mut self,
        value: &Expr,
        nullable: bool,
        filter: &Option<Expr>,
        all: &[BoundedAggregate],
    ) -> Count {
        if !nullable || counts_every_row(filter, value, all) {
            let rows = self.rows_of(filter, all);
            let nulls = nullable.then(|| {
                self.coordinate(Coordinate::Nulls {
                    filter: filter.clone(),
                    value: value.clone(),
                })
            });
            return Count { nulls, ..rows };
        }
        let mask = Mask {
            filter: filter.clone(),
            not_null: Some(value.clone()),
        };
        Count {
            rows: self.coordinate(Coordinate::Rows { mask }),
            all: None,
            nulls: None,
        }
    }

    /// All rows of a filter: as flags where all rows are counted anyway. A flag weighs as much as a
    /// count, and half of two noises has half the variance of one.
    fn rows_of(&mut self, filter: &Option<Expr>, all: &[BoundedAggregate]) -> Count {
        let whole = Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        };
        match filter {
            Some(filter) if counts_all(all) => {
                let rows = self.coordinate(Coordinate::Flags {
                    filter: filter.clone(),
                });
                Count {
                    rows,
                    all: Some(self.coordinate(whole)),
                    nulls: None,
                }
            }
            filter => {
                let mask = Mask {
                    filter: filter.clone(),
                    not_null: None,
                };
                Count {
                    rows: self.coordinate(Coordinate::Rows { mask }),
                    all: None,
                    nulls: None,
                }
            }
        }
    }

    fn coordinate(&mut self, partial: Coordinate) -> usize {
        position_or_push(&mut self.coordinates, partial)
    }

    fn measure(&mut self, measure: Measure) -> usize {
        position_or_push(&mut self.measures, measure)
    }
}

fn position_or_push<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter()
        .position(|other| *other == item)
        .unwrap_or_else(|| {
            list.push(item);
            list.len() - 1
        })
}

/// COUNT(*) of all rows is asked.
fn counts_all(all: &[BoundedAggregate]) -> bool {
    all.iter().any(|a| {
        a.filter.is_none()
            && matches!(
                a.operation,
                BoundedOperation::CountRows
                    | BoundedOperation::Count {
                        argument: _,
                        nullable: false
                    }
            )
    })
}

/// Some other aggregate needs the number of all rows of the filter: COUNT(*), or the count beside
/// another value.
fn counts_every_row(filter: &Option<Expr>, value: &Expr, all: &[BoundedAggregate]) -> bool {
    all.iter()
        .filter(|a| a.filter == *filter)
        .any(|a| match &a.operation {
            BoundedOperation::CountRows
            | BoundedOperation::Count {
                argument: _,
                nullable: false,
            }
            | BoundedOperation::Truth(_) => true,
            BoundedOperation::Joint { .. } => true,
            BoundedOperation::Average {
                argument,
                range: _,
                nullable: _,
            }
            | BoundedOperation::Dispersion {
                argument,
                range: _,
                nullable: _,
                kind: _,
            } => argument != value,
            BoundedOperation::Count { .. }
            | BoundedOperation::CountUnits
            | BoundedOperation::Sum { .. } => false,
            BoundedOperation::Distinct { .. } | BoundedOperation::Unlike { .. } => false,
            BoundedOperation::Ranked { .. } | BoundedOperation::Mode { .. } => false,
        })
}

fn averaged(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    all.iter()
        .filter(|a| a.filter == *filter)
        .any(|a| match &a.operation {
            BoundedOperation::Average { .. }
            | BoundedOperation::Dispersion { .. }
            | BoundedOperation::Joint { .. } => a.operation.arguments().contains(&value),
            BoundedOperation::CountRows
            | BoundedOperation::CountUnits
            | BoundedOperation::Truth(_) => false,
            BoundedOperation::Count { .. } | BoundedOperation::Sum { .. } => false,
            BoundedOperation::Distinct { .. } | BoundedOperation::Unlike { .. } => false,
            BoundedOperation::Ranked { .. } | BoundedOperation::Mode { .. } => false,
        })
}

/// Its nulls are counted anyway, since its sum is centred on a count of all rows.
fn summed_with_nulls(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    all.iter()
        .filter(|a| a.filter == *filter)
        .any(|a| match &a.operation {
            BoundedOperation::Sum {
                argument,
                range: _,
                nullable,
            }
            | BoundedOperation::Average {
                argument,
                range: _,
                nullable,
            } => *nullable && argument == value,
            BoundedOperation::Dispersion {
                argument,
                range: _,
                nullable,
                kind: _,
            } => *nullable && argument == value,
            BoundedOperation::CountRows
            | BoundedOperation::Count { .. }
            | BoundedOperation::CountUnits => false,
            BoundedOperation::Joint { .. } | BoundedOperation::Truth(_) => false,
            BoundedOperation::Distinct { .. } | BoundedOperation::Unlike { .. } => false,
            BoundedOperation::Ranked { .. } | BoundedOperation::Mode { .. } => false,
        })
}
