//! A question at the price that was shown: it is run once, however often its form is sent, and its
//! answer is a page that can be loaded again.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Form, Query as Parameters, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use maud::html;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::answer_html::{AnswerContext, render};
use super::ask::{Note, digest_of, form_page, is_price_risen, note_page, searches_of, to_send};
use super::outcome::{PageQuestionEnd, QuestionState, RunningQuestion};
use super::quote::{NoisyColumns, Quote};
use super::visitor::{Analyst, AnalystRequest, BY_ITSELF};
use super::{Admission, Desk, ask, view};
use crate::engine::{Agreed, AtPrice, Engine, HeldMemory, Requester, aside};
use crate::error::Error;
use crate::mechanism::Loss;
use crate::parse::Query;
use crate::refusal::Refusal;
use crate::web::page::refusal;
use crate::wire::Asking;

/// How long a page waits for its answer before it is shown as it is, and loads itself again.
const LOOK: Duration = Duration::from_secs(10);
const AGAIN_SECONDS: u32 = 2;
/// The text about a form that cannot be matched to a price.
const NOT_KEPT: &str = "This price is not kept any more. If it was run, it may have been charged: \
    look at My budget, and ask again; an answer that was paid for is kept, and is free.";

#[derive(Deserialize)]
pub struct QuestionRun {
    token: String,
    quote: u64,
}

/// Runs a question at the price that was shown, and leads to its answer. A form that is sent twice
/// leads to the same one.
pub async fn run(
    visitor: AnalystRequest,
    State(desk): State<Arc<Desk>>,
    Form(QuestionRun {
        token,
        quote: number,
    }): Form<QuestionRun>,
) -> Response {
    let analyst = &visitor.analyst;
    let began = || analyst.outcome(number).map(|_| to_answer(number));
    if let Some(answer) = began() {
        return answer;
    }
    let typed = analyst.typed_statement(number).unwrap_or_default();
    if !desk.is_in_time(&visitor) {
        return note_page(&desk, &visitor, &typed, &Note::too_often(&desk));
    }
    let admission = match desk.admit(analyst).await {
        Ok(admission) => admission,
        Err(not_now) => {
            return began().unwrap_or_else(|| note_page(&desk, &visitor, &typed, &not_now.note()));
        }
    };
    // The form may have come twice: the other one has begun by now.
    if let Some(answer) = began() {
        return answer;
    }
    if !desk.takes(&visitor, &token) {
        return note_page(&desk, &visitor, &typed, &Note::not_of_here(NOT_KEPT));
    }
    let Some(quote) = analyst.take(number) else {
        return note_page(&desk, &visitor, &typed, &Note::not_kept(NOT_KEPT));
    };
    let reporter = analyst.begin(number, &quote.sql);
    let (desk, analyst) = (Arc::clone(&desk), Arc::clone(analyst));
    tokio::spawn(async move {
        let end = answer_at_price(&desk, &analyst, quote, admission).await;
        reporter.report(end.unwrap_or_else(|refusal| PageQuestionEnd::Refused(Box::new(refusal))));
    });
    to_answer(number)
}

/// The way to an answer: by GET, which can be repeated.
fn to_answer(number: u64) -> Response {
    Redirect::to(&format!("/answer?of={number}#found")).into_response()
}

async fn answer_at_price(
    desk: &Arc<Desk>,
    analyst: &Arc<Analyst>,
    quote: Quote,
    admission: Admission,
) -> Result<PageQuestionEnd, Refusal> {
    let (session, exchange) = (&analyst.session, Arc::clone(&desk.exchange));
    let reading = session.read(&*exchange, &quote.sql).await?;
    let (requester, query) = (reading.requester.clone(), reading.query.clone());
    let (sent, agreed) = (quote.sent.clone(), quote.agreed.clone());
    let answered = ask(
        desk,
        analyst,
        &reading,
        (Asking::Answer, admission),
        |token| async move {
            let (engine, _passing) = exchange.enter(&requester).await?;
            answer_or_price(&engine, &requester, (&query, &sent), &agreed, token).await
        },
    );
    match answered.await {
        Ok((AtPrice::Answered(answer, charged), _)) => {
            let balance = desk.engine().ledger().balance(session.role()).await.ok();
            let around = AnswerContext {
                columns: &quote.columns,
                cautions: &quote.cautions,
                digest: &quote.digest,
                charged,
                balance: balance.as_ref(),
            };
            let rendered = aside(|| render(&answer, &around, session.share()))?;
            Ok(PageQuestionEnd::Answered(rendered))
        }
        Ok((AtPrice::Changed(price), sent_now)) => {
            let digest = digest_of(desk, &reading.query);
            let (sent, columns) = sent_now.unwrap_or((quote.sent, quote.columns));
            let number = analyst.quote(Quote {
                sent,
                columns,
                agreed: price.agreed.clone(),
                cautions: price.cautions.clone(),
                ..quote
            });
            Ok(PageQuestionEnd::Changed(price, number, digest))
        }
        Err(refused) if is_price_risen(&refused) => {
            let due = searches_of(desk, analyst).await;
            Ok(due.map_or_else(
                || PageQuestionEnd::Refused(Box::new(refused)),
                PageQuestionEnd::Searches,
            ))
        }
        Err(refused) => Err(refused),
    }
}

