mod rational;

use super::*;

/// Steps of a quarter of the sensitivity keep the sums short.
const BITS: u32 = 2;

fn fixed(value: f64) -> Fixed {
    Fixed::round_down(value)
}

/// P(X >= at) of discrete Laplace noise.
fn at_least(at: i128, scale: f64) -> f64 {
    let ratio = (-1.0 / scale).exp();
    match at > 0 {
        true => ratio.powi(at as i32) / (1.0 + ratio),
        false => 1.0 - ratio.powi((1 - at) as i32) / (1.0 + ratio),
    }
}

/// The least noise with which the question is answered above.
fn least(noise: i128, sum: i128, question: &ThresholdQuestion) -> i128 {
    let (mut below, mut above) = (-100_000i128, 100_000i128);
    while above - below > 1 {
        let middle = (below + above) / 2;
        match is_above((noise, BITS), sum + middle, question) {
            true => above = middle,
            false => below = middle,
        }
    }
    above
}

/// The probabilities of every course of an epoch: above at the first question, at the second,
/// and so on; last, never. `noise` is the scale of a question's noise.
fn law(sums: &[i128], question: &ThresholdQuestion, scale: u64, noise: f64) -> Vec<f64> {
    let mut law = vec![0.0; sums.len() + 1];
    let reach = i128::from(scale) * 45;
    for drawn in -reach..=reach {
        let ratio = (-1.0 / scale as f64).exp();
        let mut chance = (1.0 - ratio) / (1.0 + ratio) * ratio.powi(drawn.unsigned_abs() as i32);
        for (at, sum) in sums.iter().enumerate() {
            let above = at_least(least(drawn, *sum, question), noise);
            law[at] += chance * above;
            chance *= 1.0 - above;
        }
        law[sums.len()] += chance;
    }
    law
}

