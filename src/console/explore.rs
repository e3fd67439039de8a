//! Explore: what a question would cost a role and how far off it would be, at each price. Nothing
//! is charged, and nothing runs.

use std::sync::Arc;

use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::view::{table, text};
use super::visitor::{Owner, Visitor};
use super::{Console, view};
use crate::engine::{Bought, Curve, Exploration, Explored, Unread, percent};
use crate::ledger::{Asked as Recorded, Event, Origin, Record, Verdict};
use crate::mechanism::Loss;
use crate::refusal::Refusal;
use crate::web::chart::{Plot, plot};
use crate::web::pointed;

pub async fn form(Owner(visitor): Owner, State(console): State<Arc<Console>>) -> Response {
    let asked = Asked::default();
    shown(&console, &visitor, &asked, &html! {})
}

#[derive(Deserialize, Default)]
pub struct Asked {
    #[serde(default)]
    token: String,
    role: String,
    epsilon: String,
    sql: String,
}

/// Plans, as the role would.
pub async fn explored(
    Owner(visitor): Owner,
    State(console): State<Arc<Console>>,
    Form(asked): Form<Asked>,
) -> Response {
    if let Some(refused) = console.refuses(&visitor, &asked.token) {
        return refused;
    }
    // Browsers send line ends of their own.
    let asked = Asked {
        sql: asked.sql.replace("\r\n", "\n"),
        ..asked
    };
    // Each keeps a processor busy.
    let Ok(_turn) = console.exploring.try_acquire() else {
        let why = "Another exploration is running. Try again.";
        let page = console.page(&visitor, "Explore", |_| view::message("Busy", why));
        return (StatusCode::SERVICE_UNAVAILABLE, page).into_response();
    };
    let body = match of(&console, &visitor, &asked).await {
        Ok(explored) => found(&explored),
        Err(Trouble::Form(why)) => html! { p .refused role="alert" { (why) } },
        Err(Trouble::Refused(refusal)) => refused(&refusal, &asked.sql),
    };
    shown(&console, &visitor, &asked, &body)
}

/// Why nothing is explored.
enum Trouble {
    Form(&'static str),
    /// As the role would be refused.
    Refused(Box<Refusal>),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

async fn of(console: &Console, visitor: &Visitor, asked: &Asked) -> Result<Explored, Trouble> {
    let engine = console.engine();
    let role = engine.policy().role(&asked.role);
    let role = role.ok_or(Trouble::Form("The policy has no such role."))?;
    let epsilon = match asked.epsilon.trim() {
        "" => None,
        text => match text.parse::<f64>() {
            Ok(epsilon) if epsilon.is_finite() && epsilon > 0.0 => Some(epsilon),
            Ok(_) | Err(_) => return Err(Trouble::Form("Epsilon is a number above zero.")),
        },
    };
    let explored = engine.explore(role, &asked.sql, epsilon).await;
    let Exploration { statement, outcome } = explored.map_err(|unread| match unread {
        Unread::NotOne => Trouble::Form("One SELECT is explored at a time."),
        Unread::Refused(refusal) => refusal.into(),
    })?;
    record(console, visitor, asked, &statement, outcome.as_ref().err()).await;
    Ok(outcome?)
}

/// Records who explored which statement, in whose terms.
async fn record(
    console: &Console,
    visitor: &Visitor,
    asked: &Asked,
    statement: &str,
    refused: Option<&Refusal>,
) {
    let engine = console.engine();
    let ledger = engine.ledger();
    let event = Event::Statement(Recorded {
        statement: ledger.statement_digest(statement),
        plan: None,
        tables: Vec::new(),
        verdict: match refused {
            Some(_) => Verdict::Refused,
            None => Verdict::Explained,
        },
        loss: Loss::ZERO,
    });
    let origin = Origin {
        actor: Some(visitor.name.clone()),
        ..visitor.origin()
    };
    let record = Record::now(&asked.role, 0, origin, event);
    let sqlstate = refused.map_or("00000", |refusal| refusal.sqlstate.as_str());
    ledger.record(record.ending(sqlstate)).await;
}

fn shown(console: &Console, visitor: &Visitor, asked: &Asked, body: &Markup) -> Response {
    let engine = console.engine();
    let roles: Vec<&str> = engine
        .policy()
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    let page = console.page(visitor, "Explore", |token| {
        html! {
            section aria-labelledby="ask" {
                h2 #ask { "What would a question cost, and how far off would it be?" }
                p .note {
                    "The question is planned in the role's terms. Nothing is charged, nothing \
                    runs, and no row is read."
                }
                form method="post" action="/explore" {
                    (view::hidden(token))
                    div .fields {
                        div {
                            label for="role" { "Role" }
                            select #role name="role" {
                                @for role in &roles {
                                    option value=(role) selected[*role == asked.role] { (role) }
                                }
                            }
                        }
                        div {
                            label for="epsilon" { "Epsilon (empty: the role's own)" }
                            input #epsilon name="epsilon" inputmode="decimal" autocomplete="off"
                                value=(asked.epsilon);
                        }
                    }
                    label for="sql" { "SQL, as in psql" }
                    textarea #sql name="sql" rows=(asked.sql.lines().count().clamp(4, 16))
                        spellcheck="false" autocomplete="off" autocapitalize="off" required {
                        "\n" (asked.sql)
                    }
                    div .buttons { button .primary { "Explore" } }
                }
            }
            (body)
        }
    });
    page.into_response()
}

fn found(explored: &Explored) -> Markup {
    let Explored { lines, curve } = explored;
    let (first, rest) = lines
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    html! {
        section #found aria-labelledby="price" {
            h2 #price { "Price and noise" }
            p .lead { (first) }
            (curved(curve))
            details open {
                summary { "The plan" }
                pre tabindex="0" { (rest.join("\n")) }
            }
        }
    }
}

