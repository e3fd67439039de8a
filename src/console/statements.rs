//! Statements: the record of who asked what, newest first, and which statements cost most.
//! Statements are digests; there is no SQL, no literal and no duration.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::view::{minute, table, text_markup};
use super::visitor::Owner;
use super::{Console, view};
use crate::calendar::FROM_1970_US;
use crate::calendar::iso::{Zone, timestamp};
use crate::engine::Engine;
use crate::ledger::{
    Error, Event, KeyedStatementDigest, Ledger, LoggedStatement, NewestWithin, Record, Verdict,
};
use crate::refusal::Ending;
use crate::web::page::charge_words;

/// Records that one page looks through.
const READ_MAX: u32 = 5_000;
/// Records that one page shows.
const SHOWN_MAX: usize = 100;
const EXPENSIVE_MAX: usize = 10;
const KINDS: [&str; 3] = ["statement", "login", "act"];

/// The search term; an empty one matches all.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Filter {
    kind: String,
    name: String,
    verdict: String,
    sqlstate: String,
    table: String,
    digest: String,
    /// The first day or minute (UTC), and the one at which it ends.
    from: String,
    to: String,
    before: Option<i64>,
}

/// The times of a filter, in microseconds since 1970: from the first on, and before the second.
#[derive(Clone, Copy)]
struct Times {
    from: i64,
    to: i64,
}

impl Times {
    fn are_all(self) -> bool {
        (self.from, self.to) == (i64::MIN, i64::MAX)
    }

    /// Where the newest record before that one is that is in time.
    async fn newest(self, ledger: &Ledger, before: i64) -> Result<NewestWithin, Error> {
        if self.are_all() {
            return Ok(NewestWithin::At(before.saturating_sub(1)));
        }
        ledger.newest_within(before, (self.from, self.to)).await
    }
}

/// What one page looks through, newest first, and where the next page begins.
struct Pageful {
    records: Vec<(i64, Record)>,
    next: Option<i64>,
}

impl Filter {
    /// `None` where a time cannot be read.
    fn times(&self) -> Option<Times> {
        let read = |text: &str, other: i64| match text.trim() {
            "" => Some(other),
            text => moment(text),
        };
        let (from, to) = (read(&self.from, i64::MIN)?, read(&self.to, i64::MAX)?);
        Some(Times { from, to })
    }

    fn fits(&self, record: &Record) -> bool {
        let Self {
            kind,
            name,
            verdict,
            sqlstate,
            table,
            digest,
            from: _,
            to: _,
            before: _,
        } = self;
        let asked = match &record.event {
            Event::Statement(asked) => Some(asked),
            Event::Login | Event::Act { .. } => None,
        };
        let of_statement = |wanted: &str, fits: &dyn Fn(&LoggedStatement) -> bool| {
            wanted.is_empty() || asked.is_some_and(fits)
        };
        (kind.is_empty() || record.event.kind() == kind)
            && (name.is_empty() || record.name == *name)
            && (sqlstate.is_empty() || record.sqlstate() == *sqlstate)
            && of_statement(verdict, &|asked| asked.verdict.name() == verdict)
            && of_statement(table, &|asked| asked.tables.contains(table))
            && of_statement(digest, &|asked| {
                let plan = asked.plan.map(|plan| plan.to_string());
                let names = [Some(asked.statement.to_string()), plan];
                let mut names = names.into_iter().flatten();
                names.any(|name| name.starts_with(digest.as_str()))
            })
    }

    /// The next page of the same.
    fn older(&self, before: i64) -> String {
        let fields = [
            ("kind", &self.kind),
            ("name", &self.name),
            ("verdict", &self.verdict),
            ("sqlstate", &self.sqlstate),
            ("table", &self.table),
            ("digest", &self.digest),
            ("from", &self.from),
            ("to", &self.to),
        ];
        let mut url = format!("/statements?before={before}");
        for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
            url += &format!("&{name}=");
            for byte in value.bytes() {
                url += &format!("%{byte:02X}");
            }
        }
        url
    }
}

