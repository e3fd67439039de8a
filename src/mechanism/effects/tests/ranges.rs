//! Keys with ranges: what sums over ranges of their values are made of.

use super::super::axis::KeyAxis;
use super::*;

fn with_ranges(sizes: &[usize], ranges: &[usize], sets: &[Vec<usize>]) -> Effects {
    Effects::new(sizes.to_vec(), ranges.to_vec(), sets).unwrap()
}

/// All ranges of this many values.
fn all_ranges(size: usize) -> Vec<Vec<usize>> {
    let from = |first| (first + 1..=size).map(move |end| (first..end).collect());
    (0..size).flat_map(from).collect()
}

fn mean(axis: &KeyAxis, all: &[Vec<usize>]) -> Vec<f64> {
    let mut sums = vec![0.0; axis.levels() as usize + 1];
    for places in all {
        let parts = axis.parts(&SummedValues::Places(places.clone()));
        let both = sums.iter_mut().zip(parts);
        both.for_each(|(sum, part)| *sum += part / all.len() as f64);
    }
    sums
}

/// The least deviation, for one row a unit at mu 1: the sum over effects of the root of what each
/// costs times what it adds to the variance.
fn least(effects: &[(f64, f64)]) -> f64 {
    effects
        .iter()
        .map(|(cost, part)| (cost * part).sqrt())
        .sum()
}

fn costs(axis: &KeyAxis) -> Vec<f64> {
    let cost = |level| axis.squared_length(level).to_f64().unwrap();
    (0..=axis.levels()).map(cost).collect()
}

fn is_near(value: f64, wanted: f64, within: f64) {
    assert!((value - wanted).abs() <= within, "{value} is not {wanted}");
}

/// All ranges and all prefixes of 64 values, at mu 1. Of single values, each with noise of
/// deviation 1, they have 4.69 and 5.70.
#[test]
fn ranges_of_64_values_have_the_errors_of_the_reference() {
    let axis = KeyAxis {
        size: 64,
        has_ranges: true,
    };
    let of =
        |summed| -> Vec<(f64, f64)> { costs(&axis).into_iter().zip(axis.parts(&summed)).collect() };
    is_near(least(&of(SummedValues::Ranges)), 2.64, 0.005);
    is_near(least(&of(SummedValues::Prefixes)), 2.40, 0.005);
    let lengths = all_ranges(64);
    let squares: f64 = lengths.iter().map(|range| range.len() as f64).sum();
    is_near((squares / lengths.len() as f64).sqrt(), 4.69, 0.005);
    // The weights are those of all ranges.
    let effects = with_ranges(&[64], &[0], &[vec![0]]);
    let clip = effects.clip(&1u8.into()).to_f64().unwrap();
    let error = |summed: SummedValues| effects.variance(&[0], |_| summed.clone()).sqrt() * clip;
    is_near(error(SummedValues::Ranges), 2.64, 0.005);
    // A single value has more than the 1 of a list of single values.
    is_near(error(SummedValues::Number(1)), 1.36, 0.01);
}

/// All ranges of 32 values, in each of 3 groups and in all of them, at epsilon 1 and delta 1e-6,
/// each question alike.
#[test]
fn ranges_by_groups_have_the_errors_of_the_reference() {
    let group = KeyAxis {
        size: 3,
        has_ranges: false,
    };
    let all = all_ranges(32);
    for (has_ranges, wanted) in [(false, 13.3), (true, 11.0)] {
        let axis = KeyAxis {
            size: 32,
            has_ranges,
        };
        let of_ranges = mean(&axis, &all);
        let mut effects = Vec::new();
        for (level, of_range) in of_ranges.iter().enumerate() {
            for (of_key, of_group) in group.parts(&SummedValues::Number(1)).iter().enumerate() {
                let in_all = if of_key == 0 { 0.25 } else { 0.0 };
                let cost = costs(&axis)[level] * costs(&group)[of_key];
                effects.push((cost, of_range * (0.75 * of_group + in_all)));
            }
        }
        is_near(least(&effects) / MU, wanted, 0.05);
    }
    // Sets count alike, questions do not: little is lost.
    let sets = [vec![0, 1], vec![1]];
    let effects = with_ranges(&[3, 32], &[1], &sets);
    let clip = effects.clip(&1u8.into()).to_f64().unwrap() / MU;
    let squares = |set: &Vec<usize>| effects.variance(set, |_| SummedValues::Ranges) * clip * clip;
    let error = (0.75 * squares(&sets[0]) + 0.25 * squares(&sets[1])).sqrt();
    assert!((11.0..11.3).contains(&error), "{error}");
}

