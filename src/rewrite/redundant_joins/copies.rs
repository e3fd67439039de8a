//! Scans that read the same row.

use super::equal::Equal;
use super::{FixedColumns, Merger};
use crate::catalog::Equality;
use crate::ir::{ColumnId, Expr, Relation, Scan, equality};

impl Merger<'_> {
    /// Hidden scans that read the row of another scan. Every reader of a scan that is left out has
    /// the other scan at hand.
    pub(super) fn copies(
        &self,
        hidden: &[Scan],
        scans: &[&Scan],
        conditions: &[&Expr],
        places: &[FixedColumns],
    ) -> Copies {
        let mut copies = Copies(Vec::new());
        let pairs = hidden.len() * scans.len();
        let steps = conditions.len() + hidden.len() * pairs;
        if pairs == 0 || self.effort.take(steps as u64).is_none() {
            return copies;
        }
        let mut equal = Equal::default();
        for (one, other) in conditions.iter().filter_map(|c| self.equated_columns(c)) {
            equal.join(one, other);
        }
        loop {
            let is_left = |scan: &Scan| copies.0.iter().all(|(copy, _)| copy.number != scan.number);
            let is_found = |scan: &Scan, of: &Scan| {
                let is_read = |id: &ColumnId| scan.columns.contains(&copies.root(*id));
                let finds = |place: &FixedColumns| {
                    place.scans.contains(&of.number) || !place.reads.iter().any(is_read)
                };
                places.iter().all(finds)
            };
            let found = hidden.iter().filter(|scan| is_left(scan)).find_map(|scan| {
                let of = scans.iter().find(|of| {
                    of.number < scan.number
                        && is_left(of)
                        && self.are_one(scan, of, &equal)
                        && is_found(scan, of)
                })?;
                Some((scan.clone(), Scan::clone(of)))
            });
            let Some((scan, of)) = found else {
                return copies;
            };
            for (one, other) in scan.columns.iter().zip(&of.columns) {
                equal.join(*one, *other);
            }
            copies.0.push((scan, of));
        }
    }

    /// Two columns that a condition equates as strictly as a unique key separates rows.
    fn equated_columns(&self, condition: &Expr) -> Option<(ColumnId, ColumnId)> {
        let [a, b] = condition.sides_of_equality()?;
        let (one, other) = (a.as_column()?, b.as_column()?);
        let is_exact = |column, other| {
            equality(column, other, self.policy, self.columns) == Some(Equality::Exact)
        };
        let is_one_type = a.data_type == b.data_type;
        (is_one_type && is_exact(one, b) && is_exact(other, a)).then_some((one, other))
    }

    /// Whether a unique key of their table says that both scans are at one row.
    fn are_one(&self, a: &Scan, b: &Scan, equal: &Equal) -> bool {
        let table = &self.policy.tables[a.table.0];
        let is_equal = |name: &str| {
            let at = table.columns.iter().position(|c| c.name == name)?;
            equal
                .are(a.columns[at], b.columns[at])
                .then_some(Equality::Exact)
        };
        a.table == b.table
            && table
                .unique_keys
                .iter()
                .any(|key| key.tells_apart(is_equal))
    }
}

/// Scans that are left out, each with the one that reads the same row.
pub(super) struct Copies(pub Vec<(Scan, Scan)>);

impl Copies {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn is_one(&self, relation: &Relation) -> bool {
        matches!(relation, Relation::Scan(scan)
            if self.0.iter().any(|(copy, _)| copy.number == scan.number))
    }

    pub(super) fn are_read(&self, condition: &Expr) -> bool {
        condition
            .columns()
            .iter()
            .any(|id| self.other(*id).is_some())
    }

    pub(super) fn other(&self, id: ColumnId) -> Option<ColumnId> {
        self.0.iter().find_map(|(copy, of)| {
            let at = copy.columns.iter().position(|column| *column == id)?;
            Some(of.columns[at])
        })
    }

    /// The column of the scan that stays. A copy's copy may be a copy itself.
    fn root(&self, id: ColumnId) -> ColumnId {
        let mut id = id;
        while let Some(next) = self.other(id) {
            id = next;
        }
        id
    }

    /// The condition over the scans that stay.
    pub(super) fn rename(&self, condition: Expr) -> Expr {
        condition.replace_parts(&|expr| {
            let id = expr.as_column()?;
            Some(Expr::column(self.root(id), expr.data_type.clone()))
        })
    }
}
