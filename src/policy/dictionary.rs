//! The list of values that the bits of reports are decoded to.

use super::ColumnPosition;
use crate::mechanism::Rappor;

/// The most values of a list.
pub const VALUES_MAX: usize = 2_000;

/// The most values that are fitted together. In the longest list about this number are above zero
/// by chance alone.
pub const FITTED_MAX: usize = 1_000;
/// The most rounds over all values before that.
pub const ROUNDS_MAX: usize = 500;
/// The most work of decoding, as [`decoding_work`] counts it: a second or two. An answer's limit
/// leaves room for it in any policy.
pub const DECODING_MAX: u64 = 1_900_000_000;

/// About how many products of two numbers it takes, at most, to decode a list of `values` values.
pub fn decoding_work(rappor: &Rappor, values: usize) -> u64 {
    let [bits, hashes, cohorts] = [rappor.bits, rappor.hashes, rappor.cohorts].map(u64::from);
    let (values, fitted) = (values as u64, values.min(FITTED_MAX) as u64);
    let set = values * cohorts * hashes;
    // A round reads and changes each cell that a value sets, and all cells for the background.
    let rounds = 2 * ROUNDS_MAX as u64 * (set + cohorts * bits);
    // A digest takes as long as some hundred products.
    let digests = set * 100;
    // All pairs of values that set the same cell, and then a factor and its inverse.
    let pairs = cohorts * (fitted * hashes).pow(2) / (2 * bits);
    digests + rounds + pairs + fitted.pow(3) / 2
}

/// The true values that a column of filters may stand for, and how reports were made of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dictionary {
    pub rappor: Rappor,
    /// In the order of the policy.
    pub values: Vec<String>,
    /// The column of the same table that has the cohort of each report.
    pub cohort: ColumnPosition,
}

impl Dictionary {
    /// About how many products of two numbers it takes to decode it, at most.
    pub fn decoding_work(&self) -> u64 {
        decoding_work(&self.rappor, self.values.len())
    }
}
