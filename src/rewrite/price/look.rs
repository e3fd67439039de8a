//! The price of a release whose clips are chosen for it: a noisy histogram of units by the length
//! of their vectors, then sums that are clipped at lengths chosen from the histogram.
//!
//! `docs/look.md` has the theorem and its proof.

use num_bigint::BigUint;

use super::chosen_clips::BlockId;
use super::{
    AskedRelease, Block, Look, Portion, Price, Terms, budget, clips, deciding_coordinate, groups,
    out_of_reach, release_keys,
};
use crate::analyze::AnalyzedRelease;
use crate::mechanism::{Loss, Mechanism, Mu, gaussian, loss_gaussian};
use crate::policy::{ClipChoice, Policy, SessionSettings};
use crate::refusal::Refusal;
use crate::rewrite::CoordinateId;
use crate::rewrite::vector::bins::{Bins, CandidateId};
use crate::rewrite::vector::blocks::blocks;
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::vector::coordinates::Coordinates;
use crate::rewrite::vector::row_lengths::ceil_sqrt;
use crate::rewrite::vector::sensitivity::{norms, weights};

/// A block whose ceiling is at most this many times one row's length is clipped there, because a
/// look would cost more than a better clip could gain. The exception is a value that is computed
/// from many rows.
pub(super) const SHORT: u32 = 4;

/// The most rows that a statement may return for listed groups: all of them are in memory.
pub(super) const ROWS_MAX: u64 = 4_000_000;

/// The look's share of mu^2 with few groups, in percent. With many groups it is smaller.
const SHARE_OF_FEW: u128 = 30;
pub(super) const SHARE: u128 = 15;
const FEW_GROUPS: u64 = 4;
/// The share of the number of units that decides which groups are shown.
const SHARE_OF_SHOWN: u128 = 35;

/// The most groups of a unit that count where groups are shown by threshold, if the policy's limit
/// is not larger. Each group past the limit is cut whole, and no look shows how much that is. The
/// clips follow the look, and a unit's presence is shared among its groups. So only the threshold
/// grows with this number, and slowly: 1,000 groups instead of 20 raise it by 7 %.
const GROUPS: u32 = 1_000;

/// Whether a release may have a look: nothing asks for a clip that is known beforehand.
pub(in crate::rewrite) fn may_look(release: &AnalyzedRelease, terms: &Terms) -> bool {
    let settings = &terms.session_settings;
    settings.clip == ClipChoice::Auto
        && settings.rows_per_unit.is_none()
        && settings.target_error.is_none()
        && !terms.is_pure()
        && release.no_row.is_none()
}

/// The blocks of a vector, not yet priced.
struct Blocked {
    blocks: Vec<Block>,
    /// Which of the blocks decides which groups are shown.
    shown: Option<usize>,
    /// Whether the clip of a block without a choice rests on a total that the policy declares.
    is_by_total: bool,
}
/// The blocks; `None` if the clip of every block is known, or if there are too many groups and
/// bins.
fn make_blocks(release: &AnalyzedRelease, layout: &Coordinates, groups: u64) -> Option<Blocked> {
    let coordinates = layout.coordinates.as_slice();
    let shown = showing_coordinate(release, coordinates);
    let (blocks, by_totals): (Vec<Block>, Vec<bool>) =
        blocks(coordinates, &release.exclusive_filters, shown)
            .into_iter()
            .map(|places| {
                let of_block: Vec<Coordinate> =
                    places.iter().map(|at| coordinates[*at].clone()).collect();
                let weights = of_one_scale(&of_block).unwrap_or_else(|| weights(&of_block));
                let (ceiling, is_by_total) = clips(release, &of_block, &weights, groups).shortest();
                let row = norms(&of_block, &weights, &release.exclusive_filters);
                let row = ceil_sqrt(&(row.row.squared + row.presence.squared + row.shared.squared));
                let is_short = ceiling <= row * SHORT && !places.iter().any(|at| layout.made[at.0]);
                let is_known = is_short || places.iter().any(|at| shown == Some(*at));
                let bins = if is_known {
                    Bins::single(ceiling)
                } else {
                    Bins::up_to(&ceiling)
                };
                let block = Block {
                    coordinates: places,
                    weights,
                    bins,
                    mu: Mu(1),
                };
                (block, is_known && is_by_total)
            })
            .unzip();
    let bins = blocks
        .iter()
        .map(|block| block.bins.thresholds().len() as u64);
    let rows = bins.sum::<u64>().saturating_mul(release.listed_groups());
    let decides = shown.and_then(|at| blocks.iter().position(|b| b.coordinates.contains(&at)));
    let has_choice = blocks.iter().any(|block| block.bins.has_choice());
    (rows <= ROWS_MAX && has_choice).then_some(Blocked {
        blocks,
        shown: decides,
        is_by_total: by_totals.contains(&true),
    })
}

