//! The law of an epoch in rational numbers.

use std::collections::HashMap;

use super::super::super::rational_law::{Between, RationalLaw, exp_of_minus, rational, whole};
use super::*;

const SENSITIVITY: i128 = 3;

/// The noise of an epoch's threshold and of its questions.
struct Stage {
    threshold: RationalLaw,
    reach: i128,
    /// For each sum: the probabilities that it is answered above, by what the threshold's noise is,
    /// from the lowest on.
    above: HashMap<i128, Vec<Between>>,
}

impl Stage {
    /// `parts` is 4 where sums may move either way, 2 where all move the same way.
    fn new(epsilon: Fixed, parts: i128, sums: &[i128]) -> Self {
        let scale = scale_of_threshold(epsilon, BITS).unwrap();
        let reach = i128::from(scale) * 45;
        let of_question = whole(parts * SENSITIVITY) / rational(epsilon);
        // A step of the threshold's noise is three quarters of one of a sum.
        let noise = RationalLaw::new(&of_question, reach as usize + 100);
        let question = ThresholdQuestion {
            threshold: (BigInt::from(7), BigInt::from(2)),
            sensitivity: BigInt::from(SENSITIVITY),
        };
        let above = |sum: &i128| {
            let drawn = -reach..=reach;
            let above = drawn.map(|drawn| noise.at_least(least(drawn, *sum, &question)));
            (*sum, above.collect())
        };
        Self {
            threshold: RationalLaw::new(&whole(scale.into()), reach as usize + 1),
            reach,
            above: sums.iter().map(above).collect(),
        }
    }

    /// The probabilities of every course of an epoch over sums from 0 to 3 that are known. What the
    /// noise of the threshold does beyond its reach may be any of them.
    fn law(&self, sums: &[i128]) -> Vec<Between> {
        let mut law = vec![Between::nothing(); sums.len() + 1];
        let above: Vec<&[Between]> = sums.iter().map(|sum| &self.above[sum][..]).collect();
        for (place, drawn) in (-self.reach..=self.reach).enumerate() {
            let mut chance = self.threshold.at(drawn);
            for (at, above) in above.iter().enumerate() {
                let above = &above[place];
                law[at].add(&chance.times(above));
                chance = chance.times(&above.rest());
            }
            law[sums.len()].add(&chance);
        }
        let beyond = self.threshold.at_least(self.reach + 1);
        for course in &mut law {
            course.high += &beyond.high * 2;
        }
        law
    }
}

/// The courses of an epoch, and its prefixes: no answer above among the first ones.
fn events(law: &[Between]) -> Vec<Between> {
    let mut events = law.to_vec();
    let mut left = Between::nothing();
    for course in law.iter().rev() {
        left.add(course);
        events.push(left.clone());
    }
    events
}

/// All lists of this many of the values.
fn lists(values: &[i128], length: usize) -> Vec<Vec<i128>> {
    (0..length).fold(vec![Vec::new()], |lists, _| {
        let longer = lists.iter().flat_map(|list| {
            let each = values.iter().map(|value| [&list[..], &[*value]].concat());
            each.collect::<Vec<_>>()
        });
        longer.collect()
    })
}

/// Every two of the lists are sums over neighbours; in an epoch of one direction, where none falls.
fn assert_within(epsilon: Fixed, values: &[i128], length: usize) {
    let limit = exp_of_minus(&rational(epsilon));
    for (parts, is_one_way) in [(4, false), (2, true)] {
        let stage = Stage::new(epsilon, parts, values);
        let lists = lists(values, length);
        let laws: Vec<_> = lists.iter().map(|sums| events(&stage.law(sums))).collect();
        for (one, of_one) in lists.iter().zip(&laws) {
            for (other, of_other) in lists.iter().zip(&laws) {
                if is_one_way && one.iter().zip(other).any(|(one, other)| one > other) {
                    continue;
                }
                for (a, b) in of_one.iter().zip(of_other) {
                    assert!(a.is_within(b, &limit), "{one:?} {other:?}");
                    assert!(b.is_within(a, &limit), "{other:?} {one:?}");
                }
            }
        }
    }
}

#[test]
fn every_prefix_of_six_questions_costs_at_most_epsilon() {
    assert_within(fixed(1.0), &[0, 3], 6);
    // An epsilon of which the scale of the threshold is rounded; sums that move by less.
    for epsilon in [0.3, 1.9] {
        assert_within(fixed(epsilon), &[0, 1, 3], 3);
    }
}

/// With forty questions the bound is met to a thousandth, and half of the noise breaks it by half.
#[test]
fn the_worst_prefix_costs_epsilon_and_no_less_noise_would_do() {
    let limit = |milli: i128| exp_of_minus(&(whole(milli) / whole(1000)));
    let (sums, others) = mixed(40);
    let (mut rising, still) = (vec![3; 40], vec![0; 40]);
    rising[39] = 0;
    for (one, other, parts) in [(&sums, &others, 4), (&rising, &still, 2)] {
        let laws = |parts: i128| {
            let stage = Stage::new(fixed(1.0), parts, &[0, 3]);
            let [one, other] = [one, other].map(|sums| events(&stage.law(sums)));
            one.into_iter().zip(other).collect::<Vec<_>>()
        };
        let is_beyond = |(a, b): &(Between, Between), milli: i128| {
            a.is_beyond(b, &limit(milli)) || b.is_beyond(a, &limit(milli))
        };
        let kept = laws(parts);
        for (a, b) in &kept {
            assert!(a.is_within(b, &limit(1000)) && b.is_within(a, &limit(1000)));
        }
        assert!(kept.iter().any(|pair| is_beyond(pair, 999)));
        let halved = laws(parts / 2);
        assert!(halved.iter().any(|pair| is_beyond(pair, 1490)));
    }
}
