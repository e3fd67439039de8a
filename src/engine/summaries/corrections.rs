//! Summaries that were corrected by answers that were bought. They are in the memory of this
//! process, for each role by itself: another role sees what it bought alone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::read_within;
use crate::analyze::PlanningEffort;
use crate::engine::Engine;
use crate::engine::planning_limit::aside;
use crate::error::Error;
use crate::ledger::AnswerId;
use crate::policy::Reuse;
use crate::release::{Corrections, ReleasedTable, Rollup};
use crate::rewrite::ReleasePlan;
use crate::shadow::Requester;

/// The corrections of each role and summary.
#[derive(Default)]
pub(super) struct AllCorrections(Mutex<HashMap<(String, AnswerId), Arc<Mutex<Corrections>>>>);

impl AllCorrections {
    fn find(&self, role: &str, answer: AnswerId) -> Option<Arc<Mutex<Corrections>>> {
        let key = (role.to_owned(), answer);
        lock(&self.0).get(&key).map(Arc::clone)
    }

    fn find_or_begin(&self, role: &str, answer: AnswerId) -> Arc<Mutex<Corrections>> {
        let key = (role.to_owned(), answer);
        Arc::clone(lock(&self.0).entry(key).or_default())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// What was read off a summary, corrected where the session asks for checks.
    pub(super) fn corrected(
        &self,
        requester: &Requester,
        (answer, summary): (AnswerId, &ReleasedTable),
        (release, made): (&ReleasePlan, Rollup),
        effort: &PlanningEffort,
    ) -> Rollup {
        if self.reuse(requester) != Reuse::Checked {
            return made;
        }
        match self.summaries.corrections.find(&requester.role, answer) {
            Some(own) => aside(|| lock(&own).correct(made, (summary, release), effort)),
            None => made,
        }
    }

    /// Corrects a summary by an answer to a release, with its standard deviation.
    pub(in crate::engine) async fn correct_summary(
        &self,
        requester: &Requester,
        (name, release): (&str, &ReleasePlan),
        bought: (f64, f64),
    ) -> Result<(), Error> {
        let effort = PlanningEffort::default();
        for (at, summary, declared) in self.related_summaries(requester, release) {
            if summary.name != name {
                continue;
            }
            let Some(newest) = self.newest(requester, declared).await? else {
                continue;
            };
            let Some(table) = self.read(requester, at, &newest).await? else {
                continue;
            };
            let Some(made) = aside(|| read_within(release, &table, &effort)) else {
                continue;
            };
            let corrections = &self.summaries.corrections;
            let own = corrections.find_or_begin(&requester.role, newest.answer);
            aside(|| lock(&own).add(&made, (&table, release), bought));
        }
        Ok(())
    }
}