/// The means over all ranges, all prefixes and all values of a length are what they are one by one.
#[test]
fn means_are_those_of_all_ranges() {
    for size in [1, 2, 3, 5, 8, 14, 33] {
        let axis = KeyAxis {
            size,
            has_ranges: true,
        };
        let ranges = all_ranges(size);
        let mut kinds = vec![(SummedValues::Ranges, ranges.clone())];
        let prefixes = ranges.iter().filter(|range| range[0] == 0).cloned();
        kinds.push((SummedValues::Prefixes, prefixes.collect()));
        for length in 1..=size {
            let own = ranges.iter().filter(|range| range.len() == length);
            kinds.push((SummedValues::Number(length), own.cloned().collect()));
        }
        for (kind, all) in kinds {
            let wanted = mean(&axis, &all);
            for (part, wanted) in axis.parts(&kind).into_iter().zip(wanted) {
                is_near(part, wanted, 1e-12);
            }
        }
    }
}

/// The variance of each single group, and of boxes of ranges, is that of its weights.
#[test]
fn variances_of_groups_are_those_of_their_weights() {
    for sizes in [vec![3, 6], vec![7, 2, 4], vec![1, 9, 5]] {
        let sets = cube(sizes.len());
        for effects in of_all_kinds(&sizes, &sets) {
            for set in &sets {
                let groups = effects.groups_in(set);
                let all = effects.variances(set);
                assert!(all.len() == groups || all.len() == 1);
                for group in 0..groups {
                    let mut w = vec![0.0; groups];
                    w[group] = 1.0;
                    let wanted = effects.variance_of(set, &w);
                    let own = all.get(group).unwrap_or(&all[0]);
                    is_near(own / wanted, 1.0, 1e-9);
                }
                let of_box = |key: usize| (sizes[key] / 3..sizes[key].div_ceil(2)).collect();
                let picked: Vec<Vec<usize>> = set.iter().map(|key| of_box(*key)).collect();
                if picked.iter().any(Vec::is_empty) {
                    continue;
                }
                let is_in = |group: usize| {
                    let keys = set.iter().zip(&picked).rev();
                    let (_, is_in) = keys.fold((group, true), |(rest, is_in), (key, picked)| {
                        let size = sizes[*key];
                        (rest / size, is_in && picked.contains(&(rest % size)))
                    });
                    f64::from(u8::from(is_in))
                };
                let w: Vec<f64> = (0..groups).map(is_in).collect();
                let own = effects.variance(set, |key| SummedValues::Places(of_box(key)));
                is_near(own / effects.variance_of(set, &w), 1.0, 1e-9);
            }
        }
    }
}

/// The covariance of two sums over combinations of values is that of their weights.
#[test]
fn covariances_are_those_of_the_weights() {
    let mut random = ChaCha20Rng::seed_from_u64(5);
    for sizes in [vec![3, 6], vec![7, 2, 4], vec![1, 9, 5]] {
        let sets = cube(sizes.len());
        for effects in of_all_kinds(&sizes, &sets) {
            for set in &sets {
                let mut places = || -> Vec<Vec<usize>> {
                    let of_key = |key: &usize| {
                        let one = random.random_range(0..sizes[*key]);
                        let mut own: Vec<usize> = (0..sizes[*key]).collect();
                        own.retain(|place| *place == one || random.next_u32() % 2 == 0);
                        own
                    };
                    set.iter().map(of_key).collect()
                };
                let (one, other) = (places(), places());
                let w = |places: &[Vec<usize>]| -> Vec<f64> {
                    let mut w = vec![1.0];
                    for (key, own) in set.iter().zip(places) {
                        let is_in = |place| f64::from(u8::from(own.contains(&place)));
                        let longer = w.iter().flat_map(|before| {
                            (0..sizes[*key]).map(move |place| before * is_in(place))
                        });
                        w = longer.collect();
                    }
                    w
                };
                let (first, second) = (w(&one), w(&other));
                let both = || first.iter().zip(&second);
                let sum: Vec<f64> = both().map(|(a, b)| a + b).collect();
                let difference: Vec<f64> = both().map(|(a, b)| a - b).collect();
                let variance = |w: &[f64]| effects.variance_of(set, w);
                let wanted = (variance(&sum) - variance(&difference)) / 4.0;
                let scale = (variance(&first) * variance(&second)).sqrt();
                is_near(
                    effects.covariance(set, &one, &other) / scale,
                    wanted / scale,
                    1e-9,
                );
                is_near(
                    effects.covariance(set, &one, &one) / variance(&first),
                    1.0,
                    1e-9,
                );
            }
        }
    }
}

