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
mod current_policy;
mod draft;
mod explore;
mod login;
mod overview;
mod statements;
mod view;
mod visitor;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Router, middleware};
use maud::Markup;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Reloadable};
use crate::policy::Operator;
use crate::web;
use crate::web::guard::{FORM_BYTES_MAX, TEXT_BYTES_MAX};
use crate::web::rate_limit::RequestLimit;
use crate::web::session::{Lifetimes, SessionOwner};
use crate::web::site::{LoginSite, SiteOptions};
use crate::wire::Tls;
pub use current_policy::InForce;
use visitor::SignedInOperator;

/// For one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// For a whole connection.
const WHOLE: Duration = Duration::from_secs(60);
/// Sessions of one operator.
const SESSIONS_MAX: usize = 32;

/// The options of a console.
pub struct ConsoleOptions {
    /// `None` where clients are on this machine alone.
    pub tls: Option<Tls>,
    /// Names by which it may be asked, in addition to addresses and `localhost`.
    pub hosts: Vec<String>,
    pub lifetimes: Lifetimes,
    /// How long somebody who guesses passwords waits at first.
    pub first_wait: Duration,
    /// How often an operator may ask for what plans or reads much of the ledger.
    pub pace: RequestLimit,
}

/// Why nothing was done.
type Hindrance = (StatusCode, String);

struct Console {
    exchange: Arc<Reloadable>,
    in_force: Arc<InForce>,
    portal: LoginSite<Operator>,
    /// One exploration at a time.
    exploring: Semaphore,
}

impl SessionOwner for Operator {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Serves operators until `shutdown` is cancelled.
///
/// # Errors
/// Those of the listener, and those of the operating system's randomness.
pub async fn serve(
    listener: TcpListener,
    exchange: Arc<Reloadable>,
    in_force: Arc<InForce>,
    options: ConsoleOptions,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let ConsoleOptions {
        tls,
        hosts,
        lifetimes,
        first_wait,
        pace,
    } = options;
    let opening = SiteOptions {
        site: &view::SITE,
        hosts,
        is_encrypted: tls.is_some(),
        port: listener.local_addr()?.port(),
        lifetimes,
        of_name: SESSIONS_MAX,
        first_wait,
        patience: PATIENCE,
        pace,
    };
    let console = Console {
        exchange,
        in_force,
        portal: LoginSite::open(opening)?,
        exploring: Semaphore::new(1),
    };
    let router = router(Arc::new(console));
    web::server::serve(listener, tls, router, shutdown, WHOLE).await;
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
        .route("/explore", texts(get(explore::form).post(explore::explore)))
        .route("/policy", texts(get(draft::form).post(draft::compare)))
        .route("/checks", get(checks::page))
        .route("/style.css", get(style))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(TEXT_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&console), guard))
        .with_state(console)
}

/// A page whose form has a long text, which is given back where it is too long.
fn texts(page: MethodRouter<Arc<Console>>) -> MethodRouter<Arc<Console>> {
    page.layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    console.portal.guard.pass(request, next).await
}

async fn style() -> impl IntoResponse {
    let kind = (CONTENT_TYPE, "text/css; charset=utf-8");
    ([kind], web::SITE_STYLE)
}

async fn nothing(visitor: SignedInOperator, State(console): State<Arc<Console>>) -> Response {
    let body = view::SITE.message("Nothing here", "There is no page of this name.");
    let page = console.page(&visitor, "Not found", |_| body);
    (StatusCode::NOT_FOUND, page).into_response()
}

/// Whether the policy has an operator as at the login: a change ends the session.
fn is_unchanged(engine: &Engine, operator: &Operator) -> bool {
    engine.policy().operator(&operator.name) == Some(operator)
}

impl Console {
    fn engine(&self) -> Arc<Engine> {
        self.exchange.current()
    }

    /// A page for an operator. Its forms share one token.
    fn page(
        &self,
        visitor: &SignedInOperator,
        title: &str,
        body: impl FnOnce(&str) -> Markup,
    ) -> Html<String> {
        let who = view::who(&visitor.name, visitor.rights);
        self.portal.page((visitor.session, title), &who, body)
    }

    /// The answer to a form that was not made for this session, or was sent before. A form takes
    /// time to arrive: a reload may have changed the operator meanwhile.
    fn refuses(&self, visitor: &SignedInOperator, token: &str) -> Option<Response> {
        let engine = self.engine();
        let is_same = |who: &Operator| is_unchanged(&engine, who);
        if self.portal.takes(visitor.session, token, is_same) {
            return None;
        }
        let body = view::SITE.message(
            "Not done",
            "This form was sent before, or is of an older session. Open its page again.",
        );
        let page = self.page(visitor, "Not done", |_| body);
        Some((StatusCode::FORBIDDEN, page).into_response())
    }

    /// Why a form with a text does nothing: it is of another session, its text is too long, or it
    /// comes too fast. The form may be sent again: it changes nothing.
    fn hinders(&self, visitor: &SignedInOperator, token: &str, text: &str) -> Option<Hindrance> {
        let engine = self.engine();
        let is_same = |who: &Operator| is_unchanged(&engine, who);
        if !self.portal.knows(visitor.session, token, is_same) {
            let why = "Nothing was done: this form is of an older session. Send it again.";
            return Some((StatusCode::FORBIDDEN, why.to_owned()));
        }
        if text.len() > TEXT_BYTES_MAX {
            let bytes = text.len();
            let why = format!(
                "Nothing was done: the text has {bytes} bytes, and the console takes \
                    {TEXT_BYTES_MAX}."
            );
            return Some((StatusCode::PAYLOAD_TOO_LARGE, why));
        }
        self.rate_hindrance(visitor)
    }

    /// Why an operator may not ask now.
    fn rate_hindrance(&self, visitor: &SignedInOperator) -> Option<Hindrance> {
        let rates = &self.portal.rates;
        if rates.admits(&visitor.name, Instant::now()) {
            return None;
        }
        let pace = rates.pace.words();
        let why = format!("All sessions of an operator may ask {pace}. Try again.");
        Some((StatusCode::TOO_MANY_REQUESTS, why))
    }

    /// A page that says that requests come too fast; `None` where they do not.
    fn slows(&self, visitor: &SignedInOperator) -> Option<Response> {
        let (status, why) = self.rate_hindrance(visitor)?;
        let page = self.page(visitor, "Too often", |_| {
            view::SITE.message("Too often", &why)
        });
        Some((status, page).into_response())
    }

    /// The answer to a form without a session, with the text that it had.
    fn turned_away(&self, refused: Response, typed: &str) -> Response {
        match refused.status() {
            StatusCode::UNAUTHORIZED => self.portal.session_ended_page(Some(typed)),
            _ => refused,
        }
    }

    /// The error of something that cannot be asked now. The cause is in the log.
    fn fail(
        &self,
        visitor: &SignedInOperator,
        what: &str,
        error: &crate::ledger::Error,
    ) -> Response {
        tracing::error!(%error, "the console could not be answered");
        let why = "The ledger cannot be read or written now; the log says why.";
        let page = self.page(visitor, what, |_| view::SITE.message(what, why));
        (StatusCode::SERVICE_UNAVAILABLE, page).into_response()
    }
}
