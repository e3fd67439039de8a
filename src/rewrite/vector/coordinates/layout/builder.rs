//! The part of a release that aggregates use: measures of the vector, and choices.

use crate::aggregates::{
    BitMeasures, Centred, ChoiceId, Layout, MeasureId, PairLimits, Pairs, Ranks, Summand,
    choice_value,
};
use crate::analyze::interval::Interval;
use crate::analyze::{AnalyzedRelease, inline};
use crate::ir::{ColumnInfo, Distinct, Expr};
use crate::policy::Scalar;
use crate::refusal::Refusal;
use crate::rewrite::choice::candidates::{Candidates, Grid};
use crate::rewrite::choice::{ChoiceQueries, Degree, Subject, Target, targets};
use crate::rewrite::vector::coordinate::{Coordinate, Count, Mask, Measure};
use crate::rewrite::vector::coordinates::Coordinates;
use crate::rewrite::vector::fixed_point::FixedPoint;

/// Where the aggregates of a release are laid out: the vector and the choices.
pub(super) struct LayoutBuilder<'l> {
    pub vector: &'l mut Coordinates,
    pub queries: &'l mut ChoiceQueries,
    pub release: &'l AnalyzedRelease,
    pub columns: &'l [ColumnInfo],
    /// Whether the error of this aggregate is asked for.
    pub reports_error: bool,
}

impl LayoutBuilder<'_> {
    fn fixed_point(&self, value: &Expr, range: Interval) -> Result<FixedPoint, Refusal> {
        FixedPoint::new(&inline(value, &self.release.computed), range, self.columns)
    }

    fn count(&mut self, count: Count) -> MeasureId {
        self.vector.measure(Measure::Count(count))
    }

    /// The moments of pairs whose first value comes first by [`Layout::place`].
    fn ordered_pairs(
        &mut self,
        (y, y_range): (&Expr, Interval),
        (x, x_range): (&Expr, Interval),
        filter: &Option<Expr>,
    ) -> Result<Pairs, Refusal> {
        let (y_grid, x_grid) = (self.fixed_point(y, y_range)?, self.fixed_point(x, x_range)?);
        let vector = &mut self.vector;
        let count = vector.rows_of(filter, &self.release.aggregates);
        let (y_moments, x_moments) = (
            vector.moments(y, y_grid.clone(), count, filter),
            vector.moments(x, x_grid.clone(), count, filter),
        );
        let products = vector.coordinate(Coordinate::Products {
            filter: filter.clone(),
            y: (y.clone(), y_grid.clone()),
            x: (x.clone(), x_grid.clone()),
        });
        let products = vector.measure(Measure::Products {
            products,
            y: y_grid,
            x: x_grid,
        });
        Ok(Pairs {
            count: self.count(count),
            y: y_moments,
            x: x_moments,
            products,
        })
    }
}

