//! How long one row may keep a statement busy. A branch that only one person's rows take shows in the time of an answer; it can be made no longer than this.

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator as B, Visit};

use crate::parse::with_room;
use crate::refusal::{Refusal, sqlstate};
use crate::resolve::regex_states;

/// Nanoseconds that the expressions of one question may take for one row, by the table of [`of`].
const NANOSECONDS_MAX: u64 = 20_000_000;

/// Nanoseconds that a statement's expressions take for one row of each relation, at most: each is counted once, over a text of 4,096 characters, with what
/// compiling its pattern takes. As measured on a core of a 2 GHz server, rounded up.
pub(super) fn of(statement: &ast::Query) -> u64 {
    let mut tally = Tally { nanoseconds: 0 };
    let _ = with_room(|| statement.visit(&mut tally));
    tally.nanoseconds
}

/// # Errors
/// 54001 where the statements of one question may take too long for one row.
pub(super) fn check(nanoseconds: u64) -> Result<(), Refusal> {
    if nanoseconds <= NANOSECONDS_MAX {
        return Ok(());
    }
    let limit = NANOSECONDS_MAX / 1_000_000;
    let refusal = Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, format!("one row could keep this query busy for more than {limit} ms"));
    Err(refusal
        .detail("The time of an answer must tell little about any row.")
        .hint("Use fewer regular expressions and functions of long texts, or ask in several queries."))
}

struct Tally {
    nanoseconds: u64,
}

impl ast::Visitor for Tally {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let own = match expr {
            ast::Expr::Like { .. } | ast::Expr::ILike { .. } => 40_000,
            ast::Expr::SimilarTo { pattern, .. } => of_pattern(pattern),
            ast::Expr::BinaryOp { op: B::PGRegexMatch | B::PGRegexIMatch, right, left: _ } => of_pattern(right),
            ast::Expr::Function(call) => of_call(name_of(call)) + of_patterns(call),
            ast::Expr::Substring { .. } => 25_000,
            ast::Expr::Value(_) | ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::Nested(_) => 0,
            // A constant is cast once.
            ast::Expr::Cast { expr, .. } if matches!(**expr, ast::Expr::Value(_)) => 0,
            // Whatever else there is takes as long as an operator on numbers.
            _ => 200,
        };
        self.nanoseconds = self.nanoseconds.saturating_add(own);
        ControlFlow::Continue(())
    }
}

/// A pattern is compiled at the first row that meets it, and may be in a set of states that it was never in before at each character.
fn of_pattern(pattern: &ast::Expr) -> u64 {
    match pattern {
        // Bare texts are patterns of our own, which are in one state at a time.
        ast::Expr::Value(_) => 300_000,
        ast::Expr::Nested(inner) => of_pattern(inner),
        // Those of the statement are printed with their type.
        ast::Expr::Cast { expr, .. } => match &**expr {
            ast::Expr::Value(text) => text.value.clone().into_string().map_or(NANOSECONDS_MAX, |text| 100_000 + 20_000 * regex_states(&text)),
            _ => NANOSECONDS_MAX,
        },
        _ => NANOSECONDS_MAX,
    }
}

fn name_of(call: &ast::Function) -> &str {
    call.name.0.last().and_then(|part| part.as_ident()).map_or("", |ident| ident.value.as_str())
}

fn of_patterns(call: &ast::Function) -> u64 {
    let name = name_of(call);
    let ast::FunctionArguments::List(list) = &call.args else { return 0 };
    match list.args.get(1) {
        Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(pattern))) if name.starts_with("regexp_") || name == "substring" => {
            of_pattern(pattern)
        }
        _ => 0,
    }
}

fn of_call(name: &str) -> u64 {
    match name {
        // Every character may be a match, and each match is found and copied by itself.
        "regexp_replace" | "regexp_substr" | "regexp_count" | "substring" => 1_500_000,
        "translate" => 450_000,
        "initcap" | "replace" | "strpos" | "split_part" | "overlay" => 100_000,
        "lower" | "upper" | "left" | "right" | "btrim" | "ltrim" | "rtrim" | "lpad" | "rpad" | "reverse" | "repeat" | "concat" | "concat_ws"
        | "md5" | "length" | "octet_length" | "bit_length" => 25_000,
        "exp" | "ln" | "log" | "power" | "sqrt" | "cbrt" => 30_000,
        // Dates, rounding, and the aggregates themselves.
        _ => 5_000,
    }
}

#[cfg(test)]
#[path = "work_tests.rs"]
mod tests;
