//! The outcome of a question: its price, its answer, or its refusal.

use maud::{Markup, html};

use super::{again, meter};
use crate::demo::page::ask::{Action, AskedOutcome, BothAnswers, ShownPrice};
use crate::demo::session::Refused;
use crate::demo::topic::Topic;
use crate::web::{point_at, share};

pub fn outcome(topic: &Topic, outcome: &AskedOutcome, sql: &str, action: Action) -> Markup {
    html! {
        @if let Some(refused) = &outcome.refused { (refusal(refused, sql)) }
        @if let Some(answered) = &outcome.answered { (answer(topic, answered, sql)) }
        @if let Some(price) = &outcome.price {
            @if outcome.answered.is_none() && outcome.refused.is_none() {
                (show_price(topic, price, sql, action))
            }
        }
    }
}

/// The price before paying, in EXPLAIN's words.
fn show_price(topic: &Topic, price: &ShownPrice, sql: &str, action: Action) -> Markup {
    html! {
        h2 { @if action == Action::Ask { "Not asked" } @else { "The price" } }
        @if let Some(useless) = &price.useless {
            p .refused { "Nothing was charged: " (useless) }
        }
        @match (price.is_free, price.after) {
            (true, _) => p .lead {
                "Free. "
                @if price.from_finer { "It is a sum of groups that are paid for." }
                @else { "It is paid for, or reads no private row." }
            },
            (false, Some(after)) => p .lead {
                (share(price.before - after)) " of the budget: "
                (share(price.before)) " before, " (share(after)) " after."
            },
            (false, None) => p .refused { "The budget does not cover it." },
        }
        p { "Cost: " (price.cost) }
        @if !price.noise.is_empty() {
            ul { @for line in &price.noise { li { (line) } } }
        }
        @for caution in &price.cautions { p .note { "Caution: " (caution) } }
        @if price.useless.is_none() { (again(topic, sql, "Ask it")) }
        details {
            summary { "The whole plan, as EXPLAIN prints it" }
            pre tabindex="0" { (price.plan.join("\n")) }
        }
    }
}

/// An error as psql shows it.
pub fn refusal(refused: &Refused, sql: &str) -> Markup {
    let pointed = refused.position.and_then(|at| point_at(at, sql));
    html! {
        h2 { "Refused" }
        div .refused role="alert" {
            p { strong { (refused.message) } " " span .figure { "SQLSTATE " (refused.code) } }
            @if let Some(pointed) = pointed { pre { (pointed) } }
            @if let Some(detail) = &refused.detail { p { (detail) } }
            @if let Some(hint) = &refused.hint { p { "Hint: " (hint) } }
        }
    }
}

fn answer(topic: &Topic, answered: &BothAnswers, sql: &str) -> Markup {
    let trimmed = sql.trim();
    let (example, stream) = (topic.question(trimmed), topic.stream(trimmed));
    let is_free = answered.after >= answered.before;
    let why = example.map(|example| example.why);
    let why = why.or(stream.map(|(stream, _)| stream.why));
    let next = example.and_then(|example| topic.next(example));
    let left = format!("{} of the budget is left", share(answered.after));
    let later = stream.and_then(|(stream, look)| Some((stream.sql(look + 1)?, stream.later)));
    html! {
        h2 { (topic.title(trimmed).unwrap_or("The answer")) }
        p .lead {
            @if is_free {
                "Free: the budget stays at " (share(answered.after)) "."
            } @else {
                "Cost " (share(answered.before - answered.after)) " of the budget; "
                (share(answered.after)) " is left."
            }
        }
        @if !topic.streams.is_empty() {
            (meter(answered.before, answered.after, &left))
            @if let Some(why) = why { p { (why) } }
            @for line in lessons(&answered.notices) { p .lesson { (line) } }
        }
        (answered.answer.figures())
        @if !answered.answer.has_exact {
            p .note { "The exact side did not answer." }
        }
        div .buttons {
            @if let Some((later, title)) = &later { (again(topic, later, title)) }
            @if let Some(next) = next {
                (again(topic, next.sql, &format!("Next: {}", next.title)))
            }
            (again(topic, trimmed, "Ask again (free)"))
            @if let Some(coarser) = example.and_then(|example| example.coarser) {
                (again(topic, coarser, "Ask a coarser question (free)"))
            }
        }
        details open[!answered.answer.is_drawn()] {
            summary { "The numbers as a table" }
            (answered.answer.table())
            (answered.answer.note_of_cuts())
        }
        @if !answered.notices.is_empty() {
            details {
                summary { "Notices, as psql prints them" }
                pre tabindex="0" { (answered.notices.join("\n")) }
            }
        }
    }
}

/// The notices that say why an answer cost what it did: of a summary, and of periods.
fn lessons(notices: &[String]) -> Vec<&str> {
    let texts = notices
        .iter()
        .map(|notice| notice.trim_start_matches("NOTICE:").trim());
    let begins = ["received summary ", "answered by ", "periods of "];
    texts
        .filter(|text| begins.iter().any(|begin| text.starts_with(begin)))
        .collect()
}
