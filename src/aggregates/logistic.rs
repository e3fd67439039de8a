//! `pgveil.logregr(y, ARRAY[1, x1, …])`: logistic regression, as MADlib's calls it, by six steps of
//! Newton's method. Each step is a release: `crate::resolve` puts the coefficients of the steps
//! before it into its statement, as constants.
//!
//! A step's vector has the number of rows, and at these coefficients the sums of the likelihood's
//! gradient and of its second derivatives. All are sums of values with public ranges, whatever the
//! coefficients are.

pub mod newton;

use super::bounded::{Bounded, Bounds, Counts, Layout, Summand, TextRead, ValuesRead, exact};
use super::call::{Call, Resolved, ValuesAndArray};
use super::model::Model;
use super::moments::Scale;
use super::names::{AggregateName, DistinctForm};
use super::record::{
    RecordOutput, UnboundedRecord, all_present, exact_constant, reals, requested_field,
};
use super::value::{half, middle};
use super::{Bound, BoundedOperation, Output, single_measure};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::{FieldKind, RecordField, Scalar};
use crate::refusal::{Refusal, reason};
use newton::{NewtonStep, NewtonSums, STEPS};

/// The name in messages.
pub const NAME: &str = "pgveil.logregr";

/// Most features: planning takes as long as the cube of their number, six times.
const FEATURES_MAX: usize = 16;

/// A step over rows where no value is NULL, by the aggregate's own filter.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedStep {
    /// The values that are read, for the facts about them.
    reads: Vec<Expr>,
    /// What is summed, in the order of [`NewtonSums`].
    gradient: Vec<Summand>,
    curvature: Vec<Summand>,
    /// What these mention, for [`Bounded::computed_once`].
    computed_once: Vec<Vec<Expr>>,
    step: NewtonStep,
    field: &'static RecordField,
}

/// A step as the query writes it.
pub(super) struct UnboundedStep<'o> {
    pub y: &'o Expr,
    pub features: &'o [Expr],
    pub at: &'o [Expr],
    pub step: usize,
    pub field: &'static RecordField,
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::new(NAME, call, DistinctForm::Refused)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    let field = requested_field(call)?;
    let ValuesAndArray {
        mut values,
        elements,
        constant,
    } = call.values_and_array(1)?;
    if constant.is_some() {
        return Err(super::call::form(NAME));
    }
    let features = reals(call, elements)?;
    if features.is_empty() || features.len() > FEATURES_MAX {
        return Err(Refusal::new(
            reason::REGRESSION_FEATURES,
            format!(
                "{NAME}() takes 1 to {FEATURES_MAX} features, and not {}",
                features.len()
            ),
        ));
    }
    let y = values.remove(0);
    let y = match y.data_type {
        Type::Bool => truth(y),
        _ => reals(call, vec![y])?.remove(0),
    };
    let operation = Operation::Newton {
        y,
        features,
        at: Vec::new(),
        step: STEPS - 1,
        field,
    };
    Ok((operation, field.data_type()))
}

impl Operation {
    /// The field that is asked for, of a logistic regression, which is found in steps.
    pub fn of_steps(&self) -> Option<&'static RecordField> {
        let Self::Newton { field, .. } = self else {
            return None;
        };
        Some(field)
    }

    /// How many coefficients a logistic regression has; 0 of others.
    pub fn coefficients(&self) -> usize {
        let Self::Newton { features, .. } = self else {
            return 0;
        };
        features.len()
    }

    /// Whether both are of one logistic regression.
    pub fn is_same_fit(&self, other: &Self) -> bool {
        let at_first = |of: &Self| of.clone().at_step(&[], 0, &newton::STEP);
        self.of_steps().is_some() && at_first(self) == at_first(other)
    }

    /// A step of a logistic regression, at the coefficients of the steps before.
    pub fn at_step(self, at: &[Expr], step: usize, field: &'static RecordField) -> Self {
        match self {
            Self::Newton { y, features, .. } => Self::Newton {
                y,
                features,
                at: at.to_vec(),
                step,
                field,
            },
            other => other,
        }
    }
}

/// 1 for true, 0 for false.
fn truth(value: Expr) -> Expr {
    let is_false = Expr::call(Function::Not, vec![value.clone()], Type::Bool);
    Expr {
        node: crate::ir::Node::Case {
            branches: vec![(value, literal("1")), (is_false, literal("0"))],
            otherwise: None,
        },
        data_type: Type::Float8,
    }
}

