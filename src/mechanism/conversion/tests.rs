//! Against reference values (two independent accountants, to every digit shown), and against
//! themselves for direction of rounding.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::mechanism::conversion::*;

/// Agrees to `digits` decimal places as printed.
fn shows(actual: f64, expected: f64, digits: i32) {
    assert!(
        (actual - expected).abs() <= 0.51 * 10f64.powi(-digits),
        "{actual} does not show as {expected}"
    );
}

fn up(value: f64) -> Fixed {
    Fixed::round_up(value)
}

fn down(value: f64) -> Fixed {
    Fixed::round_down(value)
}

/// More questions than are kept, twice: each has the result of its search.
#[test]
fn a_mu_that_is_kept_is_that_of_its_question() {
    for _ in 0..2 {
        for step in 1..=2 * FOUND_MAX {
            let epsilon = Fixed::round_down(step as f64 / 8.0);
            for delta in [1e-6, 1e-9].map(Fixed::round_down) {
                assert_eq!(mu_of(epsilon, delta), search_mu(epsilon, delta), "{step}");
            }
        }
    }
}

#[test]
fn budgets_translate_as_published() {
    for (epsilon, delta, rho, mu, half) in [
        (1.0, 1e-6, 0.02435597, 0.23670438, 0.02801448),
        (1.0, 1e-5, 0.03055660, 0.26805112, 0.03592570),
        (1.0, 1e-9, 0.01497306, 0.18197481, 0.01655742),
        (0.1, 1e-6, 0.00032105, 0.02754465, 0.00037935),
        (3.0, 1e-6, 0.18506984, 0.64772653, 0.20977483),
        (10.0, 1e-6, 1.53927876, 1.84813221, 1.70779632),
    ] {
        let found = mu_of(down(epsilon), down(delta)).unwrap();
        shows(found.to_f64(), mu, 8);
        shows(found.square().to_f64() / 2.0, half, 8);
        shows(rho_of(down(epsilon), down(delta)).unwrap().to_f64(), rho, 8);
    }
}

#[test]
fn epsilons_translate_as_published() {
    let delta = down(1e-6);
    for (mu_squared, gdp, zcdp) in [
        (1.0 / (4.5 * 4.5), 0.93424583, 1.00735030),
        (5.0 / 100.0, 0.94051553, 1.01407425),
        (100.0 / 2500.0, 0.83411755, 0.89993527),
        (487.0 / 10_000.0, 0.92726995, 0.99986874),
    ] {
        shows(
            epsilon_of_mu(up(mu_squared), delta).unwrap().to_f64(),
            gdp,
            8,
        );
        shows(
            epsilon_of_rho(up(mu_squared / 2.0), delta)
                .unwrap()
                .to_f64(),
            zcdp,
            8,
        );
    }
    for (rho, epsilon) in [
        (0.001, 0.18289538),
        (0.01, 0.62169265),
        (0.1, 2.14193893),
        (0.5, 5.22153444),
        (1.0, 7.76621663),
    ] {
        shows(epsilon_of_rho(up(rho), delta).unwrap().to_f64(), epsilon, 8);
    }
    // opendp 0.16: 5.22153444453017 at rho 1/2, and delta 9.999998e-7 at the rho of (1, 1e-6).
    shows(
        epsilon_of_rho(up(0.5), delta).unwrap().to_f64(),
        5.22153444453017,
        10,
    );
    shows(
        delta_of_rho(up(0.02435597), down(1.0)).to_f64() * 1e7,
        9.999998,
        6,
    );
}

#[test]
fn deltas_of_known_pairs() {
    // Unit variance at epsilon 0: total variation 2 Phi(1/2) - 1.
    shows(
        delta_of_mu(up(1.0), Fixed::ZERO).to_f64(),
        0.382_924_922_548_026,
        12,
    );
    assert_eq!(delta_of_mu(Fixed::ZERO, up(1.0)), Fixed::ZERO);
    assert_eq!(delta_of_rho(Fixed::ZERO, up(1.0)), Fixed::ZERO);
    assert!(delta_of_mu(up(1e6), Fixed::ZERO).to_f64() > 0.999_999);
}

#[test]
fn nothing_fits_a_delta_of_zero() {
    assert_eq!(mu_of(up(1.0), Fixed::ZERO), None);
    assert_eq!(rho_of(up(1.0), Fixed::ZERO), None);
    assert_eq!(epsilon_of_mu(Fixed(1), Fixed::ZERO), None);
    assert_eq!(epsilon_of_rho(Fixed(1), Fixed::ZERO), None);
    assert_eq!(epsilon_of_mu(Fixed::ZERO, Fixed::ZERO), Some(Fixed::ZERO));
    assert_eq!(epsilon_of_rho(Fixed::ZERO, Fixed::ZERO), Some(Fixed::ZERO));
}

