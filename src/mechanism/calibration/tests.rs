//! The inequality that privacy rests on, in exact integers; losses against closed forms and
//! published numbers.

use num_bigint::BigUint;
use num_traits::One;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::mechanism::calibration::*;
use crate::mechanism::{Fixed, Mu, gaussian, laplace, loss_gaussian, loss_laplace};

fn big(n: u128) -> BigUint {
    BigUint::from(n)
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual / expected - 1.0).abs() < tolerance,
        "{actual} is not {expected}"
    );
}

fn sigma_of(calibrated: Calibrated) -> u64 {
    match calibrated.noise {
        Noise::Gaussian { sigma } => sigma,
        Noise::Laplace { scale } => scale,
    }
}

#[test]
fn a_count_at_standard_error_ten() {
    let gaussian = gaussian(&big(1), &big(1), Mu::round_down(0.1)).unwrap();
    close(
        gaussian.noise.standard_deviation() / 2f64.powi(gaussian.refine as i32),
        10.0,
        1e-7,
    );
    assert!(
        sigma_of(gaussian) >= 1 << 30 && gaussian.refine == 27,
        "{gaussian:?}"
    );
    let laplace = laplace(&big(1), &big(1), Fixed::round_up(0.1 * 2f64.sqrt())).unwrap();
    close(
        laplace.noise.standard_deviation() / 2f64.powi(laplace.refine as i32),
        10.0,
        1e-6,
    );
}

#[test]
fn the_clip_scales_the_noise_and_the_weight_divides_it() {
    let plain = gaussian(&big(1 << 30), &big(1), Mu(1 << 30)).unwrap();
    assert_eq!((sigma_of(plain), plain.refine), (1 << 30, 0));
    let wide = gaussian(&big(1 << 40), &big(1), Mu(1 << 30)).unwrap();
    assert_eq!((sigma_of(wide), wide.refine), (1 << 40, 0));
    let weighted = gaussian(&big(1 << 40), &big(1 << 15), Mu(1 << 30)).unwrap();
    assert_eq!((sigma_of(weighted), weighted.refine), (1 << 30, 5));
}

#[test]
fn out_of_range_is_refused_not_bent() {
    let mu = Mu(1 << 30);
    assert_eq!(
        gaussian(&big(0), &big(1), mu),
        Err(CalibrationError::NotPositive)
    );
    assert_eq!(
        gaussian(&big(1), &big(0), mu),
        Err(CalibrationError::NotPositive)
    );
    assert_eq!(
        gaussian(&big(1), &big(1), Mu(0)),
        Err(CalibrationError::NotPositive)
    );
    assert_eq!(
        laplace(&big(1), &big(1), Fixed::ZERO),
        Err(CalibrationError::NotPositive)
    );
    assert_eq!(
        gaussian(&big(1 << 59), &big(1), mu),
        Err(CalibrationError::TooWide)
    );
    assert!(gaussian(&big((1 << 59) - 1), &big(1), mu).is_ok());
    assert_eq!(
        laplace(&big(1 << 59), &big(1), Fixed(1 << 60)),
        Err(CalibrationError::TooWide)
    );
    assert_eq!(
        gaussian(&big(1), &(BigUint::one() << 200u32), mu),
        Err(CalibrationError::TooNarrow)
    );
    assert_eq!(
        gaussian(&big(1), &(BigUint::one() << 10_000u32), mu),
        Err(CalibrationError::TooNarrow)
    );
    assert_eq!(
        gaussian(&(BigUint::one() << 10_000u32), &big(1), mu),
        Err(CalibrationError::TooWide)
    );
}

#[test]
fn gaussian_losses_are_exact() {
    let loss = loss_gaussian(Mu(3));
    assert_eq!(
        loss,
        Loss {
            epsilon: None,
            rho: Fixed(5),
            mu_squared: Fixed(9),
            delta: Fixed::ZERO
        }
    );
    let largest = loss_gaussian(Mu(u64::MAX));
    assert_eq!(largest.mu_squared.0, u128::from(u64::MAX).pow(2));
}

#[test]
fn pure_losses_have_the_published_values() {
    // Two Laplace counts at standard error 10 cost mu^2 = .0627; the discrete epsilon.
    let count = loss_laplace(Fixed::round_up(0.141304));
    close(2.0 * count.mu_squared.to_f64(), 0.0627, 1e-3);
    close(count.rho.to_f64(), 0.141304 * (0.070652f64).tanh(), 1e-10);
    // One pure epsilon of 3 costs mu^2 = 11.2.
    close(
        loss_laplace(Fixed::round_up(3.0)).mu_squared.to_f64(),
        11.2,
        5e-3,
    );
    // Small epsilons: mu is about sqrt(pi / 2) epsilon.
    let small = loss_laplace(Fixed::round_up(1e-4));
    close(
        small.mu_squared.to_f64(),
        std::f64::consts::FRAC_PI_2 * 1e-8,
        1e-6,
    );
    close(small.rho.to_f64(), 0.5e-8, 1e-6);
}

