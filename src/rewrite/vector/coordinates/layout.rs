//! Lays the aggregates of a release out as coordinates.

mod builder;

use super::Coordinates;
use crate::aggregates::{BoundedAggregate, Centred, Counts, MeasureId, Summand};
use crate::analyze::interval::Interval;
use crate::analyze::{AnalyzedRelease, inline};
use crate::ir::{AggregateId, ColumnInfo, Expr};
use crate::refusal::Refusal;
use crate::rewrite::choice::ChoiceQueries;
use crate::rewrite::vector::coordinate::{Coordinate, Count, Mask, Measure};
use crate::rewrite::vector::coordinate_id::CoordinateId;
use crate::rewrite::vector::fixed_point::FixedPoint;
use builder::LayoutBuilder;

/// At most this many filters that exclude each other are counted by themselves, without flags.
const PIVOT: usize = 3;

impl Coordinates {
    /// Lays out the coordinates of a release. Where the error of an aggregate is `reported`, what
    /// it takes is asked too. `is_looked_at` is kept with the layout.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no fixed-point grid.
    pub fn new(
        release: &AnalyzedRelease,
        columns: &[ColumnInfo],
        reported: &[AggregateId],
        is_looked_at: bool,
    ) -> Result<Self, Refusal> {
        let pivots = release.exclusive_filters.iter();
        let mut layout = Self {
            is_looked_at,
            unflagged: pivots
                .filter(|class| class.len() >= PIVOT)
                .flatten()
                .cloned()
                .collect(),
            ..Self::default()
        };
        let mut queries = ChoiceQueries::default();
        for (at, aggregate) in release.aggregates.iter().enumerate() {
            let mut laying = LayoutBuilder {
                vector: &mut layout,
                queries: &mut queries,
                release,
                columns,
                reports_error: reported.contains(&AggregateId(at)),
            };
            let output = aggregate
                .operation
                .lay_out(&aggregate.filter, &mut laying)?;
            layout.outputs.push(output);
        }
        layout.questions = queries.0;
        let is_made = |c: &Coordinate| is_made_of_rows(c, release, columns);
        layout.made = layout.coordinates.iter().map(is_made).collect();
        if release.is_thresholded() {
            let whole = Coordinate::Units {
                mask: Mask {
                    filter: None,
                    not_null: None,
                },
            };
            let is_capped =
                !release.one_row_per_unit && !release.one_group_per_unit && release.cells.is_none();
            // A count of units that is shown counts each unit as one in every group. It decides
            // which groups are shown, too, unless it is clipped by a look.
            let is_shared = is_capped && (is_looked_at || !layout.coordinates.contains(&whole));
            layout.coordinate(if is_shared {
                Coordinate::Presence
            } else {
                whole
            });
            layout.made.resize(layout.coordinates.len(), false);
        }
        Ok(layout)
    }

    /// The layout of a release without rows, whose answer is known.
    pub fn of_no_row(release: &AnalyzedRelease) -> Self {
        Self {
            outputs: release
                .aggregates
                .iter()
                .map(|aggregate| aggregate.operation.value_over_no_rows())
                .collect(),
            ..Self::default()
        }
    }

    /// How many statements of the database it takes.
    pub fn statements(&self) -> usize {
        usize::from(!self.coordinates.is_empty()) + self.questions.len()
    }

