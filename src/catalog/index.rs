//! Indexes, as far as they make statements faster. They prove nothing.

use serde::{Deserialize, Serialize};

/// A valid btree index of all rows over plain columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The columns that it is sorted by, and then those that it carries.
    pub columns: Vec<String>,
}

impl Index {
    /// Whether rows of these columns come from the index alone, sorted by the first one.
    pub fn covers(&self, columns: &[String]) -> bool {
        self.columns.first() == columns.first()
            && columns.iter().all(|column| self.columns.contains(column))
    }
}
