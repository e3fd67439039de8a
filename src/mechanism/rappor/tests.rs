use super::*;
use crate::mechanism::{Channel, Randomiser};

fn near(found: f64, wanted: f64, within: f64) {
    assert!((found - wanted).abs() <= within, "{found} {wanted}");
}

/// The parameters of the paper's experiments.
const PAPER: Rappor = Rappor {
    bits: 128,
    hashes: 2,
    cohorts: 64,
    f: 0.5,
    p: 0.5,
    q: 0.75,
};

/// Words one after the other.
struct Script<'w>(std::slice::Iter<'w, u64>);

impl Randomness for Script<'_> {
    fn next_u64(&mut self) -> Result<u64, RandomError> {
        let reason = || RandomError {
            reason: "the script ends".to_owned(),
        };
        self.0.next().copied().ok_or_else(reason)
    }
}

#[test]
fn epsilons_are_those_of_the_paper() {
    near(PAPER.epsilon_of_all(), 4.3944, 1e-4);
    near(PAPER.epsilon_of_one(), 1.0743, 1e-4);
    assert_eq!(PAPER.channel(), Channel::new(0.6875, 0.5625));
    // No coin at all: reports of one value that are put together tell the value.
    let open = Rappor { f: 0.0, ..PAPER };
    assert_eq!(open.epsilon_of_all(), f64::INFINITY);
    near(open.epsilon_of_one(), 2.0 * 3f64.ln(), 1e-12);
}

/// A count of one bit, and one of the best encoding of short lists at the same epsilon.
#[test]
fn variances_are_those_of_the_literature() {
    near(PAPER.channel().variance(1.0, 0.0), 15.75, 1e-9);
    let unary = Randomiser::optimised_unary(PAPER.epsilon_of_one());
    let unary = unary.channel(&[1], 2).unwrap();
    near(unary.variance(1.0, 0.0), 3.15, 0.01);
}

/// One person's bit through both stages: how likely it is set where the value sets it, and where
/// not.
fn odds_of_bit(rappor: &Rappor) -> (f64, f64) {
    let law = law_of_reports(rappor, 0, "x");
    let set = |at: u32| -> f64 {
        let own = law.iter().enumerate();
        let own = own.filter(|(report, _)| report >> at & 1 == 1);
        own.map(|(_, likely)| likely).sum()
    };
    let own = rappor.places(0, "x")[0];
    (set(own), set((own + 1) % rappor.bits))
}

/// Section 4 of the paper estimates how many of N reports set a bit by
/// `t = (c - (p + f q / 2 - f p / 2) N) / ((1 - f) (q - p))`. Over all reports of seven persons, of
/// whom three have a value that sets it, its mean is three, and its variance follows from the odds
/// of Lemma 1: `q* = f (p + q) / 2 + (1 - f) q` and `p* = f (p + q) / 2 + (1 - f) p`.
#[test]
fn the_papers_estimate_has_the_stated_variance() {
    const PERSONS: usize = 7;
    const WITH: usize = 3;
    for (f, p, q) in [
        (0.5, 0.5, 0.75),
        (0.25, 0.25, 0.875),
        (0.5, 0.0, 1.0),
        (0.0, 0.25, 0.75),
        (0.75, 0.125, 0.625),
    ] {
        let rappor = Rappor {
            bits: 3,
            hashes: 1,
            cohorts: 1,
            f,
            p,
            q,
        };
        let (own, other) = odds_of_bit(&rappor);
        // How likely each count of set bits is.
        let mut counts = vec![1.0];
        for person in 0..PERSONS {
            let set = if person < WITH { own } else { other };
            let clear = counts.iter().map(|likely| likely * (1.0 - set));
            let mut next: Vec<f64> = clear.chain([0.0]).collect();
            for (at, likely) in counts.iter().enumerate() {
                next[at + 1] += likely * set;
            }
            counts = next;
        }
        let estimate = |count: usize| {
            let background = (p + f * q / 2.0 - f * p / 2.0) * PERSONS as f64;
            (count as f64 - background) / ((1.0 - f) * (q - p))
        };
        let mean = |of: &dyn Fn(f64) -> f64| -> f64 {
            let each = counts.iter().enumerate();
            each.map(|(count, likely)| likely * of(estimate(count)))
                .sum()
        };
        let with = WITH as f64;
        near(mean(&|t| t), with, 1e-9);
        let found = mean(&|t| (t - with).powi(2));
        let half = f * (p + q) / 2.0;
        let (set, clear) = (half + (1.0 - f) * q, half + (1.0 - f) * p);
        let bits = with * set * (1.0 - set) + (PERSONS as f64 - with) * clear * (1.0 - clear);
        near(found, bits / ((1.0 - f) * (q - p)).powi(2), 1e-9);
        near(found, rappor.channel().variance(PERSONS as f64, with), 1e-9);
    }
}