    /// COUNT(value) of a value that may be NULL.
    fn not_null_count(
        &mut self,
        value: &Expr,
        filter: &Option<Expr>,
        all: &[BoundedAggregate],
    ) -> Count {
        if summed_with_nulls(value, filter, all) && counts_every_row(filter, value, all) {
            return self.count_of(value, true, filter, all);
        }
        let mask = Mask {
            filter: filter.clone(),
            not_null: Some(value.clone()),
        };
        Count::of(self.coordinate(Coordinate::Rows { mask }))
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
        let lacks = self.coordinate(Coordinate::SquareComplement {
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

    /// The first two moments of a value about zero: its sum, which the vector may have for a SUM or
    /// AVG too, and the sum of its squares. `about_zero` is a grid of the value whose middle is
    /// zero.
    fn moments_about_zero(
        &mut self,
        value: &Expr,
        (fixed_point, about_zero): (FixedPoint, FixedPoint),
        filter: &Option<Expr>,
    ) -> Centred {
        let values = self.coordinate(Coordinate::Values {
            filter: filter.clone(),
            value: value.clone(),
            fixed_point: fixed_point.clone(),
            centred: false,
        });
        let grid = (value.clone(), about_zero.clone());
        let products = self.coordinate(Coordinate::Products {
            filter: filter.clone(),
            y: grid.clone(),
            x: grid,
        });
        let range = fixed_point.ends();
        Centred {
            sum: self.measure(Measure::Sum {
                values,
                count: None,
                fixed_point,
            }),
            squares: self.measure(Measure::Products {
                products,
                y: about_zero.clone(),
                x: about_zero,
            }),
            range,
        }
    }

    /// Whether a sum of values of this range starts at zero: the clip is chosen from a look, which
    /// short sums gain from.
    fn starts_at_zero(&self, range: Interval) -> bool {
        self.is_looked_at && is_near_zero(range)
    }

    /// The sum of a value, centred where its count is asked too. Returns that count as well.
    fn sum(
        &mut self,
        summand: &Summand,
        fixed_point: FixedPoint,
        filter: &Option<Expr>,
        release: &AnalyzedRelease,
    ) -> (MeasureId, Option<Count>) {
        let all = &release.aggregates;
        let Summand {
            value,
            range,
            nullable,
        } = summand;
        let is_averaged = needs_row_count(value, filter, all);
        let is_counted = counts_every_row(filter, value, all) || is_averaged;
        let centred = is_counted
            && !(self.is_looked_at && is_summed_from_zero(*range, is_averaged))
            && (self.is_looked_at || is_averaged || !is_short(value, *range, release));
        let count = centred.then(|| self.count_of(value, *nullable, filter, all));
        let (filter, value) = (filter.clone(), value.clone());
        let values = self.coordinate(Coordinate::Values {
            filter,
            value,
            fixed_point: fixed_point.clone(),
            centred,
        });
        let sum = self.measure(Measure::Sum {
            values,
            count,
            fixed_point,
        });
        (sum, count)
    }

    /// Rows where the value is not NULL: counted directly where nothing else needs the filter's
    /// rows, else as rows minus NULLs, which share the filter's count.
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
        Count::of(self.coordinate(Coordinate::Rows { mask }))
    }

    /// The number of rows of a filter. Where all rows are counted anyway, flags are summed instead:
    /// 1 for a row of the filter, -1 for any other. A flag weighs as much as a count, and half the
    /// sum of two noises has half the variance of one. But each row moves every flag, while it
    /// moves only one of several counts by exclusive filters. From three such filters on, counts
    /// are better.
    fn rows_of(&mut self, filter: &Option<Expr>, all: &[BoundedAggregate]) -> Count {
        let whole = Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        };
        match filter {
            Some(filter)
                if counts_all(all) && !self.unflagged.contains(filter) && !self.is_looked_at =>
            {
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
                Count::of(self.coordinate(Coordinate::Rows { mask }))
            }
        }
    }

    fn coordinate(&mut self, coordinate: Coordinate) -> CoordinateId {
        CoordinateId(position_or_push(&mut self.coordinates, coordinate))
    }

    fn measure(&mut self, measure: Measure) -> MeasureId {
        MeasureId(position_or_push(&mut self.measures, measure))
    }
}

impl Count {
    /// A coordinate that counts the rows itself.
    fn of(rows: CoordinateId) -> Self {
        Self {
            rows,
            all: None,
            nulls: None,
        }
    }
}

/// Whether a coordinate adds up values that a step within a unit computed from several rows.
fn is_made_of_rows(
    coordinate: &Coordinate,
    release: &AnalyzedRelease,
    columns: &[ColumnInfo],
) -> bool {
    let of_rows = |value: &Expr| {
        let value = inline(value, &release.computed);
        let mut ids = value.free_columns().into_iter();
        ids.any(|id| columns[id.0 as usize].origin.is_none())
    };
    match coordinate {
        Coordinate::Values { value, .. }
        | Coordinate::DistanceFromEnd { value, .. }
        | Coordinate::SquareComplement { value, .. } => of_rows(value),
        Coordinate::Products { y, x, .. } => of_rows(&y.0) || of_rows(&x.0),
        Coordinate::Rows { .. } | Coordinate::Flags { .. } | Coordinate::Nulls { .. } => false,
        Coordinate::Units { .. } | Coordinate::Presence => false,
    }
}

/// Whether the policy's total makes a sum from zero more exact, next to a count, than one from the
/// middle of the range. Let a unit have R rows, values lie h to each side of m, and one clip hold
/// both coordinates at equal lengths. From the middle, the sum is that of distances, at most R h
/// long, and m times the count, at most R long: its error is as one of length R sqrt(h^2 + m^2).
/// From zero it is as one of the total's length.
///
/// An average gains nothing from that: the error of its count then counts as often as its value is
/// far from zero, not from the middle.
fn is_short(value: &Expr, range: Interval, release: &AnalyzedRelease) -> bool {
    let rows = release.lineage.rows_per_unit as f64;
    let (half, middle) = ((range.hi - range.lo) / 2.0, (range.hi + range.lo) / 2.0);
    let total = release.unit_total(value);
    total.is_some_and(|total| total < rows * half.hypot(middle)) && !release.one_row_per_unit
}

/// How many times the least value the largest may be where values are counted from the middle.
///
/// From zero, errors follow the values; from the middle, the bounds. Simulated looks at 10,000
/// units of about 20 rows, values in `[10, 10 k]`: near the middle, a sixth of the range apart,
/// STDDEV from zero has 6.9 (k = 4), 4.3 (8), 3.9 (12) and 4.6 (24) times the error of the other
/// form; at 15 +- 4, it has 1.26, 0.56, 0.29 and 0.15 times. AVG: 3.8, 3.0, 2.2, 2.4 and 1.8, 0.65,
/// 0.48, 0.14. Which values there are is not known, so the form whose worst error is the smaller
/// multiple of the other's is taken.
const MIDDLE_MAX: f64 = 12.0;

/// Like [`MIDDLE_MAX`], for SUM next to a count, without AVG or STDDEV of the value: SUM itself
/// gains nothing from the middle, whose noise it has for each row. At the clip that cuts nobody,
/// values near 12 in `[10, 119]` have 6.9 times the error of a sum from zero, and those near 14 in
/// `[10, 45]` 2.1 times.
const MIDDLE_MAX_OF_SUMS: f64 = 4.0;

/// Whether averages of such values are better taken from zero than from the middle of the range.
fn is_near_zero(range: Interval) -> bool {
    is_within(range, MIDDLE_MAX)
}

/// Whether sums of such values are better taken from zero than from the middle of the range. A sum
/// shares its coordinate with an average where there is one.
fn is_summed_from_zero(range: Interval, is_averaged: bool) -> bool {
    match is_averaged {
        true => is_near_zero(range),
        false => is_within(range, MIDDLE_MAX_OF_SUMS),
    }
}

/// Whether the largest value is at least this number of times the least, or zero is among them.
fn is_within(range: Interval, times: f64) -> bool {
    let Interval { lo, hi, .. } = range;
    lo <= hi / times && hi >= lo / times
}

fn position_or_push<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter()
        .position(|other| *other == item)
        .unwrap_or_else(|| {
            list.push(item);
            list.len() - 1
        })
}

