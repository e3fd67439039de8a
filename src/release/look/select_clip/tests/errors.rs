//! The stated error of what is cut, and cuts as answers of older versions keep them.

use super::super::clip_bias::{TailShape, Tails};
use super::super::*;
use super::laws::normal;
use super::{bell, histogram, seeded};

/// The standard deviations of what is cut by each share, simulated and stated.
fn deviations(
    truth: &Histogram,
    (last, clip, exceeded): (usize, f64, bool),
    shares: &[f64],
) -> Vec<[f64; 2]> {
    let mut random = seeded(20_261_126);
    let mut moments = vec![(0.0, 0.0); shares.len()];
    let draws = 3_000;
    for _ in 0..draws {
        let mut noisy = |n: &f64| n + truth.deviation * normal(&mut random);
        let seen = Histogram {
            counts: truth.counts.iter().map(&mut noisy).collect(),
            beyond: noisy(&truth.beyond),
            ..truth.clone()
        };
        let tails = Tails::of(&seen, (last, clip), exceeded);
        for ((sum, squares), share) in moments.iter_mut().zip(shares) {
            let cut = tails.fit(&TailShape::of(&seen, last, *share)).cut;
            *sum += cut;
            *squares += cut * cut;
        }
    }
    let tails = Tails::of(truth, (last, clip), exceeded);
    let of_each = moments.iter().zip(shares).map(|((sum, squares), share)| {
        let mean = sum / f64::from(draws);
        let deviation = (squares / f64::from(draws) - mean * mean).sqrt();
        [
            deviation,
            tails.fit(&TailShape::of(truth, last, *share)).error,
        ]
    });
    of_each.collect()
}

/// The tail is so high that its height is never cut off at zero. A standard deviation of 3,000
/// draws has a standard error of 1.3 %; the seed is fixed.
#[test]
fn the_stated_error_is_that_of_what_is_cut() {
    let (mut truth, _) = histogram(bell(40, 16.0, 2_500.0), 10.0);
    for (last, exceeded) in [(18, false), (20, false), (21, true)] {
        truth.beyond = if exceeded { 300.0 } else { 0.0 };
        // Below the last bin that shows, at it, and beyond it.
        for clip in [-6, -1, 0, 3].map(|more| truth.edges[(last as i32 + more) as usize]) {
            let shares = [0.65, 0.5, 0.2];
            let found = deviations(&truth, (last, clip, exceeded), &shares);
            for (share, [simulated, stated]) in shares.iter().zip(found) {
                let ratio = simulated / stated;
                let what = format!("{last}, {clip}, {share}: {simulated} and {stated}");
                assert!((0.95..1.05).contains(&ratio), "{what}");
            }
        }
    }
}

/// What answers of older versions keep of a cut.
#[test]
fn cuts_of_older_answers_keep_their_meaning() {
    let of_version = |own: &str| -> ClipBias {
        let text = format!(
            r#"{{"clip":8.0,"units":5.0,"units_error":2.0,"of":100.0,"length":30.0,{own}
                "whole":1000.0}}"#
        );
        serde_json::from_str(&text).unwrap()
    };
    // The most by a light tail, and what a heavy one adds.
    let oldest = of_version(r#""tail":12.0,"#);
    assert_eq!(
        (oldest.length, oldest.error, oldest.rows),
        (42.0, 0.0, 42.0)
    );
    assert_eq!((oldest.most(1.96), oldest.beyond), (42.0, 0.0));
    let without = of_version("");
    assert_eq!(
        (without.length, without.error, without.rows),
        (30.0, 0.0, 30.0)
    );
    // The likeliest and its error, also of rows.
    let older = of_version(r#""beyond":7.0,"error":10.0,"#);
    assert_eq!((older.length, older.error, older.beyond), (30.0, 10.0, 7.0));
    assert_eq!(older.rows, 30.0 + 16.45);
    assert_eq!(older.growth, no_growth());
    // This version's, as it is written.
    let own = of_version(r#""error":10.0,"rows":31.5,"growth":[1,1,2,2,3,3,4],"#);
    assert_eq!((own.length, own.error, own.rows), (30.0, 10.0, 31.5));
    let again: ClipBias = serde_json::from_str(&serde_json::to_string(&own).unwrap()).unwrap();
    assert_eq!(again, own);
    let written = serde_json::to_value(own).unwrap();
    assert_eq!(written.as_object().unwrap().len(), 13);
    assert!(serde_json::from_str::<ClipBias>("{}").is_err());
}