/// The most groups of a unit that count in a looked-at release.
fn groups_of(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    policy: &Policy,
    settings: &SessionSettings,
) -> u64 {
    let declared = policy.limits.groups_per_unit;
    let by_threshold = if coordinates.contains(&Coordinate::Presence) {
        declared.max(GROUPS)
    } else {
        declared
    };
    groups(release, by_threshold, settings)
}

/// Weights of one, where all coordinates are equally large.
fn of_one_scale(coordinates: &[Coordinate]) -> Option<Vec<BigUint>> {
    let magnitude = coordinates.first()?.magnitude();
    coordinates
        .iter()
        .all(|c| c.magnitude() == magnitude)
        .then(|| vec![BigUint::from(1u8); coordinates.len()])
}

/// Whether a look has a clip to choose.
pub(in crate::rewrite) fn has_choice(
    release: &AnalyzedRelease,
    layout: &Coordinates,
    policy: &Policy,
    terms: &Terms,
) -> bool {
    let coordinates = &layout.coordinates;
    let groups = groups_of(release, coordinates, policy, &terms.session_settings);
    make_blocks(release, layout, groups).is_some()
}

/// Whether what is paid before the data is read is worth the policy's least epsilon, which bounds
/// how many questions a budget holds.
///
/// # Errors
/// As [`price`].
pub(in crate::rewrite) fn is_worth_the_least(
    asked: &AskedRelease<'_>,
    policy: &Policy,
    terms: &Terms,
) -> Result<bool, Refusal> {
    let portion = asked.portion(terms, Mechanism::Gaussian);
    let price = price(asked.release, &asked.layout, policy, &portion)?;
    let least = terms.mu(policy.privacy.epsilon_min);
    let first = price.look.map_or(Loss::ZERO, |look| look.first);
    Ok(least.is_some_and(|least| first.mu_squared >= least.square()))
}

/// The coordinate that decides which groups are shown.
fn showing_coordinate(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
) -> Option<CoordinateId> {
    let deciding = deciding_coordinate(coordinates).filter(|_| release.is_thresholded());
    deciding.map(|(at, _)| at)
}

/// Prices a release whose clips are chosen from a look.
///
/// # Guarantee
/// Both steps together cost at most `loss` = `first` + `second`, for neighbours that differ in all
/// rows of one unit, whichever candidates the noisy histograms lead to. Of mu^2, the look takes a
/// part for each block with a choice, the coordinate that decides which groups are shown a part,
/// and the sums of each other block an equal part of the rest.
///
/// # Requires
/// - [`has_choice`].
/// - As [`super::price`], for the statement of `ClippedAggregate::statement` with these blocks.
/// - Candidates are chosen from the noisy histograms and public facts alone: [`crate::release`].
///
/// # Errors
/// 22023 where no noise of supported size fits some candidate.
///
/// # Reference
/// `docs/look.md`: Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 3.2, for the two steps.
pub(super) fn price(
    release: &AnalyzedRelease,
    layout: &Coordinates,
    policy: &Policy,
    portion: &Portion<'_>,
) -> Result<Price, Refusal> {
    let coordinates = &layout.coordinates;
    let settings = &portion.terms.session_settings;
    let groups = groups_of(release, coordinates, policy, settings);
    if portion.mechanism == Mechanism::Laplace {
        return Err(out_of_reach());
    }
    let Blocked {
        mut blocks,
        shown,
        is_by_total,
    } = make_blocks(release, layout, groups).ok_or_else(out_of_reach)?;
    let whole = budget(portion).mu.ok_or_else(out_of_reach)?;
    let shares = Shares::of(&blocks, shown.is_some(), release.listed_groups());
    let mu_of = |percent: u128, parts: usize| mu_of_part(whole, percent, parts);
    let look_mu = mu_of(shares.look, shares.looked).ok_or_else(out_of_reach)?;
    let sums_mu = mu_of(shares.sums, shares.summed).ok_or_else(out_of_reach)?;
    let shown_mu = mu_of(SHARE_OF_SHOWN, 1).ok_or_else(out_of_reach)?;
    for (at, block) in blocks.iter_mut().enumerate() {
        block.mu = if shown == Some(at) { shown_mu } else { sums_mu };
        // The least of several candidates has the least noise, the ceiling the most.
        block.calibrate(CandidateId::LEAST)?;
        block.calibrate(CandidateId::CEILING)?;
    }
    let one = BigUint::from(1u8);
    let counts = gaussian(&one, &one, look_mu).map_err(|_| out_of_reach())?;
    let of_look = times(look_mu, shares.looked)?;
    let first = shown.map_or(Ok(of_look), |_| sum(of_look, times(shown_mu, 1)?))?;
    let second = times(sums_mu, shares.summed)?;
    let look = Look {
        blocks,
        counts,
        shown: shown.map(BlockId),
        first,
        second,
    };
    Ok(Price {
        is_by_total,
        ..price_with(release, (coordinates, groups), look, whole)?
    })
}

