//! Rows that every private row stands beside, whatever it holds: what is computed for each pair takes as long as there are such rows.

use crate::resolve::catalogue::Function;
use crate::resolve::{ColumnId, ConstantId, Expr, Node, Relation, TableId};

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
        let is_picked = conditions.iter().flat_map(Expr::conjuncts).any(|condition| picks(condition, &own));
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
            Relation::Window { .. } | Relation::Join { .. } | Relation::Union { .. } => {}
        }
        relation.inputs().into_iter().for_each(|input| self.add(input));
    }
}

fn picks(condition: &Expr, own: &[ColumnId]) -> bool {
    let Node::Call { function: Function::Equal, arguments } = &condition.node else { return false };
    let [a, b] = arguments.as_slice() else { return false };
    let is_own = |e: &Expr| e.as_column().is_some_and(|id| own.contains(&id));
    let is_other = |e: &Expr| !e.columns().is_empty() && e.columns().iter().all(|id| !own.contains(id));
    (is_own(a) && is_other(b)) || (is_own(b) && is_other(a))
}
