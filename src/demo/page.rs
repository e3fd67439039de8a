//! The demo's web page: a question box, the private answer with error bars next to the exact one,
//! the budget, and attacks to try. Server-rendered, without scripts.
//!
//! It asks the proxy over the wire, as the demo's analyst. It is served on loopback by default and
//! has no login: whoever reaches it spends the demo's budget, as whoever reaches the port may.

mod ask;
mod view;
mod widen;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Form, Request, State as Extracted};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, middleware};
use maud::Markup;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::attack;
use super::exact::Exact;
use super::questions::QUESTIONS;
use super::session::{DemoSession, Refused};
use crate::web;
use crate::web::guard::Guard;
use ask::Action;

const BODY_BYTES_MAX: usize = 64 << 10;
/// For one answer: an attack asks a hundred questions.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an answer waits for the exact side, which starts at the same time as the proxy.
const EXACT_PATIENCE: Duration = Duration::from_secs(60);
/// The most steps of the budget that are drawn.
const STEPS_MAX: usize = 30;

/// The state that the pages share.
struct State {
    listening: SocketAddr,
    database: String,
    psql: String,
    exact: watch::Receiver<Side>,
    steps: Mutex<Vec<Step>>,
    guard: Guard,
}

/// The exact side.
enum Side {
    Starting,
    Here(Arc<Exact>),
    Absent,
}

/// How one question changed the budget.
#[derive(Debug, Clone)]
struct Step {
    what: String,
    before: f64,
    after: f64,
}

/// Where the proxy listens, and how psql reaches it.
#[derive(Debug)]
pub struct Proxy {
    pub listening: SocketAddr,
    pub database: String,
    pub psql: String,
}

/// Serves the page until `shutdown` ends.
///
/// # Errors
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    proxy: Proxy,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (sender, exact) = watch::channel(Side::Starting);
    tokio::spawn(async move {
        let side = match Exact::start().await {
            Ok(exact) => Side::Here(Arc::new(exact)),
            Err(_) => Side::Absent,
        };
        // The page may have been closed meanwhile.
        let _ = sender.send(side);
    });
    let state = Arc::new(State {
        listening: proxy.listening,
        database: proxy.database,
        psql: proxy.psql,
        exact,
        steps: Mutex::new(Vec::new()),
        guard: Guard::new(Vec::new(), false, PATIENCE),
    });
    let router = Router::new()
        .route("/", get(home))
        .route("/ask", post(ask))
        .route("/attack", post(show_attack))
        .route("/style.css", get(style))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), watch))
        .with_state(state);
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown)
        .await
}

impl State {
    async fn session(&self) -> Result<DemoSession, Refused> {
        DemoSession::open(self.listening, &self.database, "pgveil demo page").await
    }

    /// The exact rows, once the exact side is there.
    async fn exact_rows(&self, sql: &str) -> Option<Vec<Vec<Option<String>>>> {
        self.exact_side().await?.rows(sql).await
    }

    async fn exact_number(&self, sql: &str) -> Option<f64> {
        let rows = self.exact_rows(sql).await?;
        rows.first()?.first()?.as_deref()?.parse().ok()
    }

    async fn exact_side(&self) -> Option<Arc<Exact>> {
        let mut side = self.exact.clone();
        let here = side.wait_for(|side| !matches!(side, Side::Starting));
        match &*tokio::time::timeout(EXACT_PATIENCE, here)
            .await
            .ok()?
            .ok()?
        {
            Side::Here(exact) => Some(Arc::clone(exact)),
            Side::Starting | Side::Absent => None,
        }
    }

    fn steps(&self) -> Vec<Step> {
        let steps = self.steps.lock();
        steps.map_or_else(|_| Vec::new(), |steps| steps.clone())
    }

