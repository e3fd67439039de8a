//! The common parts of one statement's releases: the epsilon that they split, the one noise that
//! they take, and the ceiling.

use super::target_error;
use super::{AskedRelease, Portion, choice, look, to_fixed, vector};
use crate::aggregates::{NEWTON_STEPS, Output};
use crate::analyze::{Analyzed, AnalyzedRelease};
use crate::ir::{AggregateId, Release};
use crate::mechanism::{
    Fixed, Loss, LossByMechanism, Mechanism, choose, epsilon_of_mu, loss_gaussian, loss_laplace,
};
use crate::policy::{ClipChoice, Policy, StatementAggregate, TargetErrors};
use crate::refusal::{Refusal, reason};
use crate::rewrite::choice::RowLimit;
use crate::rewrite::vector::coordinates::Coordinates;
use crate::rewrite::{ReleasePlan, Terms, rewrite_release};

impl AskedRelease<'_> {
    /// The cost under that noise.
    fn loss(&self, policy: &Policy, portion: &Portion<'_>) -> Result<Loss, Refusal> {
        let mut losses = Vec::new();
        if !self.layout.coordinates.is_empty() {
            losses.push(
                vector(self.release, &self.layout, &self.stress, policy, portion)?
                    .price
                    .loss,
            );
        }
        for question in &self.layout.questions {
            let limit = RowLimit::of(self.release, portion.terms.is_pure());
            losses.push(choice(question, limit, self.release, portion)?.loss);
        }
        losses
            .into_iter()
            .try_fold(Loss::ZERO, Loss::compose)
            .ok_or_else(too_much)
    }

    /// Whether its grouping sets are computed from effects under Gaussian noise.
    fn is_by_effects(&self, policy: &Policy, terms: &Terms) -> Result<bool, Refusal> {
        if self.layout.coordinates.is_empty() {
            return Ok(false);
        }
        let portion = self.portion(terms, Mechanism::Gaussian);
        let vector = vector(self.release, &self.layout, &self.stress, policy, &portion)?;
        Ok(vector.price.effects.is_some())
    }
}

/// Every release and its epsilon: equal parts of the statement's, or as much as a wanted error
/// needs. The steps of a logistic regression together have the part of one statement.
///
/// # Guarantee
/// The parts of all statements are no more than `share`, so that they cost no more than the whole:
/// step t of a logistic regression has 2^t of [`ALL_STEPS`], which depends on no row.
///
/// # Errors
/// 0A000 for what cannot be bounded, or has no error to aim at; 22023 for an error that needs more
/// than the policy's ceiling.
pub(in crate::rewrite) fn asked_releases<'a>(
    analyzed: &'a Analyzed,
    policy: &Policy,
    terms: &Terms,
) -> Result<Vec<AskedRelease<'a>>, Refusal> {
    let mut all = Vec::new();
    for (release, cut) in analyzed.releases().iter().zip(analyzed.query().releases()) {
        let stated = with_errors(cut);
        let layout = match release.no_row {
            Some(_) => Coordinates::of_no_row(release),
            None => layout(release, analyzed, &stated, policy, terms)?,
        };
        let stress = layout.stress();
        all.push(AskedRelease {
            release,
            layout,
            stress,
            epsilon: terms.epsilon,
            share: 1,
            parts: 1,
            releases: analyzed.releases().len(),
        });
    }
    let steps = |asked: &AskedRelease<'_>| step_parts(asked.release);
    if all.iter().any(|asked| steps(asked).is_some()) {
        if terms.session_settings.target_error.is_some() {
            return Err(target_error::of_steps());
        }
        all.iter_mut()
            .for_each(|asked| asked.parts = steps(asked).unwrap_or(ALL_STEPS));
    }
    let share = all
        .iter()
        .map(|asked| asked.layout.statements() * asked.parts)
        .sum::<usize>()
        .max(1);
    all.iter_mut().for_each(|asked| asked.share = share);
    for (asked, cut) in all.iter_mut().zip(analyzed.query().releases()) {
        if asked.layout.is_looked_at && !look::is_worth_the_least(asked, policy, terms)? {
            // A clip by declared bounds costs the whole price before the data is read.
            asked.layout = laid_out(asked.release, analyzed, &with_errors(cut), false, terms)?;
            asked.stress = asked.layout.stress();
        }
    }
    if terms.session_settings.target_error.is_none() {
        all.iter()
            .try_for_each(|asked| at_least(asked, policy, terms))?;
    }
    if let Some(targets) = terms.session_settings.target_error {
        let mut needs = target_error::Needs::default();
        let mut aggregates = StatementAggregate::default();
        for asked in &mut all {
            if asked.layout.statements() > 0 {
                let (factor, stress) = aim(asked, analyzed, policy, terms, (targets, aggregates))?;
                asked.stress = stress;
                asked.epsilon = needs.add(factor, terms, share, policy)?;
                asked.share = 1;
            }
            aggregates = aggregates.after(asked.release.aggregates.len());
        }
    }
    Ok(all)
}

