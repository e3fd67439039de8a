//! The law of one epoch with its answer, and the experiment that the technique was published with.

mod rational;

use num_bigint::{BigInt, BigUint};

use super::super::above_threshold::is_above;
use super::super::testing::Seeded;
use super::super::{NoisyThreshold, Sampler, ThresholdQuestion};
use super::*;

/// Steps of a quarter of the sensitivity keep the sums short.
const BITS: u32 = 2;
const SENSITIVITY: i128 = 3;

fn fixed(value: f64) -> Fixed {
    Fixed::round_down(value)
}

fn question() -> ThresholdQuestion {
    ThresholdQuestion {
        threshold: (BigInt::from(7), BigInt::from(2)),
        sensitivity: BigInt::from(SENSITIVITY),
    }
}

/// The least noise with which a sum is far from zero.
fn least(noise: i128, sum: i128) -> i128 {
    let (mut below, mut above) = (-100_000i128, 100_000i128);
    while above - below > 1 {
        let middle = (below + above) / 2;
        match is_above((noise, BITS), sum.abs() + middle, &question()) {
            true => above = middle,
            false => below = middle,
        }
    }
    above
}

/// Sums that all come nearer to zero by the sensitivity but the last, which goes away by it. On
/// both sides of zero.
fn mixed(questions: usize) -> (Vec<i128>, Vec<i128>) {
    let side = |at: usize| if at.is_multiple_of(2) { 1 } else { -1 };
    let mut one: Vec<i128> = (0..questions).map(|at| 3 * side(at)).collect();
    let mut other = vec![0; questions];
    (one[questions - 1], other[questions - 1]) = (0, 3);
    (one, other)
}

#[test]
fn both_parts_are_in_the_loss() {
    for epsilon in [0.01, 0.5, 4.0] {
        let of_half = loss_laplace(fixed(epsilon));
        let whole = loss_of_holdout(fixed(epsilon)).unwrap();
        assert_eq!(whole.epsilon, Some(Fixed(2 * fixed(epsilon).0)));
        assert_eq!(whole.mu_squared, Fixed(2 * of_half.mu_squared.0));
    }
}

#[test]
fn scales_are_rounded_up() {
    let noise = |sensitivity: u64, epsilon| holdout_noise(&BigUint::from(sensitivity), epsilon);
    let found = noise(10, fixed(3.0)).unwrap();
    assert_eq!(found.question, Noise::Laplace { scale: 14 });
    assert_eq!(found.answer, Noise::Laplace { scale: 4 });
    // Never below one step, and never of a size that cannot be drawn.
    let found = noise(1, fixed(64.0)).unwrap();
    assert_eq!(found.answer, Noise::Laplace { scale: 1 });
    assert!(noise(0, fixed(1.0)).is_err() && noise(1, Fixed::ZERO).is_err());
    assert!(noise(u64::MAX, fixed(1.0)).is_err());
}

/// Rows of random features and of a label that has nothing to do with them, as bits.
struct Data {
    features: Vec<Vec<u64>>,
    label: Vec<u64>,
}

const ROWS: usize = 10_000;
const FEATURES: usize = 10_000;
const WORDS: usize = ROWS.div_ceil(64);
/// The most features of a classifier.
const CHOSEN: usize = 500;

/// A bit of each row; none past the last.
fn bits(state: &mut u64) -> Vec<u64> {
    let mut bits: Vec<u64> = (0..WORDS)
        .map(|_| {
            // SplitMix64.
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        })
        .collect();
    bits[WORDS - 1] &= (1 << (ROWS % 64)) - 1;
    bits
}

impl Data {
    fn new(seed: u64) -> Self {
        let mut state = seed;
        Self {
            features: (0..FEATURES).map(|_| bits(&mut state)).collect(),
            label: bits(&mut state),
        }
    }

    /// In how many rows the feature is equal to the label.
    fn agrees(&self, feature: usize) -> i128 {
        let bits = self.features[feature].iter().zip(&self.label);
        ROWS as i128
            - bits
                .map(|(a, b)| i128::from((a ^ b).count_ones()))
                .sum::<i128>()
    }

