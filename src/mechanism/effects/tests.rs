//! The algebra against dense matrices, in integers; allocations against numbers of an independent
//! program.

mod numbers;

use num_bigint::{BigInt, BigUint};
use num_traits::ToPrimitive;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

mod dense;
mod ranges;

use super::{Effect, Effects, SummedValues};
use crate::mechanism::testing::Seeded;
use crate::mechanism::{Calibrated, Mu, gaussian};
use dense::{divided_rows, dot, matrix, times};

/// mu of epsilon 1 at delta 1e-6.
const MU: f64 = 0.236_704_38;

fn cube(keys: usize) -> Vec<Vec<usize>> {
    let chosen = |set: usize| (0..keys).filter(|at| set >> at & 1 == 1).collect();
    (0..1 << keys).map(chosen).collect()
}

fn rollup(keys: usize) -> Vec<Vec<usize>> {
    (0..=keys).map(|first| (0..first).collect()).collect()
}

/// All shapes of one to four keys with at most 64 cells.
fn shapes() -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut grown = vec![Vec::new()];
    for _ in 0..4 {
        let longer = |shape: &Vec<usize>| {
            (1..=64)
                .map(|size| [shape.clone(), vec![size]].concat())
                .collect::<Vec<_>>()
        };
        grown = grown.iter().flat_map(longer).collect();
        grown.retain(|shape| shape.iter().product::<usize>() <= 64);
        all.extend(grown.iter().filter(|shape| shape.is_sorted()).cloned());
    }
    all
}

/// Effects of keys without ranges.
fn categories(sizes: &[usize], sets: &[Vec<usize>]) -> Effects {
    Effects::new(sizes.to_vec(), Vec::new(), sets).unwrap()
}

/// Effects of these sets without ranges, with ranges of each key, and with ranges of every second
/// key.
fn of_all_kinds(sizes: &[usize], sets: &[Vec<usize>]) -> Vec<Effects> {
    let keys = 0..sizes.len();
    let mixed = |first: usize| keys.clone().filter(|key| key % 2 == first).collect();
    [Vec::new(), keys.clone().collect(), mixed(0), mixed(1)]
        .into_iter()
        .map(|ranges| Effects::new(sizes.to_vec(), ranges, sets).unwrap())
        .collect()
}

fn one(_: usize) -> SummedValues {
    SummedValues::Number(1)
}

/// The standard error of a count in a group of each set, for one row a unit.
fn errors(sizes: &[usize], sets: &[Vec<usize>]) -> Vec<f64> {
    let effects = categories(sizes, sets);
    let clip = effects.clip(&BigUint::from(1u8)).to_f64().unwrap();
    let error = |set: &Vec<usize>| effects.variance(set, one).sqrt() * clip / MU;
    sets.iter().map(error).collect()
}

/// The sums of the cells over the keys that a set lacks.
fn marginal(sizes: &[usize], set: &[usize], cells: &[i128]) -> Vec<i128> {
    let groups = set.iter().map(|at| sizes[*at]).product();
    let mut sums = vec![0; groups];
    for (cell, value) in cells.iter().enumerate() {
        let (mut rest, mut values) = (cell, vec![0; sizes.len()]);
        for (at, size) in sizes.iter().enumerate().rev() {
            values[at] = rest % size;
            rest /= size;
        }
        let group = set
            .iter()
            .fold(0, |group, at| group * sizes[*at] + values[*at]);
        sums[group] += value;
    }
    sums
}

fn random_cells(effects: &Effects, seed: u64) -> Vec<i128> {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    (0..effects.cells())
        .map(|_| random.random_range(-1000..1000))
        .collect()
}

#[test]
fn errors_are_those_of_the_reference() {
    let close = |sizes: &[usize], sets: &[Vec<usize>], wanted: &[f64]| {
        for (error, wanted) in errors(sizes, sets).iter().zip(wanted) {
            assert!(
                (error - wanted).abs() < 0.000_6,
                "{sizes:?}: {error} is not {wanted}"
            );
        }
    };
    close(&[2, 3], &cube(2), &[6.494, 5.841, 5.858, 5.269]);
    let three = [
        vec![],
        vec![0],
        vec![1],
        vec![2],
        vec![0, 1],
        vec![0, 2],
        vec![1, 2],
    ];
    let three = [three.to_vec(), vec![vec![0, 1, 2]]].concat();
    let wanted = [9.024, 8.117, 8.141, 8.748, 7.322, 7.869, 7.892, 7.099];
    close(&[2, 3, 15], &three, &wanted);
    close(&[12, 31], &rollup(2), &[7.167, 6.898, 7.067]);
    let pairs: Vec<Vec<usize>> = (0..15)
        .flat_map(|a| (a + 1..15).map(move |b| vec![a, b]))
        .collect();
    let of_pairs = errors(&[2; 15], &pairs);
    assert!(
        of_pairs.iter().all(|error| (error - 17.66).abs() < 0.006),
        "{of_pairs:?}"
    );
}

