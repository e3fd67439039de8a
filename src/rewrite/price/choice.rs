//! The price of a choice: counts of distinct values, and values drawn by the exponential mechanism.

use num_bigint::BigUint;

use super::look::{ROWS_MAX, SHARE, SHORT, may_look, mu_of_part};
use super::{Portion, PortionBudget, Price, Terms, budget, noise, out_of_reach};
use crate::aggregates::PairLimits;
use crate::analyze::AnalyzedRelease;
use crate::ir::Distinct;
use crate::mechanism::{Exponential, Fixed, Loss, Mechanism, Mu, gaussian, loss_gaussian};
use crate::refusal::Refusal;
use crate::rewrite::choice::candidates::Candidates;
use crate::rewrite::choice::{
    ChoiceKind, ChoiceQuery, Degree, Halving, ROW_WEIGHT, RowLimit, RowsLook, Subject,
};
use crate::rewrite::vector::bins::Bins;
use crate::rewrite::vector::coordinate::{Coordinate, Mask};
use crate::rewrite::vector::row_lengths::ceil_sqrt;
use crate::rewrite::vector::sensitivity::{norms, weights};

/// A choice with its noise and its price.
pub struct PricedChoice {
    pub kind: ChoiceKind,
    pub loss: Loss,
    pub look: Option<RowsLook>,
}

/// Prices a choice.
///
/// # Guarantee
/// All draws and noises of the choice together cost at most `loss`. Where a look chooses the limit
/// on rows, that is the loss of the look and of the draws, whichever limit is chosen: the strength
/// of the draws is fixed here, and only their width follows the limit.
///
/// # Requires
/// - The statement keeps [`ChoiceQuery::pair_limits`] or this [`RowLimit`]; see
///   [`ChoiceQuery::statement`].
/// - The limit is chosen from the noisy histogram and public facts alone: [`crate::release`].
///
/// # Errors
/// 22023 where no noise of supported size fits, and for Laplace noise where there is a look.
pub fn choice(
    query: &ChoiceQuery,
    limit: RowLimit,
    release: &AnalyzedRelease,
    portion: &Portion<'_>,
) -> Result<PricedChoice, Refusal> {
    match &query.subject {
        Subject::Distinct {
            values,
            per_unit_max: _,
            degree,
        } => distinct(values, degree, query.pair_limits(release), release, portion),
        Subject::Value { .. } => draws(query, limit, release, portion),
    }
}

/// Prices a count of distinct values, perhaps with sums of them.
///
/// # Guarantee
/// The noise hides `clip`, in L1 and L2. Let K be the most (group, value) pairs that are kept of
/// one unit, and V the most in one group. With the unit, at most k_g values appear in group g of a
/// grouping set, or vanish from it, where k_g <= V and the k_g add up to at most K. A value's
/// count, sum and squares are the coordinates of one row, whose weighted norms [`norms`] bounds by
/// a in L2 and b in L1. By the triangle inequality group g moves by at most k_g a in L2, so all
/// groups of one set move by at most sqrt(sum k_g^2) a <= sqrt(K V) a, and by K b in L1. The m sets
/// are different coordinates: together they move by at most sqrt(m K V) a and m K b. With several
/// sets V is K.
fn distinct(
    values: &Distinct,
    degree: &Degree,
    PairLimits { in_all, in_group }: PairLimits,
    release: &AnalyzedRelease,
    portion: &Portion<'_>,
) -> Result<PricedChoice, Refusal> {
    let in_group = if release.sets.is_empty() {
        in_group
    } else {
        in_all
    };
    // Each grouping set counts the unit's values again.
    let sets = release.grouping_sets().len();
    let coordinates = match values {
        Distinct::Value(value) => degree.coordinates(value),
        Distinct::Row(_) => vec![Coordinate::Rows {
            mask: Mask {
                filter: None,
                not_null: None,
            },
        }],
    };
    let weights = weights(&coordinates);
    let one = norms(&coordinates, &weights, &[]).row;
    let clips = (
        ceil_sqrt(&(one.squared * in_all * in_group * sets)),
        one.absolute * in_all * sets,
    );
    let Price {
        calibrated,
        clip,
        weights,
        loss,
        ..
    } = noise(clips, weights, portion)?;
    Ok(PricedChoice {
        kind: ChoiceKind::Count {
            calibrated,
            weights,
            clip,
        },
        loss,
        look: None,
    })
}