    fn log_spending(&self, what: &str, before: f64, after: f64) {
        let Ok(mut steps) = self.steps.lock() else {
            return;
        };
        if steps.len() == STEPS_MAX {
            steps.remove(0);
        }
        let title = QUESTIONS
            .iter()
            .find(|question| question.sql.trim_end_matches(';') == what)
            .map(|question| question.title);
        let words = what.split_whitespace().collect::<Vec<_>>().join(" ");
        steps.push(Step {
            what: title.map_or_else(|| words.chars().take(60).collect(), str::to_owned),
            before,
            after,
        });
    }

    /// The frame around every page: what is left, and the steps that led there.
    async fn frame(&self) -> view::PageFrame {
        let left = match self.session().await {
            Ok(mut session) => ask::budget_left(&mut session).await.ok(),
            Err(_) => None,
        };
        view::PageFrame {
            left,
            steps: self.steps(),
            psql: self.psql.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Chosen {
    /// The number of an example.
    q: Option<usize>,
}

/// `Form` reads the query of a GET.
async fn home(Extracted(state): Extracted<Arc<State>>, Form(chosen): Form<Chosen>) -> Html<String> {
    let question = chosen.q.and_then(|at| QUESTIONS.get(at));
    let sql = question.unwrap_or(&QUESTIONS[0]).sql;
    Html(view::page(&state.frame().await, sql, &view::welcome(question)).into_string())
}

#[derive(Deserialize)]
struct Asked {
    sql: String,
    action: String,
}

async fn ask(Extracted(state): Extracted<Arc<State>>, Form(form): Form<Asked>) -> Html<String> {
    // Browsers send CRLF as line ends.
    let sql = form.sql.replace("\r\n", "\n");
    let action = if form.action == "ask" {
        Action::Ask
    } else {
        Action::Price
    };
    let outcome = ask::ask(&state, &sql, action).await;
    let body = view::outcome(&outcome, &sql, action);
    Html(view::page(&state.frame().await, &sql, &body).into_string())
}

#[derive(Deserialize)]
struct Attacked {
    kind: String,
}

async fn show_attack(
    Extracted(state): Extracted<Arc<State>>,
    Form(form): Form<Attacked>,
) -> Html<String> {
    let body = match attack(&state, &form.kind).await {
        Ok(body) => body,
        Err(refused) => view::refusal(&refused, ""),
    };
    Html(view::page(&state.frame().await, QUESTIONS[0].sql, &body).into_string())
}

async fn attack(state: &State, kind: &str) -> Result<Markup, Refused> {
    let mut session = state.session().await?;
    let before = ask::budget_left(&mut session).await?;
    let (title, body) = match kind {
        "difference" => {
            let found = attack::difference(&mut session).await?;
            let all = state.exact_number(&attack::sum_of_all()).await;
            let without = state.exact_number(&attack::sum_without_her()).await;
            let exact = all.zip(without);
            (
                "Attack: one woman by difference",
                view::difference(&found, exact),
            )
        }
        "repeats" => {
            let found = attack::repeats(&mut session).await?;
            let exact = state.exact_number(&attack::count_graduates()).await;
            ("Attack: a hundred repeats", view::repeats(&found, exact))
        }
        "averaging" => {
            let found = attack::averaging(&mut session).await?;
            let exact = state.exact_number(&attack::count_graduates()).await;
            ("Attack: averaging", view::averaging(&found, exact))
        }
        _ => return Err(Refused::new("there is no such attack")),
    };
    let after = ask::budget_left(&mut session).await?;
    state.log_spending(title, before, after);
    Ok(view::attack_result(title, &body, before, after))
}

async fn watch(Extracted(state): Extracted<Arc<State>>, request: Request, next: Next) -> Response {
    state.guard.pass(request, next).await
}

async fn style() -> impl IntoResponse {
    let kind = (CONTENT_TYPE, "text/css; charset=utf-8");
    (
        [kind],
        [web::STYLE, include_str!("page/style.css")].concat(),
    )
}