/// No set is worse off than with separate noise in an equal split.
#[test]
fn each_set_gains() {
    let mut random = ChaCha20Rng::seed_from_u64(7);
    for _ in 0..500 {
        let keys = random.random_range(1..=4);
        let sizes: Vec<usize> = (0..keys).map(|_| random.random_range(1..=12)).collect();
        let mut sets = cube(keys);
        sets.retain(|_| random.next_u32() % 3 > 0);
        if sets.len() < 2 {
            continue;
        }
        let apart = (sets.len() as f64).sqrt() / MU;
        for error in errors(&sizes, &sets) {
            assert!(
                error <= apart * (1.0 + 1e-9),
                "{sizes:?} {sets:?}: {error} > {apart}"
            );
        }
    }
}

/// Different effects are orthogonal, and together they are the identity, in integers.
#[test]
fn effects_are_orthogonal_and_complete() {
    for sizes in shapes() {
        for effects in of_all_kinds(&sizes, &[(0..sizes.len()).collect()]) {
            assert_orthogonal_and_complete(&effects);
        }
    }
}

fn assert_orthogonal_and_complete(effects: &Effects) {
    let name = format!("{:?} {:?}", effects.sizes(), effects.ranges());
    let of_effect = |effect| divided_rows(effects, effect);
    let all: Vec<_> = effects.measured_effects().iter().map(of_effect).collect();
    for (at, one) in all.iter().enumerate() {
        for other in &all[..at] {
            let is_zero =
                |(row, _): &(Vec<i128>, i128)| other.iter().all(|(line, _)| dot(line, row) == 0);
            assert!(one.iter().all(is_zero), "{name}");
        }
    }
    let whole = effects.divisor().to_i128().unwrap();
    for row in 0..effects.cells() {
        let mut sums = vec![0i128; effects.cells()];
        for (line, divisor) in all.iter().flatten().filter(|(line, _)| line[row] != 0) {
            let times = line[row] * whole;
            assert_eq!(times % divisor, 0, "{name}");
            for (sum, entry) in sums.iter_mut().zip(line) {
                *sum += times / divisor * entry;
            }
        }
        let is_one = |(column, sum): (usize, &i128)| *sum == if column == row { whole } else { 0 };
        assert!(sums.iter().enumerate().all(is_one), "{name} {row}");
    }
}

#[test]
fn the_fast_transform_is_the_matrix() {
    for (seed, sizes) in shapes().into_iter().enumerate() {
        for effects in of_all_kinds(&sizes, &cube(sizes.len())) {
            let cells = random_cells(&effects, seed as u64);
            let most = cells.iter().map(|cell| cell.abs()).max().unwrap();
            for effect in effects.measured_effects() {
                let fast = effects.effect(effect, &all(&effects), &cells);
                assert_eq!(
                    *fast,
                    times(&matrix(&effects, effect), &cells),
                    "{effects:?} {effect:?}"
                );
                assert_eq!(fast.len(), effects.integers_in(effect));
                assert!(
                    fast.iter()
                        .all(|value| value.abs() <= most << effects.growth(&all(&effects)))
                );
            }
        }
    }
}

/// The columns of each effect have the length that the price is computed with, and a row of one
/// unit reaches it.
#[test]
fn one_row_moves_the_vector_by_the_whole_clip() {
    for sizes in shapes() {
        let effects = categories(&sizes, &cube(sizes.len()));
        let clip = effects.clip(&BigUint::from(3u8));
        for cell in 0..effects.cells() {
            let mut cells = vec![0; effects.cells()];
            cells[cell] = 3;
            let mut squared = BigUint::ZERO;
            for effect in effects.measured_effects() {
                let weight = BigUint::from(effect.weight());
                let values = effects.effect(effect, &all(&effects), &cells);
                let length: i128 = values.iter().map(|value| value * value).sum();
                assert_eq!(
                    BigUint::from(length as u128),
                    effects.squared_length(effect) * 9u8
                );
                squared += &weight * &weight * length as u128;
            }
            assert!(squared <= &clip * &clip, "{sizes:?}");
            assert!(
                squared > (&clip - 1u8) * (&clip - 1u8),
                "{sizes:?}: the clip is too large"
            );
        }
    }
}

