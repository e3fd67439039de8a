//! What a CHECK says of one column alone, where it says it plainly. It may warn; nothing is ever proved by it.

use sqlparser::ast::{self, BinaryOperator as B};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::{Allowed, Table};

/// Reads a CHECK's expression, as `pg_get_expr` prints it: comparisons of a column with a constant, joined by AND. Whatever else it says is left out.
pub(super) fn read(table: &mut Table, expression: &str) {
    let Ok(parsed) = Parser::new(&PostgreSqlDialect {}).try_with_sql(expression).and_then(|mut parser| parser.parse_expr()) else { return };
    let mut open = vec![&parsed];
    while let Some(expr) = open.pop() {
        match expr {
            ast::Expr::Nested(inner) => open.push(inner),
            ast::Expr::BinaryOp { left, op: B::And, right } => open.extend([&**left, &**right]),
            ast::Expr::BinaryOp { left, op: B::Lt | B::LtEq, right } => {
                upper(table, left, right);
                lower(table, right, left);
            }
            ast::Expr::BinaryOp { left, op: B::Gt | B::GtEq, right } => {
                lower(table, left, right);
                upper(table, right, left);
            }
            ast::Expr::Between { expr, negated: false, low, high } => {
                lower(table, expr, low);
                upper(table, expr, high);
            }
            _ => {}
        }
    }
}

fn lower(table: &mut Table, column: &ast::Expr, constant: &ast::Expr) {
    if let (Some(allowed), Some(text)) = (allowed(table, column), text(constant)) {
        allowed.lower.push(text);
    }
}

fn upper(table: &mut Table, column: &ast::Expr, constant: &ast::Expr) {
    if let (Some(allowed), Some(text)) = (allowed(table, column), text(constant)) {
        allowed.upper.push(text);
    }
}

fn allowed<'t>(table: &'t mut Table, column: &ast::Expr) -> Option<&'t mut Allowed> {
    let ast::Expr::Identifier(name) = bare(column) else { return None };
    let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
    table.columns.iter_mut().find(|c| c.name == name).map(|c| &mut c.allowed)
}

/// Without parentheses and casts.
fn bare(expr: &ast::Expr) -> &ast::Expr {
    match expr {
        ast::Expr::Nested(inner) => bare(inner),
        ast::Expr::Cast { kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, expr, data_type: _, format: None } => bare(expr),
        other => other,
    }
}

fn text(constant: &ast::Expr) -> Option<String> {
    match bare(constant) {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _) | ast::Value::SingleQuotedString(text), span: _ }) => {
            Some(text.clone())
        }
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match bare(expr) {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), span: _ }) => Some(format!("-{text}")),
            _ => None,
        },
        _ => None,
    }
}
