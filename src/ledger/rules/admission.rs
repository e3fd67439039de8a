//! Whether an account covers a debit: pure rules over its rows.

use super::AccountStanding;
use crate::ledger::accounts::{Account, AccountTerms};
use crate::ledger::balance::Balance;
use crate::ledger::clock::period_end;
use crate::ledger::error::{DebitError, Error};
use crate::ledger::store::Row;
use crate::ledger::{Buyer, Purchase};
use crate::mechanism::{Cap, Loss};

/// How an account will stand when it is opened.
pub(super) fn standing_when_opened(account: Account, is_frozen: bool, now: i64) -> AccountStanding {
    let AccountTerms { cap, renew, .. } = account.terms;
    let balance = Balance {
        renew,
        renews_at: period_end(renew, now),
        frozen: is_frozen,
        ..Balance::lasting(cap, Loss::ZERO)
    };
    AccountStanding {
        balance,
        period: Loss::ZERO,
        begun: None,
    }
}

/// Which account does not cover a purchase.
pub(super) enum Uncovered {
    ByRole(Loss),
    ByTotal,
}

/// What the role pays now, and the sums after it: the owner's, and the role's over all periods.
pub(super) fn cover(
    purchase: &Purchase,
    mine: &AccountStanding,
    total: &AccountStanding,
) -> Result<(Loss, Loss, Loss), Uncovered> {
    let Purchase {
        buyer,
        fresh,
        later,
        offered,
        ..
    } = purchase;
    // The debit now, and the amount that has to fit: the debit and the statement's later payments.
    let with_later = |now: Loss| now.compose(*later).map(|tested| (now, tested));
    let (Some((whole, tested)), Some((_, fresh_tested))) = (
        fresh.compose(*offered).and_then(with_later),
        with_later(*fresh),
    ) else {
        return Err(Uncovered::ByRole(*fresh));
    };
    // A sum that overflows 128 bits in one currency is refused like one above the cap, even where
    // another currency admits it.
    let fits = |cap: &Cap, spent: &Loss, next: &Loss| {
        spent.compose(*next).is_some() && cap.admits(spent, next)
    };
    if !fits(&mine.balance.cap, &mine.balance.spent, &tested) {
        return Err(Uncovered::ByRole(tested));
    }
    let (cap, spent) = (&total.balance.cap, &total.balance.spent);
    // An answer that was made for another role is refused where a new one would be. The difference
    // would reveal that it exists.
    let of_owner =
        fits(cap, spent, &fresh_tested) && (*buyer == Buyer::Owner || fits(cap, spent, &tested));
    // However often a role's budget is renewed, the sum over all periods stays within the owner's
    // total.
    let lifetime = &mine.balance.lifetime;
    let after = spent.compose(*fresh).zip(lifetime.compose(whole));
    match after.filter(|_| of_owner && fits(cap, lifetime, &tested)) {
        Some((of_owner, lifetime)) => Ok((whole, of_owner, lifetime)),
        None => Err(Uncovered::ByTotal),
    }
}

pub(super) fn refuse_exhausted(role: &str, needs: Loss, balance: Balance) -> DebitError {
    DebitError::Exhausted {
        role: role.to_owned(),
        needs,
        balance: Box::new(balance),
    }
}

/// Whether the owner's total has refused this row's account, and the owner has since neither raised
/// the total nor reopened the account by a grant or `unfreeze`.
pub(super) fn is_closed(owner: &AccountTerms, row: &Row, decisions: &[Row]) -> Result<bool, Error> {
    if row.is_null(11) {
        return Ok(false);
    }
    let (epsilon, delta, last) = (row.read_fixed(11)?, row.read_fixed(12)?, row.int(13)?);
    let is_raised = owner.epsilon >= epsilon
        && owner.delta >= delta
        && (owner.epsilon, owner.delta) != (epsilon, delta);
    let mut is_decided = false;
    for decision in decisions {
        // Decisions for this account, and for all accounts.
        is_decided |= decision.int(4)? > last && matches!(decision.text(1)?, "grant" | "unfreeze");
    }
    Ok(!is_raised && !is_decided)
}

/// Whether the last decision on freezing this account froze it.
pub(in crate::ledger) fn is_frozen(decisions: &[Row], account: i64) -> Result<bool, Error> {
    let mut frozen = false;
    for decision in decisions {
        if decision.int(0)? == account {
            match decision.text(1)? {
                "freeze" => frozen = true,
                "unfreeze" => frozen = false,
                _ => {}
            }
        }
    }
    Ok(frozen)
}
