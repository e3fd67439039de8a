//! The plainest answers about whole tables at a price: the error of a count, a sum or an average,
//! the number of units that it amounts to, and how many such answers a budget holds.
//!
//! # Guarantee
//! Everything follows from the plans of statements that are never run: from the policy, the schema,
//! the session and the role's own account. No row is read, and nothing is charged.

mod view;

use super::notice::three_digits;
use super::planning::{plain_terms, requester_of};
use super::views::ViewRow;
use super::{constants, plan};
use crate::aggregates::{Foreseen, MeasureId};
use crate::catalog::Type;
use crate::finish::quantile_95;
use crate::ledger::Balances;
use crate::mechanism::{AccountState, Loss};
use crate::parse::{Statement, parse};
use crate::policy::{ClipChoice, Column, Policy, Protection, Role, Table};
use crate::postgres::{identifier, qualify};
use crate::resolve::Constants;
use crate::rewrite::{
    Measure, Plan, ReleasePlan, Terms, UnitCount, measure_deviation, times_clip, useless,
};

/// The most answers that are counted.
const ANSWERS_MAX: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorthAggregate {
    Count,
    Sum,
    Average,
}

impl WorthAggregate {
    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Average => "avg",
        }
    }
}

/// One question about a whole private table.
#[derive(Debug, Clone)]
pub struct Worth<'a> {
    pub table: &'a Table,
    pub total: WorthAggregate,
    /// `None` for a count.
    pub column: Option<&'a str>,
    /// The epsilon of one query.
    pub epsilon: f64,
    /// The answer, or why these terms allow none.
    pub answer: Result<ExpectedAnswer, String>,
    pub advice: Option<Advice>,
}

/// The advice that makes an answer more useful.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub lever: AdviceSubject,
    /// The advice as a sentence.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdviceSubject {
    Clip,
    RowsPerUnit,
    Epsilon,
    Bounds,
}

/// The facts about an answer that are known before it is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedAnswer {
    /// Half of the 95 % interval. For the largest clip where one is chosen; `None` for averages
    /// where the policy does not say how many units there are.
    pub error: Option<f64>,
    /// Whether a look chooses the clip, at most the policy's.
    pub is_chosen: bool,
    /// The error in units: this many units add as much as `error`, if each adds the most that
    /// counts.
    pub in_units: Option<f64>,
    /// Whether the noise would hide the answer, whatever the data are.
    pub is_useless: bool,
    pub loss: Loss,
    /// Rows of a unit that count.
    pub rows: u64,
}

/// Prices one question after the other.
#[derive(Clone, Copy)]
pub struct Pricing<'a> {
    pub policy: &'a Policy,
    pub constants: &'a Constants,
    pub terms: &'a Terms,
}

/// The epsilons in use: the session's, the policy's price of a query, and the most that one may
/// spend.
pub fn epsilons(policy: &Policy, terms: &Terms) -> Vec<f64> {
    let privacy = &policy.privacy;
    let mut found = vec![terms.epsilon];
    for epsilon in [privacy.epsilon_default, privacy.epsilon_max] {
        if !found.contains(&epsilon) {
            found.push(epsilon);
        }
    }
    found
}

/// The number of such losses for which an account still has room; at most [`ANSWERS_MAX`].
pub fn answers(account: &AccountState, loss: Loss) -> u64 {
    // The loss of 1, 2, 4, … answers.
    let doubled = std::iter::successors(Some((1u64, loss)), |(times, loss)| {
        Some((times.checked_mul(2)?, loss.compose(*loss)?)).filter(|(n, _)| *n <= ANSWERS_MAX)
    });
    let doubled: Vec<(u64, Loss)> = doubled.collect();
    let (mut count, mut spent) = (0, account.spent);
    for (times, loss) in doubled.into_iter().rev() {
        if let Some(after) = spent.compose(loss)
            && account.cap.admits(&spent, &loss)
        {
            (count, spent) = (count + times, after);
        }
    }
    count.min(ANSWERS_MAX)
}

/// Columns of numbers with bounds.
fn summable(table: &Table) -> impl Iterator<Item = &Column> {
    let is_number = |data_type: &Type| {
        matches!(
            data_type,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) | Type::Float4 | Type::Float8
        )
    };
    let columns = table.columns.iter();
    columns.filter(move |column| column.bounds.is_some() && is_number(&column.data_type))
}

