//! The price of grouping sets that are computed from effects ([`crate::mechanism::Effects`]),
//! instead of giving each group separate noise.

use num_bigint::BigUint;
use num_traits::ToPrimitive;

use super::{Portion, Price, budget};
use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::ir::grouping::numbers;
use crate::mechanism::{
    Calibrated, EFFECTS_MAX, Effect, Effects, Mechanism, Norm, gaussian, gaussian_finer,
};
use crate::policy::{ClipChoice, Policy};
use crate::rewrite::vector::clip::roomy;
use crate::rewrite::vector::coordinate::Coordinate;
use crate::rewrite::vector::row_lengths::ceil_sqrt;
use crate::rewrite::vector::sensitivity::{Norms, norms};

/// Bits of the largest integer in an effect, on its noise's grid. There is room for the noise as
/// well.
const EFFECT_BITS: u32 = 124;
/// The binary logarithm of the most rows that are summed exactly.
const ROWS_BITS: u32 = 33;
/// Effects are used if they make the largest noise of a group smaller by at least one part in this
/// many.
const GAIN_MIN: u32 = 100;
/// The most integers that are read for all coordinates of all releases of a statement: these take
/// at most a second. Each release has an equal part.
const WORK_MAX: u64 = 50_000_000;
/// The most steps in which the effects of all releases of a statement are weighed: sets, times
/// effects, times keys; and what is computed from each value of the keys with ranges.
const WEIGHED_MAX: u64 = 8_000_000;
/// The most kinds of noise that are calibrated for one release: effects times coordinates.
const CALIBRATED_MAX: usize = 4096;

/// Effects with their noise.
#[derive(Debug, Clone, PartialEq)]
pub struct ByEffects {
    pub effects: Effects,
    /// Bound of what one unit adds to all effects, each times its weight: in L2, in the unit of the
    /// release's clip.
    pub clip: BigUint,
    /// For each effect, the noise of each coordinate.
    pub calibrated: Vec<Vec<Calibrated>>,
    /// By how many bits the statement refines the integers of each coordinate.
    pub refined: Vec<u32>,
    /// For each effect the place of the grouping set from whose groups it is computed, if the
    /// statement returns the groups of each set; `None` where it returns the cells of all keys.
    pub sources: Option<Vec<usize>>,
    /// By how many bits an effect's integer may be larger than those that it is computed from.
    pub growth: u32,
}

impl ByEffects {
    /// Each effect with its noise.
    pub fn measured_effects(&self) -> impl Iterator<Item = (&Effect, &[Calibrated])> {
        let noise = self.calibrated.iter().map(Vec::as_slice);
        self.effects.measured_effects().iter().zip(noise)
    }

    /// By how many bits the noise of an effect is finer than the statement's integers.
    pub fn finer(&self, coordinate: usize, noise: &Calibrated) -> u32 {
        noise.refine - self.refined[coordinate]
    }

    /// Bits of the largest integer of a cell. Larger ones, which no table holds, are cut to it
    /// before they are transformed, and then nothing overflows: each effect is computed from the
    /// groups of its source, or from the cells, which [`Self::growth`] is about.
    pub fn cell_bits(&self, coordinate: usize) -> u32 {
        let noise = self.calibrated.iter().map(|noise| &noise[coordinate]);
        let finest = noise.map(|noise| self.finer(coordinate, noise)).max();
        EFFECT_BITS.saturating_sub(self.growth + finest.unwrap_or(0))
    }
}

