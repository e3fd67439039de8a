//! Laws of reports, exactly: how many of the 2^64 words give each report.

use super::*;
use crate::mechanism::{Channel, Rappor};

/// How many words give each report of the value at this place. All laws are monotone in the word,
/// so runs of equal reports are found by bisection.
fn law(odds: &Odds, place: usize, values: usize) -> Vec<u128> {
    let report = |word: u64| odds.place_of(word, (place, values));
    let mut counts = vec![0u128; values];
    let mut first = 0u128;
    while first < WORDS {
        let of_first = report(first as u64);
        let (mut low, mut high) = (first, WORDS);
        while high - low > 1 {
            let middle = low.midpoint(high);
            match report(middle as u64) == of_first {
                true => low = middle,
                false => high = middle,
            }
        }
        counts[of_first] += high - first;
        first = high;
    }
    counts
}

/// The largest log ratio of the probability of a report under two true values.
fn cost(laws: &[Vec<u128>]) -> f64 {
    let pairs = laws.iter().flat_map(|a| laws.iter().map(move |b| (a, b)));
    let ratios = pairs.flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| *a as f64 / *b as f64));
    ratios.fold(0f64, |most, ratio| most.max(ratio.ln()))
}

fn randomisers() -> Vec<(Randomiser, usize)> {
    let mut all = Vec::new();
    for epsilon in [0.01, 0.3, 1.0, 3f64.ln(), 2.5, 7.0, 20.0] {
        all.extend((2..=9).map(|k| (Randomiser::KRr { epsilon }, k)));
        all.push((Randomiser::KRr { epsilon }, 1000));
        all.push((Randomiser::optimised_unary(epsilon), 2));
        all.push((Randomiser::Mean { epsilon }, 2));
    }
    for (truth, yes) in [
        (0.5, 0.5),
        (0.2, 0.5),
        (0.75, 0.1),
        (0.01, 0.99),
        (0.999, 0.5),
    ] {
        all.push((Randomiser::Coin { truth, yes }, 2));
    }
    for (one, zero) in [(0.75, 0.25), (0.5, 0.2), (0.9, 0.001)] {
        all.push((Randomiser::Unary { one, zero }, 2));
    }
    all
}

/// Beyond the largest epsilon a report is the truth, whatever its mechanism is.
#[test]
fn odds_that_hide_nothing_are_refused() {
    for (randomiser, values) in [
        (Randomiser::KRr { epsilon: 20.1 }, 3),
        (Randomiser::Mean { epsilon: 20.1 }, 2),
        (Randomiser::optimised_unary(20.1), 2),
        (
            Randomiser::Unary {
                one: 1.0 - 1e-6,
                zero: 1e-6,
            },
            2,
        ),
        (
            Randomiser::Coin {
                truth: 1.0 - 1e-9,
                yes: 0.5,
            },
            2,
        ),
    ] {
        assert!(randomiser.epsilon() > EPSILON_MAX, "{randomiser:?}");
        assert_eq!(Odds::of(&randomiser, values), None, "{randomiser:?}");
    }
}

/// Each word is used, and no report costs more than what is said of it.
#[test]
fn no_report_costs_more_than_its_epsilon() {
    for (randomiser, values) in randomisers() {
        let odds = Odds::of(&randomiser, values).unwrap();
        let some = if values > 9 { 3 } else { values };
        let laws: Vec<_> = (0..some).map(|place| law(&odds, place, values)).collect();
        for law in &laws {
            assert_eq!(law.iter().sum::<u128>(), WORDS, "{randomiser:?} {values}");
        }
        let cost = match odds {
            // Two persons' bits differ where the one or the other has the value.
            Odds::Unary { .. } => (0..2)
                .flat_map(|a| (0..2).map(move |b| (a, b)))
                .map(|(a, b)| {
                    let up = laws[1][a] as f64 / laws[0][a] as f64;
                    (up * laws[0][b] as f64 / laws[1][b] as f64).ln()
                })
                .fold(0.0, f64::max),
            _ => cost(&laws),
        };
        let said = randomiser.epsilon();
        assert!(cost <= said, "{randomiser:?} {values}: {cost} > {said}");
        assert!(
            cost >= said - 1e-6 * said.max(0.1),
            "{randomiser:?} {values}: {cost} {said}"
        );
    }
}

/// The law of reports is the one with which estimates are computed.
#[test]
fn reports_are_those_that_estimates_expect() {
    for (randomiser, values) in randomisers() {
        let odds = Odds::of(&randomiser, values).unwrap();
        let shares = |place: usize| -> Vec<f64> {
            let counts = law(&odds, place, values);
            counts
                .iter()
                .map(|count| *count as f64 / WORDS as f64)
                .collect()
        };
        if let Randomiser::Mean { epsilon } = randomiser {
            let c = (epsilon / 2.0).tanh();
            for part in [0.0, 0.1, 0.5, 0.75, 1.0] {
                let set = odds.threshold(part) as f64 / WORDS as f64;
                let wanted = (1.0 + (2.0 * part - 1.0) * c) / 2.0;
                assert!(
                    (set - wanted).abs() < 1e-10,
                    "{epsilon} {part} {set} {wanted}"
                );
            }
            continue;
        }
        let place = values - 1;
        let channel: Channel = randomiser.channel(&[place], values).unwrap();
        let (hit, miss) = (shares(place)[place], shares(0)[place]);
        assert!(
            (miss - channel.miss()).abs() < 1e-10,
            "{randomiser:?} {values}"
        );
        assert!(
            (hit - miss - channel.gain()).abs() < 1e-10,
            "{randomiser:?} {values}"
        );
    }
}

