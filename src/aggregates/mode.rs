//! MODE: the most frequent value of a list that is known without the data. NULL does not count.

use sqlparser::ast;

use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead, ValuesRead};
use super::call::{Call, Resolved, form};
use super::names::AggregateName;
use super::unbounded::{Calls, Facts, Unbounded};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::{Expr, Interval, Operation};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// The values that it chooses from.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedMode {
    pub value: Expr,
    pub values: Vec<Scalar>,
}

/// MODE as the query writes it.
pub(super) struct UnboundedMode<'o> {
    pub value: &'o Expr,
    pub descending: bool,
}

impl<'o> Unbounded<'o> for UnboundedMode<'o> {
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        match bounds.listed_values(self.value, "MODE()")? {
            Some(values) if values.iter().any(Option::is_some) => {
                Ok(BoundedOperation::Mode(BoundedMode {
                    value: self.value.clone(),
                    values: values.into_iter().flatten().collect(),
                })
                .into())
            }
            Some(_) | None => Err(Refusal::unsupported(
                reason::VALUE_DOMAIN_UNKNOWN,
                "MODE() of a value whose domain is not known",
            )
            .hint(
                "Ask the data owner to declare the column's values, or group by it and order by \
                    the count.",
            )),
        }
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        let value = (self.value, self.descending);
        Ok(calls.one_spelling(calls.ordered_set("mode", None, value)?))
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval {
        of(self.value)
    }

    fn facts(&self) -> Facts<'o> {
        Facts::ordered_set(self.value)
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(None)
    }
}

/// The names that it answers to.
pub(super) const NAMES: &[AggregateName] = &[AggregateName::ordered_set("mode", call)];

pub(super) fn call(call: &dyn Call) -> Resolved {
    if call.has_arguments() {
        return Err(form(call.name()));
    }
    let (value, descending) = call.within_group_value()?;
    let result = value.data_type.clone();
    Ok((Operation::Mode { value, descending }, result))
}

impl Bounded for BoundedMode {
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
        TextRead::Shown
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let shown = layout.most_frequent(&self.value, &self.values, filter);
        Ok(Output::Choice(shown))
    }
}
