//! The text of a refusal for lack of budget: the query's need, the budget left, and what can be
//! done.

use super::balance::{Balance, ratio};
use crate::mechanism::{Accounting, Fixed, Loss};
use crate::refusal::{Reason, Refusal, reason};

const REMEDY: &str = "Nothing was charged. A lower pgveil.epsilon makes a query cheaper; a larger \
    budget is the data owner's to give.";

/// The role's own account does not admit the loss. One line names the currency that is nearest to
/// fitting; the detail names the other.
pub(super) fn refuse_exhausted(needs: &Loss, balance: &Balance) -> Refusal {
    let refusal = nearest(needs, balance);
    match balance.renewal_date() {
        Some(date) => refusal.hint(format!("The budget is renewed on {date} (UTC).")),
        None => refusal,
    }
}

fn nearest(needs: &Loss, balance: &Balance) -> Refusal {
    if needs.delta > balance.delta_left() {
        return refusal(
            reason::BUDGET_EXHAUSTED,
            format!(
                "privacy budget exhausted: this query needs delta {} and {} is left",
                needed_text(needs.delta),
                remaining(balance.delta_left())
            ),
            "Delta pays for group keys that are shown by threshold. Nothing was charged. Group by \
                a \
                column whose values the policy lists, which needs no delta.",
        );
    }
    let pure = needs.epsilon.map(|epsilon| in_epsilon(epsilon, balance));
    let gaussian = match balance.cap.accounting() {
        Accounting::Gdp => Some(in_mu(needs.mu_squared, balance)),
        Accounting::Zcdp => Some(in_rho(needs.rho, balance)),
        Accounting::Pure => None,
    };
    match (pure, gaussian) {
        (Some(pure), Some(gaussian)) if balance.pure_open() => refusal(
            reason::BUDGET_EXHAUSTED,
            format!("privacy budget exhausted: {pure}"),
            &format!("Counted together with Gaussian noise, {gaussian}. {REMEDY}"),
        ),
        (Some(_), Some(gaussian)) => refusal(
            reason::BUDGET_EXHAUSTED,
            format!("privacy budget exhausted: {gaussian}"),
            &format!(
                "Epsilons alone no longer count, since an earlier query used Gaussian noise or \
                    they \
                    are spent. {REMEDY}"
            ),
        ),
        (Some(pure), None) => refusal(
            reason::BUDGET_EXHAUSTED,
            format!("privacy budget exhausted: {pure}"),
            REMEDY,
        ),
        (None, Some(gaussian)) => refusal(
            reason::BUDGET_EXHAUSTED,
            format!("privacy budget exhausted: {gaussian}"),
            REMEDY,
        ),
        (None, None) => refusal(
            reason::PURE_ACCOUNTING,
            "privacy budget does not allow Gaussian noise: accounting is pure".to_owned(),
            "Nothing was charged. The data owner's policy admits only queries with a pure epsilon.",
        ),
    }
}

/// The owner's total does not cover the query. The role learns nothing more.
pub(super) fn total_exhausted() -> Refusal {
    refusal(
        reason::TOTAL_EXHAUSTED,
        "privacy budget exhausted: the total over all roles does not cover this query".to_owned(),
        "Nothing was charged, and the role's own budget is as it was. Until the data owner raises \
            the total or lets the role ask again, it is refused whatever it would \
         pay for. Answers that it has paid for are still shown.",
    )
}

/// Nothing more is charged to this role until the owner acts.
pub(super) fn refuse_closed() -> Refusal {
    refusal(
            reason::TOTAL_EXHAUSTED,
        "privacy budget exhausted: the total over all roles did not cover an earlier query of this \
            role".to_owned(),
        "Nothing was charged. Answers that the role has paid for are still shown. The data owner \
            can raise the total, or let the role ask again.",
    )
}

/// The owner has frozen the account.
pub(super) fn frozen() -> Refusal {
    refusal(
        reason::BUDGET_FROZEN,
        "the privacy budget is frozen".to_owned(),
        "Nothing was charged. Answers that the role has paid for are still shown. The data owner \
            froze the account and can unfreeze it.",
    )
}

