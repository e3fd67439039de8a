//! COUNT and SUM: one measure, as it was released.

use sqlparser::ast;

use super::arithmetic::measure;
use super::best_case::{BestCase, Expected};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};

/// The value that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct SingleMeasureOutput {
    pub measure: MeasureId,
    pub kind: CountOrSum,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountOrSum {
    Count,
    Sum,
}

impl OutputValue for SingleMeasureOutput {
    fn name(&self) -> &'static str {
        match self.kind {
            CountOrSum::Count => "count",
            CountOrSum::Sum => "sum",
        }
    }

    fn measures(&self) -> Vec<MeasureId> {
        vec![self.measure]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Measure(self.measure)
    }

    fn sql(&self, _columns: &dyn Columns) -> ast::Expr {
        measure(self.measure)
    }

    fn is_unbounded(&self) -> bool {
        true
    }

    fn divisor(&self) -> Option<Divisor> {
        None
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        let found = group.total(self.measure)?;
        Some(match self.kind {
            CountOrSum::Count => found.within(0.0, f64::INFINITY),
            CountOrSum::Sum => found,
        })
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        best.total(self.measure)
    }
}
