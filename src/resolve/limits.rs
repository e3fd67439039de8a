//! Limits on the size of a statement that is resolved.

use std::cell::Cell;

use crate::refusal::{Refusal, reason};

/// Most SELECTs over private rows that one statement may resolve.
const SELECTS_MAX: usize = 1000;
/// Deepest nesting of such SELECTs, for example of names in FROM that lead to other names.
const DEPTH_MAX: usize = 100;

/// Most parts of conditions on collected columns, times the values that they are decided for.
const DECISIONS_MAX: usize = 200_000;

#[derive(Default)]
pub(super) struct ResolveLimits {
    /// How many were decided so far: each aggregate decides its conditions.
    decisions: Cell<usize>,
    /// How often the FROM of a SELECT over private rows was read: a definition of WITH is read at
    /// each place that names it.
    selects: usize,
    /// How many of these are open.
    depth: usize,
}

impl ResolveLimits {
    /// Counts a SELECT over private rows, before its FROM is read.
    ///
    /// # Errors
    /// 54001 past a limit.
    pub fn enter(&mut self) -> Result<(), Refusal> {
        self.selects += 1;
        if self.selects > SELECTS_MAX || self.depth >= DEPTH_MAX {
            return Err(too_many());
        }
        self.depth += 1;
        Ok(())
    }

    /// Counts conditions that are decided for each value of a list. Whether the statement may still
    /// decide that many.
    pub fn decide(&self, count: usize) -> bool {
        let all = self.decisions.get().saturating_add(count);
        self.decisions.set(all);
        all <= DECISIONS_MAX
    }

    /// Ends what [`Self::enter`] began.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }
}

pub(super) fn too_many() -> Refusal {
    Refusal::new(
        reason::TOO_MANY_PARTS,
        "subqueries over private rows are nested too deeply, or are too many",
    )
}
