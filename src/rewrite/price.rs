//! The price of a release: the norm bound that its statement enforces, the mechanism, and the noise
//! of each coordinate.

mod budget;
mod choice;
mod chosen_clips;
mod clips;
mod effects;
pub(in crate::rewrite) mod look;
pub(in crate::rewrite) mod target_error;
mod totals;
pub(in crate::rewrite) mod whole_statement;

use num_bigint::BigUint;

use budget::{PortionBudget, budget};
pub use choice::{PricedChoice, choice};
pub use chosen_clips::{Block, BlockId, Look, SEEN};
use clips::{ClipByLimits, clip_by_limits, clips, mu_of_one, raise_totals};
pub use effects::ByEffects;
pub use totals::TotalsDrawn;
use totals::totals_drawn;

use super::limits::out_of_reach;
use super::vector::coordinate::{Coordinate, Mask, PRESENCE};
use super::vector::coordinates::Coordinates;
use super::vector::rotation::rotate;
use super::vector::row_lengths::row_lengths;
use super::vector::sensitivity::weights;
use crate::analyze::{AnalyzedRelease, Axis, KeyRule, UnitGroups, axes};
use crate::ir::{GroupingSet, KeyId};
use crate::mechanism::{
    AccountState, Accounting, Calibrated, Fixed, Height, Loss, Mechanism, Mu, Norm, Presence,
    gaussian, laplace, loss_gaussian, loss_laplace, loss_threshold, mu_of, threshold,
};
use crate::policy::{Policy, SessionSettings};
use crate::refusal::{Refusal, reason};
use crate::rewrite::CoordinateId;

/// The delta of one release whose keys come from the data: the default share of delta holds 500.
const THRESHOLD_DELTA: f64 = 1e-11;

/// A query's limits and its payers: public facts of policy, session and ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// Epsilon of the whole statement, in (0, policy's maximum].
    pub epsilon: f64,
    /// The role's delta: a Gaussian's mu is the largest with delta(mu, epsilon) at most this.
    pub delta: f64,
    /// Every account that the statement's charge would touch.
    pub accounts: Vec<AccountState>,
    /// The session's other settings.
    pub session_settings: SessionSettings,
    /// A summary's keys of which ranges are asked for, ascending. Other statements have none.
    pub ranges: Vec<KeyId>,
}

/// A release as its statement asks for it, before its noise is chosen.
pub(in crate::rewrite) struct AskedRelease<'a> {
    pub release: &'a AnalyzedRelease,
    pub layout: Coordinates,
    /// The factor of each coordinate's weight.
    pub stress: Vec<u64>,
    /// The epsilon that is split among `share` statements of the database.
    pub epsilon: f64,
    pub share: usize,
    /// How many of these parts each of the release's statements gets.
    pub parts: usize,
    /// The number of releases of the analyst's statement.
    pub releases: usize,
}

impl AskedRelease<'_> {
    pub fn portion<'a>(&self, terms: &'a Terms, mechanism: Mechanism) -> Portion<'a> {
        Portion {
            terms,
            epsilon: self.epsilon,
            share: self.share,
            parts: self.parts,
            mechanism,
            counted: self.release.by_period.as_ref().map_or(1, |of| of.counted),
            totals_over: self
                .release
                .by_period
                .as_ref()
                .and_then(|of| of.totals_over),
            releases: self.releases,
        }
    }
}

/// The noise of one release.
#[derive(Debug, Clone, PartialEq)]
pub struct Price {
    pub mechanism: Mechanism,
    /// Bound C of the unit's weighted vector over the groups that the statement returns, in the
    /// norm [`Price::norm`].
    pub clip: BigUint,
    pub weights: Vec<BigUint>,
    /// The noise of each coordinate of a group; with `effects`, which have the noise that is drawn,
    /// in the group where it is largest.
    pub calibrated: Vec<Calibrated>,
    /// The effects from which grouping sets are computed, with their noise, if they are.
    pub effects: Option<ByEffects>,
    /// Running totals of prepaid periods; `calibrated` has the most noise of one period.
    pub totals: Option<TotalsDrawn>,
    /// A group is shown if this coordinate's noisy integer reaches the value.
    pub threshold: Option<(CoordinateId, i128)>,
    /// The most groups of a unit, where the statement must cap them.
    pub groups_per_unit: Option<u32>,
    /// The most groups of a unit that the clip is chosen for.
    pub groups: u64,
    /// The clip rests on a total that the policy declares.
    pub is_by_total: bool,
    /// The catalog proves that no unit's vector exceeds the clip, and none is emitted.
    pub within_clip: bool,
    pub loss: Loss,
    /// The L2 bound, whatever the mechanism uses. It is part of a question's digest.
    l2: BigUint,
    /// Grows as noise shrinks, for either mechanism: mu, or epsilon under pure accounting. Compares
    /// answers to one question.
    pub accuracy: f64,
    /// The look from which clips are chosen, if they are; the rest is then of the largest ones.
    pub look: Option<Look>,
}