/// Some row moves the effects by the whole clip, and none by more.
#[test]
fn one_row_moves_ranges_by_the_clip() {
    for sizes in shapes() {
        for effects in of_all_kinds(&sizes, &cube(sizes.len())) {
            let clip = effects.clip(&3u8.into());
            let mut largest = BigUint::ZERO;
            for cell in 0..effects.cells() {
                let mut cells = vec![0; effects.cells()];
                cells[cell] = 3;
                let mut squared = BigUint::ZERO;
                for effect in effects.measured_effects() {
                    let weight = BigUint::from(effect.weight());
                    let values = effects.effect(effect, &all(&effects), &cells);
                    let length: i128 = values.iter().map(|value| value * value).sum();
                    squared += &weight * &weight * length as u128;
                }
                largest = largest.max(squared);
            }
            assert!(largest <= &clip * &clip, "{effects:?}");
            let less = &clip - 1u8;
            assert!(largest > &less * &less, "{effects:?}");
        }
    }
    // Of keys with very many combinations of columns the clip is no less than that of each level.
    let sizes = [47, 55, 59, 61, 62];
    let sets = subsets(5, 2);
    let effects = with_ranges(&sizes, &[0, 1, 2, 3, 4], &sets);
    let lengths = effects.measured_effects().iter();
    let lengths = lengths.map(|e| effects.squared_length(e) * e.weight() * e.weight());
    let bound = lengths.sum::<BigUint>();
    assert_eq!(effects.clip(&1u8.into()), bound.sqrt() + 1u8);
}

/// The least error of all ranges of five values and of their total, which the weights reach within
/// one part in a hundred. Without regard to columns of unequal length it would be 2.29.
#[test]
fn costs_are_those_of_the_best_weights() {
    let sets = [vec![0], vec![]];
    for (size, wanted) in [(4, 1.889), (5, 1.986), (6, 2.061), (9, 2.259), (33, 2.948)] {
        let effects = with_ranges(&[size], &[0], &sets);
        let variances = sets
            .iter()
            .map(|set| effects.variance(set, |_| SummedValues::Ranges));
        let error = variances.sum::<f64>().sqrt() * effects.clip(&1u8.into()).to_f64().unwrap();
        assert!(
            (error / wanted - 1.0).abs() < 0.01,
            "{size}: {error} {wanted}"
        );
    }
}

/// 20,000 answers to a count by a group and one of six values with ranges, by a fixed seed: each
/// range of each set has the stated error, within 2 %, and is right on average.
#[test]
fn drawn_ranges_have_the_stated_errors() {
    const DRAWS: usize = 20_000;
    let sets = cube(2);
    let effects = with_ranges(&[2, 6], &[1], &sets);
    let clip = effects.clip(&1u8.into());
    let noise: Vec<Calibrated> = effects
        .measured_effects()
        .iter()
        .map(|effect| gaussian(&clip, &effect.weight().into(), Mu::round_down(MU)).unwrap())
        .collect();
    let finest = noise.iter().map(|noise| noise.refine).max().unwrap();
    let unit = effects.divisor().to_f64().unwrap() * 2f64.powi(finest as i32);
    let ranges = all_ranges(6);
    let mut random = Seeded::new(11);
    let mut sums = vec![(0.0, 0.0); sets.len() * ranges.len()];
    for _ in 0..DRAWS {
        let all = effects.measured_effects().iter().zip(&noise);
        let drawn: Vec<Vec<BigInt>> = all
            .map(|(effect, noise)| {
                let one = |_| {
                    let value = noise.noise.sample(&mut random).unwrap();
                    BigInt::from(value) << (finest - noise.refine)
                };
                (0..effects.integers_in(effect)).map(one).collect()
            })
            .collect();
        let groups = effects.groups(&sets, &drawn);
        for (set, groups) in groups.iter().enumerate() {
            let has_ranges = sets[set].contains(&1);
            for (at, range) in ranges.iter().enumerate() {
                let own = if has_ranges { range.clone() } else { vec![0] };
                let of_range = own.iter().map(|place| groups[*place].to_f64().unwrap());
                let value = of_range.sum::<f64>() / unit;
                let (sum, squares) = &mut sums[set * ranges.len() + at];
                *sum += value / DRAWS as f64;
                *squares += value * value / DRAWS as f64;
            }
        }
    }
    let whole = clip.to_f64().unwrap() / MU;
    for (set, own) in sets.iter().zip(sums.chunks(ranges.len())) {
        for (range, (sum, squares)) in ranges.iter().zip(own) {
            let variance = effects.variance(set, |key| match key {
                1 => SummedValues::Places(range.clone()),
                _ => SummedValues::Number(1),
            });
            let stated = variance.sqrt() * whole;
            let ratio = squares.sqrt() / stated;
            assert!((ratio - 1.0).abs() < 0.02, "{set:?} {range:?}: {ratio}");
            let mean = sum / stated * (DRAWS as f64).sqrt();
            assert!(mean.abs() < 4.5, "{set:?} {range:?}: {mean} from zero");
        }
    }
}

