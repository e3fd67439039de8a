//! The demo's web pages: a question box, the private answer with error bars next to the exact one,
//! the budget, attacks to try, and dashboards. Server-rendered, without scripts.
//!
//! They ask their proxies over the wire, as the demo's analyst. They are served on loopback by
//! default and have no login: whoever reaches them spends the demo's budgets, as whoever reaches
//! the ports may.

mod ask;
mod state;
mod view;
mod widen;

use std::future::Future;
use std::sync::Arc;
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
use tokio::sync::{OnceCell, oneshot, watch};

use super::attack;
use super::exact::Exact;
use super::session::Refused;
use super::topic::{LIBRARY_TOPIC, SURVEY_TOPIC};
use crate::web;
use crate::web::guard::Guard;
use ask::Action;
use state::DemoPage;

pub use state::Proxy;

const BODY_BYTES_MAX: usize = 64 << 10;
/// For one answer: an attack asks a hundred questions.
const PATIENCE: Duration = Duration::from_secs(60);
/// For answers that are on their way when the demo ends.
const LAST_MOMENT: Duration = Duration::from_secs(3);
/// What the pages share.
struct Pages {
    survey: DemoPage,
    library: OnceCell<DemoPage>,
    door: LibraryDoor,
    guard: Guard,
}

/// How the page gets the library's proxy, which starts when the page is opened first.
#[derive(Debug)]
pub struct LibraryDoor {
    /// Asks for it.
    pub wanted: watch::Sender<bool>,
    /// The proxy, or why there is none, once it was asked for.
    pub opened: watch::Receiver<Option<Result<Proxy, String>>>,
}

/// Serves the pages until `shutdown` ends.
///
/// # Errors
/// Those of the listener.
pub async fn serve(
    listener: TcpListener,
    proxy: Proxy,
    door: LibraryDoor,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let pages = Arc::new(Pages {
        survey: DemoPage::new(&SURVEY_TOPIC, proxy, Exact::survey()),
        library: OnceCell::new(),
        door,
        guard: Guard::new(Vec::new(), false, PATIENCE),
    });
    let router = Router::new()
        .route("/", get(home))
        .route("/ask", post(ask))
        .route("/attack", post(show_attack))
        .route("/library", get(library))
        .route("/library/ask", post(ask_library))
        .route("/style.css", get(style))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&pages), watch))
        .with_state(pages);
    serve_until(listener, router, shutdown).await
}

/// Serves until `shutdown` ends, and what is asked by then, for a moment: a client that sends half
/// of a request keeps nobody waiting.
async fn serve_until(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (sender, ending) = oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        // Nobody listens where serving has ended.
        let _ = sender.send(());
    };
    let served = axum::serve(listener, router).with_graceful_shutdown(shutdown);
    let given_up = async {
        let _ = ending.await;
        tokio::time::sleep(LAST_MOMENT).await;
    };
    tokio::select! {
        served = served.into_future() => served,
        () = given_up => Ok(()),
    }
}

impl Pages {
    /// The library, which starts now if it has not.
    async fn library(&self) -> Result<&DemoPage, Refused> {
        let open = async || {
            // The proxy's side is gone only when the demo ends.
            let _ = self.door.wanted.send(true);
            let mut opened = self.door.opened.clone();
            let opened = opened.wait_for(Option::is_some).await;
            let opened = opened.map(|opened| opened.clone());
            match opened.ok().flatten() {
                Some(Ok(proxy)) => Ok(DemoPage::new(&LIBRARY_TOPIC, proxy, Exact::library())),
                Some(Err(why)) => Err(Refused::new(&why)),
                None => Err(Refused::new("the demo stops")),
            }
        };
        self.library.get_or_try_init(open).await
    }
}

#[derive(Deserialize)]
struct Chosen {
    /// The number of an example.
    q: Option<usize>,
}

/// `Form` reads the query of a GET.
async fn home(Extracted(pages): Extracted<Arc<Pages>>, Form(chosen): Form<Chosen>) -> Html<String> {
    welcome(&pages.survey, &chosen).await
}

