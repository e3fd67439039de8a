//! Rows drawn from a model.

use std::collections::BTreeMap;

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::model::{KeyModel, Step};
use super::weigh::{rows_within_limit, weigh};
use crate::mechanism::shares;
use crate::policy::SummaryKey;

/// Made-up rows, column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// For each key, each row's place among its values.
    pub keys: Vec<Vec<usize>>,
    /// For each measure, the mean that each row's value is to be drawn around; `None` is NULL.
    pub means: Vec<Vec<Option<f64>>>,
}

/// The fewest rows that some are chosen of by weight, so that they have most combinations.
const CHOICE_MIN: usize = 20_000;

/// About as many rows are drawn, at least, to choose those of one group by weight.
const CANDIDATES: usize = 50;

/// The most rows that are drawn so that each group has its candidates.
const DRAWN_MAX: usize = 4_000_000;

/// Draws that many rows of a model without known keys.
///
/// Rows that agree in the keys a column is drawn given are divided among its values: each value
/// gets its share of them, rounded down or up. So the numbers of rows are within 1 of what the
/// model expects of these rows, where independent draws would be a square root off. Where the model
/// has targets, rows are then chosen by weight, again within 1 of what the weights expect.
pub fn draw(model: &KeyModel, sizes: &[usize], rows: usize, random: &mut impl Rng) -> Sample {
    let steps = &model.steps;
    let keys = match model.targets.as_slice() {
        targets if targets.is_empty() || rows == 0 => draw_keys(
            steps,
            sizes,
            (vec![vec![0; rows]; sizes.len()], rows),
            random,
        ),
        targets => {
            let drawn = rows.max(CHOICE_MIN);
            let none = (vec![vec![0; drawn]; sizes.len()], drawn);
            let drawn = draw_keys(steps, sizes, none, random);
            let alike = vec![1.0; rows.max(CHOICE_MIN)];
            let weights = weigh(&drawn, sizes, (&model.others, targets), alike);
            let all = (0..weights.len()).collect();
            let mut chosen = choose(&drawn, steps, (&weights, all), rows, random);
            chosen.shuffle(random);
            pick(&drawn, &chosen)
        }
    };
    with_means(model, sizes, (keys, rows), random)
}

/// Draws one row for each row of known values: codes of the model's given keys, parallel to them.
/// As [`draw`], but the numbers by known keys are those of the known rows.
pub fn draw_given(
    model: &KeyModel,
    sizes: &[usize],
    known: &[Vec<usize>],
    random: &mut impl Rng,
) -> Sample {
    let rows = known.len();
    let keys = match model.targets.is_empty() || rows == 0 {
        true => {
            let mut keys = vec![vec![0; rows]; sizes.len()];
            for (at, step) in model.given.iter().enumerate() {
                keys[step.key.0] = known.iter().map(|codes| codes[at]).collect();
            }
            draw_keys(&model.steps, sizes, (keys, rows), random)
        }
        false => choose_given(model, sizes, known, random),
    };
    with_means(model, sizes, (keys, rows), random)
}

