//! The index that would help a release: from the plan and the schema alone.

use crate::analyze::{Analyzed, AnalyzedRelease, only_scan};
use crate::ir::ColumnId;
use crate::policy::{Policy, WantedIndex};
use crate::rewrite::ReleasePlan;
use crate::rewrite::release_statements::needed_columns;

/// The index that would give one table's rows unit by unit. `None` if no step is per unit, if rows
/// come from several tables, or if there is such an index.
pub fn index(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    policy: &Policy,
    plan: &ReleasePlan,
) -> Option<WantedIndex> {
    let is_per_unit = plan.price().is_some_and(|price| !price.within_clip)
        || plan.price().is_none() && !plan.choices().is_empty();
    if !is_per_unit || release.one_row_per_unit {
        return None;
    }
    let scan = only_scan(&release.input)?;
    let table = &policy.tables[scan.table.0];
    let name = |id: ColumnId| {
        let (of, position) = analyzed.columns()[id.0 as usize].origin?;
        (of == scan.table).then(|| table.columns[position.0].name.as_str())
    };
    if name(*release.lineage.units.first()?) != table.unit_column() {
        return None;
    }
    let keys = release.keys.iter().filter_map(|(key, _)| key.as_column());
    let keys: Vec<&str> = keys.filter_map(name).collect();
    let others = needed_columns(release, &[&release.input]);
    let others: Vec<&str> = others.into_iter().filter_map(name).collect();
    table.wanted_index(&keys, &others)
}
