//! Login and logout.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Form, State};
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use zeroize::Zeroizing;

use super::visitor::{SignedInOperator, origin};
use super::{Console, is_unchanged, view};
use crate::engine::Service;
use crate::ledger::{Event, Record, short_name};
use crate::policy::Operator;
use crate::web::login::{Credentials, LoginAttempt, LoginRefusal, is_vouched};
use crate::web::server::Peer;

pub async fn form() -> Html<String> {
    Html(view::SITE.login(None, None).into_string())
}

/// Compares the password, and begins a session.
pub async fn enter(
    State(console): State<Arc<Console>>,
    Extension(peer): Extension<Peer>,
    Form(Credentials { name, password }): Form<Credentials>,
) -> Response {
    let shown = short_name(&name);
    let begun = begin_session(&console, &peer, name, Zeroizing::new(password)).await;
    console.exchange.meter().login(begun.is_ok());
    match begun {
        Ok(secret) => {
            tracing::info!(operator = shown, address = %peer.address, "console session opened");
            let cookie = console.portal.cookie.set(&secret);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(LoginRefusal {
            status,
            why,
            ending,
            is_recorded,
        }) => {
            tracing::warn!(
                operator = shown,
                address = %peer.address,
                sqlstate = ending.sqlstate(),
                reason = why,
                "console login refused"
            );
            if is_recorded {
                let record = attempt(&shown, &peer).with_ending(ending);
                console.engine().ledger().record(record).await;
            }
            let page = view::SITE.login(Some(&why), None);
            (status, Html(page.into_string())).into_response()
        }
    }
}

/// The secret of a new session.
async fn begin_session(
    console: &Console,
    peer: &Peer,
    name: String,
    password: Zeroizing<String>,
) -> Result<String, LoginRefusal> {
    let engine = console.engine();
    let policy = engine.policy();
    let operator = policy.operator(&name).cloned();
    let is_vouched =
        |operator: &Operator| is_vouched(operator.certificate, &operator.name, &peer.names);
    let tried = LoginAttempt {
        password,
        address: peer.address,
        stored: operator.as_ref().map(|operator| operator.verifier.clone()),
        verifiers: policy
            .operators
            .iter()
            .map(|who| who.verifier.clone())
            .collect(),
        is_vouched: operator.as_ref().is_some_and(is_vouched),
        name,
    };
    console.portal.door.enter(tried).await?;
    let engine = console.engine();
    // Taken from the policy again: a reload may have come meanwhile.
    let operator = operator.filter(|operator| is_unchanged(&engine, operator));
    let operator =
        operator.ok_or_else(|| LoginRefusal::unable("The policy was reloaded. Try again."))?;
    // Who comes in is in the record before anything is shown.
    let recorded = attempt(&operator.name, peer);
    if engine.ledger().record_act(recorded).await.is_err() {
        return Err(LoginRefusal::unable(
            "The ledger cannot record the login now.",
        ));
    }
    let begun = console
        .portal
        .sessions
        .begin(operator, peer.address, Instant::now());
    begun.ok_or_else(|| LoginRefusal::unable("The operating system gives no randomness now."))
}

/// The record of a login, as of one that went well.
fn attempt(name: &str, peer: &Peer) -> Record {
    Record::now(name, 0, origin(peer.address), Event::Login)
}

/// Ends the session. A form of the same origin is enough: a page that the browser kept from before
/// can end the session too.
pub async fn leave(visitor: SignedInOperator, State(console): State<Arc<Console>>) -> Response {
    console.portal.sessions.end(visitor.session, Instant::now());
    tracing::info!(operator = visitor.name, address = %visitor.address, "console session ended");
    let cookie = console.portal.cookie.end();
    ([(SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
