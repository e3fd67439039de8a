//! Limits on a statement's depth and height, and on the operands that PostgreSQL copies while it
//! parses.

pub(in crate::parse) mod copies;
pub(in crate::parse) mod depth;
pub(in crate::parse) mod height;
