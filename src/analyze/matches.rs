//! How many rows of one side of a join a row of the other finds: at most one where keys lie within what is equated.

use super::rows::equated_apart;
use crate::policy::Policy;
use crate::resolve::catalogue::Function;
use crate::resolve::{ColumnId, Expr, JoinKind, Node, Relation};

/// Whether a row of the other side finds at most one row of this one, by the unit and the conditions of the join (chooses a clip, replaces none).
pub(super) fn at_most_one(policy: &Policy, side: &Relation, units: &[ColumnId], conditions: &[Expr]) -> bool {
    let own = side.made_at_any_depth();
    let mut within = Within { pieces: Vec::new(), told: Vec::new() };
    within.take_apart(side);
    conditions.iter().for_each(|condition| within.equate(condition));
    // What reads no column of this side is of one value for each row of the other.
    let mut fixed = units.to_vec();
    loop {
        let is_known = |id: &ColumnId, fixed: &[ColumnId]| fixed.contains(id) || !own.contains(id);
        let more: Vec<ColumnId> = within
            .told
            .iter()
            .filter(|(_, by)| by.iter().all(|id| is_known(id, &fixed)))
            .map(|(id, _)| *id)
            .filter(|id| !fixed.contains(id))
            .collect();
        let (found, left): (Vec<&Relation>, Vec<&Relation>) = within.pieces.iter().copied().partition(|piece| is_found(policy, piece, &fixed));
        let is_settled = more.is_empty() && found.is_empty();
        fixed.extend(more);
        for piece in found {
            fixed.extend(piece.made());
            if let Relation::Group { input: _, keys, aggregates: _ } = piece {
                fixed.extend(keys);
            }
        }
        within.pieces = left;
        if within.pieces.is_empty() {
            return true;
        }
        if is_settled {
            return false;
        }
    }
}

/// The relations that a side is joined of, and which columns others tell.
struct Within<'a> {
    pieces: Vec<&'a Relation>,
    told: Vec<(ColumnId, Vec<ColumnId>)>,
}

impl<'a> Within<'a> {
    fn take_apart(&mut self, relation: &'a Relation) {
        match relation {
            Relation::Scan(_) | Relation::Constants(_) | Relation::Group { .. } | Relation::Union { .. } => self.pieces.push(relation),
            Relation::Filter { input, predicate } => {
                predicate.conjuncts().into_iter().for_each(|condition| self.equate(condition));
                self.take_apart(input);
            }
            Relation::Project { input, columns } => {
                for (id, expr) in columns.iter().filter(|(_, expr)| expr.relations().is_empty()) {
                    self.told.push((*id, expr.columns()));
                    self.told.extend(expr.as_column().map(|source| (source, vec![*id])));
                }
                self.take_apart(input);
            }
            Relation::Window { input, columns: _ } | Relation::Bounded { input, unit: _, rows: _ } => self.take_apart(input),
            Relation::Join { kind, left, right, on } => {
                let conditions = on.iter().flat_map(Expr::conjuncts);
                match kind {
                    JoinKind::Inner => conditions.for_each(|condition| self.equate(condition)),
                    // Rows of the left side that find none are kept: what they hold is told by nothing.
                    JoinKind::Left => {
                        let made = right.made_at_any_depth();
                        let told = conditions.flat_map(|condition| equated_apart(condition, &made)).filter(|(_, by)| by.relations().is_empty());
                        self.told.extend(told.map(|(id, by)| (id, by.columns())));
                    }
                }
                self.take_apart(left);
                self.take_apart(right);
            }
        }
    }

    fn equate(&mut self, condition: &Expr) {
        let Node::Call { function: Function::Equal, arguments } = &condition.node else { return };
        let [a, b] = arguments.as_slice() else { return };
        for (one, other) in [(a, b), (b, a)] {
            if let Some(id) = one.as_column().filter(|_| other.relations().is_empty()) {
                self.told.push((id, other.columns()));
            }
        }
    }
}

/// A key of it lies within the columns that have one value.
fn is_found(policy: &Policy, piece: &Relation, fixed: &[ColumnId]) -> bool {
    match piece {
        Relation::Scan(scan) => {
            let table = &policy.tables[scan.table.0];
            table.unique_keys.iter().any(|key| {
                key.columns.iter().all(|name| {
                    let id = table.columns.iter().position(|c| &c.name == name).map(|at| scan.columns[at]);
                    id.is_some_and(|id| fixed.contains(&id))
                })
            })
        }
        // Released rows are one for each key by construction.
        Relation::Constants(rows) => rows.unique.as_ref().is_some_and(|unique| unique.iter().all(|id| fixed.contains(id))),
        Relation::Group { input: _, keys, aggregates: _ } => keys.iter().all(|id| fixed.contains(id)),
        Relation::Filter { .. } | Relation::Project { .. } | Relation::Join { .. } | Relation::Window { .. } => false,
        Relation::Union { .. } | Relation::Bounded { .. } => false,
    }
}

/// The conditions, and the equalities that stand in every arm of an OR among them.
pub(super) fn with_common(conditions: Vec<Expr>) -> Vec<Expr> {
    let common: Vec<Expr> = conditions.iter().flat_map(in_every_arm).filter(|equality| !conditions.contains(equality)).collect();
    conditions.into_iter().chain(common).collect()
}

fn in_every_arm(condition: &Expr) -> Vec<Expr> {
    let arms = disjuncts(condition);
    let [first, rest @ ..] = arms.as_slice() else { return Vec::new() };
    if rest.is_empty() {
        return Vec::new();
    }
    let equalities = first.conjuncts().into_iter().filter(|e| matches!(e.node, Node::Call { function: Function::Equal, .. }));
    equalities.filter(|equality| rest.iter().all(|arm| arm.conjuncts().into_iter().any(|other| is_same(equality, other)))).cloned().collect()
}

fn disjuncts(condition: &Expr) -> Vec<&Expr> {
    match &condition.node {
        Node::Call { function: Function::Or, arguments } => arguments.iter().flat_map(disjuncts).collect(),
        Node::Call { .. } | Node::Column(_) | Node::Literal(_) | Node::Constant(_) | Node::Cast(_) | Node::Case { .. } | Node::Exists { .. } => {
            vec![condition]
        }
    }
}

/// The same equality, whichever side comes first.
fn is_same(one: &Expr, other: &Expr) -> bool {
    let sides = |e: &'_ Expr| match &e.node {
        Node::Call { function: Function::Equal, arguments } => match arguments.as_slice() {
            [a, b] => Some((a.clone(), b.clone())),
            _ => None,
        },
        _ => None,
    };
    match (sides(one), sides(other)) {
        (Some((a, b)), Some((c, d))) => (a == c && b == d) || (a == d && b == c),
        _ => false,
    }
}
