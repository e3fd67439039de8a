//! Questions whose answers the noise would hide: refused before anything is charged, or answered
//! with a warning. Settings that would help are found by pricing variants of the question.

use std::sync::Arc;

use super::middle_queries::MiddleQueries;
use super::planning_limit::StatementSize;
use super::{Engine, Requester};
use crate::analyze::{KeyRule, PlanningEffort, analyze};
use crate::error::Error;
use crate::ir;
use crate::ir::{AggregateId, ReleaseId};
use crate::parse::Query;
use crate::policy::{ClipChoice, Policy, UselessMode};
use crate::refusal::{Refusal, reason};
use crate::release::Released;
use crate::resolve::{Constants, resolve};
use crate::rewrite::{Plan, Terms, UnitCount, Useless, best_error, rewrite, thin_groups, useless};

/// The most variants of one kind that are priced.
const TRIALS: usize = 6;

/// A question as it was planned.
#[derive(Clone, Copy)]
pub struct QuestionPlan<'a> {
    pub query: &'a Query,
    pub policy: &'a Policy,
    pub search_path: &'a [String],
    pub constants: &'a Constants,
    pub terms: &'a Terms,
    /// About how many units there are, where that is known.
    pub units: Option<UnitCount>,
}

/// How useful a question's answer would be despite the noise.
#[derive(Debug, Default)]
pub(super) struct Usefulness {
    /// The refusal, if the answer would say nothing.
    pub useless: Option<Refusal>,
    /// Warnings, if the answer would say little.
    pub warnings: Vec<Refusal>,
}

/// PV001 where the noise would hide an answer that has to be paid for, whatever the data are. The
/// hint names the first change that would do.
///
/// # Guarantee
/// The refusal depends on the arguments alone: the statement, the policy, the session, what the
/// role itself has spent, and the answers that it holds. No private row decides, nor what other
/// roles did.
pub fn refuse_useless(
    asked: &QuestionPlan<'_>,
    plan: &Plan,
    is_bought: impl Fn(ReleaseId) -> bool,
) -> Option<Refusal> {
    let mut found = useless(plan, asked.units);
    found.retain(|useless| is_bought(useless.release));
    let first = found.first()?;
    let mut hints: Vec<String> = hint(asked, plan, &found).into_iter().collect();
    if let Some((least, greatest)) = &first.known {
        hints.push(format!(
            "Whatever the data are, it lies from {least} to {greatest}."
        ));
    }
    let refusal = Refusal::new(reason::USELESS_QUESTION, &first.message);
    let known = match asked.units? {
        UnitCount::Policy(units) => format!("The policy says that there are about {units}"),
        UnitCount::Released(units) => {
            format!("Answers that you hold say that there are at most about {units}")
        }
    };
    let refusal = refusal.detail(format!(
        "Nothing was charged. {known} units, each a {}; SET pgveil.useless = warn asks anyway.",
        asked.policy.privacy.unit
    ));
    Some(if hints.is_empty() {
        refusal
    } else {
        refusal.hint(hints.join(" "))
    })
}

impl Engine {
    /// Refuses a useless question, or warns of it, as the session asks. Answers that the role
    /// holds are never refused.
    ///
    /// # Errors
    /// PV001; see [`refuse_useless`].
    pub(super) async fn check_useful(
        &self,
        requester: &Requester,
        query: &Query,
        plan: &Plan,
    ) -> Result<Vec<Refusal>, Error> {
        let mode = requester.session_settings.useless;
        if mode == UselessMode::Allow {
            return Ok(Vec::new());
        }
        let is_declared = self.policy.privacy.units.is_some();
        if !is_declared && self.holds_all(requester, plan).await? {
            return Ok(Vec::new());
        }
        let units = self.known_units(requester, plan).await?;
        if useless(plan, units).is_empty() && thin_groups(plan, units).is_empty() {
            return Ok(Vec::new());
        }
        let mut middles = MiddleQueries::new(self, requester, plan);
        let held = self.recall(requester, plan, &mut middles).await?;
        let Usefulness {
            useless,
            mut warnings,
        } = self
            .usefulness_for(requester, query, (plan, &held.released), units)
            .await?;
        match (useless, mode) {
            (Some(refusal), UselessMode::Refuse) => return Err(Error::Rewrite(refusal)),
            (Some(refusal), UselessMode::Warn | UselessMode::Allow) => {
                // The question is answered and charged, so the detail must not deny it.
                let about = refusal.detail.as_deref().unwrap_or_default();
                let charged = about.replace("Nothing was charged. ", "");
                warnings.push(refusal.detail(charged));
            }
            (None, _) => {}
        }
        Ok(warnings)
    }

