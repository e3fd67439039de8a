//! Explore: a question's cost for a role, and its error at each price. Nothing is charged, and
//! nothing runs.

use std::sync::Arc;

use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::visitor::{Owner, SignedInOperator};
use super::{Console, view};
use crate::engine::{Exploration, Explored, Unread};
use crate::ledger::{Asked as Recorded, Event, Origin, Record, Verdict};
use crate::mechanism::Loss;
use crate::refusal::{Refusal, sqlstate};
use crate::web::history_chart;
use crate::web::page::{refusal, statement};

pub async fn form(Owner(visitor): Owner, State(console): State<Arc<Console>>) -> Response {
    let asked = ExploreForm::default();
    shown(&console, &visitor, &asked, &html! {}).into_response()
}

#[derive(Deserialize, Default)]
pub struct ExploreForm {
    #[serde(default)]
    token: String,
    role: String,
    epsilon: String,
    sql: String,
}

/// Plans, as the role would.
pub async fn explored(
    visitor: Result<Owner, Response>,
    State(console): State<Arc<Console>>,
    Form(asked): Form<ExploreForm>,
) -> Response {
    // Browsers send CRLF as line ends.
    let asked = ExploreForm {
        sql: asked.sql.replace("\r\n", "\n"),
        ..asked
    };
    let visitor = match visitor {
        Ok(Owner(visitor)) => visitor,
        Err(refused) => return console.turned_away(refused, &asked.sql),
    };
    if let Some((status, why)) = console.hinders(&visitor, &asked.token, &asked.sql) {
        let page = shown(&console, &visitor, &asked, &view::hindered(&why));
        return (status, page).into_response();
    }
    // Each keeps a processor busy.
    let Ok(_turn) = console.exploring.try_acquire() else {
        let why = view::hindered("Another exploration is running. Try again.");
        let page = shown(&console, &visitor, &asked, &why);
        return (StatusCode::SERVICE_UNAVAILABLE, page).into_response();
    };
    let body = match of(&console, &visitor, &asked).await {
        Ok(explored) => found(&explored),
        Err(Trouble::Form(why)) => html! { p .refused role="alert" { (why) } },
        Err(Trouble::Refused(refused)) => refusal(&refused, &asked.sql),
    };
    shown(&console, &visitor, &asked, &body).into_response()
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

async fn of(
    console: &Console,
    visitor: &SignedInOperator,
    asked: &ExploreForm,
) -> Result<Explored, Trouble> {
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
    visitor: &SignedInOperator,
    asked: &ExploreForm,
    statement: &str,
    refused: Option<&Refusal>,
) {
    let engine = console.engine();
    let ledger = engine.ledger();
    let event = Event::Statement(Recorded {
        statement: ledger.statement_digest(statement),
        plan: None,
        tables: Vec::new(),
        shape: None,
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
    let sqlstate = refused.map_or(sqlstate::SUCCESSFUL_COMPLETION.code, |refusal| {
        refusal.sqlstate.as_str()
    });
    ledger.record(record.ending(sqlstate)).await;
}

fn shown(
    console: &Console,
    visitor: &SignedInOperator,
    asked: &ExploreForm,
    body: &Markup,
) -> Html<String> {
    let engine = console.engine();
    let roles: Vec<&str> = engine
        .policy()
        .roles
        .iter()
        .map(|role| role.name.as_str())
        .collect();
    console.page(visitor, "Explore", |token| {
        html! {
            section aria-labelledby="ask" {
                h2 #ask { "What would a question cost, and how far off would it be?" }
                p .note {
                    "The question is planned in the role's terms. Nothing is charged, nothing \
                    runs, and no row is read."
                }
                form method="post" action="/explore#found" {
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
                    (statement(&asked.sql))
                    div .buttons { button .primary { "Explore" } }
                }
            }
            (body)
        }
    })
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
            (history_chart::curve(curve))
            details open {
                summary { "The plan" }
                pre tabindex="0" { (rest.join("\n")) }
            }
        }
    }
}
