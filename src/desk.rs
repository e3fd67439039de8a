//! The desk: pages for analysts, who log in as a role of the policy, see what a question costs and
//! how far off its answer will be, and run it at that price. Server-rendered, without scripts.
//!
//! # Guarantee
//! Questions go the way of the wire: the same engine, charge, limits and record. Apart from the
//! answers that are paid for, no page depends on a row. A role sees its own account and its own
//! statements alone. `project/tidy::the_desk_asks_as_the_wire_does` holds the imports.

mod answer_html;
mod ask;
mod budget;
mod login;
mod outcome;
mod quote;
mod run;
mod statements;
mod view;
mod visitor;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use maud::Markup;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, Reloadable};
use crate::error::Error;
use crate::refusal::Refusal;
use crate::web;
use crate::web::guard::{FORM_BYTES_MAX, TEXT_BYTES_MAX};
use crate::web::rate_limit::RequestLimit;
use crate::web::session::Lifetimes;
use crate::web::site::{LoginSite, SiteOptions};
use crate::wire::{AskPermit, Asking, ReadQuestion, SharedState, Tls};
use visitor::{Analyst, AnalystRequest};

/// For one page. A price takes longest; a page does not wait for the end of a long question.
const PATIENCE: Duration = Duration::from_secs(150);
/// For a whole connection.
const WHOLE: Duration = Duration::from_secs(180);
/// How long a question waits for the one before it of its session.
const ASK_WAIT: Duration = Duration::from_secs(2);
/// Sessions of one role.
const SESSIONS_MAX: usize = 8;
/// Requests that are answered at the same time, and questions that run.
const REQUESTS_MAX: usize = 64;
const QUESTIONS_MAX: u32 = 48;
/// How often sessions are looked through for those that have ended.
const SWEEP: Duration = Duration::from_secs(10);
/// For questions that are cancelled at the end, and then for the last pages.
const LAST_PAGES: Duration = Duration::from_secs(1);

/// The options of a desk.
pub struct DeskOptions {
    /// `None` where clients are on this machine alone.
    pub tls: Option<Tls>,
    /// Names by which it may be asked, in addition to addresses and `localhost`.
    pub hosts: Vec<String>,
    pub lifetimes: Lifetimes,
    /// How long somebody who guesses passwords waits at first.
    pub first_wait: Duration,
    /// The time from when the server stops to the end of its last page.
    pub drain: Duration,
    /// How often a role may ask for what plans or reads the ledger.
    pub pace: RequestLimit,
}

struct Desk {
    exchange: Arc<Reloadable>,
    /// The state that its sessions share with the wire's.
    commons: Arc<SharedState>,
    portal: LoginSite<Arc<Analyst>>,
    is_encrypted: bool,
    /// A permit for each question under way.
    questions: Arc<Semaphore>,
    /// Cancelled when the server stops: no question begins any more.
    closing: CancellationToken,
    /// Cancelled when questions under way have to end.
    stop: CancellationToken,
}

/// The right to ask one question.
struct Admission {
    permit: AskPermit,
    room: OwnedSemaphorePermit,
}

/// Why a question does not begin.
enum NotNow {
    Busy,
    Stopping,
}

/// Serves analysts until `shutdown` is cancelled, and then finishes their open requests.
///
/// # Errors
/// Those of the listener, and those of the operating system's randomness.
pub async fn serve(
    listener: TcpListener,
    exchange: Arc<Reloadable>,
    commons: Arc<SharedState>,
    options: DeskOptions,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let DeskOptions {
        tls,
        hosts,
        lifetimes,
        first_wait,
        drain,
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
    let mut portal = LoginSite::open(opening)?;
    portal.guard = portal.guard.answering(REQUESTS_MAX);
    let (questions, stop) = (
        Arc::new(Semaphore::new(QUESTIONS_MAX as usize)),
        CancellationToken::new(),
    );
    let desk = Arc::new(Desk {
        exchange,
        commons,
        portal,
        is_encrypted: tls.is_some(),
        questions: Arc::clone(&questions),
        closing: shutdown.clone(),
        stop: stop.clone(),
    });
    tokio::spawn(sweep(Arc::clone(&desk), shutdown.clone()));
    web::server::serve(listener, tls, router(desk), shutdown, WHOLE).await;
    drain_questions(&questions, &stop, drain).await;
    Ok(())
}

/// Waits for the questions under way, cancels those that are left, and leaves time for the last
/// pages: `drain` in all. No question begins meanwhile, as the desk is closing.
async fn drain_questions(questions: &Semaphore, stop: &CancellationToken, drain: Duration) {
    let last = LAST_PAGES.min(drain / 4);
    let end = Instant::now() + drain;
    let all_until = async |moment: Instant| {
        let all = questions.acquire_many(QUESTIONS_MAX);
        tokio::time::timeout_at(moment.into(), all).await.is_ok()
    };
    if !all_until(end - 2 * last).await {
        stop.cancel();
        if !all_until(end - last).await {
            tracing::warn!("questions of the desk still ran when the time to stop was over");
        }
    }
    tokio::time::sleep(last).await;
}

/// Asks a question for whose price or answer the session has the right; the desk's end cancels it.
async fn ask<T, F>(
    desk: &Desk,
    analyst: &Analyst,
    reading: &ReadQuestion,
    (asking, Admission { permit, room }): (Asking, Admission),
    question: impl FnOnce(CancellationToken) -> F,
) -> Result<T, Refusal>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let stop = desk.stop.clone();
    let question = |token: CancellationToken| {
        let future = question(token.clone());
        async move {
            let stopping = async {
                stop.cancelled().await;
                token.cancel();
                std::future::pending().await
            };
            let outcome = tokio::select! {
                outcome = future => outcome,
                never = stopping => never,
            };
            drop(room);
            outcome
        }
    };
    let session = &analyst.session;
    session
        .ask(&*desk.exchange, reading, (asking, permit), question)
        .await
}

