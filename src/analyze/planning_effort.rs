//! A limit on the time to make the lists of a statement's keys, its emitted statements, and its
//! sums of stored answers. Planning is free, and planning for one session keeps others waiting.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ir::Expr;
use crate::ir::evaluate::weight;
use crate::refusal::{Refusal, reason};

/// Most steps of one statement, each node of an expression taking its [`weight`] when it is
/// evaluated once: about a second of work on usual values, and a few on the longest texts. A list
/// of 50,000 values of a usual key takes a twentieth.
const STEPS_MAX: u64 = 20_000_000;

/// Most steps of a statement that is planned at once, without waiting for the role's turn: some 50
/// ms, and some megabytes.
const SMALL_STEPS: u64 = 1_000_000;

/// The steps taken so far, and how many may be taken.
#[derive(Debug)]
pub struct PlanningEffort {
    evaluated: AtomicU64,
    emitted: AtomicU64,
    /// The limit of each of the two counts.
    most: u64,
}

impl Default for PlanningEffort {
    fn default() -> Self {
        Self {
            evaluated: AtomicU64::new(0),
            emitted: AtomicU64::new(0),
            most: STEPS_MAX,
        }
    }
}

impl PlanningEffort {
    /// A limit for work that has to be small.
    pub fn small() -> Self {
        Self {
            most: SMALL_STEPS,
            ..Self::default()
        }
    }

    /// Whether the limit was exceeded: something was refused, or less of it was made.
    pub fn is_spent(&self) -> bool {
        [&self.evaluated, &self.emitted]
            .into_iter()
            .any(|taken| taken.load(Ordering::Relaxed) > self.most)
    }

    /// Counts the evaluation of each expression this many times; `None` if that is too much.
    pub fn spend<'e>(&self, times: usize, of: impl IntoIterator<Item = &'e Expr>) -> Option<()> {
        let mut each = 0u64;
        of.into_iter()
            .for_each(|expr| expr.walk(&mut |node| each = each.saturating_add(weight(node))));
        self.take(each.saturating_mul(times as u64))
    }

    /// Counts this many steps of another kind; `None` where that is too much.
    pub fn take(&self, steps: u64) -> Option<()> {
        self.count(&self.evaluated, steps)
    }

    /// Counts steps of work that can be left out. Where they are too many, nothing is counted, and
    /// what comes later may still be done.
    pub fn take_if_left(&self, steps: u64) -> Option<()> {
        let taken = self.evaluated.load(Ordering::Relaxed);
        (taken.saturating_add(steps) <= self.most).then(|| self.take(steps))?
    }

    /// Work that can be left out: within what is left, but it takes nothing from what comes later.
    pub fn apart<T>(&self, work: impl FnOnce() -> T) -> T {
        let counters = [&self.evaluated, &self.emitted];
        let before = counters.map(|taken| taken.load(Ordering::Relaxed));
        let done = work();
        for (taken, before) in counters.into_iter().zip(before) {
            taken.store(before, Ordering::Relaxed);
        }
        done
    }

    /// Counts the steps of emission, up to a separate limit of the same size.
    pub fn emit(&self, steps: u64) -> Option<()> {
        self.count(&self.emitted, steps)
    }

    fn count(&self, taken: &AtomicU64, steps: u64) -> Option<()> {
        // A limit once exceeded stays exceeded: one step past it is enough.
        let spent = taken
            .load(Ordering::Relaxed)
            .saturating_add(steps)
            .min(self.most + 1);
        taken.store(spent, Ordering::Relaxed);
        (spent <= self.most).then_some(())
    }

    /// # Errors
    /// 54001 where more was counted than one statement may take.
    pub(super) fn within(&self) -> Result<(), Refusal> {
        if self.evaluated.load(Ordering::Relaxed) <= self.most {
            return Ok(());
        }
        Err(Refusal::new(
            reason::PLANNING_TOO_LONG,
            "listing the values of the group keys \
            and \
            of what is counted takes too long",
        )
        .detail(
            "The values of group keys, COUNT(DISTINCT ...) and MODE() are computed from \
                the listed values of their columns before any row is read.",
        )
        .hint(
            "Simplify these expressions, narrow their columns with WHERE, or use fewer of \
                them in one query.",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl PlanningEffort {
        /// The steps that were counted.
        pub fn steps(&self) -> u64 {
            self.evaluated.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn little_work_is_distinguished_from_much() {
        for (effort, most) in [
            (PlanningEffort::small(), SMALL_STEPS),
            (PlanningEffort::default(), STEPS_MAX),
        ] {
            assert_eq!([effort.take(most), effort.emit(most)], [Some(()); 2]);
            assert!(!effort.is_spent() && effort.within().is_ok());
            assert_eq!(effort.apart(|| effort.take(1)), None);
            assert!(!effort.is_spent());
            assert_eq!(effort.take(1), None);
            assert!(effort.is_spent());
            assert_eq!(effort.within().unwrap_err().sqlstate, "54001");
        }
    }
}