    /// In how many rows the majority of these features, or of their opposites, is the label.
    fn agrees_with_majority(&self, chosen: &[(usize, bool)]) -> i128 {
        let bit = |of: &[u64], row: usize| of[row / 64] >> (row % 64) & 1 == 1;
        let mut votes = vec![0i32; ROWS];
        for (feature, is_opposite) in chosen {
            for (row, vote) in votes.iter_mut().enumerate() {
                *vote += match bit(&self.features[*feature], row) != *is_opposite {
                    true => 1,
                    false => -1,
                };
            }
        }
        let is_right = |(row, vote): (usize, &i32)| (*vote > 0) == bit(&self.label, row);
        votes.iter().enumerate().filter(|of| is_right(*of)).count() as i128
    }
}

/// How often a feature is beyond what chance explains, in rows from the middle.
const EDGE: i128 = 50;

/// The features that both counts show on the same side, strongest in training first.
fn choose(training: &[i128], holdout: &[i128]) -> Vec<(usize, bool)> {
    let middle = ROWS as i128 / 2;
    let edge = |count: i128| count - middle;
    let mut chosen: Vec<usize> = (0..FEATURES)
        .filter(|at| {
            let (a, b) = (edge(training[*at]), edge(holdout[*at]));
            a.abs() >= EDGE && b.abs() >= EDGE && a.signum() == b.signum()
        })
        .collect();
    chosen.sort_by_key(|at| -edge(training[*at]).abs());
    chosen.truncate(CHOSEN);
    let signed = chosen.into_iter().map(|at| (at, training[at] < middle));
    signed.collect()
}

/// One holdout: each question gets the training count, or a noisy count that ends an epoch.
struct Reusable {
    sampler: Seeded,
    threshold: Option<NoisyThreshold>,
    opened: u32,
}

impl Reusable {
    const TOLERANCE: i128 = 400;
    /// The scale of the noise in an answer, in rows: 0.0005 of all.
    const SCALE: f64 = 5.0;

    fn count(&mut self, training: i128, holdout: i128) -> i128 {
        let epsilon = fixed(1.0 / Self::SCALE);
        let noise = holdout_noise(&BigUint::from(1u32), epsilon).unwrap();
        let asked = ThresholdQuestion {
            threshold: (BigInt::from(Self::TOLERANCE), BigInt::from(1)),
            sensitivity: BigInt::from(1),
        };
        let threshold = self.threshold.take().unwrap_or_else(|| {
            self.opened += 1;
            NoisyThreshold::draw(epsilon, &mut self.sampler).unwrap()
        });
        let sum = holdout - training;
        let noisy = sum.abs() + self.sampler.sample(&noise.question).unwrap();
        match threshold.is_above(noisy, &asked) {
            true => training + sum + self.sampler.sample(&noise.answer).unwrap(),
            false => {
                self.threshold = Some(threshold);
                training
            }
        }
    }
}

/// The paper's experiment, n = d = 10,000: labels that nothing predicts. Whoever picks features by
/// the holdout itself sees it confirm them; the reusable one says that they predict nothing.
#[test]
fn what_fits_the_holdout_by_chance_is_not_confirmed() {
    let (training, holdout) = (Data::new(1), Data::new(2));
    let counts = |data: &Data| -> Vec<i128> { (0..FEATURES).map(|at| data.agrees(at)).collect() };
    let (of_training, of_holdout) = (counts(&training), counts(&holdout));
    let share = |count: i128| count as f64 / ROWS as f64;

    let plain = choose(&of_training, &of_holdout);
    let claimed = share(holdout.agrees_with_majority(&plain));
    assert!(claimed > 0.6, "{claimed}");

    let mut reusable = Reusable {
        sampler: Seeded::new(3),
        threshold: None,
        opened: 0,
    };
    let shown = of_training.iter().zip(&of_holdout);
    let shown: Vec<i128> = shown.map(|(a, b)| reusable.count(*a, *b)).collect();
    let chosen = choose(&of_training, &shown);
    let fitted = training.agrees_with_majority(&chosen);
    assert!(share(fitted) > 0.6, "{fitted}");
    let answered = share(reusable.count(fitted, holdout.agrees_with_majority(&chosen)));
    assert!((0.49..=0.51).contains(&answered), "{answered}");
    assert!(reusable.opened <= 3, "{}", reusable.opened);

    let fresh = share(Data::new(4).agrees_with_majority(&plain));
    assert!((0.48..=0.52).contains(&fresh), "{fresh}");
}
