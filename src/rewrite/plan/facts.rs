//! The facts in a release's description, as values.

use crate::policy::WantedIndex;

/// Public facts of one release, in the order of its statement's integers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReleaseFacts {
    /// The columns that are the privacy unit where rows are summed.
    pub unit: Vec<String>,
    /// Rows one unit is counted with, before the clip.
    pub rows_per_unit: u64,
    /// How many of them may be in one group.
    pub rows_in_group: u64,
    /// The most that one unit moves the vector, in units of one row's largest value; `None` without
    /// a vector, and where a look chooses the clip.
    pub sensitivity: Option<f64>,
    pub sums: Vec<CoordinateFacts>,
    /// Whether a proof says that no rows of a unit are cut.
    pub has_all_rows: bool,
    /// Where answers may be off by more than their noise, a sentence each.
    pub cautions: Vec<String>,
    /// The index that would help.
    pub index: Option<WantedIndex>,
}

/// One noisy integer of the vector.
#[derive(Debug, Clone, PartialEq)]
pub struct CoordinateFacts {
    /// The integer in words: `rows`, `sum of orders.total clipped to [0, 1000], centred`.
    pub what: String,
    /// The range each value is clipped to, in its own unit; `None` where rows are counted.
    pub bounds: Option<(f64, f64)>,
    /// The standard deviation of its noise, in the value's unit; `None` where a look chooses the
    /// clip.
    pub standard_deviation: Option<f64>,
}
