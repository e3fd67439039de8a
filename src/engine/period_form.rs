//! The form by periods of a question's plan. Pure: it depends on the statement, the policy and the
//! session alone.

use std::sync::Arc;

use super::internal;
use crate::aggregates::{Foreseen, Output};
use crate::analyze::{
    AnalyzedRelease, ByPeriod, KeyCombinations, KeyRule, PeriodLimits, PlanningEffort, analyze,
    unit_of,
};
use crate::calendar::period::{Period, PeriodSet};
use crate::catalog::Type;
use crate::error::Error;
use crate::ir::{KeyId, ReleaseId, ResolvedQuery};
use crate::mechanism::{Fixed, Mechanism, SquareRoot, TotalsErrors};
use crate::policy::{
    ClipChoice, OpenPeriods, Policy, Prepaid, PrepaidAnswers, Reuse, SessionSettings,
};
use crate::refusal::{Refusal, reason};
use crate::resolve::Constants;
use crate::rewrite::periods::{AskedPeriods, PrepaidTerms};
use crate::rewrite::{Measure, PeriodBatch, Plan, Price, ReleasePlan, Terms, TotalsBatch, rewrite};

/// A number of periods whose plan stands for those of several.
const MANY: usize = 8;

/// The one release of a question by periods.
pub(super) const ONLY: ReleaseId = ReleaseId(0);

/// A question that may be answered by periods.
pub(super) struct Candidate {
    asked: AskedPeriods,
}

