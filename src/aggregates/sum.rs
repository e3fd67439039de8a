//! SUM.

use sqlparser::ast;

use super::bounded::{Bounded, Bounds, Counts, Layout, Summand, TextRead, ValuesRead};
use super::call::{Call, Resolved, require_type};
use super::names::{AggregateName, DistinctForm};
use super::single_measure::{CountOrSum, SingleMeasureOutput};
use super::unbounded::{Calls, Clamped, Facts, Unbounded, exact_sum, sum_of};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::Moment;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// What is added up.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedSum(pub Summand);

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::new(
    "sum",
    call,
    DistinctForm::Moment(Moment::Sum),
)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    let value = call.value()?;
    let result = require_type(call, sum_type(&value.data_type), &value.data_type)?;
    Ok((Operation::Sum(value), result))
}

/// The result type of SUM.
fn sum_type(given: &Type) -> Option<Type> {
    match given {
        Type::Int2 | Type::Int4 => Some(Type::Int8),
        Type::Int8 | Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Float4 => Some(Type::Float4),
        Type::Float8 => Some(Type::Float8),
        _ => None,
    }
}

/// SUM as the query writes it.
pub(super) struct UnboundedSum<'o>(pub &'o Expr);

impl<'o> Unbounded<'o> for UnboundedSum<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        Ok(BoundedOperation::Sum(BoundedSum(bounds.summand(self.0, "SUM")?)).into())
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        calls.of("sum", self.0)
    }

    fn range(&self, rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        sum_of(of(self.0), rows)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Sums)
    }

    fn adds(&self) -> Option<(&'o Expr, bool)> {
        Some((self.0, true))
    }

    fn over(&self, value: Expr) -> Option<Operation> {
        Some(Operation::Sum(value))
    }

    fn exact(&self, name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        check_exact(self.0, name)?;
        Ok(exact_sum(self.0, Operation::Sum))
    }
}

/// Refuses the sum of reals, whose digits no numeric has.
pub(super) fn check_exact(value: &Expr, name: &str) -> Result<(), Refusal> {
    match value.data_type {
        Type::Float4 => Err(Refusal::unsupported(
            reason::AGGREGATE_TYPE,
            format!("{name}() of type real within one unit"),
        )
        .hint("Cast the value to double precision.")),
        _ => Ok(()),
    }
}

impl Bounded for BoundedSum {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Summand(&self.0)
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfSum {
            value: &self.0.value,
            nullable: self.0.nullable,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::SingleMeasure(SingleMeasureOutput {
            measure: layout.sum(&self.0, filter)?,
            kind: CountOrSum::Sum,
        }))
    }
}