/// The answer at the agreed price. Otherwise the price now, of the statement that is to be sent now
/// where that is another one: columns of a checked question have no intervals, for example.
async fn answer_or_price(
    engine: &Engine,
    requester: &Requester,
    (asked, sent): (&Query, &Query),
    agreed: &Agreed,
    cancel: CancellationToken,
) -> Result<(AtPrice, Option<(Query, NoisyColumns)>), Error> {
    let questions = (asked, sent);
    let answered = engine.answer_at(requester, questions, agreed, cancel.clone());
    let answered = answered.await?;
    if let AtPrice::Answered(..) = answered {
        return Ok((answered, None));
    }
    let (now, columns) = to_send(engine, requester, asked, &cancel).await;
    if now.to_sql() == sent.to_sql() {
        return Ok((answered, None));
    }
    let priced = engine.price(requester, (asked, &now), Loss::ZERO, cancel);
    let price = Box::new(priced.await?);
    Ok((AtPrice::Changed(price), Some((now, columns))))
}

#[derive(Deserialize)]
pub struct AnswerNumber {
    of: u64,
}

/// The outcome of a question that was run. The page waits for it, and loads itself again.
pub async fn answer(
    visitor: AnalystRequest,
    State(desk): State<Arc<Desk>>,
    Parameters(AnswerNumber { of }): Parameters<AnswerNumber>,
) -> Response {
    let Some(outcome) = visitor.analyst.outcome(of) else {
        let why = "This answer is not kept on this page any more. Ask again: an answer that was \
            paid for is kept, and is free.";
        return desk.message(&visitor, StatusCode::NOT_FOUND, ("Not here", why));
    };
    match outcome.wait(LOOK, &desk.closing).await {
        QuestionState::Running => running(&desk, &visitor, &outcome),
        QuestionState::Lost => {
            let why = "The question was lost. Look at My budget: it may have been charged. Ask \
                again; an answer that was paid for and kept is free.";
            desk.message(
                &visitor,
                StatusCode::INTERNAL_SERVER_ERROR,
                ("Not done", why),
            )
        }
        QuestionState::Ended(end) => aside(|| end_page(&desk, &visitor, &outcome.sql, &end)),
    }
}

fn running(desk: &Desk, visitor: &AnalystRequest, outcome: &RunningQuestion) -> Response {
    let again = format!("/answer?of={}&{BY_ITSELF}", outcome.number);
    let page = form_page(desk, visitor, ("Ask: running", &outcome.sql), |_| {
        html! {
            section #found aria-labelledby="running" {
                h2 #running { "Running" }
                p role="status" {
                    "The question runs. This page looks again by itself; "
                    a href=(again) { "look now" }
                    ". It goes on if you leave, and its answer is kept."
                }
            }
        }
    });
    let refresh = format!("{AGAIN_SECONDS}; url={again}#found");
    ([("refresh", refresh)], page).into_response()
}

fn end_page(desk: &Desk, visitor: &AnalystRequest, sql: &str, end: &PageQuestionEnd) -> Response {
    let title = match end {
        PageQuestionEnd::Answered(_) => "Ask: answer",
        PageQuestionEnd::Refused(_) => "Ask: refused",
        PageQuestionEnd::Changed(..) | PageQuestionEnd::Searches(_) => "Ask: price",
    };
    let page = form_page(desk, visitor, (title, sql), |token| match end {
        PageQuestionEnd::Answered(rendered) => html! { (rendered.body) },
        PageQuestionEnd::Refused(refused) => refusal(refused, sql),
        PageQuestionEnd::Changed(price, number, digest) => {
            view::price(price, (*number, sql, digest), token, Some(CHANGED))
        }
        PageQuestionEnd::Searches(due) => view::searches(due, sql, token),
    });
    count_page(desk, visitor, page.0)
}

const CHANGED: &str = "Not run: it would cost something else now, or be off by something else. \
    Nothing was charged. This is the price now.";

/// A page that counts as memory of the session until it is sent.
fn count_page(desk: &Desk, visitor: &AnalystRequest, page: String) -> Response {
    struct HeldPage {
        text: String,
        _held: HeldMemory,
    }
    impl AsRef<[u8]> for HeldPage {
        fn as_ref(&self) -> &[u8] {
            self.text.as_bytes()
        }
    }
    match visitor.analyst.session.share().hold(page.capacity()) {
        Ok(held) => {
            let page = HeldPage {
                text: page,
                _held: held,
            };
            let body = Body::from(Bytes::from_owner(page));
            ([(CONTENT_TYPE, "text/html; charset=utf-8")], body).into_response()
        }
        Err(refused) => {
            let why = refused.detail.as_deref().unwrap_or(&refused.message);
            desk.message(visitor, StatusCode::SERVICE_UNAVAILABLE, ("Not now", why))
        }
    }
}
