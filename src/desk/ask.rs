//! Ask: a question and its price.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, Query as Parameters, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::quote::{NoisyColumns, Quote};
use super::visitor::{Analyst, AnalystRequest};
use super::{Admission, Desk, NotNow, ask, view};
use crate::engine::{COPIES, Engine, QuestionPrice, Requester, SearchesDue, adds_no_draw};
use crate::mechanism::Loss;
use crate::parse;
use crate::parse::{Query, Statement, parse};
use crate::refusal::{Refusal, reason};
use crate::web::guard::TEXT_BYTES_MAX;
use crate::web::intervals;
use crate::web::page::{refusal, statement, token_field};
use crate::wire::Asking;

/// How long a price is waited for.
const PRICE: Duration = Duration::from_secs(120);
/// Columns that get an interval.
const INTERVALS_MAX: usize = 8;
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
pub struct ExampleChoice {
    show: Option<String>,
}

pub async fn form(
    visitor: AnalystRequest,
    Parameters(ExampleChoice { show }): Parameters<ExampleChoice>,
    State(desk): State<Arc<Desk>>,
) -> Response {
    let example = EXAMPLES
        .iter()
        .find(|(name, _, _)| show.as_deref() == Some(name));
    let sql = example.map_or("", |(_, _, sql)| sql);
    form_page(&desk, &visitor, ("Ask", sql), |_| html! {}).into_response()
}

#[derive(Deserialize)]
pub struct AskForm {
    token: String,
    sql: String,
    /// Given by the button that pays for the policy's searches.
    pay: Option<String>,
}

/// The price of a question. The form may be sent again: nothing is charged, but the searches once.
pub async fn price(
    visitor: Result<AnalystRequest, Response>,
    State(desk): State<Arc<Desk>>,
    Form(AskForm { token, sql, pay }): Form<AskForm>,
) -> Response {
    // Browsers send CRLF as line ends.
    let sql = sql.replace("\r\n", "\n");
    let Ok(visitor) = visitor else {
        return desk.portal.session_ended_page(Some(&sql));
    };
    if !desk.knows(&visitor, &token) {
        let why = "This form is of an older session. Nothing was done: send it again.";
        return note_page(&desk, &visitor, &sql, &Note::not_of_here(why));
    }
    if sql.len() > TEXT_BYTES_MAX {
        return note_page(&desk, &visitor, &sql, &Note::too_long(sql.len()));
    }
    if !desk.is_in_time(&visitor) {
        return note_page(&desk, &visitor, &sql, &Note::too_often(&desk));
    }
    let analyst = &visitor.analyst;
    let admission = match desk.admit(analyst).await {
        Ok(admission) => admission,
        Err(not_now) => return note_page(&desk, &visitor, &sql, &not_now.note()),
    };
    let agreed = pay.and_then(|_| analyst.take_searches());
    match price_of(&desk, analyst, (&sql, agreed), admission).await {
        Ok((price, quote)) => {
            let digest = quote.digest.clone();
            let number = analyst.quote(quote);
            let body = |token: &str| view::price(&price, (number, &sql, &digest), token, None);
            form_page(&desk, &visitor, ("Ask: price", &sql), body)
        }
        Err(refused) => match due_after(&desk, analyst, &refused).await {
            Some(due) => form_page(&desk, &visitor, ("Ask: price", &sql), |token| {
                view::searches(&due, &sql, token)
            }),
            None => form_page(&desk, &visitor, ("Ask: refused", &sql), |_| {
                refusal(&refused, &sql)
            }),
        },
    }
    .into_response()
}

/// Whether a statement was refused as it costs more than was agreed on.
pub fn is_price_risen(refused: &Refusal) -> bool {
    refused.reason == reason::PRICE_RISEN
}

/// The price of the policy's searches, where a statement was refused for that.
async fn due_after(desk: &Desk, analyst: &Analyst, refused: &Refusal) -> Option<SearchesDue> {
    match is_price_risen(refused) {
        true => searches_of(desk, analyst).await,
        false => None,
    }
}

/// The price of the policy's searches for the role. It is shown next.
pub async fn searches_of(desk: &Desk, analyst: &Analyst) -> Option<SearchesDue> {
    let due = desk.engine().searches_due(analyst.session.role()).await;
    let due = due.ok().flatten()?;
    analyst.show_searches(due.loss);
    Some(due)
}

/// The statement as the record names it.
pub fn digest_of(desk: &Desk, query: &Query) -> String {
    let digest = desk.engine().ledger().statement_digest(&query.to_sql());
    digest.short()
}

/// The price of a question; `searches` is what the role agreed to pay for the policy's searches.
async fn price_of(
    desk: &Arc<Desk>,
    analyst: &Arc<Analyst>,
    (sql, searches): (&str, Option<Loss>),
    admission: Admission,
) -> Result<(QuestionPrice, Quote), Refusal> {
    let (session, exchange) = (&analyst.session, Arc::clone(&desk.exchange));
    let reading = session.read(&*exchange, sql).await?;
    let (requester, query) = (reading.requester.clone(), reading.query.clone());
    let asking = (Asking::Price(PRICE), admission);
    let priced = ask(desk, analyst, &reading, asking, |token| async move {
        let (engine, _passing) = exchange.enter(&requester).await?;
        if let Some(searches) = searches {
            let alone = (&query, &query);
            engine
                .price(&requester, alone, searches, token.clone())
                .await?;
        }
        let (sent, columns) = to_send(&engine, &requester, &query, &token).await;
        let questions = (&query, &sent);
        let price = engine
            .price(&requester, questions, Loss::ZERO, token)
            .await?;
        Ok((price, sent, columns))
    });
    let (price, sent, columns) = priced.await?;
    let weight = COPIES * parse::weight(sql) + 2 * sql.len();
    let quote = Quote {
        sql: sql.to_owned(),
        sent,
        columns,
        agreed: price.agreed.clone(),
        cautions: price.cautions.clone(),
        digest: digest_of(desk, &reading.query),
        held: session.share().hold(weight)?,
    };
    Ok((price, quote))
}

