//! Overview: the proxy's state, the policy in force, the rest of the budgets, and the latest
//! decisions.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::budgets::{AccountView, accounts, decisions};
use super::view::{table, text};
use super::visitor::{BY_ITSELF, SignedInOperator};
use super::{Console, view};
use crate::engine::{Engine, Reach, Reached, Service};
use crate::ledger::{Error, now};
use crate::policy::Rights;
use crate::web::chart;

/// For everything that the page asks of other servers.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN_SECONDS: u32 = 30;
const DAY: i64 = 24 * 3600 * 1_000_000;

pub async fn page(
    visitor: SignedInOperator,
    RawQuery(query): RawQuery,
    State(console): State<Arc<Console>>,
) -> Response {
    let engine = console.engine();
    let state = states(&engine).await;
    let owned = match visitor.rights {
        Rights::Watch => None,
        Rights::Own => match owned(&engine).await {
            Ok(owned) => Some(owned),
            Err(error) => return console.failed(&visitor, "Overview", &error),
        },
    };
    let is_again = query.as_deref() == Some(BY_ITSELF);
    let page = console.page(&visitor, "Overview", |_| {
        html! {
            (health(&state))
            (facts(&engine, &console, visitor.rights))
            @if let Some((accounts, decided)) = &owned { (money(accounts, decided)) }
            p .note {
                @if is_again {
                    "This page loads again every " (AGAIN_SECONDS) " seconds. "
                    a href="/" { "Stop that" }
                } @else {
                    a href=(format!("/?{BY_ITSELF}")) {
                        "Load again every " (AGAIN_SECONDS) " seconds"
                    }
                    ", which does not keep the session from ending."
                }
            }
        }
    });
    if is_again {
        let refresh = format!("{AGAIN_SECONDS}; url=/?{BY_ITSELF}");
        return ([("refresh", refresh)], page).into_response();
    }
    page.into_response()
}

/// The servers that the proxy relies on, and their faults.
struct States {
    reached: Reached,
    changed: Result<Vec<String>, &'static str>,
}

async fn states(engine: &Engine) -> States {
    let (reached, changed) = tokio::join!(
        engine.reached(),
        tokio::time::timeout(PATIENCE, engine.changed_tables()),
    );
    let changed = match changed {
        Ok(Ok(changed)) => Ok(changed),
        // The text of the error may have the database's words; the log of `/readyz` has them.
        Ok(Err(_)) => Err("the database cannot be asked"),
        Err(_) => Err("no answer in time"),
    };
    States { reached, changed }
}

fn health(state: &States) -> Markup {
    let is_ready = state.reached.fault().is_none();
    html! {
        section aria-labelledby="health" {
            h2 #health { @if is_ready { "Ready" } @else { "Not ready" } }
            ul {
                @for (target, reach) in &state.reached.targets {
                    li .wrong[*reach != Reach::Reached] { (target.name()) ": " (reach.words()) }
                }
                @if let Some(height) = &state.reached.height {
                    li { "ledger: " (height.debits) " debits ever" }
                }
                @match &state.changed {
                    Ok(changed) if changed.is_empty() => li {
                        "tables: as they were when the policy was loaded"
                    },
                    Ok(changed) => @for name in changed {
                        li .wrong {
                            (name) ": its definition has changed since the policy was loaded; \
                            questions about it are refused until SIGHUP"
                        }
                    },
                    Err(why) => li .wrong { "tables: " (why) },
                }
            }
        }
    }
}

fn facts(engine: &Engine, console: &Console, rights: Rights) -> Markup {
    let loaded = engine.loaded().duration_since(UNIX_EPOCH);
    let loaded = loaded.unwrap_or_default().as_micros();
    let mut rows = vec![
        vec![text("pgveil"), text(env!("CARGO_PKG_VERSION"))],
        vec![text("PostgreSQL"), text(engine.server_version())],
        vec![
            text("Policy in force since"),
            text(view::minute(i64::try_from(loaded).unwrap_or(0))),
        ],
        vec![
            text("Sessions of roles"),
            text(engine.meter().open_sessions()),
        ],
        vec![
            text("Sessions of this console"),
            text(console.portal.sessions.count(std::time::Instant::now())),
        ],
    ];
    if rights == Rights::Own {
        let digest = &engine.policy().version;
        let short: String = digest.chars().take(12).collect();
        rows.push(vec![text("Meaning of the policy"), text(short)]);
    }
    for (pool, (used, size)) in engine.pools() {
        let name = format!("Connections to the {pool}");
        rows.push(vec![text(name), text(format!("{used} of {size} in use"))]);
    }
    html! {
        section aria-labelledby="facts" {
            h2 #facts { "This proxy" }
            (table("Facts", &["", ""], &[], &rows))
        }
    }
}

/// For the owner: every account, and decisions of the last day.
async fn owned(engine: &Engine) -> Result<(Vec<AccountView>, Vec<Vec<Markup>>), Error> {
    let now = now();
    let accounts = accounts(engine, 14, now).await?;
    let decided = engine.ledger().decisions().await?;
    let late = decided
        .iter()
        .filter(|decided| decided.microseconds > now - DAY);
    Ok((accounts, decisions(late)))
}

fn money(accounts: &[AccountView], decided: &[Vec<Markup>]) -> Markup {
    let bars: Vec<_> = accounts
        .iter()
        .map(|account| view::left(account.label(), account.balance.fraction_left()))
        .collect();
    html! {
        section aria-labelledby="left" {
            h2 #left { "Left of each budget, in per cent" }
            (chart::rows(&bars))
            p { a href="/budgets" { "History, forecast and freezing" } }
        }
        section aria-labelledby="decided" {
            h2 #decided { "Decisions of the last day" }
            @if decided.is_empty() { p { "None." } }
            @else { (table("Decisions", &["Time (UTC)", "What", "Who", "Why"], &[], decided)) }
        }
    }
}