    /// How useful the answer would be despite the noise. The role may hold some of the releases
    /// already.
    pub(super) async fn usefulness(
        &self,
        requester: &Requester,
        query: &Query,
        plan: &Plan,
        held: &Released,
    ) -> Result<Usefulness, Error> {
        let units = self.known_units(requester, plan).await?;
        self.usefulness_for(requester, query, (plan, held), units)
            .await
    }

    /// [`Self::usefulness`] with this number of units.
    async fn usefulness_for(
        &self,
        requester: &Requester,
        query: &Query,
        (plan, held): (&Plan, &Released),
        units: Option<UnitCount>,
    ) -> Result<Usefulness, Error> {
        let is_bought = |release: ReleaseId| held.table(release).is_none();
        let thin = thin_groups(plan, units);
        let warnings = thin
            .into_iter()
            .filter(|(release, _)| is_bought(*release))
            .map(|(_, message)| Refusal::new(reason::SMALL_GROUPS, message))
            .collect();
        let found = useless(plan, units);
        let useless = if found.iter().any(|found| is_bought(found.release)) {
            let mut key = self.key_now(requester, query).await?;
            if let Some(epsilon) = plan.first_answer() {
                key.terms.session_settings.target_error = None;
                key.terms.epsilon = epsilon;
            }
            let asked = QuestionPlan {
                query,
                policy: &self.policy,
                search_path: &requester.search_path,
                constants: &key.constants,
                terms: &key.terms,
                units,
            };
            // Variants are priced for nothing, so they take turns.
            let permit = self
                .planning_limit
                .acquire(&requester.role, StatementSize::Large)
                .await;
            permit.work(|| refuse_useless(&asked, plan, is_bought))
        } else {
            None
        };
        Ok(Usefulness { useless, warnings })
    }
}

/// Settings that would help. At most [`TRIALS`] variants of a kind are priced, all with little
/// work.
fn hint(asked: &QuestionPlan<'_>, plan: &Plan, found: &[Useless]) -> Option<String> {
    if StatementSize::of(asked.query) != StatementSize::Small {
        return None;
    }
    let resolved = crate::parse::with_room(|| {
        resolve(
            asked.query,
            asked.policy,
            asked.search_path,
            asked.constants,
        )
    });
    let variants = Variants {
        asked,
        plan,
        found,
        resolved: resolved.ok()?,
        effort: Arc::new(PlanningEffort::small()),
    };
    let hint = variants
        .fewer_keys()
        .or_else(|| variants.more_epsilon())
        .or_else(|| variants.fewer_rows())
        .or_else(|| variants.fewer_aggregates())
        .or_else(|| variants.chosen_clip());
    match hint {
        Some(hint) => Some(hint),
        None if variants.effort.is_spent() => None,
        None => Some("No allowed setting would make the answer useful.".to_owned()),
    }
}

/// Variants of a useless question.
struct Variants<'a> {
    asked: &'a QuestionPlan<'a>,
    plan: &'a Plan,
    found: &'a [Useless],
    resolved: ir::ResolvedQuery,
    /// The effort of all variants together.
    effort: Arc<PlanningEffort>,
}

