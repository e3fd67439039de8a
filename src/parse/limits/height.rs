//! Limits the height of a parsed statement. Walks of it (printing, comparing, dropping, resolving)
//! are recursive.

use std::ops::ControlFlow;

use sqlparser::ast::{self, SetExpr};

use super::depth;
use super::depth::SET_LEVELS;
use crate::refusal::Refusal;
use crate::visit;

/// Most nested expressions, queries and relations. [`chain`] refuses higher statements before
/// parsing, unless it takes words for something else than the parser does.
const HEIGHT_MAX: usize = 300;

/// Stack that the parser, this check and dropping the tree take for each word. A tree has at most
/// as many levels as words. A debug build was seen to take 3 KiB.
const WORD_BYTES: usize = 4 << 10;

/// Runs a parser of that many words with enough stack, and checks its result before anything else
/// walks it.
pub(in crate::parse) fn with_room_for<T>(words: usize, parse: impl FnOnce() -> T) -> T {
    let most = words.saturating_mul(WORD_BYTES);
    stacker::maybe_grow(
        most + depth::STACK_BYTES,
        most + 4 * depth::STACK_BYTES,
        parse,
    )
}

/// # Errors
/// 54001 for a tree that is too high.
pub(in crate::parse) fn check(tree: &impl ast::Visit) -> Result<(), Refusal> {
    let mut height = Height {
        open: 0,
        sets: Vec::new(),
    };
    if visit::visit(tree, &mut height).is_continue() {
        Ok(())
    } else {
        Err(depth::too_high())
    }
}

struct Height {
    open: usize,
    /// For each open query: how deeply its set operations nest.
    sets: Vec<usize>,
}

impl Height {
    fn enter(&mut self, levels: usize) -> ControlFlow<()> {
        self.open += levels;
        if self.open > HEIGHT_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// The number of nested set operations, counted along their operands.
fn set_operations(body: &SetExpr) -> usize {
    let (mut most, mut left) = (0, vec![(body, 0)]);
    while let Some((body, around)) = left.pop() {
        most = most.max(around);
        if let SetExpr::SetOperation {
            left: one,
            right: other,
            ..
        } = body
        {
            left.extend([(&**one, around + 1), (&**other, around + 1)]);
        }
    }
    most
}

impl ast::Visitor for Height {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let levels = 1 + set_operations(&query.body) * SET_LEVELS as usize;
        self.sets.push(levels);
        self.enter(levels)
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.open -= self.sets.pop().unwrap_or(0);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, _: &ast::TableFactor) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_table_factor(&mut self, _: &ast::TableFactor) -> ControlFlow<()> {
        self.open -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.enter(1)
    }

    fn post_visit_expr(&mut self, _: &ast::Expr) -> ControlFlow<()> {
        self.open -= 1;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::parse;

    /// The parser takes some words for names. So a count of the words alone differs.
    #[test]
    fn no_word_hides_a_level() {
        let cases = (0..50).fold("1".to_owned(), |inner, _| {
            format!(
                "CASE WHEN t.end THEN 1 WHEN {inner}{} THEN 1 WHEN 1 THEN t.case END",
                "+1".repeat(200)
            )
        });
        for deep in [
            format!("SELECT t.case{} FROM t", " OPERATOR(+) when".repeat(9_900)),
            format!("SELECT t.case, {cases} FROM t"),
            format!("SELECT t.case FROM b{}", " when JOIN b".repeat(12_000)),
            format!("SELECT case FROM b{}", " when JOIN b".repeat(12_000)),
            format!("SELECT case FROM b{} end", " when JOIN b".repeat(12_000)),
            format!("EXECUTE p (t.case{})", " OPERATOR(+) when".repeat(9_900)),
        ] {
            assert!(parse(&deep).is_err(), "{}", &deep[..40]);
        }
        assert!(
            parse(&format!(
                "SELECT t.case{} FROM t",
                " OPERATOR(+) when".repeat(60)
            ))
            .is_ok()
        );
    }
}
