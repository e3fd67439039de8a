//! The facts about rows that follow from conditions: columns that they equate, and groups that they
//! select.

use super::{Attribute, Cardinalities, Cardinality, Count, Dependency, columns_of};
use crate::analyze::join_matches;
use crate::catalog::{Equality, Type};
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Node, equality};

impl<'a> Cardinalities<'a> {
    /// Adds the facts that follow from conditions that hold for every row. Equality is strict: no
    /// equated column is NULL.
    pub(super) fn meet(&self, rows: &mut Cardinality<'a>, conditions: &[&Expr]) {
        let mut present = Vec::new();
        for condition in conditions {
            for (column, other) in equated_columns(condition) {
                present.push(column);
                rows.dependencies
                    .extend(self.equal_attributes(column, other).map(|by| Dependency {
                        by,
                        determined: Attribute::Column(column),
                    }));
            }
            let Node::Call {
                function,
                arguments,
            } = &condition.node
            else {
                continue;
            };
            match (function, arguments.as_slice()) {
                (Function::IsNotNull, [value]) => present.extend(value.as_column()),
                (Function::In, [value, list @ ..]) => {
                    let is_listed = |column: &ColumnId| {
                        list.iter().all(|e| {
                            e.as_literal().is_some() && self.equal_attributes(*column, e).is_some()
                        })
                    };
                    let column = uncast(value).as_column().filter(is_listed);
                    rows.counts.extend(column.map(|column| Count {
                        of: vec![Attribute::Column(column)],
                        most: list.len() as u64,
                    }));
                }
                _ => {}
            }
        }
        rows.note_keys(&present);
    }

    /// The attributes that determine a column that equals the expression; `None` where equal values
    /// may differ.
    pub(super) fn equal_attributes(
        &self,
        column: ColumnId,
        other: &Expr,
    ) -> Option<Vec<Attribute>> {
        let is_exact = equality(column, other, self.policy, self.columns) == Some(Equality::Exact);
        (is_exact && self.is_function(other)).then(|| columns_of(other))
    }

    /// Whether equal columns give the expression one value.
    pub(super) fn is_function(&self, expr: &Expr) -> bool {
        let is_one_spelling =
            |id: &ColumnId| join_matches::is_one_spelling(&self.columns[id.0 as usize].data_type);
        expr.relations().is_empty()
            && (expr.as_column().is_some() || expr.columns().iter().all(is_one_spelling))
    }
}

/// Each column that a condition equates with an expression, also through casts that keep different
/// values different.
pub(super) fn equated_columns(condition: &Expr) -> Vec<(ColumnId, &Expr)> {
    let Some([one, other]) = condition.sides_of_equality() else {
        return Vec::new();
    };
    let sides = [(one, other), (other, one)];
    sides
        .into_iter()
        .filter_map(|(one, other)| Some((uncast(one).as_column()?, uncast(other))))
        .collect()
}

/// The operand of a cast to a wider integer, or of `varchar` to `text`.
fn uncast(expr: &Expr) -> &Expr {
    match &expr.node {
        Node::Cast(inner) => match (&inner.data_type, &expr.data_type) {
            (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8) => uncast(inner),
            (Type::Varchar(_), Type::Text | Type::Varchar(None)) => uncast(inner),
            _ => expr,
        },
        _ => expr,
    }
}
