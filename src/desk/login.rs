//! Login and logout of a role.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::visitor::{Analyst, Visitor};
use super::{Desk, is_unchanged, view};
use crate::engine::Service;
use crate::ledger::{Event, Origin, Record, Via, short_name};
use crate::policy::Role;
use crate::refusal::reason;
use crate::web::login::{Shut, Try, is_vouched};
use crate::web::server::Peer;

/// The pages' application name in the record.
const APPLICATION: &str = "pgveil desk";

pub async fn form() -> Html<String> {
    Html(view::SITE.login(None).into_string())
}

#[derive(Deserialize)]
pub struct Credentials {
    name: String,
    password: String,
}

/// Compares the password, and begins a session.
pub async fn enter(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    Form(Credentials { name, password }): Form<Credentials>,
) -> Response {
    let shown = short_name(&name);
    let begun = begun(&desk, &peer, name, Zeroizing::new(password)).await;
    desk.exchange.meter().login(begun.is_ok());
    match begun {
        Ok(secret) => {
            tracing::info!(role = shown, address = %peer.address, "desk session opened");
            let cookie = desk.portal.cookie.set(&secret);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(Shut {
            status,
            why,
            is_recorded,
        }) => {
            tracing::info!(role = shown, address = %peer.address, "desk login refused");
            if is_recorded {
                let sqlstate = reason::WRONG_PASSWORD.sqlstate();
                let record = Record::now(&shown, 0, origin(&peer), Event::Login);
                desk.exchange.record(record.ending(sqlstate)).await;
            }
            (status, Html(view::SITE.login(Some(&why)).into_string())).into_response()
        }
    }
}

/// The secret of a new session.
async fn begun(
    desk: &Desk,
    peer: &Peer,
    name: String,
    password: Zeroizing<String>,
) -> Result<String, Shut> {
    let engine = desk.engine();
    let policy = engine.policy();
    let role = policy.role(&name).cloned();
    let is_vouched = |role: &Role| is_vouched(role.certificate, &role.name, &peer.names);
    let tried = Try {
        password,
        address: peer.address,
        stored: role.as_ref().map(|role| role.verifier.clone()),
        verifiers: policy.roles.iter().map(|r| r.verifier.clone()).collect(),
        is_vouched: role.as_ref().is_some_and(is_vouched),
        name,
    };
    desk.portal.door.enter(tried).await?;
    let unable = |why: &str| Shut::new(StatusCode::SERVICE_UNAVAILABLE, why);
    let reloaded = || unable("The policy was reloaded. Try again.");
    let role = role.ok_or_else(reloaded)?;
    // Sessions that have ended give back their places first.
    desk.sweep();
    let seat = desk
        .commons
        .seat(&*desk.exchange, &role.name, origin(peer), desk.is_encrypted)
        .map_err(|refusal| unable(&refusal.message))?;
    let process = seat.process();
    let analyst = Analyst::new(seat, role.verifier, role.certificate);
    // A reload may have come while the password was compared.
    if !is_unchanged(&desk.engine(), &analyst) {
        return Err(reloaded());
    }
    let record = Record::now(&role.name, process, origin(peer), Event::Login);
    desk.exchange.record(record).await;
    let sessions = &desk.portal.sessions;
    let begun = sessions.begin(analyst, peer.address, Instant::now());
    begun.ok_or_else(|| unable("The operating system gives no randomness now."))
}

/// The record's origin for a request.
fn origin(peer: &Peer) -> Origin {
    Origin {
        via: Via::Desk,
        address: Some(peer.address),
        application: APPLICATION.to_owned(),
        actor: None,
    }
}

#[derive(Deserialize)]
pub struct Leaving {
    token: String,
}

/// Ends the session.
pub async fn leave(
    visitor: Visitor,
    State(desk): State<Arc<Desk>>,
    Form(Leaving { token }): Form<Leaving>,
) -> Response {
    if let Some(refused) = desk.refuses(&visitor, &token) {
        return refused;
    }
    desk.portal.sessions.end(visitor.session, Instant::now());
    tracing::info!(role = visitor.analyst.seat.role(), "desk session ended");
    let cookie = desk.portal.cookie.end();
    ([(SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