/// The price by effects; `None` where the sets have to be drawn apart, or where some set would have
/// a larger error than so. The statement then groups by all keys, and returns cells. If these are
/// too many, and each unit has one row, it returns the groups of each set, as for separate noise.
/// Where ranges of keys are asked for, the noise of a single group does not decide: it is larger,
/// so that ranges have less.
///
/// That is so where every key is listed, each combination of values being a group; where all that
/// is summed adds up over groups; and where no look is planned, which chooses a clip for the groups
/// themselves. `pgveil.clip = fixed` asks for draws that are independent from group to group.
///
/// # Guarantee
/// Adding noise from `calibrated` to every coordinate of every effect of the statement's cells
/// costs at most `loss`, for neighbours that differ in all rows of one unit. What is computed from
/// them is post-processing.
///
/// Proof. Let x be the cells that the statement returns, sums over units. With `within_clip` a unit
/// has one row: each coordinate moves in one cell, and their weighted L2 norm is at most `clip`
/// ([`norms`]). Otherwise the unit's whole weighted vector has at most the L1 norm `clip`, which
/// the statement enforces last. In both cases [`Effects::clip`] bounds the L2 norm of all effects
/// by [`ByEffects::clip`], with the weight F_j g_A for coordinate j of effect A. With these weights
/// and this bound [`gaussian`] calibrates the noise of all of them together, so the release is
/// mu-GDP. The integers are transformed first and then noised, each with its own draw. Noise on the
/// cells, transformed, would be another release: rounding to integers does not commute with the
/// transform.
///
/// Groups of a set add up the cells over the keys that it lacks, and an effect within the set is
/// the same linear function of them ([`Effects::effect`]). So where a unit has one row, the effects
/// move as if they were computed from its one cell, whichever set each is computed from.
///
/// Ranges change the effects alone: the proof holds for any linear function of the cells whose
/// columns [`Effects::clip`] bounds.
///
/// An integer that is cut to [`ByEffects::cell_bits`] before it is transformed moves no further
/// than it did.
///
/// # Requires
/// As [`super::price`]. The statement's clip is in [`Price::norm`].
///
/// # Reference
/// Dong, Roth, Su 2019 (arXiv 1905.02383), Theorem 2.7; Xiao, He, Zhang, Kifer 2023 (arXiv
/// 2305.08175) for the strategy.
pub fn by_effects(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    apart: &Price,
    policy: &Policy,
    portion: &Portion<'_>,
) -> Option<Price> {
    let is_one_row = release.one_row_per_unit;
    let adds_up = coordinates.iter().all(|c| c.adds_up(is_one_row));
    if !adds_up || !may_share(release, apart, portion) {
        return None;
    }
    let mu = budget(portion).mu?;
    let effects = effects_of(release, portion)?;
    let calibrated = effects.measured_effects().len() * coordinates.len();
    let vectors = coordinates.len().saturating_mul(portion.releases);
    let sources = sources(&effects, release, policy, vectors as u64)?;
    if calibrated > CALIBRATED_MAX {
        return None;
    }
    let groups = release
        .lineage
        .rows_per_unit
        .clamp(1, effects.cells() as u64);
    let clip = cells_clip(release, coordinates, &apart.weights, groups);
    let whole = effects.clip(&clip);
    let widest = scale(&whole, widest_deviation(&effects, release))?;
    let is_less = &widest * (GAIN_MIN + 1) < &apart.clip * GAIN_MIN;
    if effects.ranges().is_empty() && !is_less {
        return None;
    }
    let weights = || apart.weights.iter();
    let shown = weights().map(|weight| gaussian(&widest, weight, mu).ok());
    let shown: Vec<Calibrated> = shown.collect::<Option<_>>()?;
    let refined: Vec<u32> = shown
        .iter()
        .map(|shown| if is_one_row { 0 } else { shown.refine })
        .collect();
    let of_effect = |effect: &Effect| {
        weights()
            .zip(&refined)
            .map(|(weight, least)| {
                gaussian_finer(&whole, &(weight * effect.weight()), mu, *least)
                    .ok()
                    .filter(|noise| noise.refine >= *least)
            })
            .collect::<Option<Vec<_>>>()
    };
    let calibrated = effects
        .measured_effects()
        .iter()
        .map(of_effect)
        .collect::<Option<_>>()?;
    let measured = ByEffects {
        clip: whole,
        calibrated,
        refined,
        growth: growth(&effects, &numbers(&release.sets), sources.as_deref()),
        effects,
        sources,
    };
    if !coordinates
        .iter()
        .enumerate()
        .all(|of| has_room(&measured, of))
    {
        return None;
    }
    Some(Price {
        clip,
        calibrated: shown,
        groups,
        is_by_total: false,
        within_clip: is_one_row,
        effects: Some(measured),
        ..apart.clone()
    })
}

/// Whether the release has several sets whose groups are all shown, with Gaussian noise and without
/// a look, and the session allows draws that are not independent.
fn may_share(release: &AnalyzedRelease, apart: &Price, portion: &Portion<'_>) -> bool {
    release.sets.len() > 1
        && apart.mechanism == Mechanism::Gaussian
        && apart.threshold.is_none()
        && apart.look.is_none()
        && portion.terms.session_settings.clip != ClipChoice::Fixed
}

/// Whether sums of a coordinate over all rows fit.
fn has_room(measured: &ByEffects, (at, coordinate): (usize, &Coordinate)) -> bool {
    let magnitude = u64::BITS - coordinate.magnitude().leading_zeros();
    measured.cell_bits(at) >= magnitude + measured.refined[at] + ROWS_BITS
}

impl Price {
    /// The norm in which `clip` bounds what one unit adds to the groups that the statement returns.
    pub fn norm(&self) -> Norm {
        if self.effects.is_some() && !self.within_clip {
            Norm::L1
        } else {
            self.mechanism.norm()
        }
    }
}