/// Whatever a number is, its bit has a probability between the ends.
#[test]
fn a_number_beyond_its_bounds_costs_no_more() {
    let odds = Odds::of(&Randomiser::Mean { epsilon: 1.0 }, 2).unwrap();
    let Odds::Mean { least } = odds else {
        panic!("the odds of a mean")
    };
    for part in [-1e300, -0.1, f64::NAN, 0.5, 1.1, f64::INFINITY] {
        let threshold = odds.threshold(part);
        assert!(
            (least..=least.wrapping_neg()).contains(&threshold),
            "{part}"
        );
    }
    assert_eq!(part_of(0.5, (0.0, 2.0)), Some(0.25));
    assert_eq!(part_of(-0.1, (0.0, 2.0)), None);
    assert_eq!(part_of(f64::NAN, (0.0, 2.0)), None);
}

/// Odds that exclude a true value, or say nothing, make no reports.
#[test]
fn odds_that_tell_the_truth_are_none() {
    let coin = |truth, yes| Randomiser::Coin { truth, yes };
    for (randomiser, values) in [
        (coin(1.0, 0.5), 2),
        (coin(0.5, 0.0), 2),
        (coin(0.5, 1.0), 2),
        (
            Randomiser::Unary {
                one: 1.0,
                zero: 0.0,
            },
            2,
        ),
        (Randomiser::KRr { epsilon: 1.0 }, 1),
        (Randomiser::KRr { epsilon: 21.0 }, 3),
        (Randomiser::Mean { epsilon: 1e-13 }, 2),
    ] {
        assert_eq!(Odds::of(&randomiser, values), None, "{randomiser:?}");
    }
}

fn filters() -> Vec<Rappor> {
    // Their words are not whole numbers, so that each is rounded. Others' are.
    let mut all: Vec<Rappor> = [(1e-4, 1e-5, 1e-4), (1e-4, 3e-6, 0.75), (1e-4, 0.25, 1.0)]
        .map(|(f, p, q)| Rappor {
            bits: 16,
            hashes: 1,
            cohorts: 4,
            f,
            p,
            q,
        })
        .to_vec();
    for (f, p, q) in [
        (0.5, 0.5, 0.75),
        (1.0 / 3.0, 0.1, 0.7),
        (0.9, 0.0, 1.0),
        (0.123_456_789, 0.987, 0.988),
        (0.02, 1e-9, 1.0 - 1e-9),
    ] {
        all.extend([1, 2].map(|hashes| Rappor {
            bits: 16,
            hashes,
            cohorts: 4,
            f,
            p,
            q,
        }));
    }
    all
}

/// The law of a bit, exactly: of 2^128 pairs of words, for how many a bit of a report is set, where
/// the value sets the bit and where it does not. As shares; doubles round off 1e-16 of each.
fn shares(odds: &Odds) -> [f64; 2] {
    let Odds::Rappor { lie, clear, set } = *odds else {
        panic!("the odds of a filter")
    };
    let whole = WORDS as f64;
    let [lie, clear, set] = [lie, clear, set].map(|words| words as f64 / whole);
    [
        (1.0 - lie) * set + lie * clear,
        lie * set + (1.0 - lie) * clear,
    ]
}

/// Words are counted on the safe side of what is declared, and neither all reports of a value nor
/// one of them cost more than is said: two values that set different bits are the worst case.
#[test]
fn no_filter_costs_more_than_its_epsilons() {
    let mut rounded = 0;
    for rappor in filters() {
        let odds = Odds::of(&Randomiser::Rappor(rappor), 3).unwrap();
        let Odds::Rappor { lie, clear, set } = odds else {
            panic!("the odds of a filter")
        };
        // Exact: a probability times a power of two is a double again.
        let words = |probability: f64| probability * WORDS as f64;
        let [half, least, most] = [rappor.f / 2.0, rappor.p, rappor.q].map(words);
        let rounding = 0.0..1.0;
        assert!(rounding.contains(&(lie as f64 - half)), "{rappor:?}");
        assert!(rounding.contains(&(clear as f64 - least)), "{rappor:?}");
        assert!(rounding.contains(&(most - set as f64)), "{rappor:?}");
        let parts = [half, least, most].into_iter();
        rounded += parts.filter(|words| words.fract() > 0.0).count();
        let hashes = f64::from(rappor.hashes);
        let all = 2.0 * hashes * ((WORDS - lie) as f64 / lie as f64).ln();
        let said = rappor.epsilon_of_all();
        assert!(
            all <= said * (1.0 + 1e-14) && all > said * (1.0 - 1e-9),
            "{rappor:?}"
        );
        let [hit, miss] = shares(&odds);
        let one = hashes * (hit * (1.0 - miss) / (miss * (1.0 - hit))).ln();
        let said = rappor.epsilon_of_one();
        assert!(
            one <= said * (1.0 + 1e-11) && one > said * (1.0 - 1e-11),
            "{rappor:?}: {one} {said}"
        );
        assert!(one <= all * (1.0 + 1e-9), "{rappor:?}");
        let channel = rappor.channel();
        assert!((miss - channel.miss()).abs() < 1e-12, "{rappor:?}");
        assert!((hit - miss - channel.gain()).abs() < 1e-12, "{rappor:?}");
    }
    assert!(rounded >= 6, "{rounded}");
}

