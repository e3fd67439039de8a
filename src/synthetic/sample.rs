//! Rows drawn from a model.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::cells::shares;
use super::model::{KeyModel, Step};
use super::weigh::weigh;
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

/// Draws that many rows.
///
/// Rows that agree in the keys a column is drawn given are divided among its values: each value
/// gets its share of them, rounded down or up. So the numbers of rows are within 1 of what the
/// model expects of these rows, where independent draws would be a square root off. Where the model
/// has targets, rows are then chosen by weight, again within 1 of what the weights expect.
pub fn draw(model: &KeyModel, sizes: &[usize], rows: usize, random: &mut impl Rng) -> Sample {
    let steps = &model.steps;
    let keys = match model.targets.as_slice() {
        targets if targets.is_empty() || rows == 0 => draw_keys(steps, sizes, rows, random),
        targets => {
            let drawn = draw_keys(steps, sizes, rows.max(CHOICE_MIN), random);
            let weights = weigh(&drawn, sizes, targets);
            choose(&drawn, (steps, sizes), &weights, rows, random)
        }
    };
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

/// The values of that many rows, key by key.
fn draw_keys(
    steps: &[Step],
    sizes: &[usize],
    rows: usize,
    random: &mut impl Rng,
) -> Vec<Vec<usize>> {
    let mut keys = vec![vec![0; rows]; sizes.len()];
    for step in steps {
        for (cell, members) in members(&step.given, sizes, &keys, rows) {
            let values = divide(members.len(), &step.shares[cell], random);
            let drawn = assign(&members, &values, random);
            drawn.for_each(|(row, value)| keys[step.key.0][row] = value);
        }
    }
    keys
}

/// Chooses `rows` of the rows by weight, some more than once, in random order.
///
/// They are gone through in the order of their values, the key of the last step varying fastest. So
/// the number of those that agree in the keys of the first steps is within 1 of their weight's
/// share, however many steps these are.
fn choose(
    drawn: &[Vec<usize>],
    (steps, sizes): (&[Step], &[usize]),
    weights: &[f64],
    rows: usize,
    random: &mut impl Rng,
) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    for step in steps.iter().rev() {
        let mut by_value: Vec<Vec<usize>> = vec![Vec::new(); *step.key.pick(sizes)];
        let values = step.key.pick(drawn);
        order
            .iter()
            .for_each(|row| by_value[values[*row]].push(*row));
        order = by_value.concat();
    }
    let in_order: Vec<f64> = order.iter().map(|row| weights[*row]).collect();
    let counts = divide(rows, &shares(&in_order), random);
    let both = order.iter().zip(counts);
    let repeated = both.flat_map(|(row, count)| std::iter::repeat_n(*row, count));
    let mut chosen: Vec<usize> = repeated.collect();
    chosen.shuffle(random);
    let of_chosen = |values: &Vec<usize>| chosen.iter().map(|row| values[*row]).collect();
    drawn.iter().map(of_chosen).collect()
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
fn divide(rows: usize, shares: &[f64], random: &mut impl Rng) -> Vec<usize> {
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
    use crate::synthetic::model::Means;

    #[test]
    fn numbers_are_within_one_of_what_the_model_expects() {
        let model = KeyModel {
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
            let chosen = choose(&drawn, (&steps, &[2, 2]), &weights, 1000, &mut random);
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
            // In no order.
            assert!(!chosen[1].is_sorted());
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