impl Layout for LayoutBuilder<'_> {
    fn rows(&mut self, filter: &Option<Expr>) -> MeasureId {
        let count = self.vector.rows_of(filter, &self.release.aggregates);
        self.count(count)
    }

    fn bits(&mut self, conditions: &[Expr]) -> BitMeasures {
        let whole = Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        };
        let rows = Count::of(self.vector.coordinate(whole));
        // In a look, sums are counted from zero: so short ones stay short.
        let is_centred = !self.vector.is_looked_at;
        let mut bit = |condition: &Expr| {
            let filter = condition.clone();
            if is_centred {
                let values = self.vector.coordinate(Coordinate::Flags { filter });
                let fixed_point = FixedPoint::of_flag();
                return self.vector.measure(Measure::Centred {
                    values,
                    fixed_point,
                });
            }
            let mask = Mask {
                filter: Some(filter),
                not_null: None,
            };
            let rows = Count::of(self.vector.coordinate(Coordinate::Rows { mask }));
            self.count(rows)
        };
        let bits = conditions.iter().map(&mut bit).collect();
        BitMeasures {
            rows: self.count(rows),
            bits,
            is_centred,
        }
    }

    fn present(&mut self, value: &Expr, filter: &Option<Expr>) -> MeasureId {
        let all = &self.release.aggregates;
        let count = self.vector.not_null_count(value, filter, all);
        self.count(count)
    }

    fn units(&mut self, filter: &Option<Expr>) -> MeasureId {
        let mask = Mask {
            filter: filter.clone(),
            not_null: None,
        };
        let count = Count::of(self.vector.coordinate(Coordinate::Units { mask }));
        self.count(count)
    }

    fn sum(&mut self, summand: &Summand, filter: &Option<Expr>) -> Result<MeasureId, Refusal> {
        let fixed_point = self.fixed_point(&summand.value, summand.range)?;
        let release = self.release;
        Ok(self.vector.sum(summand, fixed_point, filter, release).0)
    }

    fn mean(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, MeasureId), Refusal> {
        let fixed_point = self.fixed_point(&summand.value, summand.range)?;
        let all = &self.release.aggregates;
        let (sum, count) = self.vector.sum(summand, fixed_point, filter, self.release);
        let count = match count {
            Some(count) => count,
            None => self
                .vector
                .count_of(&summand.value, summand.nullable, filter, all),
        };
        Ok((sum, self.count(count)))
    }

    fn moments(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, Centred), Refusal> {
        let Summand {
            value,
            range,
            nullable,
        } = summand;
        if !self.vector.starts_at_zero(*range) {
            return self.centred_moments(summand, filter);
        }
        let most = range.magnitude();
        let grids = (
            self.fixed_point(value, *range)?,
            self.fixed_point(value, Interval::new(-most, most))?,
        );
        let all = &self.release.aggregates;
        let count = self.vector.count_of(value, *nullable, filter, all);
        let moments = self.vector.moments_about_zero(value, grids, filter);
        Ok((self.count(count), moments))
    }

    fn centred_moments(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, Centred), Refusal> {
        let Summand {
            value,
            range,
            nullable,
        } = summand;
        let fixed_point = self.fixed_point(value, *range)?;
        let all = &self.release.aggregates;
        let count = self.vector.count_of(value, *nullable, filter, all);
        let moments = self.vector.moments(value, fixed_point, count, filter);
        Ok((self.count(count), moments))
    }

    fn place(&self, value: &Expr) -> String {
        format!("{:?}", inline(value, &self.release.computed))
    }

    fn pairs(
        &mut self,
        y: (&Expr, Interval),
        x: (&Expr, Interval),
        filter: &Option<Expr>,
    ) -> Result<Pairs, Refusal> {
        if self.place(y.0) <= self.place(x.0) {
            return self.ordered_pairs(y, x, filter);
        }
        let Pairs {
            count,
            y,
            x,
            products,
        } = self.ordered_pairs(x, y, filter)?;
        Ok(Pairs {
            count,
            y: x,
            x: y,
            products,
        })
    }

    fn distinct_count(
        &mut self,
        values: &Distinct,
        limits: PairLimits,
        filter: &Option<Expr>,
    ) -> ChoiceId {
        self.queries
            .distinct(values.clone(), filter, limits, Degree::Count)
    }

    fn distinct_sum(
        &mut self,
        (value, range): (&Expr, Interval),
        limits: PairLimits,
        filter: &Option<Expr>,
        with_squares: bool,
    ) -> Result<(ChoiceId, Interval), Refusal> {
        let fixed_point = self.fixed_point(value, range)?;
        let range = fixed_point.ends();
        let degree = if with_squares {
            Degree::Squares(fixed_point)
        } else {
            Degree::Sum(fixed_point)
        };
        let values = Distinct::Value(value.clone());
        let choice = self.queries.distinct(values, filter, limits, degree);
        Ok((choice, range))
    }

    fn values_at_ranks(
        &mut self,
        (value, range): (&Expr, Interval),
        ranks: &Ranks,
        filter: &Option<Expr>,
    ) -> Result<choice_value::ChoiceOutput, Refusal> {
        let grid = Grid::new(value, range, self.release, self.columns)?;
        let subject = Subject::Value {
            value: value.clone(),
            candidates: Candidates::Grid(grid),
        };
        let asked = targets(ranks);
        let (queries, reports_error) = (&mut self.queries, self.reports_error);
        Ok(queries.choose_values((subject, filter), asked, reports_error))
    }

    fn most_frequent(
        &mut self,
        value: &Expr,
        values: &[Scalar],
        filter: &Option<Expr>,
    ) -> choice_value::ChoiceOutput {
        let subject = Subject::Value {
            value: value.clone(),
            candidates: Candidates::from_list(values, &value.data_type),
        };
        let asked = (vec![Target::MostFrequent], false);
        self.queries
            .choose_values((subject, filter), asked, self.reports_error)
    }
}
