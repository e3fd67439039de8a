//! `pgveil.pca(ARRAY[x1, …])`: principal components, from the moments of the values. They are those
//! that `pgveil.linregr` takes of its values, so that both over the same values share a release.

pub mod fit;

use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead, ValuesRead, exact};
use super::call::{Call, Resolved, ValuesAndArray};
use super::model::Model;
use super::names::{AggregateName, DistinctForm};
use super::record::{
    UnboundedRecord, VALUES_MAX, all_present, exact_constant, lay_out, requested_field,
};
use super::record::{of_no_row, reals};
use super::{Bound, BoundedOperation, Output};
use crate::ir::{Expr, Interval, Operation};
use crate::policy::{RecordField, Scalar};
use crate::refusal::{Refusal, reason};

/// The name in messages.
pub const NAME: &str = "pgveil.pca";

/// The values, over rows where none is NULL, by the aggregate's own filter.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedComponents {
    pub values: Vec<(Expr, Interval)>,
    /// How many components are shown.
    pub shown: usize,
    pub field: &'static RecordField,
}

/// Principal components as the query writes them.
pub(super) struct UnboundedComponents<'o> {
    pub values: &'o [Expr],
    pub shown: usize,
    pub field: &'static RecordField,
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::new(NAME, call, DistinctForm::Refused)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    let field = requested_field(call)?;
    let ValuesAndArray {
        values: _,
        elements,
        constant,
    } = call.values_and_array(0)?;
    let values = reals(call, elements)?;
    if values.is_empty() || values.len() > VALUES_MAX {
        return Err(Refusal::new(
            reason::COMPONENT_VALUES,
            format!(
                "{NAME}() takes 1 to {VALUES_MAX} values, and not {}",
                values.len()
            ),
        ));
    }
    let shown = match &constant {
        None => values.len(),
        Some(constant) => exact_constant(constant)
            .and_then(|number| (1..=values.len()).find(|shown| *shown as f64 == number))
            .ok_or_else(|| {
                Refusal::new(
                    reason::AGGREGATE_CONSTANT,
                    format!(
                        "the number of components of {NAME}() must be a constant from 1 to {}",
                        values.len()
                    ),
                )
            })?,
    };
    let operation = Operation::Components {
        values,
        shown,
        field,
    };
    Ok((operation, field.data_type()))
}

impl UnboundedRecord for UnboundedComponents<'_> {
    const NAME: &'static str = NAME;

    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let mut values: Vec<(Expr, Interval)> = Vec::new();
        for (at, written) in self.values.iter().enumerate() {
            let value = exact(written);
            if let Some(other) = values.iter().position(|(known, _)| known == value) {
                return Err(Refusal::new(
                    reason::COMPONENT_VALUES,
                    format!(
                        "values {} and {} of {NAME}() are the same",
                        other + 1,
                        at + 1
                    ),
                )
                .hint("Leave one of them out."));
            }
            let range = bounds.finite(value, &format!("{NAME}()"))?;
            if value.columns().is_empty() || range.lo >= range.hi {
                return Err(Refusal::new(
                    reason::COMPONENT_VALUES,
                    format!("value {} of {NAME}() is the same in every row", at + 1),
                )
                .hint("Leave it out: it has no part in any component."));
            }
            values.push((value.clone(), range));
        }
        Ok(Bound {
            conditions: all_present(&values, bounds),
            operation: BoundedOperation::Components(BoundedComponents {
                values,
                shown: self.shown,
                field: self.field,
            }),
        })
    }
}

impl Bounded for BoundedComponents {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(self.values.iter().map(|(value, _)| value).collect())
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        of_no_row(self.field)
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfAllRows
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let model = |moments| Model::Components {
            moments,
            shown: self.shown,
        };
        lay_out(&self.values, (model, self.field), filter, layout)
    }
}
