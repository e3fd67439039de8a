//! What a release costs: the norm bound that the levels enforce, the mechanism, and the noise of each coordinate.

use num_bigint::BigUint;

use super::partials::{Partial, norms, weights};
use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::mechanism::{
    Accounting, Calibrated, Fixed, Loss, Mechanism, Mu, Presence, Standing, choose, gaussian, laplace, loss_gaussian, loss_laplace, loss_threshold,
    mu_of, threshold,
};
use crate::policy::{Policy, Wishes};
use crate::refusal::{Refusal, sqlstate};

/// Probability mass of one release whose keys come from the data: small enough that the default share of delta holds 500 of them.
const THRESHOLD_DELTA: f64 = 1e-11;

/// What a query may spend, and who pays: public facts, read from the policy, the session and the ledger.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Epsilon of the whole statement, in (0, policy's maximum].
    pub epsilon: f64,
    /// The role's delta: a Gaussian's mu is the largest with delta(mu, epsilon) at most this.
    pub delta: f64,
    /// Every account that the statement's charge would touch.
    pub accounts: Vec<Standing>,
    /// What else the session wishes.
    pub wishes: Wishes,
}

/// The noise of one release.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    pub mechanism: Mechanism,
    /// Bound C of the unit's weighted vector: L2 under Gaussian noise, L1 under Laplace.
    pub clip: BigUint,
    pub weights: Vec<BigUint>,
    pub calibrated: Vec<Calibrated>,
    /// A group is shown if this coordinate's noisy integer reaches the value.
    pub threshold: Option<(usize, i128)>,
    /// Most groups of a unit, where the statement must cap them.
    pub groups_per_unit: Option<u32>,
    pub loss: Loss,
    /// The L2 bound, also where the mechanism takes the L1 bound: tells questions apart that bound a unit otherwise.
    l2: BigUint,
    /// Grows as noise shrinks, whichever the mechanism: mu, or epsilon under pure accounting. Compares answers to one question.
    pub accuracy: f64,
}

/// What a statement takes of a price.
pub(super) struct Bounding {
    pub mechanism: Mechanism,
    pub clip: BigUint,
    pub refine: Vec<u32>,
}

impl Price {
    pub(super) fn bounding(&self) -> Bounding {
        Bounding { mechanism: self.mechanism, clip: self.clip.clone(), refine: self.calibrated.iter().map(|c| c.refine).collect() }
    }

    /// The same whatever mechanism and noise the price has: statements of one question are one text then. Never run.
    pub(super) fn no_bounding(&self) -> Bounding {
        Bounding { mechanism: Mechanism::Gaussian, clip: self.l2.clone(), refine: vec![0; self.calibrated.len()] }
    }
}

