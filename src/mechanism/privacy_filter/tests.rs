//! The filter never lets an account past both of its branches, nor past its deltas.

use num_bigint::BigUint;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::mechanism::conversion::{delta_of_mu, delta_of_rho};
use crate::mechanism::loss::Mu;
use crate::mechanism::privacy_filter::*;
use crate::mechanism::{loss_gaussian, loss_laplace, loss_threshold};

fn down(value: f64) -> Fixed {
    Fixed::round_down(value)
}

fn cap(accounting: Accounting) -> Cap {
    Cap::new(down(1.0), down(1e-6), down(0.005), accounting).unwrap()
}

fn spend(cap: &Cap, spent: &mut Loss, next: Loss) -> bool {
    let admitted = cap.admits(spent, &next);
    if admitted {
        *spent = spent.compose(next).unwrap();
    }
    admitted
}

#[test]
fn the_two_parts_of_delta_make_the_whole() {
    for accounting in [Accounting::Gdp, Accounting::Zcdp] {
        for (epsilon, delta, share) in [(1.0, 1e-6, 0.005), (0.1, 1e-9, 0.1), (8.0, 0.3, 0.9)] {
            let cap = Cap::new(down(epsilon), down(delta), down(share), accounting).unwrap();
            let slack = 1.0 + 1e-12;
            assert!(
                cap.delta().to_f64() + delta_of_mu(cap.mu_squared(), cap.epsilon()).to_f64()
                    <= delta * slack
            );
            assert!(
                cap.delta().to_f64() + delta_of_rho(cap.rho(), cap.epsilon()).to_f64()
                    <= delta * slack
            );
            assert!(cap.delta().to_f64() <= delta * share);
        }
    }
    let pure = Cap::new(down(1.0), Fixed::ZERO, down(0.005), Accounting::Pure).unwrap();
    assert_eq!(
        (pure.delta(), pure.mu_squared(), pure.rho()),
        (Fixed::ZERO, Fixed::ZERO, Fixed::ZERO)
    );
    assert_eq!(
        Cap::new(down(1.0), down(1e-9), down(0.005), Accounting::Pure)
            .unwrap()
            .delta(),
        down(1e-9)
    );
}

#[test]
fn budgets_out_of_range_are_refused() {
    let (one, half) = (down(1.0), down(0.5));
    let gdp = Accounting::Gdp;
    assert_eq!(
        Cap::new(Fixed::ZERO, half, half, gdp),
        Err(CapError::Epsilon)
    );
    assert_eq!(Cap::new(one, one, half, gdp), Err(CapError::Delta));
    assert_eq!(
        Cap::new(one, half, Fixed::ZERO, gdp),
        Err(CapError::ThresholdShare)
    );
    assert_eq!(Cap::new(one, half, one, gdp), Err(CapError::ThresholdShare));
    assert_eq!(
        Cap::new(one, Fixed::ZERO, half, gdp),
        Err(CapError::DeltaTooSmall)
    );
    assert_eq!(
        Cap::new(one, Fixed::ZERO, half, Accounting::Zcdp),
        Err(CapError::DeltaTooSmall)
    );
    assert_eq!(
        Cap::new(Fixed(1), Fixed(1), half, gdp),
        Err(CapError::DeltaTooSmall)
    );
}

#[test]
fn a_gaussian_closes_the_pure_branch_for_ever() {
    let gdp = cap(Accounting::Gdp);
    let mut spent = Loss::ZERO;
    assert!(spend(&gdp, &mut spent, loss_gaussian(Mu::round_down(0.01))));
    assert!(
        !gdp.admits(&spent, &loss_laplace(down(0.9))),
        "its mu^2 of 1.2 is past .056"
    );
    assert!(gdp.admits(&Loss::ZERO, &loss_laplace(down(0.9))));
    assert!(!cap(Accounting::Pure).admits(&Loss::ZERO, &loss_gaussian(Mu(1))));
}

