//! Fan-out: public rows that a private row is paired with. The time that a pair takes is multiplied
//! by their number.

use super::join_matches::JoinMatches;
use crate::ir::{ColumnId, ConstantId, Relation, TableId};
use crate::policy::ColumnPosition;

/// Public rows of a join or an EXISTS, where a private row may meet several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanOut {
    pub tables: Vec<MetTable>,
    /// For each middle query among them, one of its columns.
    pub constants: Vec<ConstantId>,
}

/// The rows of a public table that one private row meets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MetTable {
    pub table: TableId,
    /// Positions of the columns in which all these rows agree. None: any row may be met.
    pub columns: Vec<ColumnPosition>,
}

impl FanOut {
    /// The relations of this side that no key finds.
    ///
    /// # Guarantee
    /// A row of the other side is paired with at most as many rows of this one as the product, over
    /// the tables, of the most rows that agree in their columns, times the product of the middle
    /// queries' rows. A table inside a subquery with groups, or in a UNION, counts with all its
    /// rows.
    ///
    /// # Requires
    /// The conditions read these two sides alone.
    pub(super) fn of_join(found: &JoinMatches<'_>) -> Option<Self> {
        Self::several(found).if_any()
    }

    /// As [`Self::of_join`], for a subquery. PostgreSQL may compute it again for each outer row, so
    /// groups that a key finds count with all of their rows.
    pub(super) fn of_subquery(found: &JoinMatches<'_>) -> Option<Self> {
        let mut met = Self::several(found);
        found.groups.iter().for_each(|group| met.add(group, &[]));
        met.if_any()
    }

    fn several(found: &JoinMatches<'_>) -> Self {
        let mut met = Self {
            tables: Vec::new(),
            constants: Vec::new(),
        };
        for several in &found.several {
            met.add(several.relation, &several.fixed);
        }
        met
    }

    fn if_any(self) -> Option<Self> {
        let is_empty = self.tables.is_empty() && self.constants.is_empty();
        (!is_empty).then_some(self)
    }

    fn add(&mut self, relation: &Relation, fixed: &[ColumnId]) {
        match relation {
            Relation::Scan(scan) => {
                let is_fixed = |at: &usize| fixed.contains(&scan.columns[*at]);
                self.tables.push(MetTable {
                    table: scan.table,
                    columns: (0..scan.columns.len())
                        .filter(is_fixed)
                        .map(ColumnPosition)
                        .collect(),
                });
            }
            Relation::Constants(rows) => self.constants.extend(rows.constants.first()),
            Relation::Filter { .. } | Relation::Project { .. } | Relation::Group { .. } => {}
            Relation::Window { .. }
            | Relation::Join { .. }
            | Relation::Union { .. }
            | Relation::Bounded { .. } => {}
        }
        relation
            .inputs()
            .into_iter()
            .for_each(|input| self.add(input, &[]));
    }
}