fn literal(text: &str) -> Expr {
    Expr::literal(Some(Scalar::Decimal(text.to_owned())), Type::Float8)
}

fn decimal(value: f64) -> Expr {
    literal(&value.to_string())
}

fn of_two(function: Function, a: Expr, b: Expr) -> Expr {
    Expr::call(function, vec![a, b], Type::Float8)
}

fn clamp_between(value: Expr, lo: Expr, hi: Expr) -> Expr {
    let above = of_two(Function::Greatest, value, lo);
    of_two(Function::Least, above, hi)
}

/// A column of the design, scaled to [-1, 1], and how its coefficient comes back.
struct Column {
    scaled: Expr,
    scale: Option<Scale>,
    constant: Option<f64>,
}

/// # Guarantee
/// Whatever the coefficients are, a row's part of the gradient, `(y - p) s`, lies in [-1, 1], and
/// that of the second derivatives, `p (1 - p) s s'`, in [-1/4, 1/4] (a square in [0, 1/4]): y and p
/// lie in [0, 1], and each scaled feature s in [-1, 1]. The ranges choose the clip; each row's
/// integer is clamped to them, and the statement's clip bounds what one unit adds.
///
/// # Requires
/// The coefficients are constants from released values: `Resolver::fill_steps` in
/// [`crate::resolve`] makes them by middle queries over the steps before.
///
/// # Reference
/// Avella-Medina, Bradshaw, Loh 2021 (arXiv 2103.11003): Newton's method with noise
/// in the gradient and in the second derivatives.
impl UnboundedRecord for UnboundedStep<'_> {
    const NAME: &'static str = NAME;

    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let y = exact(self.y);
        let of_y = bounds.finite(y, &format!("{NAME}()"))?;
        if of_y.lo < 0.0 || of_y.hi > 1.0 {
            return Err(Refusal::new(
                reason::REGRESSION_FEATURES,
                format!("{NAME}() takes a y of 0 and 1, or true and false"),
            )
            .hint("Write a condition, as in pgveil.logregr(income > 50, ARRAY[1, age])."));
        }
        let mut present = vec![(y.clone(), of_y)];
        let columns = self.columns(bounds, &mut present)?;
        let Predicted {
            tanh,
            probability,
            weight,
        } = predict(&columns, self.at);
        let error = of_two(Function::Subtract, self.y.clone(), probability);
        let summand = |value: Expr, lo: f64, hi: f64| Summand {
            value,
            range: Interval::new(lo, hi),
            nullable: false,
        };
        let times = |a: &Expr, b: &Expr| of_two(Function::Multiply, a.clone(), b.clone());
        let gradient = columns.iter().map(|column| match column.constant {
            Some(_) => summand(error.clone(), -1.0, 1.0),
            None => summand(times(&error, &column.scaled), -1.0, 1.0),
        });
        let gradient = gradient.collect();
        let mut curvature = Vec::new();
        for (i, one) in columns.iter().enumerate() {
            for other in &columns[..=i] {
                let varying = [one, other].into_iter().filter(|c| c.constant.is_none());
                let value = varying.fold(weight.clone(), |of, c| times(&of, &c.scaled));
                let lo = if std::ptr::eq(one, other) { 0.0 } else { -0.25 };
                curvature.push(summand(value, lo, 0.25));
            }
        }
        let scaled = columns.iter().filter(|column| column.constant.is_none());
        Ok(Bound {
            conditions: all_present(&present, bounds),
            operation: BoundedOperation::Newton(BoundedStep {
                reads: present.into_iter().map(|(value, _)| value).collect(),
                gradient,
                curvature,
                computed_once: vec![
                    scaled.map(|column| column.scaled.clone()).collect(),
                    tanh.into_iter().collect(),
                    vec![error, weight],
                ],
                step: NewtonStep {
                    at: self.step,
                    before: newton::BEFORE,
                    scales: columns.iter().map(|column| column.scale).collect(),
                    constants: columns.iter().map(|column| column.constant).collect(),
                },
                field: self.field,
            }),
        })
    }
}