#[test]
fn two_laplace_counts_close_the_gaussian_branch() {
    // .0627 > .0560.
    let gdp = cap(Accounting::Gdp);
    let mut spent = Loss::ZERO;
    for _ in 0..2 {
        assert!(spend(&gdp, &mut spent, loss_laplace(down(0.141304))));
    }
    assert!(!gdp.admits(&spent, &loss_gaussian(Mu(1))));
    assert!(gdp.admits(&spent, &loss_laplace(down(0.141304))));
}

#[test]
fn one_large_pure_answer_may_not_fit_a_total_that_others_use() {
    // A total (8, .9e-6) has mu^2 = 2.33; epsilon 3 costs 11.2.
    let total = Cap::new(down(8.0), down(1e-6), down(0.1), Accounting::Gdp).unwrap();
    assert!(
        (total.mu_squared().to_f64() - 2.33).abs() < 0.01,
        "{}",
        total.mu_squared().to_f64()
    );
    let other_role = loss_gaussian(Mu::round_down(0.1));
    assert!(total.admits(&Loss::ZERO, &loss_laplace(down(3.0))));
    assert!(!total.admits(&other_role, &loss_laplace(down(3.0))));
}

#[test]
fn thresholds_are_held_to_their_share_whatever_the_branch() {
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        let cap = cap(accounting);
        let mut spent = Loss::ZERO;
        // The release's delta is a parameter, rounded down; what is charged is that very number.
        let released = (0..1000)
            .take_while(|_| spend(&cap, &mut spent, loss_threshold(down(1e-11))))
            .count();
        // 0.5 % of 1e-6 is 500 keyed releases; without a Gaussian branch they have all of it.
        assert_eq!(
            released,
            if accounting == Accounting::Pure {
                1000
            } else {
                500
            }
        );
        assert!(
            cap.admits(&spent, &loss_laplace(down(0.5))),
            "a spent delta does not close the rest"
        );
    }
}

#[test]
fn nothing_costs_nothing_and_overflow_is_refused() {
    let gdp = cap(Accounting::Gdp);
    let full = Loss {
        epsilon: None,
        rho: Fixed(u128::MAX),
        mu_squared: Fixed(u128::MAX),
        delta: Fixed(u128::MAX),
    };
    assert!(gdp.admits(&full, &Loss::ZERO));
    assert!(!gdp.admits(&full, &loss_threshold(Fixed(1))));
    assert!(!gdp.admits(&full, &loss_gaussian(Mu(1))));
    assert!(!gdp.admits(
        &Loss {
            epsilon: Some(Fixed(u128::MAX)),
            ..Loss::ZERO
        },
        &loss_laplace(Fixed(1))
    ));
}

#[test]
fn a_budget_is_spent_to_its_last_unit() {
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        let cap = cap(accounting);
        let whole = Loss {
            epsilon: Some(cap.epsilon()),
            rho: Fixed(1 << 70),
            mu_squared: Fixed(1 << 70),
            delta: cap.delta(),
        };
        assert!(cap.admits(&Loss::ZERO, &whole));
        assert!(!cap.admits(
            &whole,
            &Loss {
                epsilon: Some(Fixed(1)),
                ..Loss::ZERO
            }
        ));
        assert!(!cap.admits(&whole, &loss_threshold(Fixed(1))));
    }
    let gdp = cap(Accounting::Gdp);
    let whole = Loss {
        epsilon: None,
        rho: Fixed(1 << 70),
        mu_squared: gdp.mu_squared(),
        delta: gdp.delta(),
    };
    assert!(gdp.admits(&Loss::ZERO, &whole));
    assert!(!gdp.admits(
        &whole,
        &Loss {
            mu_squared: Fixed(1),
            ..Loss::ZERO
        }
    ));
    let zcdp = cap(Accounting::Zcdp);
    let whole = Loss {
        epsilon: None,
        rho: zcdp.rho(),
        mu_squared: Fixed(1 << 70),
        delta: zcdp.delta(),
    };
    assert!(zcdp.admits(&Loss::ZERO, &whole));
    assert!(!zcdp.admits(
        &whole,
        &Loss {
            rho: Fixed(1),
            ..Loss::ZERO
        }
    ));
}