/// The role has opened a holdout as often as its owner allows.
pub(super) fn holdout_used_up(most: u32) -> Refusal {
    let detail = format!(
        "Each role may open it {most} times: after more of its answers, questions fit its own rows \
            alone. Nothing was charged."
    );
    refusal(
        reason::HOLDOUT_USED_UP,
        "the holdout is used up".to_owned(),
        &detail,
    )
    .hint("Its owner has to draw a new one, in another table.")
}

fn refusal(reason: Reason, message: String, detail: &str) -> Refusal {
    Refusal::new(reason, message).detail(detail)
}

fn in_epsilon(needs: Fixed, balance: &Balance) -> String {
    format!(
        "this query needs epsilon {} and {} is left",
        needed_text(needs),
        remaining(balance.epsilon_left())
    )
}

/// In mu, which is what a query's noise is set by, and in percent of mu^2, which adds up.
fn in_mu(needs: Fixed, balance: &Balance) -> String {
    let (left, whole) = (balance.mu_squared_left(), balance.cap.mu_squared());
    let mu_left = if left == Fixed::ZERO {
        "nothing".to_owned()
    } else {
        significant(left.to_f64().sqrt(), Direction::Down)
    };
    let mu_needs = significant(needs.to_f64().sqrt(), Direction::Up);
    format!(
        "this query needs mu {mu_needs} and {mu_left} is left ({})",
        shares(needs, left, whole)
    )
}

fn in_rho(needs: Fixed, balance: &Balance) -> String {
    let (left, whole) = (balance.rho_left(), balance.cap.rho());
    format!(
        "this query needs rho {} and {} is left ({})",
        needed_text(needs),
        remaining(left),
        shares(needs, left, whole)
    )
}

fn shares(needs: Fixed, left: Fixed, whole: Fixed) -> String {
    let needs = significant(100.0 * ratio(needs, whole), Direction::Up);
    let left = significant(100.0 * ratio(left, whole), Direction::Down);
    format!("{needs} % and {left} % of the budget")
}

fn needed_text(value: Fixed) -> String {
    significant(value.to_f64(), Direction::Up)
}