#[test]
fn extremes_end_and_do_not_panic() {
    for exponent in 0..128 {
        let any = Fixed(1 << exponent);
        for other in [
            Fixed(1),
            Fixed(1 << 30),
            Fixed(1 << 59),
            Fixed(1 << 60),
            Fixed(u128::MAX),
        ] {
            assert!(delta_of_mu(any, other).to_f64() <= 1.0);
            assert!(delta_of_rho(any, other).to_f64() <= 1.0);
        }
    }
    let _ = (
        epsilon_of_mu(Fixed(u128::MAX), down(1e-6)),
        epsilon_of_rho(Fixed(u128::MAX), down(1e-6)),
    );
    let _ = (
        mu_of(Fixed(1), Fixed(1)),
        rho_of(Fixed(1), Fixed(1)),
        mu_of(up(1e17), down(0.9)),
        rho_of(up(1e17), down(0.9)),
    );
}

/// Simpson's rule on the hockey-stick integral of N(mu, 1) against N(0, 1): shares nothing with the
/// closed form.
fn delta_by_integral(mu: f64, epsilon: f64) -> f64 {
    let gap = |x: f64| {
        ((-0.5 * (x - mu) * (x - mu)).exp() - (epsilon - 0.5 * x * x).exp())
            / (2.0 * std::f64::consts::PI).sqrt()
    };
    let (from, cells) = (epsilon / mu + 0.5 * mu, 20_000);
    let step = (mu + 14.0 - from.min(mu)) / f64::from(cells);
    (0..cells)
        .map(|i| from + f64::from(i) * step)
        .map(|x| (gap(x) + 4.0 * gap(x + 0.5 * step) + gap(x + step)) * step / 6.0)
        .sum()
}

#[test]
fn gaussian_deltas_agree_with_the_integral() {
    for (mu, epsilon) in [
        (0.2367, 1.0),
        (0.5, 1.0),
        (1.0, 0.5),
        (2.0, 3.0),
        (0.1, 0.1),
    ] {
        let (ours, integral) = (
            delta_of_mu_bound(mu, epsilon),
            delta_by_integral(mu, epsilon),
        );
        assert!(
            (ours / integral - 1.0).abs() < 1e-7,
            "mu {mu} epsilon {epsilon}: {ours} {integral}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    /// A value that fits also fits when computed forward; one unit more does not.
    #[test]
    fn budgets_are_rounded_down(epsilon in 0.001f64..20.0, exponent in -12.0f64..-1.0) {
        let (epsilon, delta) = (down(epsilon), down(10f64.powf(exponent)));
        let mu = mu_of(epsilon, delta).unwrap();
        prop_assert!(delta_of_mu(mu.square(), epsilon).to_f64() <= delta.to_f64() * (1.0 + 1e-12));
        prop_assert!(delta_of_mu(Mu(mu.0 + 1 + mu.0 / 1_000_000).square(), epsilon) > delta);
        let rho = rho_of(epsilon, delta).unwrap();
        prop_assert!(delta_of_rho(rho, epsilon).to_f64() <= delta.to_f64() * (1.0 + 1e-12));
        prop_assert!(delta_of_rho(Fixed(rho.0 + 1 + rho.0 / 1_000_000), epsilon) > delta);
        // zCDP forgets more of a Gaussian than GDP does.
        prop_assert!(rho.0 <= mu.square().0 / 2);
    }

    #[test]
    fn displayed_epsilons_are_rounded_up(mu in 0.001f64..3.0, exponent in -12.0f64..-1.0) {
        let (spent, delta) = (up(mu * mu), down(10f64.powf(exponent)));
        let gdp = epsilon_of_mu(spent, delta).unwrap();
        prop_assert!(delta_of_mu(spent, gdp).to_f64() <= delta.to_f64() * (1.0 + 1e-12));
        let zcdp = epsilon_of_rho(Fixed(spent.0.div_ceil(2)), delta).unwrap();
        prop_assert!(gdp <= zcdp);
    }

    #[test]
    fn deltas_are_monotone_and_ordered(mu in 0.01f64..5.0, epsilon in 0.0f64..10.0) {
        prop_assert!(delta_of_mu_bound(mu, epsilon) <= delta_of_mu_bound(mu * 1.001, epsilon));
        let further = delta_of_mu_bound(mu, epsilon * 1.001 + 1e-6);
        prop_assert!(further <= delta_of_mu_bound(mu, epsilon));
        prop_assert!(delta_of_rho_bound(mu, epsilon) <= delta_of_rho_bound(mu * 1.001, epsilon));
        // CKS: the simple bound rho + 2 sqrt(rho ln(1 / delta)) is never better.
        let rho = mu * mu / 2.0;
        let simple = match epsilon > rho {
            true => (-(epsilon - rho).powi(2) / (4.0 * rho)).exp(),
            false => 1.0,
        };
        prop_assert!(delta_of_rho_bound(rho, epsilon) <= simple * (1.0 + 1e-9) + 1e-280);
        let of_rho = delta_of_rho_bound(rho, epsilon);
        prop_assert!(delta_of_mu_bound(mu, epsilon) <= of_rho * (1.0 + 1e-9) + 1e-280);
    }
}
