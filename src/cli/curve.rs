//! `pgveil explain --curve`: how the error of a query falls as epsilon grows, what each epsilon
//! costs of the budget, and how many such answers the budget holds.

use super::table;
use crate::engine::{Asked, Within, after, answers, expected, percent, plan};
use crate::ledger::Balance;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rewrite::{Plan, Terms, useless};

/// The most rows of a table.
const ROWS: usize = 12;
/// The longest bar.
const BAR: f64 = 30.0;

/// One query at several prices.
pub struct Curve {
    points: Vec<Point>,
}

struct Point {
    epsilon: f64,
    is_default: bool,
    /// Why it is not answered at this price.
    answer: Result<Bought, String>,
}

struct Bought {
    errors: Vec<(String, Within)>,
    /// Of the whole budget; `None` where more is asked than is left.
    share: Option<f64>,
    answers: u64,
    is_useless: bool,
}

/// The curve of a query, at round epsilons between the least and the most that it may spend.
///
/// # Errors
/// Where it is refused at its own price.
pub fn of(asked: &Asked<'_>) -> Result<Curve, Refusal> {
    let own = at(asked, asked.terms)?;
    let point = |epsilon: f64| {
        let is_default = epsilon == asked.terms.epsilon;
        let mut terms = asked.terms.clone();
        terms.epsilon = epsilon;
        terms.session_settings.epsilon = Some(epsilon);
        terms.session_settings.target_error = None;
        let answer = match at(asked, &terms) {
            Ok(plan) => Ok(bought(&plan, &terms, asked.policy)),
            Err(refusal) => Err(refusal.message),
        };
        Point {
            epsilon,
            is_default,
            answer,
        }
    };
    // What is free costs the same at any epsilon.
    let epsilons = if own.loss().is_zero() {
        vec![asked.terms.epsilon]
    } else {
        epsilons(asked.policy, asked.terms.epsilon)
    };
    Ok(Curve {
        points: epsilons.into_iter().map(point).collect(),
    })
}

fn at(asked: &Asked<'_>, terms: &Terms) -> Result<Plan, Refusal> {
    let Asked {
        query,
        policy,
        search_path,
        constants,
        terms: _,
    } = asked;
    plan(query, policy, search_path, constants, terms).map_err(|error| error.report())
}

/// 1, 2 and 5 times powers of ten between the policy's least and most, with these and the price
/// that holds without a setting.
fn epsilons(policy: &Policy, own: f64) -> Vec<f64> {
    let (least, most) = (policy.privacy.epsilon_min, policy.privacy.epsilon_max);
    let decimals = |power: i32| [1, 2, 5].map(|digit| format!("{digit}e{power}").parse::<f64>());
    let mut all: Vec<f64> = (-9..=9)
        .flat_map(decimals)
        .filter_map(Result::ok)
        .filter(|epsilon| (least..=most).contains(epsilon))
        .chain([least, most, own])
        .collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    // The smallest tell least, but for the price that holds.
    let cut = all.len().saturating_sub(ROWS);
    let mut kept = all.split_off(cut);
    if !kept.contains(&own) {
        kept.insert(0, own);
    }
    kept
}

fn bought(plan: &Plan, terms: &Terms, policy: &Policy) -> Bought {
    let loss = plan.loss();
    let account = terms.accounts.first();
    let several = plan.releases().len() > 1;
    let mut errors = Vec::new();
    for (at, release) in plan.releases().iter().enumerate() {
        for (name, within) in expected(release) {
            let name = match several {
                true => format!("{}: {name}", at + 1),
                false => name.to_owned(),
            };
            errors.push((name, within));
        }
    }
    let share = account.and_then(|account| {
        let balance = Balance::lasting(account.cap, account.spent);
        Some(balance.fraction_left() - after(&balance, loss)?)
    });
    Bought {
        errors,
        share,
        answers: account.map_or(0, |account| answers(account, loss)),
        is_useless: !useless(plan, policy).is_empty(),
    }
}

impl Curve {
    pub fn table(&self, role: &str) -> Vec<String> {
        let first = self.bought().next();
        let names = first.map_or(Vec::new(), |bought| bought.errors.clone());
        let mut columns = vec!["epsilon".to_owned()];
        columns.extend(names.iter().map(|(name, _)| format!("{name}, 95 %")));
        columns.extend(["of the budget", "such answers", ""].map(str::to_owned));
        let most = self.bought().filter_map(Bought::first).fold(0.0, f64::max);
        let row = |point: &Point| {
            let mut row = vec![Some(point.epsilon.to_string())];
            match &point.answer {
                Ok(bought) => {
                    let errors = bought.errors.iter().map(|(_, within)| Some(within.text()));
                    row.extend(errors);
                    row.push(Some(bought.share.map_or("too much".to_owned(), percent)));
                    row.push(Some(bought.answers.to_string()));
                    row.push(Some(bought.bar(most, point.is_default)));
                }
                Err(why) => {
                    row.extend(vec![None; names.len() + 2]);
                    row.push(Some(format!("not answered: {why}")));
                }
            }
            row
        };
        let rows: Vec<_> = self.points.iter().map(row).collect();
        let mut lines = vec![format!(
            "Half of the 95 % interval at each epsilon, for {role}; the bar is the first error:"
        )];
        let table = table::of_texts(&columns, &rows);
        lines.extend(table.iter().map(|line| line.trim_end().to_owned()));
        lines
    }

    pub fn json(&self, role: &str) -> String {
        let point = |point: &Point| match &point.answer {
            Ok(bought) => {
                let errors = bought.errors.iter().map(|(name, within)| {
                    let (half_width, is) = within.parts();
                    serde_json::json!({"name": name, "half_width_95": half_width, "is": is})
                });
                serde_json::json!({
                    "epsilon": point.epsilon,
                    "default": point.is_default,
                    "aggregates": errors.collect::<Vec<_>>(),
                    "share_of_budget": bought.share,
                    "answers": bought.answers,
                    "useless": bought.is_useless,
                })
            }
            Err(why) => serde_json::json!({"epsilon": point.epsilon, "refused": why}),
        };
        let points: Vec<_> = self.points.iter().map(point).collect();
        format!("{:#}", serde_json::json!({"role": role, "curve": points}))
    }

    fn bought(&self) -> impl Iterator<Item = &Bought> {
        self.points
            .iter()
            .filter_map(|point| point.answer.as_ref().ok())
    }
}

impl Bought {
    fn first(&self) -> Option<f64> {
        self.errors.iter().find_map(|(_, within)| within.parts().0)
    }

    fn bar(&self, most: f64, is_default: bool) -> String {
        let length = self
            .first()
            .filter(|_| most > 0.0)
            .map_or(0.0, |own| own / most * BAR);
        let mut bar = "▇".repeat(length.ceil() as usize);
        if is_default {
            bar += " without a setting";
        }
        if self.is_useless {
            bar += " useless";
        }
        bar.trim_start().to_owned()
    }
}
