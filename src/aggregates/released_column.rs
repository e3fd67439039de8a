//! The number of a value within a released group.

use std::ops::Add;

use super::measure_id::MeasureId;

/// One value of a released group: a measure, or what a choice counts or draws. The measures are
/// first, then the values of one choice after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReleasedColumn(pub usize);

impl From<MeasureId> for ReleasedColumn {
    fn from(MeasureId(at): MeasureId) -> Self {
        Self(at)
    }
}

/// A later column of the same choice.
impl Add<usize> for ReleasedColumn {
    type Output = Self;

    fn add(self, places: usize) -> Self {
        Self(self.0 + places)
    }
}
