//! AVG: the sum over the number of rows, within the range of the values.

use super::call::{Call, Resolved, require_type};
use super::names::{AggregateName, DistinctForm};
use crate::catalog::Type;
use crate::ir::Moment;
use crate::ir::Operation;
use sqlparser::ast::{self, BinaryOperator as B};

use super::arithmetic::{above, float_literal, measure, when, within};
use super::best_case::{BestCase, Expected, expect_error_within, few, half_of_quotient, plus};
use super::bounded::{Bounded, Bounds, Counts, Layout, Summand, TextRead, ValuesRead};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded, exact_sum};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue, middle};
use super::{Bound, BoundedOperation, Output};
use crate::ir::{Expr, Interval, sql};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// The averaged value.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedAverage(pub Summand);

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::new(
    "avg",
    call,
    DistinctForm::Moment(Moment::Mean),
)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    let value = call.value()?;
    let result = require_type(call, mean_type(&value.data_type), &value.data_type)?;
    Ok((Operation::Average(value), result))
}

/// The result type of AVG, VARIANCE and STDDEV.
pub(super) fn mean_type(given: &Type) -> Option<Type> {
    match given {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Float4 | Type::Float8 => Some(Type::Float8),
        _ => None,
    }
}

/// AVG as the query writes it.
pub(super) struct UnboundedAverage<'o>(pub &'o Expr);

impl<'o> Unbounded<'o> for UnboundedAverage<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        Ok(BoundedOperation::Average(BoundedAverage(bounds.summand(self.0, "AVG")?)).into())
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        calls.of("avg", self.0)
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        of(self.0)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Values)
    }

    fn adds(&self) -> Option<(&'o Expr, bool)> {
        Some((self.0, false))
    }

    fn over(&self, value: Expr) -> Option<Operation> {
        Some(Operation::Average(value))
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(exact_sum(self.0, Operation::Average))
    }
}

impl Bounded for BoundedAverage {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Summand(&self.0)
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfValues {
            value: &self.0.value,
            nullable: self.0.nullable,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let (sum, count) = layout.mean(&self.0, filter)?;
        Ok(Output::Average(AverageOutput {
            sum,
            count,
            range: self.0.range,
        }))
    }
}

/// The value that is shown: `sum / count`, clamped to the values' bounds; NULL where the noisy
/// count is too small.
#[derive(Debug, Clone, PartialEq)]
pub struct AverageOutput {
    pub sum: MeasureId,
    pub count: MeasureId,
    pub range: Interval,
}

impl OutputValue for AverageOutput {
    fn name(&self) -> &'static str {
        "average"
    }

    fn measures(&self) -> Vec<MeasureId> {
        vec![self.sum, self.count]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        let Self { sum, count, range } = *self;
        Foreseen::OverRows { sum, count, range }
    }

    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        mean(measure(self.sum), measure(self.count), self.range)
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        Some(Divisor::Rows(self.count))
    }

    /// The centre plus a quotient: the sum of distances from the centre over the rows.
    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let (centre, z) = (group.centre(self.sum)?, group.z());
        let rows = group.of_mean(self.count)?;
        let distances = group.distances(self.sum, self.count)?;
        let mean = distances.over(&rows, z)?.shift(centre);
        Some(mean.within(self.range.lo, self.range.hi))
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let (sum, count) = (best.noise(self.sum)?, best.noise(self.count)?);
        let (rows, z) = (best.rows(), best.z());
        if let Some(few) = few(&count, rows, z) {
            return Some(few);
        }
        let apart = plus(&sum, -middle(self.range), &count);
        let error = half_of_quotient(&apart, &count, rows, z);
        Some(expect_error_within(error, "an average", self.range))
    }
}

/// The mean, within its range; NULL where nothing seems to be there.
pub(super) fn mean(sum: ast::Expr, count: ast::Expr, range: Interval) -> ast::Expr {
    let ratio = sql::binary(sum, B::Divide, count.clone());
    when(
        above(count, "0"),
        within(ratio, float_literal(range.lo), float_literal(range.hi)),
    )
}