impl Worth<'_> {
    /// The row of `pgveil.worth`.
    pub(super) fn row(&self, terms: &Terms, is_frozen: bool) -> ViewRow {
        let number = |value: f64| value.to_string();
        let mut row = vec![
            Some(self.table.schema.clone()),
            Some(self.table.name.clone()),
            self.column.map(str::to_owned),
            Some(self.total.name().to_owned()),
            Some(number(self.epsilon)),
        ];
        let Ok(answer) = &self.answer else {
            row.extend([const { None }; 6]);
            let why = self.answer.as_ref().err();
            row.push(why.map(|why| format!("not answered: {why}")));
            return row;
        };
        let ExpectedAnswer {
            error,
            is_chosen,
            in_units,
            is_useless,
            loss,
            rows: _,
        } = answer;
        let account = terms.accounts.first();
        let whole = account.map(|account| AccountState {
            spent: Loss::ZERO,
            ..*account
        });
        let left = account.map(|account| {
            if is_frozen {
                0
            } else {
                answers(account, *loss)
            }
        });
        row.extend([
            error.map(number),
            in_units.map(number),
            Some(if *is_chosen { "chosen" } else { "fixed" }.to_owned()),
            Some(is_useless.to_string()),
            whole.map(|account| answers(&account, *loss).to_string()),
            left.map(|left| left.to_string()),
            self.advice.as_ref().map(|advice| advice.text.clone()),
        ]);
        row
    }
}

impl<'a> Pricing<'a> {
    /// A count of each private table, the sum and the average of each of its bounded columns; each
    /// asked alone, at each of the [`epsilons`].
    pub fn all(&self) -> Vec<Worth<'a>> {
        let at = |epsilon: f64| {
            let mut terms = self.terms.clone();
            if epsilon != terms.epsilon {
                terms.epsilon = epsilon;
                terms.session_settings.epsilon = Some(epsilon);
            }
            terms
        };
        let all_terms: Vec<Terms> = epsilons(self.policy, self.terms)
            .into_iter()
            .map(at)
            .collect();
        let mut all = Vec::new();
        for table in private_tables(self.policy) {
            let mut asked = vec![(WorthAggregate::Count, None)];
            for column in summable(table) {
                asked.extend([
                    (WorthAggregate::Sum, Some(column)),
                    (WorthAggregate::Average, Some(column)),
                ]);
            }
            for terms in &all_terms {
                let each = asked
                    .iter()
                    .map(|(total, column)| self.worth(table, *total, *column, terms));
                all.extend(each);
            }
        }
        all
    }

    fn worth(
        &self,
        table: &'a Table,
        total: WorthAggregate,
        column: Option<&'a Column>,
        terms: &Terms,
    ) -> Worth<'a> {
        let argument = column.map_or("*".to_owned(), |column| identifier(&column.name));
        let from = qualify(&table.schema, &table.name);
        let sql = format!("SELECT {}({argument}) FROM {from}", total.name());
        let answer = self.expected_answer(&sql, total, terms);
        // At the session's epsilon alone: each asks for another plan.
        let advice = match &answer {
            Ok(answer) if terms.epsilon == self.terms.epsilon => self.advice(&sql, total, answer),
            Ok(_) | Err(_) => None,
        };
        Worth {
            table,
            total,
            column: column.map(|column| column.name.as_str()),
            epsilon: terms.epsilon,
            answer,
            advice,
        }
    }

    fn expected_answer(
        &self,
        sql: &str,
        total: WorthAggregate,
        terms: &Terms,
    ) -> Result<ExpectedAnswer, String> {
        let statements = parse(sql).map_err(|refusal| refusal.message)?;
        let [Statement::Query(query)] = statements.as_slice() else {
            return Err("it is not one query".to_owned());
        };
        let plan = plan(query, self.policy, &[], self.constants, terms)
            .map_err(|error| error.report().message)?;
        self.of_plan(&plan, total)
            .ok_or_else(|| "its noise is not known before it is asked".to_owned())
    }

    fn of_plan(&self, plan: &Plan, total: WorthAggregate) -> Option<ExpectedAnswer> {
        let [release] = plan.releases() else {
            return None;
        };
        let [(output, _)] = release.outputs() else {
            return None;
        };
        let rows = release.facts().rows_in_group.max(1);
        let (error, in_units) = match (total, output.foreseen()) {
            (WorthAggregate::Count | WorthAggregate::Sum, Foreseen::Measure(at)) => {
                of_measure(release, at, rows)?
            }
            (WorthAggregate::Average, Foreseen::OverRows { sum, count, range }) => {
                let of = |at: MeasureId| of_measure(release, at, rows).and_then(|(_, units)| units);
                // Values are counted from the middle of their range. So near the middle the noise
                // of the number of rows does not move the average.
                let in_units = of(sum).or_else(|| of(count));
                let half = (range.hi - range.lo) / 2.0;
                let units = self.policy.privacy.units.map(|units| units as f64);
                let error = in_units.zip(units).map(|(of, units)| half * of / units);
                (error, in_units)
            }
            (WorthAggregate::Count | WorthAggregate::Sum | WorthAggregate::Average, _) => {
                return None;
            }
        };
        Some(ExpectedAnswer {
            error,
            is_chosen: release.look().is_some(),
            in_units,
            is_useless: !useless(plan, UnitCount::of_policy(self.policy)).is_empty(),
            loss: plan.loss(),
            rows,
        })
    }

    /// The setting or bound that makes the error smaller.
    fn advice(&self, sql: &str, total: WorthAggregate, answer: &ExpectedAnswer) -> Option<Advice> {
        let advice = |lever, text| Some(Advice { lever, text });
        let Terms {
            epsilon,
            session_settings,
            ..
        } = self.terms;
        let with = |change: &dyn Fn(&mut Terms)| {
            let mut terms = self.terms.clone();
            change(&mut terms);
            self.expected_answer(sql, total, &terms).ok()
        };
        let would = |better: &ExpectedAnswer| {
            let units = format!("{} units", three_digits(better.in_units?));
            Some(match better.error.filter(|_| !better.is_chosen) {
                Some(error) => format!("±{} ({units})", three_digits(error)),
                None => format!("± as much as {units}"),
            })
        };
        let is_fixed = answer.rows > 1 && !answer.is_chosen;
        let of_look = || {
            with(&|terms| {
                terms.session_settings.clip = ClipChoice::Auto;
                terms.session_settings.rows_per_unit = None;
            })
        };
        if is_fixed && of_look().is_some_and(|answer| answer.is_chosen) {
            let text = "SET pgveil.clip = auto, without pgveil.max_rows_per_unit: a look at the \
                data then chooses how much of a unit counts";
            return advice(AdviceSubject::Clip, text.to_owned());
        }
        if is_fixed && total != WorthAggregate::Average {
            let rows = u32::try_from(answer.rows.div_ceil(4)).unwrap_or(u32::MAX);
            let fewer = with(&|terms| terms.session_settings.rows_per_unit = Some(rows))?;
            let text = format!(
                "SET pgveil.max_rows_per_unit = {rows}: ±{}; units with more rows are scaled down",
                three_digits(fewer.error?)
            );
            return advice(AdviceSubject::RowsPerUnit, text);
        }
        let most = self.policy.privacy.epsilon_max;
        if session_settings.target_error.is_none() && *epsilon < most {
            let more_expensive = with(&|terms| {
                terms.epsilon = most;
                terms.session_settings.epsilon = Some(most);
            });
            let stated = more_expensive.as_ref().and_then(would)?;
            return advice(
                AdviceSubject::Epsilon,
                format!("SET pgveil.epsilon = {most}: {stated}"),
            );
        }
        match total {
            WorthAggregate::Average => advice(
                AdviceSubject::Bounds,
                "bounds half as wide halve it".to_owned(),
            ),
            WorthAggregate::Count | WorthAggregate::Sum => None,
        }
    }
}