/// A look at a unit's rows, and how the portion's mu is split.
struct LookShare {
    look: RowsLook,
    of_look: Mu,
    of_draws: Mu,
}

/// The fewest points of a grid that is made coarser for a look.
const POINTS_LEAST: u64 = 256;

/// The bins of a look at how many rows units have; `None` where the limit is known beforehand, or
/// so small that a look would cost more than it could gain.
fn bins(limit: RowLimit, release: &AnalyzedRelease, terms: &Terms) -> Option<Bins> {
    let most = match limit {
        RowLimit::One => return None,
        RowLimit::Sum(rows) | RowLimit::RootOfSquares(rows) => rows,
    };
    let may = may_look(release, terms) && release.sets.is_empty();
    (may && most > u64::from(SHORT)).then(|| Bins::up_to(&BigUint::from(most)))
}

/// Whether a look may choose how many rows of a unit count.
pub fn may_look_at(query: &ChoiceQuery, release: &AnalyzedRelease, terms: &Terms) -> bool {
    let limit = RowLimit::of(release, terms.is_pure());
    match &query.subject {
        Subject::Value { .. } => bins(limit, release, terms).is_some(),
        Subject::Distinct { .. } => false,
    }
}

/// How many candidates a look may distinguish. Its statement returns a row for each group,
/// candidate and bin.
fn candidates_max(bins: &Bins, release: &AnalyzedRelease) -> u64 {
    ROWS_MAX / (release.listed_groups().max(1)).saturating_mul(bins.numbers() as u64)
}

/// Makes the grid of a value as coarse as a look needs. Where too few points would be left, the
/// grid stays, and there is no look.
pub fn coarsen(query: &mut ChoiceQuery, release: &AnalyzedRelease, terms: &Terms) {
    let limit = RowLimit::of(release, terms.is_pure());
    if let Subject::Value {
        value: _,
        candidates: Candidates::Grid(grid),
    } = &mut query.subject
        && let Some(bins) = bins(limit, release, terms)
    {
        let most = candidates_max(&bins, release);
        if most >= POINTS_LEAST {
            grid.coarsen(most);
        }
    }
}

/// The look at how many rows units have, where there is one.
fn price_look(
    query: &ChoiceQuery,
    limit: RowLimit,
    release: &AnalyzedRelease,
    portion: &Portion<'_>,
) -> Result<Option<LookShare>, Refusal> {
    let Subject::Value {
        value: _,
        candidates,
    } = &query.subject
    else {
        return Ok(None);
    };
    let bins = bins(limit, release, portion.terms);
    let Some(bins) = bins.filter(|bins| candidates.count() <= candidates_max(bins, release)) else {
        return Ok(None);
    };
    if portion.mechanism == Mechanism::Laplace {
        return Err(out_of_reach());
    }
    let whole = budget(portion).mu.ok_or_else(out_of_reach)?;
    let of_look = mu_of_part(whole, SHARE, 1).ok_or_else(out_of_reach)?;
    let of_draws = mu_of_part(whole, 100 - SHARE, 1).ok_or_else(out_of_reach)?;
    let one = BigUint::from(1u8);
    Ok(Some(LookShare {
        look: RowsLook {
            bins,
            counts: gaussian(&one, &one, of_look).map_err(|_| out_of_reach())?,
        },
        of_look,
        of_draws,
    }))
}

