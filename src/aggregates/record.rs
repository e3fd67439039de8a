//! Records that are computed from released moments: [`crate::policy::RECORD_AGGREGATES`] has their
//! names and fields.

use std::collections::BTreeMap;

use sqlparser::ast;

use super::average::mean_type;
use super::best_case::{BestCase, Expected, few};
use super::bounded::{Bounds, Centred, Layout, Summand};
use super::call::{Call, form};
use super::estimate::Estimate;
use super::logistic::newton;
use super::measure_id::MeasureId;
use super::model::Model;
use super::moments::{MomentMeasures, Scale, Summed};
use super::unbounded::{Calls, Clamped, Facts, Unbounded};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue, half, middle};
use super::{Bound, Output, single_measure};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::{integer_range, type_name};
use crate::ir::{Expr, Interval, Node, Operation};
use crate::policy::{FieldKind, RecordAggregate, RecordField, Scalar, VIEW_SCHEMA};
use crate::refusal::{Refusal, reason};

/// Most values that a record is computed from, and most features.
pub(super) const VALUES_MAX: usize = 16;

/// The field that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordOutput {
    pub model: Model,
    pub field: &'static RecordField,
}

/// Asks the moments of values of which none is NULL where the filter holds. `None` of no value.
/// They are asked in a fixed order: the same values in another order are the same question.
///
/// # Errors
/// 0A000 where a range has no fixed-point grid.
fn moments(
    values: &[(Expr, Interval)],
    filter: &Option<Expr>,
    layout: &mut dyn Layout,
) -> Result<Option<MomentMeasures>, Refusal> {
    let mut sums: Vec<Option<Centred>> = vec![None; values.len()];
    let mut products = BTreeMap::new();
    let mut count = None;
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_cached_key(|at| layout.place(&values[*at].0));
    for (rank, x) in order.iter().enumerate() {
        for y in &order[..rank] {
            let of = |at: &usize| (&values[*at].0, values[*at].1);
            let pair = layout.pairs(of(y), of(x), filter)?;
            products.insert((x.max(y), x.min(y)), pair.products);
            (sums[*y], sums[*x]) = (Some(pair.y), Some(pair.x));
            count = Some(pair.count);
        }
    }
    if let [(value, range)] = values {
        let summand = Summand {
            value: value.clone(),
            range: *range,
            nullable: false,
        };
        let (rows, only) = layout.centred_moments(&summand, filter)?;
        (sums[0], count) = (Some(only), Some(rows));
    }
    let summed = |of: Centred| Summed {
        sum: of.sum,
        squares: of.squares,
        scale: Scale {
            middle: middle(of.range),
            half: half(of.range),
        },
    };
    let sums = sums.into_iter().collect::<Option<Vec<_>>>();
    Ok(count.zip(sums).map(|(count, sums)| MomentMeasures {
        count,
        values: sums.into_iter().map(summed).collect(),
        products: products.into_values().collect(),
    }))
}

/// Lays out a field of a record over these values. Whatever the field, the same is asked: another
/// field of a stored answer is free.
///
/// # Errors
/// 0A000 where a range has no fixed-point grid.
pub(super) fn lay_out(
    values: &[(Expr, Interval)],
    (model, field): (impl FnOnce(MomentMeasures) -> Model, &'static RecordField),
    filter: &Option<Expr>,
    layout: &mut dyn Layout,
) -> Result<Output, Refusal> {
    let moments = moments(values, filter, layout)?;
    let moments = moments.ok_or_else(|| form(field.name))?;
    Ok(match field.kind {
        FieldKind::Rows => Output::SingleMeasure(single_measure::SingleMeasureOutput {
            measure: moments.count,
            kind: single_measure::CountOrSum::Count,
        }),
        FieldKind::Number | FieldKind::Numbers | FieldKind::Whole => Output::Record(RecordOutput {
            model: model(moments),
            field,
        }),
    })
}

/// The conditions that no value is NULL.
pub(super) fn all_present(values: &[(Expr, Interval)], bounds: &dyn Bounds) -> Vec<Expr> {
    let nullable = values.iter().filter(|(value, _)| bounds.may_be_null(value));
    let present = |(value, _): &(Expr, Interval)| {
        Expr::call(Function::IsNotNull, vec![value.clone()], Type::Bool)
    };
    nullable.map(present).collect()
}

/// The value over no row.
pub(super) fn of_no_row(field: &RecordField) -> Option<Scalar> {
    (field.kind == FieldKind::Rows).then_some(Scalar::Int(0))
}

impl RecordOutput {
    /// Says that the steps of a logistic regression share a pure epsilon, and not mu².
    pub(super) fn share_epsilon(&mut self) {
        if let Model::Newton { sums: _, step } = &mut self.model {
            step.before = newton::BEFORE_UNDER_EPSILON;
        }
    }
}

impl OutputValue for RecordOutput {
    fn name(&self) -> &'static str {
        let RecordField { in_words, .. } = self.field;
        in_words
    }

    fn measures(&self) -> Vec<MeasureId> {
        match &self.model {
            Model::Regression { moments, of: _ } | Model::Components { moments, shown: _ } => {
                moments.all()
            }
            Model::Newton { sums, step: _ } => sums.all(),
        }
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Fitted
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        columns.fitted_value()
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        Some(Divisor::Rows(self.model.count()))
    }

    /// The record has its errors as separate fields.
    fn estimate(&self, _group: &dyn Group) -> Option<Estimate> {
        None
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        few(&best.noise(self.model.count())?, best.rows(), best.z())
    }

    fn model_field(&self) -> Option<(&Model, &'static RecordField)> {
        Some((&self.model, self.field))
    }
}

