//! EXPLAIN: the plan of a query, its noise and its price, as text and as JSON. It is free and shows
//! public facts only.

mod due;
mod of_summaries;

pub(super) use due::Due;
pub(super) use of_summaries::{OfSummaries, SummariesMade};

use super::budget_left::budget_left;
use super::expected_error::{after, percent};
use super::made_reports::{self, MadeReports};
use super::notice::{Sql, cost, describe, noise, statement_lines, three_digits};
use super::rollup::{FromFiner, SLACK};
use super::shown_periods::ShownPeriods;
use super::useless::Usefulness;
use crate::aggregates::{Foreseen, Output};
use crate::analyze::KeyRule;
use crate::finish::quantile_95;
use crate::ir::{AggregateId, ReleaseId};
use crate::ledger::Balance;
use crate::mechanism::{Fixed, Loss};
use crate::policy::{Policy, Protection, SESSION_SETTINGS, SessionSettings, UnitStep, UselessMode};
use crate::postgres::create_index;
use crate::refusal::Refusal;
use crate::rewrite::{
    CoordinateFacts, EmittedStatement, Plan, ReleasePlan, RowStream, Widened, measure_deviation,
};

/// The errors of periods that were bought before, a line for each aggregate whose noise is known
/// without its value.
pub(super) fn noise_of_periods(shown: &ShownPeriods, plan: &Plan, policy: &Policy) -> Vec<String> {
    let Some(asked) = plan.periods() else {
        return Vec::new();
    };
    let table = &policy.tables[asked.table().0];
    let line = |(at, least, most): &(AggregateId, f64, f64)| {
        let (least, most) = (three_digits(*least), three_digits(*most));
        let range = match least == most {
            true => least,
            false => format!("{least} to {most}"),
        };
        format!(
            "periods of {}.{}: noise of aggregate {} in those that were bought: standard \
                deviation {range}",
            table.schema,
            table.name,
            at.ordinal()
        )
    };
    shown.noise.iter().map(line).collect()
}

/// The lines of EXPLAIN: the plan in words; each release's tree, sensitivity and noise, with its
/// SQL where it is asked for; the settings that differ from their defaults; the cost, and how much
/// of it is paid; the role's budget before and after.
pub(super) fn text(
    plan: &Plan,
    sql: Sql,
    session_settings: &SessionSettings,
    due: &Due,
    balance: &Balance,
    (delta, policy): (f64, &Policy),
) -> Vec<String> {
    let mut lines = vec![due.first_line(plan, balance)];
    lines.extend(describe(plan, delta, sql));
    lines.extend(made_reports::of(plan, policy).iter().map(MadeReports::line));
    let changed: Vec<String> = set(session_settings)
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    if !changed.is_empty() {
        lines.push(format!("Settings: {}", changed.join(", ")));
    }
    if plan.first_answer().is_some() {
        lines.push(format!(
            "Target error: this is a first answer; what it shows to be needed is bought next, for \
                epsilon {} at most in all",
            session_settings.most_of_wanted(policy)
        ));
    }
    let which = |release: ReleaseId| {
        if plan.releases().len() == 1 {
            String::new()
        } else {
            format!("release {}: ", release.0 + 1)
        }
    };
    for (at, release) in plan.releases().iter().enumerate() {
        if let Some(index) = &release.facts().index {
            let (which, ddl) = (which(ReleaseId(at)), create_index(index));
            lines.push(format!(
                "Index: {which}each {}'s rows would be read together after {ddl}",
                policy.privacy.unit
            ));
        }
    }
    if let Some(wide) = wider(plan, due) {
        lines.push(wide.describe());
        if sql == Sql::Shown {
            lines.extend(wide.statements().flat_map(statement_lines));
        }
    }
    lines.extend(due.periods.iter().map(|line| format!("By {line}")));
    lines.extend(due.same.iter().map(|(release, better)| {
        let than_bought = match *better > 1.0 + SLACK {
            true => format!(
                "; a bought answer would have {} times its noise",
                three_digits(*better)
            ),
            false => String::new(),
        };
        format!(
            "Reuse: {}the same was released before, and is shown again{than_bought}",
            which(*release)
        )
    }));
    lines.extend(due.summed.iter().map(|summed| {
        format!(
            "Reuse: {}{}",
            which(summed.release),
            summed.describe(policy)
        )
    }));
    lines.extend(due.check.iter().flat_map(|check| check.lines(sql)));
    lines.extend(due.summaries.lines());
    if !due.same.is_empty() || !due.summed.is_empty() {
        lines.push(format!("Cost now: {}", price(&due.loss, delta)));
    }
    lines.extend(price_of_looks(due, balance));
    lines.extend(usefulness(&due.useful, session_settings.useless));
    lines.push(budget(&due.loss, balance));
    lines
}