impl Candidate {
    /// `None` if the session asks for open periods too, for a target error, for narrower limits or
    /// for stored answers of the same question only; or if the question is not by periods.
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
        let by_root = || self.prepaid_form(policy, terms, effort, PrepaidAnswers::Totals);
        let apart = || self.prepaid_form(policy, terms, effort, PrepaidAnswers::Periods);
        if let Some(form) = by_root().or_else(apart) {
            return plan.or_by_periods(Some(form));
        }
        let form = |clip: ClipChoice| {
            let terms = with_clip(terms, clip);
            let periods = self.asked.periods();
            let first = |count: usize| {
                let end = (0..count).fold(periods.from, |end, _| end.next());
                let query = self.asked.within(&PeriodSet::between(periods.from, end));
                let analyzed = analyze(query, policy, &terms.session_settings, effort).ok()?;
                rewrite(&analyzed, policy, &terms).ok()
            };
            // An answer's description may depend on the number of its periods.
            let (one, many) = (first(1)?, first(MANY)?);
            let is_right = may_be_joined(one.release(ONLY))
                && may_be_joined(many.release(ONLY))
                && is_same_form(many.release(ONLY), one.release(ONLY))
                && lists_same_keys(many.release(ONLY), one.release(ONLY));
            // If no look chooses a clip, for few periods or for many, sessions with chosen clips
            // and with fixed ones share their answers.
            let is_looked_at = [&one, &many].map(|plan| plan.release(ONLY).look().is_some());
            let is_right = is_right && (clip != ClipChoice::Auto || is_looked_at == [true, true]);
            let question = one.release(ONLY).lasting().filter(|_| is_right)?;
            Some(one.into_form_by_periods(self.asked.clone().with_clip(clip), question))
        };
        let by_looks = match terms.session_settings.clip {
            ClipChoice::Auto => form(ClipChoice::Auto),
            ClipChoice::Fixed | ClipChoice::Declared => None,
        };
        let form = by_looks.or_else(|| form(ClipChoice::Declared));
        let plan = match (form.is_some(), self.asked.periods().prepaid) {
            (false, Some(_)) => {
                let table = &policy.tables[self.asked.table().0];
                plan.noting(format!(
                    "periods of {}.{} are prepaid for counts, sums and arithmetic on them, with \
                        listed keys: this question is bought as a whole",
                    table.schema, table.name
                ))
            }
            _ => plan,
        };
        plan.or_by_periods(form)
    }

    /// The form with prepaid periods, where the policy has a price for a horizon: noise is
    /// Gaussian, of a clip by declared bounds that is known from the first draw on, and all keys
    /// are listed.
    fn prepaid_form(
        &self,
        policy: &Policy,
        terms: &Terms,
        effort: &Arc<PlanningEffort>,
        answers: PrepaidAnswers,
    ) -> Option<Plan> {
        let (asked, periods) = (&self.asked, self.asked.periods());
        let declared = periods.prepaid?;
        let totals_over = match answers {
            PrepaidAnswers::Periods => None,
            PrepaidAnswers::Totals => Some(self.totals_over()?),
        };
        let by_period = ByPeriod {
            totals_over,
            ..asked.by_period()?
        };
        let terms = with_clip(terms, ClipChoice::Declared);
        let first = |count: usize| {
            let end = (0..count).fold(periods.from, |end, _| end.next());
            PeriodSet::between(periods.from, end)
        };
        let settings = &terms.session_settings;
        let one_period = analyze(asked.within(&first(1)), policy, settings, effort).ok()?;
        let [of_one] = one_period.releases() else {
            return None;
        };
        let table = &policy.tables[asked.table().0];
        let rows_of_table = u64::from(unit_of(table)?.rows_per_unit.max(1));
        let rows = declared.rows.map_or(rows_of_table, u64::from);
        // A join may pair a row with several.
        let limits = PeriodLimits {
            rows: rows.saturating_mul(of_one.rows_by_tables.div_ceil(rows_of_table)),
            groups: of_one.listed_groups(),
        };
        let prepaid = PrepaidTerms {
            declared,
            by_period,
            limits,
            epsilon: terms.epsilon,
            data_version: policy.privacy.data_version.clone(),
        };
        let asked = asked.clone().with_prepaid(prepaid);
        let drawn = |count: usize| {
            let effort = (policy, &terms, effort);
            plan_periods(&asked, (periods.from, &first(count)), effort).ok()
        };
        // Each draw of totals reads all periods since the beginning.
        let most = match answers {
            PrepaidAnswers::Periods => MANY.min(declared.horizon as usize),
            PrepaidAnswers::Totals => declared.horizon as usize,
        };
        let (one, many) = (drawn(1)?, drawn(most)?);
        let [of_one, of_many] = [&one, &many].map(|plan| plan.release(ONLY));
        let has_totals = |release: &ReleasePlan| match answers {
            PrepaidAnswers::Periods => true,
            PrepaidAnswers::Totals => adds_up(release, asked.key()),
        };
        let is_right = [of_one, of_many].into_iter().all(is_prepayable)
            && [of_one, of_many].into_iter().all(has_totals)
            && is_same_form(of_many, of_one)
            && one.loss() == many.loss();
        let question = of_one.lasting().filter(|_| is_right)?;
        Some(one.into_form_by_periods(asked, question))
    }
}

impl Candidate {
    /// The number of periods of a horizon, where its running totals are drawn by the square root:
    /// the policy asks for totals, they have less noise so, and each period has one value of its
    /// key. It depends on the policy and the question alone.
    fn totals_over(&self) -> Option<u32> {
        let declared = self.asked.periods().prepaid?;
        let is_better = || totals_errors(&declared).is_root_better();
        let is_by_root = declared.answers == PrepaidAnswers::Totals
            && is_better()
            && self.asked.has_one_value_a_period();
        is_by_root.then_some(declared.horizon)
    }
}

/// The errors of running totals over a horizon, by the square root and without it.
pub(super) fn totals_errors(declared: &Prepaid) -> TotalsErrors {
    SquareRoot::new(declared.horizon).errors(declared.counted_periods())
}

/// Whether the release has counts and sums alone, whose totals over periods are sums, and each
/// combination of its other keys has all periods.
fn adds_up(release: &ReleasePlan, period: usize) -> bool {
    let is_sum = |measure: &Measure| matches!(measure, Measure::Count(_) | Measure::Sum { .. });
    let is_measure = |(output, _): &(Output, Type)| match output.foreseen() {
        Foreseen::Measure(measure) => is_sum(release.measure(measure)),
        _ => false,
    };
    let is_apart = |of: &KeyCombinations| !of.keys.contains(&KeyId(period));
    release.outputs().iter().all(is_measure)
        && release.tuples().iter().all(is_apart)
        && release.measures().iter().all(is_sum)
        && release.price().is_some_and(|price| price.totals.is_some())
}

