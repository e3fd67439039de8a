//! Published thresholds, the exact probability of showing a lone unit's groups, and what must be
//! refused.

use num_bigint::BigUint;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::mechanism::conversion::mu_of;
use crate::mechanism::loss::Mu;
use crate::mechanism::normal::sf;
use crate::mechanism::threshold::*;
use crate::mechanism::{gaussian, laplace};

const GRID: u64 = 1 << 30;

fn down(value: f64) -> Fixed {
    Fixed::round_down(value)
}

/// In presences, as the tables show it.
fn presences(tau: i128, calibrated: Calibrated, height: u64) -> f64 {
    (tau as f64 / 2f64.powi(calibrated.refine as i32) / height as f64).round()
}

/// A unit's presences on a grid of 2^30, clipped to sqrt(groups) (L2) of them.
fn gaussian_tau(clip: f64, mu: Mu, delta: f64, groups: u32) -> f64 {
    let clip = BigUint::from((clip * GRID as f64).ceil() as u64);
    let weight = BigUint::from(1u8);
    let calibrated = gaussian(&clip, &weight, mu).unwrap();
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Each(GRID),
    };
    presences(
        threshold(&presence, calibrated, down(delta), groups).unwrap(),
        calibrated,
        GRID,
    )
}

/// Weight 1 / sqrt(t) in each of t groups, clipped to one presence in all.
fn shared_tau(mu: Mu, delta: f64, groups: u32) -> f64 {
    let (clip, weight) = (BigUint::from(GRID), BigUint::from(1u8));
    let calibrated = gaussian(&clip, &weight, mu).unwrap();
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Shared(GRID),
    };
    presences(
        threshold(&presence, calibrated, down(delta), groups).unwrap(),
        calibrated,
        GRID,
    )
}

fn laplace_tau(groups: u32, epsilon: f64, delta: f64) -> f64 {
    let (clip, weight) = (BigUint::from(groups), BigUint::from(1u8));
    let calibrated = laplace(&clip, &weight, down(epsilon)).unwrap();
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Each(1),
    };
    presences(
        threshold(&presence, calibrated, down(delta), groups).unwrap(),
        calibrated,
        1,
    )
}

#[test]
fn laplace_thresholds_as_published() {
    assert_eq!(laplace_tau(1, 1.0, 1e-8), 19.0);
    assert_eq!(laplace_tau(3, 1.0, 1e-8), 57.0);
    assert_eq!(laplace_tau(10, 1.0, 1e-8), 201.0);
    assert_eq!(laplace_tau(30, 0.1, 1e-8), 6340.0);
}

#[test]
fn gaussian_thresholds_as_published() {
    let mu = mu_of(down(1.0), down(1e-6)).unwrap();
    assert_eq!(gaussian_tau(1.0, mu, 1e-8, 1), 25.0);
    assert_eq!(gaussian_tau(3f64.sqrt(), mu, 1e-8, 3), 43.0);
    assert_eq!(gaussian_tau(10f64.sqrt(), mu, 1e-8, 10), 81.0);
    let mu = mu_of(down(0.1), down(1e-6)).unwrap();
    assert_eq!(gaussian_tau(30f64.sqrt(), mu, 1e-8, 30), 1229.0);
}

/// Units of one group pass from 26 on, whatever others' groups, in place of 43 or 81; a unit in all
/// of 10 groups weighs 1 / sqrt(10): 81 of such are wanted as before.
#[test]
fn shared_presences_lower_the_threshold_for_units_of_few_groups() {
    let mu = mu_of(down(1.0), down(1e-6)).unwrap();
    for (groups, published) in [(1, 25.0), (3, 25.0), (10, 26.0)] {
        let (shared, whole) = (
            shared_tau(mu, 1e-8, groups),
            gaussian_tau(f64::from(groups).sqrt(), mu, 1e-8, groups),
        );
        assert_eq!(shared, published);
        assert!(
            shared * f64::from(groups).sqrt() <= whole + 1.5,
            "{groups}: {shared} of units in all groups, {whole} before"
        );
    }
}

/// The chance that a lone unit in `groups` groups has any of them shown, by float from the law
/// itself.
fn shown(tau: i128, presence: &Presence<'_>, calibrated: Calibrated, groups: u32) -> f64 {
    let added = presence.share(calibrated, groups).unwrap();
    let each = match calibrated.noise {
        Noise::Gaussian { sigma } => sf(((tau - added) as f64 - 0.5) / sigma as f64),
        Noise::Laplace { scale } => {
            (-((tau - added) as f64) / scale as f64).exp() / (1.0 + (-1.0 / scale as f64).exp())
        }
    };
    -(f64::from(groups) * (-each).ln_1p()).exp_m1()
}

#[test]
fn every_number_of_groups_stays_within_delta_and_one_reaches_it() {
    let weight = BigUint::from(1u8);
    for (clip, cap) in [(1u64, 1u32), (1, 5), (3, 40), (20, 2_000), (7, 100_000)] {
        let clip = BigUint::from(clip * GRID);
        for calibrated in [
            gaussian(&clip, &weight, Mu(1 << 27)).unwrap(),
            laplace(&clip, &weight, down(0.5)).unwrap(),
        ] {
            for height in [Height::Each(GRID), Height::Shared(GRID)] {
                let presence = Presence {
                    clip: &clip,
                    weight: &weight,
                    height,
                };
                let tau = threshold(&presence, calibrated, down(1e-11), cap).unwrap();
                let tried: Vec<f64> = (1..=cap.min(3000))
                    .chain([cap])
                    .map(|t| shown(tau, &presence, calibrated, t))
                    .collect();
                let worst = tried.iter().copied().fold(0.0, f64::max);
                assert!(
                    worst <= 1e-11 * (1.0 + 1e-9),
                    "{clip} {cap} {calibrated:?}: {worst:e}"
                );
                // Blocks waste at most a few per cent of a unit.
                assert!(
                    worst > 0.9e-11,
                    "{clip} {cap} {calibrated:?}: {worst:e} wastes delta"
                );
            }
        }
    }
}

