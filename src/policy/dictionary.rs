//! The list of values that the bits of reports are decoded to.

use super::ColumnPosition;
use crate::mechanism::Rappor;

/// The most values of a list.
pub const VALUES_MAX: usize = 2_000;

/// The true values that a column of filters may stand for, and how reports were made of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary {
    pub rappor: Rappor,
    /// In the order of the policy.
    pub values: Vec<String>,
    /// The column of the same table that has the cohort of each report.
    pub cohort: ColumnPosition,
}