/// Whether one price may cover draws of this release: their only loss is that of Gaussian noise.
fn is_prepayable(release: &ReleasePlan) -> bool {
    let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
    let is_gaussian = |price: &Price| {
        price.mechanism == Mechanism::Gaussian
            && price.threshold.is_none()
            && !price.within_clip
            && price.loss.delta == Fixed::ZERO
    };
    may_be_joined(release)
        && release.look().is_none()
        && release.keys().iter().all(is_listed)
        && release.price().is_some_and(is_gaussian)
}

/// The plan of a statement for some periods of a horizon that begins with `since`.
fn plan_periods(
    asked: &AskedPeriods,
    (since, periods): (Period, &PeriodSet),
    (policy, terms, effort): (&Policy, &Terms, &Arc<PlanningEffort>),
) -> Result<Plan, Error> {
    let prepaid = asked.prepaid().ok_or_else(not_by_periods)?;
    let query = asked.first_within(since, periods);
    let query = query.ok_or_else(not_by_periods)?;
    let analyzed = analyze(query, policy, &terms.session_settings, effort);
    let analyzed = analyzed.map_err(Error::Analyze)?;
    if analyzed
        .releases()
        .iter()
        .any(AnalyzedRelease::is_thresholded)
    {
        return Err(Error::Rewrite(too_many(periods, asked).detail(UNLISTED)));
    }
    let analyzed = analyzed.by_period(&prepaid.by_period, prepaid.limits);
    rewrite(&analyzed, policy, terms).map_err(Error::Rewrite)
}

/// The plan that draws these periods of a horizon that begins with `since`, under the terms that
/// were paid; `None` where no row can be in them. Its loss is that of the horizon. Where running
/// totals are drawn, its statement reads all periods since the beginning.
///
/// # Errors
/// As [`plan_batch`].
pub fn plan_draw(
    form: &Plan,
    (since, periods): (Period, &PeriodSet),
    (policy, terms): (&Policy, &Terms),
    effort: &Arc<PlanningEffort>,
) -> Result<Option<Plan>, Error> {
    let asked = form.periods().ok_or_else(not_by_periods)?;
    let terms = with_clip(terms, ClipChoice::Declared);
    let has_totals = form.has_totals();
    let read = match periods.hull() {
        Some((_, end)) if has_totals => PeriodSet::between(since, end),
        Some(_) | None => periods.clone(),
    };
    let planned = plan_periods(asked, (since, &read), (policy, &terms, effort))?;
    let (release, shape) = (planned.release(ONLY), form.release(ONLY));
    if release.statements().is_empty() {
        return Ok(None);
    }
    let is_right = is_prepayable(release)
        && is_same_form(release, shape)
        && (!has_totals
            || (adds_up(release, asked.key()) && release.coordinates() == shape.coordinates()));
    if !is_right {
        return Err(Error::Rewrite(too_many(periods, asked).detail(UNLISTED)));
    }
    let batch = PeriodBatch {
        question: shape.question(),
        periods: periods.clone(),
        epsilon: terms.epsilon,
        totals: has_totals.then(|| TotalsBatch {
            key: asked.key(),
            length: asked.periods().length,
            block: since,
        }),
    };
    Ok(Some(planned.into_batch(ONLY, batch)))
}