/// Prices a release; `share` is how many releases split the statement's epsilon.
///
/// # Guarantee
/// With the clip enforced by the emitted levels (or proved by the primary key), adding noise from `calibrated` to every coordinate of every group costs at
/// most `loss`, for neighbours that differ in all rows of one unit.
///
/// # Requires
/// `release.one_row_per_unit` is proved by the catalog, and its fingerprint is checked in the transaction that runs the statement.
///
/// # Reference
/// Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 2.7, for the vector under one L2 bound; the last step below the boundary is always that exact clip, so
/// the release is mu-GDP whatever is known of single rows.
pub fn price(release: &AnalyzedRelease, coordinates: &[Partial], policy: &Policy, terms: &Terms, share: usize) -> Result<Price, Refusal> {
    let groups = groups(release, policy, &terms.wishes);
    let weights = balanced(weights(coordinates), release, coordinates, groups);
    let (l2, l1) = clips(release, coordinates, &weights, groups);
    let keyed = release.keys.iter().any(|(_, rule)| *rule == KeyRule::Threshold);
    let pure = terms.accounts.iter().any(|a| a.cap.accounting() == Accounting::Pure);
    if keyed && pure {
        return Err(Refusal::unsupported("GROUP BY a column without declared values under pure accounting")
            .hint("Ask the data owner to declare the column's values."));
    }
    let fixed = |value: f64| Fixed::round_down(value.clamp(0.0, 1e6));
    let whole = mu_of(fixed(terms.epsilon), fixed(terms.delta));
    let mu = whole.map(|mu| Mu::round_down(mu.to_f64() / (share as f64).sqrt()));
    let gaussian_loss = mu.map(loss_gaussian);
    // Laplace noise of the same standard error: b = SE / sqrt 2.
    let epsilon = match (pure, mu) {
        (true, _) | (false, None) => fixed(terms.epsilon / share as f64),
        (false, Some(mu)) => fixed(ratio(&l1, &l2) * std::f64::consts::SQRT_2 * mu.to_f64()),
    };
    let mechanism = match (mu, gaussian_loss) {
        (Some(_), Some(loss)) if epsilon > Fixed::ZERO => choose(&terms.accounts, &loss_laplace(epsilon), &loss),
        (Some(_), Some(_)) => Mechanism::Gaussian,
        _ if pure => Mechanism::Laplace,
        _ => return Err(out_of_reach()),
    };
    let (clip, loss) = match (mechanism, mu) {
        (Mechanism::Gaussian, Some(mu)) => (l2.clone(), loss_gaussian(mu)),
        _ => (l1, loss_laplace(epsilon)),
    };
    let calibrated = weights
        .iter()
        .map(|weight| match (mechanism, mu) {
            (Mechanism::Gaussian, Some(mu)) => gaussian(&clip, weight, mu),
            _ => laplace(&clip, weight, epsilon),
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| out_of_reach())?;
    let accuracy = mu.map_or(epsilon.to_f64(), |mu| mu.to_f64());
    let mut price = Price { mechanism, clip, weights, calibrated, threshold: None, groups_per_unit: None, loss, l2, accuracy };
    if keyed {
        release_keys(&mut price, coordinates, u32::try_from(groups).unwrap_or(u32::MAX), release.one_row_per_unit)?;
    }
    Ok(price)
}

/// Adds the threshold on the number of units present, with its delta.
fn release_keys(price: &mut Price, coordinates: &[Partial], groups: u32, one_row_per_unit: bool) -> Result<(), Refusal> {
    // Down, and the same number in threshold and charge: then all 500 keyed releases of the default share fit.
    let delta = Fixed::round_down(THRESHOLD_DELTA);
    let presence = coordinates.iter().position(|c| matches!(c, Partial::Units { mask } if mask.filter.is_none() && mask.not_null.is_none()));
    let presence = presence.ok_or_else(|| Refusal::new(sqlstate::INTERNAL_ERROR, "a thresholded release counts no units"))?;
    let counted = Presence { clip: &price.clip, weight: &price.weights[presence], height: 1 };
    let pass_at = threshold(&counted, price.calibrated[presence], delta, groups).map_err(|_| out_of_reach())?;
    price.threshold = Some((presence, pass_at));
    price.groups_per_unit = (!one_row_per_unit).then_some(groups);
    price.loss = price.loss.compose(loss_threshold(delta)).ok_or_else(out_of_reach)?;
    Ok(())
}

/// Most groups that one unit may be in.
fn groups(release: &AnalyzedRelease, policy: &Policy, wishes: &Wishes) -> u64 {
    if release.one_row_per_unit {
        return 1;
    }
    let cells = release.keys.iter().try_fold(1u64, |cells, (_, rule)| match rule {
        KeyRule::Domain(values) => Some(cells.saturating_mul(values.len().max(1) as u64)),
        KeyRule::Threshold => None,
    });
    let groups = cells.unwrap_or_else(|| u64::from(policy.limits.groups_per_unit));
    let groups = wishes.groups_per_unit.map_or(groups, |most| groups.min(most.into()));
    groups.clamp(1, release.lineage.rows_per_unit.max(1))
}

/// A unit's presence moves by one where its rows may move by many: weighed up, so that both get about the same relative noise.
fn balanced(weights: Vec<BigUint>, release: &AnalyzedRelease, coordinates: &[Partial], groups: u64) -> Vec<BigUint> {
    if release.one_row_per_unit || release.one_row_per_group {
        return weights;
    }
    let factor = (release.lineage.rows_per_unit / (groups.isqrt() + 1)).max(1);
    weights.into_iter().zip(coordinates).map(|(weight, c)| if matches!(c, Partial::Units { .. }) { weight * factor } else { weight }).collect()
}

/// The L2 and L1 clips in weighted units.
///
/// They cut nobody whose rows are within the policy's bound: r rows have at most r times one row's norm, and where a unique key leaves one row in a group, rows of
/// unlike groups stand at right angles.
fn clips(release: &AnalyzedRelease, coordinates: &[Partial], weights: &[BigUint], groups: u64) -> (BigUint, BigUint) {
    let (row, presence) = norms(coordinates, weights);
    if release.one_row_per_unit {
        return (ceil_sqrt(&(&row.squared + &presence.squared)), &row.absolute + &presence.absolute);
    }
    let rows = release.lineage.rows_per_unit.max(1);
    let squared =
        if release.one_row_per_group { (&row.squared + &presence.squared) * groups } else { &row.squared * rows * rows + &presence.squared * groups };
    let counted = if release.one_row_per_group { groups } else { rows };
    (ceil_sqrt(&squared), &row.absolute * counted + &presence.absolute * groups)
}

fn ceil_sqrt(value: &BigUint) -> BigUint {
    let root = value.sqrt();
    if &root * &root == *value { root } else { root + 1u8 }
}

fn ratio(a: &BigUint, b: &BigUint) -> f64 {
    // Both hold at most a few hundred bits; the leading 60 of each decide.
    let shift = a.bits().max(b.bits()).saturating_sub(900);
    let float = |v: &BigUint| (v >> shift).to_string().parse::<f64>().unwrap_or(f64::MAX);
    float(a) / float(b)
}

fn out_of_reach() -> Refusal {
    Refusal::new(sqlstate::INVALID_PARAMETER_VALUE, "no noise of supported size fits this query at this epsilon")
        .hint("Raise pgveil.epsilon, or sum over narrower ranges.")
}
