//! Limits on what a statement may cost: the time of a row, the rows of a unit, the size of an
//! answer.

pub(in crate::rewrite) mod answer_size;
pub(in crate::rewrite) mod joined_rows;
pub(in crate::rewrite) mod row_cost;