/// The plan that buys these periods, at least one, of a question that has this form; `None` where
/// no row can be in them. If clips are chosen from a look, each purchase has its own look.
///
/// # Errors
/// As [`analyze`] and [`rewrite`], and 54000 where they are too many.
pub fn plan_batch(
    form: &Plan,
    periods: &PeriodSet,
    (policy, terms): (&Policy, &Terms),
    effort: &Arc<PlanningEffort>,
) -> Result<Option<Plan>, Error> {
    let asked = form.periods().ok_or_else(not_by_periods)?;
    let terms = with_clip(terms, asked.clip());
    let query = asked.within(periods);
    let analyzed = analyze(query, policy, &terms.session_settings, effort);
    let analyzed = analyzed.map_err(Error::Analyze)?;
    let planned = rewrite(&analyzed, policy, &terms).map_err(Error::Rewrite)?;
    let (release, shape) = (planned.release(ONLY), form.release(ONLY));
    if release.statements().is_empty() {
        return Ok(None);
    }
    let is_looked_at = release.look().is_some() || shape.look().is_none();
    let refused = match (lists_same_keys(release, shape), is_looked_at) {
        (false, _) => Some(UNLISTED),
        (true, false) => Some(NOT_LOOKED_AT),
        (true, true) => (!is_same_form(release, shape)).then_some(OTHERWISE_BOUNDED),
    };
    if let Some(detail) = refused {
        return Err(Error::Rewrite(too_many(periods, asked).detail(detail)));
    }
    if !may_be_joined(release) {
        return Err(internal("rewrite", &"some periods cannot be joined"));
    }
    let batch = PeriodBatch {
        question: shape.question(),
        periods: periods.clone(),
        epsilon: terms.epsilon,
        totals: None,
    };
    Ok(Some(planned.into_batch(ONLY, batch)))
}

/// The session's terms, with this way to choose clips.
fn with_clip(terms: &Terms, clip: ClipChoice) -> Terms {
    Terms {
        session_settings: SessionSettings {
            clip,
            ..terms.session_settings
        },
        ..terms.clone()
    }
}

/// Whether answers for different periods, with different noise, can be rows of one table: they have
/// counts, sums and arithmetic on them only.
fn may_be_joined(release: &ReleasePlan) -> bool {
    let mut outputs = release.outputs().iter();
    let is_by_noise = outputs.any(|(output, _)| output.foreseen() == Foreseen::Chance);
    let has_vector = release.price().is_some() && !release.statements().is_empty();
    has_vector
        && !is_by_noise
        && release.choices().is_empty()
        && release.price().is_some_and(|price| price.effects.is_none())
        && release.constants().is_empty()
        && release.no_row().is_none()
        && release.models().next().is_none()
}

/// Whether both decode to the same columns.
fn is_same_form(one: &ReleasePlan, other: &ReleasePlan) -> bool {
    one.measures() == other.measures()
        && one.outputs() == other.outputs()
        && one.key_columns() == other.key_columns()
}

/// Whether the same keys of both have listed values. The others are shown by threshold.
fn lists_same_keys(one: &ReleasePlan, other: &ReleasePlan) -> bool {
    let is_listed = |(_, rule): &(_, KeyRule)| matches!(rule, KeyRule::Domain(_));
    let (of_one, of_other) = (one.keys().iter(), other.keys().iter());
    of_one.map(is_listed).eq(of_other.map(is_listed))
}

/// The refusal where groups would be shown by a threshold: periods that are bought are kept, so
/// small groups would never be shown.
const UNLISTED: &str = "The values of a key are not listed for this many, and groups of few units \
    would be left out for good. Nothing was charged.";

const NOT_LOOKED_AT: &str = "They have too many groups for a look, which chooses the clip of \
    fewer. Nothing was charged.";

const OTHERWISE_BOUNDED: &str = "Together their values are bounded in another way than those of \
    one period. Nothing was charged.";

pub(super) fn too_many(missing: &PeriodSet, asked: &AskedPeriods) -> Refusal {
    let length = asked.periods().length.name();
    let missing = missing.count();
    Refusal::new(
        reason::TOO_MANY_PERIODS,
        format!("too many periods to be bought at once: {missing} {length}s"),
    )
    .hint(
        "Ask for a shorter range first, or GROUP BY a coarser key. SET pgveil.open_periods = on \
            asks an ordinary question, and buys all of it each time.",
    )
}

pub(super) fn not_by_periods() -> Error {
    internal("rewrite", &"a plan is not by periods")
}
