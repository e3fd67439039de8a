//! The texts by which PostgreSQL confirms the columns of recent plans: made once for each plan.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::finish;
use crate::ir::MiddleId;
use crate::refusal::Refusal;
use crate::rewrite::Plan;

/// The most plans whose texts are kept.
const KEPT: usize = 32;
/// The most bytes of one plan's texts that are kept.
const BYTES_MAX: usize = 32 << 10;

/// A plan's queries over releases without rows.
#[derive(Debug)]
pub(super) struct ShapeTexts {
    /// In the order of the plan's middle queries.
    pub middles: Vec<String>,
    pub outer: String,
}

impl ShapeTexts {
    fn of(plan: &Plan, rows_max: u32) -> Result<Self, Refusal> {
        let middles = (0..plan.middles().len()).map(MiddleId);
        let middles = middles.map(|number| finish::middle_shape(plan, number, rows_max));
        Ok(Self {
            middles: middles.collect::<Result<_, _>>()?,
            outer: finish::shape(plan)?,
        })
    }

    fn bytes(&self) -> usize {
        self.outer.len() + self.middles.iter().map(String::len).sum::<usize>()
    }
}

/// Texts of plans that are in use or kept elsewhere, those used last first.
#[derive(Debug, Default)]
pub(super) struct KnownShapes(Mutex<VecDeque<(Weak<Plan>, Arc<ShapeTexts>)>>);

impl KnownShapes {
    /// The plan's texts. `rows_max` is that of the policy, the same each time.
    ///
    /// # Errors
    /// Those of [`finish::shape`].
    pub(super) fn of(&self, plan: &Arc<Plan>, rows_max: u32) -> Result<Arc<ShapeTexts>, Refusal> {
        if let Some(found) = self.find(plan) {
            return Ok(found);
        }
        let texts = Arc::new(ShapeTexts::of(plan, rows_max)?);
        if texts.bytes() <= BYTES_MAX {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|(of, _)| of.strong_count() > 0);
            known.push_front((Arc::downgrade(plan), Arc::clone(&texts)));
            known.truncate(KEPT);
        }
        Ok(texts)
    }

    /// A plan that is dropped keeps its address here, so no other plan is taken for it.
    fn find(&self, plan: &Arc<Plan>) -> Option<Arc<ShapeTexts>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(of, _): &(Weak<Plan>, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(plan));
        let at = known.iter().position(is_it)?;
        let found = known.remove(at)?;
        let texts = Arc::clone(&found.1);
        known.push_front(found);
        Some(texts)
    }
}
