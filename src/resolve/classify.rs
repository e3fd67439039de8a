//! Facts about a query before it is resolved: whether it reads private rows, whether it can return
//! rows at all, whether it must run before others, and which of its names belong to queries around
//! it. Each is asked of syntax and names, so that nothing is resolved to see whether it can be.

pub(in crate::resolve) mod bound_from;
pub(in crate::resolve) mod empty_query;
pub(in crate::resolve) mod free_names;
pub(in crate::resolve) mod middle;
pub(in crate::resolve) mod rows;
pub(in crate::resolve) mod unit_rows;
