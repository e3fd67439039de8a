//! A released value and its standard error.

use super::Row;
use super::choices::ChosenValue;
use crate::aggregates::{Foreseen, Output};
use crate::release::ReleasedTable;
use crate::rewrite::ReleasePlan;

/// An aggregate's released value in a group and its standard error; `None` where either is unknown.
pub fn value_and_error(
    release: &ReleasePlan,
    output: &Output,
    table: &ReleasedTable,
    group: usize,
) -> Option<(f64, f64)> {
    let row = Row::new(release, table.measures.get(group)?, table, group);
    let (value, error) = match output.foreseen() {
        Foreseen::Choice {
            choice,
            draws: [draw],
            is_array: false,
        } => {
            let ChosenValue { value, spread } = row.chosen_value(choice, *draw)?;
            (value, spread.error?)
        }
        _ => {
            let estimate = row.output(output)?;
            (estimate.value, estimate.error())
        }
    };
    (value.is_finite() && error.is_finite()).then_some((value, error))
}
