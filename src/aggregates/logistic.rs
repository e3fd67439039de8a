//! `pgveil.logregr(y, ARRAY[1, x1, …])`: logistic regression, as MADlib's calls it, by six steps of
//! Newton's method. Each step is a release: `crate::resolve` puts the coefficients of the steps
//! before it into its statement, as constants.
//!
//! A step's vector has the number of rows, and at these coefficients the sums of the likelihood's
//! gradient and of its second derivatives. All are sums of values with public ranges, whatever the
//! coefficients are.

pub mod newton;

use sqlparser::ast;

use super::bounded::{Bounded, Bounds, Counts, Layout, Reads, Summand, TextRead, exact};
use super::call::{Call, Resolved, ValuesAndArray};
use super::model::Model;
use super::moments::Scale;
use super::record::{Shown, VALUES_MAX, all_present, asked, named_within_unit, number, reals};
use super::unbounded::{Calls, Clamped, Facts, Unbounded};
use super::value::{half, middle};
use super::{Bound, BoundedOperation, Output, total};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::{FieldKind, RecordField, Scalar};
use crate::refusal::{Refusal, reason};
use newton::{STEPS, Step, Sums};

/// The name in messages.
pub const NAME: &str = "pgveil.logregr";

/// A step over rows where no value is NULL, by the aggregate's own filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The values that are read, for the facts about them.
    reads: Vec<Expr>,
    /// What is summed, in the order of [`Sums`].
    gradient: Vec<Summand>,
    curvature: Vec<Summand>,
    step: Step,
    field: &'static RecordField,
}

/// A step as the query writes it.
pub(super) struct Written<'o> {
    pub y: &'o Expr,
    pub features: &'o [Expr],
    pub at: &'o [Expr],
    pub step: usize,
    pub field: &'static RecordField,
}

pub(super) fn call(call: &dyn Call) -> Resolved {
    let field = asked(call)?;
    let ValuesAndArray {
        mut values,
        elements,
        constant,
    } = call.values_and_array(1)?;
    if constant.is_some() {
        return Err(super::call::form(NAME));
    }
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

/// 1 for true, 0 for false.
fn truth(value: Expr) -> Expr {
    let number = |text: &str| literal(text);
    let is_false = Expr::call(Function::Not, vec![value.clone()], Type::Bool);
    Expr {
        node: crate::ir::Node::Case {
            branches: vec![(value, number("1")), (is_false, number("0"))],
            otherwise: None,
        },
        data_type: Type::Float8,
    }
}

fn literal(text: &str) -> Expr {
    let value = Scalar::Decimal(text.to_owned());
    Expr::literal(Some(value), Type::Numeric(None)).cast(Type::Float8)
}

fn decimal(value: f64) -> Expr {
    literal(&value.to_string())
}

fn of_two(function: Function, a: Expr, b: Expr) -> Expr {
    Expr::call(function, vec![a, b], Type::Float8)
}

fn clamped(value: Expr, lo: Expr, hi: Expr) -> Expr {
    let above = of_two(Function::Greatest, value, lo);
    of_two(Function::Least, above, hi)
}

/// A column of the design, scaled to [-1, 1], and how its coefficient comes back.
struct Column {
    scaled: Expr,
    scale: Option<Scale>,
    constant: Option<f64>,
}

impl<'o> Unbounded<'o> for Written<'o> {
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
        let (columns, values) = self.columns(bounds)?;
        let mut present = vec![(y.clone(), of_y)];
        present.extend(values.iter().cloned());
        let predicted = predicted(&columns, self.at);
        let error = of_two(Function::Subtract, self.y.clone(), predicted.probability);
        let summand = |value: Expr, lo: f64, hi: f64| Summand {
            value,
            range: Interval::new(lo, hi),
            nullable: false,
        };
        let times = |a: &Expr, b: &Expr| of_two(Function::Multiply, a.clone(), b.clone());
        let gradient = columns.iter().map(|column| {
            let value = match column.constant {
                Some(_) => error.clone(),
                None => times(&error, &column.scaled),
            };
            summand(value, -1.0, 1.0)
        });
        let gradient = gradient.collect();
        let mut curvature = Vec::new();
        for (i, one) in columns.iter().enumerate() {
            for other in &columns[..=i] {
                let parts: Vec<&Expr> = [one, other]
                    .into_iter()
                    .filter(|column| column.constant.is_none())
                    .map(|column| &column.scaled)
                    .collect();
                let value = parts
                    .iter()
                    .fold(predicted.weight.clone(), |product, part| {
                        times(&product, part)
                    });
                let is_square = std::ptr::eq(one, other) || parts.is_empty();
                curvature.push(summand(value, if is_square { 0.0 } else { -0.25 }, 0.25));
            }
        }
        Ok(Bound {
            conditions: all_present(&present, bounds),
            operation: BoundedOperation::Newton(Asked {
                reads: present.into_iter().map(|(value, _)| value).collect(),
                gradient,
                curvature,
                step: Step {
                    at: self.step,
                    scales: columns.iter().map(|column| column.scale).collect(),
                    constants: columns.iter().map(|column| column.constant).collect(),
                },
                field: self.field,
            }),
        })
    }

    fn sql(&self, _calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        Err(named_within_unit(NAME))
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::ALL
    }

    fn facts(&self) -> Facts<'o> {
        Facts::computed(Clamped::Values)
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Err(named_within_unit(NAME))
    }
}

impl Written<'_> {
    /// The columns of the design, and the values of which none may be NULL.
    fn columns(
        &self,
        bounds: &dyn Bounds,
    ) -> Result<(Vec<Column>, Vec<(Expr, Interval)>), Refusal> {
        let has_constant = self.features.iter().any(|f| number(exact(f)).is_some());
        let mut values: Vec<(Expr, Interval)> = Vec::new();
        let mut columns: Vec<Column> = Vec::new();
        for (at, written) in self.features.iter().enumerate() {
            let value = exact(written);
            if let Some(constant) = number(value) {
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
            if range.lo >= range.hi || values.iter().any(|(known, _)| known == value) {
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
            let clipped = clamped(written.clone(), decimal(range.lo), decimal(range.hi));
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
            values.push((value.clone(), range));
        }
        Ok((columns, values))
    }
}

/// What the coefficients predict of a row.
struct Predicted {
    probability: Expr,
    /// The probability times that of the opposite.
    weight: Expr,
}

/// The probability is `(1 + tanh(h)) / 2`, and its weight `(1 - tanh(h)²) / 4`, for half of the
/// coefficients' sum h: neither can overflow.
fn predicted(columns: &[Column], at: &[Expr]) -> Predicted {
    if at.is_empty() {
        return Predicted {
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
    let square = of_two(Function::Multiply, tanh.clone(), tanh);
    let rest = of_two(Function::Subtract, literal("1"), square);
    Predicted {
        probability: of_two(Function::Divide, above, literal("2")),
        weight: of_two(Function::Divide, rest, literal("4")),
    }
}

impl Bounded for Asked {
    fn reads(&self) -> Reads<'_> {
        Reads::Values(self.reads.iter().collect())
    }

    fn of_no_row(&self) -> Option<Scalar> {
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
            return Ok(Output::Total(total::Shown {
                measure: count,
                kind: total::TotalKind::Count,
            }));
        }
        Ok(Output::Record(Shown {
            model: Model::Newton {
                sums: Sums {
                    count,
                    gradient,
                    curvature,
                },
                step: self.step.clone(),
            },
            field: self.field,
        }))
    }

    fn weight(&self) -> Option<u32> {
        Some(1 << self.step.at)
    }
}
