//! My budget: the role's spending over time, the rest, and how long it lasts. The owner's account
//! and those of other roles are not here.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::Desk;
use super::visitor::AnalystRequest;
use crate::calendar::MICROS_PER_DAY;
use crate::engine::percent;
use crate::ledger::{Balance, Entry, Error, now};
use crate::web;
use crate::web::page::{minute, table, text_markup};
use crate::web::spending::{course, forecast, list_spent};

/// Debits that are read.
const DEBITS_MAX: u32 = 10_000;
/// Debits that are listed.
const LISTED_MAX: usize = 100;
const DAYS: u16 = 30;

pub async fn page(visitor: AnalystRequest, State(desk): State<Arc<Desk>>) -> Response {
    if let Some(slow_down) = desk.slows(&visitor) {
        return slow_down;
    }
    let role = visitor.analyst.session.role();
    let most = desk.engine().policy().limits.failures;
    match read(&desk, role).await {
        Ok((balance, entries, failures)) => {
            let body = budget(&balance, &entries, (failures, most));
            desk.page(&visitor, "My budget", |_| body).into_response()
        }
        Err(error) => desk.fail(&visitor, &error),
    }
}

async fn read(desk: &Desk, role: &str) -> Result<(Balance, Vec<Entry>, u32), Error> {
    let engine = desk.engine();
    let ledger = engine.ledger();
    Ok((
        ledger.balance(role).await?,
        ledger.history(role, DEBITS_MAX).await?,
        ledger.failures(role).await?,
    ))
}

fn budget(balance: &Balance, entries: &[Entry], failures: (u32, u32)) -> Markup {
    let now = now();
    // As `pgveil.history` names them.
    let debits = list_spent(balance, entries, |plan| plan.short());
    let from = now - i64::from(DAYS) * MICROS_PER_DAY;
    let course = course(balance, &debits, from, now);
    let (drawn, points) = web::history_chart::spent_chart("your budget", &course, DAYS, now);
    let listed: Vec<Vec<Markup>> = debits
        .iter()
        .rev()
        .take(LISTED_MAX)
        .map(|debit| {
            vec![
                text_markup(minute(debit.microseconds)),
                text_markup(percent(debit.share)),
                html! { code { (debit.plan) } },
            ]
        })
        .collect();
    html! {
        section aria-labelledby="left" {
            h2 #left { "Left: " (percent(balance.fraction_left())) }
            (web::chart::rows(&[web::chart::Bar {
                label: "Left, in per cent".to_owned(),
                value: 100.0 * balance.fraction_left(),
                interval: None,
                exact: None,
                is_new: false,
            }]))
            (table("The account", &["", ""], &[], &account(balance, failures)))
            p .note {
                "Epsilon and mu add up the same answers in two ways; what is left is counted in \
                the one that has more left. Delta is spent where groups are found by a threshold. \
                A query that fails on the database after it was charged may show something of the \
                rows, so these are counted, and limited."
            }
            p .note { "Forecast: " (forecast(balance, &debits, now).words()) "." }
        }
        section aria-labelledby="history" {
            h2 #history { "Spent, in per cent of the budget" }
            (drawn)
            (points)
            @if listed.is_empty() { p { "Nothing was spent yet." } }
            @else {
                (table("Debits, newest first", &["Time (UTC)", "Of the budget", "Plan"], &[1],
                    &listed))
                p .note { "All of them: " code { "SELECT * FROM pgveil.history" } "." }
            }
        }
    }
}

fn account(balance: &Balance, (failures, most): (u32, u32)) -> Vec<Vec<Markup>> {
    let spent = &balance.spent;
    let epsilon = spent.epsilon.map(|epsilon| epsilon.to_f64());
    let renewed = match balance.renewal_date() {
        Some(date) => format!("{}, next {date}", balance.renew.name()),
        None => balance.renew.name().to_owned(),
    };
    let rows = [
        (
            "Epsilon spent",
            epsilon.map_or("-".to_owned(), |epsilon| format!("{epsilon:.4}")),
        ),
        (
            "Mu spent",
            format!("{:.4}", spent.mu_squared.to_f64().sqrt()),
        ),
        ("Delta spent", format!("{:.1e}", spent.delta.to_f64())),
        (
            "Queries that failed",
            format!("{failures} of at most {most}"),
        ),
        ("Renewed", renewed),
        (
            "State",
            if balance.frozen { "frozen" } else { "open" }.to_owned(),
        ),
    ];
    rows.into_iter()
        .map(|(what, value)| vec![text_markup(what), text_markup(value)])
        .collect()
}
