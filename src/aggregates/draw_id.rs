//! The number of a draw within its choice.

/// One of the values that a choice draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DrawId(pub usize);
