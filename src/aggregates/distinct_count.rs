//! COUNT(DISTINCT …): of values, or of units.

use sqlparser::ast;

use super::bounded::{Bounded, Bounds, Counts, Layout, PairLimits, TextRead, ValuesRead};
use super::unbounded::{Calls, Clamped, ComparisonKind, Facts, Ties, Unbounded};
use super::{Bound, BoundedOperation, Output, choice_value, count};
use crate::catalog::Type;
use crate::ir::{Distinct, Expr, Interval, Operation};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// Which values are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedDistinctCount {
    pub values: Distinct,
    pub per_unit_max: PairLimits,
}

/// COUNT(DISTINCT …) as the query writes it.
pub(super) struct UnboundedDistinctCount<'o>(pub &'o Distinct);

impl<'o> Unbounded<'o> for UnboundedDistinctCount<'o> {
    /// A count of the unit itself counts units; any other one counts values.
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        match bounds.counted_unit(self.0) {
            Some(condition) => Ok(Bound {
                operation: BoundedOperation::Count(count::BoundedCount::Units),
                conditions: condition.into_iter().collect(),
            }),
            None => Ok(BoundedOperation::DistinctCount(BoundedDistinctCount {
                values: self.0.clone(),
                per_unit_max: bounds.pair_limits(self.0, "COUNT(DISTINCT …)")?,
            })
            .into()),
        }
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        calls.distinct_count(self.0)
    }

    fn range(&self, rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::new(0.0, rows)
    }

    fn facts(&self) -> Facts<'o> {
        Facts {
            is_count: true,
            skips_nulls: matches!(self.0, Distinct::Value(_)),
            compares: ComparisonKind::Equality,
            ties: Ties::Counted(self.0),
            ..Facts::of_all_values(Clamped::Rows)
        }
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(None)
    }
}

impl Bounded for BoundedDistinctCount {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(self.values.values().iter().collect())
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::Choice(choice_value::ChoiceOutput {
            choice: layout.distinct_count(&self.values, self.per_unit_max, filter),
            draws: Vec::new(),
            is_array: false,
        }))
    }
}