/// An aggregate that gives a record, as the query writes it. It has bounds over the rows of all
/// units, and no value over the rows of one.
pub(super) trait UnboundedRecord {
    /// The name in messages.
    const NAME: &'static str;

    /// As [`Unbounded::bound`].
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal>;
}

impl<'o, R: UnboundedRecord> Unbounded<'o> for R {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        UnboundedRecord::bound(self, bounds)
    }

    fn sql(&self, _calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        Err(named_within_unit(R::NAME))
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::ALL
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Values)
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Err(named_within_unit(R::NAME))
    }
}

/// The field that a call asks for.
///
/// # Errors
/// 0A000 where it asks for the record as a whole.
pub(super) fn requested_field(call: &dyn Call) -> Result<&'static RecordField, Refusal> {
    call.field().ok_or_else(|| {
        let name = call.name();
        let record = name.rsplit('.').next().and_then(RecordAggregate::by_name);
        let (example, field) = record.map_or(("", ""), |r| (r.example, r.fields[0].name));
        Refusal::new(
            reason::REGRESSION_RECORD,
            format!("{name}() gives a record; select one of its fields, or all of them by .*"),
        )
        .hint(format!(
            "Write ({name}({example})).* or one field, as in ({name}({example})).{field}."
        ))
    })
}

/// The values as double precision.
///
/// # Errors
/// 42883 for a value that is not a number.
pub(super) fn reals(call: &dyn Call, values: Vec<Expr>) -> Result<Vec<Expr>, Refusal> {
    let mut types = values.iter().map(|value| &value.data_type);
    if let Some(other) = types.find(|of| mean_type(of).is_none()) {
        return Err(Refusal::new(
            reason::UNKNOWN_FUNCTION,
            format!(
                "{}() takes numbers, not values of type {}",
                call.name(),
                type_name(other)
            ),
        )
        .hint("Write CASE WHEN x THEN 1 ELSE 0 END for a value that is not a number."));
    }
    Ok(values
        .into_iter()
        .map(|value| value.cast(Type::Float8))
        .collect())
}

/// The number of an argument that is a constant. `None` for other arguments, and where a cast may
/// change the number: PostgreSQL reads `0.14::numeric(2,1)` as 0.1.
pub(super) fn exact_constant(value: &Expr) -> Option<f64> {
    let is_exact = match &value.data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Float8 => true,
        of => *of == Type::Numeric(None),
    };
    match &value.node {
        Node::Literal(Some(Scalar::Int(number))) if is_exact => Some(*number as f64),
        Node::Literal(Some(Scalar::Decimal(text))) if is_exact => text.parse().ok(),
        Node::Cast(inner) => {
            let of_whole = integer_range(&inner.data_type).is_some();
            let keeps = match &value.data_type {
                Type::Float8 => {
                    of_whole || matches!(inner.data_type, Type::Numeric(_) | Type::Float8)
                }
                Type::Numeric(None) => of_whole || matches!(inner.data_type, Type::Numeric(_)),
                // All whole numbers are of it.
                Type::Int8 => of_whole,
                _ => false,
            };
            exact_constant(inner).filter(|_| keeps)
        }
        _ => None,
    }
}

/// The refusal over the rows of one unit, where nothing is noised.
pub fn within_unit(record: &RecordAggregate) -> Refusal {
    Refusal::unsupported(
        reason::UNSUPPORTED_AGGREGATE,
        format!("{VIEW_SCHEMA}.{}() of one unit's rows", record.name),
    )
    .hint(format!("{} are supported there.", record.instead))
}

/// As [`within_unit`], by the aggregate's name.
fn named_within_unit(name: &str) -> Refusal {
    match name.rsplit('.').next().and_then(RecordAggregate::by_name) {
        Some(record) => within_unit(record),
        None => Refusal::unsupported(
            reason::UNSUPPORTED_AGGREGATE,
            format!("{name}() of one unit's rows"),
        ),
    }
}
