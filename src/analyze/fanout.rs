//! Fan-out: public rows that every private row is paired with, whatever it holds. The time that a
//! pair takes is multiplied by their number.

use crate::ir::{ColumnId, ConstantId, Expr, Relation, TableId};

/// Public rows of a join, or of EXISTS, that no equality with the private row selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanOut {
    pub tables: Vec<TableId>,
    /// For each middle query among them, one of its columns.
    pub constants: Vec<ConstantId>,
}

impl FanOut {
    /// The relations of this side that no chain of equalities selects by a column of the other
    /// side. The conditions read these two sides alone.
    pub fn of(side: &Relation, conditions: &[Expr]) -> Option<Self> {
        let mut met = Met {
            own: side.made_at_any_depth(),
            pieces: Vec::new(),
            told: Vec::new(),
        };
        conditions
            .iter()
            .flat_map(Expr::conjuncts)
            .for_each(|condition| met.equate(condition));
        met.take_apart(side);
        let left = met.left();
        if left.is_empty() {
            return None;
        }
        let mut beside = Self {
            tables: Vec::new(),
            constants: Vec::new(),
        };
        left.into_iter().for_each(|piece| beside.add(piece));
        Some(beside)
    }

    fn add(&mut self, relation: &Relation) {
        match relation {
            Relation::Scan(scan) => self.tables.push(scan.table),
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
            .for_each(|input| self.add(input));
    }
}

/// The relations that a side of a join consists of.
struct Met<'a> {
    own: Vec<ColumnId>,
    pieces: Vec<&'a Relation>,
    /// Columns, each with the columns that determine it.
    told: Vec<(ColumnId, Vec<ColumnId>)>,
}

impl<'a> Met<'a> {
    fn take_apart(&mut self, relation: &'a Relation) {
        match relation {
            Relation::Scan(_)
            | Relation::Constants(_)
            | Relation::Group { .. }
            | Relation::Union { .. } => self.pieces.push(relation),
            Relation::Filter { input, predicate } => {
                predicate
                    .conjuncts()
                    .into_iter()
                    .for_each(|condition| self.equate(condition));
                self.take_apart(input);
            }
            Relation::Project { input, columns } => {
                for (id, expr) in columns {
                    self.tell(*id, expr);
                    let sources = expr.columns();
                    // An equality with a computed value selects by its sources, where these are of
                    // one row.
                    if sources.len() == 1
                        || input
                            .only_scan()
                            .is_some_and(|scan| sources.iter().all(|id| scan.columns.contains(id)))
                    {
                        self.told
                            .extend(sources.into_iter().map(|source| (source, vec![*id])));
                    }
                }
                self.take_apart(input);
            }
            Relation::Window { input, columns: _ }
            | Relation::Bounded {
                input,
                unit: _,
                rows: _,
            } => self.take_apart(input),
            Relation::Join {
                kind: _,
                left,
                right,
                on,
            } => {
                on.iter()
                    .flat_map(Expr::conjuncts)
                    .for_each(|condition| self.equate(condition));
                self.take_apart(left);
                self.take_apart(right);
            }
        }
    }

    fn equate(&mut self, condition: &Expr) {
        for (column, other) in condition.equated_columns() {
            self.tell(column, other);
        }
    }

    /// A constant picks the same rows for all.
    fn tell(&mut self, column: ColumnId, by: &Expr) {
        let by_columns = by.columns();
        if by.relations().is_empty() && !by_columns.is_empty() {
            self.told.push((column, by_columns));
        }
    }

    /// The pieces that nothing picks.
    fn left(mut self) -> Vec<&'a Relation> {
        let mut known: Vec<ColumnId> = Vec::new();
        loop {
            let is_known = |id: &ColumnId| !self.own.contains(id) || known.contains(id);
            let told = self
                .told
                .iter()
                .filter(|(column, by)| !is_known(column) && by.iter().all(is_known));
            let more: Vec<ColumnId> = told.map(|(column, _)| *column).collect();
            if more.is_empty() {
                return self.pieces;
            }
            known.extend(more);
            let (picked, left): (Vec<_>, Vec<_>) = self
                .pieces
                .into_iter()
                .partition(|piece| shown(piece).iter().any(|id| known.contains(id)));
            known.extend(picked.into_iter().flat_map(shown));
            self.pieces = left;
        }
    }
}

/// The columns that are read of it.
fn shown(piece: &Relation) -> Vec<ColumnId> {
    match piece {
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => keys.iter().copied().chain(piece.made()).collect(),
        _ => piece.made(),
    }
}
