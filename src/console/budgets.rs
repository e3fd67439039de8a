//! Budgets: each account's spending over time, the rest and how long it lasts, and one button that
//! freezes it.

use std::sync::Arc;

use axum::extract::{Form, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::view::{minute, table, text_markup};
use super::visitor::{Owner, SignedInOperator};
use super::{Console, view};
use crate::calendar::MICROS_PER_DAY;
use crate::engine::{Engine, role_worth};
use crate::ledger::{Act, Balance, Decided, Decision, Error, now, period_start};
use crate::web::history_chart;
use crate::web::share;
use crate::web::spending;
use crate::web::spending::{Forecast, PACE_DAYS, forecast, list_spent, most_expensive};

/// The most debits that are read of one account: older ones are not drawn.
const DEBITS_MAX: u32 = 10_000;
const PACE: i64 = PACE_DAYS * MICROS_PER_DAY;
/// The most plans that are listed of one account.
const PLANS_MAX: usize = 3;
/// Letters of a reason.
const WHY_MAX: usize = 200;
/// All accounts, in the form.
const ALL: &str = "all";
const SPANS: [u16; 3] = [7, 30, 90];

/// An account as the owner sees it.
pub struct AccountView {
    /// `None`: the owner's own, over all roles.
    pub role: Option<String>,
    pub balance: Balance,
    /// How many queries of a role failed.
    failures: Option<u32>,
    course: Vec<(i64, f64)>,
    forecast: Forecast,
    most_expensive: Vec<(String, usize, f64)>,
}

impl AccountView {
    pub fn label(&self) -> &str {
        self.role.as_deref().unwrap_or("(owner, all roles)")
    }

    fn state(&self) -> &'static str {
        match (self.balance.frozen, self.balance.closed) {
            (true, _) => "frozen",
            (false, true) => "refused by the total",
            (false, false) => "open",
        }
    }
}

/// The owner's account first, then those of the policy's roles.
pub async fn accounts(engine: &Engine, days: u16, now: i64) -> Result<Vec<AccountView>, Error> {
    let ledger = engine.ledger();
    let from = now - i64::from(days) * MICROS_PER_DAY;
    let account = |role: Option<String>, balance: Balance, entries: &[_], failures| {
        let debits = list_spent(&balance, entries, |plan| ledger.plan_digest(plan).short());
        AccountView {
            role,
            course: spending::course(&balance, &debits, from, now),
            forecast: forecast(&balance, &debits, now),
            most_expensive: most_expensive(&debits, from, PLANS_MAX),
            balance,
            failures,
        }
    };
    // A forecast looks back over `PACE`, and a line begins with the period of its first day.
    let since = |renew| period_start(renew, from).unwrap_or(from).min(now - PACE);
    let owner = ledger.balance_owner().await?;
    let entries = ledger.spent_since(None, since(owner.renew), DEBITS_MAX);
    let entries = entries.await?;
    let mut found = vec![account(None, owner, &entries, None)];
    for role in &engine.policy().roles {
        let balance = ledger.balance(&role.name).await?;
        let from = since(balance.renew);
        let entries = ledger.spent_since(Some(&role.name), from, DEBITS_MAX);
        let entries = entries.await?;
        let failures = ledger.failures(&role.name).await?;
        let name = Some(role.name.clone());
        found.push(account(name, balance, &entries, Some(failures)));
    }
    Ok(found)
}

#[derive(Deserialize)]
pub struct Span {
    days: Option<u16>,
}

pub async fn page(
    Owner(visitor): Owner,
    Query(Span { days }): Query<Span>,
    State(console): State<Arc<Console>>,
) -> Response {
    if let Some(slow_down) = console.slows(&visitor) {
        return slow_down;
    }
    let days = days.filter(|days| SPANS.contains(days)).unwrap_or(SPANS[1]);
    let (engine, now) = (console.engine(), now());
    let found = match accounts(&engine, days, now).await {
        Ok(found) => found,
        Err(error) => return console.fail(&visitor, "Budgets", &error),
    };
    let decided = match engine.ledger().decisions().await {
        Ok(decided) => decisions(decided.iter().rev().take(50)),
        Err(error) => return console.fail(&visitor, "Budgets", &error),
    };
    let worth = match worth(&engine).await {
        Ok(worth) => worth,
        Err(error) => return console.fail(&visitor, "Budgets", &error),
    };
    let page = console.page(&visitor, "Budgets", |token| {
        html! {
            (balances(&found))
            (freezing(&found, token))
            (history(&found, days, now))
            @if !worth.is_empty() {
                section aria-labelledby="worth" {
                    h2 #worth { "What is left is worth" }
                    (table("Worth", &["Role", "Question", "Left"], &[], &worth))
                }
            }
            section aria-labelledby="decisions" {
                h2 #decisions { "Decisions" }
                @if decided.is_empty() { p { "None." } }
                @else {
                    (table("Decisions", &["Time (UTC)", "What", "Who", "Why"], &[], &decided))
                }
            }
        }
    });
    page.into_response()
}

