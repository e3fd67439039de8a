//! A bound on the length of the vector of one unit's rows, where each row has length one.

use num_bigint::BigUint;
use num_traits::ToPrimitive;

use crate::analyze::{AnalyzedRelease, UnitGroups};

/// How long the vector of one unit's rows is, in rows: its square in L2, and in L1.
pub(in crate::rewrite) struct RowLengths {
    pub squared: BigUint,
    pub absolute: BigUint,
}

/// The longest vector of a unit whose rows are within the bounds of `unit_groups`, with at most
/// `groups` groups in all sets together.
///
/// Let a unit have at most A rows in the groups of a set, at most q in one of them. The numbers of
/// its rows in the groups add up to at most A, and none is more than min(q, A). So their squares
/// add up to at most A min(q, A). In `groups` groups they add up to at most `groups` q^2.
pub(in crate::rewrite) fn row_lengths(release: &AnalyzedRelease, groups: u64) -> RowLengths {
    let rows_per_unit = release.lineage.rows_per_unit.max(1);
    let (mut squared, mut absolute) = (BigUint::ZERO, BigUint::ZERO);
    let mut most = 1;
    for UnitGroups { groups, rows, .. } in &release.unit_groups {
        let in_group = (*rows).clamp(1, rows_per_unit);
        let in_all = in_group.saturating_mul((*groups).max(1)).min(rows_per_unit);
        squared += BigUint::from(in_all) * in_group.min(in_all);
        absolute += in_all;
        most = most.max(in_group);
    }
    RowLengths {
        squared: squared.min(BigUint::from(groups) * most * most),
        absolute: absolute.min(BigUint::from(groups) * most),
    }
}

/// The L2 length of a unit's rows in a release without grouping sets, rounded up to whole rows.
pub(in crate::rewrite) fn length_in_rows(release: &AnalyzedRelease) -> u64 {
    let squared = row_lengths(release, u64::MAX).squared;
    ceil_sqrt(&squared).to_u64().unwrap_or(u64::MAX)
}

pub(in crate::rewrite) fn ceil_sqrt(value: &BigUint) -> BigUint {
    let root = value.sqrt();
    if &root * &root == *value {
        root
    } else {
        root + 1u8
    }
}
