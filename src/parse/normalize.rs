//! One spelling for expressions that PostgreSQL's grammar lets one write in several ways.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::desugar::SYMMETRIC;
use super::operator_precedence;
use crate::visit;

/// The types that drivers name by their schema.
const TYPES: [&str; 14] = [
    "bool",
    "int2",
    "int4",
    "int8",
    "float4",
    "float8",
    "numeric",
    "text",
    "varchar",
    "date",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
];

/// Turns string constants that hold quotes or backslashes into `E'…'`, which prints exactly, and
/// `pg_catalog.int4` into `int4`.
pub(super) struct Spelling;

impl ast::VisitorMut for Spelling {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<()> {
        let text = match &value.value {
            ast::Value::SingleQuotedString(text) => text,
            ast::Value::DollarQuotedString(ast::DollarQuotedString { value, tag: _ }) => value,
            _ => return ControlFlow::Continue(()),
        };
        value.value = if text.contains(['\'', '\\']) {
            ast::Value::EscapedStringLiteral(text.clone())
        } else {
            ast::Value::SingleQuotedString(text.clone())
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        operator_precedence::restore_name(expr);
        if let ast::Expr::Cast { data_type, .. } = expr
            && let Some(plain) = of_catalog(data_type)
        {
            *data_type = plain;
        }
        // Printed side by side, two signs are one operator or a comment.
        if let ast::Expr::UnaryOp { op, expr: operand } = expr
            && ![ast::UnaryOperator::Not, SYMMETRIC].contains(op)
            && matches!(**operand, ast::Expr::UnaryOp { .. })
        {
            let inner =
                std::mem::replace(operand.as_mut(), ast::Expr::Value(ast::Value::Null.into()));
            **operand = ast::Expr::Nested(Box::new(inner));
        }
        if let ast::Expr::Between {
            expr: subject,
            negated,
            low,
            high,
        } = expr
            && let Some(both) = either_way(subject, low, high)
        {
            let not = |expr| ast::Expr::UnaryOp {
                op: ast::UnaryOperator::Not,
                expr: Box::new(expr),
            };
            *expr = if *negated {
                ast::Expr::Nested(Box::new(not(both)))
            } else {
                both
            };
        }
        ControlFlow::Continue(())
    }
}

/// `x BETWEEN SYMMETRIC a AND b`: between them in one order or the other. `None` for a plain
/// BETWEEN, where a subquery would be asked twice, and around another of its kind: each doubles
/// what is in it.
fn either_way(subject: &ast::Expr, low: &ast::Expr, high: &ast::Expr) -> Option<ast::Expr> {
    let mut low = low.clone();
    unmark(&mut low)?;
    let cannot_double = |expr: &ast::Expr| {
        visit::visit_expressions(expr, |e| match e {
            ast::Expr::Subquery(_) | ast::Expr::InSubquery { .. } | ast::Expr::Exists { .. } => {
                ControlFlow::Break(())
            }
            ast::Expr::UnaryOp { op, expr: _ } if *op == SYMMETRIC => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    if [subject, &low, high].into_iter().any(cannot_double) {
        return None;
    }
    let between = |low: &ast::Expr, high: &ast::Expr| {
        let nested = |expr: &ast::Expr| Box::new(ast::Expr::Nested(Box::new(expr.clone())));
        let expr = ast::Expr::Between {
            expr: nested(subject),
            negated: false,
            low: nested(low),
            high: nested(high),
        };
        Box::new(ast::Expr::Nested(Box::new(expr)))
    };
    let both = ast::Expr::BinaryOp {
        left: between(&low, high),
        op: ast::BinaryOperator::Or,
        right: between(high, &low),
    };
    Some(ast::Expr::Nested(Box::new(both)))
}

/// Takes the mark from before the first operand.
fn unmark(expr: &mut ast::Expr) -> Option<()> {
    match expr {
        ast::Expr::UnaryOp { op, expr: operand } if *op == SYMMETRIC => {
            *expr = std::mem::replace(operand.as_mut(), ast::Expr::Value(ast::Value::Null.into()));
            Some(())
        }
        ast::Expr::BinaryOp {
            left,
            op: _,
            right: _,
        } => unmark(left),
        // `matching::show` puts brackets around an operator whose first operand is marked.
        ast::Expr::Nested(inner) => unmark(inner),
        ast::Expr::Cast { expr, .. } | ast::Expr::Collate { expr, collation: _ } => unmark(expr),
        ast::Expr::AtTimeZone {
            timestamp,
            time_zone: _,
        } => unmark(timestamp),
        ast::Expr::CompoundFieldAccess {
            root,
            access_chain: _,
        } => unmark(root),
        _ => None,
    }
}

/// The built-in type that `pg_catalog.name` names; `None` for every other.
fn of_catalog(data_type: &ast::DataType) -> Option<ast::DataType> {
    let ast::DataType::Custom(ast::ObjectName(parts), modifiers) = data_type else {
        return None;
    };
    let [
        ast::ObjectNamePart::Identifier(schema),
        ast::ObjectNamePart::Identifier(name),
    ] = parts.as_slice()
    else {
        return None;
    };
    let folded = |part: &ast::Ident| {
        if part.quote_style.is_some() {
            part.value.clone()
        } else {
            part.value.to_ascii_lowercase()
        }
    };
    let name = TYPES
        .into_iter()
        .find(|known| *known == folded(name))
        .filter(|_| folded(schema) == "pg_catalog" && modifiers.is_empty())?;
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(name)
        .ok()?
        .parse_data_type()
        .ok()
}
