//! COVAR, CORR and REGR: statistics of pairs that need both values.

use super::average::mean_type;
use super::call::{Call, Resolved};
use super::names::{AggregateName, Counted, DistinctForm};
use crate::ir::Operation;
use crate::ir::literal::type_name;
use sqlparser::ast::{self, BinaryOperator as B};

use super::arithmetic::{
    above, clamp_between, float_literal, largest_sum, less_one, measure, ratio, when, within,
};
use super::best_case::{
    BestCase, Expected, expect_error as within_best, expect_error_within as bounded_best, few,
    half_of_quotient,
};
use super::bounded::{
    Bounded, Bounds, Centred, Counts, Layout, Pairs, Summand, TextRead, ValuesRead, exact,
};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded, most_variance};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue, ROWS_OF_SAMPLE, half, middle};
use super::variance::{Dispersion, moment};
use super::{Bound, BoundedOperation, Output, average, count, variance};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Interval, Node, PairStatistic, sql};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Statistics of pairs (y, x) that need both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JointStatistic {
    CovariancePopulation,
    CovarianceSample,
    Correlation,
    Products,
    Slope,
    Intercept,
    Determination,
}

/// The two values whose statistic is computed, over rows where neither is NULL: the aggregate's own
/// filter says so.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedPairStatistic {
    pub y: Expr,
    pub y_range: Interval,
    pub x: Expr,
    pub x_range: Interval,
    pub kind: JointStatistic,
}

/// A statistic of pairs as the query writes it.
pub(super) struct UnboundedPairStatistic<'o> {
    pub y: &'o Expr,
    pub x: &'o Expr,
    pub kind: PairStatistic,
}

impl<'o> Unbounded<'o> for UnboundedPairStatistic<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        bound(self.y, self.x, self.kind, bounds)
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        calls.pairs(self.y, self.x, self.kind)
    }

    fn range(&self, rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        range(of(self.y), of(self.x), rows, self.kind)
    }

    fn facts(&self) -> Facts<'o> {
        let clamped = match self.kind {
            PairStatistic::SquaresX | PairStatistic::SquaresY | PairStatistic::Products => {
                Clamped::Sums
            }
            PairStatistic::Slope | PairStatistic::Intercept => Clamped::Sums,
            PairStatistic::Count | PairStatistic::AverageX | PairStatistic::AverageY => {
                Clamped::Values
            }
            PairStatistic::CovariancePopulation | PairStatistic::CovarianceSample => {
                Clamped::Values
            }
            PairStatistic::Correlation | PairStatistic::Determination => Clamped::Values,
        };
        Facts {
            is_count: self.kind == PairStatistic::Count,
            ..Facts::of_all_values(clamped)
        }
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        let (y, x, kind) = (decimal(self.y), decimal(self.x), self.kind);
        Ok(Some((Operation::PairStatistic { y, x, kind }, None)))
    }
}

/// The value as a numeric, without a detour over float8.
fn decimal(value: &Expr) -> Expr {
    let numeric = Type::Numeric(None);
    match &value.node {
        Node::Cast(inner)
            if matches!(
                inner.data_type,
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_)
            ) =>
        {
            Expr::clone(inner).cast(numeric)
        }
        _ => value.clone().cast(numeric),
    }
}

/// Where a statistic of pairs lies; a slope may be anything.
fn range(y: Interval, x: Interval, rows: f64, kind: PairStatistic) -> Interval {
    // |cov(y, x)|^2 <= var(y) var(x).
    let most = (most_variance(y) * most_variance(x)).sqrt();
    // Nothing is known of the product of zero and infinity.
    let most = if most.is_nan() { f64::INFINITY } else { most };
    match kind {
        PairStatistic::CovariancePopulation => Interval::new(-most, most),
        PairStatistic::CovarianceSample => Interval::new(-2.0 * most, 2.0 * most),
        PairStatistic::Correlation => Interval::new(-1.0, 1.0),
        PairStatistic::Determination => Interval::new(0.0, 1.0),
        PairStatistic::Count => Interval::new(0.0, rows),
        PairStatistic::AverageX => x,
        PairStatistic::AverageY => y,
        PairStatistic::SquaresX => Interval::new(0.0, rows * most_variance(x)),
        PairStatistic::SquaresY => Interval::new(0.0, rows * most_variance(y)),
        PairStatistic::Products => Interval::new(-rows * most, rows * most),
        PairStatistic::Slope | PairStatistic::Intercept => Interval::ALL,
    }
}