/// The part of a price that a statement needs.
pub(super) struct Bounding {
    pub norm: Norm,
    pub clip: BigUint,
    pub refine: Vec<u32>,
    /// Whether the statement is run. Texts that are only digested may not change.
    pub is_run: bool,
}

impl Price {
    pub(super) fn bounding(&self) -> Bounding {
        Bounding {
            norm: self.norm(),
            clip: self.clip.clone(),
            refine: self.calibrated.iter().map(|c| c.refine).collect(),
            is_run: true,
        }
    }

    pub(super) fn with_noise(&self, calibrated: Vec<Calibrated>) -> Self {
        Self {
            calibrated,
            look: None,
            ..self.clone()
        }
    }

    /// Equal for every noise: all statements of one question have one text.
    pub(super) fn no_bounding(&self) -> Bounding {
        Bounding {
            norm: Norm::L2,
            clip: self.l2.clone(),
            refine: vec![0; self.calibrated.len()],
            is_run: false,
        }
    }
}

/// The epsilon and delta of a release, or of one of its statements.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion<'a> {
    pub terms: &'a Terms,
    /// The epsilon to split: the statement's, or the release's own where a target error is set.
    pub epsilon: f64,
    /// The number of parts of the epsilon.
    pub share: usize,
    /// The number of these parts that one statement of the release gets.
    pub parts: usize,
    /// The mechanism of all releases of the analyst's statement.
    pub mechanism: Mechanism,
    /// The most vectors that one unit adds under one debit: more than one if periods are prepaid.
    pub counted: u32,
    /// The number of periods whose running totals are drawn, where they are.
    pub totals_over: Option<u32>,
    pub releases: usize,
}

/// The vector of a release in its most accurate layout, and its price. Sets are computed from
/// effects where that helps. Under Laplace noise, pairs are rotated. Weights times `stress`.
///
/// # Errors
/// As [`price`].
pub fn vector(
    release: &AnalyzedRelease,
    layout: &Coordinates,
    stress: &[u64],
    policy: &Policy,
    portion: &Portion<'_>,
) -> Result<Vector, Refusal> {
    if layout.is_looked_at {
        let price = look::price(release, layout, policy, portion)?;
        return Ok(Vector {
            coordinates: layout.coordinates.clone(),
            plain: price.clone(),
            price,
        });
    }
    let plain = price(release, (&layout.coordinates, stress), policy, portion)?;
    let mut vector = Vector {
        coordinates: layout.coordinates.clone(),
        price: plain.clone(),
        plain,
    };
    if let Some(price) =
        effects::by_effects(release, &layout.coordinates, &vector.plain, policy, portion)
    {
        vector.price = price;
        return Ok(vector);
    }
    // Rotated coordinates are shorter in L1, and as long in L2. A target error chose the weights of
    // the plain layout, which is then kept.
    if portion.mechanism == Mechanism::Laplace
        && portion.terms.session_settings.target_error.is_none()
        && let Some(coordinates) = rotate(&layout.coordinates, &layout.measures)
        && let Ok(price) = price(release, (&coordinates, stress), policy, portion)
    {
        (vector.coordinates, vector.price) = (coordinates, price);
    }
    Ok(vector)
}

/// A vector and its price.
pub(super) struct Vector {
    pub coordinates: Vec<Coordinate>,
    pub price: Price,
    /// The price of the plain layout.
    pub plain: Price,
}