/// Draws several rows for each of those that agree in all known keys, and chooses among them by
/// weight.
fn choose_given(
    model: &KeyModel,
    sizes: &[usize],
    known: &[Vec<usize>],
    random: &mut impl Rng,
) -> Vec<Vec<usize>> {
    let steps = &model.steps;
    let mut alike: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    for (row, codes) in known.iter().enumerate() {
        alike.entry(codes).or_default().push(row);
    }
    // As many as the measured pairs allow: the others count where there is room for all of them.
    let copies = copies_of_groups(alike.values().map(Vec::len), model.targets.len());
    let drawn: usize = alike
        .values()
        .zip(&copies)
        .map(|(own, n)| own.len() * n)
        .sum();
    let mut keys = vec![vec![0; drawn]; sizes.len()];
    // A row of a group of which more are drawn stands for less.
    let mut weights = Vec::with_capacity(drawn);
    for ((codes, own), copies) in alike.iter().zip(&copies) {
        let all = weights.len()..weights.len() + own.len() * copies;
        for (step, code) in model.given.iter().zip(*codes) {
            keys[step.key.0][all.clone()].fill(*code);
        }
        weights.resize(all.end, 1.0 / *copies as f64);
    }
    let drawn = draw_keys(steps, sizes, (keys, drawn), random);
    let weights = weigh(&drawn, sizes, (&model.others, &model.targets), weights);
    let mut chosen = vec![0; known.len()];
    let mut first = 0;
    for (own, copies) in alike.into_values().zip(copies) {
        let all = (first..first + own.len() * copies).collect();
        first += own.len() * copies;
        let mut found = choose(&drawn, steps, (&weights, all), own.len(), random);
        found.shuffle(random);
        own.iter()
            .zip(found)
            .for_each(|(row, from)| chosen[*row] = from);
    }
    pick(&drawn, &chosen)
}

/// How many rows are drawn for each one of a group of rows that agree in their known keys: enough
/// for those chosen of each group to have most combinations, and no more in all than are weighed.
fn copies_of_groups(groups: impl Iterator<Item = usize> + Clone, targets: usize) -> Vec<usize> {
    let rows: usize = groups.clone().sum();
    let of_all = CHOICE_MIN.div_ceil(rows.max(1));
    let most = DRAWN_MAX.min(rows_within_limit(targets));
    let left = most.saturating_sub(rows * of_all) / groups.clone().count().max(1);
    let of_group = left.min(CANDIDATES);
    groups
        .map(|own| of_all.max(of_group.div_ceil(own.max(1))))
        .collect()
}

/// The rows with these keys, and the means around which their measures are to be drawn.
fn with_means(
    model: &KeyModel,
    sizes: &[usize],
    (keys, rows): (Vec<Vec<usize>>, usize),
    random: &mut impl Rng,
) -> Sample {
    let mut sample = Sample {
        keys,
        means: Vec::new(),
    };
    for of in &model.means {
        let mut means = vec![None; rows];
        for (cell, members) in members(&of.given, sizes, &sample.keys, rows) {
            let (mean, known) = of.cells[cell];
            let values = divide(members.len(), &[known, 1.0 - known], random);
            let drawn = assign(&members, &values, random);
            drawn.for_each(|(row, value)| means[row] = (value == 0).then_some(mean));
        }
        sample.means.push(means);
    }
    sample
}

/// The keys of some of the drawn rows.
fn pick(drawn: &[Vec<usize>], rows: &[usize]) -> Vec<Vec<usize>> {
    let of_rows = |values: &Vec<usize>| rows.iter().map(|row| values[*row]).collect();
    drawn.iter().map(of_rows).collect()
}

/// Draws the values of rows, key by key, where `keys` has those that are known.
fn draw_keys(
    steps: &[Step],
    sizes: &[usize],
    (mut keys, rows): (Vec<Vec<usize>>, usize),
    random: &mut impl Rng,
) -> Vec<Vec<usize>> {
    for step in steps {
        for (cell, members) in members(&step.given, sizes, &keys, rows) {
            let values = divide(members.len(), &step.shares[cell], random);
            let drawn = assign(&members, &values, random);
            drawn.for_each(|(row, value)| keys[step.key.0][row] = value);
        }
    }
    keys
}

/// Chooses `rows` of these drawn rows by weight, some more than once.
///
/// They are gone through in the order of their values, the key of the last step varying fastest. So
/// the number of those that agree in the keys of the first steps is within 1 of their weight's
/// share, however many steps these are.
fn choose(
    drawn: &[Vec<usize>],
    steps: &[Step],
    (weights, mut order): (&[f64], Vec<usize>),
    rows: usize,
    random: &mut impl Rng,
) -> Vec<usize> {
    if let [only] = *order {
        return vec![only; rows];
    }
    for step in steps.iter().rev() {
        let values = step.key.pick(drawn);
        order.sort_by_key(|row| values[*row]);
    }
    let in_order: Vec<f64> = order.iter().map(|row| weights[*row]).collect();
    let counts = divide(rows, &shares(&in_order), random);
    let both = order.iter().zip(counts);
    let repeated = both.flat_map(|(row, count)| std::iter::repeat_n(*row, count));
    repeated.collect()
}

