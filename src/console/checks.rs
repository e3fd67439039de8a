//! Checks: the present state, the findings of searches, and the commands that look deeper. The page
//! starts none of them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::Console;
use super::view::{minute, table, text_markup};
use super::visitor::Owner;
use crate::auto_bounds;
use crate::engine::Engine;
use crate::ledger::{Event, Record};
use crate::policy::File;

/// Acts among which the last audit is looked for.
const ACTS_MAX: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(5);
/// The commands that an owner runs on the proxy's machine.
const COMMANDS: [(&str, &str); 6] = [
    (
        "pgveil doctor",
        "Says what is right and wrong with the installation, and its remedy",
    ),
    ("pgveil check", "Compares the policy with its database"),
    (
        "pgveil check --against-data",
        "Shows shares of rows outside bounds and lists: exact, for \
        the owner alone",
    ),
    (
        "pgveil audit --record",
        "Attacks the policy's tables, filled with made-up rows, and compares what \
        was gained with what was charged",
    ),
    (
        "pgveil ledger verify",
        "Reads the whole ledger, and compares it with its witnesses",
    ),
    (
        "pgveil bounds",
        "Makes the searches that the policy leaves to auto, at a price",
    ),
];

pub async fn page(Owner(visitor): Owner, State(console): State<Arc<Console>>) -> Response {
    if let Some(slow_down) = console.slows(&visitor) {
        return slow_down;
    }
    let engine = console.engine();
    let changed = tokio::time::timeout(PATIENCE, engine.changed_tables()).await;
    let changed = changed.ok().and_then(Result::ok);
    let acts = match engine.ledger().acts(ACTS_MAX).await {
        Ok(acts) => acts,
        Err(error) => return console.fail(&visitor, "Checks", &error),
    };
    let in_force = console.in_force.current();
    let page = console.page(&visitor, "Checks", |_| {
        html! {
            (tables(changed.as_deref()))
            (list_searches(&engine))
            (last_audit(&acts, in_force.as_deref()))
            section aria-labelledby="commands" {
                h2 #commands { "Commands that look deeper" }
                p .note { "They run on the proxy's machine; this page starts none of them." }
                dl {
                    @for (command, what) in COMMANDS {
                        dt { code { (command) } }
                        dd { (what) }
                    }
                }
            }
        }
    });
    page.into_response()
}

fn tables(changed: Option<&[String]>) -> Markup {
    html! {
        section aria-labelledby="tables" {
            h2 #tables { "Tables" }
            @match changed {
                None => p .wrong { "The database cannot be asked now." },
                Some([]) => p { "Every table is as it was when the policy was loaded." },
                Some(names) => ul { @for name in names {
                    li .wrong {
                        (name) ": its definition has changed since the policy was loaded; \
                        questions about it are refused until SIGHUP"
                    }
                } },
            }
        }
    }
}

/// The last `pgveil audit --record`.
fn last_audit(acts: &[Record], in_force: Option<&File>) -> Markup {
    let last = acts.iter().find_map(|record| match &record.event {
        Event::Act { act, target, why } if act == "audit" => Some((record, target, why)),
        Event::Act { .. } | Event::Statement(_) | Event::Login => None,
    });
    html! {
        section aria-labelledby="audited" {
            h2 #audited { "The last audit" }
            @match last {
                None => p {
                    "None is among the last " (ACTS_MAX) " acts: "
                    code { "pgveil audit --record" } " keeps one."
                },
                Some((record, digest, verdict)) => {
                    p { (minute(record.microseconds)) " UTC, by " (record.name) ": " (verdict) "." }
                    @match in_force {
                        Some(file) if file.digest.to_string() == *digest => p .note {
                            "Of the policy in force."
                        },
                        Some(_) => p .wrong { "Of another policy than the one in force." },
                        None => p .note { "Of the policy of SHA-256 " code { (digest) } "." },
                    }
                }
            }
        }
    }
}

fn list_searches(engine: &Engine) -> Markup {
    let policy = engine.policy();
    let rows: Vec<Vec<Markup>> = policy
        .searches
        .iter()
        .map(|search| vec![text_markup(auto_bounds::search_name(policy, search))])
        .collect();
    html! {
        section aria-labelledby="searches" {
            h2 #searches { "Searches" }
            @if rows.is_empty() {
                p { "The policy leaves no bounds to " code { "auto" } "." }
            } @else {
                p { "All were made; the page Policy reads out what they found." }
                (table("Searched", &["What"], &[], &rows))
            }
        }
    }
}
