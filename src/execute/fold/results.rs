//! What the units of all readings make together.

use super::FoldError;
use super::distinct::DistinctCounts;
use super::group_key::KnownGroups;
use super::row_bins::RowBins;
use super::unit_bins::UnitBins;
use crate::execute::TextRows;
use crate::rewrite::{Column, Fold, FoldResult};

pub enum Results {
    Bins(KnownGroups, UnitBins),
    Distinct(DistinctCounts),
    RowBins(KnownGroups, RowBins),
}

impl Results {
    pub fn new(fold: &Fold) -> Self {
        match &fold.result {
            FoldResult::Bins { kept, blocks } => Self::Bins(
                KnownGroups::default(),
                UnitBins::new(fold.cells.len(), kept.clone(), blocks),
            ),
            FoldResult::Distinct {
                keys,
                in_all,
                in_group,
                skips_null,
            } => Self::Distinct(DistinctCounts::new(*keys, *in_all, *in_group, *skips_null)),
            FoldResult::RowBins {
                keys,
                by_group,
                thresholds,
            } => Self::RowBins(
                KnownGroups::default(),
                RowBins::new(by_group.then_some(*keys), thresholds),
            ),
        }
    }

    /// The number of a row's group.
    ///
    /// # Errors
    /// [`FoldError`] where a column is not of its type.
    pub fn group<'r>(
        &mut self,
        columns: &[Column],
        column: impl FnMut(usize) -> Option<&'r [u8]>,
    ) -> Result<u32, FoldError> {
        match self {
            Self::Bins(groups, _) | Self::RowBins(groups, _) => groups.number(columns, column),
            Self::Distinct(counts) => counts.pairs.number(columns, column),
        }
    }

    /// About what groups, values and sums take.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Bins(groups, bins) => groups.bytes() + bins.bytes(),
            Self::Distinct(counts) => counts.pairs.bytes(),
            Self::RowBins(groups, bins) => groups.bytes() + bins.bytes(),
        }
    }

    /// Adds all groups of one unit, and the integers that it adds to them, one group after the
    /// other.
    pub fn add_unit(&mut self, of_unit: &[u32], integers: &mut [i64]) {
        match self {
            Self::Bins(groups, bins) => bins.add_unit(groups, of_unit, integers),
            Self::Distinct(counts) => counts.add_unit(of_unit),
            Self::RowBins(groups, bins) => bins.add_unit(groups, of_unit, integers),
        }
    }

    pub fn take_rows(&mut self) -> TextRows {
        match self {
            Self::Bins(groups, bins) => bins.take_rows(groups),
            Self::Distinct(counts) => counts.take_rows(),
            Self::RowBins(groups, bins) => bins.take_rows(groups),
        }
    }
}
