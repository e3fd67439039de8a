//! Checks the columns that the owner says identify a row.

use super::Listed;
use crate::catalog::{Equality, Type};
use crate::policy::error::Findings;
use crate::policy::file::TableRule;
use crate::policy::{Column, ColumnPosition};

/// The places of the claimed columns among those that the policy shows.
pub fn check(
    table: &Listed<'_>,
    columns: &[Column],
    findings: &mut Findings,
) -> Vec<ColumnPosition> {
    let TableRule::Private { unique, .. } = &table.entry.rule else {
        return Vec::new();
    };
    let mut claimed: Vec<ColumnPosition> = Vec::new();
    for column in unique {
        let (name, what) = (&column.value, format!("{}.{}", table.name(), column.value));
        let shown = columns.iter().position(|shown| shown.name == *name);
        let Some(at) = shown.map(ColumnPosition) else {
            findings.error(
                column.place,
                format!(
                    "unique names {what}, which the policy does not show; add it to the columns \
                        (`{name}: visible`), or leave it out"
                ),
            );
            continue;
        };
        let shown = &columns[at.0];
        let unfit = if shown.collected.is_some() {
            Some("whose values are randomised")
        } else if !shown.deterministic_collation {
            Some("whose collation takes different texts for equal")
        } else if matches!(shown.data_type, Type::Other { .. }) {
            Some("whose type pgveil does not compare")
        } else {
            None
        };
        if let Some(unfit) = unfit {
            findings.error(
                column.place,
                format!("unique names {what}, {unfit}; such a column identifies no row"),
            );
            continue;
        }
        if table.relation.is_unique(&[name], &Equality::Own) {
            findings.warning(
                column.place,
                format!(
                    "unique names {what}, which a unique key of the database identifies anyway"
                ),
            );
        }
        if claimed.contains(&at) {
            findings.warning(column.place, format!("unique names {what} twice"));
        } else {
            claimed.push(at);
        }
    }
    claimed
}
