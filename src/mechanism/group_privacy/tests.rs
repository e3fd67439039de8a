//! Group privacy against its reference values, and against chances that are computed by hand.

use num_bigint::BigUint;

use super::*;
use crate::mechanism::normal::cdf;
use crate::mechanism::{
    Height, Mechanism, Mu, Presence, gaussian, laplace, loss_gaussian, loss_laplace,
    loss_threshold, mu_of, threshold,
};

fn down(value: f64) -> Fixed {
    Fixed::round_down(value)
}

fn cap(accounting: Accounting) -> Cap {
    Cap::new(down(1.0), down(1e-6), down(0.005), accounting).unwrap()
}

/// mu of the whole budget (1, 1e-6), in one release without keys.
fn whole() -> Loss {
    loss_gaussian(mu_of(down(1.0), down(1e-6)).unwrap())
}

fn of_whole(units: u32) -> Meaning {
    Meaning::of_books(&whole(), &[], down(1e-6), units)
}

fn close(actual: f64, expected: f64, tolerance: f64) {
    assert!(
        (actual - expected).abs() < tolerance,
        "{actual} is not {expected}"
    );
}

#[test]
fn groups_have_the_reference_epsilons() {
    for (units, epsilon) in [(1, 1.0), (2, 2.123), (4, 4.592), (10, 13.507)] {
        let meaning = of_whole(units);
        close(meaning.epsilon_at_delta.unwrap(), epsilon, 5e-4);
        close(meaning.mu.unwrap(), 0.236_704_38 * f64::from(units), 1e-6);
        assert_eq!(meaning.epsilon, None);
    }
}

#[test]
fn the_best_test_has_the_reference_power() {
    for (units, power) in [(1, 0.080), (2, 0.121), (4, 0.243), (10, 0.765)] {
        close(of_whole(units).power, power, 5e-4);
    }
}

/// Among all intervals and their complements, the best test of N(0, 1) against N(mu, 1) at a level
/// is the one of `power`.
#[test]
fn no_test_of_a_gaussian_pair_has_more_power() {
    for units in [1, 3, 10] {
        let meaning = of_whole(units);
        let mu = meaning.mu.unwrap();
        let mut best = 0.0f64;
        for step in 0..=1000 {
            // Reject outside [a, b], where both tails together have the level.
            let low = FALSE_ALARMS * f64::from(step) / 1000.0;
            let (a, b) = (-isf(low), isf(FALSE_ALARMS - low));
            best = best.max(cdf(a - mu) + sf(b - mu));
        }
        close(best, meaning.power, 1e-9);
    }
}

#[test]
fn nothing_spent_means_nothing() {
    for units in UNITS {
        let meaning = Meaning::of_books(&Loss::ZERO, &[], down(1e-6), units);
        assert_eq!(meaning.power, FALSE_ALARMS);
        assert_eq!(
            (meaning.epsilon_at_delta, meaning.odds()),
            (Some(0.0), Some(1.0))
        );
        assert_eq!((meaning.delta, meaning.mu), (0.0, Some(0.0)));
        close(meaning.posterior(0.01), 0.01, 1e-15);
    }
}

/// For one unit, a budget means what the owner wrote.
#[test]
fn a_budget_of_one_unit_is_the_budget() {
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        let meaning = Meaning::of_budget(&cap(accounting), 1);
        close(meaning.epsilon_at_delta.unwrap(), 1.0, 1e-9);
        assert!(meaning.delta <= 1e-6 * (1.0 + 1e-7), "{meaning:?}");
        assert_eq!(meaning.epsilon.is_some(), accounting == Accounting::Pure);
        // Pure answers may spend it too: their best test is better than the Gaussian one.
        close(meaning.power, std::f64::consts::E * FALSE_ALARMS, 2e-6);
        close(meaning.posterior(0.5), 0.731_06, 1e-5);
        close(meaning.posterior(0.01), 0.026_7, 1e-4);
    }
}

#[test]
fn more_units_are_protected_less() {
    let keyed = loss_gaussian(Mu::round_down(0.1))
        .compose(loss_threshold(down(1e-11)))
        .unwrap();
    let spent = keyed.compose(whole()).unwrap();
    let of: [&dyn Fn(u32) -> Meaning; 4] = [
        &|units| Meaning::of_budget(&cap(Accounting::Gdp), units),
        &|units| Meaning::of_budget(&cap(Accounting::Zcdp), units),
        &|units| Meaning::of_budget(&cap(Accounting::Pure), units),
        &|units| Meaning::of_books(&spent, &[keyed], down(1e-6), units),
    ];
    for of in of {
        for pair in UNITS.windows(2) {
            let (fewer, more) = (of(pair[0]), of(pair[1]));
            let known = |meaning: &Meaning| meaning.epsilon_at_delta.unwrap_or(f64::INFINITY);
            assert!(known(&fewer) <= known(&more), "{fewer:?} {more:?}");
            assert!(fewer.delta <= more.delta && fewer.power <= more.power);
            assert!(fewer.posterior(0.5) <= more.posterior(0.5));
        }
    }
}

