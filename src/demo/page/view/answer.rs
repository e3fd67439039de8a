//! What became of a question: its price, its answer, or its refusal.

use maud::{Markup, html};

use super::again;
use crate::demo::page::ask::{Action, Answered, Cell, Outcome, Price};
use crate::demo::questions::QUESTIONS;
use crate::demo::session::Refused;
use crate::web::chart::{Bar, number};
use crate::web::{chart, pointed, share};

/// The most groups that are drawn; the table has all of them.
const DRAWN_MAX: usize = 40;
/// Fewer columns look better lying.
const COLUMNS_MIN: usize = 5;

pub fn outcome(outcome: &Outcome, sql: &str, action: Action) -> Markup {
    html! {
        @if let Some(refused) = &outcome.refused { (refusal(refused, sql)) }
        @if let Some(answered) = &outcome.answered { (answer(answered, sql)) }
        @if let Some(price) = &outcome.price {
            @if outcome.answered.is_none() && outcome.refused.is_none() {
                (priced(price, sql, action))
            }
        }
    }
}

/// The price before paying, in EXPLAIN's words.
fn priced(price: &Price, sql: &str, action: Action) -> Markup {
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
    let pointed = refused.position.and_then(|at| pointed(at, sql));
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

fn answer(answered: &Answered, sql: &str) -> Markup {
    let trimmed = sql.trim();
    let example = QUESTIONS.iter().find(|question| question.sql == trimmed);
    let is_free = answered.after >= answered.before;
    let is_drawn = (1..=DRAWN_MAX).contains(&answered.rows.len());
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
        @for measure in answered.measures.iter().take(3) { (drawn(answered, *measure)) }
        @if !answered.has_exact {
            p .note { "The exact side did not answer." }
        }
        details open[!is_drawn] {
            summary { "The numbers as a table" }
            (table(answered))
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

/// The chart of one measure, if it can be drawn, and what it shows in a sentence.
fn drawn(answered: &Answered, measure: usize) -> Markup {
    let bars = bars(answered, measure);
    if !(1..=DRAWN_MAX).contains(&bars.len()) {
        return html! {};
    }
    let keys = answered.columns.len() - answered.measures.len();
    let is_ordered = keys == 1
        && bars.len() >= COLUMNS_MIN
        && bars.iter().all(|bar| bar.label.parse::<f64>().is_ok());
    let with_both = bars
        .iter()
        .filter(|bar| bar.exact.is_some() && bar.interval.is_some());
    let total = with_both.clone().count();
    let inside = with_both.filter(|bar| {
        let (low, high) = bar.interval.unwrap_or_default();
        bar.exact.is_some_and(|exact| (low..=high).contains(&exact))
    });
    let inside = inside.count();
    html! {
        figure {
            figcaption {
                @if let Some(name) = answered.columns.get(measure) { strong { (name) } " " }
                (legend())
            }
            @if is_ordered { (chart::columns(&bars)) } @else { (chart::rows(&bars)) }
            @if total > 0 {
                p .note {
                    @match (total, inside) {
                        (1, 1) => "The exact value lies within the interval.",
                        (1, _) => "The exact value lies outside the interval.",
                        _ => { (inside) " of " (total) " exact values lie within their interval." }
                    }
                }
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        span .legend {
            span .key .of-bar {} "private " span .key .of-whisker {} "95 % interval "
            span .key .of-dot {} "exact"
        }
    }
}

fn bars(answered: &Answered, measure: usize) -> Vec<Bar> {
    let label = |row: &[Cell]| {
        let keys = row.iter().enumerate();
        let keys = keys.filter(|(at, _)| !answered.measures.contains(at));
        let texts: Vec<&str> = keys
            .map(|(_, cell)| cell.text.as_deref().unwrap_or("NULL"))
            .collect();
        if texts.is_empty() {
            answered.columns.get(measure).cloned().unwrap_or_default()
        } else {
            texts.join(" · ")
        }
    };
    let bar = |row: &Vec<Cell>| {
        let cell = row.get(measure)?;
        let parse = |text: &Option<String>| text.as_deref()?.parse::<f64>().ok();
        Some(Bar {
            label: label(row),
            value: parse(&cell.text)?,
            interval: cell.interval,
            exact: parse(&cell.exact),
        })
    };
    answered.rows.iter().filter_map(bar).collect()
}

fn table(answered: &Answered) -> Markup {
    let is_measure = |at: &usize| answered.measures.contains(at);
    html! {
        div .scroll tabindex="0" role="region" aria-label="The answer as a table" {
            table {
                thead {
                    tr {
                        @for (at, name) in answered.columns.iter().enumerate() {
                            th scope="col" .number[is_measure(&at)] { (name) }
                            @if is_measure(&at) {
                                th scope="col" .number { "95 %" }
                                @if answered.has_exact { th scope="col" .number { "exact" } }
                            }
                        }
                    }
                }
                tbody {
                    @for row in &answered.rows {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                (value(cell, is_measure(&at), answered.has_exact))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn value(cell: &Cell, is_measure: bool, has_exact: bool) -> Markup {
    let text = cell.text.as_deref().unwrap_or("");
    html! {
        td .number[is_measure] { (text) }
        @if is_measure {
            td .number {
                @if let Some((low, high)) = cell.interval { (number(low)) " to " (number(high)) }
            }
            @if has_exact { td .number .exact { (cell.exact.as_deref().unwrap_or("")) } }
        }
    }
}
