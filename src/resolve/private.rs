//! Below the cut: FROM, subqueries, windows and unions over the rows of one unit.

pub(in crate::resolve) mod expression_context;
pub(in crate::resolve) mod from;
pub(in crate::resolve) mod per_unit;
pub(in crate::resolve) mod semi_join;
pub(in crate::resolve) mod subquery;
pub(in crate::resolve) mod union;
pub(in crate::resolve) mod window;
