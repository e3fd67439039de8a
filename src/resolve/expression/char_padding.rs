//! `char(n)`: PostgreSQL's rules for the blanks at the end of its values.
//!
//! Two of them are compared without these blanks, as texts; so are one and a constant or a
//! `varchar`. Compared with a `text` the value is cast to text, and that alone loses its blanks.
//! Patterns (LIKE, SIMILAR TO, ~), `concat`, `format` and `octet_length` read a value with its
//! blanks; functions of text read it without.

use crate::catalog::Type;
use crate::ir::evaluate::fold;
use crate::ir::expression::{Expr, Node};
use crate::ir::functions::Function;
use crate::ir::literal::{coerce, is_unknown};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

fn is_char(data_type: &Type) -> bool {
    matches!(data_type, Type::Char(_))
}

/// Operands of a comparison: texts without the blanks that it does not see. Columns of one length
/// stay as they are: filled with blanks, equal is identical.
pub(super) fn comparison_operands(operands: Vec<Expr>) -> Result<Vec<Expr>, Refusal> {
    let is_other = |e: &Expr| !e.data_type.is_string() && !is_unknown(&e.data_type);
    if !operands.iter().any(|e| is_char(&e.data_type)) || operands.iter().any(is_other) {
        return Ok(operands);
    }
    let of_one_length = |e: &Expr| {
        matches!(e.data_type, Type::Char(Some(_)))
            && e.as_column().is_some()
            && e.data_type == operands[0].data_type
    };
    if operands.iter().all(of_one_length) {
        return Ok(operands);
    }
    // An operator of two; a list is of the type of its subject.
    let is_text = operands.len() == 2 && operands.iter().any(|e| e.data_type == Type::Text);
    let one = |e: Expr| match &e.data_type {
        _ if is_text => coerce(e, &Type::Text),
        Type::Char(_) => coerce(e, &Type::Text),
        _ => coerce(coerce(e, &Type::Char(None))?, &Type::Text),
    };
    operands.into_iter().map(|e| one(e).map(fold)).collect()
}

/// Operands of a comparison with the elements of an array. An array of untyped constants is an
/// array of `text`, so a `char` is compared as a text.
pub(super) fn comparable_with_array(subject: Expr, elements: &[Expr]) -> Result<Expr, Refusal> {
    let is_text = elements
        .iter()
        .find(|e| !is_unknown(&e.data_type))
        .is_none_or(|first| first.data_type == Type::Text);
    if is_text && is_char(&subject.data_type) {
        coerce(subject, &Type::Text)
    } else {
        Ok(subject)
    }
}

/// As [`pad`]; a value of another type as it is.
pub(super) fn padded_if_char(expr: Expr) -> Result<Expr, Refusal> {
    if is_char(&expr.data_type) {
        pad(expr)
    } else {
        Ok(expr)
    }
}

/// The value with its blanks, as a text.
///
/// # Errors
/// 0A000 where nothing says how many there are.
pub(super) fn pad(expr: Expr) -> Result<Expr, Refusal> {
    let all = |exprs: Vec<Expr>| exprs.into_iter().map(pad).collect::<Result<Vec<_>, _>>();
    match (expr.data_type.clone(), expr.node) {
        (Type::Char(_), Node::Literal(value)) => Ok(Expr::literal(value, Type::Text)),
        (Type::Char(None), Node::Cast(inner)) if inner.data_type.is_string() => pad(*inner),
        (
            Type::Char(_),
            Node::Call {
                function: Function::Coalesce,
                arguments,
            },
        ) => Ok(Expr::call(Function::Coalesce, all(arguments)?, Type::Text)),
        (
            Type::Char(_),
            Node::Case {
                branches,
                otherwise,
            },
        ) => {
            let branches = branches
                .into_iter()
                .map(|(condition, value)| Ok((condition, pad(value)?)));
            let branches = branches.collect::<Result<_, Refusal>>()?;
            let otherwise = otherwise
                .map(|value| pad(*value).map(Box::new))
                .transpose()?;
            Ok(Expr {
                node: Node::Case {
                    branches,
                    otherwise,
                },
                data_type: Type::Text,
            })
        }
        (data_type @ Type::Char(Some(length)), node) => {
            let text = Expr { node, data_type }.cast(Type::Text);
            let length = Expr::literal(Some(Scalar::Int(i64::from(length))), Type::Int4);
            let blank = Expr::literal(Some(Scalar::Text(" ".to_owned())), Type::Text);
            Ok(fold(Expr::call(
                Function::PadRight,
                vec![text, length, blank],
                Type::Text,
            )))
        }
        (Type::Char(None), _) => Err(Refusal::new(
            reason::BLANKS_UNKNOWN,
            "the number of trailing blanks of a bpchar value is unknown",
        )
        .hint("Cast it to text, which removes trailing blanks, or to char(n).")),
        (data_type, node) => Ok(Expr { node, data_type }.cast(Type::Text)),
    }
}

/// Cut or filled to a length, as an explicit cast to `char(n)` does.
pub(super) fn of_length(shown: Expr, length: u32) -> Expr {
    let count = Expr::literal(Some(Scalar::Int(i64::from(length))), Type::Int4);
    fold(
        fold(Expr::call(Function::Left, vec![shown, count], Type::Text))
            .cast(Type::Char(Some(length))),
    )
}
