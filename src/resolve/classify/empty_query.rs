//! Queries that return no rows whatever the tables hold (`LIMIT 0`, `WHERE 1 = 0`, `WHERE false`);
//! tools send them to learn the columns. Only literals are evaluated, never ranges.

use sqlparser::ast;

/// Whether the statement ends in `LIMIT 0`.
pub(in crate::resolve) fn has_limit_zero(query: &ast::Query) -> bool {
    match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset {
            limit: Some(limit),
            offset: None,
            limit_by,
        }) => limit_by.is_empty() && whole_number(limit) == Some(0),
        Some(ast::LimitClause::LimitOffset { .. } | ast::LimitClause::OffsetCommaLimit { .. })
        | None => false,
    }
}

/// The value of a constant where a whole number is expected: `0`, `'0'`, and `CAST(E'0' AS
/// bigint)`, which is how a bound parameter is written.
pub(in crate::resolve) fn whole_number(expr: &ast::Expr) -> Option<i64> {
    use ast::DataType as D;
    match expr {
        ast::Expr::Nested(inner) => whole_number(inner),
        ast::Expr::Cast {
            expr,
            data_type: D::BigInt(None) | D::Integer(None) | D::Int(None) | D::SmallInt(None),
            format: None,
            ..
        }
        | ast::Expr::Cast {
            expr,
            data_type: D::Int8(None) | D::Int4(None) | D::Int2(None),
            format: None,
            ..
        } => whole_number(expr),
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text),
            span: _,
        }) => text.trim().parse().ok(),
        _ => integer(expr),
    }
}

/// Whether the condition is false because of its literals alone.
pub(in crate::resolve) fn is_constant_false(condition: Option<&ast::Expr>) -> bool {
    match condition {
        Some(ast::Expr::Nested(inner)) => is_constant_false(Some(inner)),
        Some(ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Boolean(value),
            span: _,
        })) => !value,
        Some(ast::Expr::BinaryOp {
            left,
            op: ast::BinaryOperator::And,
            right,
        }) => is_constant_false(Some(left)) || is_constant_false(Some(right)),
        Some(ast::Expr::BinaryOp { left, op, right }) => {
            match (integer(left), op, integer(right)) {
                (Some(a), ast::BinaryOperator::Eq, Some(b)) => a != b,
                (Some(a), ast::BinaryOperator::NotEq, Some(b)) => a == b,
                _ => false,
            }
        }
        _ => false,
    }
}

fn integer(expr: &ast::Expr) -> Option<i64> {
    match expr {
        ast::Expr::Nested(inner) => integer(inner),
        ast::Expr::Value(ast::ValueWithSpan {
            value: ast::Value::Number(text, false),
            span: _,
        }) => text.parse().ok(),
        _ => None,
    }
}
