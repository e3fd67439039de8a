//! `pgveil.linregr(y, ARRAY[1, x1, …])`: linear regression by least squares, as MADlib's calls it.
//!
//! The vector has the number of rows, the sum of each value, of its squares, and of each product of
//! two values. Coefficients and their errors are computed from these once they are released.

mod dense;
pub mod fit;

use sqlparser::ast;

use super::average::mean_type;
use super::best_case::{BestCase, Expected, few};
use super::bounded::{Bounded, Bounds, Centred, Counts, Layout, Reads, Summand, TextRead, exact};
use super::call::{Call, Resolved};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded};
use super::value::{Columns, Divisor, Foreseen, Group, Value, half, middle};
use super::{Bound, BoundedOperation, Output, total};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::type_name;
use crate::ir::{Expr, Interval, Node, Operation};
use crate::policy::{RegressionField as Field, Scalar};
use crate::refusal::{Refusal, reason};
use fit::{Feature, Fitted, Scale, Summed};

/// The name in messages.
pub const NAME: &str = "pgveil.linregr";
/// Most features, the constant among them.
const FEATURES_MAX: usize = 16;

/// What is fitted, over rows where no value is NULL, by the aggregate's own filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The values, each once: y is the first.
    pub values: Vec<(Expr, Interval)>,
    pub features: Vec<Feature>,
    pub field: Field,
}

/// A regression as the query writes it.
pub(super) struct Written<'o> {
    pub y: &'o Expr,
    pub features: &'o [Expr],
    pub field: Field,
}

pub(super) fn call(call: &dyn Call) -> Resolved {
    let field = call.field().ok_or_else(record)?;
    let (y, features) = call.value_and_array()?;
    let types = || std::iter::once(&y).chain(&features).map(|e| &e.data_type);
    if let Some(other) = types().find(|of| mean_type(of).is_none()) {
        return Err(Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!(
                "{NAME}() takes numbers, and no value of type {}",
                type_name(other)
            ),
        )
        .hint("Write CASE WHEN x THEN 1 ELSE 0 END for a value that is no number."));
    }
    if features.is_empty() || features.len() > FEATURES_MAX {
        return Err(Refusal::new(
            reason::REGRESSION_FEATURES,
            format!(
                "{NAME}() takes 1 to {FEATURES_MAX} features, and not {}",
                features.len()
            ),
        ));
    }
    let real = |value: Expr| value.cast(Type::Float8);
    let operation = Operation::Regression {
        y: real(y),
        features: features.into_iter().map(real).collect(),
        field,
    };
    Ok((operation, field.data_type()))
}

/// The refusal of a record as a whole.
fn record() -> Refusal {
    Refusal::new(
        reason::REGRESSION_RECORD,
        format!("{NAME}() gives a record, and its fields are what can be asked"),
    )
    .hint(
        "Write (pgveil.linregr(y, ARRAY[1, x])).* or one field, as in (pgveil.linregr(y, \
            ARRAY[1, x])).coef.",
    )
}

impl<'o> Unbounded<'o> for Written<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let y = exact(self.y);
        let mut values = vec![(y.clone(), bounds.finite(y, &format!("{NAME}()"))?)];
        let mut features: Vec<Feature> = Vec::new();
        for (at, written) in self.features.iter().enumerate() {
            let value = exact(written);
            let feature = match number(value) {
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
                return Err(repeated(other, at, &feature));
            }
            features.push(feature);
        }
        let nullable = values.iter().filter(|(value, _)| bounds.may_be_null(value));
        let present = |(value, _): &(Expr, Interval)| {
            Expr::call(Function::IsNotNull, vec![value.clone()], Type::Bool)
        };
        Ok(Bound {
            conditions: nullable.map(present).collect(),
            operation: BoundedOperation::Regression(Asked {
                values,
                features,
                field: self.field,
            }),
        })
    }

    fn sql(&self, _calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        Err(within_unit())
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::ALL
    }

    fn facts(&self) -> Facts<'o> {
        Facts::computed(Clamped::Values)
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Err(within_unit())
    }
}