/// Gives back the places of sessions that have ended.
async fn sweep(desk: Arc<Desk>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
        desk.sweep();
    }
}

fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(ask::form))
        .route(
            "/price",
            post(ask::price).layer(DefaultBodyLimit::max(FORM_BYTES_MAX)),
        )
        .route("/run", post(run::run))
        .route("/answer", get(run::answer))
        .route("/budget", get(budget::page))
        .route("/statements", get(statements::page))
        .route("/login", get(login::form).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/style.css", get(style))
        .fallback(nothing)
        .layer(DefaultBodyLimit::max(TEXT_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&desk), guard))
        .with_state(desk)
}

async fn guard(State(desk): State<Arc<Desk>>, request: Request, next: Next) -> Response {
    desk.portal.guard.pass(request, next).await
}

async fn style() -> impl IntoResponse {
    let kind = (CONTENT_TYPE, "text/css; charset=utf-8");
    ([kind], web::SITE_STYLE)
}

async fn nothing(visitor: AnalystRequest, State(desk): State<Arc<Desk>>) -> Response {
    let why = "There is no page of this name.";
    desk.message(&visitor, StatusCode::NOT_FOUND, ("Nothing here", why))
}

/// Whether the policy has a role as at the login, and no operator has ended the session.
fn is_unchanged(engine: &Engine, analyst: &Analyst) -> bool {
    let role = engine.policy().role(analyst.session.role());
    let is_same = role.is_some_and(|role| {
        role.verifier == analyst.verifier && role.certificate == analyst.certificate
    });
    is_same && !analyst.session.is_ended()
}

impl Desk {
    fn engine(&self) -> Arc<Engine> {
        self.exchange.current()
    }

    /// Ends sessions whose time is over, or whose role has changed: they give back their places.
    fn sweep(&self) {
        let engine = self.engine();
        let is_same = |who: &Arc<Analyst>| is_unchanged(&engine, who);
        self.portal.sessions.sweep(is_same, Instant::now());
    }

    fn page(
        &self,
        visitor: &AnalystRequest,
        title: &str,
        body: impl FnOnce(&str) -> Markup,
    ) -> Html<String> {
        let who = view::who(visitor.analyst.session.role());
        self.portal.page((visitor.session, title), &who, body)
    }

    /// A page of one message.
    fn message(
        &self,
        visitor: &AnalystRequest,
        status: StatusCode,
        (title, why): (&str, &str),
    ) -> Response {
        let body = view::SITE.message(title, why);
        (status, self.page(visitor, title, |_| body)).into_response()
    }

    /// Whether a form was made for this session, and is sent for the first time.
    fn takes(&self, visitor: &AnalystRequest, token: &str) -> bool {
        let engine = self.engine();
        let is_same = |who: &Arc<Analyst>| is_unchanged(&engine, who);
        self.portal.takes(visitor.session, token, is_same)
    }

    /// Whether a form was made for this session.
    fn knows(&self, visitor: &AnalystRequest, token: &str) -> bool {
        let engine = self.engine();
        let is_same = |who: &Arc<Analyst>| is_unchanged(&engine, who);
        self.portal.knows(visitor.session, token, is_same)
    }

    /// The right of a session to ask one question now.
    async fn admit(&self, analyst: &Analyst) -> Result<Admission, NotNow> {
        let permit = analyst.session.permit(ASK_WAIT).await.ok_or(NotNow::Busy)?;
        let room = Arc::clone(&self.questions).try_acquire_owned();
        // Checked while the permit is held: at its end the desk waits for all permits, so no
        // question can begin unnoticed.
        match (self.closing.is_cancelled(), room) {
            (true, _) => Err(NotNow::Stopping),
            (false, Ok(room)) => Ok(Admission { permit, room }),
            (false, Err(_)) => Err(NotNow::Busy),
        }
    }

    /// Whether the role may make another request that plans or reads the ledger: its sessions
    /// share one limit.
    fn is_in_time(&self, visitor: &AnalystRequest) -> bool {
        let role = visitor.analyst.session.role();
        self.portal.rates.admits(role, Instant::now())
    }

    /// A page that says that requests come too fast; `None` where they do not.
    fn slows(&self, visitor: &AnalystRequest) -> Option<Response> {
        if self.is_in_time(visitor) {
            return None;
        }
        let pace = self.portal.rates.pace.words();
        let why = format!("All sessions of a role may open {pace}, of such pages.");
        Some(self.message(visitor, StatusCode::TOO_MANY_REQUESTS, ("Too often", &why)))
    }

    /// The error of something that cannot be asked now. The cause is in the log.
    fn fail(&self, visitor: &AnalystRequest, error: &crate::ledger::Error) -> Response {
        tracing::error!(%error, "the desk could not be answered");
        let why = "The ledger cannot be read now.";
        self.message(visitor, StatusCode::SERVICE_UNAVAILABLE, ("Not now", why))
    }
}
