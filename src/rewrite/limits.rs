//! Limits on what a statement may cost: the time of a row, the rows of a unit, the size of an
//! answer.

pub(in crate::rewrite) mod answer_size;
pub(in crate::rewrite) mod joined_rows;
pub(in crate::rewrite) mod row_cost;

use crate::refusal::{Refusal, reason};

/// The refusal where even the largest noise that the samplers support costs more.
pub(in crate::rewrite) fn out_of_reach() -> Refusal {
    Refusal::new(
        reason::NO_FITTING_NOISE,
        "no noise of supported size fits this query at this epsilon",
    )
    .hint("Raise pgveil.epsilon, or narrow the ranges of the sums.")
}
