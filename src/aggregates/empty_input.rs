//! An aggregate that provably no row can match: its value over no rows, without noise.

use sqlparser::ast;

use super::best_case::{BestCase, Expected};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};
use crate::ir::sql;
use crate::policy::Scalar;

/// The value that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct EmptyInputOutput(pub Option<Scalar>);

impl OutputValue for EmptyInputOutput {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn measures(&self) -> Vec<MeasureId> {
        Vec::new()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Exact
    }

    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        self.0.as_ref().map_or_else(sql::null, |value| {
            sql::text_literal(&sql::scalar_text(value))
        })
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        None
    }

    fn estimate(&self, _group: &dyn Group) -> Option<Estimate> {
        match self.0.as_ref()? {
            Scalar::Bool(value) => Some(Estimate::exact(f64::from(u8::from(*value)))),
            _ => Some(Estimate::exact(0.0)),
        }
    }

    fn best(&self, _best: &dyn BestCase) -> Option<Expected> {
        None
    }
}