/// The parts of all steps of a logistic regression.
const ALL_STEPS: usize = (1 << NEWTON_STEPS) - 1;

/// The parts of the last step.
const LAST_STEP: usize = 1 << (NEWTON_STEPS - 1);

/// The parts of a release that is a step of a logistic regression.
fn step_parts(release: &AnalyzedRelease) -> Option<usize> {
    let aggregates = release.aggregates.iter();
    let mut parts = aggregates.filter_map(|aggregate| aggregate.operation.parts());
    parts.next().map(|parts| parts as usize)
}

/// The aggregates whose errors are asked for.
fn with_errors(cut: &Release) -> Vec<AggregateId> {
    let asked = cut.uncertainties.iter();
    asked.flat_map(|asked| asked.formula.aggregates()).collect()
}

/// The layout of a release: for a look, where that has a clip to choose.
fn layout(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    stated: &[AggregateId],
    policy: &Policy,
    terms: &Terms,
) -> Result<Coordinates, Refusal> {
    // The steps of a logistic regression are one debit.
    if look::may_look(release, terms) && step_parts(release).is_none() {
        let looked_at = laid_out(release, analyzed, stated, true, terms)?;
        if look::has_choice(release, &looked_at, policy, terms) {
            return Ok(looked_at);
        }
    }
    laid_out(release, analyzed, stated, false, terms)
}

/// Whether a look would choose what the policy's limits cut of this release, if the session did not
/// fix clips.
pub(in crate::rewrite) fn is_looked_at_by_default(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    policy: &Policy,
    terms: &Terms,
) -> bool {
    if terms.session_settings.clip != ClipChoice::Fixed {
        return false;
    }
    let mut looking = terms.clone();
    looking.session_settings.clip = ClipChoice::Auto;
    if !look::may_look(release, &looking) || step_parts(release).is_some() {
        return false;
    }
    let layout = laid_out(release, analyzed, &[], true, &looking);
    layout.is_ok_and(|layout| {
        let mut questions = layout.questions.iter();
        questions.any(|question| choice::may_look_at(question, release, &looking))
            || look::has_choice(release, &layout, policy, &looking)
    })
}

/// The layout, with the grids of chosen values as their own looks need them.
fn laid_out(
    release: &AnalyzedRelease,
    analyzed: &Analyzed,
    stated: &[AggregateId],
    is_looked_at: bool,
    terms: &Terms,
) -> Result<Coordinates, Refusal> {
    let mut layout = Coordinates::new(release, analyzed.columns(), stated, is_looked_at)?;
    for question in &mut layout.questions {
        choice::coarsen(question, release, terms);
    }
    if terms.is_pure() {
        layout.outputs.iter_mut().for_each(Output::share_epsilon);
    }
    Ok(layout)
}

