//! Which expressions may be NULL.

use super::keys;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, ColumnInfo, Expr, Node};

/// Whether an expression may be NULL, by the catalog's NOT NULL, joins and the expression's own
/// shape.
pub(super) struct Nullability<'a> {
    pub columns: &'a [ColumnInfo],
    pub computed: &'a [(ColumnId, Expr)],
    pub null_extended: &'a [ColumnId],
}

impl Nullability<'_> {
    /// True unless proved otherwise: only bare columns, constants and arithmetic that keeps NOT
    /// NULL are proved.
    ///
    /// # Guarantee
    /// False only where the emitted expression is NULL in no row, whatever the tables hold. Noise
    /// does not rest on it: a row adds at most one to a count, NULL or not.
    ///
    /// # Requires
    /// The catalog's NOT NULL constraints, whose fingerprint is compared in the transaction that
    /// runs the statement; `null_extended` has every column that an outer join may leave NULL.
    pub(super) fn may_be_null(&self, expr: &Expr) -> bool {
        match &expr.node {
            Node::Column(id) => match self.computed.iter().find(|(c, _)| c == id) {
                Some((_, definition)) => {
                    self.null_extended.contains(id) || self.may_be_null(definition)
                }
                None => self.columns[id.0 as usize].nullable || self.null_extended.contains(id),
            },
            Node::Literal(value) => value.is_none(),
            Node::Constant(_) => true,
            Node::Exists { .. } => false,
            Node::Cast(inner) => {
                keys::reads_text(inner, &expr.data_type) || self.may_be_null(inner)
            }
            Node::Case {
                branches,
                otherwise,
            } => {
                otherwise.as_ref().is_none_or(|e| self.may_be_null(e))
                    || branches.iter().any(|(_, r)| self.may_be_null(r))
            }
            Node::Call {
                function,
                arguments,
            } => match function {
                Function::Add
                | Function::Subtract
                | Function::Multiply
                | Function::Negate
                | Function::Abs => arguments.iter().any(|a| self.may_be_null(a)),
                Function::Coalesce => arguments.iter().all(|a| self.may_be_null(a)),
                _ => true,
            },
        }
    }
}
