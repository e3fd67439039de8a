//! The number of an aggregate within its release.

use std::fmt;

/// One aggregate of a release, by its place among them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct AggregateId(pub usize);

/// The bare number.
impl fmt::Debug for AggregateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AggregateId {
    /// What a release has for each aggregate, with its number.
    pub fn with_numbers<T>(of_aggregates: &[T]) -> impl Iterator<Item = (Self, &T)> {
        (0..).map(Self).zip(of_aggregates)
    }

    /// Counted from one, for people.
    pub fn ordinal(self) -> usize {
        self.0 + 1
    }
}
