//! The meaning of budgets: the rows of `pgveil.group_privacy` and `pgveil.meaning`, and the same
//! for the owner. From the policy and the account alone: no row is read, and nothing is charged.

use super::expected_error::{odds_text, percent};
use super::meaning_of_reports::of_policy;
use super::notice::three_digits;
use super::views::{ViewRow, number_cell};
use super::{Engine, Requester, ledger_failed};
use crate::error::Error;
use crate::mechanism::{Cap, FALSE_ALARMS, Meaning, UNITS};
use crate::policy::Renew;

/// Above this epsilon a budget rules out hardly anything: odds of 22,000 to one.
const HARDLY: f64 = 10.0;

/// An account of the policy, as its budget is.
#[derive(Debug, Clone, Copy)]
pub struct AccountPromise<'a> {
    /// The account's holder in words: `role analyst`, or all roles.
    pub whom: &'a str,
    pub cap: Cap,
    pub renew: Renew,
    /// The policy's word for the privacy unit.
    pub unit: &'a str,
}

impl Engine {
    pub(super) async fn group_privacy(&self, requester: &Requester) -> Result<Vec<ViewRow>, Error> {
        let failed = |error| ledger_failed(&error);
        let balance = self.ledger.balance(&requester.role).await.map_err(failed)?;
        let keyed = self
            .ledger
            .threshold_losses(&requester.role)
            .await
            .map_err(failed)?;
        let delta = Meaning::delta_of_noise(&balance.cap);
        let mut rows = of_budget("role", &balance.cap, balance.renew);
        rows.extend(UNITS.map(|units| {
            let meaning = Meaning::of_books(&balance.lifetime, &keyed, delta, units);
            ("spent".to_owned(), meaning)
        }));
        Ok(rows
            .iter()
            .map(|(name, meaning)| row(name, meaning))
            .collect())
    }

    pub(super) async fn meaning(&self, requester: &Requester) -> Result<Vec<ViewRow>, Error> {
        let balance = self.ledger.balance(&requester.role).await;
        let balance = balance.map_err(|error| ledger_failed(&error))?;
        let promised = AccountPromise {
            whom: &format!("role {}", requester.role),
            cap: balance.cap,
            renew: balance.renew,
            unit: &self.policy.privacy.unit,
        };
        let mut lines = promised.lines();
        lines.extend(of_policy(&self.policy));
        Ok(lines.into_iter().map(|line| vec![Some(line)]).collect())
    }
}

/// The meaning of a budget for each number of units, and for one unit over a year of renewals.
fn of_budget(name: &str, cap: &Cap, renew: Renew) -> Vec<(String, Meaning)> {
    let mut rows: Vec<_> = UNITS
        .map(|units| (name.to_owned(), Meaning::of_budget(cap, units)))
        .into();
    if let Some(periods) = periods(renew) {
        let meaning = Meaning::of_periods(cap, periods);
        rows.push((format!("renewed x {periods}"), meaning));
    }
    rows
}

/// How many periods the row of renewals covers: one year. A year may touch one period more.
fn periods(renew: Renew) -> Option<u32> {
    match renew {
        Renew::Never => None,
        Renew::Weekly => Some(52),
        Renew::Monthly => Some(12),
    }
}

fn row(account: &str, meaning: &Meaning) -> ViewRow {
    vec![
        Some(account.to_owned()),
        Some(meaning.units.to_string()),
        meaning.epsilon.and_then(number_cell),
        meaning.mu.and_then(number_cell),
        meaning.epsilon_at_delta.and_then(number_cell),
        number_cell(meaning.delta),
        meaning.odds().and_then(number_cell),
        number_cell(meaning.posterior(0.01)),
        number_cell(meaning.posterior(0.5)),
        number_cell(meaning.power),
    ]
}

