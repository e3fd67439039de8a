//! What a plan holds: the part still to be paid for, and what roll-ups need.

pub(in crate::rewrite) mod rollup;
pub(in crate::rewrite) mod unpaid;
