//! Functions that cannot fail; most of them have special syntax.

use sqlparser::ast::{self, BinaryOperator as B};

use super::guard::{Emitted, internal};
use super::sql;
use crate::analyze::guarded_ranges::of_call;
use crate::analyze::interval::Interval;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::refusal::Refusal;

pub(in crate::rewrite) fn comparison_operator(function: Function) -> Option<B> {
    match function {
        Function::Equal => Some(B::Eq),
        Function::NotEqual => Some(B::NotEq),
        Function::Less => Some(B::Lt),
        Function::LessOrEqual => Some(B::LtEq),
        Function::Greater => Some(B::Gt),
        Function::GreaterOrEqual => Some(B::GtEq),
        _ => None,
    }
}

fn bitwise(function: Function) -> Option<B> {
    match function {
        Function::BitAnd => Some(B::BitwiseAnd),
        Function::BitOr => Some(B::BitwiseOr),
        Function::BitXor => Some(B::PGBitwiseXor),
        Function::ShiftLeft => Some(B::PGBitwiseShiftLeft),
        Function::ShiftRight => Some(B::PGBitwiseShiftRight),
        _ => None,
    }
}

/// Functions that cannot fail.
pub(in crate::rewrite) fn total_function(
    function: Function,
    emitted: Vec<Emitted>,
    result: &Type,
) -> Result<Emitted, Refusal> {
    use Function as F;
    let ranges: Vec<Interval> = emitted.iter().map(|e| e.range).collect();
    let range = of_call(function, &ranges, result);
    let (nodes, tiny) = (
        emitted.iter().map(|e| e.nodes).sum::<usize>() + 1,
        emitted.iter().any(|e| e.tiny),
    );
    let mut values: Vec<ast::Expr> = emitted.into_iter().map(|e| e.sql).collect();
    if let Some(op) = comparison_operator(function) {
        let (Some(right), Some(left)) = (values.pop(), values.pop()) else {
            return Err(internal());
        };
        return Ok(Emitted {
            nodes,
            ..Emitted::plain(
                sql::binary(sql::nest(left), op, sql::nest(right)),
                Interval::ALL,
            )
        });
    }
    let expr = match function {
        F::And
        | F::Or
        | F::Not
        | F::IsNull
        | F::IsNotNull
        | F::IsTrue
        | F::IsNotTrue
        | F::IsFalse
        | F::IsNotFalse
        | F::IsDistinctFrom
        | F::IsNotDistinctFrom
        | F::In => logical(function, values)?,
        F::Coalesce => sql::call("coalesce", values),
        F::NullIf => sql::call("nullif", values),
        F::Greatest => sql::call("greatest", values),
        F::Least => sql::call("least", values),
        F::BitAnd | F::BitOr | F::BitXor | F::ShiftLeft | F::ShiftRight => {
            let (b, a) = (last(&mut values)?, last(&mut values)?);
            sql::binary(*a, bitwise(function).ok_or_else(internal)?, *b)
        }
        F::BitNot => ast::Expr::Nested(Box::new(ast::Expr::UnaryOp {
            op: ast::UnaryOperator::BitwiseNot,
            expr: last(&mut values)?,
        })),
        F::Overlaps => sql::call("overlaps", values),
        F::TrimScale => sql::call("trim_scale", values),
        F::Scale => sql::call("scale", values),
        F::MinScale => sql::call("min_scale", values),
        F::ToHex => sql::call("to_hex", values),
        F::Thresholds => {
            let elem = values.split_off(1);
            values.push(ast::Expr::Array(ast::Array { elem, named: true }));
            sql::call("width_bucket", values)
        }
        F::Sign => sql::call("sign", values),
        F::Floor => sql::call("floor", values),
        F::Ceiling => sql::call("ceil", values),
        F::Round | F::RoundTo => sql::call("round", values),
        F::Truncate | F::TruncateTo => sql::call("trunc", values),
        _ => return Err(internal()),
    };
    Ok(Emitted {
        sql: expr,
        range,
        tiny,
        nodes,
    })
}

fn last(values: &mut Vec<ast::Expr>) -> Result<Box<ast::Expr>, Refusal> {
    values
        .pop()
        .map(|v| Box::new(sql::nest(v)))
        .ok_or_else(internal)
}

/// Tests and connectives.
fn logical(function: Function, mut values: Vec<ast::Expr>) -> Result<ast::Expr, Refusal> {
    use Function as F;
    Ok(match function {
        F::And => {
            sql::nest(sql::all(values.into_iter().map(sql::nest).collect()).ok_or_else(internal)?)
        }
        F::Or => {
            let any = sql::chain(values.into_iter().map(sql::nest).collect(), &B::Or);
            sql::nest(any.ok_or_else(internal)?)
        }
        F::Not => sql::not(*last(&mut values)?),
        F::IsNull => ast::Expr::Nested(Box::new(ast::Expr::IsNull(last(&mut values)?))),
        F::IsNotNull => ast::Expr::Nested(Box::new(ast::Expr::IsNotNull(last(&mut values)?))),
        F::IsTrue => ast::Expr::Nested(Box::new(ast::Expr::IsTrue(last(&mut values)?))),
        F::IsNotTrue => ast::Expr::Nested(Box::new(ast::Expr::IsNotTrue(last(&mut values)?))),
        F::IsFalse => ast::Expr::Nested(Box::new(ast::Expr::IsFalse(last(&mut values)?))),
        F::IsNotFalse => ast::Expr::Nested(Box::new(ast::Expr::IsNotFalse(last(&mut values)?))),
        F::IsDistinctFrom | F::IsNotDistinctFrom => {
            let (b, a) = (last(&mut values)?, last(&mut values)?);
            let expr = if function == F::IsDistinctFrom {
                ast::Expr::IsDistinctFrom(a, b)
            } else {
                ast::Expr::IsNotDistinctFrom(a, b)
            };
            ast::Expr::Nested(Box::new(expr))
        }
        F::In => in_list(values),
        _ => return Err(internal()),
    })
}

fn in_list(mut values: Vec<ast::Expr>) -> ast::Expr {
    let subject = Box::new(sql::nest(values.remove(0)));
    ast::Expr::Nested(Box::new(if values.iter().all(crate::parse::is_constant) {
        ast::Expr::InList {
            expr: subject,
            list: values,
            negated: false,
        }
    } else {
        // PostgreSQL evaluates the subject of an IN again for each item that is not a constant.
        let right = Box::new(ast::Expr::Array(ast::Array {
            elem: values,
            named: true,
        }));
        ast::Expr::AnyOp {
            left: subject,
            compare_op: B::Eq,
            right,
            is_some: false,
        }
    }))
}

/// Functions that look at values as they are stored.
pub(in crate::rewrite) fn of_stored(function: Function, values: Vec<ast::Expr>) -> Emitted {
    let (name, nodes) = match function {
        Function::IsFinite => ("isfinite", 2),
        Function::CountNulls => ("num_nulls", values.len() + 1),
        _ => ("num_nonnulls", values.len() + 1),
    };
    let ranges = vec![Interval::ALL; values.len()];
    Emitted {
        nodes,
        ..Emitted::plain(
            sql::call(name, values),
            of_call(function, &ranges, &Type::Int4),
        )
    }
}
