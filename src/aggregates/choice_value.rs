//! COUNT(DISTINCT …), MIN, MAX, PERCENTILE and MODE: the count or the values of a choice.

use sqlparser::ast;

use super::arithmetic::column_value;
use super::best_case::{BestCase, DistinctNoise, Expected, total_of};
use super::choice_id::ChoiceId;
use super::draw_id::DrawId;
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};

/// The value that is shown: what a choice counts, or some of the values that it chooses.
#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceOutput {
    pub choice: ChoiceId,
    /// Empty for a count.
    pub draws: Vec<DrawId>,
    pub is_array: bool,
}

impl OutputValue for ChoiceOutput {
    fn name(&self) -> &'static str {
        if self.draws.is_empty() {
            "distinct count"
        } else {
            "chosen value"
        }
    }

    fn measures(&self) -> Vec<MeasureId> {
        Vec::new()
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Choice {
            choice: self.choice,
            draws: &self.draws,
            is_array: self.is_array,
        }
    }

    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        let first = columns.first_of(self.choice);
        match self.draws.as_slice() {
            [] => column_value(first),
            [draw] if !self.is_array => column_value(first + draw.0),
            draws => ast::Expr::Array(ast::Array {
                elem: draws
                    .iter()
                    .map(|draw| column_value(first + draw.0))
                    .collect(),
                named: true,
            }),
        }
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        None
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        match self.draws.as_slice() {
            [draw] if !self.is_array => group.drawn_value(self.choice, *draw),
            _ => {
                let count = group.distinct_count(self.choice)?;
                Some(count.within(0.0, f64::INFINITY))
            }
        }
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        if self.draws.is_empty() {
            let DistinctNoise { count, most, z, .. } = best.distinct(self.choice)?;
            return Some(total_of(z * count, "count", (0.0, most)));
        }
        best.ranks(self.choice, &self.draws)
    }
}