/// A statistic of pairs, over rows where neither is NULL. Some need one of the two values only.
fn bound(y: &Expr, x: &Expr, kind: PairStatistic, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
    let (y, x) = (exact(y), exact(x));
    let complete = [y, x].into_iter().filter(|e| bounds.may_be_null(e));
    let conditions = complete.map(|e| Expr::call(Function::IsNotNull, vec![e.clone()], Type::Bool));
    let summand = |value: &Expr| {
        Ok::<_, Refusal>(Summand {
            value: value.clone(),
            range: finite(value, bounds)?,
            nullable: false,
        })
    };
    let average = |value| {
        Ok::<_, Refusal>(BoundedOperation::Average(average::BoundedAverage(summand(
            value,
        )?)))
    };
    let squares = |value| {
        Ok::<_, Refusal>(BoundedOperation::Variance(variance::BoundedVariance {
            summand: summand(value)?,
            kind: Dispersion::Squares,
        }))
    };
    let joint = |kind| {
        Ok::<_, Refusal>(BoundedOperation::PairStatistic(BoundedPairStatistic {
            y: y.clone(),
            y_range: finite(y, bounds)?,
            x: x.clone(),
            x_range: finite(x, bounds)?,
            kind,
        }))
    };
    let conditions = conditions.collect();
    let operation = match kind {
        PairStatistic::Count => BoundedOperation::Count(count::BoundedCount::Rows),
        PairStatistic::AverageX => average(x)?,
        PairStatistic::AverageY => average(y)?,
        PairStatistic::SquaresX => squares(x)?,
        PairStatistic::SquaresY => squares(y)?,
        PairStatistic::CovariancePopulation => joint(JointStatistic::CovariancePopulation)?,
        PairStatistic::CovarianceSample => joint(JointStatistic::CovarianceSample)?,
        PairStatistic::Correlation => joint(JointStatistic::Correlation)?,
        PairStatistic::Products => joint(JointStatistic::Products)?,
        PairStatistic::Slope => joint(JointStatistic::Slope)?,
        PairStatistic::Intercept => joint(JointStatistic::Intercept)?,
        PairStatistic::Determination => joint(JointStatistic::Determination)?,
    };
    Ok(Bound {
        operation,
        conditions,
    })
}

/// The range of one argument of a statistic of pairs.
fn finite(argument: &Expr, bounds: &dyn Bounds) -> Result<Interval, Refusal> {
    let range = bounds.range(argument);
    if range.is_finite() {
        return Ok(range);
    }
    Err(Refusal::new(
        reason::VALUE_RANGE_UNKNOWN,
        "CORR, COVAR and REGR need bounds for both arguments",
    )
    .hint(
        "Clamp each argument inline, as in CORR(LEAST(GREATEST(y, 0), 100), x), add \
            conditions such as WHERE y BETWEEN 0 AND 100, or ask the data owner to declare bounds.",
    ))
}

/// The names that they answer to.
pub(super) const NAMES: &[AggregateName] = &[
    pairs("covar_pop", |c| {
        call(c, PairStatistic::CovariancePopulation)
    }),
    pairs("covar_samp", |c| call(c, PairStatistic::CovarianceSample)),
    pairs("corr", |c| call(c, PairStatistic::Correlation)),
    pairs("regr_count", |c| call(c, PairStatistic::Count)).counting(Counted::Pairs),
    pairs("regr_avgx", |c| call(c, PairStatistic::AverageX)),
    pairs("regr_avgy", |c| call(c, PairStatistic::AverageY)),
    pairs("regr_sxx", |c| call(c, PairStatistic::SquaresX)),
    pairs("regr_syy", |c| call(c, PairStatistic::SquaresY)),
    pairs("regr_sxy", |c| call(c, PairStatistic::Products)),
    pairs("regr_slope", |c| call(c, PairStatistic::Slope)),
    pairs("regr_intercept", |c| call(c, PairStatistic::Intercept)),
    pairs("regr_r2", |c| call(c, PairStatistic::Determination)),
];

const fn pairs(name: &'static str, call: fn(&dyn Call) -> Resolved) -> AggregateName {
    AggregateName::new(name, call, DistinctForm::Refused)
}

