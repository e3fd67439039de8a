//! How long the lists of a statement's keys may take to make. Whoever plans pays nothing, and what is planned for one session keeps others waiting.

use std::cell::Cell;

use crate::refusal::{Refusal, sqlstate};
use crate::resolve::Expr;

/// Most steps of one statement, a step being one node of an expression, evaluated once: about a second of work. A list of 50,000 values of a usual key takes a twentieth.
const STEPS_MAX: u64 = 20_000_000;

/// The steps that were taken so far.
#[derive(Debug, Default)]
pub struct Effort(Cell<u64>);

impl Effort {
    /// Counts the expressions, each to be evaluated so many times; `None` where that is too much.
    pub(super) fn spend<'e>(&self, times: usize, of: impl IntoIterator<Item = &'e Expr>) -> Option<()> {
        let mut nodes = 0u64;
        of.into_iter().for_each(|expr| expr.walk(&mut |_| nodes += 1));
        self.0.set(self.0.get().saturating_add(nodes.saturating_mul(times as u64)));
        self.within().ok()
    }

    /// # Errors
    /// 54001 where more was counted than one statement may take.
    pub(super) fn within(&self) -> Result<(), Refusal> {
        if self.0.get() <= STEPS_MAX {
            return Ok(());
        }
        Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "listing the values of the group keys and of what is counted takes too long")
            .detail(
                "Values of keys, of COUNT(DISTINCT ...) and of MODE() are computed from the listed values of their columns before any row is read.",
            )
            .hint("Shorten these expressions, narrow their columns with WHERE, or ask for fewer of them at once."))
    }
}
