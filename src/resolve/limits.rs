//! Limits on the size of a statement that is resolved.

use crate::refusal::{Refusal, reason};

/// Most SELECTs over private rows that one statement may resolve.
const SELECTS_MAX: usize = 1000;
/// Deepest nesting of such SELECTs, for example of names in FROM that lead to other names.
const DEPTH_MAX: usize = 100;

#[derive(Default)]
pub(super) struct ResolveLimits {
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
