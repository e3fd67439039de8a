//! The pages as HTML. Everything that comes from a client or a row is escaped by maud.

mod answer;
mod attacks;
mod dashboards;

pub use answer::{outcome, refusal};
pub use attacks::{attack_result, averaging, difference, repeats};

use maud::{DOCTYPE, Markup, html};

use super::state::SpendingStep;
use crate::demo::questions::DemoQuestion;
use crate::demo::topic::{LIBRARY_TOPIC, SURVEY_TOPIC, Topic};
use crate::web::{share, width};

/// The frame of every page.
pub struct PageFrame {
    pub topic: &'static Topic,
    /// The fraction of the budget that is left.
    pub left: Option<f64>,
    pub steps: Vec<SpendingStep>,
    pub psql: String,
}

/// A whole page.
pub fn page(frame: &PageFrame, sql: &str, body: &Markup) -> Markup {
    let topic = frame.topic;
    html! {
        (DOCTYPE)
        html lang="en" {
            (crate::web::head("pgveil demo"))
            body {
                a .skip href="#answer" { "Skip to the answer" }
                header {
                    h1 { a href="/" { "pgveil" } " demo" }
                    (pages(topic))
                    p { (topic.intro) }
                }
                main {
                    (budget(frame))
                    @if !topic.streams.is_empty() { (dashboards::all(topic)) }
                    (asking(topic, sql))
                    section #answer tabindex="-1" aria-label="Answer" { (body) }
                    @if topic.streams.is_empty() { (attacking()) }
                    (connecting(&frame.psql))
                }
                footer {
                    p {
                        (topic.why_exact) " They come from a PostgreSQL of the demo's own; pgveil \
                        serve has no such thing."
                    }
                }
            }
        }
    }
}

/// Links to all pages.
fn pages(here: &Topic) -> Markup {
    html! {
        nav .pages aria-label="Pages" {
            ul {
                @for topic in [&SURVEY_TOPIC, &LIBRARY_TOPIC] {
                    @let current = (topic.path == here.path).then_some("page");
                    li { a href=(topic.home()) aria-current=[current] { (topic.name) } }
                }
            }
        }
    }
}

/// A budget as a bar: what is left, and what was just spent.
fn meter(before: f64, left: f64, words: &str) -> Markup {
    html! {
        svg .track role="img" aria-label=(words) {
            rect .empty width="100%" height="100%" {}
            rect .just width=(width(before)) height="100%" {}
            rect .left width=(width(left)) height="100%" {}
        }
    }
}

/// The most steps of a budget that are listed without a click.
const OPEN_MAX: usize = 8;

/// The budget as a bar, and how it fell.
fn budget(frame: &PageFrame) -> Markup {
    let left = frame.left.unwrap_or(0.0);
    let last = frame.steps.last();
    let has_streams = !frame.topic.streams.is_empty();
    let words = match frame.left {
        Some(left) => format!("{} of the budget is left", share(left)),
        None => "the proxy does not answer".to_owned(),
    };
    html! {
        section .budget aria-labelledby="budget" {
            h2 #budget { "Privacy budget" span .figure { (words) } }
            (meter(last.map_or(left, |last| last.before), left, &words))
            @if !frame.steps.is_empty() {
                details open[has_streams && frame.steps.len() <= OPEN_MAX] {
                    summary { "What was spent on what" }
                    ol {
                        @for step in &frame.steps {
                            li {
                                (step.what) " "
                                span .figure {
                                    @if step.after < step.before {
                                        (share(step.before)) " → " (share(step.after))
                                    } @else {
                                        "free"
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The question box and its examples.
fn asking(topic: &Topic, sql: &str) -> Markup {
    html! {
        section .ask aria-labelledby="ask" {
            h2 #ask { "Ask" }
            // Dashboards have a button for each.
            @if topic.streams.is_empty() { (examples(topic)) }
            form method="post" action={ (topic.path) "/ask#answer" } {
                label for="sql" { "SQL, as in psql" }
                textarea #sql name="sql" rows=(sql.lines().count().clamp(4, 16))
                    spellcheck="false" autocomplete="off"
                    autocapitalize="off" required { "\n" (sql) }
                div .buttons {
                    button .primary name="action" value="ask" { "Ask" }
                    button name="action" value="price" { "Show the price first (free)" }
                }
            }
        }
    }
}

fn examples(topic: &Topic) -> Markup {
    html! {
        nav aria-label="Examples" {
            ul {
                @for (at, question) in topic.questions.iter().enumerate() {
                    li { a href={ (topic.home()) "?q=" (at) } { (question.title) } }
                }
            }
        }
    }
}

/// Above the fold of a fresh page: what to do.
pub fn welcome(topic: &Topic, question: Option<&DemoQuestion>) -> Markup {
    html! {
        @match question {
            Some(question) => {
                h2 { (question.title) }
                p { (question.why) }
            }
            None if !topic.streams.is_empty() => {
                h2 { "Start here" }
                p {
                    "Press the buttons above, one after the other, and watch the budget: it falls \
                    once for each dashboard, and then stands still."
                }
            }
            None => {
                h2 { "Start here" }
                p {
                    "Choose an example, look at its price, then ask. You see the private answer \
                    with its error bars, and the exact answer as a dot."
                }
            }
        }
    }
}

fn attacking() -> Markup {
    let attacks = [
        (
            "difference",
            "Single out one woman",
            "Ask for all wages and for all wages but hers, and subtract. Costs two questions.",
        ),
        (
            "repeats",
            "Repeat a hundred times",
            "Ask the same again and again, to average the noise away. Costs one question at most.",
        ),
        (
            "averaging",
            "Buy twenty answers",
            "Pay for fresh noise each time, and average. Costs less than one question.",
        ),
    ];
    html! {
        section .attacks aria-labelledby="attack" {
            h2 #attack { "Attack" }
            p { "Three attacks that break a database which only adds up. They run over the wire, \
                as the analyst, and are charged." }
            ul {
                @for (kind, title, why) in attacks {
                    li {
                        form method="post" action="/attack#answer" {
                            button name="kind" value=(kind) { (title) }
                        }
                        p { (why) }
                    }
                }
            }
        }
    }
}

fn connecting(psql: &str) -> Markup {
    html! {
        section .connect aria-labelledby="connect" {
            h2 #connect { "Connect" }
            p { "The same proxy, with the same budget, from any PostgreSQL client:" }
            pre tabindex="0" { code { (psql) } }
        }
    }
}

/// A button that asks this statement.
fn again(topic: &Topic, sql: &str, title: &str) -> Markup {
    html! {
        form method="post" action={ (topic.path) "/ask#answer" } {
            input type="hidden" name="sql" value=(sql);
            input type="hidden" name="action" value="ask";
            button { (title) }
        }
    }
}