/// The charge if looks see too few units, in words; `None` where the question would pay for no
/// look.
fn price_of_looks(due: &Due, balance: &Balance) -> Option<String> {
    let after = after(balance, due.at_first).filter(|_| due.at_first != due.loss)?;
    Some(format!(
        "If looks see too few units: {} of your budget is charged, and the answer is refused",
        percent(balance.fraction_left() - after)
    ))
}

/// The wider plan that would be bought instead.
fn wider<'p>(plan: &'p Plan, due: &Due) -> Option<&'p Widened> {
    let is_bought = due.widens && !due.loss.is_zero() && !due.is_compared();
    plan.bought_instead().filter(|_| is_bought)
}

/// The rest of the role's budget, before and after.
pub fn budget(loss: &Loss, balance: &Balance) -> String {
    match after(balance, *loss) {
        _ if loss.is_zero() => format!("Budget: {}", budget_left(balance)),
        Some(after) => format!(
            "Budget: {}; after this query {:.2} %",
            budget_left(balance),
            after * 100.0
        ),
        None => format!(
            "Budget: {}; this query does not fit it",
            budget_left(balance)
        ),
    }
}

/// How a useless question would be answered, and which settings would help instead.
fn usefulness(useful: &Usefulness, mode: UselessMode) -> Vec<String> {
    let Usefulness { useless, warnings } = useful;
    let mut lines = Vec::new();
    if let Some(refusal) = useless {
        let then = match mode {
            UselessMode::Refuse => "it is refused, at no cost",
            UselessMode::Warn => "it is answered with a warning",
            UselessMode::Allow => "it is answered all the same",
        };
        lines.push(format!("Useless: {}; {then}", refusal.message));
        lines.extend(refusal.hint.iter().map(|hint| format!("  Hint: {hint}")));
    }
    let few = warnings.iter().map(|warning| &warning.message);
    lines.extend(few.map(|message| format!("Warning: {message}")));
    lines
}

