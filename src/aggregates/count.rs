//! COUNT: of rows, of values that are not NULL, or of units.

use sqlparser::ast;

use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead, ValuesRead};
use super::call::{Call, Resolved};
use super::names::{AggregateName, Counted, DistinctForm};
use super::single_measure::{CountOrSum, SingleMeasureOutput};
use super::unbounded::{Calls, Clamped, ComparisonKind, Facts, Unbounded};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// What is counted.
#[derive(Debug, Clone, PartialEq)]
pub enum BoundedCount {
    Rows,
    /// Rows where the value is not NULL.
    Present(Expr),
    /// Rows, whose value is never NULL.
    NeverNull(Expr),
    Units,
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] =
    &[AggregateName::new("count", call, DistinctForm::Other(distinct)).counting(Counted::Rows)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    if call.is_of_rows() {
        return Ok((Operation::CountRows, Type::Int8));
    }
    Ok((Operation::Count(call.value()?), Type::Int8))
}

fn distinct(call: &dyn Call) -> Resolved {
    Ok((Operation::Distinct(call.values()?), Type::Int8))
}

/// COUNT as the query writes it: of rows, or of values.
pub(super) struct UnboundedCount<'o>(pub Option<&'o Expr>);

impl<'o> Unbounded<'o> for UnboundedCount<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let asked = match self.0 {
            None => BoundedCount::Rows,
            Some(value) if bounds.may_be_null(value) => BoundedCount::Present(value.clone()),
            Some(value) => BoundedCount::NeverNull(value.clone()),
        };
        Ok(BoundedOperation::Count(asked).into())
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        match self.0 {
            None => Ok(calls.rows()),
            Some(value) => calls.present(value),
        }
    }

    fn range(&self, rows: f64, may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        // A group without rows does not exist.
        let least = if self.0.is_none() && !may_be_empty {
            1.0
        } else {
            0.0
        };
        Interval::new(least, rows)
    }

    fn facts(&self) -> Facts<'o> {
        Facts {
            is_count: true,
            skips_nulls: self.0.is_some(),
            compares: ComparisonKind::Nothing,
            ..Facts::of_all_values(Clamped::Rows)
        }
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(None)
    }

    fn adds(&self) -> Option<(&'o Expr, bool)> {
        Some((self.0?, false))
    }

    fn over(&self, value: Expr) -> Option<Operation> {
        self.0.map(|_| Operation::Count(value))
    }
}

impl Bounded for BoundedCount {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(match self {
            Self::Rows | Self::Units => Vec::new(),
            Self::Present(value) | Self::NeverNull(value) => vec![value],
        })
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        match self {
            Self::Rows | Self::NeverNull(_) => Counts::AllRows,
            Self::Present(_) | Self::Units => Counts::Nothing,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Presence
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let measure = match self {
            Self::Rows | Self::NeverNull(_) => layout.rows(filter),
            Self::Present(value) => layout.present(value, filter),
            Self::Units => layout.units(filter),
        };
        Ok(Output::SingleMeasure(SingleMeasureOutput {
            measure,
            kind: CountOrSum::Count,
        }))
    }
}
