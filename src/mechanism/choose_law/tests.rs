//! The rule of choice, its figures, and its edges.

use crate::mechanism::choose_law::*;
use crate::mechanism::loss::Mu;
use crate::mechanism::{loss_gaussian, loss_laplace, loss_threshold};

fn account_state(epsilon: f64, accounting: Accounting, spent: Loss) -> AccountState {
    let down = Fixed::round_down;
    AccountState {
        cap: Cap::new(down(epsilon), down(1e-6), down(0.005), accounting).unwrap(),
        spent,
    }
}

/// The two losses of a count at this standard error.
fn count(error: f64) -> (Loss, Loss) {
    (
        loss_laplace(Fixed::round_up(2f64.sqrt() / error)),
        loss_gaussian(Mu::round_down(1.0 / error)),
    )
}

fn chosen(accounts: &[AccountState], error: f64) -> Mechanism {
    let (laplace, gaussian) = count(error);
    choose(accounts, &[LossByMechanism { laplace, gaussian }])
}

#[test]
fn the_figures_of_the_rule() {
    let fresh = [account_state(1.0, Accounting::Gdp, Loss::ZERO)];
    assert_eq!(chosen(&fresh, 10.0), Mechanism::Laplace);
    assert_eq!(chosen(&fresh, 14.0), Mechanism::Gaussian);
    assert_eq!(chosen(&fresh, 100.0), Mechanism::Gaussian);
    // zCDP has the smaller Gaussian budget: Laplace holds out a little longer.
    assert_eq!(
        chosen(&[account_state(1.0, Accounting::Zcdp, Loss::ZERO)], 14.0),
        Mechanism::Laplace
    );
    assert_eq!(
        chosen(&[account_state(1.0, Accounting::Zcdp, Loss::ZERO)], 20.0),
        Mechanism::Gaussian
    );
}

#[test]
fn every_account_must_agree() {
    let role = account_state(1.0, Accounting::Gdp, Loss::ZERO);
    let rich = account_state(50.0, Accounting::Gdp, Loss::ZERO);
    assert_eq!(chosen(&[role, role], 10.0), Mechanism::Laplace);
    // Of a large total one count is a smaller share by mu^2 than by epsilon.
    assert_eq!(chosen(&[role, rich], 10.0), Mechanism::Gaussian);
    assert_eq!(chosen(&[rich, role], 10.0), Mechanism::Gaussian);
}

#[test]
fn a_closed_or_exhausted_pure_branch_takes_gaussian() {
    let after_gaussian = account_state(1.0, Accounting::Gdp, loss_gaussian(Mu(1)));
    assert_eq!(chosen(&[after_gaussian], 10.0), Mechanism::Gaussian);
    let nearly_out = Loss {
        epsilon: Some(Fixed::round_down(0.95)),
        ..Loss::ZERO
    };
    assert_eq!(
        chosen(&[account_state(1.0, Accounting::Gdp, nearly_out)], 10.0),
        Mechanism::Gaussian
    );
    let keys_only = account_state(1.0, Accounting::Gdp, loss_threshold(Fixed(1)));
    assert_eq!(chosen(&[keys_only], 10.0), Mechanism::Laplace);
}

#[test]
fn a_pure_account_takes_laplace_only() {
    let pure = account_state(1.0, Accounting::Pure, Loss::ZERO);
    let gdp = account_state(50.0, Accounting::Gdp, loss_gaussian(Mu(1)));
    assert_eq!(chosen(&[pure], 100.0), Mechanism::Laplace);
    assert_eq!(chosen(&[gdp, pure], 100.0), Mechanism::Laplace);
}

#[test]
fn ties_go_to_the_gaussian_and_a_mechanism_without_epsilon_never_counts_as_pure() {
    let account = account_state(1.0, Accounting::Gdp, Loss::ZERO);
    // Both use the whole budget.
    let laplace = Loss {
        epsilon: Some(account.cap.epsilon()),
        ..Loss::ZERO
    };
    let gaussian = Loss {
        epsilon: None,
        mu_squared: account.cap.mu_squared(),
        ..Loss::ZERO
    };
    assert_eq!(
        choose(&[account], &[LossByMechanism { laplace, gaussian }]),
        Mechanism::Gaussian
    );
    assert_eq!(
        choose(
            &[account],
            &[LossByMechanism {
                laplace: gaussian,
                gaussian
            }]
        ),
        Mechanism::Gaussian
    );
}

#[test]
fn releases_of_a_statement_take_one_noise() {
    let account = account_state(1.0, Accounting::Gdp, Loss::ZERO);
    let of = |error| {
        let (laplace, gaussian) = count(error);
        LossByMechanism { laplace, gaussian }
    };
    let chosen = |releases: &[LossByMechanism]| choose(&[account], releases);
    assert_eq!(chosen(&[of(10.0), of(10.0)]), Mechanism::Laplace);
    // One that prefers a Gaussian decides for its sibling, which alone would not take it.
    assert_eq!(
        (chosen(&[of(10.0)]), chosen(&[of(14.0)])),
        (Mechanism::Laplace, Mechanism::Gaussian)
    );
    assert_eq!(chosen(&[of(10.0), of(14.0)]), Mechanism::Gaussian);
    assert_eq!(chosen(&[of(14.0), of(10.0)]), Mechanism::Gaussian);
    // Each epsilon fits, their sum does not: eight counts of 0.141.
    assert_eq!(chosen(&[of(10.0); 7]), Mechanism::Laplace);
    assert_eq!(chosen(&[of(10.0); 8]), Mechanism::Gaussian);
}

#[test]
fn a_release_without_choice_counts_in_the_sum_alone() {
    let account = account_state(1.0, Accounting::Gdp, Loss::ZERO);
    let (laplace, gaussian) = count(10.0);
    let count = LossByMechanism { laplace, gaussian };
    // As an exponential mechanism's loss. Alone it would be counted by mu^2.
    let drawn = |epsilon: f64, mu_squared: f64| {
        let loss = Loss {
            epsilon: Some(Fixed::round_up(epsilon)),
            mu_squared: Fixed::round_up(mu_squared),
            ..Loss::ZERO
        };
        LossByMechanism {
            laplace: loss,
            gaussian: loss,
        }
    };
    assert_eq!(
        choose(&[account], &[count, drawn(0.01, 1e-4)]),
        Mechanism::Laplace
    );
    assert_eq!(
        choose(&[account], &[count, drawn(0.5, 1e-4)]),
        Mechanism::Gaussian
    );
    assert_eq!(
        choose(&[account], &[count, drawn(0.9, 1.0)]),
        Mechanism::Gaussian
    );
}