/// EXPLAIN (FORMAT JSON): an array of one document. Keys are never renamed; later versions may add
/// some.
///
/// `releases` (each with `unit`: its name, `columns` and `rows`; `tables`: `name`, `protection`,
/// for private ones `rows_per_unit` and the `path` to the unit; `keys`; `aggregates`; `sums`:
/// `what`, `lower`, `upper`, `standard_deviation`; `sensitivity` in rows and its `norm`;
/// `mechanism`, `groups_per_unit`, `description`, `sql`, `noise`, `cautions`, `no_row`: why no row
/// can match, and `index`: the statement that makes the index that would help), `middle_queries`,
/// `outer_query`, `public`, `reports` (those that pgveil made: `columns`, `mechanism`, `odds` of
/// 2^64 words, `epsilon`, which is that of all reports of a value, and `epsilon_of_one` or null),
/// `settings`, `first_answer` (whether only this answer shows what
/// `pgveil.target_error` needs, which is bought next), `errors` (of each aggregate of the answer
/// that the role would get, from stored answers or bought: `release`, `aggregate`, `name`,
/// `half_width_95`, what that `is`, and the `periods` that it is of, if not those that are bought;
/// the errors in `releases` are those of bought answers), `refused` (null, or why it would be
/// refused, at no cost), `cost` (`epsilon` null where there is no
/// pure one), `cost_text`, `reuse` (each release that is paid for: its number from 0 as `release`;
/// `from`: `same`, `finer` or `summary`, which `summary` names; of the last two the most groups
/// that are summed, `groups`, how many times a bought answer's error its own is, `error_ratio`, and
/// for `aggregates` the
/// `standard_deviation` that they have and would have, `bought`), `widened` (null, or the `columns`
/// whose values are all bought, how many `groups` these are, and the `sql` that runs), `receivable`
/// (the summaries that would answer it: `summary`, `epsilon`, `mu`), `if_received` (null, or the
/// `summaries`, the `errors` and the `share_of_budget` of the answer where these were made),
/// `selections` (the summaries
/// whose selected sets the role has not received: `summary`, `mu`), `summaries_lack` (what other
/// summaries of the tables lack to answer it), `periods` (of a question by
/// periods: a sentence each on which are held, bought and left out; the plan is then that of the
/// ones that are bought), `check` (null, or how the answer of a summary is compared with the rows)
/// and `check_sql` (the statement that does it), `useless`
/// (null, or the `message` and the `hint` of a question that the noise would hide), `cost_now` (as
/// `cost`, of what is not paid for), `budget_left` and `budget_left_after` (fractions; null: does
/// not fit).
pub(super) fn json(
    plan: &Plan,
    session_settings: &SessionSettings,
    due: &Due,
    balance: &Balance,
    (delta, policy): (f64, &Policy),
) -> Vec<String> {
    let settings: serde_json::Map<String, serde_json::Value> = set(session_settings)
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let same = due
        .same
        .iter()
        .map(|(at, _)| serde_json::json!({ "release": at.0, "from": "same" }));
    let [receivable, selections, lacks] = due.summaries.to_json();
    let document = serde_json::json!([{
        "releases": plan.releases().iter().map(|r| release(r, policy)).collect::<Vec<_>>(),
        "middle_queries": plan.middles().iter().map(|m| m.query.to_string()).collect::<Vec<_>>(),
        "outer_query": plan.outer().to_string(),
        "public": plan.releases().is_empty(),
        "reports": made_reports::of(plan, policy).iter().map(MadeReports::json).collect::<Vec<_>>(),
        "settings": settings,
        "first_answer": plan.first_answer().is_some(),
        "errors": due.errors.to_json(),
        "refused": due.refusal_words(),
        "cost": components(&plan.loss()),
        "cost_text": price(&plan.loss(), delta),
        "reuse": same.chain(due.summed.iter().map(summed_up)).collect::<Vec<_>>(),
        "widened": wider(plan, due).map(widened_json),
        "receivable": receivable,
        "selections": selections,
        "if_received": due.summaries.if_made.as_ref().map(SummariesMade::to_json),
        "summaries_lack": lacks,
        "periods": due.periods,
        "check": due.check.as_ref().map(|check| &check.words),
        "check_sql": due.check.as_ref().and_then(|check| check.sql.as_ref()),
        "useless": due.useful.useless.as_ref().map(refusal_json),
        "cost_now": components(&due.loss),
        "cost_at_first": components(&due.at_first),
        "budget_left": balance.fraction_left(),
        "budget_left_after": after(balance, due.loss),
    }]);
    vec![serde_json::to_string_pretty(&document).unwrap_or_default()]
}

fn widened_json(wide: &Widened) -> serde_json::Value {
    let sql: Vec<_> = wide.statements().map(EmittedStatement::sql).collect();
    serde_json::json!({ "columns": wide.columns, "groups": wide.groups(), "sql": sql })
}

fn refusal_json(refusal: &Refusal) -> serde_json::Value {
    serde_json::json!({ "message": refusal.message, "hint": refusal.hint })
}

fn price(loss: &Loss, delta: f64) -> String {
    if loss.is_zero() {
        "nothing".to_owned()
    } else {
        cost(loss, delta)
    }
}

fn summed_up(summed: &FromFiner) -> serde_json::Value {
    let FromFiner {
        release,
        groups,
        worse,
        errors,
        cut: _,
        source: _,
    } = summed;
    let error = |(at, own, bought): &(AggregateId, f64, f64)| {
        serde_json::json!({
            "aggregate": at,
            "standard_deviation": own,
            "bought": bought,
        })
    };
    let aggregates: Vec<_> = errors.iter().map(error).collect();
    serde_json::json!({
        "release": release.0,
        "from": if summed.summary().is_some() { "summary" } else { "finer" },
        "summary": summed.summary(),
        "groups": groups,
        "error_ratio": worse,
        "aggregates": aggregates,
    })
}

