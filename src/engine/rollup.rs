//! Coarser questions answered by sums of a finer answer that the role has paid for: when a finer
//! answer serves, and its text in notices and EXPLAIN.

use super::planning_limit::aside;
use super::{Engine, ledger_failed};
use crate::aggregates::{Foreseen, Output};
use crate::analyze::PlanningEffort;
use crate::error::Error;
use crate::ir::{AggregateId, ReleaseId};
use crate::ledger::FamilyId;
use crate::policy::{ClipChoice, Policy, Reuse, RoleReuse};
use crate::release::{NoiseRecord, Rollup, coarser};
use crate::rewrite::{Plan, ReleasePlan};
use crate::shadow::Requester;

/// The most that a sum's error may exceed a bought answer's error. At this limit a bought answer of
/// the same error would cost a hundredth. A free answer does not prevent buying one later; a bought
/// one cannot be returned.
const WORSE_MAX: f64 = 10.0;

/// Errors closer than this count as equal.
pub(super) const SLACK: f64 = 1e-9;

/// A release that was rolled up, and its accuracy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FromFiner {
    pub release: ReleaseId,
    /// The most groups of the finer answer that one group is the sum of.
    pub groups: usize,
    /// The largest ratio of its error to the error of a bought answer.
    pub worse: f64,
    /// For aggregates whose standard error does not depend on the data: the aggregate, its error,
    /// and the error of a bought answer.
    pub errors: Vec<(AggregateId, f64, f64)>,
    pub cut: CutAt,
    pub source: FinerAnswer,
}

/// The finer answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FinerAnswer {
    /// An answer that the role bought.
    Bought,
    /// The summary of this name.
    Summary(String),
}

/// The groups at which a clip cuts. Finer groups are cut differently from coarse ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CutAt {
    Nothing,
    /// Rows of a unit above this number.
    Rows(u64),
    /// Units that are longer than a clip that a look chose. The error of a bought answer is then an
    /// estimate.
    Chosen,
}

impl Engine {
    /// How the session, or the role's policy, lets stored answers be used.
    pub(super) fn reuse(&self, requester: &Requester) -> Reuse {
        match requester.session_settings.reuse {
            Reuse::Off if !self.may_reuse_nothing(requester) => Reuse::On,
            chosen => chosen,
        }
    }

    /// Whether `pgveil.reuse = off` has an effect for the role.
    pub(super) fn may_reuse_nothing(&self, requester: &Requester) -> bool {
        let role = self.policy.role(&requester.role);
        role.is_none_or(|role| role.reuse != RoleReuse::Always)
    }

    /// The release as sums of a finer answer that the role holds; if there are several, of the one
    /// with the least error. `None` where no answer serves: because a wanted error is not met, or,
    /// without a wanted error, because the answer was bought at a lower epsilon than the session's,
    /// or its error is more than [`WORSE_MAX`] times that of a bought one. `effort` is the
    /// statement's.
    pub(super) async fn roll_up(
        &self,
        requester: &Requester,
        plan: &Plan,
        release: ReleaseId,
        effort: &PlanningEffort,
    ) -> Result<Option<(Rollup, FromFiner)>, Error> {
        let shape = plan.release(release);
        let Some(family) = shape
            .family()
            .filter(|_| self.reuse(requester).sums_groups())
        else {
            return Ok(None);
        };
        let relatives = self
            .ledger
            .relatives(&requester.role, FamilyId(*family.digest.as_bytes()))
            .await
            .map_err(|e| ledger_failed(&e))?;
        let is_wanted = requester.session_settings.target_error.is_some();
        let serves = |made: &Rollup| {
            shares_as_asked(requester, made)
                && !made.table.leaves_out()
                && is_good(requester, made)
                && (is_wanted || made.epsilon >= family.epsilon * (1.0 - SLACK))
        };
        let best = aside(|| {
            let made = relatives
                .iter()
                .filter_map(|stored| coarser(shape, stored, effort))
                .filter(serves);
            made.min_by(|a, b| a.worse.total_cmp(&b.worse))
        });
        Ok(best.map(|made| {
            let summed = FromFiner::of(release, shape, &made);
            (made, summed)
        }))
    }
}

/// A session with fixed clips is promised noise that is independent from group to group.
pub(super) fn shares_as_asked(requester: &Requester, made: &Rollup) -> bool {
    let drawn = made.table.drawn.as_ref();
    let shares = drawn.is_some_and(NoiseRecord::is_by_effects);
    !shares || requester.session_settings.clip != ClipChoice::Fixed
}

/// Whether its error is as wanted, or not much above that of a bought answer.
pub(super) fn is_good(requester: &Requester, made: &Rollup) -> bool {
    let most = match requester.session_settings.target_error {
        Some(_) => 1.0,
        None => WORSE_MAX,
    };
    made.worse <= most * (1.0 + SLACK)
}

impl FromFiner {
    pub fn of(release: ReleaseId, plan: &ReleasePlan, made: &Rollup) -> Self {
        let own = |measure| {
            made.table
                .drawn
                .as_ref()
                .map(|drawn| drawn.deviation(measure))
        };
        let error = |(at, (output, _)): (AggregateId, &(Output, _))| {
            let Foreseen::Measure(measure) = output.foreseen() else {
                return None;
            };
            let bought = made.bought.get(measure.0)?;
            Some((at, own(plan.measure(measure))?, *bought))
        };
        let errors = AggregateId::with_numbers(plan.outputs())
            .filter_map(error)
            .collect();
        let cut = match plan.price() {
            Some(price) if price.look.is_some() => CutAt::Chosen,
            Some(price) if !price.within_clip => CutAt::Rows(plan.facts().rows_per_unit),
            Some(_) | None => CutAt::Nothing,
        };
        Self {
            release,
            groups: made.summed,
            worse: made.worse,
            errors,
            cut,
            source: FinerAnswer::Bought,
        }
    }

    /// The summary that it comes from.
    pub fn summary(&self) -> Option<&str> {
        match &self.source {
            FinerAnswer::Bought => None,
            FinerAnswer::Summary(name) => Some(name),
        }
    }

    /// The roll-up in words: its source, its error, and how to get a better answer.
    pub fn describe(&self, policy: &Policy) -> String {
        let of = if self.groups == 1 {
            "groups".to_owned()
        } else {
            format!("sums of up to {} groups", self.groups)
        };
        let mut text = match &self.source {
            FinerAnswer::Bought => format!("answered by {of} of a finer answer that is paid for"),
            FinerAnswer::Summary(name) => format!("answered by {of} of summary {name}"),
        };
        let shown = |value: f64| {
            if value >= 100.0 {
                format!("{value:.0}")
            } else {
                format!("{value:.2}")
            }
        };
        let about = match self.cut {
            CutAt::Chosen => "about ",
            CutAt::Nothing | CutAt::Rows(_) => "",
        };
        for (at, own, bought) in &self.errors {
            text += &format!(
                "; aggregate {}: standard error {}, {about}{} if bought",
                at.ordinal(),
                shown(*own),
                shown(*bought)
            );
        }
        if self.errors.is_empty() {
            text += &format!(
                "; its standard error is at most {} times that of a bought one",
                shown(self.worse)
            );
        }
        let unit = &policy.privacy.unit;
        match self.cut {
            CutAt::Nothing => {}
            CutAt::Rows(rows) => {
                text += &format!(
                    "; rows of one {unit} above {rows} weigh as they do in the finer answer"
                );
            }
            CutAt::Chosen => {
                text += &format!("; each {unit} is cut as in the finer answer");
            }
        }
        text + "; SET pgveil.reuse = exact buys it"
    }
}
