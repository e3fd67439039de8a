//! SUM, AVG, VARIANCE and STDDEV of DISTINCT values.

use sqlparser::ast;

use super::arithmetic::column_value;
use super::average::mean;
use super::best_case::{
    BestCase, DistinctNoise, Expected, expect_error_within, few, half_of_quotient, total_of,
};
use super::bounded::{Bounded, Bounds, Counts, Layout, PairLimits, TextRead, ValuesRead};
use super::choice_id::ChoiceId;
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded, exact_sum, sum_of};
use super::value::{Columns, DistinctValues, Divisor, Foreseen, Group, OutputValue, half};
use super::variance::{
    Dispersion, about_mean, about_means, spread, spread_name, spread_of, squares_about_mean,
};
use super::{Bound, BoundedOperation, Output, sum};
use crate::catalog::Type;
use crate::ir::{Distinct, Expr, Interval, Moment, Operation};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// Columns of a choice's distinct values, after their count.
pub const SUM: usize = 1;
pub const CENTRED: usize = 2;
pub const SQUARES: usize = 3;

/// The distinct values whose moment is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedDistinctMoment {
    pub value: Expr,
    pub range: Interval,
    pub per_unit_max: PairLimits,
    pub moment: Moment,
}

/// A moment of distinct values as the query writes it.
pub(super) struct UnboundedDistinctMoment<'o> {
    pub value: &'o Expr,
    pub moment: Moment,
}

impl<'o> Unbounded<'o> for UnboundedDistinctMoment<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let name = match self.moment {
            Moment::Sum => "SUM(DISTINCT …)",
            Moment::Mean => "AVG(DISTINCT …)",
            Moment::Spread(_) => "VARIANCE or STDDEV(DISTINCT …)",
        };
        let value = self.value.clone();
        let per_unit_max = bounds.pair_limits(&Distinct::Value(value.clone()), name)?;
        Ok(BoundedOperation::DistinctMoment(BoundedDistinctMoment {
            range: bounds.finite(&value, name)?,
            value,
            per_unit_max,
            moment: self.moment,
        })
        .into())
    }

    /// DISTINCT keeps one of several equal values.
    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        let name = match self.moment {
            Moment::Sum => "sum",
            Moment::Mean => "avg",
            Moment::Spread(kind) => spread_name(kind),
        };
        calls.of_distinct(name, self.value)
    }

    fn range(&self, rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        let value = of(self.value);
        match self.moment {
            Moment::Sum => sum_of(value, rows),
            Moment::Mean => value,
            Moment::Spread(kind) => spread_of(value, kind),
        }
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Sums)
    }

    fn exact(&self, name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        match self.moment {
            Moment::Sum => sum::check_exact(self.value, name)?,
            Moment::Mean | Moment::Spread(_) => {}
        }
        let moment = self.moment;
        Ok(exact_sum(self.value, |value| Operation::DistinctMoment {
            value,
            moment,
        }))
    }
}

impl Bounded for BoundedDistinctMoment {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(vec![&self.value])
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        match self.moment {
            Moment::Sum => Some(Scalar::Int(0)),
            Moment::Mean | Moment::Spread(_) => None,
        }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let with_squares = matches!(self.moment, Moment::Spread(_));
        let value = (&self.value, self.range);
        let (choice, range) =
            layout.distinct_sum(value, self.per_unit_max, filter, with_squares)?;
        Ok(Output::DistinctMoment(DistinctMomentOutput {
            choice,
            range,
            moment: self.moment,
        }))
    }
}

/// The value that is shown: of a choice's distinct values, which lie within the range.
#[derive(Debug, Clone, PartialEq)]
pub struct DistinctMomentOutput {
    pub choice: ChoiceId,
    pub range: Interval,
    pub moment: Moment,
}

impl OutputValue for DistinctMomentOutput {
    fn name(&self) -> &'static str {
        "distinct values"
    }

    fn measures(&self) -> Vec<MeasureId> {
        Vec::new()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::DistinctValues {
            choice: self.choice,
        }
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        let first = columns.first_of(self.choice);
        match self.moment {
            Moment::Sum => column_value(first + SUM),
            Moment::Mean => mean(column_value(first + SUM), column_value(first), self.range),
            Moment::Spread(kind) => {
                let count = column_value(first);
                let sums = (column_value(first + CENTRED), column_value(first + SQUARES));
                let squares = squares_about_mean(sums, self.range, &count);
                about_mean(&count, &squares, Dispersion::Spread(kind))
            }
        }
    }

    fn is_unbounded(&self) -> bool {
        matches!(self.moment, Moment::Sum)
    }

    fn divisor(&self) -> Option<Divisor> {
        match self.moment {
            Moment::Mean | Moment::Spread(_) => Some(Divisor::DistinctValues(self.choice)),
            Moment::Sum => None,
        }
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let DistinctValues {
            count,
            sum,
            squares,
            centre,
            ends,
        } = group.distinct_values(self.choice)?;
        let z = group.z();
        let apart = sum.plus(-centre, &count, z);
        match self.moment {
            Moment::Sum => Some(sum),
            Moment::Mean => Some(
                apart
                    .over(&count, z)?
                    .shift(centre)
                    .within(self.range.lo, self.range.hi),
            ),
            Moment::Spread(kind) => {
                let most = half(ends).powi(2);
                let variance =
                    about_means(&count, &squares?, (&apart, &apart), z)?.within(0.0, most);
                let kind = Dispersion::Spread(kind);
                Some(spread(&count, variance, most, kind, z))
            }
        }
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let DistinctNoise {
            count,
            apart,
            centre,
            most,
            z,
        } = best.distinct(self.choice)?;
        let range = self.range;
        match self.moment {
            Moment::Sum => {
                let error = z * apart.hypot(count * centre);
                let (least, greatest) = (range.lo.min(0.0) * most, range.hi.max(0.0) * most);
                Some(total_of(error, "sum", (least, greatest)))
            }
            Moment::Mean | Moment::Spread(_) => {
                if let Some(few) = few(&[count], most, z) {
                    return Some(few);
                }
                let error = half_of_quotient(&[apart, 0.0], &[0.0, count], most, z);
                match self.moment {
                    Moment::Mean => Some(expect_error_within(error, "an average", range)),
                    Moment::Sum | Moment::Spread(_) => None,
                }
            }
        }
    }
}