/// Refuses a release that would get less than the policy's least epsilon is worth. Where the
/// statement's other releases are recalled, it alone is paid for, and its failure can be seen: the
/// least epsilon bounds how often.
fn at_least(asked: &AskedRelease<'_>, policy: &Policy, terms: &Terms) -> Result<(), Refusal> {
    let (own, least) = (asked.layout.statements(), policy.privacy.epsilon_min);

    // A step that is paid for has the later ones with it, whose constants were not known before.
    let parts = match step_parts(asked.release) {
        Some(_) => LAST_STEP,
        None => asked.parts,
    };
    let part = (own * parts) as f64 / asked.share as f64;
    let squared = |epsilon: f64| terms.mu(epsilon).map_or(0.0, |mu| mu.square().to_f64());
    let is_enough = if terms.is_pure() {
        terms.epsilon * part >= least
    } else {
        squared(terms.epsilon) * part >= squared(least)
    };
    if own == 0 || is_enough {
        return Ok(());
    }
    let needed = if terms.is_pure() {
        least / part
    } else {
        epsilon_of_mu(
            Fixed::round_up(squared(least) / part),
            to_fixed(terms.delta),
        )
        .map_or(f64::INFINITY, Fixed::to_f64)
    };
    let (most, whole) = (policy.privacy.epsilon_max, terms.epsilon);
    let refused = Refusal::new(
        reason::EPSILON_TOO_SMALL,
        format!(
            "epsilon {whole} is too small for the {} parts of this query: each needs at \
                least epsilon {least} alone",
            asked.share
        ),
    )
    .detail(
        "The data owner's policy sets the minimum that a query must spend, which \
                bounds the number of queries.",
    );
    let needed = (needed * 1.001 * 1e4).ceil() / 1e4;
    Err(if needed <= most {
        refused.hint(format!(
            "SET pgveil.epsilon = {needed}, or ask in several queries."
        ))
    } else {
        refused.hint("Ask in several queries.")
    })
}

/// The factor by which the release's noise exceeds the wanted one, and the weights that make this
/// factor smallest.
fn aim(
    asked: &AskedRelease<'_>,
    analyzed: &Analyzed,
    policy: &Policy,
    terms: &Terms,
    (targets, first): (TargetErrors, StatementAggregate),
) -> Result<(f64, Vec<u64>), Refusal> {
    // Both noises have the same error.
    let mechanism = if terms.is_pure() {
        Mechanism::Laplace
    } else {
        Mechanism::Gaussian
    };
    let tried = |asked: &AskedRelease<'_>| {
        rewrite_release(asked, analyzed, policy, &asked.portion(terms, mechanism))
    };
    let trial: ReleasePlan = tried(asked)?;
    let wanted = target_error::target_deviations(&trial, targets, first)?;
    let factor = target_error::factor(&trial, &wanted)?;
    let stress = target_error::stress(&trial, &wanted);
    let stressed = AskedRelease {
        layout: asked.layout.clone(),
        stress: stress.clone(),
        ..*asked
    };
    let lower = tried(&stressed).and_then(|trial| target_error::factor(&trial, &wanted));
    Ok(match lower {
        Ok(lower) if lower < factor * target_error::GAIN => (lower, stress),
        Ok(_) | Err(_) => (factor, asked.stress.clone()),
    })
}

