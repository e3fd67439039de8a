//! COUNT(DISTINCT …): of values, or of units.

use super::bounded::{Bounded, Bounds, Counts, Layout, PairLimits, TextRead};
use super::call::{Call, Resolved};
use super::{Bound, BoundedOperation, Output, chosen, count};
use crate::catalog::Type;
use crate::ir::Operation;
use crate::ir::{Distinct, Expr};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// Which values are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub values: Distinct,
    pub per_unit_max: PairLimits,
}

/// A count of the unit itself counts units; any other one counts values.
pub(super) fn bound(values: &Distinct, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
    match bounds.counted_unit(values) {
        Some(condition) => Ok(Bound {
            operation: BoundedOperation::Count(count::Asked::Units),
            conditions: condition.into_iter().collect(),
        }),
        None => Ok(BoundedOperation::Distinct(Asked {
            values: values.clone(),
            per_unit_max: bounds.pair_limits(values, "COUNT(DISTINCT …)")?,
        })
        .into()),
    }
}

pub(super) fn call(call: &dyn Call) -> Resolved {
    Ok((Operation::Distinct(call.values()?), Type::Int8))
}

impl Bounded for Asked {
    fn arguments(&self) -> Vec<&Expr> {
        match &self.values {
            Distinct::Value(value) => vec![value],
            Distinct::Row(values) => values.iter().collect(),
        }
    }

    fn of_no_row(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::Choice(chosen::Shown {
            choice: layout.distinct_count(&self.values, self.per_unit_max, filter),
            draws: Vec::new(),
            is_array: false,
        }))
    }
}