/// Answers of earlier versions have no ranges, and are read and kept as they were.
#[test]
fn stored_effects_are_read() {
    let stored = "{\"sizes\":[2,3],\"measured\":[{\"keys\":[],\"weight\":7},{\"keys\":[0,1],\
        \"weight\":4294967296}]}";
    let read: Effects = serde_json::from_str(stored).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), stored);
    assert_eq!(read.ranges(), [0usize; 0]);
    assert_eq!(read.integers_in(&read.measured[1]), 6);
    let made = categories(&[2, 3], &cube(2));
    let text = serde_json::to_string(&made).unwrap();
    assert!(
        !text.contains("ranges") && !text.contains("levels"),
        "{text}"
    );
    for effects in of_all_kinds(&[2, 5], &cube(2)) {
        let text = serde_json::to_string(&effects).unwrap();
        assert_eq!(serde_json::from_str::<Effects>(&text).unwrap(), effects);
    }
}

/// A key of a thousand days has ten levels, and its integers still fit.
#[test]
fn many_values_have_few_levels() {
    let sets = cube(2);
    let effects = with_ranges(&[1000, 3], &[0], &sets);
    assert_eq!(effects.measured_effects().len(), 11 * 2);
    assert!(effects.growth(&[0, 1]) < 24);
    assert!(effects.growth(&[0]) < effects.growth(&[0, 1]));
    let integers = effects.measured_effects().iter();
    let integers: usize = integers.map(|effect| effects.integers_in(effect)).sum();
    assert_eq!(integers, 1000 * 4);
    // All triples of three such keys would be too much, pairs are not.
    let three = |most| Effects::new(vec![1000; 3], vec![0, 1, 2], &subsets(3, most));
    assert!(three(3).is_none() && three(2).is_some());
}

/// The table of docs/summaries.md: any range, up to a value, a single value and all rows, each
/// without ranges and with them.
#[test]
fn errors_are_those_of_the_documents() {
    let table = [
        (8, [7.5, 7.1, 7.6, 6.9, 5.5, 5.5, 5.8, 5.9]),
        (32, [14.1, 10.2, 14.1, 9.3, 5.8, 6.1, 5.9, 6.9]),
        (64, [19.7, 11.8, 19.7, 10.6, 5.9, 6.5, 6.0, 7.4]),
        (365, [46.7, 16.4, 46.7, 13.7, 6.0, 7.4, 6.0, 8.5]),
        (1000, [77.2, 18.9, 77.2, 15.5, 6.0, 7.8, 6.0, 9.0]),
    ];
    for (size, wanted) in table {
        let sets = [vec![0], vec![]];
        let both = [
            categories(&[size], &sets),
            with_ranges(&[size], &[0], &sets),
        ];
        let of = |kind: &dyn Fn(&Effects) -> f64| {
            both.each_ref().map(|effects| {
                let whole = effects.clip(&1u8.into()).to_f64().unwrap() / MU;
                kind(effects).sqrt() * whole
            })
        };
        let of_key =
            |effects: &Effects, summed| effects.variance(&[0], |_| SummedValues::clone(&summed));
        // Of a key without ranges, by the number of values.
        let by_length = |effects: &Effects, weight: &dyn Fn(usize) -> f64| {
            let whole: f64 = (1..=size).map(weight).sum();
            let lengths = (1..=size).map(|n| weight(n) * of_key(effects, SummedValues::Number(n)));
            lengths.sum::<f64>() / whole
        };
        let is_plain = |effects: &Effects| effects.ranges().is_empty();
        let ranges = of(&|effects| match is_plain(effects) {
            true => by_length(effects, &|n| (size - n + 1) as f64),
            false => of_key(effects, SummedValues::Ranges),
        });
        let prefixes = of(&|effects| match is_plain(effects) {
            true => by_length(effects, &|_| 1.0),
            false => of_key(effects, SummedValues::Prefixes),
        });
        let single = of(&|effects| of_key(effects, SummedValues::Number(1)));
        let total = of(&|effects| effects.variance(&[], one));
        let found = [ranges, prefixes, single, total].concat();
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(
                (found - wanted).abs() < 0.06,
                "{size}: {found} is not {wanted}"
            );
        }
    }
}
