//! `pgveil.target_error`: the epsilon at which every count and sum of a statement has at most the
//! wanted standard error. Where an error is known only with the answer, a first answer is bought
//! without a target, and shows the epsilon that is needed.
//!
//! Noise shrinks in proportion as mu (or a Laplace epsilon) grows, so one trial price shows how
//! much is needed. Where some columns may have larger errors than others, their coordinates get
//! lower weights in the vector, and the others gain. All of it is known before any data is read.
//! The error of an average or another ratio depends on the data; a target of a row holds for the
//! counts and sums behind it.

use super::to_fixed;
use crate::aggregates::{DrawId, Foreseen, Output};
use crate::mechanism::{Fixed, epsilon_of_mu};
use crate::policy::{Policy, StatementAggregate, TargetError, TargetErrors};
use crate::refusal::{Refusal, reason};
use crate::rewrite::vector::standard_deviation::measure_noise;
use crate::rewrite::{FixedPoint, Measure, Plan, ReleasePlan, Target, Terms, measure_deviation};

/// Scales are integers of at least 20 bits: proportions are kept up to this factor.
const MARGIN: f64 = 1.0 + 4e-6;
/// A coordinate's weight is lowered in steps of one part in this many.
const STRESS_MAX: f64 = 1024.0;

/// Other weights make a different question, so they must save at least this much.
pub const GAIN: f64 = 0.99;

/// The target standard deviations of a release's measures. Its aggregates are the statement's from
/// `first` on.
///
/// # Errors
/// 0A000 for a release with choices, for an aggregate whose error is known only with its answer,
/// and for a release of group keys alone: without an aggregate almost nothing would be spent, and
/// no key would be shown.
pub fn target_deviations(
    trial: &ReleasePlan,
    targets: TargetErrors,
    first: StatementAggregate,
) -> Result<Vec<f64>, Refusal> {
    let mut wanted = vec![f64::INFINITY; trial.measures().len()];
    if !trial.choices().is_empty() {
        return Err(unknown());
    }
    if wanted.is_empty() {
        return Err(Refusal::new(
            reason::TARGET_ERROR_UNUSABLE,
            "pgveil.target_error needs an aggregate, and this query shows only group keys",
        )
        .hint("Add a count, or RESET pgveil.target_error and set pgveil.epsilon instead."));
    }
    for (at, (output, _)) in trial.outputs().iter().enumerate() {
        for measure in output.measures() {
            let own = match targets.of(first.after(at)) {
                TargetError::Absolute(_) if is_ratio(output) => return Err(unknown_of(output)),
                TargetError::Absolute(value) => value,
                TargetError::OfRow(share) => of_row(share, trial.measure(measure)),
                TargetError::OfAnswer(_) => return Err(unknown_of(output)),
            };
            let least = &mut wanted[measure.0];
            *least = least.min(own);
        }
    }
    Ok(wanted)
}

/// Whether a first answer has to show what the target errors need: a target is a share of the
/// answer, or the plan, which was made without a target, has errors that are known only with it.
/// Not so where an error is never known.
pub fn needs_first_answer(first: &Plan, targets: &TargetErrors) -> bool {
    let releases = || first.releases().iter();
    let outputs: Vec<(&ReleasePlan, &Output)> = releases()
        .flat_map(|release| release.outputs().iter().map(move |(o, _)| (release, o)))
        .collect();
    let none_before = StatementAggregate::default();
    let aimed = || {
        let numbered = outputs.iter().enumerate();
        numbered.map(|(at, o)| (o, targets.of(none_before.after(at))))
    };
    let is_later = aimed().any(|((_, output), target)| match target {
        TargetError::OfAnswer(_) => true,
        TargetError::Absolute(_) => is_ratio(output),
        TargetError::OfRow(_) => false,
    });
    let is_later = is_later || releases().any(|r| r.look().is_some() || !r.choices().is_empty());
    !first.loss().is_zero()
        && !outputs.is_empty()
        && is_later
        && aimed().all(|((release, output), target)| has_error(release, output, target))
}

