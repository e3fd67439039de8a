//! The console: pages for operators, where they watch the proxy, see where budgets go and freeze
//! them. Server-rendered, without scripts.
//!
//! # Guarantee
//! No page runs a statement over private rows, shows a row or a stored answer, writes the policy,
//! or loosens anything: grants, unfreezing and reloads are commands. What an operator does is in
//! the ledger before it takes effect. `project/tidy::the_console_has_no_way_to_rows` holds the
//! imports.

mod budgets;
mod checks;
mod draft;
mod explore;
mod in_force;
mod login;
mod overview;
mod session;
mod spending;
mod statements;
mod throttle;
mod view;
mod visitor;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use maud::Markup;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Reloadable};
use crate::web;
use crate::web::guard::Guard;
use crate::wire::Tls;
use crate::wire::scram::Decoy;
pub use in_force::InForce;
pub use session::Lifetimes;
use session::Sessions;
use throttle::Throttle;
use visitor::Visitor;

const BODY_BYTES_MAX: usize = 64 << 10;
/// For one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// After five failures of a name or an address, the next try waits so long.
pub const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Passwords that are compared at the same time: each takes thousands of hashes.
const DERIVATIONS: usize = 2;

/// What a console needs to be started.
pub struct Options {
    /// `None` where clients are on this machine alone.
    pub tls: Option<Tls>,
    /// Names by which it may be asked, in addition to addresses and `localhost`.
    pub hosts: Vec<String>,
    pub lifetimes: Lifetimes,
    /// How long whoever guesses passwords waits at first.
    pub first_wait: Duration,
}

struct Console {
    exchange: Arc<Reloadable>,
    in_force: Arc<InForce>,
    sessions: Sessions,
    throttle: Throttle,
    derivations: Semaphore,
    /// One exploration at a time.
    exploring: Semaphore,
    decoy: Decoy,
    guard: Guard,
    is_encrypted: bool,
    /// The name of the cookie. Browsers send cookies to every port of a host, so it has the port.
    cookie: String,
}

/// Serves operators until `shutdown` is cancelled.
///
/// # Errors
/// Those of the listener, and where the operating system has no randomness to give.
pub async fn serve(
    listener: TcpListener,
    exchange: Arc<Reloadable>,
    in_force: Arc<InForce>,
    options: Options,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let Options {
        tls,
        hosts,
        lifetimes,
        first_wait,
    } = options;
    let is_encrypted = tls.is_some();
    let port = listener.local_addr()?.port();
    let prefix = if is_encrypted { "__Host-" } else { "" };
    let console = Console {
        exchange,
        in_force,
        sessions: Sessions::new(lifetimes),
        throttle: Throttle::new(first_wait),
        derivations: Semaphore::new(DERIVATIONS),
        exploring: Semaphore::new(1),
        decoy: Decoy::new()?,
        guard: Guard::new(hosts, is_encrypted, PATIENCE),
        is_encrypted,
        cookie: format!("{prefix}pgveil-{port}"),
    };
    web::server::serve(listener, tls, router(Arc::new(console)), shutdown).await;
    Ok(())
}

fn router(console: Arc<Console>) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/login", get(login::form).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/budgets", get(budgets::page))
        .route("/freeze", post(budgets::freeze))
        .route("/statements", get(statements::page))
        .route("/explore", get(explore::form).post(explore::explored))
        .route("/policy", get(draft::form).post(draft::compared))
        .route("/checks", get(checks::page))
        .route("/style.css", get(style))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&console),
            guarded,
        ))
        .with_state(console)
}

async fn guarded(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    console.guard.pass(request, next).await
}

async fn style() -> impl IntoResponse {
    let kind = (CONTENT_TYPE, "text/css; charset=utf-8");
    ([kind], [web::STYLE, include_str!("style.css")].concat())
}

async fn nothing(visitor: Visitor, State(console): State<Arc<Console>>) -> Response {
    let body = view::message("Nothing here", "There is no page of this name.");
    let page = console.page(&visitor, "Not found", |_| body);
    (StatusCode::NOT_FOUND, page).into_response()
}

impl Console {
    fn engine(&self) -> Arc<Engine> {
        self.exchange.current()
    }

    /// A page for an operator. Its forms share one token.
    fn page(
        &self,
        visitor: &Visitor,
        title: &str,
        body: impl FnOnce(&str) -> Markup,
    ) -> Html<String> {
        let now = std::time::Instant::now();
        let token = self.sessions.token(visitor.session, now);
        let token = token.unwrap_or_default();
        let body = body(&token);
        let who = view::Who {
            name: &visitor.name,
            rights: visitor.rights,
            token: &token,
        };
        Html(view::page(title, Some(&who), &body).into_string())
    }

    /// The answer to a form that was not made for this session, or was sent before. A form takes
    /// time to arrive: a reload may have changed the operator meanwhile.
    fn refuses(&self, visitor: &Visitor, token: &str) -> Option<Response> {
        let now = std::time::Instant::now();
        let engine = self.engine();
        let known = |name: &str| engine.policy().operator(name).cloned();
        if self.sessions.stands(visitor.session, known, now)
            && self.sessions.takes(visitor.session, token, now)
        {
            return None;
        }
        let body = view::message(
            "Not done",
            "This form was sent before, or is of an older session. Open its page again.",
        );
        let page = self.page(visitor, "Not done", |_| body);
        Some((StatusCode::FORBIDDEN, page).into_response())
    }

    /// The error of something that cannot be asked now. The cause is in the log.
    fn failed(&self, visitor: &Visitor, what: &str, error: &crate::ledger::Error) -> Response {
        tracing::error!(%error, "the console could not be answered");
        let why = "The ledger cannot be read or written now; the log says why.";
        let page = self.page(visitor, what, |_| view::message(what, why));
        (StatusCode::SERVICE_UNAVAILABLE, page).into_response()
    }
}