/// The rows by the combination of their values of these keys.
fn members(
    given: &[SummaryKey],
    sizes: &[usize],
    keys: &[Vec<usize>],
    rows: usize,
) -> Vec<(usize, Vec<usize>)> {
    let count = given.iter().map(|key| key.pick(sizes)).product();
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    for row in 0..rows {
        let code = |key: &SummaryKey| key.pick(keys)[row];
        let place = |cell, key: &SummaryKey| cell * key.pick(sizes) + code(key);
        members[given.iter().fold(0, place)].push(row);
    }
    let all = members.into_iter().enumerate();
    all.filter(|(_, members)| !members.is_empty()).collect()
}

/// How many of `rows` each share gets: rounded down, and one more for some, each with the
/// probability of what was cut off.
///
/// # Reference
/// Madow: "On the theory of systematic sampling, II", Annals of Mathematical Statistics 20, 1949.
pub(super) fn divide(rows: usize, shares: &[f64], random: &mut impl Rng) -> Vec<usize> {
    let start: f64 = random.random();
    let last = shares.len() - 1;
    let (mut reached, mut given) = (0.0, 0);
    let count = |(at, share): (usize, &f64)| {
        reached += share * rows as f64;
        // The last one takes what floating-point sums have lost.
        let upto = match at == last {
            true => rows,
            false => ((reached + start).floor().max(0.0) as usize).clamp(given, rows),
        };
        let count = upto - given;
        given = upto;
        count
    };
    shares.iter().enumerate().map(count).collect()
}

