//! Login and logout of a role.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::{Form, State};
use axum::http::HeaderMap;
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use zeroize::Zeroizing;

use super::visitor::{Analyst, AnalystRequest};
use super::{Desk, SESSIONS_MAX, is_unchanged, view};
use crate::engine::Service;
use crate::ledger::{Event, Origin, Record, Via, short_name};
use crate::policy::Role;
use crate::web::login::{Credentials, LoginAttempt, LoginRefusal, is_vouched};
use crate::web::server::Peer;
use crate::wire::PageSession;

/// The pages' application name in the record.
const APPLICATION: &str = "pgveil desk";

pub async fn form() -> Html<String> {
    Html(view::SITE.login(None, None).into_string())
}

/// Compares the password, and begins a session.
pub async fn enter(
    State(desk): State<Arc<Desk>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Form(Credentials { name, password }): Form<Credentials>,
) -> Response {
    let shown = short_name(&name);
    let before = desk.portal.cookie.of(&headers);
    let begun = begin_session(&desk, &peer, (name, Zeroizing::new(password)), before).await;
    desk.exchange.meter().login(begun.is_ok());
    match begun {
        Ok(secret) => {
            tracing::info!(role = shown, address = %peer.address, "desk session opened");
            let cookie = desk.portal.cookie.set(&secret);
            ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        Err(LoginRefusal {
            status,
            why,
            ending,
            is_recorded,
        }) => {
            tracing::info!(
                role = shown,
                address = %peer.address,
                sqlstate = ending.sqlstate(),
                reason = why,
                "desk login refused"
            );
            if is_recorded {
                let record = Record::now(&shown, 0, origin(&peer), Event::Login);
                desk.exchange.record(record.with_ending(ending)).await;
            }
            (
                status,
                Html(view::SITE.login(Some(&why), None).into_string()),
            )
                .into_response()
        }
    }
}

/// The secret of a new session. `before` is what the browser has of a session until now.
async fn begin_session(
    desk: &Desk,
    peer: &Peer,
    (name, password): (String, Zeroizing<String>),
    before: Option<&str>,
) -> Result<String, LoginRefusal> {
    let engine = desk.engine();
    let policy = engine.policy();
    let role = policy.role(&name).cloned();
    let is_vouched = |role: &Role| is_vouched(role.certificate, &role.name, &peer.names);
    let tried = LoginAttempt {
        password,
        address: peer.address,
        stored: role.as_ref().map(|role| role.verifier.clone()),
        verifiers: policy.roles.iter().map(|r| r.verifier.clone()).collect(),
        is_vouched: role.as_ref().is_some_and(is_vouched),
        name,
    };
    desk.portal.door.enter(tried).await?;
    let reloaded = || LoginRefusal::unable("The policy was reloaded. Try again.");
    let role = role.ok_or_else(reloaded)?;
    let session = take_place(desk, peer, &role.name, before)?;
    let process = session.process();
    let analyst = Analyst::new(session, role.verifier, role.certificate);
    // A reload may have come while the password was compared.
    if !is_unchanged(&desk.engine(), &analyst) {
        return Err(reloaded());
    }
    let record = Record::now(&role.name, process, origin(peer), Event::Login);
    desk.exchange.record(record).await;
    let sessions = &desk.portal.sessions;
    let begun = sessions.begin(analyst, peer.address, Instant::now());
    begun.ok_or_else(|| LoginRefusal::unable("The operating system gives no randomness now."))
}

/// A place for a session. Where the role has no other, that of its session that was idle longest,
/// and asks nothing now.
fn take_place(
    desk: &Desk,
    peer: &Peer,
    role: &str,
    before: Option<&str>,
) -> Result<PageSession, LoginRefusal> {
    let (sessions, now) = (&desk.portal.sessions, Instant::now());
    // Sessions that have ended give back their places first; so does that of the same browser.
    desk.sweep();
    if let Some(before) = before {
        sessions.end_own(before, role, now);
    }
    let may_end = |analyst: &Arc<Analyst>| !analyst.session.is_asking();
    while sessions.count_of(role, now) >= SESSIONS_MAX {
        if !sessions.end_idlest(role, may_end, now) {
            let why = "All sessions of this role are asking. Try again.";
            return Err(LoginRefusal::unable(why));
        }
    }
    let take = || {
        let exchange = &*desk.exchange;
        desk.commons
            .open_session(exchange, role, origin(peer), desk.is_encrypted)
    };
    let mut taken = take();
    while taken.is_err() && sessions.end_idlest(role, may_end, now) {
        taken = take();
    }
    taken.map_err(|refusal| LoginRefusal::of_refusal(&refusal))
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

/// Ends the session. A form of the same origin is enough: a page that the browser kept from before
/// can end the session too.
pub async fn leave(visitor: AnalystRequest, State(desk): State<Arc<Desk>>) -> Response {
    desk.portal.sessions.end(visitor.session, Instant::now());
    tracing::info!(role = visitor.analyst.session.role(), "desk session ended");
    let cookie = desk.portal.cookie.end();
    ([(SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}