/// The rest of a role's budget in answers: for each private table, the number of counts at the
/// role's own epsilon, and their error.
pub fn role_worth(policy: &Policy, role: &Role, balances: &Balances) -> Vec<(String, String)> {
    let terms = plain_terms(policy, role, balances);
    let constants = constants(&requester_of(role, Vec::new()), policy);
    let pricing = Pricing {
        policy,
        constants: &constants,
        terms: &terms,
    };
    let is_open = !balances.role.frozen && !balances.role.closed;
    let account = terms.accounts.first().filter(|_| is_open);
    let one = |table: &Table| {
        let name = format!("{}.{}", table.schema, table.name);
        let worth = pricing.worth(table, WorthAggregate::Count, None, &terms);
        let left = match &worth.answer {
            Ok(answer) => {
                let left = account.map_or(0, |account| answers(account, answer.loss));
                let error = answer.error.map(three_digits);
                let error = error.map_or(String::new(), |error| format!(", each ±{error}"));
                format!("{left} more at epsilon {}{error}", worth.epsilon)
            }
            Err(why) => format!("not answered: {why}"),
        };
        (format!("count of {name}"), left)
    };
    private_tables(policy).map(one).collect()
}

fn private_tables(policy: &Policy) -> impl Iterator<Item = &Table> {
    policy.tables.iter().filter(|table| match table.protection {
        Protection::Private(_) => true,
        Protection::Public => false,
    })
}

/// Half of the 95 % interval of a count or a sum, and that in units.
fn of_measure(
    release: &ReleasePlan,
    measure: MeasureId,
    rows: u64,
) -> Option<(Option<f64>, Option<f64>)> {
    let measure = release.measure(measure);
    let wide = quantile_95(release.price()?.mechanism);
    if let Some((times, most)) = times_clip(release, measure) {
        return Some((Some(times * most * wide), Some(times * wide)));
    }
    let error = measure_deviation(release, measure).map(|deviation| deviation * wide);
    let of_row = match measure {
        Measure::Count(_) => 1.0,
        Measure::Sum {
            values: _,
            count: _,
            fixed_point,
        } => fixed_point.bounds.lo.abs().max(fixed_point.bounds.hi.abs()),
        Measure::Centred {
            values: _,
            fixed_point,
        } => (fixed_point.bounds.hi - fixed_point.bounds.lo) / 2.0,
        Measure::Squares { .. } | Measure::Products { .. } => return None,
    };
    let in_units = error.map(|error| error / (of_row * rows as f64));
    Some((error, in_units))
}

#[cfg(test)]
mod tests;
