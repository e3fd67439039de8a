//! Limits on the size of an emitted expression.

pub(in crate::rewrite) use crate::ir::sql::too_complex;

/// Largest emitted expression, in nodes: a chain of 5,000 terms, each with its clamps.
pub(in crate::rewrite) const NODES_MAX: usize = 100_000;