#[test]
fn weights_of_one_group_would_break_delta_without_the_cap() {
    // A clip of one presence, mu .1, 1e5 groups against a threshold for one: delta 5e-7 in place of
    // 1e-11.
    let (clip, weight) = (BigUint::from(GRID), BigUint::from(1u8));
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Each(GRID),
    };
    let calibrated = gaussian(&clip, &weight, Mu::round_down(0.1)).unwrap();
    let careless = threshold(&presence, calibrated, down(1e-11), 1).unwrap();
    let leak = shown(careless, &presence, calibrated, 100_000);
    assert!((4.5e-7..5.5e-7).contains(&leak), "{leak:e}");
    let enforced = threshold(&presence, calibrated, down(1e-11), 100_000).unwrap();
    assert!(enforced > careless);
}

#[test]
fn out_of_range_is_refused() {
    let (clip, weight, zero) = (BigUint::from(4u8), BigUint::from(1u8), BigUint::ZERO);
    let calibrated = gaussian(&clip, &weight, Mu(1 << 30)).unwrap();
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Each(1),
    };
    let delta = down(1e-11);
    for wrong in [
        Presence {
            clip: &zero,
            ..presence
        },
        Presence {
            weight: &zero,
            ..presence
        },
        Presence {
            height: Height::Shared(0),
            ..presence
        },
    ] {
        assert_eq!(
            threshold(&wrong, calibrated, delta, 1),
            Err(ThresholdError::NotPositive)
        );
    }
    assert_eq!(
        threshold(&presence, calibrated, delta, 0),
        Err(ThresholdError::NotPositive)
    );
    assert_eq!(
        threshold(&presence, calibrated, Fixed::ZERO, 1),
        Err(ThresholdError::Delta)
    );
    assert_eq!(
        threshold(&presence, calibrated, Fixed(1 << 60), 1),
        Err(ThresholdError::Delta)
    );
    let huge = BigUint::from(1u8) << 200u32;
    let weight = BigUint::from(1u8) << 160u32;
    let calibrated = gaussian(&huge, &weight, Mu(1 << 30)).unwrap();
    let presence = Presence {
        clip: &huge,
        weight: &BigUint::from(1u8),
        height: Height::Each(u64::MAX),
    };
    // A height of 2^64 on a grid as fine as 2^128 has no threshold of 128 bits.
    assert!(threshold(&presence, calibrated, delta, 1).is_ok());
    let fine = gaussian(
        &BigUint::from(1u8),
        &(BigUint::from(1u8) << 70u32),
        Mu(1 << 30),
    )
    .unwrap();
    assert_eq!(
        threshold(&presence, fine, delta, 1),
        Err(ThresholdError::TooWide)
    );
}

#[test]
fn the_largest_cap_and_the_extremes_of_delta_end() {
    let (clip, weight) = (BigUint::from(GRID), BigUint::from(1u8));
    let presence = Presence {
        clip: &clip,
        weight: &weight,
        height: Height::Each(GRID),
    };
    for calibrated in [
        gaussian(&clip, &weight, Mu(1 << 30)).unwrap(),
        laplace(&clip, &weight, down(1.0)).unwrap(),
    ] {
        let strict = threshold(&presence, calibrated, Fixed(1), u32::MAX).unwrap();
        let loose = threshold(&presence, calibrated, Fixed((1 << 60) - 1), 1).unwrap();
        assert!(strict > loose && loose > presence.share(calibrated, 1).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    /// The share bounds every integer a clipped unit may add: t groups of v with t (F v)^2 <= C^2
    /// (L2), t F v <= C (L1).
    #[test]
    fn shares_bound_what_the_clip_lets_through(
        clip in 1u64..1 << 40,
        weight in 1u64..1 << 20,
        height in 1u64..1 << 30,
        groups in 1u32..10_000,
    ) {
        let (c, f) = (BigUint::from(clip), BigUint::from(weight));
        let presence = Presence { clip: &c, weight: &f, height: Height::Each(height) };
        let budget = u128::from(clip) * u128::from(clip);
        let each = u128::from(groups) * u128::from(weight) * u128::from(weight);
        let most = (budget / each).isqrt().min(u128::from(height));
        if let Ok(calibrated) = gaussian(&c, &f, Mu(1 << 30)) {
            let share = presence.share(calibrated, groups).unwrap();
        prop_assert!(share >= (most << calibrated.refine) as i128);
            // As the statement shares it: floor(sqrt(H^2 / t)), in whole numbers.
            let shared = Presence { height: Height::Shared(height), ..presence };
            let each = (u128::from(height).pow(2) / u128::from(groups)).isqrt();
            prop_assert!(each * each * u128::from(groups) <= u128::from(height).pow(2));
            let share = shared.share(calibrated, groups).unwrap();
        prop_assert!(share >= (most.min(each) << calibrated.refine) as i128);
        }
        let most = u128::from(clip) / (u128::from(groups) * u128::from(weight));
        let most = most.min(u128::from(height));
        if let Ok(calibrated) = laplace(&c, &f, down(1.0)) {
            let share = presence.share(calibrated, groups).unwrap();
        prop_assert!(share >= (most << calibrated.refine) as i128);
        }
    }
}