/// The statement that is priced and sent for a question: with intervals where they cost nothing.
/// A cancelled question stays as it is, and pricing it records that.
pub async fn to_send(
    engine: &Engine,
    requester: &Requester,
    query: &Query,
    cancel: &CancellationToken,
) -> (Query, NoisyColumns) {
    let widened = tokio::select! {
        widened = with_intervals(engine, requester, query) => widened,
        () = cancel.cancelled() => None,
    };
    widened.unwrap_or_else(|| (query.clone(), NoisyColumns::default()))
}

/// The question with the ends of an interval for each column that has one at no further cost, and
/// without a further draw.
async fn with_intervals(
    engine: &Engine,
    requester: &Requester,
    query: &Query,
) -> Option<(Query, NoisyColumns)> {
    // As we print it: nothing else can hide in it.
    let sql = query.to_sql();
    let candidates = intervals::candidates(&sql);
    let measures = candidates.iter().filter(|(_, is_key)| !is_key);
    let measures: Vec<usize> = measures.map(|(column, _)| *column).collect();
    let few: Vec<usize> = measures.iter().copied().take(INTERVALS_MAX).collect();
    if few.is_empty() {
        return None;
    }
    // A check compares one sum alone.
    if engine.is_checked(requester, query).await {
        let columns = NoisyColumns {
            intervals: Vec::new(),
            others: measures,
        };
        return Some((query.clone(), columns));
    }
    let (plan, _) = engine.plan_free(requester, query).await.ok()?;
    let widened = async |of: &[usize]| {
        let widened = intervals::with_intervals(&sql, of)?;
        let statements = parse(&widened.sql).ok()?;
        let [Statement::Query(sent)] = <[Statement; 1]>::try_from(statements).ok()? else {
            return None;
        };
        let (wider, _) = engine.plan_free(requester, &sent).await.ok()?;
        let others = measures.iter().filter(|at| !widened.columns.contains(at));
        let columns = NoisyColumns {
            others: others.copied().collect(),
            intervals: widened.columns,
        };
        adds_no_draw(&plan, &wider).then_some((sent, columns))
    };
    if let Some(all) = widened(&few).await {
        return Some(all);
    }
    let mut accepted = Vec::new();
    for column in few {
        if widened(&[column]).await.is_some() {
            accepted.push(column);
        }
    }
    if accepted.is_empty() {
        return None;
    }
    widened(&accepted).await
}

/// Why nothing was done, above the form with what was typed.
pub struct Note {
    status: StatusCode,
    title: &'static str,
    why: Cow<'static, str>,
}

impl Note {
    pub const BUSY: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Busy",
        why: Cow::Borrowed(
            "A question of this session is still running, or the desk has too many. Try again.",
        ),
    };
    pub const STOPPING: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "Not now",
        why: Cow::Borrowed("pgveil is stopping. Nothing was done: ask again later."),
    };

    /// The page for a role whose forms come too fast.
    pub fn too_often(desk: &Desk) -> Self {
        let pace = desk.portal.rates.pace.words();
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            title: "Too often",
            why: format!("All sessions of a role may send {pace}, of such forms. Try again.")
                .into(),
        }
    }

    /// The page for a text that has too many bytes.
    fn too_long(bytes: usize) -> Self {
        Self {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            title: "Too long",
            why: format!(
                "The statement has {bytes} bytes, and the desk takes {TEXT_BYTES_MAX}. Nothing was \
                    done. Shorten it, or ask by psql."
            )
            .into(),
        }
    }

    /// The page for a form that this session was not given.
    pub const fn not_of_here(why: &'static str) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            title: "Not done",
            why: Cow::Borrowed(why),
        }
    }

    /// The page for a price that is gone.
    pub const fn not_kept(why: &'static str) -> Self {
        Self {
            status: StatusCode::CONFLICT,
            title: "Not done",
            why: Cow::Borrowed(why),
        }
    }
}

impl NotNow {
    /// The words for it.
    pub fn note(self) -> Note {
        match self {
            Self::Busy => Note::BUSY,
            Self::Stopping => Note::STOPPING,
        }
    }
}

/// The form with what was typed, and why nothing was done.
pub fn note_page(desk: &Desk, visitor: &AnalystRequest, sql: &str, said: &Note) -> Response {
    let Note { status, title, why } = said;
    let page = form_page(desk, visitor, ("Ask: not done", sql), |_| {
        view::note(title, why)
    });
    (*status, page).into_response()
}

/// The page of the form, with the text in it.
pub fn form_page(
    desk: &Desk,
    visitor: &AnalystRequest,
    (title, sql): (&str, &str),
    body: impl FnOnce(&str) -> Markup,
) -> Html<String> {
    desk.page(visitor, title, |token| {
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
                    (token_field(token))
                    (statement(sql))
                    div .buttons { button .primary { "Show the price" } }
                }
            }
            (body(token))
        }
    })
}