pub async fn page(
    Owner(visitor): Owner,
    Query(filter): Query<Filter>,
    State(console): State<Arc<Console>>,
) -> Response {
    if let Some(slow_down) = console.slows(&visitor) {
        return slow_down;
    }
    let engine = console.engine();
    let Some(times) = filter.times() else {
        let why = "A time is written 2026-11-28 or 2026-11-28T14:00, in UTC.";
        let body = view::SITE.message("Not a time", why);
        let page = console.page(&visitor, "Statements", |_| body);
        return (StatusCode::BAD_REQUEST, page).into_response();
    };
    // The answers of the meantime are recorded within a second.
    let read = match read(&engine, &filter, times).await {
        Ok(read) => read,
        Err(error) => return console.fail(&visitor, "Statements", &error),
    };
    let is_in_time = |record: &Record| (times.from..times.to).contains(&record.microseconds);
    let Pageful { records, next } = read;
    let found: Vec<(i64, Record)> = records
        .into_iter()
        .filter(|(_, record)| is_in_time(record) && filter.fits(record))
        .collect();
    let shown: Vec<Vec<Markup>> = found.iter().take(SHOWN_MAX).map(row).collect();
    let next = match found.get(SHOWN_MAX.saturating_sub(1)) {
        Some((number, _)) if found.len() > SHOWN_MAX => Some(*number),
        Some(_) | None => next,
    };
    let costs = most_expensive(&found);
    let page = console.page(&visitor, "Statements", |_| {
        html! {
            (filtering(&filter))
            section aria-labelledby="record" {
                h2 #record { "The record, newest first" }
                @if shown.is_empty() { p { "Nothing fits." } }
                @else { (table("The record", &HEADER, &[], &shown)) }
                @if let Some(number) = next {
                    p { a href=(filter.older(number)) { "Older" } }
                }
                p .note {
                    "Statements and plans are named by keyed digests: " code { "pgveil budget \
                    digest 'SELECT …'" } " computes the one of a statement. How long a statement \
                    took is not recorded. " code { "pgveil budget export" } " prints everything."
                }
            }
            @if !costs.is_empty() {
                section aria-labelledby="expensive" {
                    h2 #expensive { "What cost most, of these" }
                    (table("Most expensive", &["Statement", "Asked", "Mu", "Epsilon"], &[1, 2, 3],
                        &costs))
                }
            }
        }
    });
    page.into_response()
}

/// A page's records: all before the one from which an earlier page links here, or those around the
/// newest that is in time.
async fn read(engine: &Engine, filter: &Filter, times: Times) -> Result<Pageful, Error> {
    let ledger = engine.ledger();
    let before = filter.before.unwrap_or(i64::MAX);
    let newest = match times.newest(ledger, before).await? {
        NewestWithin::At(number) => number,
        none => {
            return Ok(Pageful {
                records: Vec::new(),
                next: begins_at(none),
            });
        }
    };
    let records = ledger
        .recent_records(newest.saturating_add(1), READ_MAX)
        .await?;
    let next = match records.last() {
        Some((last, _)) if records.len() == READ_MAX as usize => {
            begins_at(times.newest(ledger, *last).await?)
        }
        Some(_) | None => None,
    };
    Ok(Pageful { records, next })
}

/// Where the next page begins: the number that its records are before.
fn begins_at(newest: NewestWithin) -> Option<i64> {
    match newest {
        NewestWithin::At(number) => Some(number.saturating_add(1)),
        NewestWithin::Before(number) => Some(number),
        NewestWithin::Nowhere => None,
    }
}

/// A day, or a minute of it, as browsers write them: in microseconds since 1970.
fn moment(text: &str) -> Option<i64> {
    /// The length of a time such as `2026-11-28T14:00`.
    const LENGTH: usize = 16;
    let read = (text.len() <= LENGTH).then(|| timestamp(text, Zone::Refused));
    let since = read.flatten()?.checked_add(FROM_1970_US)?;
    (since >= 0).then_some(since)
}

const HEADER: [&str; 9] = [
    "Time (UTC)",
    "Kind",
    "Who",
    "From",
    "What",
    "Tables",
    "Outcome",
    "Statement",
    "Plan",
];