/// The effects that a release's grouping sets are computed from; `None` where it would take long to
/// weigh them.
fn effects_of(release: &AnalyzedRelease, portion: &Portion<'_>) -> Option<Effects> {
    let (sizes, sets) = (sizes(release)?, numbers(&release.sets));
    let ranges: Vec<usize> = portion.terms.ranges.iter().map(|key| key.0).collect();
    let weighed = weighing(&sizes, &ranges, &sets).saturating_mul(portion.releases as u64);
    (weighed <= WEIGHED_MAX).then(|| Effects::new(sizes, ranges, &sets))?
}

/// How often the values of a key with ranges are gone through at each level.
const VALUES_READ: u64 = 4;

/// An upper bound of the steps in which the effects of sets are weighed.
fn weighing(sizes: &[usize], ranges: &[usize], sets: &[Vec<usize>]) -> u64 {
    let of_key = |at: &usize| match ranges.contains(at) {
        true => 2 + u64::from(sizes[*at].checked_ilog2().unwrap_or(0)),
        false => 1 + u64::from(sizes[*at] > 1),
    };
    let within = |set: &Vec<usize>| set.iter().map(of_key).fold(1, u64::saturating_mul);
    let effects = sets.iter().map(within).fold(0, u64::saturating_add);
    let effects = effects.min(EFFECTS_MAX as u64);
    let keys: usize = sets.iter().map(Vec::len).sum();
    let of_values = |at: &usize| {
        let levels = of_key(at).saturating_mul(VALUES_READ);
        levels.saturating_mul(sizes[*at] as u64)
    };
    let values = ranges.iter().map(of_values).fold(0, u64::saturating_add);
    effects.saturating_mul(keys as u64).saturating_add(values)
}

/// Whether effects are computed from sets, as [`ByEffects::sources`] says it; `None` where that
/// would be too much for this number of coordinates, or is not proved.
fn sources(
    effects: &Effects,
    release: &AnalyzedRelease,
    policy: &Policy,
    coordinates: u64,
) -> Option<Option<Vec<usize>>> {
    let sets = numbers(&release.sets);
    let all: Vec<usize> = (0..effects.sizes().len()).collect();
    let of_cells = vec![0; effects.measured_effects().len()];
    let (work, found) = if effects.cells() <= policy.limits.groups as usize {
        (effects.work(&[all], &of_cells), None)
    } else {
        let found = effects
            .sources(&sets)
            .filter(|_| release.one_row_per_unit)?;
        (effects.work(&sets, &found), Some(found))
    };
    (work.saturating_mul(coordinates) <= WORK_MAX).then_some(found)
}

/// The most by which the transform of what the statement returns makes integers larger, in bits.
/// Without sources that is cells, the groups of the set of all keys.
fn growth(effects: &Effects, sets: &[Vec<usize>], sources: Option<&[usize]>) -> u32 {
    match sources {
        None => effects.growth(&(0..effects.sizes().len()).collect::<Vec<_>>()),
        Some(sources) => {
            let of_effects = sources.iter().map(|at| effects.growth(&sets[*at]));
            of_effects.max().unwrap_or(0)
        }
    }
}

/// The largest standard deviation of a group, in terms of that of one effect.
fn widest_deviation(effects: &Effects, release: &AnalyzedRelease) -> f64 {
    effects.largest_variance(&numbers(&release.sets)).sqrt()
}

/// The number of values of each key; `None` where some key is not listed, or not all combinations
/// of values occur.
fn sizes(release: &AnalyzedRelease) -> Option<Vec<usize>> {
    let size = |rule: &KeyRule| match rule {
        KeyRule::Domain(values) => Some(values.len()),
        KeyRule::Threshold => None,
    };
    let sizes = release.keys.iter().map(|(_, rule)| size(rule)).collect();
    if release.tuples.is_empty() {
        sizes
    } else {
        None
    }
}

/// The bound of what one unit adds to the cells: the L2 norm of its one row, or the L1 norm of as
/// many rows as it may have, which cuts no unit within that number.
fn cells_clip(
    release: &AnalyzedRelease,
    coordinates: &[Coordinate],
    weights: &[BigUint],
    groups: u64,
) -> BigUint {
    let Norms { row, presence, .. } = norms(coordinates, weights, &release.exclusive_filters);
    if release.one_row_per_unit {
        return ceil_sqrt(&(row.squared + presence.squared));
    }
    let rows = release.lineage.rows_per_unit.max(1);
    roomy(&(row.absolute * rows), Norm::L1, coordinates.len(), groups)
}