#[test]
fn groups_are_exact_where_effects_are() {
    for (seed, sizes) in shapes().into_iter().enumerate() {
        let mut sets = cube(sizes.len());
        if seed % 2 == 0 && sets.len() > 2 {
            sets.remove(0);
            sets.truncate(sets.len() - 1);
        }
        for effects in of_all_kinds(&sizes, &sets) {
            let cells = random_cells(&effects, seed as u64);
            let exact = |effect| {
                effects
                    .effect(effect, &all(&effects), &cells)
                    .iter()
                    .map(|value| BigInt::from(*value))
                    .collect()
            };
            let exact: Vec<_> = effects.measured_effects().iter().map(exact).collect();
            let groups = effects.groups(&sets, &exact);
            for (set, groups) in sets.iter().zip(groups) {
                let sums = marginal(&sizes, set, &cells).into_iter();
                let wanted: Vec<BigInt> = sums.map(|sum| effects.divisor() * sum).collect();
                assert_eq!(groups, wanted, "{effects:?} {set:?}");
            }
        }
    }
}

/// Whatever the noise: a coarser set is the sums of a finer one, exactly.
#[test]
fn noisy_sets_agree_exactly() {
    let sizes = vec![2, 3, 5];
    let sets = cube(3);
    let noisy = |at: usize, count: usize| {
        let mut random = ChaCha20Rng::seed_from_u64(at as u64);
        (0..count)
            .map(|_| BigInt::from(random.random_range(-1_000_000..1_000_000)))
            .collect()
    };
    for effects in of_all_kinds(&sizes, &sets) {
        let all = effects.measured_effects().iter().enumerate();
        let drawn: Vec<Vec<BigInt>> = all
            .map(|(at, effect)| noisy(at, effects.integers_in(effect)))
            .collect();
        let groups = effects.groups(&sets, &drawn);
        let finest: Vec<i128> = groups[7]
            .iter()
            .map(|group| group.to_i128().unwrap())
            .collect();
        for (set, groups) in sets.iter().zip(groups) {
            let sums = marginal(&sizes, set, &finest).into_iter();
            assert_eq!(
                groups,
                sums.map(BigInt::from).collect::<Vec<_>>(),
                "{effects:?} {set:?}"
            );
        }
    }
}

/// A released value of zero for each place of each effect.
fn zeros(effects: &Effects) -> Vec<Vec<BigInt>> {
    let of_effect = |effect: &Effect| vec![BigInt::ZERO; effects.integers_in(effect)];
    effects.measured_effects().iter().map(of_effect).collect()
}

/// The variance of groups, and of sums of groups, is that of the linear function by which they are
/// computed.
#[test]
fn variances_are_those_of_the_decoding() {
    let sizes = vec![2, 4, 3];
    let sets = cube(3);
    let effects = categories(&sizes, &sets);
    let divisor = effects.divisor().to_f64().unwrap();
    let zeros = zeros(&effects);
    // By set: of the first group, and of the sum over the first two values of each key.
    let mut variances = vec![(0.0, 0.0); sets.len()];
    for (at, effect) in effects.measured_effects().iter().enumerate() {
        for place in 0..zeros[at].len() {
            let mut one = zeros.clone();
            one[at][place] = BigInt::from(1);
            for (number, groups) in effects.groups(&sets, &one).iter().enumerate() {
                let of_first_two = |group: usize| {
                    let keys = sets[number].iter().rev();
                    let (_, is_first) = keys.fold((group, true), |(rest, is_first), at| {
                        let size = effects.sizes()[*at];
                        (rest / size, is_first && rest % size < 2)
                    });
                    is_first
                };
                let value = |group: &BigInt| group.to_f64().unwrap() / divisor;
                let sum: f64 = (0..groups.len())
                    .filter(|group| of_first_two(*group))
                    .map(|group| value(&groups[group]))
                    .sum();
                let noise = (effect.weight() as f64).powi(-2);
                variances[number].0 += value(&groups[0]).powi(2) * noise;
                variances[number].1 += sum.powi(2) * noise;
            }
        }
    }
    for (set, (one, two)) in sets.iter().zip(variances) {
        assert!(
            (effects.variance(set, |_| SummedValues::Number(1)) / one - 1.0).abs() < 1e-9,
            "{set:?}"
        );
        assert!(
            (effects.variance(set, |_| SummedValues::Number(2)) / two - 1.0).abs() < 1e-9,
            "{set:?}"
        );
    }
}

