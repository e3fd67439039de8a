//! VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP, and the sums of squares of REGR_SXX and REGR_SYY:
//! the spread of values around their mean.

use super::average::mean_type;
use super::call::{Call, Resolved, require_type};
use super::names::{AggregateName, DistinctForm};
use crate::ir::Moment;
use crate::ir::Operation;
use sqlparser::ast::{self, BinaryOperator as B};

use super::arithmetic::{above, largest_sum, less_one, measure, ratio, when, within};
use super::best_case::{BestCase, Expected, expect_error_within, few, half_of_quotient, plus};
use super::bounded::{Bounded, Bounds, Centred, Counts, Layout, Summand, TextRead, ValuesRead};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded, exact_sum, most_variance};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue, ROWS_OF_SAMPLE, half};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::VarianceKind as Kind;
use crate::ir::{Expr, Interval, sql};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// How far values lie from their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispersion {
    /// Sum of squared distances from the mean.
    Squares,
    Spread(Kind),
}

/// The value whose dispersion is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedVariance {
    pub summand: Summand,
    pub kind: Dispersion,
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[
    spread_named(
        "var_pop",
        |c| call(c, Kind::VariancePopulation),
        Kind::VariancePopulation,
    ),
    spread_named(
        "var_samp",
        |c| call(c, Kind::VarianceSample),
        Kind::VarianceSample,
    ),
    spread_named(
        "variance",
        |c| call(c, Kind::VarianceSample),
        Kind::VarianceSample,
    ),
    spread_named(
        "stddev_pop",
        |c| call(c, Kind::DeviationPopulation),
        Kind::DeviationPopulation,
    ),
    spread_named(
        "stddev_samp",
        |c| call(c, Kind::DeviationSample),
        Kind::DeviationSample,
    ),
    spread_named(
        "stddev",
        |c| call(c, Kind::DeviationSample),
        Kind::DeviationSample,
    ),
];

const fn spread_named(
    name: &'static str,
    call: fn(&dyn Call) -> Resolved,
    kind: Kind,
) -> AggregateName {
    AggregateName::new(name, call, DistinctForm::Moment(Moment::Spread(kind)))
}

pub(super) fn call(call: &dyn Call, kind: Kind) -> Resolved {
    let value = call.value()?;
    let result = require_type(call, mean_type(&value.data_type), &value.data_type)?;
    Ok((Operation::Variance { value, kind }, result))
}

/// A variance or standard deviation as the query writes it.
pub(super) struct UnboundedVariance<'o> {
    pub value: &'o Expr,
    pub kind: Kind,
}

impl<'o> Unbounded<'o> for UnboundedVariance<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        Ok(BoundedOperation::Variance(BoundedVariance {
            summand: bounds.summand(self.value, "VARIANCE or STDDEV")?,
            kind: Dispersion::Spread(self.kind),
        })
        .into())
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        calls.of(spread_name(self.kind), self.value)
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        spread_of(of(self.value), self.kind)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Values)
    }

    fn adds(&self) -> Option<(&'o Expr, bool)> {
        Some((self.value, false))
    }

    fn over(&self, value: Expr) -> Option<Operation> {
        let kind = self.kind;
        Some(Operation::Variance { value, kind })
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        let kind = self.kind;
        Ok(exact_sum(self.value, |value| Operation::Variance {
            value,
            kind,
        }))
    }
}

/// PostgreSQL's name.
pub(super) fn spread_name(kind: Kind) -> &'static str {
    match kind {
        Kind::VariancePopulation => "var_pop",
        Kind::VarianceSample => "var_samp",
        Kind::DeviationPopulation => "stddev_pop",
        Kind::DeviationSample => "stddev_samp",
    }
}

/// Where the spread of values within an interval lies.
pub(super) fn spread_of(value: Interval, kind: Kind) -> Interval {
    let variance = most_variance(value);
    let most = match kind {
        Kind::VariancePopulation => variance,
        // n / (n - 1) of it, from two rows on.
        Kind::VarianceSample => 2.0 * variance,
        Kind::DeviationPopulation => variance.sqrt(),
        Kind::DeviationSample => (2.0 * variance).sqrt(),
    };
    Interval::new(0.0, most)
}

impl Bounded for BoundedVariance {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Summand(&self.summand)
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfValues {
            value: &self.summand.value,
            nullable: self.summand.nullable,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let (count, value) = layout.moments(&self.summand, filter)?;
        Ok(Output::Variance(VarianceOutput {
            count,
            value,
            kind: self.kind,
        }))
    }
}

/// The value that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct VarianceOutput {
    pub count: MeasureId,
    pub value: Centred,
    pub kind: Dispersion,
}

/// Values are taken to spread over their range as a normal law does within three standard
/// deviations: the policy's bounds are seldom tighter, and often wider.
const SPREADS_IN_HALF: f64 = 3.0;

impl OutputValue for VarianceOutput {
    fn name(&self) -> &'static str {
        "spread"
    }

    fn measures(&self) -> Vec<MeasureId> {
        vec![self.count, self.value.sum, self.value.squares]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::FromAnswer
    }

    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        let count = measure(self.count);
        let squares = self.value.squares_about_mean(&count);
        about_mean(&count, &squares, self.kind)
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        Some(Divisor::Rows(self.count))
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let rows = match self.value.is_about_zero(group) {
            true => group.part(self.count)?,
            false => group.of_mean(self.count)?,
        };
        let variance = self.value.variance(group, &rows)?;
        let most = half(self.value.range).powi(2);
        Some(spread(&rows, variance, most, self.kind, group.z()))
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let count = best.noise(self.count)?;
        if let Some(few) = few(&count, best.rows(), best.z()) {
            return Some(few);
        }
        let (variance, error) = self.value.best_variance(best, &count)?;
        let most = half(self.value.range).powi(2);
        let (least, greatest) = ((variance - error).max(0.0), (variance + error).min(most));
        let (what, ends, width) = match self.kind {
            Dispersion::Spread(Kind::DeviationPopulation | Kind::DeviationSample) => (
                "a standard deviation",
                most.sqrt(),
                greatest.sqrt() - least.sqrt(),
            ),
            Dispersion::Spread(Kind::VariancePopulation | Kind::VarianceSample) => {
                ("a variance", most, greatest - least)
            }
            Dispersion::Squares => (
                "a sum of squares",
                most * best.rows(),
                (greatest - least) * best.rows(),
            ),
        };
        Some(expect_error_within(
            width / 2.0,
            what,
            Interval::new(0.0, ends),
        ))
    }
}