/// The refusal over the rows of one unit, where nothing is noised.
pub fn within_unit() -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_AGGREGATE,
        format!("{NAME}() of one unit's rows"),
    )
    .hint("REGR_SLOPE, REGR_INTERCEPT and REGR_R2 are supported there.")
}

/// A number that is the same in every row.
fn number(value: &Expr) -> Option<f64> {
    let mut value = value;
    while let Node::Cast(inner) = &value.node {
        value = inner;
    }
    match value.as_literal()? {
        Scalar::Int(number) => Some(*number as f64),
        Scalar::Decimal(text) => text.parse().ok(),
        _ => None,
    }
}

/// The range of a feature that differs between rows.
fn varying(value: &Expr, at: usize, bounds: &dyn Bounds) -> Result<Interval, Refusal> {
    let range = bounds.finite(value, &format!("{NAME}()"))?;
    if range.lo < range.hi {
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

fn repeated(one: usize, other: usize, feature: &Feature) -> Refusal {
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

impl Bounded for Asked {
    fn reads(&self) -> Reads<'_> {
        Reads::Values(self.values.iter().map(|(value, _)| value).collect())
    }

    fn of_no_row(&self) -> Option<Scalar> {
        (self.field == Field::NumRows).then_some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfAllRows
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    /// Whatever the field, the same is asked: another field of a stored answer is free.
    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let mut sums: Vec<Option<Centred>> = vec![None; self.values.len()];
        let mut products = Vec::new();
        let mut count = None;
        for (at, (y, y_range)) in self.values.iter().enumerate() {
            for (before, (x, x_range)) in self.values[..at].iter().enumerate() {
                let pair = layout.pairs((y, *y_range), (x, *x_range), filter)?;
                products.push(pair.products);
                (sums[at], sums[before]) = (Some(pair.y), Some(pair.x));
                count = Some(pair.count);
            }
        }
        if let [(value, range)] = self.values.as_slice() {
            let summand = Summand {
                value: value.clone(),
                range: *range,
                nullable: false,
            };
            let (rows, only) = layout.centred_moments(&summand, filter)?;
            (sums[0], count) = (Some(only), Some(rows));
        }
        let (Some(count), Some(sums)) = (count, sums.into_iter().collect::<Option<Vec<_>>>())
        else {
            return Err(record());
        };
        if self.field == Field::NumRows {
            return Ok(Output::Total(total::Shown {
                measure: count,
                kind: total::Kind::Count,
            }));
        }
        let summed = |of: &Centred| Summed {
            sum: of.sum,
            squares: of.squares,
            scale: Scale {
                middle: middle(of.range),
                half: half(of.range),
            },
        };
        Ok(Output::Regression(Shown {
            fitted: Fitted {
                count,
                values: sums.iter().map(summed).collect(),
                products,
                features: self.features.clone(),
            },
            field: self.field,
        }))
    }
}

/// The field that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    pub fitted: Fitted,
    pub field: Field,
}

impl Value for Shown {
    fn name(&self) -> &'static str {
        match self.field {
            Field::Coef => "coefficients",
            Field::StdErr | Field::NoiseErr => "errors of coefficients",
            Field::R2 => "explained part",
            Field::NumRows => "count",
            Field::ConditionNo => "condition number",
            Field::Penalty => "penalty",
        }
    }

    fn measures(&self) -> Vec<MeasureId> {
        let Fitted {
            count,
            values,
            products,
            features: _,
        } = &self.fitted;
        let of_values = values.iter().flat_map(|value| [value.sum, value.squares]);
        let counted = std::iter::once(*count).chain(of_values);
        counted.chain(products.iter().copied()).collect()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Fitted
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        columns.fitted()
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        Some(Divisor::Rows(self.fitted.count))
    }

    /// The record has errors as fields of its own.
    fn estimate(&self, _group: &dyn Group) -> Option<Estimate> {
        None
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        few(&best.noise(self.fitted.count)?, best.rows(), best.z())
    }

    fn fitted(&self) -> Option<(&Fitted, Field)> {
        Some((&self.fitted, self.field))
    }
}
