//! Weights under which rows have the numbers of all pairs of keys that a summary measured, and of
//! the other pairs those that these tell. Drawing key by key keeps a tree of the measured ones,
//! nearly.
//!
//! # Guarantee
//! Post-processing of released values: nothing here reads a row of the database.

use std::collections::BTreeSet;

use super::cells::{CELLS_MAX, TargetShares, expected_noise, without_noise};
use super::marginals::{NoisyMarginals, Quantity};
use super::other_pairs::{other_pairs, targets_by_paths};
use crate::mechanism::{products, project, shares};
use crate::policy::SummaryKey;

/// How often the weights are fitted to all targets. What is left after five passes is small next to
/// the noise of usual summaries.
const PASSES: usize = 5;

/// The most that fitting to one target multiplies or divides a weight by: a share that noise made
/// 0 must not drop rows that other targets ask for.
const FACTOR_MAX: f64 = 5.0;

/// The most updates of weights in all: those of 1,000,000 rows, five passes and 100 targets take
/// seconds.
const UPDATES_MAX: usize = 500_000_000;

/// What rows are to be weighted to: first pairs of keys that no set has, as the measured ones tell;
/// then, separately, every measured pair, the strongest dependence last, and each key, the one that
/// is drawn first last. `drawn` has the keys in their order, each with those that it is drawn
/// given. Where that keeps all pairs and there are no others, or none is measured, there is no
/// target.
///
/// Where it keeps all measured pairs, rows are weighted to the others nevertheless: pairs that no
/// step draws together are off by chance, in each cell by about the root of its rows. Weights take
/// most of that away.
///
/// # Guarantee
/// Post-processing of released values.
pub fn targets(
    subsets: &BTreeSet<Vec<SummaryKey>>,
    drawn: &[(SummaryKey, &[SummaryKey])],
    marginals: &NoisyMarginals,
) -> Option<(Vec<TargetShares>, Vec<TargetShares>)> {
    let size = |keys: &[SummaryKey]| marginals.sizes(keys).iter().product::<usize>();
    let is_pair = |keys: &&Vec<SummaryKey>| keys.len() == 2 && size(keys) <= CELLS_MAX;
    let pairs: Vec<&Vec<SummaryKey>> = subsets.iter().filter(is_pair).collect();
    let is_kept = |pair: &&Vec<SummaryKey>| {
        let has = |(last, given): &(SummaryKey, &[SummaryKey])| {
            let is_drawn = |key| last == key || given.contains(key);
            pair.contains(last) && pair.iter().all(is_drawn)
        };
        drawn.iter().any(has)
    };
    let keys: Vec<SummaryKey> = SummaryKey::all(marginals.values.len()).collect();
    let others = other_pairs(subsets, &marginals.sizes(&keys));
    if pairs.is_empty() || others.is_empty() && pairs.iter().all(is_kept) {
        return Some((Vec::new(), Vec::new()));
    }
    let rows = marginals.estimate(&[], Quantity::Rows)?.values[0].max(1.0);
    let alone = |key| {
        let measured = marginals.estimate(&[key], Quantity::Rows)?;
        Some(shares(&project(&measured.values, rows)))
    };
    let alone: Vec<Vec<f64>> = keys.into_iter().map(alone).collect::<Option<_>>()?;
    let of_pair = |pair: &Vec<SummaryKey>| pair_target(pair, &alone, rows, marginals);
    let mut of_pairs: Vec<(f64, TargetShares)> =
        pairs.into_iter().map(of_pair).collect::<Option<_>>()?;
    of_pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let of_pairs: Vec<TargetShares> = of_pairs.into_iter().map(|(_, target)| target).collect();
    let implied = targets_by_paths(&others, subsets, &of_pairs, &alone);
    let of_key = |(key, _): &(SummaryKey, &[SummaryKey])| TargetShares {
        keys: vec![*key],
        shares: key.pick(&alone).clone(),
    };
    let of_keys = drawn.iter().rev().map(of_key);
    Some((implied, of_pairs.into_iter().chain(of_keys).collect()))
}

/// How far two keys depend on each other, in rows, and the shares of their combinations. These are
/// between the measured ones and those of independent keys: the more noise there is next to the
/// dependence, the nearer to the latter.
fn pair_target(
    pair: &[SummaryKey],
    alone: &[Vec<f64>],
    rows: f64,
    marginals: &NoisyMarginals,
) -> Option<(f64, TargetShares)> {
    let [first, second] = *pair else {
        return None;
    };
    let measured = marginals.estimate(pair, Quantity::Rows)?;
    let [one, other] = [first, second].map(|key| key.pick(alone));
    let independent = products(one, other);
    let both = measured.values.iter().zip(&independent);
    let distance: f64 = both.map(|(cell, share)| (cell - share * rows).abs()).sum();
    let noise = expected_noise(&measured);
    let dependence = without_noise(distance, noise);
    let weight = match dependence > 0.0 {
        true => 1.0 / (1.0 + (noise / dependence).powi(2)),
        false => 0.0,
    };
    let kept = shares(&project(&measured.values, rows));
    let both = kept.iter().zip(&independent);
    let target = TargetShares {
        keys: pair.to_vec(),
        shares: both
            .map(|(kept, independent)| weight * kept + (1.0 - weight) * independent)
            .collect(),
    };
    Some((dependence, target))
}

