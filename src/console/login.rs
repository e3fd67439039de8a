//! Login and logout.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::response::{Html, IntoResponse, Redirect, Response};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::visitor::{Visitor, origin};
use super::{Console, view};
use crate::ledger::{Event, Record, short_name};
use crate::policy::{Certificate, Operator};
use crate::web::server::Peer;
use crate::wire::scram::is_password;

/// The SQLSTATE of a login that fails, as clients of PostgreSQL get it.
const INVALID_PASSWORD: &str = "28P01";
/// How long a try waits for others whose passwords are compared.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn form() -> Html<String> {
    Html(view::login(None).into_string())
}

#[derive(Deserialize)]
pub struct Credentials {
    name: String,
    password: String,
}

/// Compares the password, and begins a session.
pub async fn enter(
    State(console): State<Arc<Console>>,
    Extension(peer): Extension<Peer>,
    Form(Credentials { name, password }): Form<Credentials>,
) -> Response {
    let password = Zeroizing::new(password);
    let shown = short_name(&name);
    let refused = async |status: StatusCode, why: &str| {
        tracing::warn!(operator = shown, address = %peer.address, "console login refused");
        let record = attempt(&shown, &peer).ending(INVALID_PASSWORD);
        console.engine().ledger().record(record).await;
        (status, Html(view::login(Some(why)).into_string())).into_response()
    };
    let now = Instant::now();
    let wait = console.throttle.wait(&name, peer.address, now);
    if !wait.is_zero() {
        let seconds = wait.as_secs() + 1;
        let why = format!("Too many failures. Try again in {seconds} seconds.");
        return refused(StatusCode::TOO_MANY_REQUESTS, &why).await;
    }
    console.throttle.count(&name, peer.address, now);
    let derivation = tokio::time::timeout(PATIENCE, console.derivations.acquire()).await;
    let Ok(Ok(_derivation)) = derivation else {
        let why = "Too many logins at the same time. Try again.";
        return refused(StatusCode::SERVICE_UNAVAILABLE, why).await;
    };
    let operator = console.engine().policy().operator(&name).cloned();
    let compared = Arc::clone(&console);
    let of_policy = operator.clone();
    let is_right = tokio::task::spawn_blocking(move || {
        let stored = of_policy.as_ref().map(|operator| &operator.verifier);
        is_password(stored, &name, &password, &compared.decoy)
    });
    let Some(operator) = operator.filter(|operator| is_vouched(operator, &peer)) else {
        let _ = is_right.await;
        return refused(StatusCode::UNAUTHORIZED, view::WRONG).await;
    };
    if !is_right.await.unwrap_or(false) {
        return refused(StatusCode::UNAUTHORIZED, view::WRONG).await;
    }
    console.throttle.forget(&operator.name, peer.address);
    // Who comes in is in the record before anything is shown.
    let recorded = console
        .engine()
        .ledger()
        .record_act(attempt(&shown, &peer))
        .await;
    if recorded.is_err() {
        let why = "The ledger cannot record the login now.";
        return refused(StatusCode::SERVICE_UNAVAILABLE, why).await;
    }
    let begun = console
        .sessions
        .begin(operator, peer.address, Instant::now());
    let Some(secret) = begun else {
        let why = "The operating system gives no randomness now.";
        return refused(StatusCode::SERVICE_UNAVAILABLE, why).await;
    };
    tracing::info!(operator = shown, address = %peer.address, "console session opened");
    let cookie = console.set_cookie(&secret);
    ([(SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

/// The record of a login, as of one that went well.
fn attempt(name: &str, peer: &Peer) -> Record {
    Record::now(name, 0, origin(peer.address), Event::Login)
}

/// Whether the client showed the certificate that the operator needs.
fn is_vouched(operator: &Operator, peer: &Peer) -> bool {
    match operator.certificate {
        Certificate::Optional => true,
        Certificate::Required => peer.names.contains(&operator.name),
    }
}

#[derive(Deserialize)]
pub struct Leaving {
    token: String,
}

/// Ends the session.
pub async fn leave(
    visitor: Visitor,
    State(console): State<Arc<Console>>,
    Form(Leaving { token }): Form<Leaving>,
) -> Response {
    if let Some(refused) = console.refuses(&visitor, &token) {
        return refused;
    }
    console.sessions.end(visitor.session, Instant::now());
    tracing::info!(operator = visitor.name, address = %visitor.address, "console session ended");
    let cookie = console.set_cookie("; Max-Age=0");
    ([(SET_COOKIE, cookie)], Redirect::to("/login")).into_response()
}

impl Console {
    fn set_cookie(&self, value: &str) -> String {
        let secure = if self.is_encrypted { "; Secure" } else { "" };
        let name = &self.cookie;
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }
}