/// The variance of any sum of groups is that of the linear function by which they are computed.
#[test]
fn variances_of_any_sums_are_those_of_the_decoding() {
    let sets = cube(3);
    let mut random = ChaCha20Rng::seed_from_u64(11);
    for sizes in [vec![2, 4, 3], vec![3, 1, 2], vec![5, 2, 2]] {
        for effects in of_all_kinds(&sizes, &sets) {
            let of_set = |set: &Vec<usize>| -> Vec<i128> {
                (0..effects.groups_in(set))
                    .map(|_| random.random_range(0..2))
                    .collect()
            };
            let picked: Vec<Vec<i128>> = sets.iter().map(of_set).collect();
            let variances = decoded_variances(&effects, &sets, &picked);
            for ((set, w), variance) in sets.iter().zip(&picked).zip(variances) {
                let w: Vec<f64> = w.iter().map(|weight| *weight as f64).collect();
                let known = effects.variance_of(set, &w);
                assert!(
                    (known - variance).abs() <= 1e-9 * variance,
                    "{effects:?} {set:?} {w:?}: {known} is not {variance}"
                );
            }
        }
    }
}

/// The variances of sums of groups, by the linear function that computes them: what an effect's
/// integer adds, one after the other.
fn decoded_variances(effects: &Effects, sets: &[Vec<usize>], picked: &[Vec<i128>]) -> Vec<f64> {
    let divisor = effects.divisor().to_f64().unwrap();
    let zeros = zeros(effects);
    let mut variances = vec![0.0; sets.len()];
    for (at, effect) in effects.measured_effects().iter().enumerate() {
        for place in 0..zeros[at].len() {
            let mut one = zeros.clone();
            one[at][place] = BigInt::from(1);
            let decoded = effects.groups(sets, &one);
            for ((variance, groups), w) in variances.iter_mut().zip(&decoded).zip(picked) {
                let sum: BigInt = groups.iter().zip(w).map(|(group, w)| group * w).sum();
                let noise = (effect.weight() as f64).powi(-2);
                *variance += (sum.to_f64().unwrap() / divisor).powi(2) * noise;
            }
        }
    }
    variances
}

#[test]
fn what_is_too_much_is_not_measured_by_effects() {
    assert!(Effects::new(vec![2, 0], Vec::new(), &cube(2)).is_none());
    assert!(Effects::new(vec![2; 11], Vec::new(), &[(0..11).collect()]).is_none());
    assert!(Effects::new(vec![usize::MAX, 3], Vec::new(), &cube(2)).is_none());
    // A domain that is never built may be as large as it likes.
    let effects = categories(&[9, 16, 7, 15, 6, 5, 2, 41], &subsets(8, 3));
    let (sets, cells) = (subsets(8, 3), effects.cells() as u64);
    let work = effects.work(&sets, &effects.sources(&sets).unwrap());
    assert!(cells > 9_000_000 && work < 100_000, "{cells} {work}");
}

/// All sets of at most `most` keys.
fn subsets(keys: usize, most: usize) -> Vec<Vec<usize>> {
    let mut all = cube(keys);
    all.retain(|set| set.len() <= most);
    all
}

/// Eight columns of a census, at epsilon 1 and delta 1e-6. With separate noise each of all pairs
/// has 22.4, and each of all triples 31.6, and what is added up from them has more.
#[test]
fn sets_of_eight_keys_gain() {
    let sizes = [9, 16, 7, 15, 6, 5, 2, 41];
    let range = |most: usize, size: usize| {
        let sets = subsets(8, most);
        let own = sets.iter().zip(errors(&sizes, &sets));
        let own = own.filter(|(set, _)| set.len() == size).map(|own| own.1);
        own.fold((f64::MAX, 0.0f64), |(a, b), c| (a.min(c), b.max(c)))
    };
    let wanted = [
        ((2, 2), (17.535, 21.666)),
        ((3, 2), (25.950, 30.092)),
        ((3, 3), (24.410, 31.420)),
    ];
    for ((most, size), (low, high)) in wanted {
        let (least, largest) = range(most, size);
        let is_near = (least - low).abs() < 0.001 && (largest - high).abs() < 0.001;
        assert!(is_near, "{most} {size}: {least} {largest}");
    }
}