/// The laws over two neighbours.
fn laws(one: &[i128], other: &[i128], epsilon: f64, parts: u64) -> [Vec<f64>; 2] {
    const SENSITIVITY: i128 = 3;
    let question = ThresholdQuestion {
        threshold: (BigInt::from(7), BigInt::from(2)),
        sensitivity: BigInt::from(SENSITIVITY),
    };
    let scale = scale_of_threshold(fixed(epsilon), BITS).unwrap();
    let noise = parts as f64 * SENSITIVITY as f64 / epsilon;
    let laws = [one, other].map(|sums| law(sums, &question, scale, noise));
    for law in &laws {
        let sum: f64 = law.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
    laws
}

/// The largest log-ratio of the laws over two neighbours, either way.
fn worst(one: &[i128], other: &[i128], epsilon: f64, parts: u64) -> f64 {
    let [one, other] = laws(one, other, epsilon, parts);
    let ratios = one.iter().zip(&other).map(|(a, b)| (a / b).ln().abs());
    ratios.fold(0.0, f64::max)
}

/// Sums that all fall by the sensitivity but the last, which rises by it.
fn mixed(questions: usize) -> (Vec<i128>, Vec<i128>) {
    let mut one = vec![3; questions];
    let mut other = vec![0; questions];
    (one[questions - 1], other[questions - 1]) = (0, 3);
    (one, other)
}

#[test]
fn an_epoch_costs_its_epsilon_and_no_less_noise_would_do() {
    let epsilon = 1.0;
    for questions in 1..=6 {
        let (one, other) = mixed(questions);
        let found = worst(&one, &other, epsilon, 4);
        assert!(found <= epsilon + 1e-9, "{questions}: {found}");
    }
    // All sums move the same way: half of the noise.
    for questions in 1..=6 {
        let (one, other) = (vec![3; questions], vec![0; questions]);
        let found = worst(&one, &other, epsilon, 2);
        assert!(found <= epsilon + 1e-9, "{questions}: {found}");
        let down = worst(&other, &one, epsilon, 2);
        assert!(down <= epsilon + 1e-9, "{questions}: {down}");
    }
    // With many questions the bound is met, and half of the noise breaks it.
    let (one, other) = mixed(40);
    let kept = worst(&one, &other, epsilon, 4);
    assert!((0.999..=1.0 + 1e-9).contains(&kept), "{kept}");
    let broken = worst(&one, &other, epsilon, 2);
    assert!((1.49..1.51).contains(&broken), "{broken}");
    // The same where no sum falls: all but the last rise.
    let (mut one, other) = (vec![3; 40], vec![0; 40]);
    one[39] = 0;
    let kept = worst(&one, &other, epsilon, 2);
    assert!((0.999..=1.0 + 1e-9).contains(&kept), "{kept}");
    let broken = worst(&one, &other, epsilon, 1);
    assert!((1.49..1.51).contains(&broken), "{broken}");
}

/// Epsilon; and the bounds of autodp 0.2.3.1 on the Rényi divergence of orders 2, 4 and 16, for
/// `LaplaceSVT_Mechanism({"b": 2 / epsilon, "k": 40, "c": 1})`, whose threshold has noise of
/// scale b and whose questions have 2 b. Its `get_approxDP(0)` is epsilon itself.
/// benches/peers/sparse_vector.py prints them.
const AUTODP: [(f64, [f64; 3]); 3] = [
    (0.5, [0.227336, 0.351891, 0.455934]),
    (1.0, [0.700304, 0.820927, 0.955907]),
    (2.0, [1.619124, 1.813689, 1.955907]),
];

fn renyi(one: &[f64], other: &[f64], order: f64) -> f64 {
    let each = one.iter().zip(other);
    let sum: f64 = each.map(|(a, b)| a.powf(order) * b.powf(1.0 - order)).sum();
    sum.ln() / (order - 1.0)
}

#[test]
fn the_law_is_within_what_autodp_allows() {
    for (epsilon, bounds) in AUTODP {
        // The noises are those of autodp's mechanism.
        let b = 2.0 / epsilon;
        let scale = scale_of_threshold(fixed(epsilon), STEP_BITS).unwrap();
        assert!((scale as f64 / 2f64.powi(STEP_BITS as i32) / b - 1.0).abs() < 1e-9);
        let of_question = SumDirection::Either.epsilon_of_question(fixed(epsilon));
        assert!((1.0 / of_question.to_f64() / (2.0 * b) - 1.0).abs() < 1e-9);
        let (sums, others) = mixed(40);
        let [one, other] = laws(&sums, &others, epsilon, 4);
        for (order, bound) in [2.0, 4.0, 16.0].into_iter().zip(bounds) {
            let found = renyi(&one, &other, order).max(renyi(&other, &one, order));
            assert!(found <= bound, "{epsilon}, order {order}: {found} {bound}");
        }
        let pure = worst(&sums, &others, epsilon, 4);
        assert!((0.999..=1.0 + 1e-9).contains(&(pure / epsilon)), "{pure}");
        // Half of the noise is beyond what autodp certifies.
        assert!(worst(&sums, &others, epsilon, 2) > 1.49 * epsilon);
    }
}

#[test]
fn each_question_has_its_own_unit_of_threshold_noise() {
    let question = |sensitivity: i32| ThresholdQuestion {
        threshold: (BigInt::from(100), BigInt::from(1)),
        sensitivity: BigInt::from(sensitivity),
    };
    // Half of the sensitivity above.
    let noise = 1i128 << (STEP_BITS - 1);
    for (sensitivity, above) in [(1, 101), (10, 105), (1_000, 600)] {
        let asked = question(sensitivity);
        assert!(is_above((noise, STEP_BITS), above, &asked));
        assert!(!is_above((noise, STEP_BITS), above - 1, &asked));
    }
    // A fraction is not rounded.
    let third = ThresholdQuestion {
        threshold: (BigInt::from(1), BigInt::from(3)),
        sensitivity: BigInt::from(1),
    };
    assert!(!is_above((0, STEP_BITS), 0, &third) && is_above((0, STEP_BITS), 1, &third));
}

#[test]
fn margins_are_those_of_the_law() {
    for (epsilon, questions, wanted) in [
        (0.1, 1, 66.0),
        (0.1, 100, 156.0),
        (0.1, 1_000, 202.0),
        (0.5, 1, 14.0),
        (0.5, 100, 32.0),
        (0.5, 1_000, 41.0),
    ] {
        let found = margin(epsilon, SumDirection::Up, questions);
        assert!(
            (found - wanted).abs() <= 1.0,
            "{epsilon} {questions}: {found}"
        );
    }
    assert!(margin(0.1, SumDirection::Either, 1) > margin(0.1, SumDirection::Up, 1));
}

#[test]
fn shares_of_an_epoch_are_rounded_down() {
    let epsilon = Fixed(7);
    assert_eq!(SumDirection::Up.epsilon_of_question(epsilon), Fixed(3));
    assert_eq!(SumDirection::Either.epsilon_of_question(epsilon), Fixed(1));
    assert!(SumDirection::Either.admits(SumDirection::Up));
    assert!(
        !SumDirection::Up.admits(SumDirection::Down)
            && !SumDirection::Up.admits(SumDirection::Either)
    );
    assert!(check_epoch(fixed(1e-3)).is_ok() && check_epoch(Fixed(1)).is_err());
}