#[test]
fn pure_losses_never_panic_and_their_bounds_meet() {
    for exponent in 0..127 {
        let epsilon = Fixed(1 << exponent);
        let loss = loss_laplace(epsilon);
        assert_eq!(loss.epsilon, Some(epsilon));
        assert!(
            loss.mu_squared > Fixed::ZERO && loss.rho > Fixed::ZERO,
            "rounded up, never to nothing"
        );
    }
    assert_eq!(loss_laplace(Fixed(u128::MAX)).mu_squared, Fixed(u128::MAX));
    let below = loss_laplace(Fixed::round_up(599.9));
    let above = loss_laplace(Fixed::round_up(600.1));
    assert!(below.mu_squared < above.mu_squared && below.rho <= above.rho);
    close(below.mu_squared.to_f64(), 8.0 * 599.9, 5e-2);
    assert_eq!(
        loss_threshold(Fixed(7)),
        Loss {
            delta: Fixed(7),
            ..Loss::ZERO
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    /// Were the loss below the exact one anywhere, randomised response would break it: mu's own
    /// trade-off curve must lie below its kink.
    #[test]
    fn the_mu_of_a_pure_loss_covers_randomised_response(epsilon in 1e-6f64..30.0) {
        use crate::mechanism::normal::cdf;
        let mu = loss_laplace(Fixed::round_up(epsilon)).mu_squared.to_f64().sqrt();
        // The kink has both error rates at 1 / (1 + e^epsilon); the Gaussian's equal error rates
        // are cdf(-mu / 2).
        let kink = 1.0 / (1.0 + epsilon.exp());
        let ours = cdf(-mu / 2.0);
        prop_assert!(ours <= kink && ours > kink * (1.0 - 1e-8), "{ours} {kink}");
    }

    /// The Renyi divergence of randomised response, the worst pure mechanism, stays below alpha rho
    /// at every order.
    #[test]
    fn the_rho_of_a_pure_loss_covers_randomised_response(
        epsilon in 1e-3f64..20.0,
        log_order in -3.0f64..3.0,
    ) {
        let rho = loss_laplace(Fixed::round_up(epsilon)).rho.to_f64();
        let order = 1.0 + 10f64.powf(log_order);
        // p = 1 / (1 + e^-epsilon) against q = 1 - p; ln of p^a q^(1-a) + q^a p^(1-a), without
        // overflow.
        let (p, q) = (-(-epsilon).exp().ln_1p(), -epsilon - (-epsilon).exp().ln_1p());
        let (one, two) = (order * p + (1.0 - order) * q, order * q + (1.0 - order) * p);
        let divergence = (one.max(two) + (-(one - two).abs()).exp().ln_1p()) / (order - 1.0);
        prop_assert!(divergence <= order * rho * (1.0 + 1e-9) + 1e-11, "order {order}: \
            {divergence} \
            of {}", order * rho);
    }

    /// S >= 2^s C / (F mu), exactly; and S is the least such integer, s the least such refinement.
    #[test]
    fn gaussian_noise_covers_its_bound_exactly(
        clip in 1u128..,
        weight in 1u64..,
        shrink in 0u32..128,
        mu in 1u64..=(1 << 40),
    ) {
        let clip = big(clip) >> shrink.min(big(clip).bits() as u32 - 1);
        let weight = big(weight.into());
        if let Ok(calibrated) = gaussian(&clip, &weight, Mu(mu)) {
            let sigma = sigma_of(calibrated);
            let needed = &clip << (calibrated.refine + 30);
            let per_sigma = &weight * mu;
            prop_assert!(&per_sigma * sigma >= needed);
            prop_assert!(&per_sigma * (sigma - 1) < needed);
            prop_assert!((1 << 30..1 << 59).contains(&sigma));
            if calibrated.refine > 0 {
                prop_assert!(
            (&clip << (calibrated.refine + 29)) <= per_sigma * ((1u64 << 30) - 1),
            "a smaller refinement would do"
        );
            }
        }
    }

    #[test]
    fn laplace_noise_covers_its_bound_exactly(
        clip in 1u128..,
        weight in 1u64..,
        shrink in 0u32..128,
        epsilon in 1u128..(1 << 70),
    ) {
        let clip = big(clip) >> shrink.min(big(clip).bits() as u32 - 1);
        let weight = big(weight.into());
        if let Ok(calibrated) = laplace(&clip, &weight, Fixed(epsilon)) {
            let scale = sigma_of(calibrated);
            let needed = &clip << (calibrated.refine + 60);
            let per_scale = &weight * epsilon;
            prop_assert!(&per_scale * scale >= needed);
            prop_assert!(&per_scale * (scale - 1) < needed);
            prop_assert!((1 << 20..1 << 59).contains(&scale));
            if calibrated.refine > 0 {
                prop_assert!(
            (&clip << (calibrated.refine + 59)) <= per_scale * ((1u64 << 20) - 1),
            "a smaller refinement would do"
        );
            }
        }
    }

    /// The theorem itself: for any vector within the clip, sum (2^s v / S)^2 <= mu^2, in fractions
    /// without rounding.
    #[test]
    fn a_vector_within_the_clip_is_within_mu(
        weights in prop::collection::vec(1u64..1 << 30, 1..5),
        values in prop::collection::vec(0u64..1 << 20, 5),
        slack in 0u64..3,
        mu in (1u64 << 20)..(1 << 33),
    ) {
        let squares: BigUint = weights
            .iter()
            .zip(&values)
            .map(|(&f, &v)| big(u128::from(f) * u128::from(v)).pow(2))
            .sum();
        let root = squares.sqrt();
        let clip = if &root * &root == squares { root } else { root + 1u8 } + slack;
        let noises: Result<Vec<_>, _> =
            weights.iter().map(|&f| gaussian(&clip, &big(f.into()), Mu(mu))).collect();
        let Ok(noises) = noises else { return Ok(()) };
        // Common denominator: the product of all S^2.
        let denominator: BigUint = noises.iter().map(|n| big(sigma_of(*n).into()).pow(2)).product();
        let numerator: BigUint = noises.iter().zip(&values)
            .map(|(n, &v)| {
                let square = (big(v.into()) << n.refine).pow(2);
                square * (&denominator / big(sigma_of(*n).into()).pow(2))
            })
            .sum();
        prop_assert!(numerator << 60u32 <= denominator * Mu(mu).square().0);
    }
}
