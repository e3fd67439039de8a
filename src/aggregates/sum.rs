//! SUM.

use super::Output;
use super::bounded::{Bounded, Counts, Layout, Summand, TextRead};
use super::call::{Call, Resolved, typed};
use super::total::{Kind, Shown};
use crate::catalog::Type;
use crate::ir::Operation;
use crate::ir::{Expr, Interval};
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// What is added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked(pub Summand);

pub(super) fn call(call: &dyn Call) -> Resolved {
    let value = call.value()?;
    let result = typed(call, sum_type(&value.data_type), &value.data_type)?;
    Ok((Operation::Sum(value), result))
}

/// The result type of SUM.
fn sum_type(given: &Type) -> Option<Type> {
    match given {
        Type::Int2 | Type::Int4 => Some(Type::Int8),
        Type::Int8 | Type::Numeric(_) => Some(Type::Numeric(None)),
        Type::Float4 => Some(Type::Float4),
        Type::Float8 => Some(Type::Float8),
        _ => None,
    }
}

impl Bounded for Asked {
    fn arguments(&self) -> Vec<&Expr> {
        vec![&self.0.value]
    }

    fn range(&self) -> Option<Interval> {
        Some(self.0.range)
    }

    fn of_no_row(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfSum {
            value: &self.0.value,
            nullable: self.0.nullable,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::Total(Shown {
            measure: layout.sum(&self.0, filter)?,
            kind: Kind::Sum,
        }))
    }
}