/// A weight for each row, so that the weighted shares are near all targets: nearest to the last
/// ones. `keys` has, for each key, each row's place among its values; `sizes` how many values there
/// are; `weights` what each row stands for before. It takes at most 500 million updates of one
/// weight: of many rows, the last targets count. Those of `others` come first, all of them or none.
///
/// # Guarantee
/// Post-processing of released values.
///
/// # Reference
/// Deming, Stephan: "On a least squares adjustment of a sampled frequency table when the expected
/// marginal totals are known", Annals of Mathematical Statistics 11, 1940 (iterative proportional
/// fitting; here with limited factors).
pub fn weigh(
    keys: &[Vec<usize>],
    sizes: &[usize],
    (others, targets): (&[TargetShares], &[TargetShares]),
    mut weights: Vec<f64>,
) -> Vec<f64> {
    let rows = weights.len();
    let mut cells = vec![0; rows];
    let targets = within_limit(others, targets, rows);
    for _ in 0..PASSES {
        for target in &targets {
            target.place(keys, sizes, &mut cells);
            fit(&mut weights, &cells, &target.shares);
        }
    }
    weights
}

/// How many rows are fitted to each of that many targets.
pub fn rows_within_limit(targets: usize) -> usize {
    UPDATES_MAX / PASSES / targets.max(1)
}

/// The last targets, as many as that many rows are fitted to; where all of the others fit too,
/// these before them.
fn within_limit<'t>(
    others: &'t [TargetShares],
    targets: &'t [TargetShares],
    rows: usize,
) -> Vec<&'t TargetShares> {
    let most = UPDATES_MAX / PASSES / rows.max(1);
    match others.len() + targets.len() <= most {
        true => others.iter().chain(targets).collect(),
        false => targets[targets.len().saturating_sub(most)..]
            .iter()
            .collect(),
    }
}

impl TargetShares {
    /// Writes for each row which of the target's combinations it has.
    fn place(&self, keys: &[Vec<usize>], sizes: &[usize], cells: &mut [usize]) {
        cells.fill(0);
        for key in &self.keys {
            let size = key.pick(sizes);
            for (cell, code) in cells.iter_mut().zip(key.pick(keys)) {
                *cell = *cell * size + code;
            }
        }
    }
}