fn balances(found: &[AccountView]) -> Markup {
    let row = |account: &AccountView| {
        let Balance {
            cap: _,
            spent: _,
            lifetime,
            renew,
            renews_at: _,
            granted: _,
            frozen: _,
            closed: _,
        } = &account.balance;
        let epsilon = lifetime.epsilon.map(|epsilon| epsilon.to_f64());
        vec![
            text_markup(account.label()),
            text_markup(share(account.balance.fraction_left())),
            text_markup(epsilon.map_or("-".to_owned(), |epsilon| format!("{epsilon:.4}"))),
            text_markup(format!("{:.4}", lifetime.mu_squared.to_f64().sqrt())),
            text_markup(match lifetime.delta.to_f64() {
                0.0 => "0".to_owned(),
                delta => format!("{delta:.1e}"),
            }),
            text_markup(account.failures.map_or("-".to_owned(), |n| n.to_string())),
            text_markup(match account.balance.renewal_date() {
                Some(date) => format!("{}, next {date}", renew.name()),
                None => renew.name().to_owned(),
            }),
            text_markup(account.state()),
            text_markup(account.forecast.words()),
        ]
    };
    let header = [
        "Account",
        "Left",
        "Epsilon spent",
        "Mu spent",
        "Delta spent",
        "Failed",
        "Renewed",
        "State",
        "Forecast",
    ];
    let rows: Vec<_> = found.iter().map(row).collect();
    html! {
        section aria-labelledby="balances" {
            h2 #balances { "Accounts" }
            (table("Accounts", &header, &[1, 2, 3, 4, 5], &rows))
            p .note {
                "Spent is since ever, and counts also where a budget is renewed. A forecast goes \
                on as the median day with spending of the last " (PACE_DAYS) "."
            }
        }
    }
}

fn freezing(found: &[AccountView], token: &str) -> Markup {
    html! {
        section aria-labelledby="freezing" {
            h2 #freezing { "Freeze" }
            p {
                "Nothing more is charged to a frozen account, from the next query on, in every \
                proxy of this ledger. Stored answers stay free. The ledger records who did it. "
                code { "pgveil budget unfreeze" } " takes it back, on the owner's machine."
            }
            @for (at, account) in found.iter().enumerate() {
                @if let Some(role) = &account.role {
                    (freeze_form(at, Some(role), account.balance.frozen, token))
                }
            }
            @if let Some(all) = found.iter().find(|account| account.role.is_none()) {
                hr;
                h3 { "Every role" }
                (freeze_form(found.len(), None, all.balance.frozen, token))
            }
        }
    }
}

/// The form of one account, with its own reason: the Enter key freezes no other.
fn freeze_form(at: usize, role: Option<&str>, is_frozen: bool, token: &str) -> Markup {
    let account = role.map_or(ALL.to_owned(), |role| format!("role {role}"));
    let whom = role.unwrap_or("all");
    html! {
        form method="post" action="/freeze" {
            (view::token_field(token))
            input type="hidden" name="account" value=(account);
            label for={ "why-" (at) } { "Why freeze " (whom) "? (for the record)" }
            input id={ "why-" (at) } name="why" maxlength=(WHY_MAX) required
                disabled[is_frozen] autocomplete="off";
            @if role.is_none() {
                label {
                    input type="checkbox" name="sure" value="yes" required disabled[is_frozen];
                    " Stop every role"
                }
            }
            div .buttons { button disabled[is_frozen] { "Freeze " (whom) } }
        }
    }
}

