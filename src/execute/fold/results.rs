//! What the units of all readings make together.

use super::distinct::DistinctCounts;
use super::group_key::{KnownGroups, UnitPart};
use super::row_bins::RowBins;
use super::unit_bins::UnitBins;
use crate::execute::TextRows;
use crate::rewrite::{Fold, FoldResult};

pub enum Results {
    Bins(UnitBins),
    Distinct(DistinctCounts),
    RowBins(RowBins),
}

impl Results {
    pub fn new(result: &FoldResult) -> Self {
        match result {
            FoldResult::Bins { kept, blocks } => Self::Bins(UnitBins::new(kept.clone(), blocks)),
            FoldResult::Distinct {
                keys,
                in_all,
                in_group,
                skips_null,
            } => Self::Distinct(DistinctCounts::new(*keys, *in_all, *in_group, *skips_null)),
            FoldResult::RowBins {
                keys: _,
                by_group,
                thresholds,
            } => Self::RowBins(RowBins::new(*by_group, thresholds)),
        }
    }

    /// Adds all parts of one unit.
    pub fn add_unit(&mut self, fold: &Fold, groups: &KnownGroups, parts: &[UnitPart<'_>]) {
        match self {
            Self::Bins(bins) => bins.add_unit(&fold.cells, groups, parts),
            Self::Distinct(values) => values.add_unit(groups, parts),
            Self::RowBins(bins) => bins.add_unit(groups, parts),
        }
    }

    pub fn rows(&self, fold: &Fold, groups: &KnownGroups) -> TextRows {
        match self {
            Self::Bins(bins) => bins.rows(fold.cells.len(), groups),
            Self::Distinct(values) => values.rows(groups),
            Self::RowBins(bins) => bins.rows(groups),
        }
    }
}
