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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Type;
    use crate::ir::{GroupingSet, KeyId};
    use crate::mechanism::{CandidateRun, Effects, Exponential, Mu, Noise, SampleError, gaussian};
    use crate::policy::Scalar;

    /// No noise at all: exact integers are seen.
    struct Silent;

    impl Sampler for Silent {
        fn sample(&mut self, _: &Noise) -> Result<i128, SampleError> {
            Ok(0)
        }

        fn choose(
            &mut self,
            _: &Exponential,
            _: &[CandidateRun],
        ) -> Result<(usize, u64), SampleError> {
            panic!("effects choose nothing")
        }
    }

    /// Keys of three and of two values, one count, in the sets of both keys and of the first; with
    /// effects that are computed from cells, and from the groups of each set.
    fn release_with_effects() -> (ReleasePlan, [ByEffects; 2]) {
        let listed = |count| {
            let values = (0..count).map(|n| Some(Scalar::Int(n)));
            (Type::Int4, KeyRule::Domain(values.collect()))
        };
        let sets = [vec![0, 1], vec![0]];
        let of_keys = |set: &Vec<usize>| GroupingSet::new(set.iter().map(|k| KeyId(*k)).collect());
        let release = ReleasePlan::of_keys(
            vec![listed(3), listed(2)],
            sets.iter().map(of_keys).collect(),
        );
        let effects = Effects::new(vec![3, 2], vec![], &sets).unwrap();
        let clip = effects.clip(&1u8.into());
        let calibrated: Vec<_> = effects
            .measured_effects()
            .iter()
            .map(|effect| {
                let mu = Mu::round_down(0.25);
                vec![gaussian(&clip, &effect.weight().into(), mu).unwrap()]
            })
            .collect();
        let both = [None, effects.sources(&sets)].map(|sources| ByEffects {
            growth: effects.growth(&[0, 1]),
            effects: effects.clone(),
            clip: clip.clone(),
            calibrated: calibrated.clone(),
            refined: vec![0],
            sources,
        });
        (release, both)
    }

    fn row(key: &[&str], integer: &str) -> PrintedKey {
        let text = |text: &&str| (*text != "-").then(|| (*text).to_owned());
        let key = key.iter().map(text);
        key.chain([Some(integer.to_owned())]).collect()
    }

    /// What is drawn without noise, in whole numbers.
    fn groups_without_noise(
        release: &ReleasePlan,
        by: &ByEffects,
        vector: &[PrintedKey],
    ) -> Vec<BigInt> {
        let drawn = draw(release, by, vector, &mut Silent).unwrap();
        let unit = &drawn.divisor << drawn.refined[0];
        let groups = drawn.groups.into_iter().map(|(_, integers)| {
            assert_eq!(&integers[0] % &unit, BigInt::ZERO);
            &integers[0] / &unit
        });
        groups.collect()
    }

    #[test]
    fn cells_are_cut_before_they_are_transformed() {
        let (release, [by, _]) = release_with_effects();
        let most = 1i128 << by.cell_bits(0);
        let vector = [
            row(&["0", "0"], &(most + 1).to_string()),
            row(&["0", "1"], &(-most - 1).to_string()),
            row(&["1", "0"], &most.to_string()),
            row(&["1", "1"], &(1 - most).to_string()),
            // Larger than what an integer is read as.
            row(&["2", "0"], &"9".repeat(60)),
            row(&["2", "1"], &format!("-{}", "9".repeat(60))),
        ];
        let cut = [most, -most, most, 1 - most, most, -most];
        assert_eq!(cells_of(&release, &by, &vector)[0].as_slice(), cut);
        let mut wanted: Vec<BigInt> = cut.map(BigInt::from).into();
        wanted.extend([0, 1, 0].map(BigInt::from));
        assert_eq!(groups_without_noise(&release, &by, &vector), wanted);
        // Rows of one cell are cut together.
        let pair = [&(most - 1).to_string(), "3"].map(|integer| row(&["2", "1"], integer));
        let cells = cells_of(&release, &by, &pair);
        assert_eq!(cells[0].as_slice(), [0, 0, 0, 0, 0, most]);
    }

    #[test]
    fn groups_of_sets_are_cut_before_they_are_transformed() {
        let (release, [_, by]) = release_with_effects();
        let most = 1i128 << by.cell_bits(0);
        let vector = [
            row(&["0", "0", "0"], &(most + 1).to_string()),
            row(&["0", "0", "1"], &(-most - 1).to_string()),
            row(&["0", "1", "0"], &"9".repeat(60)),
            row(&["0", "2", "1"], &(1 - most).to_string()),
            row(&["1", "0", "-"], "0"),
            row(&["1", "1", "-"], &(2 * most).to_string()),
            row(&["1", "2", "-"], &format!("-{}", "9".repeat(60))),
        ];
        let found = groups_of_sets(&release, &by, &vector);
        let cut = [most, -most, most, 0, 0, 1 - most];
        assert_eq!(found[0][0].as_slice(), cut);
        assert_eq!(found[1][0].as_slice(), [0, most, -most]);
        // The transforms of the largest integers fit, though these sets do not belong together.
        let drawn = draw(&release, &by, &vector, &mut Silent).unwrap();
        assert_eq!(drawn.groups.len(), 9);
    }
}
