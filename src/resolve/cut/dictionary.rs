//! GROUP BY a column of filters: the release is grouped by the reports' cohorts, and its groups
//! are decoded to the listed values together.

use sqlparser::ast;

use super::collected::Reports;
use super::decorrelate::is_of_groups;
use crate::ir::ColumnId;
use crate::ir::relation::{Key, Relation, Scan};
use crate::policy::{ColumnPosition, Dictionary};
use crate::refusal::Refusal;
use crate::resolve::Resolver;

impl Resolver<'_> {
    /// The cohorts in place of the column, as the key of the release.
    ///
    /// # Errors
    /// 0A000 next to another key, and where the column does not come from its table's rows.
    pub(super) fn cohort_key(
        &self,
        dictionary: &Dictionary,
        (report, key): (ColumnId, &Key),
        others: &[Key],
        input: &Relation,
    ) -> Result<Key, Refusal> {
        let refused = |what| {
            let place = key.place.0;
            self.refuse_reports(report, what).within(|| place)
        };
        if !others.is_empty() {
            return Err(refused("GROUP BY together with another key"));
        }
        let ColumnPosition(position) = dictionary.cohort;
        let cohort = scan_of(input, report).and_then(|scan| scan.columns.get(position));
        let Some(cohort) = cohort else {
            return Err(refused("GROUP BY over rows that are not its table's"));
        };
        Ok(Key {
            expr: self.output.column_expr(*cohort),
            ..key.clone()
        })
    }

    /// Refuses a decoded key in the groups of a correlated count, which is 0 where it finds none.
    pub(super) fn check_decoded(
        &self,
        reports: &Reports,
        select: &ast::Select,
    ) -> Result<(), Refusal> {
        let key = reports.decoded_key().filter(|_| is_of_groups(select));
        match key.and_then(|key| Some((key.expr.as_column()?, key.place.0))) {
            Some((report, place)) => Err(self
                .refuse_reports(report, "a correlated subquery")
                .within(|| place)),
            None => Ok(()),
        }
    }
}

/// The scan that a column comes from, where each of its rows is one of the scan's.
fn scan_of(relation: &Relation, column: ColumnId) -> Option<&Scan> {
    match relation {
        Relation::Scan(scan) => scan.columns.contains(&column).then_some(scan),
        Relation::Constants(_) | Relation::Group { .. } | Relation::Union { .. } => None,
        Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. }
        | Relation::Bounded { .. } => {
            let mut inputs = relation.inputs().into_iter();
            inputs.find_map(|input| scan_of(input, column))
        }
    }
}