fn release(plan: &ReleasePlan, policy: &Policy) -> serde_json::Value {
    let keys = plan.keys().iter().map(|(data_type, rule)| {
        let (rule, values) = match rule {
            KeyRule::Domain(values) => ("listed", Some(values.len())),
            KeyRule::Threshold => ("threshold", None),
        };
        serde_json::json!({ "type": data_type.to_string(), "rule": rule, "values": values })
    });
    let mechanism = plan.price().map(|price| price.mechanism);
    let aggregates = plan.outputs().iter().map(|(output, data_type)| {
        let deviation = deviation(plan, output);
        let half_width = deviation
            .zip(mechanism)
            .map(|(deviation, mechanism)| deviation * quantile_95(mechanism));
        serde_json::json!({
            "type": data_type.to_string(),
            "standard_deviation": deviation,
            "half_width_95": half_width,
            "estimator": output.estimator(),
        })
    });
    let facts = plan.facts();
    let effects = plan.price().and_then(|price| price.effects.as_ref());
    let tables = plan
        .relied_on()
        .iter()
        .filter_map(|known| table(&known.schema, &known.name, policy));
    serde_json::json!({
        "unit": { "name": policy.privacy.unit, "columns": facts.unit, "rows": facts.rows_per_unit },
        "tables": tables.collect::<Vec<_>>(),
        "sums": facts.sums.iter().map(coordinate_json).collect::<Vec<_>>(),
        "sensitivity": facts.sensitivity,
        "norm": plan.price().map(|price| price.norm().name()),
        "effects": effects.map(|by| by.effects.measured_effects().len()),
        "keys": keys.collect::<Vec<_>>(),
        "aggregates": aggregates.collect::<Vec<_>>(),
        "mechanism": mechanism.map(|mechanism| mechanism.name().to_ascii_lowercase()),
        "groups_per_unit": plan.price().and_then(|price| price.groups_per_unit),
        "description": plan.description(),
        "sql": plan.statements().into_iter().map(EmittedStatement::sql).collect::<Vec<_>>(),
        "streams": plan.statements().into_iter().map(rows_of).collect::<Vec<_>>(),
        "noise": noise(plan, None),
        "no_row": plan.no_row(),
        "cautions": facts.cautions,
        "index": facts.index.as_ref().map(create_index),
    })
}

/// The rows that are read in place of the statement's, if they are.
fn rows_of(statement: &EmittedStatement) -> Option<&str> {
    statement.stream().map(RowStream::sql)
}

fn coordinate_json(summed: &CoordinateFacts) -> serde_json::Value {
    let CoordinateFacts {
        what,
        bounds,
        standard_deviation,
    } = summed;
    serde_json::json!({
        "what": what,
        "lower": bounds.map(|b| b.0),
        "upper": bounds.map(|b| b.1),
        "standard_deviation": standard_deviation,
    })
}

/// A table that the plan relies on, and how its rows lead to their unit.
fn table(schema: &str, name: &str, policy: &Policy) -> Option<serde_json::Value> {
    let table = policy
        .tables
        .iter()
        .find(|table| table.schema == schema && table.name == name)?;
    let full = format!("{schema}.{name}");
    Some(match &table.protection {
        Protection::Public => serde_json::json!({ "name": full, "protection": "public" }),
        Protection::Private(unit) => {
            let step = |step: &UnitStep| {
                format!(
                    "{} -> {}.{}.{}",
                    step.column, step.schema, step.table, step.referenced
                )
            };
            let path: Vec<String> = unit.path.iter().map(step).collect();
            serde_json::json!({
                "name": full,
                "protection": "private",
                "unit": unit.column,
                "path": path,
                "rows_per_unit": unit.rows_per_unit,
            })
        }
    })
}

/// The standard deviation of an aggregate's noise, where it does not depend on the data.
fn deviation(plan: &ReleasePlan, output: &Output) -> Option<f64> {
    match output.foreseen() {
        Foreseen::Measure(measure) => measure_deviation(plan, plan.measure(measure)),
        Foreseen::OverRows { .. } | Foreseen::FromAnswer | Foreseen::Chance => None,
        Foreseen::Fitted => None,
        Foreseen::DistinctValues { .. } | Foreseen::Choice { .. } | Foreseen::Exact => None,
    }
}

/// The settings that differ from their defaults.
fn set(session_settings: &SessionSettings) -> impl Iterator<Item = (&'static str, String)> {
    SESSION_SETTINGS
        .iter()
        .map(|setting| (setting, session_settings.show(setting.name)))
        .filter(|(setting, value)| *value != setting.default)
        .map(|(setting, value)| (setting.name, value))
}

fn components(loss: &Loss) -> serde_json::Value {
    serde_json::json!({
        "epsilon": loss.epsilon.map(Fixed::to_f64),
        "rho": loss.rho.to_f64(),
        "mu_squared": loss.mu_squared.to_f64(),
        "delta": loss.delta.to_f64(),
    })
}
