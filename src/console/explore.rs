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
use crate::engine::Explored;
use crate::ledger::Origin;
use crate::refusal::Refusal;
use crate::web::history_chart;
use crate::web::page::{refusal, statement};
use crate::wire::question_of;

pub async fn form(Owner(visitor): Owner, State(console): State<Arc<Console>>) -> Response {
    let asked = ExploreForm::default();
    page(&console, &visitor, &asked, &html! {}).into_response()
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
pub async fn explore(
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
        let page = page(&console, &visitor, &asked, &view::hindrance(&why));
        return (status, page).into_response();
    }
    // Each keeps a processor busy.
    let Ok(_turn) = console.exploring.try_acquire() else {
        let why = view::hindrance("Another exploration is running. Try again.");
        let page = page(&console, &visitor, &asked, &why);
        return (StatusCode::SERVICE_UNAVAILABLE, page).into_response();
    };
    let body = match of(&console, &visitor, &asked).await {
        Ok(explored) => list_findings(&explored),
        Err(Trouble::Form(why)) => html! { p .refused role="alert" { (why) } },
        Err(Trouble::Refused(refused)) => refusal(&refused, &asked.sql),
    };
    page(&console, &visitor, &asked, &body).into_response()
}

/// Why nothing is explored.
enum Trouble {
    Form(&'static str),
    /// The refusal that the role would see.
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
    let origin = Origin {
        actor: Some(visitor.name.clone()),
        ..visitor.origin()
    };
    let read = |statements| question_of(&*engine, &role.name, statements);
    let text = (asked.sql.as_str(), epsilon);
    Ok(engine.explore(role, text, origin, read).await?)
}

fn page(
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
                    runs, and no row is read. " code { "SET pgveil.… = …;" } " may stand before \
                    it, as in a session of the role."
                }
                form method="post" action="/explore#found" {
                    (view::token_field(token))
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

fn list_findings(explored: &Explored) -> Markup {
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
