//! An account's spending over time, and when the budget will be empty at that pace. Pure arithmetic
//! over the ledger's debits.

use std::collections::{BTreeMap, HashMap};

use crate::calendar::MICROS_PER_DAY;
use crate::ledger::{Balance, Entry, Fingerprint, date, period_start};
use crate::mechanism::{Accounting, Loss};

const HOUR: i64 = MICROS_PER_DAY / 24;
/// Days whose spending gives the pace.
pub const PACE_DAYS: i64 = 14;
/// Fewer days with spending give no pace.
const DAYS_MIN: usize = 3;
/// A forecast looks this far ahead.
const AHEAD_DAYS: f64 = 3650.0;

/// A debit as a share of the account's whole budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    pub microseconds: i64,
    pub share: f64,
    /// The plan that was paid for, in short.
    pub plan: String,
}

/// The debits of an account in the currency that it has more left of, oldest first; `named` names
/// their plans.
pub fn list_spent(
    balance: &Balance,
    newest_first: &[Entry],
    named: impl Fn(Fingerprint) -> String,
) -> Vec<Spent> {
    let debit = |entry: &Entry| Spent {
        microseconds: entry.microseconds,
        share: share_of(balance, &entry.loss),
        plan: named(entry.fingerprint),
    };
    newest_first.iter().rev().map(debit).collect()
}

/// A loss as a share of the account's whole budget.
pub fn share_of(balance: &Balance, loss: &Loss) -> f64 {
    let cap = Loss {
        epsilon: Some(balance.cap.epsilon()),
        rho: balance.cap.rho(),
        mu_squared: balance.cap.mu_squared(),
        delta: balance.cap.delta(),
    };
    match (currency(balance, loss), currency(balance, &cap)) {
        (Some(part), Some(whole)) if whole > 0.0 => part / whole,
        _ => 0.0,
    }
}

/// A loss in the currency that the account has more left of.
fn currency(balance: &Balance, loss: &Loss) -> Option<f64> {
    let pure = balance.epsilon_left().to_f64() / balance.cap.epsilon().to_f64();
    let (other, of_other) = match balance.cap.accounting() {
        Accounting::Pure => return Some(loss.epsilon?.to_f64()),
        Accounting::Gdp => (balance.mu_squared_left(), balance.cap.mu_squared()),
        Accounting::Zcdp => (balance.rho_left(), balance.cap.rho()),
    };
    if balance.pure_open() && pure > other.to_f64() / of_other.to_f64() {
        return Some(loss.epsilon?.to_f64());
    }
    Some(match balance.cap.accounting() {
        Accounting::Zcdp => loss.rho.to_f64(),
        Accounting::Gdp | Accounting::Pure => loss.mu_squared.to_f64(),
    })
}

/// The spent share from `from` to `now`, one point an hour in which something was spent: exact
/// times would show how long statements took. A renewed budget begins at zero in each period.
pub fn course(balance: &Balance, debits: &[Spent], from: i64, now: i64) -> Vec<(i64, f64)> {
    let now_spent = 1.0 - balance.fraction_left();
    let start = period_start(balance.renew, from);
    let counted = debits
        .iter()
        .filter(|debit| debit.microseconds >= start.unwrap_or(from));
    let mut level = match start {
        Some(_) => 0.0,
        None => now_spent - counted.clone().map(|debit| debit.share).sum::<f64>(),
    };
    let mut hours: BTreeMap<i64, f64> = BTreeMap::new();
    for debit in counted {
        *hours
            .entry(debit.microseconds.div_euclid(HOUR))
            .or_default() += debit.share;
    }
    let (mut points, mut period) = (Vec::new(), start);
    for (hour, share) in hours {
        let at = hour * HOUR;
        let now_in = period_start(balance.renew, at);
        if now_in != period {
            points.extend(now_in.into_iter().flat_map(|at| [(at, level), (at, 0.0)]));
            (level, period) = (0.0, now_in);
        }
        if at >= from {
            points.push((at, level.max(0.0)));
        }
        level += share;
        if at >= from {
            points.push((at, level.max(0.0)));
        } else {
            points.clear();
        }
    }
    let last = period_start(balance.renew, now);
    if last != period {
        points.extend(last.into_iter().flat_map(|at| [(at, level), (at, 0.0)]));
    }
    let first = points.first().map_or(level, |(_, level)| *level);
    points.insert(0, (from, first.max(0.0)));
    points.push((now, now_spent));
    points
}

