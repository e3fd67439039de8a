//! Above the cut: the analyst's outer query over released and public rows.

mod access;
pub(crate) mod allow_list;
pub(in crate::resolve) mod correlated;
pub(in crate::resolve) mod expression;
mod from;
pub(in crate::resolve) mod function_call;
pub(in crate::resolve) mod query;
pub(crate) mod select;
pub(in crate::resolve) mod types;
pub(in crate::resolve) mod uncertainty;
