//! A query's error at each epsilon, the share of the budget that each costs, and how many such
//! answers the budget holds. From plans alone: nothing is charged, and no row is read.

use std::sync::Arc;

use super::answer_errors::errors_of;
use super::expected_error::{Within, after};
use super::planning::plan_within;
use super::useless::QuestionPlan;
use super::worth::answers;
use crate::analyze::PlanningEffort;
use crate::ledger::Balance;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rewrite::{Plan, Terms, UnitCount, useless};

/// The most rows of a table.
const ROWS: usize = 12;

/// One query at several prices.
pub struct Curve {
    pub points: Vec<CurvePoint>,
}

pub struct CurvePoint {
    pub epsilon: f64,
    /// The price without a setting.
    pub is_default: bool,
    /// The answer at this epsilon, or why the question is refused there.
    pub answer: Result<Bought, String>,
}

/// An answer at a price.
pub struct Bought {
    /// Each aggregate, and half of its 95 % interval.
    pub errors: Vec<(String, Within)>,
    /// The share of the whole budget; `None` where more is asked than is left.
    pub share: Option<f64>,
    pub answers: u64,
    pub is_useless: bool,
}

/// The curve of a query, at round epsilons between the least and the most that it may spend.
///
/// # Errors
/// Where it is refused at its own price.
pub fn curve(asked: &QuestionPlan<'_>) -> Result<Curve, Refusal> {
    curve_within(asked, None)
}

/// Like [`curve`], but refuses a query whose plans together take more work than `effort` has left.
pub(super) fn curve_within(
    asked: &QuestionPlan<'_>,
    effort: Option<&Arc<PlanningEffort>>,
) -> Result<Curve, Refusal> {
    let at = |terms: &Terms| at(asked, terms, effort);
    let own = at(asked.terms)?;
    let point = |epsilon: f64| {
        let is_default = epsilon == asked.terms.epsilon;
        let mut terms = asked.terms.clone();
        terms.epsilon = epsilon;
        terms.session_settings.epsilon = Some(epsilon);
        terms.session_settings.target_error = None;
        let answer = match at(&terms) {
            Ok(plan) => Ok(bought_by(&plan, &terms, asked.units)),
            Err(refusal) => Err(refusal.message),
        };
        CurvePoint {
            epsilon,
            is_default,
            answer,
        }
    };
    // A free query is free at any epsilon.
    let epsilons = if own.loss().is_zero() {
        vec![asked.terms.epsilon]
    } else {
        epsilons(asked.policy, asked.terms.epsilon)
    };
    Ok(Curve {
        points: epsilons.into_iter().map(point).collect(),
    })
}

fn at(
    asked: &QuestionPlan<'_>,
    terms: &Terms,
    effort: Option<&Arc<PlanningEffort>>,
) -> Result<Plan, Refusal> {
    let QuestionPlan {
        query,
        policy,
        search_path,
        constants,
        terms: _,
        units: _,
    } = asked;
    let effort = effort.cloned().unwrap_or_default();
    let planned = plan_within(query, policy, search_path, constants, terms, &effort);
    planned.map_err(|error| error.report())
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
    // Drops the smallest epsilons, whose answers are the least useful, but keeps the price in
    // force.
    let cut = all.len().saturating_sub(ROWS);
    let mut kept = all.split_off(cut);
    if !kept.contains(&own) {
        kept.insert(0, own);
    }
    kept
}

fn bought_by(plan: &Plan, terms: &Terms, units: Option<UnitCount>) -> Bought {
    let loss = plan.loss();
    let account = terms.accounts.first();
    let share = account.and_then(|account| {
        let balance = Balance::lasting(account.cap, account.spent);
        Some(balance.fraction_left() - after(&balance, loss)?)
    });
    Bought {
        errors: errors_of(plan),
        share,
        answers: account.map_or(0, |account| answers(account, loss)),
        is_useless: !useless(plan, units).is_empty(),
    }
}

impl Curve {
    /// The points that are answered.
    pub fn bought_points(&self) -> impl Iterator<Item = &Bought> {
        self.points
            .iter()
            .filter_map(|point| point.answer.as_ref().ok())
    }
}

impl Bought {
    /// The error of the first aggregate that has one.
    pub fn first(&self) -> Option<f64> {
        self.errors.iter().find_map(|(_, within)| within.parts().0)
    }
}