impl Centred {
    /// The variance about the mean.
    pub(super) fn variance(self, group: &dyn Group, rows: &Estimate) -> Option<Estimate> {
        // About the middle, one clip cuts the squares together with the rows. About zero they have
        // a separate clip, and what it cuts moves the quotient.
        let (sum, squares) = match self.is_about_zero(group) {
            true => (group.part(self.sum)?, group.total(self.squares)?),
            false => (group.of_mean(self.sum)?, group.of_mean(self.squares)?),
        };
        let variance = about_means(rows, &squares, (&sum, &sum), group.z())?;
        Some(variance.within(0.0, half(self.range).powi(2)))
    }

    /// Whether values are counted from zero, and not from the middle of their range.
    fn is_about_zero(self, group: &dyn Group) -> bool {
        group.centre(self.sum).is_some()
    }

    /// The interval of the variance of values that spread over the range as they usually do: its
    /// middle, and half its width.
    pub(super) fn best_variance(self, best: &dyn BestCase, count: &[f64]) -> Option<(f64, f64)> {
        let variance = (half(self.range) / SPREADS_IN_HALF).powi(2);
        let apart = plus(&best.noise(self.squares)?, -variance, count);
        let error = half_of_quotient(&apart, count, best.rows(), best.z());
        Some((variance, error))
    }

    pub(super) fn squares_about_mean(self, count: &ast::Expr) -> ast::Expr {
        squares_about_mean(
            (measure(self.sum), measure(self.squares)),
            self.range,
            count,
        )
    }
}

/// Sum of squared distances from the mean, `sum of squares - sum^2 / n`, within what n values of
/// the range can have.
pub(super) fn squares_about_mean(
    (sum, squares): (ast::Expr, ast::Expr),
    range: Interval,
    count: &ast::Expr,
) -> ast::Expr {
    let own = sql::binary(sum.clone(), B::Multiply, sum);
    let about_mean = sql::binary(squares, B::Minus, ratio(own, count.clone()));
    let most = largest_sum(count, half(range).powi(2));
    within(about_mean, sql::number_literal("0"), most)
}

/// The covariance: the mean of products minus the product of the means, from released measures.
pub(super) fn moment(
    group: &dyn Group,
    rows: &Estimate,
    products: MeasureId,
    (y, x): (MeasureId, MeasureId),
) -> Option<Estimate> {
    let (products, y, x) = (group.part(products)?, group.part(y)?, group.part(x)?);
    about_means(rows, &products, (&y, &x), group.z())
}

/// [`moment`] from estimates of the sums.
pub(super) fn about_means(
    rows: &Estimate,
    products: &Estimate,
    (y, x): (&Estimate, &Estimate),
    z: f64,
) -> Option<Estimate> {
    let mean = |sum: &Estimate| sum.over(rows, z);
    Some(mean(products)?.plus(-1.0, &mean(y)?.times(&mean(x)?, z), z))
}

/// From the squares about the mean. NULL where PostgreSQL has NULL: for no row, and of a sample for
/// one.
pub(super) fn about_mean(count: &ast::Expr, squares: &ast::Expr, kind: Dispersion) -> ast::Expr {
    let population = || {
        when(
            above(count.clone(), "0"),
            ratio(squares.clone(), count.clone()),
        )
    };
    let sample = || {
        when(
            above(count.clone(), "1"),
            ratio(squares.clone(), less_one(count)),
        )
    };
    match kind {
        Dispersion::Squares => when(above(count.clone(), "0"), squares.clone()),
        Dispersion::Spread(Kind::VariancePopulation) => population(),
        Dispersion::Spread(Kind::VarianceSample) => sample(),
        Dispersion::Spread(Kind::DeviationPopulation) => sql::call("sqrt", vec![population()]),
        Dispersion::Spread(Kind::DeviationSample) => sql::call("sqrt", vec![sample()]),
    }
}

/// From a population's variance, which is `most` at most.
pub(super) fn spread(
    rows: &Estimate,
    variance: Estimate,
    most: f64,
    kind: Dispersion,
    z: f64,
) -> Estimate {
    let is_one = rows.value < ROWS_OF_SAMPLE;
    let population = if is_one {
        Estimate::from_bounds(0.0, most)
    } else {
        variance
    };
    // The variance of a sample of two rows is twice that of a population.
    let sample = |e: Estimate| {
        if is_one {
            e.scale(2.0)
        } else {
            e.scale(rows.value / (rows.value - 1.0))
        }
    };
    match kind {
        Dispersion::Squares => population
            .times(&rows.clone().within(0.0, f64::INFINITY), z)
            .within(0.0, most * rows.high.max(0.0)),
        Dispersion::Spread(Kind::VariancePopulation) => population,
        Dispersion::Spread(Kind::VarianceSample) => sample(population),
        Dispersion::Spread(Kind::DeviationPopulation) => population.root(),
        Dispersion::Spread(Kind::DeviationSample) => sample(population).root(),
    }
}
