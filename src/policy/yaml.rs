//! The policy's YAML: a tree that knows its places, and readers that collect all errors.

pub(in crate::policy) mod read;
pub(in crate::policy) mod tree;