/// Multiplies the weights so that each combination has its share, as far as one step may.
fn fit(weights: &mut [f64], cells: &[usize], shares: &[f64]) {
    let mut sums = vec![0.0; shares.len()];
    for (cell, weight) in cells.iter().zip(&*weights) {
        sums[*cell] += weight;
    }
    let all: f64 = sums.iter().sum();
    let factor = |(share, sum): (&f64, &f64)| match *sum > 0.0 {
        true => (share * all / sum).clamp(1.0 / FACTOR_MAX, FACTOR_MAX),
        // No row has it.
        false => 1.0,
    };
    let factors: Vec<f64> = shares.iter().zip(&sums).map(factor).collect();
    let then: f64 = sums.iter().zip(&factors).map(|(sum, by)| sum * by).sum();
    // The sum stays as it is: where no row has a combination, or a factor is limited, it would move
    // with each pass.
    let scale = match then > 0.0 {
        true => all / then,
        false => 1.0,
    };
    for (cell, weight) in cells.iter().zip(weights) {
        *weight *= factors[*cell] * scale;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::synthetic::{KeyModel, Marginal, NoisyQuantity, draw};

    const ROWS: usize = 20_000;

    /// Each key of three values.
    const SIZE: usize = 3;

    /// A summary of these pairs, with noise of this standard deviation.
    fn summary(keys: usize, pairs: Vec<([usize; 2], Vec<f64>)>, noise: f64) -> NoisyMarginals {
        let set = |(keys, rows): ([usize; 2], Vec<f64>)| Marginal {
            keys: keys.map(SummaryKey).to_vec(),
            quantities: HashMap::from([(
                Quantity::Rows,
                NoisyQuantity {
                    values: rows,
                    noise: vec![noise],
                },
            )]),
        };
        let values = || (0..SIZE).map(|at| Some(at.to_string())).collect();
        NoisyMarginals {
            values: (0..keys).map(|_| values()).collect(),
            sets: pairs.into_iter().map(set).collect(),
            measures: 0,
            shared: None,
        }
    }

    /// All pairs of four keys that depend on each other, without noise to speak of.
    fn dependent() -> NoisyMarginals {
        let codes: Vec<[usize; 4]> = (0..SIZE.pow(4))
            .map(|code| [27, 9, 3, 1].map(|step| code / step % SIZE))
            .collect();
        let pairs = || (0..4).flat_map(|a| (a + 1..4).map(move |b| [a, b]));
        let weight = |code: &[usize; 4]| {
            let agree = |[a, b]: [usize; 2]| match code[a] == code[b] {
                true => 1.5 + 0.25 * ((a + b) % 3) as f64,
                false => 1.0,
            };
            pairs().map(agree).product::<f64>() * (1 + code[0]) as f64
        };
        let all: f64 = codes.iter().map(weight).sum();
        let numbers = |[a, b]: [usize; 2]| {
            let mut cells = vec![0.0; SIZE * SIZE];
            for code in &codes {
                cells[code[a] * SIZE + code[b]] += weight(code) / all * ROWS as f64;
            }
            ([a, b], cells)
        };
        summary(4, pairs().map(numbers).collect(), 1e-9)
    }

    /// The largest total variation between made-up rows and a summary, over its pairs.
    fn worst_variation(keys: &[Vec<usize>], marginals: &NoisyMarginals) -> f64 {
        let rows = keys[0].len() as f64;
        let of_set = |set: &Marginal| {
            let measured = &set.quantities[&Quantity::Rows].values;
            let mut off: Vec<f64> = measured.iter().map(|cell| -cell / ROWS as f64).collect();
            let (first, second) = (set.keys[0].pick(keys), set.keys[1].pick(keys));
            for (a, b) in first.iter().zip(second) {
                off[a * SIZE + b] += 1.0 / rows;
            }
            off.iter().map(|off| off.abs()).sum::<f64>() / 2.0
        };
        marginals.sets.iter().map(of_set).fold(0.0, f64::max)
    }

    #[test]
    fn rows_have_the_numbers_of_all_measured_pairs() {
        let marginals = dependent();
        let mut model = KeyModel::of(&marginals).unwrap();
        let sizes = [SIZE; 4];
        for seed in 0..20 {
            let mut random = ChaCha20Rng::seed_from_u64(seed);
            let sample = draw(&model, &sizes, ROWS, &mut random);
            let worst = worst_variation(&sample.keys, &marginals);
            assert!(worst < 0.005, "{worst}");
            // What was drawn first is kept exactly.
            let wanted = marginals
                .estimate(&[SummaryKey(0)], Quantity::Rows)
                .unwrap();
            for (value, wanted) in wanted.values.iter().enumerate() {
                let found = sample.keys[0].iter().filter(|code| **code == value).count();
                assert!((found as f64 - wanted).abs() <= 1.0, "{found} {wanted}");
            }
        }
        // Keys that are drawn given one other keep three pairs of six.
        model.targets.clear();
        let mut random = ChaCha20Rng::seed_from_u64(0);
        let sample = draw(&model, &sizes, ROWS, &mut random);
        assert!(worst_variation(&sample.keys, &marginals) > 0.1);
    }

    /// A pair that no set has is as far from what the others tell as rounding makes it, and not as
    /// independent draws of its keys.
    #[test]
    fn rows_have_of_other_pairs_what_the_measured_ones_tell() {
        let all = dependent();
        let of = |a: usize, b: usize| all.estimate(&[a, b].map(SummaryKey), Quantity::Rows);
        let pairs = [[0, 1], [1, 2], [2, 3]];
        let measured = pairs.map(|[a, b]| ([a, b], of(a, b).unwrap().values));
        let model = KeyModel::of(&summary(4, measured.into(), 1e-9)).unwrap();
        let is_pair = |target: &&TargetShares| target.keys.len() == 2;
        assert_eq!(model.targets.iter().filter(is_pair).count(), 3);
        assert_eq!(model.others.len(), 3);
        let others: Vec<([usize; 2], Vec<f64>)> = model
            .others
            .iter()
            .map(|target| {
                let rows = target.shares.iter().map(|share| share * ROWS as f64);
                ([target.keys[0].0, target.keys[1].0], rows.collect())
            })
            .collect();
        // The keys at both ends of a link: those between them decide.
        let [first, second] = [of(0, 1).unwrap().values, of(1, 2).unwrap().values];
        let middle = of_middle(&second);
        for (at, said) in others[0].1.iter().enumerate() {
            let (a, c) = (at / SIZE, at % SIZE);
            let through = |b: usize| first[a * SIZE + b] * second[b * SIZE + c] / middle[b];
            let wanted: f64 = (0..SIZE).map(through).sum();
            assert!((said - wanted).abs() < 1.0, "{said} {wanted}");
        }
        let others = summary(4, others, 1e-9);
        let worst = |model: &KeyModel| {
            let mut random = ChaCha20Rng::seed_from_u64(5);
            let sample = draw(model, &[SIZE; 4], ROWS, &mut random);
            worst_variation(&sample.keys, &others)
        };
        let drawn = KeyModel {
            targets: Vec::new(),
            others: Vec::new(),
            ..model.clone()
        };
        assert!(worst(&model) < 0.002, "{}", worst(&model));
        assert!(worst(&drawn) > 2.0 * worst(&model), "{}", worst(&drawn));
    }

    fn of_middle(pair: &[f64]) -> Vec<f64> {
        pair.chunks(SIZE).map(|row| row.iter().sum()).collect()
    }

    #[test]
    fn rows_are_the_same_for_the_same_summary() {
        let made = || {
            let model = KeyModel::of(&dependent()).unwrap();
            let mut random = ChaCha20Rng::seed_from_u64(7);
            (draw(&model, &[SIZE; 4], 1_000, &mut random), model)
        };
        assert_eq!(made(), made());
        assert_eq!(made().0.keys[0].len(), 1_000);
    }

    #[test]
    fn few_rows_are_as_near_as_their_number_allows() {
        let marginals = dependent();
        let model = KeyModel::of(&marginals).unwrap();
        let mut random = ChaCha20Rng::seed_from_u64(3);
        let sample = draw(&model, &[SIZE; 4], 1_000, &mut random);
        let worst = worst_variation(&sample.keys, &marginals);
        // A pair of 1,000 rows that are drawn one by one is 0.036 off on average.
        assert!(worst < 0.015, "{worst}");
    }

    #[test]
    fn what_noise_may_have_made_of_a_pair_is_not_asked_for() {
        // Independent keys, but for a pair that is off by a multiple of what noise makes of it.
        let (cell, deviation) = (ROWS as f64 / 9.0, 10.0);
        let noise = (2.0 / std::f64::consts::PI).sqrt() * deviation * 9.0;
        let signs = [1.0, -1.0, 0.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0];
        // The part of it that the rows are weighted to.
        let kept = |multiple: f64| {
            let by = multiple * noise / 4.0;
            let even = vec![cell; 9];
            let pairs = vec![
                ([0, 1], signs.map(|sign| cell + sign * by).to_vec()),
                ([0, 2], even.clone()),
                ([1, 2], even),
            ];
            let model = KeyModel::of(&summary(3, pairs, deviation)).unwrap();
            let is_it = |target: &&TargetShares| target.keys.iter().map(|key| key.0).eq([0, 1]);
            let shares = &model.targets.iter().find(is_it).unwrap().shares;
            (shares[0] * ROWS as f64 - cell) / by
        };
        assert!(kept(0.5).abs() < 1e-6, "{}", kept(0.5));
        assert!(kept(1.0).abs() < 1e-6, "{}", kept(1.0));
        // A distance of 3 times the noise, and so a dependence of 8 squares of it: 8 parts of 9.
        assert!((kept(3.0) - 8.0 / 9.0).abs() < 1e-6, "{}", kept(3.0));
    }

    #[test]
    fn work_is_limited() {
        let target = |key| TargetShares {
            keys: vec![SummaryKey(key)],
            shares: vec![1.0],
        };
        let targets: Vec<TargetShares> = (0..300).map(target).collect();
        let (others, targets) = targets.split_at(150);
        let keys = |rows: usize| -> Vec<usize> {
            let found = within_limit(others, targets, rows);
            found.iter().map(|target| target.keys[0].0).collect()
        };
        assert!(keys(1_000_000).into_iter().eq(200..300));
        // All of the others, or none.
        assert!(keys(400_000).into_iter().eq(150..300));
        assert!(keys(50_000).into_iter().eq(0..300));
    }

    #[test]
    fn shares_that_no_row_has_change_nothing() {
        let mut weights = vec![1.0, 1.0, 2.0];
        // Both combinations that rows have lose half, so the sum of all is restored by twice.
        fit(&mut weights, &[0, 0, 1], &[0.25, 0.25, 0.5]);
        assert_eq!(weights, [1.0, 1.0, 2.0]);
        // A share of 0 divides by the limit and no more.
        fit(&mut weights, &[0, 0, 1], &[0.0, 1.0, 0.0]);
        let wanted = [0.2, 0.2, 4.0].map(|weight| weight * 4.0 / 4.4);
        for (weight, wanted) in weights.iter().zip(wanted) {
            assert!((weight - wanted).abs() < 1e-12, "{weight} {wanted}");
        }
    }
}