async fn library(
    Extracted(pages): Extracted<Arc<Pages>>,
    Form(chosen): Form<Chosen>,
) -> Html<String> {
    match pages.library().await {
        Ok(state) => welcome(state, &chosen).await,
        Err(refused) => refusal_page(&pages, &refused).await,
    }
}

async fn welcome(state: &DemoPage, chosen: &Chosen) -> Html<String> {
    let questions = state.topic.questions;
    let question = chosen.q.and_then(|at| questions.get(at));
    let sql = question.or(questions.first()).map_or("", |first| first.sql);
    let body = view::welcome(state.topic, question);
    Html(view::page(&frame(state).await, sql, &body).into_string())
}

/// The frame around every page: what is left, and the steps that led there.
async fn frame(state: &DemoPage) -> view::PageFrame {
    let left = match state.session().await {
        Ok(mut session) => ask::budget_left(&mut session).await.ok(),
        Err(_) => None,
    };
    view::PageFrame {
        topic: state.topic,
        left,
        steps: state.steps(),
        psql: state.psql(),
    }
}

/// The survey's page, which says why there is no library.
async fn refusal_page(pages: &Pages, refused: &Refused) -> Html<String> {
    let body = view::refusal(refused, "");
    Html(view::page(&frame(&pages.survey).await, "", &body).into_string())
}

#[derive(Deserialize)]
struct Asked {
    sql: String,
    action: String,
}

async fn ask(Extracted(pages): Extracted<Arc<Pages>>, Form(form): Form<Asked>) -> Html<String> {
    answer(&pages.survey, &form).await
}

async fn ask_library(
    Extracted(pages): Extracted<Arc<Pages>>,
    Form(form): Form<Asked>,
) -> Html<String> {
    match pages.library().await {
        Ok(state) => answer(state, &form).await,
        Err(refused) => refusal_page(&pages, &refused).await,
    }
}

async fn answer(state: &DemoPage, form: &Asked) -> Html<String> {
    // Browsers send CRLF as line ends.
    let sql = form.sql.replace("\r\n", "\n");
    let action = if form.action == "ask" {
        Action::Ask
    } else {
        Action::Price
    };
    let outcome = ask::ask(state, &sql, action).await;
    let body = view::outcome(state.topic, &outcome, &sql, action);
    Html(view::page(&frame(state).await, &sql, &body).into_string())
}

#[derive(Deserialize)]
struct Attacked {
    kind: String,
}

async fn show_attack(
    Extracted(pages): Extracted<Arc<Pages>>,
    Form(form): Form<Attacked>,
) -> Html<String> {
    let state = &pages.survey;
    let body = match attack(state, &form.kind).await {
        Ok(body) => body,
        Err(refused) => view::refusal(&refused, ""),
    };
    let sql = state.topic.questions.first().map_or("", |first| first.sql);
    Html(view::page(&frame(state).await, sql, &body).into_string())
}

async fn attack(state: &DemoPage, kind: &str) -> Result<Markup, Refused> {
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

async fn watch(Extracted(pages): Extracted<Arc<Pages>>, request: Request, next: Next) -> Response {
    pages.guard.pass(request, next).await
}

async fn style() -> impl IntoResponse {
    let kind = (CONTENT_TYPE, "text/css; charset=utf-8");
    (
        [kind],
        [web::STYLE, include_str!("page/style.css")].concat(),
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// A demo that ends does not wait for the rest of a request.
    #[tokio::test]
    async fn half_a_request_does_not_keep_the_demo() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
        let (sender, shutdown) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve_until(listener, Router::new(), async move {
            let _ = shutdown.await;
        }));
        // Once a later client is answered, the first one was accepted.
        let mut later = TcpStream::connect(address).await.unwrap();
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        later.write_all(whole).await.unwrap();
        let mut answer = String::new();
        later.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        sender.send(()).unwrap();
        serving.await.unwrap().unwrap();
    }
}
