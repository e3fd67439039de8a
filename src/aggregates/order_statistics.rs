//! MIN, MAX, PERCENTILE_CONT and PERCENTILE_DISC: values at ranks.

use sqlparser::ast;

use super::average::mean_type;
use super::bounded::{Bounded, Bounds, Counts, Layout, Ranks, TextRead, ValuesRead, exact};
use super::call::{Call, Resolved, form, no_such, require_type};
use super::names::{AggregateName, DistinctForm};
use super::unbounded::{Calls, Facts, Unbounded};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::literal::type_name;
use crate::ir::{End, Expr, Fractions, Interval, Operation};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Which values are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedOrderStatistic {
    pub value: Expr,
    pub range: Interval,
    pub ranks: Ranks,
}

/// Bounds values at ranks; `name` is the aggregate's.
fn bound(value: &Expr, ranks: Ranks, name: &str, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
    let ordered = match &value.data_type {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8 => {
            true
        }
        Type::Date | Type::Timestamp => true,
        Type::Bool
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_)
        | Type::Uuid
        | Type::Timestamptz
        | Type::Interval => false,
        Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    };
    if !ordered {
        return Err(Refusal::unsupported(
            reason::AGGREGATE_TYPE,
            format!("{name} of a value of type {}", type_name(&value.data_type)),
        )
        .hint(
            "Numbers, dates and timestamps without time zone have bounds, within which a \
                private answer is chosen; GROUP BY shows other values.",
        ));
    }
    Ok(BoundedOperation::OrderStatistic(BoundedOrderStatistic {
        value: value.clone(),
        range: bounds.finite(value, name)?,
        ranks,
    })
    .into())
}

/// The names that they answer to.
pub(super) const NAMES: &[AggregateName] = &[
    // The least and the greatest are the same with duplicates and without.
    AggregateName::new("min", |c| end(c, End::Least), DistinctForm::Same),
    AggregateName::new("max", |c| end(c, End::Greatest), DistinctForm::Same),
    AggregateName::ordered_set("percentile_cont", |c| quantile(c, true)),
    AggregateName::ordered_set("percentile_disc", |c| quantile(c, false)),
];

/// MIN and MAX.
pub(super) fn end(call: &dyn Call, end: End) -> Resolved {
    let value = call.value()?;
    let result = require_type(call, ordered_type(&value.data_type), &value.data_type)?;
    Ok((Operation::Extreme { value, end }, result))
}

/// Most quantiles of one call.
const FRACTIONS_MAX: usize = 99;

/// PERCENTILE_CONT and PERCENTILE_DISC.
pub(super) fn quantile(call: &dyn Call, continuous: bool) -> Resolved {
    let (value, descending) = call.within_group_value()?;
    let value = if continuous && mean_type(&value.data_type).is_some() {
        value.cast(Type::Float8)
    } else {
        value
    };
    let (fractions, is_array) = call.fractions()?;
    let result = match (&value.data_type, continuous) {
        (Type::Float8, true) => Type::Float8,
        (Type::Interval, true) => {
            return Err(Refusal::unsupported(
                reason::AGGREGATE_TYPE,
                "percentile_cont over intervals",
            ));
        }
        (given, true) => return Err(no_such(call.name(), given)),
        (given, false) => require_type(call, sortable_type(given), given)?,
    };
    let (fractions, result) = match (is_array, fractions.as_slice()) {
        (false, [fraction]) => (Fractions::One(*fraction), result),
        (true, [_, ..]) if fractions.len() <= FRACTIONS_MAX => {
            let array = array_of(&result).ok_or_else(|| form(call.name()))?;
            (Fractions::Array(fractions), array)
        }
        _ => {
            let name = call.name();
            return Err(Refusal::new(
                reason::PERCENTILE_FRACTION,
                format!("{name} takes 1 to {FRACTIONS_MAX} fractions here"),
            ));
        }
    };
    let operation = Operation::Quantile {
        value,
        fractions,
        continuous,
        descending,
    };
    Ok((operation, result))
}

/// The result type of MIN and MAX.
fn ordered_type(given: &Type) -> Option<Type> {
    match given {
        Type::Varchar(_) => Some(Type::Text),
        Type::Bool | Type::Uuid | Type::Time | Type::Enum(_) | Type::Other { .. } => None,
        other => sortable_type(other),
    }
}

/// The result type of an ordered-set aggregate of any sortable value.
fn sortable_type(given: &Type) -> Option<Type> {
    match given {
        Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Float4
        | Type::Float8
        | Type::Uuid => Some(given.clone()),
        Type::Text | Type::Varchar(_) | Type::Char(_) => Some(given.clone()),
        Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_) => Some(given.clone()),
        Type::Other { .. } => None,
    }
}

fn array_of(element: &Type) -> Option<Type> {
    let (oid, name) = match element {
        Type::Int2 => (1005, "_int2"),
        Type::Int4 => (1007, "_int4"),
        Type::Int8 => (1016, "_int8"),
        Type::Numeric(_) => (1231, "_numeric"),
        Type::Float4 => (1021, "_float4"),
        Type::Float8 => (1022, "_float8"),
        Type::Date => (1182, "_date"),
        Type::Timestamp => (1115, "_timestamp"),
        Type::Timestamptz => (1185, "_timestamptz"),
        _ => return None,
    };
    Some(Type::Other {
        oid,
        name: name.to_owned(),
    })
}

/// MIN and MAX as the query writes them.
pub(super) struct UnboundedExtreme<'o> {
    pub value: &'o Expr,
    pub end: End,
}

impl<'o> Unbounded<'o> for UnboundedExtreme<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        bound(self.value, Ranks::End(self.end), "MIN or MAX", bounds)
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        let name = match self.end {
            End::Least => "min",
            End::Greatest => "max",
        };
        Ok(calls.one_spelling(calls.of(name, self.value)?))
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        of(self.value)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_one_value(self.value, "MIN or MAX")
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(None)
    }
}

/// A percentile as the query writes it.
pub(super) struct UnboundedQuantile<'o> {
    pub value: &'o Expr,
    pub fractions: &'o Fractions,
    pub continuous: bool,
    pub descending: bool,
}

impl<'o> Unbounded<'o> for UnboundedQuantile<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let ranks = Ranks::Fractions(match self.descending {
            true => self.fractions.from_other_end(),
            false => self.fractions.clone(),
        });
        match self.continuous {
            true => bound(exact(self.value), ranks, "PERCENTILE_CONT", bounds),
            false => bound(self.value, ranks, "PERCENTILE_DISC", bounds),
        }
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        let name = match self.continuous {
            true => "percentile_cont",
            false => "percentile_disc",
        };
        let value = (self.value, self.descending);
        Ok(calls.one_spelling(calls.ordered_set(name, Some(self.fractions), value)?))
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        of(self.value)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::ordered_set(self.value)
    }

    fn exact(&self, name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        match self.fractions {
            Fractions::One(_) => Ok(None),
            Fractions::Array(_) => Err(Refusal::unsupported(
                reason::PERCENTILE_FRACTION,
                format!("{name}() of several fractions within one unit"),
            )
            .hint("Call it once for each fraction.")),
        }
    }
}

impl Bounded for BoundedOrderStatistic {
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(vec![&self.value])
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        None
    }

    fn counts(&self) -> Counts<'_> {
        Counts::Nothing
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let shown = layout.values_at_ranks((&self.value, self.range), &self.ranks, filter)?;
        Ok(Output::Choice(shown))
    }
}