/// A factor at most one of a clip, rounded up.
fn scale(clip: &BigUint, factor: f64) -> Option<BigUint> {
    const BITS: u32 = 80;
    let factor = (factor * 2f64.powi(BITS as i32)).to_u128()?;
    Some(((clip * (factor + 1)) >> BITS) + 1u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mu;

    #[test]
    fn weighing_is_bounded_before_effects_are_listed() {
        let sizes = vec![2; 100];
        let chain: Vec<Vec<usize>> = (0..200).map(|at| (0..at % 100).collect()).collect();
        assert!(weighing(&sizes, &[], &chain) > WEIGHED_MAX);
        // All triples of ten keys, and 256 pairs and single keys of 24.
        let ten: Vec<usize> = (0..10).collect();
        let triples = crate::policy::combinations(&ten, 3, 1000).unwrap();
        assert!(weighing(&[9; 10], &[], &triples) < WEIGHED_MAX / 8);
        let many: Vec<usize> = (0..24).collect();
        let pairs = crate::policy::combinations(&many, 2, 1000).unwrap();
        assert!(weighing(&[9; 24], &[], &pairs[..256]) < WEIGHED_MAX / 8);
        assert_eq!(weighing(&[1, 2], &[], &[vec![0, 1], vec![1]]), 4 * 3);
        // Six levels, the total and one more, in two sets; and the values.
        assert_eq!(
            weighing(&[64, 2], &[0], &[vec![0, 1], vec![0]]),
            (16 + 8) * 3 + 64 * 8 * 4
        );
        assert!(weighing(&[10_000], &[0], &[vec![0]]) < WEIGHED_MAX / 8);
        assert!(weighing(&[1_000_000], &[0], &[vec![0]]) > WEIGHED_MAX);
    }

    /// The effects of these sets, with noise for one row a unit.
    fn effects_with_noise(
        sizes: Vec<usize>,
        ranges: Vec<usize>,
        sets: &[Vec<usize>],
    ) -> [ByEffects; 2] {
        let effects = Effects::new(sizes, ranges, sets).unwrap();
        let clip = effects.clip(&1u8.into());
        let noise = |effect: &Effect| {
            let noise = gaussian(&clip, &effect.weight().into(), Mu::round_down(0.25));
            vec![noise.unwrap()]
        };
        let calibrated: Vec<_> = effects.measured_effects().iter().map(noise).collect();
        [None, effects.sources(sets)].map(|sources| ByEffects {
            growth: growth(&effects, sets, sources.as_deref()),
            effects: effects.clone(),
            clip: clip.clone(),
            calibrated: calibrated.clone(),
            refined: vec![0],
            sources,
        })
    }

    /// Six keys of a year's days, each in a separate set: no effect is computed from all of them.
    #[test]
    fn integers_have_room_where_sets_have_few_keys() {
        let singles: Vec<Vec<usize>> = (0..6).map(|key| vec![key]).collect();
        let [of_cells, of_sets] = effects_with_noise(vec![365; 6], (0..6).collect(), &singles);
        assert!(of_cells.cell_bits(0) < ROWS_BITS);
        assert!(of_sets.cell_bits(0) > ROWS_BITS);
    }

    /// The largest groups of any signs have effects that fit with the bits of their noise. (An
    /// overflow ends a test.)
    #[test]
    fn nothing_overflows_at_the_largest_integers() {
        type Shape<'s> = (&'s [usize], &'s [usize], &'s [&'s [usize]]);
        let shapes: [Shape<'_>; 5] = [
            (&[365, 3], &[0], &[&[0], &[1]]),
            (&[37, 5, 3], &[0, 1], &[&[0, 1, 2], &[2]]),
            (&[33, 9], &[0, 1], &[&[0, 1], &[]]),
            (&[64, 1, 7], &[0], &[&[0, 1], &[1, 2], &[]]),
            (&[12, 31, 2], &[], &[&[0, 1], &[1, 2]]),
        ];
        for (sizes, ranges, sets) in shapes {
            let mut sets: Vec<Vec<usize>> = sets.iter().map(|set| set.to_vec()).collect();
            for by in effects_with_noise(sizes.to_vec(), ranges.to_vec(), &sets) {
                sets.push((0..sizes.len()).collect());
                let whole = sets.len() - 1;
                let most = 1i128 << by.cell_bits(0);
                let mut largest = 0;
                for (number, (effect, noise)) in by.measured_effects().enumerate() {
                    let source = by.sources.as_ref().map_or(whole, |sources| sources[number]);
                    let groups = by.effects.groups_in(&sets[source]);
                    let room = 1i128 << (EFFECT_BITS - by.finer(0, &noise[0]));
                    for run in 0..=groups.ilog2() + 1 {
                        let sign = |at: usize| if at >> run & 1 == 0 { most } else { -most };
                        let all: Vec<i128> = (0..groups).map(sign).collect();
                        let integers = by.effects.effect(effect, &sets[source], &all);
                        let reached = integers.iter().map(|value| value.abs()).max();
                        assert!(reached.unwrap() <= room, "{sizes:?} {effect:?}");
                        largest = largest.max(reached.unwrap());
                    }
                }
                // Little room is left over.
                assert!(largest > 1 << (EFFECT_BITS - 48), "{sizes:?} {largest}");
                sets.pop();
            }
        }
    }
}
