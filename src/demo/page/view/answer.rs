//! The outcome of a question: its price, its answer, or its refusal.

use maud::{Markup, html};

use super::again;
use crate::demo::page::ask::{Action, AskedOutcome, BothAnswers, ShownPrice};
use crate::demo::questions::QUESTIONS;
use crate::demo::session::Refused;
use crate::web::{point_at, share};

pub fn outcome(outcome: &AskedOutcome, sql: &str, action: Action) -> Markup {
    html! {
        @if let Some(refused) = &outcome.refused { (refusal(refused, sql)) }
        @if let Some(answered) = &outcome.answered { (answer(answered, sql)) }
        @if let Some(price) = &outcome.price {
            @if outcome.answered.is_none() && outcome.refused.is_none() {
                (show_price(price, sql, action))
            }
        }
    }
}

/// The price before paying, in EXPLAIN's words.
fn show_price(price: &ShownPrice, sql: &str, action: Action) -> Markup {
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
        @if price.useless.is_none() { (again(sql, "Ask it")) }
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

fn answer(answered: &BothAnswers, sql: &str) -> Markup {
    let trimmed = sql.trim();
    let example = QUESTIONS.iter().find(|question| question.sql == trimmed);
    let is_free = answered.after >= answered.before;
    html! {
        h2 { @match example { Some(example) => (example.title), None => "The answer" } }
        p .lead {
            @if is_free {
                "Free: the budget stays at " (share(answered.after)) "."
            } @else {
                "Cost " (share(answered.before - answered.after)) " of the budget; "
                (share(answered.after)) " is left."
            }
        }
        (answered.answer.figures())
        @if !answered.answer.has_exact {
            p .note { "The exact side did not answer." }
        }
        details open[!answered.answer.is_drawn()] {
            summary { "The numbers as a table" }
            (answered.answer.table())
            (answered.answer.note_of_cuts())
        }
        div .buttons {
            (again(trimmed, "Ask again (free)"))
            @if let Some(coarser) = example.and_then(|example| example.coarser) {
                (again(coarser, "Ask a coarser question (free)"))
            }
        }
        @if !answered.notices.is_empty() {
            details {
                summary { "Notices, as psql prints them" }
                pre tabindex="0" { (answered.notices.join("\n")) }
            }
        }
    }
}
