//! How large an emitted expression may be.

pub(in crate::rewrite) use crate::ir::sql::too_complex;

/// Largest emitted expression, in nodes: a chain of 5,000 terms, each with its clamps.
pub(in crate::rewrite) const NODES_MAX: usize = 100_000;