fn remaining(value: Fixed) -> String {
    if value == Fixed::ZERO {
        "nothing".to_owned()
    } else {
        significant(value.to_f64(), Direction::Down)
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

/// Three significant digits, rounded so that what is needed never looks smaller, nor what is left
/// larger, than it is; but 0.1 plus a unit of 2^-60 is 0.1.
fn significant(value: f64, direction: Direction) -> String {
    if value <= 0.0 {
        return "0".to_owned();
    }
    let exponent = value.log10().floor() as i32;
    let digits = match direction {
        Direction::Up => (value / 10f64.powi(exponent - 2) * (1.0 - 1e-9)).ceil(),
        Direction::Down => (value / 10f64.powi(exponent - 2) * (1.0 + 1e-9)).floor(),
    };
    // Printed and parsed again in decimal, so that no digit beyond the three appears.
    let decimal = format!("{digits}e{}", exponent - 2)
        .parse::<f64>()
        .unwrap_or(value);
    if (1e-4..1e6).contains(&decimal) {
        format!("{decimal}")
    } else {
        format!("{decimal:e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Cap;

    fn balance(accounting: Accounting, spent: Loss) -> Balance {
        let fixed = Fixed::round_down;
        Balance::lasting(
            Cap::new(fixed(1.0), fixed(1e-6), fixed(0.005), accounting).unwrap(),
            spent,
        )
    }

    fn laplace(epsilon: f64) -> Loss {
        let mu_squared = Fixed::round_up(1.6 * epsilon * epsilon);
        Loss {
            epsilon: Some(Fixed::round_up(epsilon)),
            rho: Fixed::round_up(epsilon * epsilon),
            mu_squared,
            delta: Fixed::ZERO,
        }
    }

    fn gaussian(mu: f64) -> Loss {
        Loss {
            epsilon: None,
            rho: Fixed::round_up(mu * mu / 2.0),
            mu_squared: Fixed::round_up(mu * mu),
            delta: Fixed::ZERO,
        }
    }

    #[test]
    fn pure_names_epsilon() {
        let refused = refuse_exhausted(&laplace(0.1), &balance(Accounting::Pure, laplace(0.96)));
        assert_eq!(refused.sqlstate, "53400");
        assert_eq!(
            refused.message,
            "privacy budget exhausted: this query needs epsilon 0.1 and 0.04 is left"
        );
        assert!(refused.detail.is_some_and(|d| d.contains("pgveil.epsilon")));
        let refused = refuse_exhausted(&laplace(0.1), &balance(Accounting::Pure, laplace(1.0)));
        assert_eq!(
            refused.message,
            "privacy budget exhausted: this query needs epsilon 0.1 and nothing is left"
        );
    }

    #[test]
    fn gdp_names_both_currencies() {
        let refused = refuse_exhausted(&laplace(0.1), &balance(Accounting::Gdp, laplace(0.96)));
        assert_eq!(
            refused.message,
            "privacy budget exhausted: this query needs epsilon 0.1 and 0.04 is left"
        );
        assert!(refused.detail.is_some_and(|d| d.starts_with(
            "Counted together with Gaussian noise, this query needs mu 0.127 and nothing is left ("
        )));
        let refused = refuse_exhausted(&gaussian(0.1), &balance(Accounting::Gdp, gaussian(5.0)));
        assert!(
            refused.message.starts_with(
                "privacy budget exhausted: this query needs mu 0.1 and nothing is left ("
            ),
            "{}",
            refused.message
        );
        let refused = refuse_exhausted(&gaussian(0.1), &balance(Accounting::Zcdp, gaussian(5.0)));
        assert!(
            refused.message.starts_with(
                "privacy budget exhausted: this query needs rho 0.005 and nothing is left ("
            ),
            "{}",
            refused.message
        );
    }

    #[test]
    fn shares_and_the_day_of_renewal_are_shown() {
        let fixed = Fixed::round_up;
        assert_eq!(
            shares(fixed(0.1), fixed(0.5), fixed(1.0)),
            "10 % and 50 % of the budget"
        );
        let renewed = Balance {
            renews_at: Some(1_793_491_200_000_000),
            ..balance(Accounting::Pure, laplace(1.0))
        };
        assert_eq!(
            refuse_exhausted(&laplace(0.1), &renewed).hint.as_deref(),
            Some("The budget is renewed on 2026-11-01 (UTC).")
        );
    }

    #[test]
    fn delta_comes_first_and_pure_refuses_gaussians() {
        let keyed = Loss {
            delta: Fixed::round_up(1e-8),
            ..laplace(0.1)
        };
        let refused = refuse_exhausted(&keyed, &balance(Accounting::Gdp, Loss::ZERO));
        assert_eq!(
            refused.message,
            "privacy budget exhausted: this query needs delta 1e-8 and 5e-9 is left"
        );
        let refused = refuse_exhausted(&gaussian(0.1), &balance(Accounting::Pure, Loss::ZERO));
        assert!(refused.message.contains("accounting is pure"));
    }

    #[test]
    fn digits_round_against_the_reader() {
        assert_eq!(significant(0.1234, Direction::Up), "0.124");
        assert_eq!(significant(0.1239, Direction::Down), "0.123");
        assert_eq!(significant(0.9999, Direction::Up), "1");
        assert_eq!(significant(12345.0, Direction::Down), "12300");
        assert_eq!(significant(0.3 - 0.1, Direction::Up), "0.2");
        assert_eq!(significant(0.0, Direction::Up), "0");
    }

    #[test]
    fn what_is_left_is_shown() {
        for (accounting, needs) in [
            (Accounting::Gdp, "mu 5 and"),
            (Accounting::Zcdp, "rho 12.5 and"),
        ] {
            let message =
                refuse_exhausted(&gaussian(5.0), &balance(accounting, gaussian(0.01))).message;
            assert!(
                message.contains(needs)
                    && message.ends_with("% of the budget)")
                    && !message.contains("nothing"),
                "{message}"
            );
        }
    }
}
