//! How large an emitted expression may be.

use crate::refusal::{Refusal, reason};

/// Largest emitted expression, in nodes: a chain of 5,000 terms, each with its clamps.
pub(in crate::rewrite) const NODES_MAX: usize = 100_000;

pub(in crate::rewrite) fn too_complex() -> Refusal {
    Refusal::new(
        reason::EXPRESSION_TOO_COMPLEX,
        "an expression over private rows is too complex",
    )
}
