//! How long the lists of a statement's keys, and its sums of stored answers, may take to make. Whoever plans pays nothing, and what is planned for one session keeps others
//! waiting.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::refusal::{Refusal, sqlstate};
use crate::resolve::Expr;
use crate::resolve::evaluate::weight;

/// Most steps of one statement, each node of an expression taking its [`weight`] when it is evaluated once: about a second of work on usual values, and a few on the longest
/// texts. A list of 50,000 values of a usual key takes a twentieth.
const STEPS_MAX: u64 = 20_000_000;

/// The steps that were taken so far.
#[derive(Debug, Default)]
pub struct Effort(AtomicU64);

impl Effort {
    /// Counts the expressions, each to be evaluated so many times; `None` where that is too much.
    pub fn spend<'e>(&self, times: usize, of: impl IntoIterator<Item = &'e Expr>) -> Option<()> {
        let mut each = 0u64;
        of.into_iter().for_each(|expr| expr.walk(&mut |node| each = each.saturating_add(weight(node))));
        self.take(each.saturating_mul(times as u64))
    }

    /// Counts so many steps of another kind; `None` where that is too much.
    pub fn take(&self, steps: u64) -> Option<()> {
        // What was refused once stays refused: a step past the limit is enough.
        let spent = self.0.load(Ordering::Relaxed).saturating_add(steps).min(STEPS_MAX + 1);
        self.0.store(spent, Ordering::Relaxed);
        (spent <= STEPS_MAX).then_some(())
    }

    /// # Errors
    /// 54001 where more was counted than one statement may take.
    pub(super) fn within(&self) -> Result<(), Refusal> {
        if self.0.load(Ordering::Relaxed) <= STEPS_MAX {
            return Ok(());
        }
        Err(Refusal::new(sqlstate::STATEMENT_TOO_COMPLEX, "listing the values of the group keys and of what is counted takes too long")
            .detail(
                "Values of keys, of COUNT(DISTINCT ...) and of MODE() are computed from the listed values of their columns before any row is read.",
            )
            .hint("Shorten these expressions, narrow their columns with WHERE, or ask for fewer of them at once."))
    }
}