/// How mu^2 is split, in percent, and in how many parts each.
struct Shares {
    look: u128,
    looked: usize,
    sums: u128,
    summed: usize,
}

impl Shares {
    fn of(blocks: &[Block], is_thresholded: bool, listed: u64) -> Self {
        let looked = blocks.iter().filter(|b| b.bins.has_choice()).count();
        let (look, left, summed) = match (is_thresholded, listed) {
            (true, _) => (SHARE, 100 - SHARE_OF_SHOWN, blocks.len() - 1),
            (false, ..=FEW_GROUPS) => (SHARE_OF_FEW, 100, blocks.len()),
            (false, _) => (SHARE, 100, blocks.len()),
        };
        Self {
            look,
            looked,
            sums: left - look,
            summed,
        }
    }
}

fn price_with(
    release: &AnalyzedRelease,
    (coordinates, groups): (&[Coordinate], u64),
    look: Look,
    whole: Mu,
) -> Result<Price, Refusal> {
    let mut weights = vec![BigUint::from(1u8); coordinates.len()];
    let mut calibrated = vec![look.counts; coordinates.len()];
    for block in &look.blocks {
        let of_block = block.calibrate(CandidateId::CEILING)?;
        for ((at, weight), noise) in block.coordinates.iter().zip(&block.weights).zip(of_block) {
            weights[at.0] = weight.clone();
            calibrated[at.0] = noise;
        }
    }
    let ceiling = look.blocks.iter().map(|b| b.bins.ceiling()).max();
    let ceiling = ceiling.cloned().unwrap_or_default();
    let mut price = Price {
        mechanism: Mechanism::Gaussian,
        clip: ceiling.clone(),
        weights,
        calibrated,
        effects: None,
        totals: None,
        threshold: None,
        groups_per_unit: None,
        groups,
        is_by_total: false,
        within_clip: false,
        loss: sum(look.first, look.second)?,
        l2: ceiling,
        accuracy: whole.to_f64(),
        look: None,
    };
    let mut look = look;
    if let Some(shown) = look.shown {
        let block = look.block(shown);
        let groups = u32::try_from(groups).unwrap_or(u32::MAX);
        let of_keys = release_keys(&mut price, coordinates, groups, block.bins.ceiling())?;
        // Groups are shown with the look, and paid for then.
        look.first = sum(look.first, of_keys)?;
        price.loss = sum(price.loss, of_keys)?;
        price.groups_per_unit = price
            .groups_per_unit
            .filter(|_| !release.one_row_per_unit && !release.one_group_per_unit);
    }
    price.look = Some(look);
    Ok(price)
}

/// The mu of one of several equal parts of some percent of mu^2, rounded down.
pub(super) fn mu_of_part(whole: Mu, percent: u128, parts: usize) -> Option<Mu> {
    let squared = whole.square().0 / 100 * percent / (parts.max(1) as u128);
    u64::try_from(squared.isqrt())
        .ok()
        .filter(|mu| *mu > 0)
        .map(Mu)
}

fn times(mu: Mu, count: usize) -> Result<Loss, Refusal> {
    (0..count).try_fold(Loss::ZERO, |all, _| sum(all, loss_gaussian(mu)))
}

fn sum(one: Loss, other: Loss) -> Result<Loss, Refusal> {
    one.compose(other).ok_or_else(out_of_reach)
}
