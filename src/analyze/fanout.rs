//! Rows that every private row stands beside, whatever it holds: what is computed for each pair takes as long as there are such rows.

use super::row_facts::equated_apart;
use crate::ir::{ConstantId, Expr, Relation, TableId};

/// Public rows of a join, or of EXISTS, that no equality picks by the row around.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    pub tables: Vec<TableId>,
    /// One of the columns of each middle query whose rows stand there.
    pub constants: Vec<ConstantId>,
}

impl Beside {
    /// `None` where an equality with a column of the other side picks rows.
    pub fn of(side: &Relation, conditions: &[Expr]) -> Option<Self> {
        let own = side.made_at_any_depth();
        let is_picked =
            conditions.iter().flat_map(Expr::conjuncts).any(|condition| equated_apart(condition, &own).any(|(_, other)| !other.columns().is_empty()));
        if is_picked {
            return None;
        }
        let mut beside = Self { tables: Vec::new(), constants: Vec::new() };
        beside.add(side);
        Some(beside)
    }

    fn add(&mut self, relation: &Relation) {
        match relation {
            Relation::Scan(scan) => self.tables.push(scan.table),
            Relation::Constants(rows) => self.constants.extend(rows.constants.first()),
            Relation::Filter { .. } | Relation::Project { .. } | Relation::Group { .. } => {}
            Relation::Window { .. } | Relation::Join { .. } | Relation::Union { .. } | Relation::Bounded { .. } => {}
        }
        relation.inputs().into_iter().for_each(|input| self.add(input));
    }
}
