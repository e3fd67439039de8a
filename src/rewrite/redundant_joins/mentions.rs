//! Every mention of a column, as often as it is read.

use crate::ir::{ColumnId, Expr, Relation};

/// Every mention of a column in the relation.
pub(super) fn note_mentions(relation: &Relation, found: &mut Vec<ColumnId>) {
    for expr in relation.expressions() {
        found.extend(mentions(expr));
    }
    by_name(relation, found);
    for input in relation.inputs() {
        note_mentions(input, found);
    }
}

/// Every mention of a column in the expression and its subqueries.
pub(super) fn mentions(expr: &Expr) -> Vec<ColumnId> {
    let mut found = Vec::new();
    expr.walk(&mut |e| found.extend(e.as_column()));
    for relation in expr.relations() {
        every_by_name(relation, &mut found);
    }
    found
}

/// The columns that the relation and its inputs read without an expression. The subqueries of their
/// expressions are relations of the expression around them.
fn every_by_name(relation: &Relation, found: &mut Vec<ColumnId>) {
    by_name(relation, found);
    for input in relation.inputs() {
        every_by_name(input, found);
    }
}

/// The columns that the relation itself reads without an expression.
fn by_name(relation: &Relation, found: &mut Vec<ColumnId>) {
    match relation {
        Relation::Group {
            input: _,
            keys,
            aggregates: _,
        } => found.extend(keys),
        Relation::Union { columns: _, arms } => arms.iter().for_each(|(_, ids)| found.extend(ids)),
        Relation::Bounded {
            input: _,
            unit,
            rows: _,
        } => found.push(*unit),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Filter { .. }
        | Relation::Project { .. }
        | Relation::Join { .. }
        | Relation::Window { .. } => {}
    }
}
