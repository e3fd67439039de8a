//! The goals: how many counts a budget of (1, 1e-6) answers at a standard error.

use num_bigint::BigUint;

use crate::mechanism::*;

fn down(value: f64) -> Fixed {
    Fixed::round_down(value)
}

/// Asks for counts at one standard error, by the planner's rule and the filter, until one is
/// refused: (Laplace answers, Gaussian answers).
fn count_answers(error: f64, share: f64, accounting: Accounting) -> (u32, u32) {
    let cap = Cap::new(down(1.0), down(1e-6), down(share), accounting).unwrap();
    let one = BigUint::from(1u8);
    let mu = Mu::round_down(1.0 / error);
    let epsilon = Fixed::round_up(2f64.sqrt() / error);
    for calibrated in [
        gaussian(&one, &one, mu).unwrap(),
        laplace(&one, &one, epsilon).unwrap(),
    ] {
        let shown = calibrated.noise.standard_deviation() / 2f64.powi(calibrated.refine as i32);
        assert!(
            (shown / error - 1.0).abs() < 1e-5,
            "{calibrated:?} shows {shown}"
        );
    }
    let (pure, normal) = (loss_laplace(epsilon), loss_gaussian(mu));
    let (mut spent, mut counts) = (Loss::ZERO, (0, 0));
    loop {
        let mechanism = choose(
            &[AccountState { cap, spent }],
            &[LossByMechanism {
                laplace: pure,
                gaussian: normal,
            }],
        );
        let (next, count) = match mechanism {
            Mechanism::Laplace => (pure, &mut counts.0),
            Mechanism::Gaussian => (normal, &mut counts.1),
        };
        if !cap.admits(&spent, &next) {
            assert!(
                !cap.admits(&spent, &pure) && !cap.admits(&spent, &normal),
                "the other mechanism would still fit"
            );
            return counts;
        }
        *count += 1;
        spent = spent.compose(next).unwrap();
    }
}

#[test]
fn the_goals_are_reached_and_the_next_is_refused() {
    assert_eq!(count_answers(10.0, 0.005, Accounting::Gdp), (7, 0));
    assert_eq!(count_answers(14.0, 0.005, Accounting::Gdp), (0, 10));
    assert_eq!(count_answers(100.0, 0.005, Accounting::Gdp), (0, 560));
}

#[test]
fn a_larger_share_for_thresholds_costs_answers() {
    // A share of a tenth costs six counts.
    assert_eq!(count_answers(100.0, 0.1, Accounting::Gdp), (0, 554));
    assert_eq!(count_answers(10.0, 0.1, Accounting::Gdp), (7, 0));
    assert_eq!(count_answers(14.0, 0.1, Accounting::Gdp), (0, 10));
}

#[test]
fn the_other_accountings_answer_what_they_can() {
    assert_eq!(count_answers(10.0, 0.005, Accounting::Pure), (7, 0));
    assert_eq!(count_answers(100.0, 0.005, Accounting::Pure), (70, 0));
    // The zCDP column, 487, is for the whole of delta.
    assert_eq!(count_answers(100.0, 1e-6, Accounting::Zcdp), (0, 487));
    assert_eq!(count_answers(10.0, 0.005, Accounting::Zcdp), (7, 0));
}

#[test]
fn the_columns_of_the_table() {
    let (epsilon, delta) = (down(1.0), down(1e-6));
    let mu_squared = mu_of(epsilon, delta).unwrap().square().to_f64();
    let rho = rho_of(epsilon, delta).unwrap().to_f64();
    for (error, basic_laplace, zcdp, gdp) in [
        (10.0, 7.0, 4.0, 5.0),
        (14.0, 9.0, 9.0, 10.0),
        (20.0, 14.0, 19.0, 22.0),
        (30.0, 21.0, 43.0, 50.0),
        (50.0, 35.0, 121.0, 140.0),
        (100.0, 70.0, 487.0, 560.0),
        (300.0, 212.0, 4384.0, 5042.0),
        (1000.0, 707.0, 48711.0, 56028.0),
    ] {
        // The geometric mechanism's standard deviation 1 / (sqrt 2 sinh(epsilon / 2)), inverted.
        let each = 2.0 * (std::f64::consts::FRAC_1_SQRT_2 / error).asinh();
        assert_eq!((1.0 / each).floor(), basic_laplace, "Laplace at {error}");
        assert_eq!((2.0 * rho * error * error).floor(), zcdp, "zCDP at {error}");
        assert_eq!((mu_squared * error * error).floor(), gdp, "GDP at {error}");
    }
}

/// An (epsilon, delta)-private mechanism shows a count exactly with probability p at most, for some
/// count: a count k away shows the same answer with at least
/// e^(-epsilon k) p - delta / (e^epsilon - 1), and all of a count's answers add up to 1. At (1,
/// 1e-6) that is less than one half, so that the median error of a count is a row or more, whatever
/// the mechanism: the geometric law has that error and nearly that p.
#[test]
fn nobody_tells_a_count_exactly_every_other_time() {
    let (epsilon, delta, reach) = (1.0f64, 1e-6, 12);
    let near: f64 = (-reach..=reach)
        .map(|k: i32| (-epsilon * f64::from(k.abs())).exp())
        .sum();
    let most = (1.0 + f64::from(2 * reach + 1) * delta / (epsilon.exp() - 1.0)) / near;
    let geometric = (0.5 * epsilon).tanh();
    assert!(
        geometric <= most && most < geometric + 1e-4 && most < 0.5,
        "{most}"
    );
    // Laplace noise on a fine grid, rounded: off by a row or less nearly as often as by the
    // geometric law.
    let one = BigUint::from(1u8);
    let calibrated = laplace(&one, &one, down(1.0)).unwrap();
    let Noise::Laplace { scale } = calibrated.noise else {
        panic!("Laplace")
    };
    let within =
        |rows: f64| 1.0 - (-rows * 2f64.powi(calibrated.refine as i32) / scale as f64).exp();
    assert!(
        within(0.5) < 0.5 && within(1.5) > 0.77,
        "{} {}",
        within(0.5),
        within(1.5)
    );
}