/// The noise of all releases. Laplace only where the whole statement then has a pure epsilon within
/// the ceiling.
///
/// # Errors
/// 22023 where no noise of supported size fits.
pub(in crate::rewrite) fn mechanism(
    asked: &[AskedRelease<'_>],
    policy: &Policy,
    terms: &Terms,
) -> Result<Mechanism, Refusal> {
    if terms.is_pure() {
        return Ok(Mechanism::Laplace);
    }
    // What a unit adds to its periods is added up in L2.
    if asked.iter().any(|one| one.release.by_period.is_some()) {
        return Ok(Mechanism::Gaussian);
    }
    // The effects of ranges have Gaussian noise.
    if !terms.ranges.is_empty() {
        return Ok(Mechanism::Gaussian);
    }
    // The epsilon for a wanted error was computed for noise on effects, which is always Gaussian.
    if terms.session_settings.target_error.is_some() {
        for one in asked {
            if one.is_by_effects(policy, terms)? {
                return Ok(Mechanism::Gaussian);
            }
        }
    }
    let mut releases = Vec::new();
    for one in asked {
        let gaussian = one.loss(policy, &one.portion(terms, Mechanism::Gaussian))?;
        let Ok(laplace) = one.loss(policy, &one.portion(terms, Mechanism::Laplace)) else {
            return Ok(Mechanism::Gaussian);
        };
        releases.push(LossByMechanism { laplace, gaussian });
    }
    let whole = releases
        .iter()
        .try_fold(Loss::ZERO, |sum, either| sum.compose(either.laplace));
    let fits = whole.is_some_and(|whole| is_within(&whole, ceiling(policy, terms), terms));
    Ok(if fits {
        choose(&terms.accounts, &releases)
    } else {
        Mechanism::Gaussian
    })
}

/// The most epsilon that this statement may cost: what the session says, or, where an error is
/// wanted, the policy's most or the session's.
fn ceiling(policy: &Policy, terms: &Terms) -> f64 {
    if terms.session_settings.target_error.is_some() {
        terms.session_settings.most_of_wanted(policy)
    } else {
        terms.epsilon
    }
}

/// Whether a loss is worth at most an epsilon: it is within the epsilon's mu, or within the epsilon
/// itself as a pure one. The delta of thresholds is counted separately.
fn is_within(loss: &Loss, epsilon: f64, terms: &Terms) -> bool {
    let is_pure = loss.epsilon.is_some_and(|own| own <= to_fixed(epsilon));
    is_pure
        || !terms.is_pure()
            && terms
                .mu(epsilon)
                .is_some_and(|mu| loss.mu_squared <= mu.square())
}

/// Whether one query with a wanted error may spend this loss, of all answers that it buys.
pub fn fits_one_query(loss: &Loss, policy: &Policy, terms: &Terms) -> bool {
    is_within(loss, terms.session_settings.most_of_wanted(policy), terms)
}

/// The most that one query with a wanted error may spend: as a pure epsilon, and, unless accounting
/// is pure, in mu. A loss [fits](fits_one_query) if it is within one of the two. The delta of
/// thresholds is counted apart.
pub fn most_of_one_query(policy: &Policy, terms: &Terms) -> (Loss, Option<Loss>) {
    let most = terms.session_settings.most_of_wanted(policy);
    let mu = terms.mu(most).filter(|_| !terms.is_pure());
    (loss_laplace(to_fixed(most)), mu.map(loss_gaussian))
}

/// Whether the statement as it is planned costs no more than it may.
///
/// # Guarantee
/// The loss of any of its releases, those that are left when others are recalled, is no more than
/// that of all: what is charged is within the ceiling as well.
///
/// # Errors
/// 22023 where a wanted error needs more. What epsilon splits is within it.
pub(in crate::rewrite) fn within_ceiling(
    loss: &Loss,
    policy: &Policy,
    terms: &Terms,
) -> Result<(), Refusal> {
    if is_within(loss, ceiling(policy, terms), terms) {
        return Ok(());
    }
    if terms.session_settings.target_error.is_some() {
        let needed = if terms.is_pure() {
            loss.epsilon
        } else {
            epsilon_of_mu(loss.mu_squared, to_fixed(terms.delta))
        };
        return Err(target_error::too_expensive(
            needed.map_or(f64::INFINITY, |epsilon| epsilon.to_f64()),
            policy,
            terms,
        ));
    }
    Err(Refusal::new(
        reason::INTERNAL_ERROR,
        "the parts of a query cost more than the whole",
    ))
}

fn too_much() -> Refusal {
    Refusal::new(
        reason::COST_TOO_LARGE,
        "the query costs more than can be counted",
    )
}