fn losses() -> impl Strategy<Value = Vec<Loss>> {
    let one = prop_oneof![
        (1e-4f64..0.6).prop_map(|epsilon| loss_laplace(Fixed::round_up(epsilon))),
        (1e-4f64..0.3).prop_map(|mu| loss_gaussian(Mu::round_down(mu))),
        (1e-12f64..4e-9).prop_map(|delta| loss_threshold(Fixed::round_up(delta))),
        any::<[u64; 4]>().prop_map(|[a, b, c, d]| Loss {
            epsilon: (a % 3 > 0).then_some(Fixed(u128::from(a >> 6))),
            rho: Fixed(u128::from(b >> 8)),
            mu_squared: Fixed(u128::from(c >> 8)),
            delta: Fixed(u128::from(d >> 40)),
        }),
    ];
    prop::collection::vec(one, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_261_121),
        ..ProptestConfig::default()
    })]

    /// Whatever the order, the sum of what was admitted, in unbounded integers, is inside one
    /// branch and inside the deltas.
    #[test]
    fn what_is_admitted_never_leaves_both_branches(losses in losses(), which in 0usize..3) {
        let accounting = [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure][which];
        let cap = cap(accounting);
        let mut spent = Loss::ZERO;
        let admitted: Vec<Loss> =
            losses.into_iter().filter(|&next| spend(&cap, &mut spent, next)).collect();
        let sum = |part: fn(&Loss) -> u128| -> BigUint {
            admitted.iter().map(|loss| BigUint::from(part(loss))).sum()
        };
        prop_assert!(sum(|l| l.delta.0) <= BigUint::from(cap.delta().0));
        let epsilon = sum(|l| l.epsilon.map_or(0, |e| e.0));
        let pure = admitted.iter().all(|l| l.epsilon.is_some())
            && epsilon <= BigUint::from(cap.epsilon().0);
        let other = match accounting {
            Accounting::Gdp => sum(|l| l.mu_squared.0) <= BigUint::from(cap.mu_squared().0),
            Accounting::Zcdp => sum(|l| l.rho.0) <= BigUint::from(cap.rho().0),
            Accounting::Pure => false,
        };
        prop_assert!(pure || other || admitted.is_empty());
    }

    /// A larger loss, or more spent, is never admitted where a smaller one is not: what the proof's
    /// "sums only grow" needs.
    #[test]
    fn admission_is_monotone(losses in losses(), more in 0u64..1 << 40) {
        let cap = cap(Accounting::Gdp);
        let mut spent = Loss::ZERO;
        for next in losses {
            let larger = Loss {
            mu_squared: Fixed(next.mu_squared.0 + u128::from(more)),
            epsilon: next.epsilon.map(|e| Fixed(e.0 + u128::from(more))),
            ..next
        };
            if !next.is_zero() && cap.admits(&spent, &larger) {
                prop_assert!(cap.admits(&spent, &next));
            }
            spend(&cap, &mut spent, next);
        }
    }
}

/// Every way of spending it ends within the number: of Gaussians, of Laplace noise at the same
/// error, of both.
#[test]
fn an_account_holds_no_more_questions_than_it_says() {
    for accounting in [Accounting::Gdp, Accounting::Zcdp, Accounting::Pure] {
        for least in [0.02, 0.1, 0.5] {
            let cap = cap(accounting);
            let most = cap.questions(down(least), down(1e-6));
            let mu = mu_of(down(least), down(1e-6)).unwrap();
            let gaussian = loss_gaussian(mu);
            let same_error = Fixed::round_up(2f64.sqrt() * mu.to_f64());
            let pure = loss_laplace(if accounting == Accounting::Pure {
                down(least)
            } else {
                same_error
            });
            let mut reached = 0;
            for (first, then) in [
                (gaussian, gaussian),
                (pure, pure),
                (pure, gaussian),
                (gaussian, pure),
            ] {
                let (mut spent, mut count) = (Loss::ZERO, 0);
                for next in [first, then] {
                    while spend(&cap, &mut spent, next) {
                        count += 1;
                    }
                }
                assert!(count <= most, "{accounting:?} {least}: {count} of {most}");
                reached = reached.max(count);
            }
            assert!(
                reached + 1 >= most,
                "{accounting:?} {least}: {reached} of {most}"
            );
        }
    }
}