/// Wang et al. 2017, section 4.2: reports of RAPPOR for a list, without a second stage, have the
/// variance `e^(epsilon / 2) / (e^(epsilon / 2) - 1)^2` for each person.
#[test]
fn permanent_bits_alone_are_symmetric_unary_encoding() {
    for (f, at_one) in [(0.5, None), (2.0 / (0.5f64.exp() + 1.0), Some(3.918))] {
        let rappor = Rappor {
            hashes: 1,
            f,
            p: 0.0,
            q: 1.0,
            ..PAPER
        };
        let half = (rappor.epsilon_of_all() / 2.0).exp();
        let found = rappor.channel().variance(1.0, 0.0);
        near(found, half / (half - 1.0).powi(2), 1e-9);
        if let Some(wanted) = at_one {
            near(rappor.epsilon_of_all(), 1.0, 1e-9);
            near(found, wanted, 1e-3);
        }
    }
}

/// What clients in other languages have to compute.
#[test]
fn places_are_the_first_words_of_digests() {
    // Independently: `printf '\0\0\0\003\0https://example.org/' | sha256sum`, and with \001.
    let page = "https://example.org/";
    assert_eq!(PAPER.places(3, page), [42, 70]);
    assert_ne!(PAPER.places(3, page), PAPER.places(4, page));
    // Both hash functions may give one bit.
    let narrow = Rappor {
        bits: 2,
        hashes: 3,
        ..PAPER
    };
    let all: Vec<Vec<u32>> = (0..64).map(|cohort| narrow.places(cohort, "x")).collect();
    assert!(all.iter().any(|places| places.len() == 1));
    assert!(all.iter().flatten().all(|place| *place < 2));
}

/// How likely each report is.
type Law = Vec<f64>;

/// How often a bit is set, by what is made of each of sixteen evenly spread words. Exact for
/// probabilities that are sixteenths.
fn law_of_bit(mut draw: impl FnMut(u64) -> bool) -> f64 {
    let words = (0..16u64).map(|sixteenth| sixteenth << 60);
    words.filter(|word| draw(*word)).count() as f64 / 16.0
}

/// The law of whole reports of a value, through both stages of the encoder.
fn law_of_reports(rappor: &Rappor, cohort: u32, value: &str) -> Law {
    let bits = rappor.bits as usize;
    // Bits are independent given the value, so each may be tried alone.
    let permanent: Vec<f64> = (0..bits)
        .map(|at| {
            law_of_bit(|word| {
                let draw = |place: u32| -> Result<u64, ()> {
                    Ok(if place as usize == at { word } else { 0 })
                };
                rappor.permanent((cohort, value), draw).unwrap()[at]
            })
        })
        .collect();
    let reported = |known: bool| {
        law_of_bit(|word| {
            let words = vec![word; bits];
            let found = rappor.report(&vec![known; bits], &mut Script(words.iter()));
            let found = found.unwrap();
            assert!(found.iter().all(|bit| *bit == found[0]));
            found[0]
        })
    };
    let (clear, set) = (reported(false), reported(true));
    let one: Vec<f64> = permanent
        .iter()
        .map(|permanent| permanent * set + (1.0 - permanent) * clear)
        .collect();
    (0..1usize << bits)
        .map(|report| {
            let bit = |at: usize| match report >> at & 1 {
                1 => one[at],
                _ => 1.0 - one[at],
            };
            (0..bits).map(bit).product()
        })
        .collect()
}

fn largest_log_odds(one: &Law, other: &Law) -> f64 {
    let odds = one.iter().zip(other).map(|(a, b)| (a / b).ln().abs());
    odds.fold(0.0, f64::max)
}