fn history(found: &[AccountView], days: u16, now: i64) -> Markup {
    html! {
        section aria-labelledby="history" {
            h2 #history { "Spent, in per cent of the budget" }
            nav aria-label="Days" {
                ul {
                    @for span in SPANS {
                        li {
                            a href=(format!("/budgets?days={span}"))
                                aria-current=[(span == days).then_some("true")] {
                                (span) " days"
                            }
                        }
                    }
                }
            }
            @for account in found { (of_account(account, days, now)) }
        }
    }
}

fn of_account(account: &AccountView, days: u16, now: i64) -> Markup {
    let (drawn, points) = history_chart::spent_chart(account.label(), &account.course, days, now);
    let plans: Vec<Vec<Markup>> = account
        .most_expensive
        .iter()
        .map(|(plan, times, part)| {
            vec![
                text_markup(plan),
                text_markup(times),
                text_markup(share(*part)),
            ]
        })
        .collect();
    html! {
        figure {
            figcaption { strong { (account.label()) } ": " (account.forecast.words()) }
            (drawn)
            @if !plans.is_empty() {
                (table("Most expensive plans in this period",
                    &["Plan", "Paid", "Of the budget"], &[1, 2], &plans))
            }
            (points)
        }
    }
}

/// What the rest of each role's budget is worth: counts of its private tables.
async fn worth(engine: &Engine) -> Result<Vec<Vec<Markup>>, Error> {
    let mut rows = Vec::new();
    for role in &engine.policy().roles {
        let balances = engine.ledger().balances(&role.name).await?;
        for (question, left) in role_worth(engine.policy(), role, &balances) {
            rows.push(vec![
                text_markup(&role.name),
                text_markup(question),
                text_markup(left),
            ]);
        }
    }
    Ok(rows)
}

/// Rows of a table of decisions.
pub fn decisions<'d>(decided: impl Iterator<Item = &'d Decided>) -> Vec<Vec<Markup>> {
    let row = |decided: &Decided| {
        let Decided {
            id: _,
            microseconds,
            decision: Decision { act, who, why },
        } = decided;
        vec![
            text_markup(minute(*microseconds)),
            text_markup(act.words()),
            text_markup(who),
            text_markup(why),
        ]
    };
    decided.map(row).collect()
}

#[derive(Deserialize)]
pub struct Freezing {
    token: String,
    account: String,
    why: String,
    /// Only in the form for all roles.
    sure: Option<String>,
}

/// Freezes an account: in the ledger, with who and why, or not at all.
pub async fn freeze(
    Owner(visitor): Owner,
    State(console): State<Arc<Console>>,
    Form(Freezing {
        token,
        account,
        why,
        sure,
    }): Form<Freezing>,
) -> Response {
    if let Some(refused) = console.refuses(&visitor, &token) {
        return refused;
    }
    let engine = console.engine();
    let role = match account.strip_prefix("role ") {
        Some(role) if engine.policy().role(role).is_some() => Some(role.to_owned()),
        None if account == ALL && sure.is_none() => {
            let wanted = "Tick the box to freeze every role.";
            return refuse(&console, &visitor, wanted);
        }
        None if account == ALL => None,
        Some(_) | None => return refuse(&console, &visitor, "The policy has no such role."),
    };
    let why = why.trim();
    if why.is_empty() || why.chars().count() > WHY_MAX || why.contains(char::is_control) {
        let wanted = format!("Say why, in one line of at most {WHY_MAX} letters.");
        return refuse(&console, &visitor, &wanted);
    }
    let decision = Decision {
        act: Act::Freeze { role },
        who: visitor.name.clone(),
        why: why.to_owned(),
    };
    let act = decision.act.words();
    let (origin, who) = (visitor.origin(), visitor.name.clone());
    // A client that leaves ends this answer, and not what was begun: the copy of the record follows
    // the ledger.
    let decided = tokio::spawn(async move {
        let decided = engine.ledger().decide_from(decision, origin).await;
        if decided.is_ok() {
            tracing::warn!(operator = who, act, "console act");
        }
        decided
    });
    match decided.await {
        Ok(Ok(())) => Redirect::to("/budgets").into_response(),
        Ok(Err(Error::Decision(why))) => refuse(&console, &visitor, &format!("Nothing: {why}.")),
        Ok(Err(error)) => console.fail(&visitor, "Not frozen", &error),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn refuse(console: &Console, visitor: &SignedInOperator, why: &str) -> Response {
    let page = console.page(visitor, "Not done", |_| view::SITE.message("Not done", why));
    (StatusCode::BAD_REQUEST, page).into_response()
}
