//! Whether conditions on a moment may hold within a stretch of time.

use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::Scalar;

/// Whether the conditions may hold somewhere from the first to the last of these instants. An
/// ordering condition holds somewhere between them if and only if it holds at one of them. For AND,
/// every part has to hold somewhere; for OR, one part; other conditions exclude nothing.
pub(super) fn may_hold_within(about_this: &[&Expr], id: ColumnId, ends: [i64; 2]) -> bool {
    about_this
        .iter()
        .all(|condition| may_hold(condition, id, ends))
}

fn may_hold(condition: &Expr, id: ColumnId, ends: [i64; 2]) -> bool {
    use Function as F;
    let Node::Call {
        function,
        arguments,
    } = &condition.node
    else {
        return true;
    };
    match function {
        F::And => arguments.iter().all(|part| may_hold(part, id, ends)),
        F::Or => arguments.iter().any(|part| may_hold(part, id, ends)),
        F::Less | F::LessOrEqual | F::Greater | F::GreaterOrEqual => {
            let is_plain = |a: &Expr| a.as_column() == Some(id) || a.as_literal().is_some();
            !arguments.iter().all(is_plain)
                || ends.iter().any(|end| {
                    let at = [(id, Some(Scalar::Timestamp(*end)))];
                    evaluate(condition, &at) != Ok(Some(Scalar::Bool(false)))
                })
        }
        _ => true,
    }
}
