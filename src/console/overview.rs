//! Overview: the proxy's state, the policy in force, the rest of the budgets, open sessions, and
//! the latest acts.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::budgets::{AccountView, accounts};
use super::view::{table, text_markup};
use super::visitor::{BY_ITSELF, SignedInOperator};
use super::{Console, view};
use crate::engine::{Engine, Reach, Reached, Service};
use crate::ledger::{Error, Event, Origin, Record, now};
use crate::policy::{Rights, Role};
use crate::web::chart;

/// For everything that the page asks of other servers.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN_SECONDS: u32 = 30;
/// Acts that are read; those of the last day are shown.
const ACTS_MAX: u32 = 100;
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
        Rights::Own => match for_owner(&engine).await {
            Ok(owned) => Some(owned),
            Err(error) => return console.fail(&visitor, "Overview", &error),
        },
    };
    let is_again = query.as_deref() == Some(BY_ITSELF);
    let page = console.page(&visitor, "Overview", |_| {
        html! {
            (health(&state))
            (facts(&engine, &console, visitor.rights))
            @if let Some((accounts, done)) = &owned {
                (money(accounts))
                (sessions(&engine))
                (acts(done))
            }
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
        engine.check(),
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
    let loaded = engine.loaded_at().duration_since(UNIX_EPOCH);
    let loaded = loaded.unwrap_or_default().as_micros();
    let mut rows = vec![
        vec![
            text_markup("pgveil"),
            text_markup(env!("CARGO_PKG_VERSION")),
        ],
        vec![
            text_markup("PostgreSQL"),
            text_markup(engine.server_version()),
        ],
        vec![
            text_markup("Policy in force since"),
            text_markup(view::minute(i64::try_from(loaded).unwrap_or(0))),
        ],
        vec![
            text_markup("Sessions of roles"),
            text_markup(engine.meter().open_sessions()),
        ],
        vec![
            text_markup("Sessions of this console"),
            text_markup(console.portal.sessions.count(std::time::Instant::now())),
        ],
    ];
    if rights == Rights::Own {
        let digest = &engine.policy().version;
        let short: String = digest.chars().take(12).collect();
        rows.push(vec![
            text_markup("Meaning of the policy"),
            text_markup(short),
        ]);
    }
    for (pool, in_use) in engine.pools() {
        let name = format!("Connections to the {pool}");
        rows.push(vec![
            text_markup(name),
            text_markup(format!("{} of {} in use", in_use.used, in_use.size)),
        ]);
    }
    html! {
        section aria-labelledby="facts" {
            h2 #facts { "This proxy" }
            (table("Facts", &["", ""], &[], &rows))
        }
    }
}

/// For the owner: every account, and the acts of the last day, newest first.
async fn for_owner(engine: &Engine) -> Result<(Vec<AccountView>, Vec<Vec<Markup>>), Error> {
    let now = now();
    let accounts = accounts(engine, 14, now).await?;
    let acts = engine.ledger().acts(ACTS_MAX).await?;
    let late = acts.iter().filter(|act| act.microseconds > now - DAY);
    Ok((accounts, late.filter_map(act).collect()))
}

/// A row of the acts.
fn act(record: &Record) -> Option<Vec<Markup>> {
    let Event::Act { act, target, why } = &record.event else {
        return None;
    };
    let Origin { via, address, .. } = &record.origin;
    let address = address.map(|address| address.to_string());
    let from = [Some(via.name().to_owned()), address];
    let from: Vec<String> = from.into_iter().flatten().collect();
    Some(vec![
        text_markup(view::minute(record.microseconds)),
        text_markup(&record.name),
        text_markup(format!("{act} {target}")),
        text_markup(why),
        text_markup(from.join(" ")),
    ])
}

fn sessions(engine: &Engine) -> Markup {
    let meter = engine.meter();
    let roles = engine.policy().roles.iter();
    let row = |role: &Role| {
        vec![
            text_markup(&role.name),
            text_markup(meter.sessions_of(&role.name)),
        ]
    };
    let rows: Vec<Vec<Markup>> = roles.map(row).collect();
    html! {
        section aria-labelledby="sessions" {
            h2 #sessions { "Open sessions" }
            (table("Open sessions", &["Role", "Sessions"], &[1], &rows))
            p .note { code { "SHOW SESSIONS" } " in the admin database lists each of them." }
        }
    }
}

fn acts(done: &[Vec<Markup>]) -> Markup {
    let columns = ["Time (UTC)", "Who", "What", "Why", "From"];
    html! {
        section aria-labelledby="acts" {
            h2 #acts { "Acts of the last day" }
            @if done.is_empty() { p { "None." } }
            @else { (table("Acts", &columns, &[], done)) }
            @if done.len() == ACTS_MAX as usize { p .note { "The newest " (ACTS_MAX) "." } }
        }
    }
}

fn money(accounts: &[AccountView]) -> Markup {
    let bars: Vec<_> = accounts
        .iter()
        .map(|account| view::left_bar(account.label(), account.balance.fraction_left()))
        .collect();
    html! {
        section aria-labelledby="left" {
            h2 #left { "Left of each budget, in per cent" }
            (chart::rows(&bars))
            p { a href="/budgets" { "History, forecast and freezing" } }
        }
    }
}
