//! PostgreSQL text of relations and expressions, total on every row.

pub(in crate::rewrite) mod calendar;
pub(in crate::rewrite) mod cast;
pub(in crate::rewrite) mod column;
pub(in crate::rewrite) mod comparison;
pub(in crate::rewrite) mod constants;
pub(in crate::rewrite) mod expression;
pub(in crate::rewrite) mod guard;
pub(in crate::rewrite) mod json_array;
pub(in crate::rewrite) mod limits;
pub(in crate::rewrite) mod operator;
pub(in crate::rewrite) mod parse_text;
pub(in crate::rewrite) mod partial_functions;
pub(in crate::rewrite) mod relation;
mod report_bit;
pub(in crate::rewrite) mod statement;
pub(in crate::rewrite) mod text;
pub(in crate::rewrite) mod total_functions;

pub use crate::ir::sql;