/// Prices the vector of a release. The coordinates' weights are multiplied by their `stress`; norms
/// and noise follow the weights.
///
/// # Guarantee
/// Adding noise from `calibrated` to every coordinate of every group costs at most `loss`, for
/// neighbours that differ in all rows of one unit. Where periods are prepaid, `loss` is that of all
/// statements under one debit, in which at most `counted` periods of a unit count, each within
/// `clip` and in other groups (docs/periods.md). Where running totals are drawn, the noise is that
/// of `totals`, for rows with the weights of its root, each drawn once.
///
/// # Requires
/// - Every row belongs to exactly one unit, and the rows of one unit depend on no other unit's:
///   `Labels::label` in [`crate::analyze`].
/// - One unit's weighted vector is within `clip`: `ClippedAggregate::statement` enforces it. With
///   `within_clip` it follows from [`norms`], the ranges of coordinates that the same statement
///   clamps to, and `one_row_per_unit` or `cells`.
/// - `one_row_per_unit`, `cells` and `one_group_per_unit` are proved by the catalog (`row_facts` in
///   [`crate::analyze`]), and its fingerprint is checked in the transaction that runs the
///   statement.
/// - Listed keys do not depend on private rows: `Keys::rule` in [`crate::analyze`].
///
/// # Reference
/// Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 2.7, for the vector under one L2 bound. Where a
/// clip is emitted it is the last step before noise, so the release is mu-GDP whatever single rows
/// hold.
pub fn price(
    release: &AnalyzedRelease,
    (coordinates, stress): (&[Coordinate], &[u64]),
    policy: &Policy,
    portion: &Portion<'_>,
) -> Result<Price, Refusal> {
    let most = policy.limits.groups_per_unit;
    let groups = groups(release, most, &portion.terms.session_settings);
    let mut weights = raise_presence(weights(coordinates), release, coordinates, groups);
    raise_totals(release, coordinates, &mut weights, groups);
    let weights: Vec<BigUint> = weights
        .into_iter()
        .zip(stress)
        .map(|(weight, stress)| weight * *stress)
        .collect();
    let ClipByLimits {
        clip,
        within_clip,
        is_by_total,
    } = clip_by_limits(
        release,
        coordinates,
        &weights,
        (groups, portion.mechanism.norm()),
    );
    let keyed = release.is_thresholded();
    if keyed && portion.terms.is_pure() {
        return Err(Refusal::new(
            reason::GROUP_KEY_NOT_DECLARED,
            "pure accounting requires declared values for GROUP BY columns",
        )
        .hint("Ask the data owner to declare the column's values."));
    }
    // A threshold's delta is that of one statement.
    if keyed && release.by_period.is_some() {
        return Err(out_of_reach());
    }
    let mut price = noise((clip.l2, clip.l1), weights, portion)?;
    price.within_clip = within_clip;
    price.is_by_total = is_by_total;
    price.groups = groups;
    if keyed {
        let clip = price.clip.clone();
        let most = u32::try_from(groups).unwrap_or(u32::MAX);
        let of_keys = release_keys(&mut price, coordinates, most, &clip)?;
        price.loss = price.loss.compose(of_keys).ok_or_else(out_of_reach)?;
        price.groups_per_unit = price
            .groups_per_unit
            .filter(|_| !release.one_row_per_unit && !release.one_group_per_unit);
    }
    Ok(price)
}

impl Terms {
    /// Only a pure epsilon is admitted.
    pub(super) fn is_pure(&self) -> bool {
        self.accounts
            .iter()
            .any(|a| a.cap.accounting() == Accounting::Pure)
    }

    /// The mu that an epsilon stands for.
    pub(super) fn mu(&self, epsilon: f64) -> Option<Mu> {
        mu_of(to_fixed(epsilon), to_fixed(self.delta))
    }

    /// The terms of a first answer, which shows what a target error needs. It spends
    /// `pgveil.epsilon` if the session sets it, otherwise half of the default epsilon; never more
    /// than `pgveil.max_cost`.
    pub fn of_first_answer(&self, policy: &Policy) -> Self {
        let mut terms = self.clone();
        terms.session_settings.target_error = None;
        if terms.session_settings.epsilon.is_none() {
            terms.epsilon = (terms.epsilon / 2.0).max(policy.privacy.epsilon_min);
        }
        let most = terms.session_settings.most_of_wanted(policy);
        terms.epsilon = terms.epsilon.min(most);
        terms
    }
}