/// The groups of any set around an effect give the effect that all cells give.
#[test]
fn an_effect_is_the_same_from_any_set_around_it() {
    for sizes in [vec![2, 3, 2, 3], vec![4, 1, 3], vec![5, 2]] {
        let sets = cube(sizes.len());
        for effects in of_all_kinds(&sizes, &sets) {
            let cells = random_cells(&effects, 11);
            for effect in effects.measured_effects() {
                let whole = effects.effect(effect, &all(&effects), &cells);
                for set in sets.iter().filter(|set| effect.is_within(set)) {
                    let groups = marginal(&sizes, set, &cells);
                    assert_eq!(effects.effect(effect, set, &groups), whole, "{set:?}");
                }
            }
            assert_eq!(effects.sources(&sets[..1]), None);
        }
    }
}

fn all(effects: &Effects) -> Vec<usize> {
    (0..effects.sizes().len()).collect()
}

/// 20,000 answers to a cube of one count, by a fixed seed: each set has the error of the reference,
/// within 2 %. (Of one group the sample's deviation is off by 0.5 % in one standard error; here all
/// groups of a set count.)
#[test]
fn drawn_errors_are_those_of_the_reference() {
    const DRAWS: usize = 20_000;
    let sets = [vec![], vec![0], vec![1], vec![0, 1]];
    let effects = categories(&[2, 3], &sets);
    let one = BigUint::from(1u8);
    let clip = effects.clip(&one);
    let noise: Vec<Calibrated> = effects
        .measured_effects()
        .iter()
        .map(|effect| gaussian(&clip, &effect.weight().into(), Mu::round_down(MU)).unwrap())
        .collect();
    let finest = noise.iter().map(|noise| noise.refine).max().unwrap();
    let unit = effects.divisor().to_f64().unwrap() * 2f64.powi(finest as i32);
    let mut random = Seeded::new(11);
    let mut squares = vec![0.0; sets.len()];
    for _ in 0..DRAWS {
        let drawn = effects
            .measured_effects()
            .iter()
            .zip(&noise)
            .map(|(effect, noise)| {
                let one = |_| {
                    let value = noise.noise.sample(&mut random).unwrap();
                    BigInt::from(value) << (finest - noise.refine)
                };
                (0..effects.integers_in(effect)).map(one).collect()
            });
        let drawn: Vec<Vec<BigInt>> = drawn.collect();
        for (sum, groups) in squares.iter_mut().zip(effects.groups(&sets, &drawn)) {
            let square = |group: &BigInt| (group.to_f64().unwrap() / unit).powi(2);
            *sum += groups.iter().map(square).sum::<f64>() / groups.len() as f64;
        }
    }
    for (sum, wanted) in squares.iter().zip([6.494, 5.841, 5.858, 5.269]) {
        let error = (sum / DRAWS as f64).sqrt();
        assert!(
            (error / wanted - 1.0).abs() < 0.02,
            "{error} is not {wanted}"
        );
    }
}

/// A key with one value makes no groups. A statement may have a hundred of them.
#[test]
fn keys_with_one_value_take_no_room() {
    let mut sizes = vec![1; 100];
    sizes[40] = 3;
    let every: Vec<usize> = (0..sizes.len()).collect();
    let sets = [vec![], vec![7, 40], every];
    let effects = categories(&sizes, &sets);
    let growth = effects.growth(&all(&effects));
    assert_eq!((effects.measured_effects().len(), growth), (2, 3));
    let cells = [5, -2, 11];
    let exact: Vec<Vec<BigInt>> = effects
        .measured_effects()
        .iter()
        .map(|effect| {
            effects
                .effect(effect, &all(&effects), &cells)
                .iter()
                .map(|y| BigInt::from(*y))
                .collect()
        })
        .collect();
    let each = || cells.iter().map(|cell| BigInt::from(*cell) * 9);
    let found = effects.groups(&sets, &exact);
    assert_eq!(found[0], [each().sum::<BigInt>()]);
    assert_eq!(found[1], each().collect::<Vec<_>>());
    assert_eq!(found[2], found[1]);
}
