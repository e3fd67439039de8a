//! Facts about a query before it is resolved: whether it reads private rows, and whether it can
//! return rows at all.

pub(in crate::resolve) mod empty_query;
pub(in crate::resolve) mod unit_rows;