/// Whether the error depends on the counts and sums that are released.
fn is_ratio(output: &Output) -> bool {
    match output.foreseen() {
        Foreseen::OverRows { .. } | Foreseen::FromAnswer | Foreseen::Fitted => true,
        Foreseen::Measure(_) | Foreseen::Chance | Foreseen::DistinctValues { .. } => false,
        Foreseen::Choice { .. } | Foreseen::Exact => false,
    }
}

/// Whether an answer may come with its standard error, in terms of the target.
fn has_error(release: &ReleasePlan, output: &Output, target: TargetError) -> bool {
    if matches!(target, TargetError::OfRow(_)) {
        // What one row adds is known of counts and sums.
        return !output.measures().is_empty() || output.foreseen() == Foreseen::Exact;
    }
    match output.foreseen() {
        Foreseen::Measure(_) | Foreseen::OverRows { .. } | Foreseen::FromAnswer => true,
        Foreseen::DistinctValues { .. } | Foreseen::Exact => true,
        Foreseen::Choice {
            choice,
            draws,
            is_array,
        } => {
            let targets = &release.choice(choice).question.targets;
            let has_ends = |draw: &DrawId| {
                let ends = targets.get(draw.0).map(Target::sides).unwrap_or_default();
                ends.len() == 2 && ends.iter().all(|end| targets.contains(end))
            };
            // Without a draw it is a count.
            !is_array && draws.len() <= 1 && draws.iter().all(has_ends)
        }
        Foreseen::Chance | Foreseen::Fitted => false,
    }
}

/// The target of a measure that is `share` of a row: in the measure's unit.
pub fn of_row(share: f64, measure: &Measure) -> f64 {
    share * most_of_one_row(measure)
}

/// The epsilon of a statement whose noise is `factor` times less than at the epsilon of these
/// terms. Infinite where it cannot be counted.
pub fn epsilon_for(factor: f64, terms: &Terms) -> f64 {
    if terms.is_pure() {
        return terms.epsilon * factor;
    }
    let mu = terms.mu(terms.epsilon).map_or(0.0, |mu| mu.to_f64());
    needed_epsilon((mu * factor).powi(2), terms)
}

fn needed_epsilon(mu_squared: f64, terms: &Terms) -> f64 {
    let up = Fixed::round_up(mu_squared.clamp(0.0, 1e9));
    epsilon_of_mu(up, to_fixed(terms.delta)).map_or(f64::INFINITY, Fixed::to_f64)
}

fn unusable() -> Refusal {
    Refusal::new(
        reason::TARGET_ERROR_UNUSABLE,
        "pgveil.target_error cannot be used with an aggregate whose error is not known",
    )
}

/// The refusal of a target for an aggregate of the vector.
fn unknown_of(output: &Output) -> Refusal {
    if output.model_field().is_none() {
        return unknown();
    }
    unusable().hint(
        "RESET pgveil.target_error, and set pgveil.epsilon instead: the errors of a fit are \
            known only once it is answered. A share of one row, as in SET pgveil.target_error = \
            '300% of a row', sets a target for the sums that it is computed from.",
    )
}

/// The refusal of a target for a fit whose steps have separate shares.
pub(in crate::rewrite) fn of_steps() -> Refusal {
    unusable().hint(
        "RESET pgveil.target_error, and set pgveil.epsilon instead: a logistic regression's steps \
            have fixed shares of it.",
    )
}

fn unknown() -> Refusal {
    unusable().hint(
        "RESET pgveil.target_error, and set pgveil.epsilon instead. For a percentile, also ask for \
         its error: pgveil.stderr(percentile_cont(0.5) WITHIN GROUP (ORDER BY x)).",
    )
}

/// The trial's noise divided by the wanted noise, in the worst measure of a release. Above 1, more
/// epsilon is needed.
///
/// # Errors
/// 0A000 where a measure's error depends on the data.
pub fn factor(trial: &ReleasePlan, wanted: &[f64]) -> Result<f64, Refusal> {
    let mut worst: f64 = 0.0;
    for (measure, wanted) in trial.measures().iter().zip(wanted) {
        worst = worst.max(measure_deviation(trial, measure).ok_or_else(unknown)? / wanted);
    }
    Ok(worst * MARGIN)
}

