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

/// The corrections of each role, by the summary's place in the policy. They are of one making of
/// the summary.
#[derive(Default)]
pub(super) struct AllCorrections(Mutex<HashMap<(String, usize), OfMaking>>);

/// A making of a summary, and its corrections.
type OfMaking = (AnswerId, Arc<Mutex<Corrections>>);

impl AllCorrections {
    fn find(&self, role: &str, at: usize, answer: AnswerId) -> Option<Arc<Mutex<Corrections>>> {
        let all = lock(&self.0);
        let found = all.get(&(role.to_owned(), at));
        found.and_then(|(made, own)| (*made == answer).then(|| Arc::clone(own)))
    }

    /// The corrections of this making; those of an earlier one are dropped.
    fn find_or_begin(&self, role: &str, at: usize, answer: AnswerId) -> Arc<Mutex<Corrections>> {
        let mut all = lock(&self.0);
        let begin = || (answer, Arc::default());
        let found = all.entry((role.to_owned(), at)).or_insert_with(begin);
        if found.0 != answer {
            *found = begin();
        }
        Arc::clone(&found.1)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// What was read off a summary, corrected where the session asks for checks.
    pub(super) fn correct_answer(
        &self,
        requester: &Requester,
        (at, answer, summary): (usize, AnswerId, &ReleasedTable),
        (release, made): (&ReleasePlan, Rollup),
    ) -> Rollup {
        if self.reuse(requester) != Reuse::Checked {
            return made;
        }
        match self.summaries.corrections.find(&requester.role, at, answer) {
            Some(own) => aside(|| lock(&own).correct(made, (summary, release))),
            None => made,
        }
    }

    /// Corrects a summary by an answer to a release, with its standard deviation. False where the
    /// answer corrects nothing.
    pub(in crate::engine) async fn correct_summary(
        &self,
        requester: &Requester,
        (name, release): (&str, &ReleasePlan),
        bought: (f64, f64),
    ) -> Result<bool, Error> {
        let effort = PlanningEffort::default();
        for related in self.related_summaries(requester, release) {
            if related.summary.name != name {
                continue;
            }
            let at = related.at;
            let Some(newest) = self.newest(requester, related.declared).await? else {
                continue;
            };
            let Some(table) = self.read(requester, at, &newest).await? else {
                continue;
            };
            let Some(table) = aside(|| related.read(&table)) else {
                continue;
            };
            let Some(made) = aside(|| read_within(release, &table, &effort)) else {
                continue;
            };
            let corrections = &self.summaries.corrections;
            let own = corrections.find_or_begin(&requester.role, at, newest.answer);
            return Ok(aside(|| lock(&own).add(&made, (&table, release), bought)));
        }
        Ok(false)
    }
}