/// Over all reports of a few bits and all pairs of values, no odds are worse than stated, and the
/// worst are reached: by two values that set different bits, all of them.
#[test]
fn no_report_tells_more_than_its_epsilon() {
    let rappor = Rappor {
        bits: 6,
        cohorts: 2,
        ..PAPER
    };
    let values: Vec<String> = (0..12).map(|number| format!("value {number}")).collect();
    for cohort in 0..rappor.cohorts {
        let mut worst = 0.0;
        let laws: Vec<Law> = values
            .iter()
            .map(|value| law_of_reports(&rappor, cohort, value))
            .collect();
        for law in &laws {
            near(law.iter().sum(), 1.0, 1e-12);
        }
        for (one, other) in laws.iter().flat_map(|a| laws.iter().map(move |b| (a, b))) {
            worst = f64::max(worst, largest_log_odds(one, other));
        }
        near(worst, rappor.epsilon_of_one(), 1e-9);
    }
}

/// All reports of one value depend on it through the permanent bits alone, so that their law bounds
/// what any number of reports tells.
#[test]
fn permanent_bits_cost_what_all_reports_do() {
    let rappor = Rappor {
        bits: 6,
        cohorts: 1,
        // The second stage changes nothing: a report is its permanent bits.
        p: 0.0,
        q: 1.0,
        ..PAPER
    };
    let (one, other) = ("value 0", "value 2");
    let (a, b) = (rappor.places(0, one), rappor.places(0, other));
    assert!(
        a.len() == 2 && b.len() == 2 && a.iter().all(|place| !b.contains(place)),
        "{a:?} {b:?}"
    );
    let worst = largest_log_odds(
        &law_of_reports(&rappor, 0, one),
        &law_of_reports(&rappor, 0, other),
    );
    near(worst, rappor.epsilon_of_all(), 1e-9);
}

/// A bit of a report is set as often as [`Rappor::channel`] says. Exchanged stages, or `p` and `q`
/// exchanged, give other laws: the permanent bits' coin is fair, and reports' are not.
#[test]
fn bits_are_as_likely_as_stated() {
    let rappor = Rappor {
        bits: 3,
        hashes: 1,
        cohorts: 1,
        f: 0.25,
        p: 0.25,
        q: 0.875,
    };
    let law = law_of_reports(&rappor, 0, "x");
    let set = |at: u32| -> f64 {
        let reports = law.iter().enumerate();
        let own = reports.filter(|(report, _)| report >> at & 1 == 1);
        own.map(|(_, likely)| likely).sum()
    };
    let own = rappor.places(0, "x")[0];
    let channel = rappor.channel();
    for at in 0..3 {
        let wanted = match at == own {
            true => channel.miss() + channel.gain(),
            false => channel.miss(),
        };
        near(set(at), wanted, 1e-12);
    }
    // A fair coin in a quarter of the cases, and then the odds of a report.
    near(channel.miss() + channel.gain(), 0.796875, 1e-12);
    near(channel.miss(), 0.328125, 1e-12);
}

/// The permanent bits of a value are the same for ever, and those of a report are not.
#[test]
fn permanent_bits_stay_and_reports_do_not() {
    let word = |place: u32| -> Result<u64, ()> {
        Ok(u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    };
    let kept = PAPER.permanent((5, "x"), word).unwrap();
    assert_eq!(kept, PAPER.permanent((5, "x"), word).unwrap());
    let mut random = crate::mechanism::OsRandomness::new();
    let reports: Vec<Vec<bool>> = (0..4)
        .map(|_| PAPER.report(&kept, &mut random).unwrap())
        .collect();
    // That two of them are equal by chance has probability below 2^-100.
    for (at, report) in reports.iter().enumerate() {
        assert!(!reports[..at].contains(report));
    }
}

/// Probabilities of 0 and 1 are exact, and each bit takes one word, in its place's order.
#[test]
fn odds_of_nothing_and_of_all_are_exact() {
    let plain = Rappor {
        f: 0.0,
        p: 0.0,
        q: 1.0,
        ..PAPER
    };
    for word in [0, 1, u64::MAX] {
        let kept = plain
            .permanent((7, "x"), |_| -> Result<u64, ()> { Ok(word) })
            .unwrap();
        let words = vec![word; 128];
        let report = plain.report(&kept, &mut Script(words.iter())).unwrap();
        let set: Vec<u32> = (0..128).filter(|at| report[*at as usize]).collect();
        assert_eq!(set, plain.places(7, "x"));
    }
    let kept = vec![false; 128];
    assert!(plain.report(&kept, &mut Script([0; 127].iter())).is_err());
}
