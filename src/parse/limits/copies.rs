//! Limits on operands that are read several times. PostgreSQL copies the subject of an IN for each
//! item that is not a constant, and the subject of BETWEEN. The resolver reads some operands more
//! than once: of BETWEEN, of a CASE with an operand, and of row comparisons. Nesting a few dozen of
//! these would take unbounded time and memory.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr};

use crate::refusal::{Refusal, reason};
use crate::visit;

/// Most readings of all expressions of a statement.
const READINGS_MAX: u64 = 100_000;

/// # Errors
/// 54001 if expressions would be evaluated too often.
pub(in crate::parse) fn check(query: &ast::Query) -> Result<(), Refusal> {
    let mut readings = Readings {
        all: 0,
        open: vec![1],
        copied: Vec::new(),
    };
    if visit::visit(query, &mut readings).is_continue() {
        return Ok(());
    }
    Err(
        Refusal::new(reason::STATEMENT_TOO_COMPLEX, "statement is too complex")
            .detail(
                "IN, BETWEEN, CASE and row comparisons are nested so that their operands \
                    would be evaluated too often.",
            )
            .hint("Compute the inner part in a subquery in FROM."),
    )
}

struct Readings {
    all: u64,
    /// How often the contents of each open expression are read.
    open: Vec<u64>,
    /// Operands not yet visited, and how often each is read.
    copied: Vec<(*const Expr, u64)>,
}

impl ast::Visitor for Readings {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let mut times = self.open.last().copied().unwrap_or(1);
        if let Some(at) = self
            .copied
            .iter()
            .rposition(|(operand, _)| std::ptr::eq(*operand, expr))
        {
            times = times.saturating_mul(self.copied.swap_remove(at).1);
        }
        self.copied.extend(
            copied_operands(expr)
                .into_iter()
                .map(|(operand, times)| (std::ptr::from_ref(operand), times.max(1) as u64)),
        );
        self.open.push(times);
        self.all = self.all.saturating_add(times);
        if self.all > READINGS_MAX {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.open.pop();
        ControlFlow::Continue(())
    }
}
/// The operands of this expression that are read more than once, and how often.
fn copied_operands(expr: &Expr) -> Vec<(&Expr, usize)> {
    match expr {
        Expr::InList {
            expr: subject,
            list,
            negated: _,
        } if matches!(**subject, Expr::Tuple(_)) => list
            .iter()
            .map(|item| (item, 3))
            .chain([(&**subject, list.len() * 3)])
            .collect(),
        Expr::InList {
            expr: subject,
            list,
            negated: _,
        } => vec![(
            subject,
            list.iter().filter(|item| !is_constant(item)).count(),
        )],
        Expr::Between { expr: subject, .. } => vec![(subject, 2)],
        Expr::Case {
            operand: Some(operand),
            conditions,
            ..
        } => vec![(operand, conditions.len())],
        Expr::BinaryOp { left, op: _, right } if matches!(**left, Expr::Tuple(_)) => {
            vec![(left, 3), (right, 3)]
        }
        _ => Vec::new(),
    }
}

/// Whether the expression reads no column and calls no function.
pub fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString { .. } => true,
        Expr::Nested(inner)
        | Expr::UnaryOp { op: _, expr: inner }
        | Expr::Cast { expr: inner, .. } => is_constant(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Statement, parse};

    fn nested(
        depth: usize,
        around: impl Fn(String) -> String,
    ) -> Result<Vec<Statement>, crate::refusal::Refusal> {
        parse(&format!(
            "SELECT {}",
            (0..depth).fold("a".to_owned(), |inner, _| around(inner))
        ))
    }

    #[test]
    fn what_is_read_again_and_again_is_refused() {
        let forms: [fn(String) -> String; 4] = [
            |x| format!("({x}) IN (b, c)"),
            |x| format!("({x}) BETWEEN b AND c"),
            |x| format!("CASE {x} WHEN 1 THEN 2 WHEN 3 THEN 4 END"),
            |x| format!("({x}, b) < (c, d)"),
        ];
        for form in forms {
            assert!(nested(4, form).is_ok(), "{}", form("x".to_owned()));
            assert!(nested(20, form).is_err(), "{}", form("x".to_owned()));
        }
        let list = vec!["1"; 9_000].join(", ");
        let branches = "WHEN 1 THEN 'one' ".repeat(2_000);
        let columns = vec!["b"; 2_000].join(", ");
        for flat in [
            format!("SELECT a IN ({list})"),
            format!("SELECT CASE a {branches} END"),
            format!("SELECT a IN ({columns})"),
        ] {
            assert!(parse(&flat).is_ok(), "{flat}");
        }
    }
}
