//! My statements: the role's statements, newest first, by digest. There is no text of a statement,
//! no duration, no address, and nothing that an operator did in the role's terms.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};

use super::Desk;
use super::visitor::AnalystRequest;
use crate::ledger::{Event, Record};
use crate::refusal::Ending;
use crate::web::page::{charge_words, minute, table, text_markup};

const SHOWN_MAX: u32 = 100;
const HEADER: [&str; 6] = [
    "Time (UTC)",
    "Client",
    "Tables",
    "Outcome",
    "Charged",
    "Statement",
];

pub async fn page(visitor: AnalystRequest, State(desk): State<Arc<Desk>>) -> Response {
    if let Some(slow_down) = desk.slows(&visitor) {
        return slow_down;
    }
    let role = visitor.analyst.session.role();
    let engine = desk.engine();
    let read = match engine.ledger().recent_statements(role, SHOWN_MAX).await {
        Ok(read) => read,
        Err(error) => return desk.fail(&visitor, &error),
    };
    let rows: Vec<Vec<Markup>> = read.iter().filter_map(row).collect();
    let page = desk.page(&visitor, "My statements", |_| {
        html! {
            section aria-labelledby="statements" {
                h2 #statements { "The newest " (SHOWN_MAX) ", newest first" }
                @if rows.is_empty() { p { "Nothing yet. What is asked appears within a second." } }
                @else { (table("Statements of your role", &HEADER, &[], &rows)) }
                p .note {
                    "The record names statements by digests and keeps no text; prices and \
                    answers show the digest of theirs. All sessions of your role are here, \
                    whatever they connect by."
                }
            }
        }
    });
    page.into_response()
}

fn row(record: &Record) -> Option<Vec<Markup>> {
    let Event::Statement(asked) = &record.event else {
        return None;
    };
    let application = &record.origin.application;
    let way = match application.is_empty() {
        true => record.origin.via.name().to_owned(),
        false => format!("{} ({application})", record.origin.via.name()),
    };
    let verdict = asked.verdict.name();
    let outcome = match &record.ending {
        Ending::Succeeded => verdict.to_owned(),
        Ending::Failed(sqlstate) => format!("{verdict} {sqlstate}"),
    };
    Some(vec![
        text_markup(minute(record.microseconds)),
        text_markup(way),
        text_markup(asked.tables.join(", ")),
        text_markup(outcome),
        text_markup(charge_words(&asked.loss)),
        html! { code { (asked.statement.short()) } },
    ])
}
