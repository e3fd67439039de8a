//! What decides an expression's value: keys of a finer answer, or values that a condition names.

use super::{FinerKey, Grain};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::Scalar;
use crate::rewrite::Family;

/// The finer answer's keys that determine each column of the expression.
pub(super) fn determined_by(
    expr: &Expr,
    grain: &Grain,
    family: &Family,
) -> Option<Vec<(ColumnId, FinerKey)>> {
    let columns = expr.columns();
    let by = |id: &ColumnId| {
        let reading = family.columns.iter().find(|reading| reading.id == *id)?;
        let is_read_alike = reading.is_bare || columns.len() == 1;
        let key = grain
            .keys
            .iter()
            .position(|key| key.digest == reading.digest)?;
        is_read_alike.then_some((*id, FinerKey(key)))
    };
    if expr.relations().is_empty() {
        columns.iter().map(by).collect()
    } else {
        None
    }
}

/// Whether equal values of the type print the same.
pub(super) fn is_printed_once(data_type: &Type) -> bool {
    match data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Date
        | Type::Text
        | Type::Varchar(_)
        | Type::Enum(_) => true,
        Type::Numeric(_) | Type::Float4 | Type::Float8 | Type::Char(_) | Type::Uuid => false,
        Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Time | Type::Other { .. } => {
            false
        }
    }
}

/// The values of the column that a condition `x = 1` or `x IN (1, 2)` can be met by.
pub(super) fn named_values(condition: &Expr, id: ColumnId) -> Option<Vec<&Scalar>> {
    let is_subject = |expr: &Expr| match &expr.node {
        Node::Cast(inner) => {
            inner.as_column() == Some(id) && is_widened(&inner.data_type, &expr.data_type)
        }
        Node::Column(column) => *column == id,
        Node::Literal(_)
        | Node::Constant(_)
        | Node::Call { .. }
        | Node::Case { .. }
        | Node::Exists { .. } => false,
    };
    match &condition.node {
        Node::Call {
            function: Function::In | Function::Equal,
            arguments,
        } => match arguments.as_slice() {
            [subject, list @ ..] if is_subject(subject) => {
                list.iter().map(Expr::as_literal).collect()
            }
            [value, subject] if is_subject(subject) => value.as_literal().map(|value| vec![value]),
            _ => None,
        },
        Node::Call { .. }
        | Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Cast(_)
        | Node::Case { .. }
        | Node::Exists { .. } => None,
    }
}

/// Whether a cast changes no value.
fn is_widened(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Int2 | Type::Int4, Type::Int4 | Type::Int8) | (Type::Varchar(_), Type::Text) => true,
        (from, to) => from == to,
    }
}
