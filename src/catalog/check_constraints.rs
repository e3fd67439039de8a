//! The values of one column that a CHECK constraint plainly allows. It is used for warnings and
//! never proves anything.

use sqlparser::ast::{self, BinaryOperator as B};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{Column, Table, Type};

/// Reads a CHECK's expression, as `pg_get_expr` prints it: comparisons of a column with a constant
/// and lists of constants, joined by AND. Whatever else it says is left out.
pub(super) fn read(table: &mut Table, expression: &str) {
    let Ok(parsed) = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(expression)
        .and_then(|mut parser| parser.parse_expr())
    else {
        return;
    };
    let mut open = vec![&parsed];
    while let Some(expr) = open.pop() {
        if let Some((name, values)) = listed_constants(expr) {
            list(table, &name, values);
            continue;
        }
        match expr {
            ast::Expr::Nested(inner) => open.push(inner),
            ast::Expr::BinaryOp {
                left,
                op: B::And,
                right,
            } => open.extend([&**left, &**right]),
            ast::Expr::BinaryOp {
                left,
                op: B::LtEq,
                right,
            } => note_order(table, left, right, 0),
            ast::Expr::BinaryOp {
                left,
                op: B::GtEq,
                right,
            } => note_order(table, right, left, 0),
            ast::Expr::BinaryOp {
                left,
                op: B::Lt,
                right,
            } => note_order(table, left, right, 1),
            ast::Expr::BinaryOp {
                left,
                op: B::Gt,
                right,
            } => note_order(table, right, left, 1),
            ast::Expr::Between {
                expr,
                negated: false,
                low,
                high,
            } => {
                note_order(table, low, expr, 0);
                note_order(table, expr, high, 0);
            }
            _ => {}
        }
    }
}

/// Keeps the shorter list of two.
fn list(table: &mut Table, name: &str, values: Vec<String>) {
    if let Some(column) = table.columns.iter_mut().find(|c| c.name == name) {
        let known = &mut column.allowed.values;
        if !values.is_empty() && (known.is_empty() || values.len() < known.len()) {
            *known = values;
        }
    }
}

/// A column and the only constants that it may equal: `a = 1`, `a IN (1, 2)`, and such joined by
/// OR. A NULL passes every CHECK.
fn listed_constants(expr: &ast::Expr) -> Option<(String, Vec<String>)> {
    match expr {
        ast::Expr::Nested(inner) => listed_constants(inner),
        ast::Expr::BinaryOp {
            left,
            op: B::Eq,
            right,
        } => Some((column(left)?, vec![text(right)?])),
        ast::Expr::IsNull(inner) => Some((column(inner)?, Vec::new())),
        ast::Expr::BinaryOp {
            left,
            op: B::Or,
            right,
        } => {
            let ((name, mut values), (other, more)) =
                (listed_constants(left)?, listed_constants(right)?);
            values.extend(more);
            (name == other).then_some((name, values))
        }
        ast::Expr::AnyOp {
            left,
            compare_op: B::Eq,
            right,
            is_some: _,
        } => {
            let ast::Expr::Array(ast::Array { elem, named: _ }) = bare(right) else {
                return None;
            };
            Some((column(left)?, elem.iter().map(text).collect::<Option<_>>()?))
        }
        ast::Expr::InList {
            expr,
            list,
            negated: false,
        } => Some((column(expr)?, list.iter().map(text).collect::<Option<_>>()?)),
        _ => None,
    }
}

/// The name of a column, whatever it is cast to.
fn column(expr: &ast::Expr) -> Option<String> {
    let ast::Expr::Identifier(name) = bare(expr) else {
        return None;
    };
    Some(fold_case(name))
}

fn fold_case(name: &ast::Ident) -> String {
    if name.quote_style.is_some() {
        name.value.clone()
    } else {
        name.value.to_lowercase()
    }
}

/// Notes `smaller < larger` where one side is a column and the other a constant. Integers differ by
/// at least `apart`.
fn note_order(table: &mut Table, smaller: &ast::Expr, larger: &ast::Expr, apart: i64) {
    if let (Some(column), Some(text)) = (column_named(table, smaller), text(larger)) {
        column
            .allowed
            .upper
            .push(move_by(&column.data_type, text, -apart));
    }
    if let (Some(column), Some(text)) = (column_named(table, larger), text(smaller)) {
        column
            .allowed
            .lower
            .push(move_by(&column.data_type, text, apart));
    }
}

fn move_by(data_type: &Type, text: String, by: i64) -> String {
    let is_integer = matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8);
    let moved = text
        .parse::<i64>()
        .ok()
        .filter(|_| is_integer)
        .and_then(|value| value.checked_add(by));
    moved.map_or(text, |value| value.to_string())
}

fn column_named<'t>(table: &'t mut Table, column: &ast::Expr) -> Option<&'t mut Column> {
    let ast::Expr::Identifier(name) = number(column) else {
        return None;
    };
    let name = fold_case(name);
    table.columns.iter_mut().find(|c| c.name == name)
}

/// Without parentheses and casts to numbers, which keep an order.
fn number(expr: &ast::Expr) -> &ast::Expr {
    use ast::DataType as T;
    match expr {
        ast::Expr::Nested(inner) => number(inner),
        cast @ ast::Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type,
            format: None,
        } => match data_type {
            T::SmallInt(_)
            | T::Int(_)
            | T::Integer(_)
            | T::BigInt(_)
            | T::Numeric(_)
            | T::Decimal(_)
            | T::Real
            | T::DoublePrecision => number(expr),
            _ => cast,
        },
        other => other,
    }
}

/// Without parentheses and casts.
fn bare(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => bare(inner),
        ast::Expr::Cast {
            kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
            expr,
            data_type: _,
            format: None,
        } => bare(expr),
        other => other,
    }
}

fn text(constant: &ast::Expr) -> Option<String> {
    match bare(constant) {
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text),
            span: _,
        }) => Some(text.clone()),
        ast::Expr::UnaryOp {
            op: ast::UnaryOperator::Minus,
            expr,
        } => match bare(expr) {
            ast::Expr::Value(ast::ValueWithSpan {
                value: ast::Value::Number(text, _),
                span: _,
            }) => Some(format!("-{text}")),
            _ => None,
        },
        _ => None,
    }
}