/// Error against budget: the first aggregate as a line, all of them in the table.
fn curved(curve: &Curve) -> Markup {
    let names = curve.bought().next();
    let names: Vec<&str> = names
        .map(|bought| bought.errors.iter().map(|(name, _)| name.as_str()))
        .into_iter()
        .flatten()
        .collect();
    let line: Vec<(f64, f64)> = curve
        .bought()
        .filter_map(|bought| Some((100.0 * bought.share?, bought.first()?)))
        .collect();
    let highest = |of: fn(&(f64, f64)) -> f64| line.iter().map(of).fold(0.0, f64::max);
    let (widest, worst) = (highest(|point| point.0), highest(|point| point.1));
    let label = format!(
        "Half of the 95 % interval of {} against the share of the budget, at {} prices",
        names.first().unwrap_or(&"the answer"),
        line.len()
    );
    let header: Vec<String> = std::iter::once("Epsilon".to_owned())
        .chain(names.iter().map(|name| format!("{name}, 95 %")))
        .chain(["Of the budget", "Such answers", ""].map(str::to_owned))
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let numbers: Vec<usize> = (0..header.len() - 1).collect();
    let rows: Vec<Vec<Markup>> = curve
        .points
        .iter()
        .map(|point| {
            let default = if point.is_default {
                "the role's own"
            } else {
                ""
            };
            let mut row = vec![text(point.epsilon)];
            match &point.answer {
                Ok(bought) => row.extend(priced(bought, default)),
                Err(why) => {
                    row.extend((0..names.len() + 2).map(|_| text("")));
                    row.push(text(format!("not answered: {why}")));
                }
            }
            row
        })
        .collect();
    html! {
        @if line.len() > 1 && widest > 0.0 && worst > 0.0 {
            figure {
                figcaption { (label) }
                (plot(&Plot {
                    label: &label,
                    line: &line,
                    band: &[],
                    dots: &line,
                    level: None,
                    mark: None,
                    horizontal: (0.0, widest * 1.02),
                    vertical: (0.0, worst * 1.05),
                    below: "per cent of the budget",
                }))
            }
        }
        (table("Half of the 95 % interval at each price", &header, &numbers, &rows))
    }
}

fn priced(bought: &Bought, default: &str) -> Vec<Markup> {
    let useless = if bought.is_useless { "useless" } else { "" };
    let remark = [default, useless].map(str::to_owned);
    let remark: Vec<String> = remark.into_iter().filter(|part| !part.is_empty()).collect();
    let errors = bought.errors.iter().map(|(_, within)| text(within.text()));
    errors
        .chain([
            text(bought.share.map_or("too much".to_owned(), percent)),
            text(bought.answers),
            text(remark.join(", ")),
        ])
        .collect()
}

fn refused(refusal: &Refusal, sql: &str) -> Markup {
    let pointed = refusal.position.and_then(|at| pointed(at, sql));
    html! {
        section #found aria-labelledby="refused" {
            h2 #refused { "Refused" }
            div .refused role="alert" {
                p {
                    strong { (refusal.message) } " "
                    span .figure { "SQLSTATE " (refusal.sqlstate) }
                }
                @if let Some(pointed) = pointed { pre { (pointed) } }
                @if let Some(detail) = &refusal.detail { p { (detail) } }
                @if let Some(hint) = &refusal.hint { p { "Hint: " (hint) } }
            }
        }
    }
}
