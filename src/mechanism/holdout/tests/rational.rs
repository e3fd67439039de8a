//! The law of an epoch with its answer in rational numbers.

use num_rational::BigRational;

use super::super::super::above_threshold::scale_of_threshold;
use super::super::super::rational_law::{Between, RationalLaw, exp_of_minus, whole};
use super::*;

/// Answers farther away are left out: they differ in nothing but a factor of the law's tail.
const REACH: i128 = 60;

/// The scales of the noise of a question and of an answer.
type Scales = (BigRational, BigRational);

/// From twice the scales.
fn scales(of_question: i128, of_answer: i128) -> Scales {
    let half = |scale: i128| whole(scale) / whole(2);
    (half(of_question), half(of_answer))
}

/// The probabilities of every course of an epoch at epsilon 1: each answer after the first
/// question, after the second, and so on; last, none. What the noise of the threshold does beyond
/// its reach may be any of them.
fn law(sums: &[i128], (of_question, of_answer): &Scales) -> Vec<Between> {
    let scale = scale_of_threshold(fixed(1.0), BITS).unwrap();
    let reach = i128::from(scale) * 45;
    let threshold = RationalLaw::new(&whole(scale.into()), reach as usize + 1);
    let of_question = RationalLaw::new(of_question, reach as usize + 100);
    let of_answer = RationalLaw::new(of_answer, REACH as usize + 10);
    let mut ends = vec![Between::nothing(); sums.len() + 1];
    for drawn in -reach..=reach {
        let mut chance = threshold.at(drawn);
        for (at, sum) in sums.iter().enumerate() {
            let above = of_question.at_least(least(drawn, *sum));
            ends[at].add(&chance.times(&above));
            chance = chance.times(&above.rest());
        }
        ends[sums.len()].add(&chance);
    }
    let beyond = threshold.at_least(reach + 1);
    for end in &mut ends {
        end.high += &beyond.high * 2;
    }
    let mut law = Vec::new();
    for (sum, end) in sums.iter().zip(&ends) {
        law.extend((-REACH..=REACH).map(|answer| end.times(&of_answer.at(answer - sum))));
    }
    law.extend(ends.pop());
    law
}

/// The laws over two neighbours, course by course.
fn laws((one, other): &(Vec<i128>, Vec<i128>), scales: &Scales) -> Vec<(Between, Between)> {
    law(one, scales)
        .into_iter()
        .zip(law(other, scales))
        .collect()
}

/// `e^-x` for thousandths.
fn limit(milli: i128) -> Between {
    exp_of_minus(&(whole(milli) / whole(1000)))
}

fn assert_within(laws: &[(Between, Between)], milli: i128) {
    let limit = limit(milli);
    for (a, b) in laws {
        assert!(a.is_within(b, &limit) && b.is_within(a, &limit));
    }
}

fn is_beyond(laws: &[(Between, Between)], milli: i128) -> bool {
    let limit = limit(milli);
    let mut laws = laws.iter();
    laws.any(|(a, b)| a.is_beyond(b, &limit) || b.is_beyond(a, &limit))
}

#[test]
fn an_epoch_costs_its_verdicts_and_its_answer() {
    let noise = holdout_noise(&BigUint::from(3u32), fixed(1.0)).unwrap();
    assert_eq!(noise.question, Noise::Laplace { scale: 12 });
    assert_eq!(noise.answer, Noise::Laplace { scale: 3 });
    let drawn = scales(24, 6);
    for questions in 1..=6 {
        assert_within(&laws(&mixed(questions), &drawn), 2000);
        // A sum that changes its side moves by the sensitivity, and its distance by less.
        let (mut one, mut other) = (vec![2; questions], vec![-1; questions]);
        (one[questions - 1], other[questions - 1]) = (-2, 1);
        assert_within(&laws(&(one, other), &drawn), 2000);
    }
    let worst = mixed(40);
    let kept = laws(&worst, &drawn);
    assert_within(&kept, 2000);
    assert!(is_beyond(&kept, 1999));
    // Half of either noise costs more than is paid: the verdicts are one part, the answer another.
    for (broken, milli) in [(scales(12, 6), 2490), (scales(24, 3), 2990)] {
        assert!(is_beyond(&laws(&worst, &broken), milli));
    }
}
