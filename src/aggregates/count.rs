//! COUNT: of rows, of values that are not NULL, or of units.

use super::Output;
use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead};
use super::call::{Call, Resolved};
use super::total::{Kind, Shown};
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::Operation;
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// What is counted.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Rows,
    /// Rows where the value is not NULL.
    Present(Expr),
    /// Rows, whose value is never NULL.
    NeverNull(Expr),
    Units,
}

pub(super) fn bound(value: &Expr, bounds: &dyn Bounds) -> Asked {
    if bounds.may_be_null(value) {
        Asked::Present(value.clone())
    } else {
        Asked::NeverNull(value.clone())
    }
}

pub(super) fn call(call: &dyn Call) -> Resolved {
    if call.is_of_rows() {
        return Ok((Operation::CountRows, Type::Int8));
    }
    Ok((Operation::Count(call.value()?), Type::Int8))
}

impl Bounded for Asked {
    fn arguments(&self) -> Vec<&Expr> {
        match self {
            Self::Rows | Self::Units => Vec::new(),
            Self::Present(value) | Self::NeverNull(value) => vec![value],
        }
    }

    fn of_no_row(&self) -> Option<Scalar> {
        Some(Scalar::Int(0))
    }

    fn counts(&self) -> Counts<'_> {
        match self {
            Self::Rows | Self::NeverNull(_) => Counts::AllRows,
            Self::Present(_) | Self::Units => Counts::Nothing,
        }
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Presence
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        let measure = match self {
            Self::Rows | Self::NeverNull(_) => layout.rows(filter),
            Self::Present(value) => layout.present(value, filter),
            Self::Units => layout.units(filter),
        };
        Ok(Output::Total(Shown {
            measure,
            kind: Kind::Count,
        }))
    }
}