/// Gives each value to that many rows, at random.
fn assign(
    members: &[usize],
    counts: &[usize],
    random: &mut impl Rng,
) -> impl Iterator<Item = (usize, usize)> {
    let mut values: Vec<usize> = counts
        .iter()
        .enumerate()
        .flat_map(|(value, count)| std::iter::repeat_n(value, *count))
        .collect();
    values.shuffle(random);
    members.iter().copied().zip(values)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    use super::*;
    use crate::synthetic::TargetShares;
    use crate::synthetic::model::Means;

    #[test]
    fn numbers_are_within_one_of_what_the_model_expects() {
        let model = KeyModel {
            given: Vec::new(),
            steps: vec![
                Step {
                    key: SummaryKey(1),
                    given: vec![],
                    shares: vec![vec![0.305, 0.695]],
                },
                Step {
                    key: SummaryKey(0),
                    given: vec![SummaryKey(1)],
                    shares: vec![vec![0.5, 0.25, 0.25], vec![0.0, 1.0, 0.0]],
                },
            ],
            targets: Vec::new(),
            others: Vec::new(),
            means: vec![Means {
                given: vec![SummaryKey(1)],
                cells: vec![(3.0, 1.0), (5.0, 0.5)],
            }],
            rows: 1000.0,
        };
        for seed in 0..50 {
            let mut random = ChaCha20Rng::seed_from_u64(seed);
            let sample = draw(&model, &[3, 2], 1000, &mut random);
            let count = |wanted: (usize, usize)| {
                let both = sample.keys[0].iter().zip(&sample.keys[1]);
                both.filter(|(a, b)| (**a, **b) == wanted).count()
            };
            assert_eq!(count((1, 1)), 695);
            assert_eq!(count((0, 1)) + count((2, 1)), 0);
            assert!((152..=153).contains(&count((0, 0))), "{}", count((0, 0)));
            let unknown = sample.means[0].iter().filter(|mean| mean.is_none()).count();
            assert!((347..=348).contains(&unknown), "{unknown}");
        }
    }

    /// A key that is known, and one that depends on it, by steps or by weights alone.
    fn of_known(targets: Vec<TargetShares>) -> KeyModel {
        let by_steps = targets.is_empty();
        let step = |key, given: &[usize], shares| Step {
            key: SummaryKey(key),
            given: given.iter().copied().map(SummaryKey).collect(),
            shares,
        };
        KeyModel {
            given: vec![step(0, &[], vec![vec![0.9, 0.1]])],
            steps: vec![match by_steps {
                true => step(1, &[0], vec![vec![0.2, 0.8], vec![0.7, 0.3]]),
                false => step(1, &[], vec![vec![0.5, 0.5]]),
            }],
            targets,
            others: Vec::new(),
            means: Vec::new(),
            rows: 1000.0,
        }
    }

    #[test]
    fn known_keys_stay_and_others_depend_on_them() {
        // The summary's rows mostly have the first value of the known key, these rows the second.
        let both = TargetShares {
            keys: vec![SummaryKey(0), SummaryKey(1)],
            shares: vec![0.18, 0.72, 0.07, 0.03],
        };
        let known: Vec<Vec<usize>> = (0..1000)
            .map(|row| vec![usize::from(row % 4 > 0)])
            .collect();
        for model in [of_known(Vec::new()), of_known(vec![both])] {
            for seed in 0..10 {
                let mut random = ChaCha20Rng::seed_from_u64(seed);
                let sample = draw_given(&model, &[2, 2], &known, &mut random);
                let codes = sample.keys[0].iter().map(|code| vec![*code]);
                assert!(codes.eq(known.iter().cloned()));
                let count = |wanted: [usize; 2]| {
                    let both = sample.keys[0].iter().zip(&sample.keys[1]);
                    both.filter(|(a, b)| [**a, **b] == wanted).count()
                };
                let found = (count([0, 0]), count([1, 0]));
                // Of 250 rows a fifth, and of 750 seven tenths.
                assert!(
                    found.0.abs_diff(50) <= 1 && found.1.abs_diff(525) <= 1,
                    "{found:?}"
                );
            }
            let none = draw_given(&model, &[2, 2], &[], &mut ChaCha20Rng::seed_from_u64(1));
            assert_eq!(none.keys, [vec![0; 0], vec![0; 0]]);
        }
    }

    /// Pairs that no set has do not make fewer rows be drawn: where there is no room for them, rows
    /// are as without them.
    #[test]
    fn other_pairs_take_nothing_from_measured_ones() {
        let both = |shares: [f64; 4]| TargetShares {
            keys: vec![SummaryKey(0), SummaryKey(1)],
            shares: shares.to_vec(),
        };
        // One row by itself, of which more are drawn the more there is room for.
        let known: Vec<Vec<usize>> = (0..1000).map(|row| vec![usize::from(row == 0)]).collect();
        let drawn = |others: usize| {
            let model = KeyModel {
                others: vec![both([0.1, 0.4, 0.4, 0.1]); others],
                ..of_known(vec![TargetShares {
                    keys: vec![SummaryKey(1)],
                    shares: vec![0.5, 0.5],
                }])
            };
            draw_given(&model, &[2, 2], &known, &mut ChaCha20Rng::seed_from_u64(9))
        };
        assert_ne!(drawn(1), drawn(0));
        assert_eq!(drawn(20_000), drawn(0));
    }

    #[test]
    fn each_group_has_candidates_to_choose_among() {
        let copies = |groups: &[usize], targets| copies_of_groups(groups.iter().copied(), targets);
        assert_eq!(copies(&[20_000, 50, 7, 1], 3), [1, 1, 8, 50]);
        // Few rows are drawn often in any case.
        assert_eq!(copies(&[900, 100], 3), [20, 20]);
        for (own, groups, targets) in [(1, 1_000_000, 1), (10, 100_000, 40), (1, 200_000, 40)] {
            let found = copies(&vec![own; groups], targets);
            let drawn: usize = found.iter().map(|copies| copies * own).sum();
            let most = DRAWN_MAX.min(rows_within_limit(targets));
            assert!(2 * drawn > most && drawn <= most, "{drawn}");
        }
    }

    #[test]
    fn small_groups_keep_a_pair_that_no_step_has() {
        // 20,000 rows of one code, and one row each of 200 others. A key that no step draws given
        // them is the code's last bit.
        let codes = 201;
        let known: Vec<Vec<usize>> = (0..20_200)
            .map(|row: usize| vec![(row + 1).saturating_sub(20_000)])
            .collect();
        let mut pairs = vec![0.0; 2 * codes];
        known
            .iter()
            .for_each(|row| pairs[2 * row[0] + row[0] % 2] += 1.0 / 20_200.0);
        let step = |key, shares| Step {
            key: SummaryKey(key),
            given: vec![],
            shares: vec![shares],
        };
        let model = KeyModel {
            given: vec![step(0, vec![1.0 / 201.0; codes])],
            steps: vec![step(1, vec![0.5, 0.5])],
            targets: vec![TargetShares {
                keys: vec![SummaryKey(0), SummaryKey(1)],
                shares: pairs,
            }],
            others: Vec::new(),
            means: Vec::new(),
            rows: 20_200.0,
        };
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let sample = draw_given(&model, &[codes, 2], &known, &mut random);
        let both = sample.keys[0].iter().zip(&sample.keys[1]);
        let wrong = both.filter(|(code, bit)| *code % 2 != **bit).count();
        // With one candidate each it would be half of the small groups, 100.
        assert!(wrong <= 3, "{wrong}");
        assert!(
            sample.keys[0]
                .iter()
                .zip(&known)
                .all(|(code, row)| *code == row[0])
        );
    }

    #[test]
    fn chosen_rows_are_within_one_of_their_weights() {
        let step = |key| Step {
            key: SummaryKey(key),
            given: vec![],
            shares: vec![vec![0.25, 0.75]],
        };
        let steps = [step(1), step(0)];
        // Each combination three times, with weights that differ.
        let code = |key: usize, row: usize| ((row % 4) >> key) & 1;
        let drawn: [Vec<usize>; 2] = [0, 1].map(|key| (0..12).map(|row| code(key, row)).collect());
        let weights: Vec<f64> = (0..12).map(|row| f64::from(1 + row * row)).collect();
        let all: f64 = weights.iter().sum();
        for seed in 0..50 {
            let mut random = ChaCha20Rng::seed_from_u64(seed);
            let weighted = (&weights[..], (0..12).collect());
            let chosen = choose(&drawn, &steps, weighted, 1000, &mut random);
            let chosen = pick(&drawn, &chosen);
            let near = |is_meant: &dyn Fn(usize, usize) -> bool| {
                let meant = |keys: &[Vec<usize>], row: usize| is_meant(keys[0][row], keys[1][row]);
                let found = (0..1000).filter(|row| meant(&chosen, *row)).count();
                let weight: f64 = (0..12)
                    .filter(|row| meant(&drawn, *row))
                    .map(|row| weights[row])
                    .sum();
                let wanted = 1000.0 * weight / all;
                assert!((found as f64 - wanted).abs() <= 1.0, "{found} {wanted}");
            };
            for first in 0..2 {
                near(&|_, one| one == first);
                for second in 0..2 {
                    near(&|zero, one| (zero, one) == (second, first));
                }
            }
        }
    }

    #[test]
    fn shares_are_kept_on_average() {
        let shares = [0.1, 0.35, 0.0, 0.55];
        let mut sums = [0; 4];
        let mut random = ChaCha20Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let counts = divide(3, &shares, &mut random);
            assert_eq!(counts.iter().sum::<usize>(), 3);
            sums.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        // Four standard errors of a share of 60,000 are below 0.003; the seed is fixed.
        for (sum, share) in sums.iter().zip(shares) {
            assert!((*sum as f64 / 60_000.0 - share).abs() < 0.003, "{sums:?}");
        }
    }
}