/// When an account is empty at its pace.
#[derive(Debug, Clone, PartialEq)]
pub enum Forecast {
    /// Too few days with spending.
    Unknown,
    /// Renewed before that.
    Lasts,
    /// On this day.
    Empty(String),
    /// Nothing is left.
    IsEmpty,
}

impl Forecast {
    pub fn words(&self) -> String {
        match self {
            Self::Unknown => {
                format!("no forecast: fewer than {DAYS_MIN} days with spending of the last 14")
            }
            Self::Lasts => "at that pace it lasts until it is renewed".to_owned(),
            Self::Empty(day) => format!("at that pace empty on {day}"),
            Self::IsEmpty => "empty".to_owned(),
        }
    }
}

/// By the median of the days with spending of the last fourteen.
pub fn forecast(balance: &Balance, debits: &[Spent], now: i64) -> Forecast {
    let left = balance.fraction_left();
    if left <= 0.0 {
        return Forecast::IsEmpty;
    }
    let today = now.div_euclid(MICROS_PER_DAY);
    let mut days: BTreeMap<i64, f64> = BTreeMap::new();
    for debit in debits.iter().filter(|debit| debit.share > 0.0) {
        let day = debit.microseconds.div_euclid(MICROS_PER_DAY);
        if (today - PACE_DAYS + 1..=today).contains(&day) {
            *days.entry(day).or_default() += debit.share;
        }
    }
    let mut shares: Vec<f64> = days.into_values().collect();
    if shares.len() < DAYS_MIN {
        return Forecast::Unknown;
    }
    shares.sort_by(f64::total_cmp);
    let middle = shares.len() / 2;
    let median = if shares.len().is_multiple_of(2) {
        f64::midpoint(shares[middle - 1], shares[middle])
    } else {
        shares[middle]
    };
    let days = (left / median).ceil().min(AHEAD_DAYS) as i64;
    let empty = (today + days) * MICROS_PER_DAY;
    if balance.renews_at.is_some_and(|renewed| renewed <= empty) {
        return Forecast::Lasts;
    }
    Forecast::Empty(date(empty))
}

