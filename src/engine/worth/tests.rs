//! How many answers an account holds.

use super::{ANSWERS_MAX, answers};
use crate::engine::notice::three_digits;
use crate::mechanism::{AccountState, Accounting, Cap, Fixed, Loss};

#[test]
fn three_digits_are_shown() {
    let shown = [947_588.2, 15.76, 0.031_27, 9.996, 0.0].map(three_digits);
    assert_eq!(shown, ["948000", "15.8", "0.0313", "10.00", "0"]);
}

/// A budget holds as many questions as are admitted one after the other, and not one more.
#[test]
fn a_budget_holds_what_it_admits() {
    let fixed = Fixed::round_down;
    let cap = Cap::new(fixed(3.0), fixed(1e-7), fixed(0.005), Accounting::Gdp).unwrap();
    let loss = |epsilon: Option<f64>, mu_squared: f64| Loss {
        epsilon: epsilon.map(fixed),
        rho: fixed(mu_squared / 2.0),
        mu_squared: fixed(mu_squared),
        delta: Fixed::ZERO,
    };
    for next in [
        loss(None, 0.01),
        loss(None, 0.0037),
        loss(Some(0.25), 0.02),
        loss(Some(0.1), 0.0001),
        loss(None, 5.0),
    ] {
        for before in [Loss::ZERO, loss(None, 0.11), loss(Some(1.0), 0.3)] {
            let (mut spent, mut one_by_one) = (before, 0);
            while cap.admits(&spent, &next) {
                spent = spent.compose(next).unwrap();
                one_by_one += 1;
            }
            let account = AccountState { cap, spent: before };
            assert_eq!(answers(&account, next), one_by_one, "{next:?} {before:?}");
        }
    }
    let account = AccountState {
        cap,
        spent: Loss::ZERO,
    };
    assert_eq!(answers(&account, loss(None, 1e-12)), ANSWERS_MAX);
}