/// All words are one more than the largest of 64 bits.
#[test]
fn odds_of_all_words_are_exact() {
    let rappor = Rappor {
        bits: 16,
        hashes: 1,
        cohorts: 4,
        f: 0.5,
        p: 0.0,
        q: 1.0,
    };
    let odds = Odds::of(&Randomiser::Rappor(rappor), 3).unwrap();
    assert_eq!(
        odds.in_words(),
        "permanent bits set for 4611686018427387904 and clear for as many, whatever the value is; \
            bits of a report set for 18446744073709551616 where they are set and 0 elsewhere"
    );
}

/// Odds without permanent coins make no reports, and no place of a list is a filter's report.
#[test]
fn filters_that_hide_nothing_are_refused() {
    let filter = |f: f64, hashes: u32| {
        let rappor = Rappor {
            bits: 16,
            hashes,
            cohorts: 4,
            f,
            p: 0.5,
            q: 0.75,
        };
        Odds::of(&Randomiser::Rappor(rappor), 3)
    };
    assert_eq!(filter(0.0, 2), None);
    // 2 h ln((1 - f/2) / (f/2)) is 21 for the second.
    assert!(filter(0.01, 1).is_some() && filter(0.01, 2).is_none());
    let odds = filter(0.5, 2).unwrap();
    for word in [0, 1 << 63, u64::MAX] {
        assert!((0..3).all(|place| odds.place_of(word, (place, 3)) == 0));
    }
}

/// The first reports of a few words by these odds.
fn reports(odds: &Odds, place: usize, values: usize) -> Vec<usize> {
    let words = (0..24u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words
        .map(|word| odds.place_of(word, (place, values)))
        .collect()
}

/// Odds that depend on an exponential function are these integers: reports that were made stay, so
/// another library, machine or version must not compute others. `exp` is our own, of additions and
/// products alone.
#[test]
fn odds_are_the_same_everywhere() {
    for (randomiser, values, wanted) in [
        (
            Randomiser::KRr { epsilon: 1.0 },
            16,
            "the true value for 2830040163873819241 and each other for 1041113593989048825",
        ),
        (
            Randomiser::KRr { epsilon: 0.3 },
            2,
            "the true value for 10596594092637175736 and each other for 7850149981072375880",
        ),
        (
            Randomiser::KRr { epsilon: 20.0 },
            1000,
            "the true value for 18446706090235965697 and each other for 38021495081",
        ),
        (
            Randomiser::optimised_unary(1.0),
            2,
            "the true value's bit for 9223372036762542080 and each other for 4961093570881591296",
        ),
        (
            Randomiser::optimised_unary(2.5),
            2,
            "the true value's bit for 9223372036762542080 and each other for 1399336432763260160",
        ),
        (
            Randomiser::Mean { epsilon: 1.0 },
            2,
            "a set bit for 4961093570868249390 at the lower bound and at most \
                13485650502841302226 at the upper one",
        ),
        (
            Randomiser::Mean { epsilon: 0.01 },
            2,
            "a set bit for 9177255561019943691 at the lower bound and at most \
                9269488512689607925 at the upper one",
        ),
    ] {
        let odds = Odds::of(&randomiser, values).unwrap();
        assert_eq!(odds.in_words(), wanted, "{randomiser:?} {values}");
    }
    let krr = Odds::of(&Randomiser::KRr { epsilon: 1.0 }, 16).unwrap();
    assert_eq!(
        reports(&krr, 3, 16),
        [
            3, 9, 1, 13, 6, 3, 10, 4, 15, 8, 0, 12, 5, 3, 9, 2, 14, 7, 3, 11, 4, 15, 8, 1
        ]
    );
    let unary = Odds::of(&Randomiser::optimised_unary(1.0), 2).unwrap();
    assert_eq!(
        reports(&unary, 0, 2),
        [
            1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1
        ]
    );
    let mean = Odds::of(&Randomiser::Mean { epsilon: 1.0 }, 2).unwrap();
    let bits = [0.0, 0.25, 0.5, 1.0].map(|part| mean.threshold(part));
    assert_eq!(
        bits,
        [
            4961093570868249390,
            7092232803861512494,
            9223372036854775598,
            13485650502841301806
        ]
    );
}