impl Variants<'_> {
    /// The plan of a variant that is not useless.
    fn useful(&self, terms: &Terms, change: impl FnOnce(&mut ir::ResolvedQuery)) -> Option<Plan> {
        let mut query = self.resolved.clone();
        change(&mut query);
        let (policy, effort) = (self.asked.policy, &self.effort);
        let plan = crate::parse::with_room(|| {
            let analyzed = analyze(query, policy, &terms.session_settings, effort).ok()?;
            rewrite(&analyzed, policy, terms).ok()
        })?;
        useless(&plan, self.asked.units).is_empty().then_some(plan)
    }

    /// How far off the useless answer would be in another plan.
    fn would(&self, plan: &Plan) -> String {
        let error = self
            .found
            .first()
            .and_then(|first| best_error(plan, self.asked.units, first.release, first.aggregate?));
        error.map_or("would do".to_owned(), |error| format!("would give {error}"))
    }

    /// A variant whose clip is chosen from a look, where the session or the policy fixes it. What a
    /// look chooses depends on the data, so its error is not known before.
    fn chosen_clip(&self) -> Option<String> {
        let settings = &self.asked.terms.session_settings;
        let is_limited = settings.rows_per_unit.is_some();
        if settings.clip == ClipChoice::Auto && !is_limited {
            return None;
        }
        let mut terms = self.asked.terms.clone();
        terms.session_settings.clip = ClipChoice::Auto;
        terms.session_settings.rows_per_unit = None;
        let plan = self.useful(&terms, |_| {})?;
        plan.releases().get(self.found.first()?.release.0)?.look()?;
        let reset = if is_limited {
            " and RESET pgveil.max_rows_per_unit"
        } else {
            ""
        };
        Some(format!(
            "SET pgveil.clip = auto{reset}: a look at the data then chooses how much of a unit \
                counts."
        ))
    }

    /// A variant without one group key. Of the keys whose removal helps, it drops the one with most
    /// values.
    fn fewer_keys(&self) -> Option<String> {
        let release = self.found.first()?.release;
        let planned = self.plan.releases().get(release.0)?;
        if !planned.sets().is_empty() {
            return None;
        }
        let values = |(_, rule): &(_, KeyRule)| match rule {
            KeyRule::Domain(values) => values.len(),
            KeyRule::Threshold => usize::MAX,
        };
        let mut keys: Vec<usize> = (0..planned.keys().len()).collect();
        keys.sort_by_key(|at| std::cmp::Reverse(values(&planned.keys()[*at])));
        let without = |dropped: usize| {
            self.useful(self.asked.terms, |query| {
                query.releases[release.0].keys.remove(dropped);
            })
        };
        let mut tried = keys.into_iter().take(TRIALS);
        let (dropped, plan) = tried.find_map(|at| Some((at, without(at)?)))?;
        let keys = self.resolved.releases()[release.0].keys.iter();
        let kept: Vec<&str> = keys
            .enumerate()
            .filter(|(at, _)| *at != dropped)
            .map(|(_, key)| key.text.as_str())
            .collect();
        let would = self.would(&plan);
        Some(if kept.is_empty() {
            format!("Without GROUP BY it {would}.")
        } else {
            format!("GROUP BY {} alone {would}.", kept.join(", "))
        })
    }

    /// A variant with the least epsilon that helps and is allowed, to two digits.
    fn more_epsilon(&self) -> Option<String> {
        let Terms {
            epsilon,
            session_settings,
            ..
        } = self.asked.terms;
        let most = self.asked.policy.privacy.epsilon_max;
        if session_settings.target_error.is_some() || *epsilon >= most {
            return None;
        }
        let priced = |epsilon: f64| {
            let mut terms = self.asked.terms.clone();
            terms.epsilon = epsilon;
            terms.session_settings.epsilon = Some(epsilon);
            self.useful(&terms, |_| {})
        };
        let (mut least, mut found) = (*epsilon, (most, priced(most)?));
        for _ in 0..TRIALS {
            let between = up_to_two_digits((least * found.0).sqrt());
            if between <= least || between >= found.0 {
                break;
            }
            match priced(between) {
                Some(plan) => found = (between, plan),
                None => least = between,
            }
        }
        let (epsilon, plan) = found;
        Some(format!(
            "SET pgveil.epsilon = {epsilon} {}.",
            self.would(&plan)
        ))
    }

    /// A variant with the most rows of a unit that still helps.
    fn fewer_rows(&self) -> Option<String> {
        let release = self.plan.releases().get(self.found.first()?.release.0)?;
        let most = self.asked.policy.rows_per_unit_max();
        let counted = u32::try_from(release.facts().rows_per_unit).unwrap_or(u32::MAX);
        if counted <= 1 {
            return None;
        }
        let priced = |rows: u32| {
            let mut terms = self.asked.terms.clone();
            terms.session_settings.rows_per_unit = Some(rows);
            self.useful(&terms, |_| {})
        };
        let (mut found, mut past) = ((1, priced(1)?), counted.min(most.saturating_add(1)));
        for _ in 0..TRIALS {
            let between = (f64::from(found.0) * f64::from(past)).sqrt().round() as u32;
            if between <= found.0 || between >= past {
                break;
            }
            match priced(between) {
                Some(plan) => found = (between, plan),
                None => past = between,
            }
        }
        let (rows, plan) = found;
        Some(format!(
            "SET pgveil.max_rows_per_unit = {rows} {}.",
            self.would(&plan)
        ))
    }

    /// A variant without the useless aggregates, where the question also asks for others.
    fn fewer_aggregates(&self) -> Option<String> {
        let first = self.found.first()?;
        let release = self.resolved.releases().get(first.release.0)?;
        let of_release = self.found.iter().filter(|f| f.release == first.release);
        let dropped: Vec<AggregateId> = of_release.filter_map(|f| f.aggregate).collect();
        let is_sure = release.uncertainties.is_empty()
            && self.found.len() == dropped.len()
            && dropped.len() < release.aggregates.len();
        if !is_sure {
            return None;
        }
        self.useful(self.asked.terms, |query| {
            let aggregates = std::mem::take(&mut query.releases[first.release.0].aggregates);
            let kept = aggregates.into_iter().enumerate();
            query.releases[first.release.0].aggregates = kept
                .filter(|(at, _)| !dropped.contains(&AggregateId(*at)))
                .map(|(_, aggregate)| aggregate)
                .collect();
        })?;
        let numbers: Vec<String> = dropped.iter().map(|at| at.ordinal().to_string()).collect();
        let aggregates = if numbers.len() == 1 {
            "aggregate"
        } else {
            "aggregates"
        };
        Some(format!(
            "Without {aggregates} {} the others would be useful.",
            numbers.join(", ")
        ))
    }
}

/// The least number of two digits that is not below this one.
pub(super) fn up_to_two_digits(value: f64) -> f64 {
    let power = 1 - value.log10().floor() as i32;
    let scale = 10f64.powi(power.abs());
    let up = if power >= 0 {
        (value * scale * (1.0 - 1e-12)).ceil() / scale
    } else {
        (value / scale * (1.0 - 1e-12)).ceil() * scale
    };
    up.max(value)
}

#[cfg(test)]
mod tests {
    use super::up_to_two_digits;

    #[test]
    fn numbers_are_rounded_up() {
        for (value, up) in [
            (0.5, 0.5),
            (0.501, 0.51),
            (0.707, 0.71),
            (0.0123, 0.013),
            (1.0, 1.0),
            (7.31, 7.4),
            (12.3, 13.0),
            (1234.0, 1300.0),
        ] {
            assert_eq!(up_to_two_digits(value), up, "{value}");
        }
    }
}