pub(super) fn call(call: &dyn Call, kind: PairStatistic) -> Resolved {
    let (y, x) = call.pair()?;
    if [&y, &x].iter().any(|e| mean_type(&e.data_type).is_none()) {
        let types = format!("{}, {}", type_name(&y.data_type), type_name(&x.data_type));
        return Err(Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!("function {}({types}) does not exist", call.name()),
        ));
    }
    let result = if kind == PairStatistic::Count {
        Type::Int8
    } else {
        Type::Float8
    };
    let (y, x) = (y.cast(Type::Float8), x.cast(Type::Float8));
    Ok((Operation::PairStatistic { y, x, kind }, result))
}

impl Bounded for BoundedPairStatistic {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(vec![&self.y, &self.x])
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfPairs {
            y: &self.y,
            x: &self.x,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let y = (&self.y, self.y_range);
        let Pairs {
            count,
            y,
            x,
            products,
        } = layout.pairs(y, (&self.x, self.x_range), filter)?;
        Ok(Output::PairStatistic(PairStatisticOutput {
            count,
            y,
            x,
            products,
            kind: self.kind,
        }))
    }
}

/// The value that is shown: from both values' distances from the middle of their ranges.
#[derive(Debug, Clone, PartialEq)]
pub struct PairStatisticOutput {
    pub count: MeasureId,
    pub y: Centred,
    pub x: Centred,
    pub products: MeasureId,
    pub kind: JointStatistic,
}

impl OutputValue for PairStatisticOutput {
    fn name(&self) -> &'static str {
        "slope or correlation"
    }

    fn measures(&self) -> Vec<MeasureId> {
        let Self {
            count,
            y,
            x,
            products,
            kind: _,
        } = self;
        vec![*count, y.sum, y.squares, x.sum, x.squares, *products]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::FromAnswer
    }

    /// Plug-in estimates. NULL where the noise leaves no spread of x, as PostgreSQL answers where x
    /// has no spread.
    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        let Self {
            count,
            y,
            x,
            products,
            kind,
        } = *self;
        let count = measure(count);
        let own = sql::binary(measure(y.sum), B::Multiply, measure(x.sum));
        let about_means = sql::binary(measure(products), B::Minus, ratio(own, count.clone()));
        let most = || largest_sum(&count, half(y.range) * half(x.range));
        let least = sql::binary(sql::number_literal("0"), B::Minus, most());
        let products = within(about_means, least, most());
        let some = above(count.clone(), "0");
        match kind {
            JointStatistic::CovariancePopulation => when(some, ratio(products, count)),
            JointStatistic::CovarianceSample => {
                when(above(count.clone(), "1"), ratio(products, less_one(&count)))
            }
            JointStatistic::Products => when(some, products),
            JointStatistic::Correlation => {
                let (y, x) = (y.squares_about_mean(&count), x.squares_about_mean(&count));
                let spread = sql::call("sqrt", vec![sql::binary(y, B::Multiply, x)]);
                when(some, clamp_between(ratio(products, spread), -1.0, 1.0))
            }
            JointStatistic::Slope => when(some, ratio(products, x.squares_about_mean(&count))),
            JointStatistic::Intercept => {
                let slope = ratio(products, x.squares_about_mean(&count));
                let mean = |value: Centred| {
                    sql::binary(
                        ratio(measure(value.sum), count.clone()),
                        B::Plus,
                        float_literal(middle(value.range)),
                    )
                };
                let at_mean = sql::binary(slope, B::Multiply, mean(x));
                when(some, sql::binary(mean(y), B::Minus, at_mean))
            }
            JointStatistic::Determination => {
                let (y, x) = (y.squares_about_mean(&count), x.squares_about_mean(&count));
                determination(products, y, x)
            }
        }
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        Some(Divisor::Rows(self.count))
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let rows = group.part(self.count)?;
        if rows.value < ROWS_OF_SAMPLE {
            Some(self.bounds())
        } else {
            self.of_rows(group, &rows)
        }
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let Self {
            count,
            y,
            x,
            products,
            kind,
        } = *self;
        let (rows, z) = (best.rows(), best.z());
        let count = best.noise(count)?;
        if let Some(few) = few(&count, rows, z) {
            return Some(few);
        }
        let (y_variance, y_error) = y.best_variance(best, &count)?;
        let (x_variance, x_error) = x.best_variance(best, &count)?;
        let most = half(y.range) * half(x.range);
        let error = half_of_quotient(&best.noise(products)?, &count, rows, z).min(most);
        // A quotient by a variance that may be zero is not known.
        let is_x_known = x_variance > x_error;
        let correlation = if is_x_known && y_variance > y_error {
            (error / (y_variance * x_variance).sqrt()).min(1.0)
        } else {
            1.0
        };
        let any = |what: &str| {
            let predicate =
                format!("could be any {what}: the noise hides the spread of its x values");
            within_best(f64::INFINITY, (!is_x_known).then_some(predicate))
        };
        Some(match kind {
            JointStatistic::Correlation => {
                bounded_best(correlation, "a correlation", Interval::new(-1.0, 1.0))
            }
            JointStatistic::Determination => bounded_best(
                correlation.powi(2) / 2.0,
                "a coefficient of determination",
                Interval::new(0.0, 1.0),
            ),
            JointStatistic::CovariancePopulation | JointStatistic::CovarianceSample => {
                bounded_best(error, "a covariance", Interval::new(-most, most))
            }
            JointStatistic::Products => bounded_best(
                error * rows,
                "a sum of products",
                Interval::new(-most * rows, most * rows),
            ),
            JointStatistic::Slope => any("slope"),
            JointStatistic::Intercept => any("intercept"),
        })
    }
}

