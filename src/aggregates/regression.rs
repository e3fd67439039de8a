//! `pgveil.linregr(y, ARRAY[1, x1, …])`: linear regression by least squares, as MADlib's calls it.
//! A third argument is a penalty on the coefficients' sizes (LASSO).
//!
//! The vector has the number of rows, the sum of each value, of its squares, and of each product of
//! two values. Coefficients and their errors are computed from these once they are released.

pub mod fit;
mod lasso;
mod solution;

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
use fit::{Feature, Regression};

/// The name in messages.
pub const NAME: &str = "pgveil.linregr";

/// What is fitted, over rows where no value is NULL, by the aggregate's own filter.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedRegression {
    /// The values, each once: y is the first.
    pub values: Vec<(Expr, Interval)>,
    pub regression: Regression,
    pub field: &'static RecordField,
}

/// A regression as the query writes it.
pub(super) struct UnboundedRegression<'o> {
    pub y: &'o Expr,
    pub features: &'o [Expr],
    pub l1: f64,
    pub field: &'static RecordField,
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::new(NAME, call, DistinctForm::Refused)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    let field = requested_field(call)?;
    let ValuesAndArray {
        values,
        elements,
        constant,
    } = call.values_and_array(1)?;
    let mut values = reals(call, values)?;
    let features = reals(call, elements)?;
    if features.is_empty() || features.len() > VALUES_MAX {
        return Err(Refusal::new(
            reason::REGRESSION_FEATURES,
            format!(
                "{NAME}() takes 1 to {VALUES_MAX} features, and not {}",
                features.len()
            ),
        ));
    }
    let l1 = match &constant {
        Some(constant) => exact_constant(constant)
            .filter(|l1| l1.is_finite() && *l1 >= 0.0)
            .ok_or_else(|| {
                Refusal::new(
                    reason::AGGREGATE_CONSTANT,
                    format!("the penalty of {NAME}() must be a constant of at least 0"),
                )
                .hint("Write the number itself, without a cast that may round it.")
            })?,
        None => 0.0,
    };
    let operation = Operation::Regression {
        y: values.remove(0),
        features,
        l1,
        field,
    };
    Ok((operation, field.data_type()))
}

impl UnboundedRecord for UnboundedRegression<'_> {
    const NAME: &'static str = NAME;

    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let y = exact(self.y);
        let mut values = vec![(y.clone(), bounds.finite(y, &format!("{NAME}()"))?)];
        let mut features: Vec<Feature> = Vec::new();
        for (at, written) in self.features.iter().enumerate() {
            let value = exact(written);
            let feature = match exact_constant(value) {
                Some(number) => Feature::Constant(number),
                None => {
                    let known = values.iter().position(|(known, _)| known == value);
                    Feature::Value(match known {
                        Some(known) => known,
                        None => {
                            values.push((value.clone(), varying(value, at, bounds)?));
                            values.len() - 1
                        }
                    })
                }
            };
            if feature == Feature::Constant(0.0) {
                return Err(one_value(at));
            }
            if let Some(other) = features.iter().position(|known| is_same(known, &feature)) {
                return Err(refuse_repeated(other, at, &feature));
            }
            features.push(feature);
        }
        Ok(Bound {
            conditions: all_present(&values, bounds),
            operation: BoundedOperation::Regression(BoundedRegression {
                values,
                regression: Regression {
                    features,
                    l1: self.l1,
                },
                field: self.field,
            }),
        })
    }
}

/// The range of a feature that differs between rows.
fn varying(value: &Expr, at: usize, bounds: &dyn Bounds) -> Result<Interval, Refusal> {
    let range = bounds.finite(value, &format!("{NAME}()"))?;
    // The range of a constant may be wider than it is.
    if range.lo < range.hi && !value.columns().is_empty() {
        return Ok(range);
    }
    Err(one_value(at))
}

fn one_value(at: usize) -> Refusal {
    Refusal::new(
        reason::REGRESSION_FEATURES,
        format!("feature {} of {NAME}() has one value only", at + 1),
    )
    .hint("Leave it out, or write the constant 1 for it.")
}

/// Whether two features are the same but for a factor.
fn is_same(one: &Feature, other: &Feature) -> bool {
    match (one, other) {
        (Feature::Constant(_), Feature::Constant(_)) => true,
        (Feature::Value(one), Feature::Value(other)) => one == other,
        (Feature::Constant(_), Feature::Value(_)) | (Feature::Value(_), Feature::Constant(_)) => {
            false
        }
    }
}

fn refuse_repeated(one: usize, other: usize, feature: &Feature) -> Refusal {
    let what = match feature {
        Feature::Constant(_) => "constants",
        Feature::Value(_) => "the same",
    };
    Refusal::new(
        reason::REGRESSION_FEATURES,
        format!(
            "features {} and {} of {NAME}() are {what}",
            one + 1,
            other + 1
        ),
    )
    .hint("Leave one of them out: the coefficients of both together are not determined.")
}

impl Bounded for BoundedRegression {
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
        let model = |moments| Model::Regression {
            moments,
            of: self.regression.clone(),
        };
        lay_out(&self.values, (model, self.field), filter, layout)
    }
}
