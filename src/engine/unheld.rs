//! The refusal of what the role does not hold.

use crate::refusal::{Refusal, reason};

/// The refusal to buy, where the session asks only for what the role holds.
pub(super) fn refuse_unheld(lacks: &[String]) -> Refusal {
    let lacks: String = lacks
        .iter()
        .map(|lack| format!(" Summary {lack}."))
        .collect();
    Refusal::new(
        reason::NOT_HELD,
        "no summary or answer that this role holds answers the query",
    )
    .detail(format!(
        "pgveil.reuse is summary, so nothing is bought. Nothing was charged.{lacks}"
    ))
    .hint(
        "SET pgveil.reuse = on buys it. SELECT * FROM pgveil.summaries shows which columns \
            summaries have together.",
    )
}
