//! The purpose of an audit: the same attack that sound noise withstands catches noise that is wrong
//! in a known way. Power, at a false alarm of 1e-6 and 1,000 judged trials a side (2,000 under
//! Laplace noise): half the noise is missed less than once in 10^6 runs, and worse faults less
//! often.

use num_bigint::BigUint;
use pgveil::audit::{TrialNumbers, Trials, lower};
use pgveil::mechanism::{
    CandidateRun, Exponential, Fixed, Mu, Noise, OsRandomness, Presence, SampleError, Sampler,
    gaussian, threshold,
};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::stage::Stage;
use super::{ALARM, ANSWERS, Audited, SCALAR, SUM, VECTORS};
use crate::fixture::Stream;

/// A known way to draw noise wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Noise that is too small by this factor.
    TooLittle(u64),
    /// One draw for all groups.
    Shared,
    /// Each purchase begins the same stream.
    Repeated,
}

pub const FAULTS: [Fault; 5] = [
    Fault::None,
    Fault::TooLittle(2),
    Fault::TooLittle(20),
    Fault::Shared,
    Fault::Repeated,
];

/// The sampler of one release.
pub struct Faulty {
    fault: Fault,
    random: OsRandomness,
    stream: Stream,
    shared: Option<i128>,
}

impl Faulty {
    pub fn new(fault: Fault) -> Self {
        Self {
            fault,
            random: OsRandomness::new(),
            stream: Stream(ChaCha20Rng::seed_from_u64(7)),
            shared: None,
        }
    }
}

impl Sampler for Faulty {
    fn sample(&mut self, noise: &Noise) -> Result<i128, SampleError> {
        match self.fault {
            Fault::None => noise.sample(&mut self.random),
            Fault::TooLittle(times) => match *noise {
                Noise::Gaussian { sigma } => Noise::Gaussian {
                    sigma: sigma / times,
                },
                Noise::Laplace { scale } => Noise::Laplace {
                    scale: scale / times,
                },
            }
            .sample(&mut self.random),
            Fault::Shared => {
                let draw = match self.shared {
                    Some(draw) => draw,
                    None => noise.sample(&mut self.random)?,
                };
                self.shared = Some(draw);
                Ok(draw)
            }
            Fault::Repeated => noise.sample(&mut self.stream),
        }
    }

    fn choose(
        &mut self,
        exponential: &Exponential,
        runs: &[CandidateRun],
    ) -> Result<(usize, u64), SampleError> {
        self.random.choose(exponential, runs)
    }
}

/// One question with the canaries, and one without: they stand at the bound.
pub const TWICE: [&str; 2] = [
    SCALAR,
    "SELECT cell, count(*) FROM a.people WHERE x < 100 GROUP BY cell",
];

#[tokio::test(flavor = "multi_thread")]
async fn wrong_gaussian_noise_is_caught() {
    let stage = Stage::under("gdp", 10.0).await;
    let cases: [(Fault, &[&str]); 5] = [
        (Fault::TooLittle(2), &[SCALAR]),
        (Fault::TooLittle(2), &[VECTORS[2]]),
        // An average whose noise was divided by its number of rows.
        (Fault::TooLittle(20), &[VECTORS[1]]),
        (Fault::Shared, &[SCALAR]),
        (Fault::Repeated, &TWICE),
    ];
    for (fault, questions) in cases {
        stage.breaks(fault);
        let (trials, charged) = stage.trials(questions, ANSWERS / 2).await;
        let audited = Audited::new(&format!("{fault:?} {questions:?}"), &trials, charged);
        assert!(audited.share() > 1.0, "{fault:?} survives: {audited:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_laplace_noise_is_caught() {
    let stage = Stage::under("pure", 2.0).await;
    for fault in [Fault::TooLittle(2), Fault::Shared] {
        stage.breaks(fault);
        let (trials, charged) = stage.trials(&[SUM], ANSWERS).await;
        let audited = Audited::new(&format!("{fault:?}"), &trials, charged);
        assert!(audited.share() > 1.0, "{fault:?} survives: {audited:?}");
    }
}

/// In process, since no proxy runs a statement that it did not emit: the same statement, with its
/// clip and without, under its own noise.
#[tokio::test(flavor = "multi_thread")]
async fn a_clip_that_is_not_applied_is_caught() {
    let stage = Stage::under("gdp", 10.0).await;
    let plan = stage.plan(VECTORS[2]).await;
    let release = &plan.releases()[0];
    let (sound, price) = (release.sql().unwrap(), release.price().unwrap());
    let unclipped = sound.replace(" AS \"n\"", " * NULL AS \"n\"");
    assert_ne!(sound, unclipped);
    let mut random = OsRandomness::new();
    for (sql, is_sound) in [(sound, true), (unclipped.as_str(), false)] {
        let rows = stage.client().query(sql, &[]).await.unwrap();
        let mut trials = Trials::default();
        for _ in 0..ANSWERS / 4 {
            for row in &rows {
                let cell: usize = row.get::<_, String>(0).parse().unwrap();
                let exact =
                    (1..row.len()).map(|at| row.get::<_, String>(at).parse::<i128>().unwrap());
                let seen: TrialNumbers = exact
                    .zip(&price.calibrated)
                    .map(|(v, c)| (v + c.noise.sample(&mut random).unwrap()) as f64)
                    .collect();
                match cell % 4 {
                    1 => trials.with.push(seen),
                    3 => trials.without.push(seen),
                    _ => {}
                }
            }
        }
        let audited = Audited::new(
            if is_sound { "clipped" } else { "unclipped" },
            &trials,
            plan.loss(),
        );
        assert_eq!(audited.share() <= 1.0, is_sound, "{audited:?}");
    }
}

/// The mechanism alone, at a delta that can be seen: through the wire a threshold's delta is 1e-11,
/// which no number of trials distinguishes from zero.
#[test]
fn a_threshold_too_low_is_caught() {
    const TRIALS: u64 = 30_000;
    let (delta, groups) = (Fixed::round_down(0.05), 4u32);
    let (clip, one) = (BigUint::from(2u8), BigUint::from(1u8));
    let calibrated = gaussian(&clip, &one, Mu::round_down(4.0)).unwrap();
    let presence = Presence {
        clip: &clip,
        weight: &one,
        height: pgveil::mechanism::Height::Each(1),
    };
    let unit = 1i128 << calibrated.refine;
    let mut random = OsRandomness::new();
    // How often a unit alone in this many groups is shown in any of them.
    let mut shown = |pass_at: i128| {
        (0..TRIALS)
            .filter(|_| {
                (0..groups).any(|_| unit + calibrated.noise.sample(&mut random).unwrap() >= pass_at)
            })
            .count() as u64
    };
    let sound = threshold(&presence, calibrated, delta, groups).unwrap();
    let found = |hits: u64| lower(hits, TRIALS, ALARM);
    assert!(found(shown(sound)) <= 0.05);
    // Not empty: a fair share of the delta is seen.
    assert!(found(shown(sound)) > 0.03);
    let off_by_one = sound - unit;
    assert!(
        found(shown(off_by_one)) > 0.05,
        "a threshold off by one survives"
    );
    let spent_on_each = threshold(&presence, calibrated, delta, 1).unwrap();
    assert!(
        found(shown(spent_on_each)) > 0.05,
        "a delta spent on each group anew survives"
    );
    let twice = threshold(&presence, calibrated, Fixed(delta.0 * 2), groups).unwrap();
    assert!(found(shown(twice)) > 0.05, "a delta spent twice survives");
}
