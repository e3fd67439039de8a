//! Fields of jsonb and elements of arrays: total operators of PostgreSQL, with constant names and
//! positions.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, bound, clamp_column, guard_operand, internal, is_float};
use super::sql;
use super::text::collate;
use crate::analyze::guarded_ranges::of_call;
use crate::analyze::interval::{Interval, of_type};
use crate::catalog::Type;
use crate::ir::Expr;
use crate::ir::functions::Function;
use crate::refusal::Refusal;

/// `None` for any other function.
pub(in crate::rewrite) fn json_or_array(
    function: Function,
    emitted: &[Emitted],
    arguments: &[Expr],
    result: &Type,
) -> Result<Option<Emitted>, Refusal> {
    use Function as F;
    let [subject, rest @ ..] = emitted else {
        return Ok(None);
    };
    let nodes = emitted.iter().map(|e| e.nodes).sum::<usize>() + 1;
    let of = || Box::new(sql::nest(subject.sql.clone()));
    let first = || {
        rest.first()
            .map(|e| Box::new(e.sql.clone()))
            .ok_or_else(internal)
    };
    let path = || {
        Box::new(ast::Expr::Array(ast::Array {
            elem: rest.iter().map(|e| e.sql.clone()).collect(),
            named: true,
        }))
    };
    let binary = |op: B, right: Box<ast::Expr>| {
        ast::Expr::Nested(Box::new(ast::Expr::BinaryOp {
            left: of(),
            op,
            right,
        }))
    };
    let sql = match function {
        F::JsonField => binary(B::Arrow, first()?),
        F::JsonText => binary(B::LongArrow, first()?),
        F::JsonPath => binary(B::HashArrow, path()),
        F::JsonPathText => binary(B::HashLongArrow, path()),
        // The function instead of the operator: some drivers would read its question mark as a
        // parameter.
        F::JsonHas => sql::call("jsonb_exists", vec![subject.sql.clone(), *first()?]),
        F::JsonType => sql::call("jsonb_typeof", vec![subject.sql.clone()]),
        F::JsonLength => json_length(&subject.sql),
        F::Cardinality => sql::call("cardinality", vec![subject.sql.clone()]),
        F::ArrayLength => sql::call("array_length", vec![subject.sql.clone(), *first()?]),
        F::AnyElement => any_element(subject, *first()?, arguments),
        F::Element => {
            let value = element(subject, *first()?, result, nodes);
            return bounded_element(value, result).map(Some);
        }
        _ => return Ok(None),
    };
    Ok(Some(Emitted {
        nodes,
        ..Emitted::plain(sql, of_call(function, &[], result))
    }))
}

fn json_length(subject: &ast::Expr) -> ast::Expr {
    let is_array = sql::binary(
        sql::call("jsonb_typeof", vec![subject.clone()]),
        B::Eq,
        sql::text_literal("array"),
    );
    sql::case(
        vec![(
            is_array,
            sql::call("jsonb_array_length", vec![subject.clone()]),
        )],
        None,
    )
}

/// `subject = ANY (array)`.
fn any_element(subject: &Emitted, array: ast::Expr, arguments: &[Expr]) -> ast::Expr {
    // Comparing a text and an array with different collations raises an error on the first row.
    let is_text = matches!(
        arguments.first().map(|a| &a.data_type),
        Some(Type::Text | Type::Varchar(_))
    );
    let left = if is_text {
        collate(subject.sql.clone(), "default")
    } else {
        sql::nest(subject.sql.clone())
    };
    let any = ast::Expr::AnyOp {
        left: Box::new(left),
        compare_op: B::Eq,
        right: Box::new(array),
        is_some: false,
    };
    ast::Expr::Nested(Box::new(any))
}

fn element(subject: &Emitted, index: ast::Expr, result: &Type, nodes: usize) -> Emitted {
    let subscript = ast::AccessExpr::Subscript(ast::Subscript::Index { index });
    let root = Box::new(ast::Expr::Nested(Box::new(subject.sql.clone())));
    Emitted {
        nodes,
        tiny: is_float(result),
        ..Emitted::plain(
            ast::Expr::CompoundFieldAccess {
                root,
                access_chain: vec![subscript],
            },
            Interval::ALL,
        )
    }
}

/// An element within the bounds of its type, as a scan clamps a column.
fn bounded_element(value: Emitted, result: &Type) -> Result<Emitted, Refusal> {
    Ok(match result {
        Type::Text | Type::Varchar(_) | Type::Char(_) => Emitted {
            sql: collate(value.sql.clone(), "default"),
            ..value
        },
        Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz => {
            let limit = of_type(result);
            let bounds = (bound(limit.lo, result), bound(limit.hi, result));
            let (sql, nodes) = guard_operand((value.sql, value.nodes), (5, 20), result, |value| {
                clamp_column(&value, bounds, result)
            })?;
            Emitted {
                sql,
                range: limit,
                nodes,
                tiny: value.tiny,
            }
        }
        _ => Emitted {
            range: of_type(result),
            ..value
        },
    })
}