/// Both ways to spend an account count: the Gaussian one is the weaker from two units on.
#[test]
fn a_budget_shows_its_weaker_branch() {
    let of = |units| Meaning::of_budget(&cap(Accounting::Gdp), units);
    assert!(of(2).epsilon_at_delta.unwrap() > 2.12 && of(10).epsilon_at_delta.unwrap() > 13.5);
    // Where delta is large, the Gaussian's epsilon is smaller than the sum.
    let wide = Cap::new(down(1.0), down(0.3), down(0.005), Accounting::Gdp).unwrap();
    let two = Meaning::of_budget(&wide, 2);
    assert!(two.epsilon_at_delta.unwrap() >= 2.0, "{two:?}");
}

/// The chance that units who are alone in a group show it, by the exact law of the noise.
#[test]
fn groups_of_several_units_pass_thresholds() {
    let delta = down(1e-11);
    let one = BigUint::from(1u8);
    let mu = mu_of(down(0.5), down(1e-6)).unwrap();
    let noises = [
        (gaussian(&one, &one, mu).unwrap(), loss_gaussian(mu)),
        (
            laplace(&one, &one, down(0.5)).unwrap(),
            loss_laplace(down(0.5)),
        ),
    ];
    for ((calibrated, loss), most) in noises.into_iter().flat_map(|one| [(one, 1), (one, 4)]) {
        let presence = Presence {
            clip: &one,
            weight: &one,
            height: Height::Each(1),
        };
        let pass_at = threshold(&presence, calibrated, delta, most).unwrap();
        let loss = loss.compose(loss_threshold(delta)).unwrap();
        let (mechanism, scale) = calibrated.noise.law();
        let scale = scale as f64;
        let step = (1u64 << calibrated.refine) as f64;
        for units in UNITS {
            let mut highest = 0.0f64;
            for groups in 1..=most {
                // Each unit is shared out among its groups.
                let share = match mechanism {
                    Mechanism::Gaussian => step / f64::from(groups).sqrt(),
                    Mechanism::Laplace => step / f64::from(groups),
                };
                let missing = pass_at as f64 - f64::from(units) * share.floor();
                let passes = match mechanism {
                    Mechanism::Gaussian => sf((missing - 0.5) / scale),
                    Mechanism::Laplace if missing > 0.0 => {
                        (-missing / scale).exp() / (1.0 + (-1.0 / scale).exp())
                    }
                    Mechanism::Laplace => 0.5,
                };
                highest = highest.max(-(f64::from(groups) * (-passes).ln_1p()).exp_m1());
            }
            let meaning = Meaning::of_books(&loss, &[loss], Fixed::ZERO, units);
            assert!(
                meaning.delta >= highest * (1.0 - 1e-9),
                "{units}: {} is below {highest}",
                meaning.delta
            );
            // It is no idle bound.
            assert!(
                meaning.delta <= 1.0f64.min(10.0 * highest),
                "{units}: {highest}"
            );
            if mechanism == Mechanism::Gaussian && units == 20 {
                assert!(meaning.delta >= 6.9e-6, "{}", meaning.delta);
                assert!(most > 1 || highest > 6e-6, "{highest}");
            }
        }
    }
}

/// Parts of the books that are not known one by one are taken for the worst that they can be.
#[test]
fn unknown_parts_weaken_the_statement() {
    let keyed = |mu: f64| {
        let noise = loss_gaussian(Mu::round_down(mu));
        noise.compose(loss_threshold(down(1e-11))).unwrap()
    };
    let (first, second) = (keyed(0.1), keyed(0.2));
    let spent = first.compose(second).unwrap();
    let with = |keyed: &[Loss]| Meaning::of_books(&spent, keyed, Fixed::ZERO, 20).delta;
    assert!(with(&[first, second]) < with(&[first]) && with(&[first]) < with(&[]));
    assert!(with(&[first, second]) > with(&[]) * 1e-3);
}

#[test]
fn periods_add_up() {
    for accounting in [Accounting::Gdp, Accounting::Pure] {
        let year = Meaning::of_periods(&cap(accounting), 12);
        close(year.epsilon_at_delta.unwrap(), 12.0, 1e-7);
        let one = Meaning::of_budget(&cap(accounting), 1).delta;
        assert!(one > 0.0 && (year.delta / one - 12.0).abs() < 1e-9);
        assert!(year.delta <= 12.001e-6, "{}", year.delta);
        assert_eq!(year.mu, None);
    }
}
