//! Grouping sets that are computed from effects: the exact cells are transformed, each integer of
//! each effect gets its own noise, and the groups of all sets are computed from what is noisy.

use std::collections::HashMap;

use num_bigint::BigInt;
use zeroize::Zeroizing;

use super::groups::{ExactGroup, FoundGroups, PrintedKey, arrange, cells, integer};
use super::{Drawn, Error};
use crate::analyze::KeyRule;
use crate::ir::grouping::numbers;
use crate::mechanism::Sampler;
use crate::rewrite::{ByEffects, ReleasePlan, key_text};

/// The groups of all sets, in the order of [`cells`].
///
/// # Guarantee
/// The noise is added to the effects of the exact cells, one draw for each integer, before anything
/// is divided or rounded: what is released is a function of that vector, whose loss is
/// [`crate::rewrite::Price::loss`]. Cells beyond [`ByEffects::cell_bits`] are cut, before they are
/// transformed; nothing saturates after that.
///
/// # Requires
/// `vector` has the rows of the statement: listed keys, and integers that are refined by
/// [`ByEffects::refined`] bits. They are of cells, or where [`ByEffects::sources`] are known of the
/// groups of each set.
///
/// # Reference
/// As [`crate::mechanism::Effects`].
pub fn draw(
    release: &ReleasePlan,
    by: &ByEffects,
    vector: &[PrintedKey],
    sampler: &mut dyn Sampler,
) -> Result<Drawn, Error> {
    let keys = (0..by.effects.sizes().len()).collect();
    let (sets, exact) = match by.sources {
        None => (vec![keys], vec![cells_of(release, by, vector)]),
        Some(_) => (numbers(release.sets()), groups_of_sets(release, by, vector)),
    };
    let coordinates = by.refined.len();
    let finest = |at: usize| by.calibrated.iter().map(|noise| noise[at].refine).max();
    let refined: Vec<u32> = (0..coordinates).map(|at| finest(at).unwrap_or(0)).collect();
    let mut groups: Vec<(PrintedKey, Vec<BigInt>)> = cells(release)
        .into_iter()
        .map(|key| (key, Vec::new()))
        .collect();
    for at in 0..coordinates {
        let mut noisy = Vec::with_capacity(by.calibrated.len());
        for (number, (effect, noise)) in by.measured_effects().enumerate() {
            let noise = &noise[at];
            let source = by.sources.as_ref().map_or(0, |sources| sources[number]);
            let mut integers = Vec::new();
            let exact = by.effects.effect(effect, &sets[source], &exact[source][at]);
            for value in exact.iter() {
                let value = (value << by.finer(at, noise)) + sampler.sample(&noise.noise)?;
                integers.push(BigInt::from(value) << (refined[at] - noise.refine));
            }
            noisy.push(integers);
        }
        let computed = by.effects.groups(&numbers(release.sets()), &noisy);
        let computed = computed.into_iter().flatten();
        for ((_, integers), integer) in groups.iter_mut().zip(computed) {
            integers.push(integer);
        }
    }
    Ok(Drawn {
        groups,
        refined,
        divisor: by.effects.divisor(),
    })
}

/// The exact integers of the groups of each set, for each coordinate. The last key varies fastest.
fn groups_of_sets(
    release: &ReleasePlan,
    by: &ByEffects,
    vector: &[PrintedKey],
) -> Vec<Vec<Zeroizing<Vec<i128>>>> {
    let coordinates = by.refined.len();
    let mut found = FoundGroups::new();
    for row in vector {
        let (key, values) = row.split_at(release.key_columns().min(row.len()));
        let exact = |(at, text): (usize, &Option<String>)| {
            let most = 1i128 << by.cell_bits(at);
            integer(text.as_deref()).clamp(-most, most)
        };
        let values = values.iter().take(coordinates).enumerate().map(exact);
        found.insert(key.to_vec(), Zeroizing::new(values.collect()));
    }
    let mut listed = arrange(release, found, coordinates).into_iter();
    let of_set = |set: Vec<usize>| {
        let groups: Vec<ExactGroup> = listed.by_ref().take(by.effects.groups_in(&set)).collect();
        let of = |at: usize| {
            let values = groups.iter().map(|(_, values)| values.get(at).copied());
            Zeroizing::new(values.map(Option::unwrap_or_default).collect())
        };
        (0..coordinates).map(of).collect()
    };
    numbers(release.sets()).into_iter().map(of_set).collect()
}

/// The exact integers of all cells, for each coordinate. The last key varies fastest.
fn cells_of(
    release: &ReleasePlan,
    by: &ByEffects,
    vector: &[PrintedKey],
) -> Vec<Zeroizing<Vec<i128>>> {
    let places: Vec<HashMap<Option<String>, usize>> = release
        .keys()
        .iter()
        .map(|(data_type, rule)| {
            let KeyRule::Domain(values) = rule else {
                return HashMap::new();
            };
            let text = |value: &Option<_>| value.as_ref().map(|v| key_text(v, data_type));
            let places = values.iter().map(text).enumerate();
            // If two listed values print the same, the first one counts.
            places.rev().map(|(at, text)| (text, at)).collect()
        })
        .collect();
    let empty = || Zeroizing::new(vec![0i128; by.effects.cells()]);
    let mut all: Vec<Zeroizing<Vec<i128>>> = by.refined.iter().map(|_| empty()).collect();
    for row in vector {
        let (key, values) = row.split_at(places.len().min(row.len()));
        let mut known = places.iter().zip(by.effects.sizes()).zip(key);
        let cell = known.try_fold(0, |cell, ((places, size), text)| {
            Some(cell * size + places.get(text)?)
        });
        let Some(cell) = cell else { continue };
        for (at, (cells, text)) in all.iter_mut().zip(values).enumerate() {
            let most = 1i128 << by.cell_bits(at);
            let sum = cells[cell].saturating_add(integer(text.as_deref()));
            cells[cell] = sum.clamp(-most, most);
        }
    }
    all
}