/// The factor of each coordinate's weight, in proportion to how far its noise is from what its
/// measures need. All factors are equal where that is the same.
pub fn stress(trial: &ReleasePlan, wanted: &[f64]) -> Vec<u64> {
    let mut needs = vec![0f64; trial.coordinates().len()];
    for (measure, wanted) in trial.measures().iter().zip(wanted) {
        let need = measure_deviation(trial, measure).unwrap_or(0.0) / wanted;
        let noise = measure_noise(trial, measure).unwrap_or_default();
        needs
            .iter_mut()
            .zip(noise)
            .filter(|(_, noise)| *noise != 0.0)
            .for_each(|(known, _)| *known = known.max(need));
    }
    let most = needs.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    // A coordinate that no measure uses, such as a unit's presence, keeps its weight.
    needs
        .into_iter()
        .map(|need| {
            if need == 0.0 {
                STRESS_MAX as u64
            } else {
                (need / most * STRESS_MAX).ceil().max(1.0) as u64
            }
        })
        .collect()
}

/// The most that one row adds: 1 to a count, the width of its range to a sum.
fn most_of_one_row(measure: &Measure) -> f64 {
    match measure {
        Measure::Count(_) => 1.0,
        Measure::Sum {
            values: _,
            count: _,
            fixed_point,
        }
        | Measure::Centred {
            values: _,
            fixed_point,
        } => width(fixed_point),
        Measure::Squares {
            lacks: _,
            count: _,
            fixed_point,
        } => width(fixed_point).powi(2) / 4.0,
        Measure::Products { products: _, y, x } => width(y) * width(x) / 4.0,
    }
}

fn width(fixed_point: &FixedPoint) -> f64 {
    fixed_point.bounds.hi - fixed_point.bounds.lo
}

/// The needs of the releases so far, which are compared with the policy's ceiling for one
/// statement.
#[derive(Debug, Default)]
pub struct Needs {
    mu_squared: f64,
    epsilon: f64,
}

impl Needs {
    /// The epsilon at which a release alone has `factor` times less noise than as one of `share`
    /// releases under `terms`; counted.
    ///
    /// # Errors
    /// 22023 where the statement would need more than the policy's ceiling, or the session's: says
    /// how much.
    pub fn add(
        &mut self,
        factor: f64,
        terms: &Terms,
        share: usize,
        policy: &Policy,
    ) -> Result<f64, Refusal> {
        let pure = terms.is_pure();
        let needs = |mu_squared: f64| needed_epsilon(mu_squared, terms);
        // Where so little is needed, the policy's least is charged, and the answer is more accurate
        // than wanted.
        let least = policy.privacy.epsilon_min;
        let (own, whole) = if pure {
            let own = (terms.epsilon / share as f64 * factor).max(least);
            self.epsilon += own;
            (own, self.epsilon)
        } else {
            let trial = terms.mu(terms.epsilon).map_or(0.0, |mu| mu.to_f64());
            let mu_squared = (trial * factor).powi(2) / share as f64;
            let least_squared = terms.mu(least).map_or(0.0, |mu| mu.square().to_f64());
            self.mu_squared += mu_squared.max(least_squared);
            (needs(mu_squared).max(least), needs(self.mu_squared))
        };
        if whole > terms.session_settings.most_of_wanted(policy) {
            Err(too_expensive(whole, policy, terms))
        } else {
            Ok(own)
        }
    }
}

/// The refusal (22023) that says how much the wanted error needs.
pub(in crate::rewrite) fn too_expensive(needed: f64, policy: &Policy, terms: &Terms) -> Refusal {
    let most = terms.session_settings.most_of_wanted(policy);
    let is_own = most < policy.privacy.epsilon_max;
    let need = if needed.is_finite() {
        format!("epsilon {needed:.3}")
    } else {
        "more epsilon than can be counted".to_owned()
    };
    Refusal::new(
        reason::TARGET_ERROR_TOO_SMALL,
        format!(
            "pgveil.target_error needs {need} for this query, more than the limit of \
                {most} per query"
        ),
    )
    .detail(match is_own {
        true => "Nothing was charged. pgveil.max_cost sets the limit.",
        false => "Nothing was charged. The data owner's policy sets the ceiling.",
    })
    .hint(match is_own {
        true => {
            "Raise pgveil.max_cost, set a larger target error, or use fewer groups and aggregates."
        }
        false => "Set a larger target error, or use fewer groups and aggregates.",
    })
}
