//! Comparisons of a column with constants, on the column as it is stored: statistics and indexes
//! apply.

use sqlparser::ast;

use super::column::EmittedColumn;
use super::expression::ExpressionEmitter;
use super::guard::Emitted;
use super::sql;
use super::total_functions::comparison_operator;
use crate::analyze::interval::{Interval, scalar};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::is_beyond;
use crate::ir::{Expr, Node};
use crate::policy::Scalar;
use crate::refusal::Refusal;

impl ExpressionEmitter<'_> {
    /// A comparison of a bare column with constants inside its clamp needs no clamp: the result is
    /// the same, and an index can be used. With NaN and infinities the stored value is compared.
    pub(super) fn comparison(
        &self,
        function: Function,
        arguments: &[Expr],
    ) -> Result<Option<Emitted>, Refusal> {
        if let (Function::In, [subject, items @ ..]) = (function, arguments) {
            return self.emit_in_list(subject, items);
        }
        let Some(op) = comparison_operator(function) else {
            return Ok(None);
        };
        let [left, right] = arguments else {
            return Ok(None);
        };
        // Two bare columns are compared as stored. A join on the unit must not merge two people
        // because both lie outside a bound.
        if let (Some(a), Some(b)) = (left.as_column(), right.as_column()) {
            let (a, b) = (self.cell(a)?.raw.clone(), self.cell(b)?.raw.clone());
            let nodes = sql::weight(&a) + sql::weight(&b) + 1;
            return Ok(Some(Emitted {
                nodes,
                ..Emitted::plain(sql::binary(sql::nest(a), op, sql::nest(b)), Interval::ALL)
            }));
        }
        let flipped = left.as_literal().is_some();
        let (subject, constant) = if flipped {
            (right, left)
        } else {
            (left, right)
        };
        let Some((cell, constant)) = self.as_stored(subject, constant)? else {
            return Ok(None);
        };
        let (left, right) = if flipped {
            (constant, cell.raw.clone())
        } else {
            (cell.raw.clone(), constant)
        };
        let nodes = sql::weight(&cell.raw) + 2;
        Ok(Some(Emitted {
            nodes,
            ..Emitted::plain(sql::binary(left, op, right), Interval::ALL)
        }))
    }

    /// `column IN (constants)`, as stored.
    fn emit_in_list(&self, subject: &Expr, items: &[Expr]) -> Result<Option<Emitted>, Refusal> {
        let mut column = None;
        let mut list = Vec::new();
        for item in items {
            let is_unbounded = item.as_literal().is_some_and(is_beyond);
            let stored = self.as_stored(subject, item)?;
            let Some((cell, constant)) = stored.filter(|_| !is_unbounded) else {
                return Ok(None);
            };
            column = Some(cell.raw.clone());
            list.push(constant);
        }
        Ok(column.map(|column| {
            let nodes = sql::weight(&column) + list.len() + 1;
            let test = ast::Expr::InList {
                expr: Box::new(sql::nest(column)),
                list,
                negated: false,
            };
            Emitted {
                nodes,
                ..Emitted::plain(ast::Expr::Nested(Box::new(test)), Interval::ALL)
            }
        }))
    }

    /// The column whose stored values compare with the constant as the subject does, and the
    /// constant as it is written next to it.
    fn as_stored(
        &self,
        subject: &Expr,
        constant: &Expr,
    ) -> Result<Option<(&EmittedColumn, ast::Expr)>, Refusal> {
        let subject = narrow_operand(subject, constant);
        let (Some(id), Some(value)) = (subject.as_column(), constant.as_literal()) else {
            return Ok(None);
        };
        let cell = self.cell(id)?;
        let inside = match (&cell.clamp, scalar(value)) {
            (None, _) => true,
            _ if is_beyond(value) => true,
            (Some((_, _, range)), Some(value)) => range.lo < value && value < range.hi,
            (Some(_), None) => false,
        };
        let written = match (&subject.data_type, &constant.data_type, value) {
            (Type::Char(_), Type::Text, Scalar::Text(text)) => blank_ended(text),
            _ => sql::constant(Some(value), &constant.data_type),
        };
        Ok(inside.then_some((cell, written)))
    }
}

/// The operand of a widening cast. PostgreSQL compares the narrow value with the wide constant with
/// the same result, and can use an index on the narrow column. A `char(n)` is compared without the
/// blanks at its end, as its text is with a constant that has none there.
fn narrow_operand<'e>(expr: &'e Expr, constant: &Expr) -> &'e Expr {
    match &expr.node {
        Node::Cast(inner) => match (&inner.data_type, &expr.data_type) {
            (Type::Int2 | Type::Int4, Type::Int4 | Type::Int8)
            | (Type::Numeric(_), Type::Numeric(None)) => inner,
            (Type::Int2 | Type::Int4 | Type::Int8, Type::Numeric(None)) => inner,
            (Type::Char(_), Type::Text) => match constant.as_literal() {
                Some(Scalar::Text(text)) if !text.ends_with(' ') => inner,
                _ => expr,
            },
            _ => expr,
        },
        Node::Column(_)
        | Node::Literal(_)
        | Node::Constant(_)
        | Node::Call { .. }
        | Node::Case { .. }
        | Node::Exists { .. } => expr,
    }
}

/// A constant that is compared with values of `char(n)`, which lose their blanks before they are
/// compared.
pub(in crate::rewrite) fn blank_ended(constant: &str) -> ast::Expr {
    sql::cast(sql::text_literal(constant), &Type::Char(None))
}