/// Prices values that are chosen by the exponential mechanism.
///
/// # Guarantee
/// Every draw has an equal part of the portion. In each group a draw costs what
/// [`Exponential::loss`] says, in proportion to the unit's share of the width: its square, or the
/// share itself under pure accounting. The shares' squares add up to at most one
/// ([`RowLimit::weight_max`]), under pure accounting the shares. A unit is in every draw of targets
/// that are chosen one by one. Fractions that are chosen together split the candidates: a unit is
/// in one draw's worth of candidates on each level ([`Halving`]), so they count as one draw for
/// each level. A look draws the number of units in each bin; a unit is in one, so all numbers
/// together are one Gaussian release. Its mu^2 and the draws' add up: the draws' strength is the
/// same for every limit that it may lead to ([`crate::rewrite::ChoicePlan::limited_to`]).
///
/// # Reference
/// `docs/look.md`; Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 3.2, for adaptive steps.
fn draws(
    query: &ChoiceQuery,
    limit: RowLimit,
    release: &AnalyzedRelease,
    portion: &Portion<'_>,
) -> Result<PricedChoice, Refusal> {
    let looked = price_look(query, limit, release, portion)?;
    let is_pure = portion.terms.is_pure();
    let sets = release.grouping_sets().len() as u64;
    let unit_max = limit.weight_max(sets, is_pure);
    // The number of draws that one unit takes part in.
    let fractions = query.fractions().len();
    let is_halved = fractions >= Halving::LEAST;
    let steps = if is_halved {
        query.targets.len() - fractions + Halving::levels(fractions) as usize
    } else {
        query.targets.len()
    };
    let PortionBudget { mu, epsilon } = budget(portion);
    let mu = match &looked {
        Some(looked) => Some(looked.of_draws),
        None => mu.filter(|_| !is_pure),
    };
    let eta = eta(steps, (mu, epsilon), is_pure)?;
    let draws: Vec<Exponential> = query
        .targets
        .iter()
        .map(|t| Exponential {
            eta,
            width: BigUint::from(unit_max) * t.spread(),
        })
        .collect();
    // The shares of the width themselves add up to at most one.
    let adds_up = is_pure || sets == 1 && !matches!(limit, RowLimit::RootOfSquares(_));
    // A draw's cost depends on its eta alone.
    let of_look = looked
        .as_ref()
        .map_or(Loss::ZERO, |looked| loss_gaussian(looked.of_look));
    let loss = draws
        .iter()
        .cycle()
        .take(steps)
        .try_fold(of_look, |sum, draw| {
            sum.compose(if adds_up {
                draw.loss()
            } else {
                draw.loss_by_squares()
            })
        })
        .ok_or_else(out_of_reach)?;
    let halving = is_halved.then_some(Halving {
        eta,
        weight_max: unit_max,
        pieces: Halving::PIECES,
    });
    let row_weight = match limit {
        RowLimit::One => 1,
        RowLimit::Sum(_) | RowLimit::RootOfSquares(_) => ROW_WEIGHT,
    };
    Ok(PricedChoice {
        kind: ChoiceKind::Choice {
            draws,
            halving,
            weight_max: unit_max,
            row_weight,
        },
        loss,
        look: looked.map(|looked| looked.look),
    })
}

/// The strength of each of `steps` draws, which together cost at most this mu, or this epsilon
/// where accounting is pure.
fn eta(steps: usize, (mu, epsilon): (Option<Mu>, Fixed), is_pure: bool) -> Result<u64, Refusal> {
    let about = match mu {
        // This is the linear bound on mu from which the loss is computed.
        Some(mu) => mu.to_f64() / (steps as f64 * std::f64::consts::FRAC_PI_8).sqrt(),
        None if is_pure => epsilon.to_f64() / steps as f64,
        None => return Err(out_of_reach()),
    };
    let about = Exponential::eta(about).ok_or_else(out_of_reach)?;
    let fits = |eta: &u64| {
        let one = Exponential {
            eta: *eta,
            width: BigUint::from(1u8),
        }
        .loss();
        let all = (0..steps).try_fold(Loss::ZERO, |sum, _| sum.compose(one));
        all.is_some_and(|all| {
            mu.map_or(all.epsilon <= Some(epsilon), |mu| {
                all.mu_squared <= mu.square()
            })
        })
    };
    // The loss has a margin for its own rounding, of a few units at most.
    (about.saturating_sub(16).max(1)..=about)
        .rev()
        .find(fits)
        .ok_or_else(out_of_reach)
}