pub(super) fn to_fixed(value: f64) -> Fixed {
    Fixed::round_down(value.clamp(0.0, 1e6))
}

/// Noise for a weighted vector of at most these L2 and L1 norms.
fn noise(
    (l2, l1): (BigUint, BigUint),
    weights: Vec<BigUint>,
    portion: &Portion<'_>,
) -> Result<Price, Refusal> {
    let PortionBudget { mu, epsilon } = budget(portion);
    let mechanism = portion.mechanism;
    let (clip, loss, accuracy) = match (mechanism, mu) {
        (Mechanism::Gaussian, Some(mu)) => (l2.clone(), loss_gaussian(mu), mu.to_f64()),
        (Mechanism::Laplace, _) if portion.terms.is_pure() => (
            l1,
            loss_laplace(epsilon),
            mu.map_or(epsilon.to_f64(), Mu::to_f64),
        ),
        (Mechanism::Laplace, Some(mu)) => {
            // Laplace noise of the same standard error: b = SE / sqrt 2.
            let epsilon = to_fixed(ratio(&l1, &l2) * std::f64::consts::SQRT_2 * mu.to_f64());
            (l1, loss_laplace(epsilon), mu.to_f64())
        }
        (Mechanism::Gaussian | Mechanism::Laplace, None) => return Err(out_of_reach()),
    };
    let calibrated: Vec<Calibrated> = weights
        .iter()
        .map(|weight| {
            let drawn = match (mechanism, mu) {
                (Mechanism::Gaussian, Some(mu)) => {
                    let mu = mu_of_one(mu, portion.counted).ok_or_else(out_of_reach)?;
                    gaussian(&clip, weight, mu)
                }
                (Mechanism::Gaussian, None) | (Mechanism::Laplace, _) => {
                    laplace(&clip, weight, loss.epsilon.unwrap_or(Fixed::ZERO))
                }
            };
            drawn.map_err(|_| out_of_reach())
        })
        .collect::<Result<Vec<_>, Refusal>>()?;
    let (calibrated, totals) = match (portion.totals_over, mechanism, mu) {
        (Some(periods), Mechanism::Gaussian, Some(mu)) => {
            let of = (&clip, weights.as_slice(), calibrated.as_slice());
            let totals = totals_drawn(of, mu, (periods, portion.counted));
            let (of_period, totals) = totals.ok_or_else(out_of_reach)?;
            (of_period, Some(totals))
        }
        (Some(_) | None, _, _) => (calibrated, None),
    };
    Ok(Price {
        mechanism,
        clip,
        weights,
        calibrated,
        effects: None,
        totals,
        threshold: None,
        groups_per_unit: None,
        groups: 1,
        is_by_total: false,
        within_clip: false,
        loss,
        l2,
        accuracy,
        look: None,
    })
}

/// The amount that a coordinate adds for each unit of a group, where it counts all of them,
/// whatever their rows hold.
fn presence_height(coordinate: &Coordinate) -> Option<Height> {
    match coordinate {
        Coordinate::Presence => Some(Height::Shared(PRESENCE)),
        Coordinate::Units {
            mask: Mask { filter, not_null },
        } => (filter.is_none() && not_null.is_none()).then_some(Height::Each(1)),
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Values { .. } => None,
        Coordinate::DistanceFromEnd { .. }
        | Coordinate::SquareComplement { .. }
        | Coordinate::Products { .. } => None,
    }
}

/// The coordinate that decides which groups are shown: units' presence, shared among their groups,
/// where there is one, else the number of units.
fn deciding_coordinate(coordinates: &[Coordinate]) -> Option<(CoordinateId, Height)> {
    let shared = coordinates.iter().position(|c| *c == Coordinate::Presence);
    let counted = || {
        coordinates
            .iter()
            .position(|c| presence_height(c).is_some())
    };
    let at = CoordinateId(shared.or_else(counted)?);
    Some((at, presence_height(&coordinates[at])?))
}