/// Whether COUNT(*) of all rows is asked.
fn counts_all(all: &[BoundedAggregate]) -> bool {
    all.iter()
        .any(|a| a.filter.is_none() && a.operation.counts() == Counts::AllRows)
}

/// The counts of the aggregates of one filter.
fn counts<'a>(
    filter: &Option<Expr>,
    all: &'a [BoundedAggregate],
) -> impl Iterator<Item = Counts<'a>> {
    all.iter()
        .filter(move |a| a.filter == *filter)
        .map(|a| a.operation.counts())
}

/// Whether another aggregate needs the number of all rows of the filter: COUNT(*), or the count for
/// another value.
fn counts_every_row(filter: &Option<Expr>, value: &Expr, all: &[BoundedAggregate]) -> bool {
    counts(filter, all).any(|counts| match counts {
        Counts::AllRows | Counts::OfAllRows | Counts::OfPairs { .. } => true,
        Counts::OfValues { value: other, .. } => other != value,
        Counts::OfSum { .. } | Counts::Nothing => false,
    })
}

/// Whether another aggregate needs the number of rows where the value is not NULL.
fn needs_row_count(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    counts(filter, all).any(|counts| match counts {
        Counts::OfValues { value: other, .. } => other == value,
        Counts::OfPairs { y, x } => y == value || x == value,
        Counts::AllRows | Counts::OfAllRows => false,
        Counts::OfSum { .. } | Counts::Nothing => false,
    })
}

/// Whether the value's NULLs are counted anyway, since its sum is centred on a count of all rows.
fn summed_with_nulls(value: &Expr, filter: &Option<Expr>, all: &[BoundedAggregate]) -> bool {
    counts(filter, all).any(|counts| match counts {
        Counts::OfSum {
            value: other,
            nullable,
        }
        | Counts::OfValues {
            value: other,
            nullable,
        } => nullable && other == value,
        Counts::AllRows | Counts::OfAllRows => false,
        Counts::OfPairs { .. } | Counts::Nothing => false,
    })
}

#[cfg(test)]
mod tests {
    use super::{is_near_zero, is_summed_from_zero};
    use crate::ir::Interval;

    /// Bounds alone decide: tight ones far from zero are counted from their middle.
    #[test]
    fn values_far_from_zero_are_counted_from_the_middle() {
        for (lo, hi, wanted) in [
            (0.0, 100.0, true),
            (-40.0, 60.0, true),
            (10.0, 120.0, true),
            (10.0, 119.0, false),
            (20.0, 100.0, false),
            (-120.0, -10.0, true),
            (-119.0, -10.0, false),
        ] {
            assert_eq!(is_near_zero(Interval::new(lo, hi)), wanted, "{lo}, {hi}");
        }
    }

    /// A sum without an average gains nothing from the middle, unless the bounds are tight.
    #[test]
    fn sums_are_centred_where_bounds_are_tight() {
        for (lo, hi, alone, needs_row_count) in [
            (10.0, 119.0, true, false),
            (20.0, 100.0, true, false),
            (30.0, 100.0, false, false),
            (0.0, 100.0, true, true),
        ] {
            let range = Interval::new(lo, hi);
            assert_eq!(is_summed_from_zero(range, false), alone, "{lo}, {hi}");
            assert_eq!(
                is_summed_from_zero(range, true),
                needs_row_count,
                "{lo}, {hi}"
            );
        }
    }
}
