//! The number of a coordinate within its vector.

use std::fmt;

/// One coordinate of a release's vector, in its plain layout or as it is released: both have
/// equally many.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct CoordinateId(pub usize);

/// The bare number: digests of stored answers are taken of it.
impl fmt::Debug for CoordinateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
