//! The form by periods of a question's plan. Pure: it depends on the statement, the policy and the
//! session alone.

use std::sync::Arc;

use crate::aggregates::Foreseen;
use crate::analyze::{KeyRule, PlanningEffort, analyze};
use crate::calendar::period::PeriodSet;
use crate::ir::{ReleaseId, ResolvedQuery};
use crate::policy::{ClipChoice, OpenPeriods, Policy, Reuse, SessionSettings};
use crate::resolve::Constants;
use crate::rewrite::periods::AskedPeriods;
use crate::rewrite::{Plan, ReleasePlan, Terms, rewrite};

/// A number of periods whose plan stands for those of several.
const MANY: usize = 8;

/// The one release of a question by periods.
pub(super) const ONLY: ReleaseId = ReleaseId(0);

/// A question that may be answered by periods.
pub(super) struct Candidate {
    asked: AskedPeriods,
}

impl Candidate {
    /// `None` where the session asks for open periods too, for an error, for narrower limits or for
    /// the same question alone; or where the question is not by periods.
    pub fn of(
        query: &ResolvedQuery,
        policy: &Policy,
        terms: &Terms,
        constants: &Constants,
    ) -> Option<Self> {
        let settings = &terms.session_settings;
        // Another clip would be another answer to the same question.
        let is_narrowed = settings.groups_per_unit.is_some() || settings.rows_per_unit.is_some();
        let is_wanted = settings.open_periods == OpenPeriods::Off
            && settings.reuse != Reuse::Exact
            && settings.target_error.is_none()
            && !is_narrowed
            && constants.is_utc;
        let has_periods = policy.tables.iter().any(|table| table.periods.is_some());
        if !is_wanted || !has_periods {
            return None;
        }
        Some(Self {
            asked: AskedPeriods::of(query, policy)?,
        })
    }

    /// The ordinary plan, with its form by periods if there is one.
    pub fn attach(
        self,
        plan: Plan,
        policy: &Policy,
        terms: &Terms,
        effort: &Arc<PlanningEffort>,
    ) -> Plan {
        let terms = by_declared_bounds(terms);
        let planned = |query| {
            let analyzed = analyze(query, policy, &terms.session_settings, effort).ok()?;
            rewrite(&analyzed, policy, &terms).ok()
        };
        let form = || {
            let periods = self.asked.periods();
            let first = |count: usize| {
                let end = (0..count).fold(periods.from, |end, _| end.next());
                planned(self.asked.within(&PeriodSet::between(periods.from, end)))
            };
            // What is said of one answer may depend on how many periods it is for.
            let (one, many) = (first(1)?, first(MANY)?);
            let is_right = may_be_joined(one.release(ONLY))
                && may_be_joined(many.release(ONLY))
                && is_same_form(many.release(ONLY), one.release(ONLY))
                && lists_same_keys(many.release(ONLY), one.release(ONLY));
            let question = one.release(ONLY).lasting().filter(|_| is_right)?;
            Some(one.into_form_by_periods(self.asked, question))
        };
        plan.or_by_periods(form())
    }
}

/// The session's terms, but with clips by declared bounds alone: a look at the data would be one at
/// those periods that are bought first.
pub(super) fn by_declared_bounds(terms: &Terms) -> Terms {
    Terms {
        session_settings: SessionSettings {
            clip: ClipChoice::Declared,
            ..terms.session_settings
        },
        ..terms.clone()
    }
}

/// Whether answers for different periods, with different noise, can stand in one table: all of it
/// is counts, sums and what is computed from them.
pub(super) fn may_be_joined(release: &ReleasePlan) -> bool {
    let mut outputs = release.outputs().iter();
    let is_by_noise = outputs.any(|(output, _)| output.foreseen() == Foreseen::Chance);
    let has_vector = release.price().is_some() && !release.statements().is_empty();
    has_vector
        && !is_by_noise
        && release.choices().is_empty()
        && release.look().is_none()
        && release.price().is_some_and(|price| price.effects.is_none())
        && release.constants().is_empty()
        && release.no_row().is_none()
        && release.models().next().is_none()
}

/// Whether both decode to the same columns.
pub(super) fn is_same_form(one: &ReleasePlan, other: &ReleasePlan) -> bool {
    one.measures() == other.measures()
        && one.outputs() == other.outputs()
        && one.key_columns() == other.key_columns()
}

/// Whether the same keys of both have listed values. The others are shown by threshold.
pub(super) fn lists_same_keys(one: &ReleasePlan, other: &ReleasePlan) -> bool {
    let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
    let (of_one, of_other) = (one.keys().iter(), other.keys().iter());
    of_one.map(is_listed).eq(of_other.map(is_listed))
}
