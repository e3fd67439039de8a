//! Ask: a question's price, and the question at that price.

use std::future::Future;
use std::sync::Arc;

use axum::extract::{Form, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::visitor::{Quote, Visitor};
use super::{ANSWER, Desk, view};
use crate::engine::{Answer, AtPrice, Engine, Price, Requester, percent};
use crate::error::Error;
use crate::ledger;
use crate::parse::{Query, Statement, parse};
use crate::refusal::Refusal;
use crate::web;
use crate::web::answer::cells;
use crate::web::intervals::Question;
use crate::web::page::{hidden, refusal, statement};
use crate::wire::{NotAsked, Reading};

/// Columns that get an interval.
const INTERVALS_MAX: usize = 8;
/// Rows that are shown.
const ROWS_MAX: usize = 1_000;
/// Statements to begin with: free, and without private rows.
const EXAMPLES: [(&str, &str, &str); 4] = [
    (
        "tables",
        "Tables",
        "SELECT table_schema, table_name, is_private, unit, rows_per_unit FROM pgveil.tables",
    ),
    (
        "columns",
        "Columns",
        "SELECT table_schema, table_name, column_name, data_type, lower_bound, upper_bound, \
            group_by FROM pgveil.columns ORDER BY table_schema, table_name, ordinal_position",
    ),
    (
        "worth",
        "What answers are worth",
        "SELECT table_schema, table_name, column_name, aggregate, epsilon, error_95, answers_left \
            FROM pgveil.worth",
    ),
    (
        "settings",
        "Settings",
        "SELECT name, setting, at_most, description FROM pgveil.settings",
    ),
];

#[derive(Deserialize)]
pub struct Shown {
    show: Option<String>,
}

pub async fn form(
    visitor: Visitor,
    Parameters(Shown { show }): Parameters<Shown>,
    State(desk): State<Arc<Desk>>,
) -> Response {
    let example = EXAMPLES
        .iter()
        .find(|(name, _, _)| show.as_deref() == Some(name));
    let sql = example.map_or("", |(_, _, sql)| sql);
    shown(&desk, &visitor, sql, |_| html! {})
}

#[derive(Deserialize)]
pub struct Asked {
    token: String,
    sql: String,
}

/// The price of a question.
pub async fn priced(
    visitor: Visitor,
    State(desk): State<Arc<Desk>>,
    Form(Asked { token, sql }): Form<Asked>,
) -> Response {
    if let Some(refused) = desk.refuses(&visitor, &token) {
        return refused;
    }
    // Browsers send CRLF as line ends.
    let sql = sql.replace("\r\n", "\n");
    match price_of(&desk, &visitor, &sql).await {
        Ok((price, quote)) => {
            let number = visitor.analyst.quote(quote);
            shown(&desk, &visitor, &sql, |token| {
                view::price(&price, (number, &sql), token)
            })
        }
        Err(not) => not_asked(&desk, &visitor, not, &sql),
    }
}

#[derive(Deserialize)]
pub struct Run {
    token: String,
    quote: u64,
}

/// Runs a question at the price that was shown.
pub async fn run(
    visitor: Visitor,
    State(desk): State<Arc<Desk>>,
    Form(Run { token, quote }): Form<Run>,
) -> Response {
    if let Some(refused) = desk.refuses(&visitor, &token) {
        return refused;
    }
    let Some(quote) = visitor.analyst.take(quote) else {
        let why = "This price is not kept any more. Look at it again.";
        return desk.message(&visitor, StatusCode::CONFLICT, ("Not done", why));
    };
    let answered = match answer_at(&desk, &visitor, &quote).await {
        Ok(answered) => answered,
        Err(not) => return not_asked(&desk, &visitor, not, &quote.sql),
    };
    match answered {
        AtPrice::Answered(answer) => {
            let role = visitor.analyst.seat.role();
            let left = desk.engine().ledger().balance(role).await;
            let left = left.map(|balance| balance.fraction_left());
            let body = answered_page(&answer, &quote.intervals, left);
            shown(&desk, &visitor, &quote.sql, |_| body)
        }
        AtPrice::Changed(price) => {
            let sql = quote.sql.clone();
            let agreed = price.agreed.clone();
            let number = visitor.analyst.quote(Quote { agreed, ..quote });
            shown(&desk, &visitor, &sql, |token| {
                html! {
                    p .refused role="alert" {
                        "Not run: it would cost something else now, or be off by something else. \
                        Nothing was charged. This is the price now."
                    }
                    (view::price(&price, (number, &sql), token))
                }
            })
        }
    }
}

async fn price_of(desk: &Desk, visitor: &Visitor, sql: &str) -> Result<(Price, Quote), NotAsked> {
    let (seat, exchange) = (&visitor.analyst.seat, Arc::clone(&desk.exchange));
    let reading = seat.read(&*exchange, sql).await?;
    let (requester, query) = (reading.requester.clone(), reading.query.clone());
    let (price, sent, intervals) =
        asked(desk, visitor, ("explain", &reading), |token| async move {
            let (engine, _passing) = exchange.enter(&requester).await?;
            let pricing = async {
                let widened = with_intervals(&engine, &requester, &query).await;
                let (sent, intervals) = widened.unwrap_or_else(|| (query.clone(), Vec::new()));
                let price = engine.price(&requester, (&query, &sent)).await?;
                Ok((price, sent, intervals))
            };
            tokio::select! {
                priced = pricing => priced,
                () = token.cancelled() => Err(Error::Cancelled),
            }
        })
        .await?;
    let quote = Quote {
        sql: sql.to_owned(),
        sent,
        intervals,
        agreed: price.agreed.clone(),
    };
    Ok((price, quote))
}

/// The question with the ends of an interval for each column that has one at no further cost.
async fn with_intervals(
    engine: &Engine,
    requester: &Requester,
    query: &Query,
) -> Option<(Query, Vec<usize>)> {
    let plan = |query: Query| async move {
        let (plan, _) = engine.plan(requester, &query).await.ok()?;
        Some((query, plan.loss()))
    };
    let (_, loss) = plan(query.clone()).await?;
    // As we print it: nothing else can hide in it.
    let question = Question::parse(&query.to_sql())?;
    let mut candidates = question.candidates();
    candidates.truncate(INTERVALS_MAX);
    let widened = async |of: &[_]| {
        let widened = question.widen(of)?;
        let statements = parse(&widened.sql).ok()?;
        let [Statement::Query(sent)] = <[Statement; 1]>::try_from(statements).ok()? else {
            return None;
        };
        let (sent, same) = plan(sent).await?;
        (same == loss).then_some((sent, widened.columns))
    };
    if candidates.is_empty() {
        return None;
    }
    if let Some(all) = widened(&candidates).await {
        return Some(all);
    }
    let mut accepted = Vec::new();
    for candidate in candidates {
        if widened(std::slice::from_ref(&candidate)).await.is_some() {
            accepted.push(candidate);
        }
    }
    if accepted.is_empty() {
        return None;
    }
    widened(&accepted).await
}

async fn answer_at(desk: &Desk, visitor: &Visitor, quote: &Quote) -> Result<AtPrice, NotAsked> {
    let (seat, exchange) = (&visitor.analyst.seat, Arc::clone(&desk.exchange));
    let reading = seat.read(&*exchange, &quote.sql).await?;
    let (requester, query) = (reading.requester.clone(), reading.query.clone());
    let Quote { sent, agreed, .. } = quote.clone();
    asked(desk, visitor, ("answer", &reading), |token| async move {
        let (engine, _passing) = exchange.enter(&requester).await?;
        engine
            .answer_at(&requester, (&query, &sent), &agreed, token)
            .await
    })
    .await
}

/// Asks a question while the desk has room for it; the desk's end cancels it.
async fn asked<T, F>(
    desk: &Desk,
    visitor: &Visitor,
    (kind, reading): (&'static str, &Reading),
    question: impl FnOnce(CancellationToken) -> F,
) -> Result<T, NotAsked>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let room = Arc::clone(&desk.questions).try_acquire_owned();
    let room = room.map_err(|_| NotAsked::Busy)?;
    let stop = desk.stop.clone();
    let asking = |token: CancellationToken| {
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
    let seat = &visitor.analyst.seat;
    seat.ask(&*desk.exchange, reading, (kind, ANSWER), asking)
        .await
}

fn not_asked(desk: &Desk, visitor: &Visitor, not: NotAsked, sql: &str) -> Response {
    match not {
        NotAsked::Busy => {
            let why = "A question of this session is still running, or the desk has too many. Try \
                again.";
            desk.message(visitor, StatusCode::SERVICE_UNAVAILABLE, ("Busy", why))
        }
        NotAsked::Refused(refused) => {
            let refused: Refusal = *refused;
            shown(desk, visitor, sql, |_| refusal(&refused, sql))
        }
    }
}

fn shown(desk: &Desk, visitor: &Visitor, sql: &str, body: impl FnOnce(&str) -> Markup) -> Response {
    let page = desk.page(visitor, "Ask", |token| {
        html! {
            section aria-labelledby="ask" {
                h2 #ask { "Ask" }
                nav aria-label="Examples" {
                    ul {
                        @for (name, title, _) in EXAMPLES {
                            li { a href=(format!("/?show={name}")) { (title) } }
                        }
                    }
                }
                form method="post" action="/price#found" {
                    (hidden(token))
                    (statement(sql))
                    div .buttons { button .primary { "Show the price (free)" } }
                }
            }
            (body(token))
        }
    });
    page.into_response()
}

fn answered_page(answer: &Answer, intervals: &[usize], left: Result<f64, ledger::Error>) -> Markup {
    let Answer {
        columns,
        rows,
        notices,
        warnings,
        held: _,
    } = answer;
    let width = columns.len().saturating_sub(2 * intervals.len());
    let texts = |row: &Vec<Option<bytes::Bytes>>| -> Vec<Option<String>> {
        let text = |value: &bytes::Bytes| String::from_utf8_lossy(value).into_owned();
        row.iter().map(|value| value.as_ref().map(text)).collect()
    };
    let shown = web::answer::Answer {
        columns: columns.iter().take(width).map(|c| c.name.clone()).collect(),
        measures: intervals.to_vec(),
        rows: rows
            .iter()
            .take(ROWS_MAX)
            .map(|row| cells(&texts(row), width, intervals))
            .collect(),
        has_exact: false,
    };
    html! {
        section #found aria-labelledby="answer" {
            h2 #answer { "Answer" }
            @if let Ok(left) = left { p .lead { (percent(left)) " of your budget is left" } }
            @for warning in warnings {
                p .refused { "Warning: " (warning.message) }
            }
            @if rows.len() <= ROWS_MAX { (shown.figures()) }
            (shown.table())
            p .note {
                @match rows.len() {
                    1 => "1 row",
                    count => { (count) " rows" },
                }
                @if rows.len() > ROWS_MAX { ", of which the first " (ROWS_MAX) " are shown" }
                @if !intervals.is_empty() {
                    ". An interval holds the value without noise at 95 % confidence."
                }
            }
            @if !notices.is_empty() {
                details open {
                    summary { "Notices, as psql prints them" }
                    pre tabindex="0" { (notices.join("\n")) }
                }
            }
        }
    }
}