impl AccountPromise<'_> {
    /// The rows of a table: the account, the number of units, epsilon, delta, the odds, how sure
    /// somebody may become from 1 % and from 50 %, and the power of the best test.
    pub fn table(&self) -> Vec<ViewRow> {
        let text = |(name, meaning): (String, Meaning)| {
            vec![
                Some(name),
                Some(meaning.units.to_string()),
                meaning.epsilon_at_delta.map(three_digits),
                Some(format!("{:.1e}", meaning.delta)),
                meaning.odds().map(odds_text),
                Some(percent(meaning.posterior(0.01))),
                Some(percent(meaning.posterior(0.5))),
                Some(percent(meaning.power)),
            ]
        };
        let rows = of_budget(self.whom, &self.cap, self.renew);
        rows.into_iter().map(text).collect()
    }

    /// What the budget means, in sentences.
    pub fn lines(&self) -> Vec<String> {
        let Self {
            whom, cap, unit, ..
        } = self;
        let of = |units| Meaning::of_budget(cap, units);
        let one = of(1);
        let epsilon = |meaning: &Meaning| match meaning.epsilon_at_delta {
            Some(epsilon) => three_digits(epsilon),
            None => "without a limit".to_owned(),
        };
        let sure = |prior| percent(one.posterior(prior));
        let odds = one.odds().map_or("any number of".to_owned(), odds_text);
        let mut lines = vec![
            format!(
                "{whom}: epsilon {} and delta {:.1e}. Whatever is answered would have been \
                answered almost as likely without any one {unit}.",
                epsilon(&one),
                one.delta
            ),
            format!(
                "Bets: somebody who is 50 % sure that a {unit} is in the data is at most {} sure \
                after all answers; somebody who is 1 % sure, at most {}.",
                sure(0.5),
                sure(0.01)
            ),
            format!(
                "Harm: anything that may happen to a {unit} because of the answers becomes at most \
                {odds} times as likely by being in the data."
            ),
            format!(
                "Detection: a test that is wrong about {} of those who are not in the data \
                detects at most {} of those who are.",
                percent(FALSE_ALARMS),
                percent(one.power)
            ),
            self.groups(),
            format!(
                "Not promised: that nothing is learnt. What holds in general is learnt with each \
                {unit} or without. And with a chance of {:.1e} the limits for one {unit} do not \
                hold.",
                one.delta
            ),
        ];
        lines.extend(self.renewal());
        lines
    }

    fn groups(&self) -> String {
        let of = |units| Meaning::of_budget(&self.cap, units);
        let with_chance = |units| {
            let meaning = of(units);
            match meaning.epsilon_at_delta {
                Some(epsilon) => format!(
                    "{units} epsilon {} but for a chance of {:.1e}",
                    three_digits(epsilon),
                    meaning.delta
                ),
                None => format!("{units} nothing is promised"),
            }
        };
        format!(
            "Groups: for {} (2 are one who is replaced by another, too), for {}, for {}.{}",
            with_chance(2),
            with_chance(4),
            with_chance(10),
            match [1, 2, 4, 10].map(of).iter().any(is_weak) {
                true => " An epsilon above 10 hardly protects.",
                false => "",
            }
        )
    }

    fn renewal(&self) -> Option<String> {
        let periods = periods(self.renew)?;
        let period = match self.renew {
            Renew::Weekly => "week",
            Renew::Monthly | Renew::Never => "month",
        };
        let epsilon = Meaning::of_periods(&self.cap, periods).epsilon_at_delta;
        let epsilon = epsilon.map_or("without a limit".to_owned(), three_digits);
        Some(format!(
            "Renewal: all this holds for one {period} alone. In {periods} {period}s the budget may \
            be spent {periods} times, together epsilon {epsilon}, up to the owner's total."
        ))
    }
}

fn is_weak(meaning: &Meaning) -> bool {
    meaning
        .epsilon_at_delta
        .is_none_or(|epsilon| epsilon > HARDLY)
}