impl UnboundedStep<'_> {
    /// The columns of the design. Their values are added to those of which none may be NULL.
    fn columns(
        &self,
        bounds: &dyn Bounds,
        present: &mut Vec<(Expr, Interval)>,
    ) -> Result<Vec<Column>, Refusal> {
        let has_constant = self
            .features
            .iter()
            .any(|f| exact_constant(exact(f)).is_some());
        let first = present.len();
        let mut columns: Vec<Column> = Vec::new();
        for (at, written) in self.features.iter().enumerate() {
            let value = exact(written);
            if let Some(constant) = exact_constant(value) {
                if constant == 0.0 || columns.iter().any(|column| column.constant.is_some()) {
                    return Err(Refusal::new(
                        reason::REGRESSION_FEATURES,
                        format!("feature {} of {NAME}() is 0 or a second constant", at + 1),
                    )
                    .hint("Leave it out."));
                }
                columns.push(Column {
                    scaled: literal("1"),
                    scale: None,
                    constant: Some(constant),
                });
                continue;
            }
            let range = bounds.finite(value, &format!("{NAME}()"))?;
            if range.lo >= range.hi || present[first..].iter().any(|(known, _)| known == value) {
                return Err(Refusal::new(
                    reason::REGRESSION_FEATURES,
                    format!(
                        "feature {} of {NAME}() has one value only, or is repeated",
                        at + 1
                    ),
                )
                .hint("Leave it out."));
            }
            let (centre, reach) = match has_constant {
                true => (middle(range), half(range)),
                false => (0.0, range.lo.abs().max(range.hi.abs())),
            };
            let clipped = clamp_between(written.clone(), decimal(range.lo), decimal(range.hi));
            let moved = of_two(Function::Subtract, clipped, decimal(centre));
            let scaled = of_two(Function::Divide, moved, decimal(reach));
            columns.push(Column {
                scaled,
                scale: Some(Scale {
                    middle: centre,
                    half: reach,
                }),
                constant: None,
            });
            present.push((value.clone(), range));
        }
        Ok(columns)
    }
}

/// What the coefficients predict of a row.
struct Predicted {
    /// What both are computed from, where the coefficients are known.
    tanh: Option<Expr>,
    probability: Expr,
    /// The probability times that of the opposite.
    weight: Expr,
}

/// The probability is `(1 + tanh(h)) / 2`, and its weight `(1 - tanh(h)²) / 4`, for half of the
/// coefficients' sum h: neither can overflow.
fn predict(columns: &[Column], at: &[Expr]) -> Predicted {
    if at.is_empty() {
        return Predicted {
            tanh: None,
            probability: literal("0.5"),
            weight: literal("0.25"),
        };
    }
    let terms = columns.iter().zip(at).map(|(column, at)| {
        let at = at.clone().cast(Type::Float8);
        match column.constant {
            Some(_) => at,
            None => of_two(Function::Multiply, at, column.scaled.clone()),
        }
    });
    let sum = terms.reduce(|sum, term| of_two(Function::Add, sum, term));
    let half = of_two(
        Function::Divide,
        sum.unwrap_or_else(|| literal("0")),
        literal("2"),
    );
    let tanh = Expr::call(Function::Tanh, vec![half], Type::Float8);
    let above = of_two(Function::Add, literal("1"), tanh.clone());
    let square = of_two(Function::Multiply, tanh.clone(), tanh.clone());
    let rest = of_two(Function::Subtract, literal("1"), square);
    Predicted {
        tanh: Some(tanh),
        probability: of_two(Function::Divide, above, literal("2")),
        weight: of_two(Function::Divide, rest, literal("4")),
    }
}

impl Bounded for BoundedStep {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(self.reads.iter().collect())
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        match self.field.kind {
            FieldKind::Rows => Some(Scalar::Int(0)),
            FieldKind::Number | FieldKind::Numbers | FieldKind::Whole => None,
        }
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfAllRows
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let count = layout.rows(filter);
        let mut sums = |summands: &[Summand]| {
            let each = summands.iter().map(|summand| layout.sum(summand, filter));
            each.collect::<Result<Vec<_>, _>>()
        };
        let gradient = sums(&self.gradient)?;
        let curvature = sums(&self.curvature)?;
        if self.field.kind == FieldKind::Rows {
            return Ok(Output::SingleMeasure(single_measure::SingleMeasureOutput {
                measure: count,
                kind: single_measure::CountOrSum::Count,
            }));
        }
        Ok(Output::Record(RecordOutput {
            model: Model::Newton {
                sums: NewtonSums {
                    count,
                    gradient,
                    curvature,
                },
                step: self.step.clone(),
            },
            field: self.field,
        }))
    }

    fn parts(&self) -> Option<u32> {
        Some(1 << self.step.at)
    }

    fn computed_once(&self) -> &[Vec<Expr>] {
        &self.computed_once
    }
}