/// The plans that cost most since `from`: in short, how often, and the share of the budget.
pub fn most_expensive(debits: &[Spent], from: i64, most: usize) -> Vec<(String, usize, f64)> {
    let mut plans: HashMap<&str, (usize, f64)> = HashMap::new();
    for debit in debits.iter().filter(|debit| debit.microseconds >= from) {
        let plan = plans.entry(&debit.plan).or_default();
        *plan = (plan.0 + 1, plan.1 + debit.share);
    }
    let mut plans: Vec<(String, usize, f64)> = plans
        .into_iter()
        .map(|(plan, (times, share))| (plan.to_owned(), times, share))
        .collect();
    plans.sort_by(|one, other| other.2.total_cmp(&one.2).then_with(|| one.0.cmp(&other.0)));
    plans.truncate(most);
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Cap, Fixed};
    use crate::policy::Renew;

    const DAY: i64 = MICROS_PER_DAY;
    /// 2026-11-21, a Saturday, at noon.
    const NOW: i64 = 20_778 * DAY + DAY / 2;

    fn balance(spent: f64) -> Balance {
        let fixed = Fixed::round_down;
        let cap = Cap::new(fixed(1.0), fixed(1e-6), fixed(0.5), Accounting::Pure).unwrap();
        let spent = Loss {
            epsilon: Some(fixed(spent)),
            rho: Fixed::ZERO,
            mu_squared: Fixed::ZERO,
            delta: Fixed::ZERO,
        };
        Balance::lasting(cap, spent)
    }

    fn entries(debits: &[(i64, f64)]) -> Vec<Entry> {
        let entry = |(microseconds, epsilon): &(i64, f64)| Entry {
            loss: Loss {
                epsilon: Some(Fixed::round_down(*epsilon)),
                rho: Fixed::ZERO,
                mu_squared: Fixed::ZERO,
                delta: Fixed::ZERO,
            },
            microseconds: *microseconds,
            fingerprint: Fingerprint::new([u8::try_from(microseconds % 7).unwrap(); 32]),
        };
        debits.iter().rev().map(entry).collect()
    }

    fn of_entries(balance: &Balance, entries: &[Entry]) -> Vec<Spent> {
        list_spent(balance, entries, |plan| plan.short())
    }

    fn near(found: &[(i64, f64)], wanted: &[(i64, f64)]) {
        let is_near = |(one, other): (&(i64, f64), &(i64, f64))| {
            one.0 == other.0 && (one.1 - other.1).abs() < 1e-9
        };
        assert!(
            found.len() == wanted.len() && found.iter().zip(wanted).all(is_near),
            "{found:?}"
        );
    }

    #[test]
    fn a_budget_for_ever_rises_in_steps_of_an_hour() {
        let balance = balance(0.6);
        let hour = NOW - 10 * HOUR;
        let debits = [(NOW - 5 * DAY, 0.1), (hour + 1, 0.2), (hour + 999, 0.2)];
        let debits = of_entries(&balance, &entries(&debits));
        let from = NOW - DAY;
        let wanted = [(from, 0.2), (hour, 0.2), (hour, 0.6), (NOW, 0.6)];
        near(&course(&balance, &debits, from, NOW), &wanted);
        near(
            &course(&balance, &[], from, NOW),
            &[(from, 0.6), (NOW, 0.6)],
        );
    }

    #[test]
    fn a_renewed_budget_begins_anew() {
        let balance = Balance {
            renew: Renew::Weekly,
            ..balance(0.3)
        };
        // The week began on Monday, day 20773.
        let monday = 20_773 * DAY;
        let debits = [(monday - DAY, 0.7), (monday + DAY, 0.3)];
        let debits = of_entries(&balance, &entries(&debits));
        let (from, before, after) = (monday - 2 * DAY, monday - DAY, monday + DAY);
        let wanted = [
            (from, 0.0),
            (before, 0.0),
            (before, 0.7),
            (monday, 0.7),
            (monday, 0.0),
            (after, 0.0),
            (after, 0.3),
            (NOW, 0.3),
        ];
        near(&course(&balance, &debits, from, NOW), &wanted);
        // Nothing was spent since it was renewed.
        let (next, fresh) = (NOW + 7 * DAY, self::balance(0.0));
        let fresh = Balance {
            renew: Renew::Weekly,
            ..fresh
        };
        let (from, begun) = (NOW, 20_780 * DAY);
        let wanted = [(from, 0.3), (begun, 0.3), (begun, 0.0), (next, 0.0)];
        near(&course(&fresh, &debits, from, next), &wanted);
    }

    #[test]
    fn the_median_day_tells_the_pace() {
        let balance = balance(0.5);
        let of = |debits: &[(i64, f64)]| {
            let debits = of_entries(&balance, &entries(debits));
            forecast(&balance, &debits, NOW)
        };
        let days = [
            (NOW - 3 * DAY, 0.05),
            (NOW - 2 * DAY, 0.1),
            (NOW - DAY, 0.35),
        ];
        assert_eq!(of(&days), Forecast::Empty("2026-11-26".to_owned()));
        assert_eq!(of(&days[..2]), Forecast::Unknown);
        let old = [(NOW - 20 * DAY, 0.1), days[0], days[1]];
        assert_eq!(of(&old), Forecast::Unknown);
        let renewed = Balance {
            renews_at: Some(NOW + 2 * DAY),
            ..balance.clone()
        };
        let debits = of_entries(&renewed, &entries(&days));
        assert_eq!(forecast(&renewed, &debits, NOW), Forecast::Lasts);
        assert_eq!(forecast(&self::balance(1.0), &[], NOW), Forecast::IsEmpty);
    }

    #[test]
    fn plans_are_listed_by_what_they_cost() {
        let balance = balance(0.5);
        let debits = of_entries(
            &balance,
            &entries(&[(0, 0.1), (1, 0.2), (7, 0.15), (9, 0.4)]),
        );
        let found = most_expensive(&debits, 0, 2);
        let plan = |byte: u8| Fingerprint::new([byte; 32]).short();
        assert_eq!((&found[0].0, found[0].1), (&plan(2), 1));
        assert_eq!((&found[1].0, found[1].1), (&plan(0), 2));
        assert!(found.len() == 2 && (found[1].2 - 0.25).abs() < 1e-9);
        assert!(most_expensive(&debits, 10, 2).is_empty());
    }
}