fn row((_, record): &(i64, Record)) -> Vec<Markup> {
    let Record {
        microseconds,
        name,
        session: _,
        origin,
        ending,
        event,
    } = record;
    let address = origin.address.map(|address| address.to_string());
    let from = [
        Some(origin.via.name().to_owned()),
        address,
        Some(origin.application.clone()).filter(|name| !name.is_empty()),
    ];
    let from: Vec<String> = from.into_iter().flatten().collect();
    let who = match &origin.actor {
        Some(actor) => format!("{actor}, as {name}"),
        None => name.clone(),
    };
    let (what, tables, statement, plan) = match event {
        Event::Statement(asked) => (
            charge_words(&asked.loss),
            asked.tables.join(", "),
            match &asked.shape {
                Some(shape) => format!("{} {shape}", asked.statement.short()),
                None => asked.statement.short(),
            },
            asked.plan.map_or_else(String::new, |plan| plan.short()),
        ),
        Event::Login => Default::default(),
        Event::Act { act, target, why } => {
            let what = format!("{act} {target}: {why}");
            (what, String::new(), String::new(), String::new())
        }
    };
    let outcome = match (event, ending) {
        (Event::Statement(asked), Ending::Succeeded) => asked.verdict.name().to_owned(),
        (Event::Statement(asked), Ending::Failed(sqlstate)) => {
            format!("{} {sqlstate}", asked.verdict.name())
        }
        (Event::Login | Event::Act { .. }, Ending::Succeeded) => "done".to_owned(),
        (Event::Login | Event::Act { .. }, Ending::Failed(sqlstate)) => {
            format!("refused {sqlstate}")
        }
    };
    vec![
        text_markup(minute(*microseconds)),
        text_markup(event.kind()),
        text_markup(who),
        text_markup(from.join(" ")),
        text_markup(what),
        text_markup(tables),
        text_markup(outcome),
        html! { code { (statement) } },
        html! { code { (plan) } },
    ]
}

/// The statements that cost most, how often each was asked, and what it cost in all.
fn most_expensive(found: &[(i64, Record)]) -> Vec<Vec<Markup>> {
    let mut all = HashMap::new();
    for (_, record) in found {
        if let Event::Statement(asked) = &record.event {
            let sum = all.entry(*asked.statement.as_bytes()).or_insert((
                asked.statement,
                0u32,
                0.0,
                Some(0.0),
            ));
            sum.1 += 1;
            sum.2 += asked.loss.mu_squared.to_f64();
            let epsilon = asked.loss.epsilon.map(|epsilon| epsilon.to_f64());
            sum.3 = sum.3.zip(epsilon).map(|(sum, more)| sum + more);
        }
    }
    let mut all: Vec<_> = all.into_values().filter(|sum| sum.2 > 0.0).collect();
    all.sort_by(|one, other| other.2.total_cmp(&one.2));
    let row = |(statement, times, mu_squared, epsilon): (_, u32, f64, Option<f64>)| {
        let statement: KeyedStatementDigest = statement;
        vec![
            html! { code { (statement.short()) } },
            text_markup(times),
            text_markup(format!("{:.4}", mu_squared.sqrt())),
            text_markup(epsilon.map_or("-".to_owned(), |epsilon| format!("{epsilon:.4}"))),
        ]
    };
    all.into_iter().take(EXPENSIVE_MAX).map(row).collect()
}

fn filtering(filter: &Filter) -> Markup {
    let verdicts = Verdict::ALL.map(Verdict::name);
    let texts = [
        ("name", "Role or operator", &filter.name),
        ("table", "Table (schema.table)", &filter.table),
        ("sqlstate", "SQLSTATE", &filter.sqlstate),
        ("digest", "Digest of statement or plan", &filter.digest),
    ];
    let times = [
        ("from", "Begun from (UTC)", &filter.from),
        ("to", "Begun before (UTC)", &filter.to),
    ];
    let choices: [(&str, &str, &String, &[&str]); 2] = [
        ("kind", "Kind", &filter.kind, &KINDS),
        ("verdict", "Verdict", &filter.verdict, &verdicts),
    ];
    html! {
        section aria-labelledby="filter" {
            h2 #filter { "Filter" }
            form method="get" action="/statements" {
                div .fields {
                    @for (name, label, value, all) in choices {
                        div {
                            label for=(name) { (label) }
                            select id=(name) name=(name) {
                                option value="" { "all" }
                                @for choice in all {
                                    option value=(choice) selected[choice == value] { (choice) }
                                }
                            }
                        }
                    }
                    @for (name, label, value) in texts {
                        div {
                            label for=(name) { (label) }
                            input id=(name) name=(name) value=(value) autocomplete="off"
                                spellcheck="false";
                        }
                    }
                    @for (name, label, value) in times {
                        // A browser shows no day without a time.
                        @let midnight = if value.len() == 10 { "T00:00" } else { "" };
                        div {
                            label for=(name) { (label) }
                            input id=(name) name=(name) type="datetime-local"
                                value=(format!("{value}{midnight}"));
                        }
                    }
                }
                div .buttons { button .primary { "Show" } }
            }
        }
    }
}