/// Adds the threshold on the number of units present; returns its delta, which is not in the
/// price's loss yet. `clip` bounds the number.
fn release_keys(
    price: &mut Price,
    coordinates: &[Coordinate],
    groups: u32,
    clip: &BigUint,
) -> Result<Loss, Refusal> {
    // Rounded down, and one number for threshold and charge: so all 500 keyed releases of the
    // default share fit.
    let delta = Fixed::round_down(THRESHOLD_DELTA);
    let (presence, height) = deciding_coordinate(coordinates).ok_or_else(|| {
        Refusal::new(
            reason::INTERNAL_ERROR,
            "a thresholded release counts no units",
        )
    })?;
    let counted = Presence {
        clip,
        weight: &price.weights[presence.0],
        height,
    };
    let pass_at = threshold(&counted, price.calibrated[presence.0], delta, groups)
        .map_err(|_| out_of_reach())?;
    price.threshold = Some((presence, pass_at));
    price.groups_per_unit = Some(groups);
    Ok(loss_threshold(delta))
}

/// Most groups that one unit may be in, over all grouping sets. Where keys are found by threshold,
/// no more than `by_threshold`.
fn groups(release: &AnalyzedRelease, by_threshold: u32, session_settings: &SessionSettings) -> u64 {
    let sets = release.grouping_sets();
    if release.one_row_per_unit {
        return sets.len() as u64;
    }
    if release.one_group_per_unit {
        return 1;
    }
    let of_set = |(set, of_unit): (&GroupingSet, &UnitGroups)| {
        let listed = axes(set, &release.tuples).iter().fold(1u64, |cells, axis| {
            let listed = match axis {
                Axis::Tuples(tuples) => tuples.rows.len(),
                Axis::Key(at) => match &release.keys[at.0].1 {
                    KeyRule::Domain(values) => values.len(),
                    KeyRule::Threshold => usize::MAX,
                },
            };
            cells.saturating_mul(listed.max(1) as u64)
        });
        listed.min(of_unit.groups)
    };
    let all = sets
        .iter()
        .zip(&release.unit_groups)
        .map(of_set)
        .fold(0u64, u64::saturating_add);
    let groups = if release.is_thresholded() {
        all.min(by_threshold.into())
    } else {
        all
    };
    let groups = session_settings
        .groups_per_unit
        .map_or(groups, |most| groups.min(most.into()));
    // Groups of all sets are capped together, at least at one of each set.
    let rows = release.lineage.rows_per_unit.max(1);
    groups
        .max(sets.len() as u64)
        .clamp(1, rows.saturating_mul(sets.len() as u64))
}

/// Raises the weight of a unit's presence. One unit moves its presence by one, but its rows by
/// many: with a higher weight both get about the same relative noise. A presence that groups share
/// is also raised by the square root of their number. Then the vector is as long as with a presence
/// of one in each group; a unit in all groups counts as much against the noise as there, and a unit
/// in fewer groups counts more.
fn raise_presence(
    weights: Vec<BigUint>,
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    groups: u64,
) -> Vec<BigUint> {
    let factor = if release.one_row_per_unit {
        BigUint::from(1u8)
    } else {
        let length = row_lengths(release, groups).squared.sqrt();
        (length / (groups.isqrt() + 1)).max(BigUint::from(1u8))
    };
    let weighed = |(weight, coordinate): (BigUint, &Coordinate)| match coordinate {
        Coordinate::Units { .. } => weight * &factor,
        Coordinate::Presence => (weight * &factor * (BigUint::from(groups) << 20u8).sqrt()) >> 10u8,
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Values { .. } => weight,
        Coordinate::DistanceFromEnd { .. }
        | Coordinate::SquareComplement { .. }
        | Coordinate::Products { .. } => weight,
    };
    weights.into_iter().zip(coordinates).map(weighed).collect()
}

fn ratio(a: &BigUint, b: &BigUint) -> f64 {
    // Both have at most a few hundred bits, of which the leading 60 decide.
    let shift = a.bits().max(b.bits()).saturating_sub(900);
    let float = |v: &BigUint| (v >> shift).to_string().parse::<f64>().unwrap_or(f64::MAX);
    float(a) / float(b)
}
