//! The rest of a role's budget, in words.

use crate::ledger::Balance;

pub(super) fn budget_left(balance: &Balance) -> String {
    let renewed = balance
        .renewal_date()
        .map_or(String::new(), |date| format!(" until {date}"));
    format!(
        "{:.2} % of your budget is left{renewed}",
        balance.fraction_left() * 100.0
    )
}
