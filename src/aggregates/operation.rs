//! The aggregates that a query may call: each operation names its file here. This is the only match
//! on operations outside `ir`.

use sqlparser::ast;

use super::unbounded::{Facts, Unbounded};
use super::{
    Bound, Bounds, Calls, average, bool_and_or, count, distinct_count, distinct_moment, logistic,
    mode, order_statistics, pair_statistics, principal_components, regression, sum, variance,
};
use crate::catalog::Type;
use crate::ir::{Expr, Interval, Operation};
use crate::refusal::Refusal;

impl Operation {
    fn as_unbounded(&self) -> Box<dyn Unbounded<'_> + '_> {
        match self {
            Self::CountRows => Box::new(count::UnboundedCount(None)),
            Self::Count(value) => Box::new(count::UnboundedCount(Some(value))),
            Self::Distinct(values) => Box::new(distinct_count::UnboundedDistinctCount(values)),
            Self::DistinctMoment { value, moment } => {
                Box::new(distinct_moment::UnboundedDistinctMoment {
                    value,
                    moment: *moment,
                })
            }
            Self::Sum(value) => Box::new(sum::UnboundedSum(value)),
            Self::Average(value) => Box::new(average::UnboundedAverage(value)),
            Self::Variance { value, kind } => {
                Box::new(variance::UnboundedVariance { value, kind: *kind })
            }
            Self::PairStatistic { y, x, kind } => {
                Box::new(pair_statistics::UnboundedPairStatistic { y, x, kind: *kind })
            }
            Self::Regression {
                y,
                features,
                l1,
                field,
            } => Box::new(regression::UnboundedRegression {
                y,
                features,
                l1: *l1,
                field,
            }),
            Self::Newton {
                y,
                features,
                at,
                step,
                field,
            } => Box::new(logistic::step(y, features, at, *step, field)),
            Self::Components {
                values,
                shown,
                field,
            } => Box::new(principal_components::UnboundedComponents {
                values,
                shown: *shown,
                field,
            }),
            Self::BoolAndOr { value, of } => {
                Box::new(bool_and_or::UnboundedBool { value, of: *of })
            }
            Self::Extreme { value, end } => {
                Box::new(order_statistics::UnboundedExtreme { value, end: *end })
            }
            Self::Quantile {
                value,
                fractions,
                continuous,
                descending,
            } => Box::new(order_statistics::UnboundedQuantile {
                value,
                fractions,
                continuous: *continuous,
                descending: *descending,
            }),
            Self::Mode { value, descending } => Box::new(mode::UnboundedMode {
                value,
                descending: *descending,
            }),
        }
    }

    /// Bounds it: [`Unbounded::bound`].
    ///
    /// # Errors
    /// 0A000 where no range is known, or where the aggregate has no sound answer.
    pub fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        self.as_unbounded().bound(bounds)
    }

    /// Its call over the rows of one unit.
    ///
    /// # Errors
    /// The errors of its arguments.
    pub fn sql_within_unit(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        self.as_unbounded().sql(calls)
    }

    /// Where its results lie over the at most `rows` rows of one unit: [`Unbounded::range`].
    pub fn range_within_unit(
        &self,
        rows: f64,
        may_be_empty: bool,
        of: &dyn Fn(&Expr) -> Interval,
    ) -> Interval {
        self.as_unbounded().range(rows, may_be_empty, of)
    }

    /// Its facts for the stages.
    pub fn facts(&self) -> Facts<'_> {
        self.as_unbounded().facts()
    }

    /// The one value that it adds up: [`Unbounded::adds`].
    pub fn adds(&self) -> Option<(&Expr, bool)> {
        self.as_unbounded().adds()
    }

    /// The same over another value, of an aggregate that adds up one.
    pub fn over(&self, value: Expr) -> Option<Self> {
        self.as_unbounded().over(value)
    }

    /// What it becomes within one unit's rows: [`Unbounded::exact`].
    ///
    /// # Errors
    /// 0A000 for forms that have no exact value over one unit's rows; `name` is the call's.
    pub fn exact(&self, name: &str) -> Result<Option<(Self, Option<Type>)>, Refusal> {
        self.as_unbounded().exact(name)
    }
}
