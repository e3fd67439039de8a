//! Values of middle queries in emitted SQL. They are statement parameters, one array per column,
//! and are never printed into the statement.

use std::ops::ControlFlow;

use sqlparser::ast;

use super::column::EmittedColumn;
use super::guard::{Emitted, bound, is_float, keep_within, shorten};
use super::sql;
use crate::analyze::interval::{Interval, of_type};
use crate::catalog::Type;
use crate::ir::{ConstantId, ConstantRows, Expr, Node};
use crate::refusal::{Refusal, reason};
use crate::visit;

/// The one value of a middle query, clamped to a range where no operator can fail on it.
pub(in crate::rewrite) fn constant(id: ConstantId, data_type: &Type) -> Result<Emitted, Refusal> {
    let array = ast::Expr::Nested(Box::new(parameter(id, data_type)));
    let first = ast::Subscript::Index {
        index: sql::number_literal("1"),
    };
    let first = ast::Expr::CompoundFieldAccess {
        root: Box::new(array),
        access_chain: vec![ast::AccessExpr::Subscript(first)],
    };
    let value = Emitted {
        tiny: is_float(data_type),
        ..Emitted::plain(shorten(first, data_type), Interval::ALL)
    };
    if is_limited(data_type) {
        keep_within(value, of_type(data_type), data_type)
    } else {
        Ok(Emitted {
            range: of_type(data_type),
            ..value
        })
    }
}

/// All values of a middle query's column, as an array of the type that they are compared in.
///
/// # Errors
/// XX000 for anything but a constant.
pub(in crate::rewrite) fn array(list: &Expr) -> Result<ast::Expr, Refusal> {
    match &list.node {
        Node::Constant(id) => Ok(parameter(*id, &list.data_type)),
        Node::Cast(inner) => Ok(sql::cast_to_array(array(inner)?, &list.data_type)),
        Node::Column(_)
        | Node::Literal(_)
        | Node::Call { .. }
        | Node::Case { .. }
        | Node::Exists { .. } => Err(Refusal::new(
            reason::INTERNAL_ERROR,
            "a list is no constant",
        )),
    }
}

/// The rows of a middle query as a FROM item, and their cells in the order of its columns.
pub(in crate::rewrite) fn rows(
    rows: &ConstantRows,
    types: &[Type],
    alias: &str,
) -> (ast::TableFactor, Vec<EmittedColumn>) {
    let names: Vec<String> = (0..rows.columns.len()).map(|at| format!("c{at}")).collect();
    let columns = names
        .iter()
        .map(|n| ast::TableAliasColumnDef {
            name: sql::ident(n),
            data_type: None,
        })
        .collect();
    let from = ast::TableFactor::UNNEST {
        alias: Some(ast::TableAlias {
            explicit: true,
            name: sql::ident(alias),
            columns,
            at: None,
        }),
        array_exprs: rows
            .constants
            .iter()
            .zip(types)
            .map(|(id, data_type)| parameter(*id, data_type))
            .collect(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    let cells = names
        .iter()
        .zip(types)
        .map(|(name, data_type)| cell(sql::column(alias, name), data_type))
        .collect();
    (from, cells)
}

/// Clamped like a scanned column without declared bounds.
fn cell(raw: ast::Expr, data_type: &Type) -> EmittedColumn {
    let limit = of_type(data_type);
    let clamp = is_limited(data_type).then(|| {
        (
            bound(limit.lo, data_type),
            bound(limit.hi, data_type),
            limit,
        )
    });
    EmittedColumn {
        raw,
        clamp,
        data_type: data_type.clone(),
        known: limit,
    }
}

/// Types with values on which an operator could fail: NaN, infinities, and years out of range for
/// arithmetic.
fn is_limited(data_type: &Type) -> bool {
    match data_type {
        Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz => true,
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_) => false,
        Type::Uuid | Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => false,
    }
}

/// The constants that statements read, in the order of their parameters.
#[derive(Default, Clone)]
pub(in crate::rewrite) struct ConstantOrder {
    pub ids: Vec<ConstantId>,
    /// One entry for each time a constant is searched as a list once per row; four where the list
    /// is cast to another type there.
    lists: Vec<ConstantId>,
}

impl ConstantOrder {
    /// Renumbers the parameters of one more statement: those that are known from `$1`, then others
    /// as they appear.
    pub fn number(&mut self, query: &mut ast::Query) {
        let ControlFlow::Continue(()) = visit::visit_mut(query, self);
    }

    /// How often the constant at this place is searched as a list for each row.
    pub fn searches(&self, at: usize) -> u64 {
        self.lists.iter().filter(|id| **id == self.ids[at]).count() as u64
    }
}

/// The constant that is cast, and how often.
fn cast_constant(list: &ast::Expr) -> Option<(ConstantId, usize)> {
    match list {
        ast::Expr::Cast { expr, .. } => cast_constant(expr).map(|(id, casts)| (id, casts + 1)),
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Placeholder(name),
            span: _,
        }) => placeholder_number(name).map(|number| (ConstantId(number), 0)),
        _ => None,
    }
}

/// The number of a placeholder `$n`.
pub(in crate::rewrite) fn placeholder_number(name: &str) -> Option<u32> {
    name.strip_prefix('$')?.parse().ok()
}

impl ast::VisitorMut for ConstantOrder {
    type Break = std::convert::Infallible;

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<Self::Break> {
        if let ast::Expr::AnyOp { right, .. } | ast::Expr::AllOp { right, .. } = expr
            && let Some((id, casts)) = cast_constant(right)
        {
            self.lists
                .extend(std::iter::repeat_n(id, if casts > 1 { 4 } else { 1 }));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<Self::Break> {
        if let ast::Value::Placeholder(name) = &mut value.value
            && let Some(id) = placeholder_number(name).map(ConstantId)
        {
            let at = self
                .ids
                .iter()
                .position(|known| *known == id)
                .unwrap_or_else(|| {
                    self.ids.push(id);
                    self.ids.len() - 1
                });
            *name = format!("${}", at + 1);
        }
        ControlFlow::Continue(())
    }
}

/// `CAST($n AS type[])`: the type that the parameter has, wherever it stands.
fn parameter(id: ConstantId, data_type: &Type) -> ast::Expr {
    sql::cast_to_array(
        sql::value(ast::Value::Placeholder(format!("${}", id.0))),
        data_type,
    )
}