impl PairStatisticOutput {
    /// The range of the statistic, whatever the rows are.
    fn bounds(&self) -> Estimate {
        let most = half(self.y.range) * half(self.x.range);
        match self.kind {
            JointStatistic::CovariancePopulation => Estimate::from_bounds(-most, most),
            JointStatistic::CovarianceSample => Estimate::from_bounds(-2.0 * most, 2.0 * most),
            JointStatistic::Correlation => Estimate::from_bounds(-1.0, 1.0),
            JointStatistic::Determination => Estimate::from_bounds(0.0, 1.0),
            JointStatistic::Products | JointStatistic::Slope | JointStatistic::Intercept => {
                Estimate::from_bounds(-most, most).between(f64::NEG_INFINITY, f64::INFINITY)
            }
        }
    }

    fn of_rows(&self, group: &dyn Group, rows: &Estimate) -> Option<Estimate> {
        let Self {
            count: _,
            y,
            x,
            products,
            kind,
        } = *self;
        let z = group.z();
        let most = half(y.range) * half(x.range);
        let together = moment(group, rows, products, (y.sum, x.sum))?.within(-most, most);
        let (y_spread, x_spread) = (y.variance(group, rows)?, x.variance(group, rows)?);
        let slope = || together.over(&x_spread, z);
        // A quotient by a variance that may be zero is not known.
        let correlation = || {
            let both = y_spread.times(&x_spread, z);
            let is_sure = y_spread.low > 0.0 && x_spread.low > 0.0;
            match is_sure {
                true => together
                    .over(&both.root(), z)
                    .map(|e| Estimate::exact(0.0).plus(1.0, &e, z).within(-1.0, 1.0)),
                false => Some(Estimate::from_bounds(-1.0, 1.0)),
            }
        };
        match kind {
            JointStatistic::CovariancePopulation => Some(together),
            JointStatistic::CovarianceSample => {
                Some(together.scale(rows.value / (rows.value - 1.0)))
            }
            JointStatistic::Products => Some(together.times(rows, z)),
            JointStatistic::Correlation => correlation(),
            JointStatistic::Slope => slope(),
            JointStatistic::Intercept => {
                let mean = |value: Centred| {
                    let mean = group.part(value.sum)?.over(rows, z)?;
                    Some(mean.shift(middle(value.range)))
                };
                let slope = slope()?;
                let found = mean(y)?.plus(-1.0, &slope.times(&mean(x)?, z), z);
                let is_known = slope.low.is_finite();
                Some(if is_known {
                    found
                } else {
                    found.between(f64::NEG_INFINITY, f64::INFINITY)
                })
            }
            JointStatistic::Determination => correlation().map(|r| {
                let (low, high) = (r.low.abs().min(r.high.abs()), r.low.abs().max(r.high.abs()));
                let least = if r.low <= 0.0 && r.high >= 0.0 {
                    0.0
                } else {
                    low * low
                };
                r.times(&r, z).between(least, high * high)
            }),
        }
    }
}

fn determination(products: ast::Expr, y_squares: ast::Expr, x_squares: ast::Expr) -> ast::Expr {
    let squared = sql::binary(products.clone(), B::Multiply, products);
    let explained = clamp_between(
        ratio(
            squared,
            sql::binary(x_squares.clone(), B::Multiply, y_squares.clone()),
        ),
        0.0,
        1.0,
    );
    let flat = sql::binary(y_squares, B::Eq, sql::number_literal("0"));
    let otherwise = sql::case(vec![(flat, sql::number_literal("1"))], Some(explained));
    when(above(x_squares, "0"), otherwise)
}
