//! The parts that every page of the desk has, and a price.

use maud::{Markup, html};

use crate::engine::{FirstStep, QuestionPrice, SearchesDue, Within, percent, three_digits};
use crate::web::history_chart;
use crate::web::page::{PageReader, SiteTexts, digest, table, text_markup, token_field};

pub const SITE: SiteTexts = SiteTexts {
    name: "desk",
    footer: "What is charged is in your role's account, here as in psql.",
    home: "Ask",
    login: (
        "Role",
        "The role and the password by which you connect with psql.",
    ),
};

pub fn who(role: &str) -> PageReader {
    PageReader {
        words: format!("logged in as {role}"),
        pages: vec![
            ("/", "Ask"),
            ("/budget", "My budget"),
            ("/statements", "My statements"),
        ],
    }
}

/// The price of a question, its expected error, and the button that runs it; above them
/// `alert`, where it was to run at another price.
pub fn price(
    price: &QuestionPrice,
    (quote, sql, named): (u64, &str, &str),
    token: &str,
    alert: Option<&str>,
) -> Markup {
    let (first, rest) = price
        .lines
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let errors: Vec<Vec<Markup>> = price
        .errors()
        .iter()
        .map(|(name, within)| vec![text_markup(name), text_markup(off_by(*within))])
        .collect();
    html! {
        section #found aria-labelledby="price" {
            h2 #price { "Price" }
            @if let Some(alert) = alert { p .refused role="alert" { (alert) } }
            p .lead {
                @match in_all(price) {
                    Some(in_all) => (in_all),
                    None => (first),
                }
            }
            @if !errors.is_empty() {
                (table("How far off it will be", &["Aggregate", "Half of its 95 % interval"], &[1],
                    &errors))
            }
            @for caution in &price.cautions { p .note { "Caution: " (caution) } }
            @if let Some((useless, refuses)) = &price.useless {
                div .refused {
                    p { "The noise would hide the answer: " (useless.message) "." }
                    @if let Some(hint) = &useless.hint { p { "Hint: " (hint) } }
                    @if *refuses { p { "It is refused, at no cost." } }
                }
            }
            @match price.at_most.map(|most| most.step) {
                Some(FirstStep::Answer { epsilon }) => p .note {
                    "pgveil.target_error needs a first answer, which shows what the wanted error \
                    costs. That is bought next without asking again: for epsilon " (epsilon)
                    " at most in all. How far off it will be is said of the first answer."
                },
                Some(FirstStep::Check) => p .note {
                    "pgveil.reuse = checked compares the answer of a summary with the rows. Where \
                    it is too far off, the question is bought next without asking again. How far \
                    off it will be is said of the summary's answer. "
                    (first) "."
                },
                None => {}
            }
            pre tabindex="0" aria-label="The statement of this price" { (sql) }
            (digest(named))
            (run(price, quote, token))
            @if let Some(curve) = &price.curve {
                details {
                    summary { "The error at other prices (SET pgveil.epsilon before the SELECT)" }
                    (history_chart::curve(curve))
                }
            }
            details {
                summary { "The plan, as EXPLAIN prints it" }
                pre tabindex="0" { (rest.join("\n")) }
            }
        }
    }
}

/// The price of a question that may buy several answers: the first, and the most of all.
fn in_all(price: &QuestionPrice) -> Option<String> {
    let most = price.at_most?;
    let now = match price.after {
        _ if price.first_is_held() => "nothing".to_owned(),
        Some(after) => percent(price.left - after),
        None => "more than is left".to_owned(),
    };
    let whole = match most.after {
        Some(after) => format!("{} of your budget", percent(price.left - after)),
        None => format!("all that is left of your budget, {},", percent(price.left)),
    };
    let step = match most.step {
        FirstStep::Answer { .. } => "a first answer",
        FirstStep::Check => "a check of the summary's answer",
    };
    Some(format!("{now} for {step}, at most {whole} in all"))
}

/// How far off an aggregate will be, in words.
fn off_by(within: Within) -> String {
    match within {
        Within::OverRows(half) => format!("±{} divided by the number of rows", three_digits(half)),
        Within::Ranks(ranks) => {
            format!("±{} places in the sorted list of rows", three_digits(ranks))
        }
        Within::RanksAtMost(ranks) => {
            format!(
                "at most ±{} places in the sorted list of rows",
                three_digits(ranks)
            )
        }
        Within::Unknown => "the answer says".to_owned(),
        Within::Null => "no value: a look saw too few units".to_owned(),
        known @ (Within::Known(_)
        | Within::Between { .. }
        | Within::AtMost { .. }
        | Within::WhereSeen { .. }) => known.text(),
    }
}

fn run(price: &QuestionPrice, quote: u64, token: &str) -> Markup {
    let refuses = price.useless.as_ref().is_some_and(|(_, refuses)| *refuses);
    let words = match (price.after, price.at_most) {
        _ if refuses => return html! {},
        (None, _) => {
            let why = "What is left of the budget does not cover it.";
            return html! { p .refused role="alert" { (why) } };
        }
        (Some(after), Some(most)) => {
            let now = percent(price.left - after);
            let whole = most.after.map_or(price.left, |least| price.left - least);
            format!(
                "Run: {now} now, at most {} of the budget in all",
                percent(whole)
            )
        }
        (Some(_), None) if price.is_free() => "Run, free".to_owned(),
        (Some(after), None) => format!(
            "Run at this price: {} of the budget",
            percent(price.left - after)
        ),
    };
    html! {
        form method="post" action="/run" {
            (token_field(token))
            input type="hidden" name="quote" value=(quote);
            div .buttons { button .primary { (words) } }
        }
        p .note {
            "Where it would cost anything else by then, nothing is charged, and the new price is \
            shown."
        }
    }
}

/// The price of the policy's searches before a role's first price, and the button that pays it.
pub fn searches(due: &SearchesDue, sql: &str, token: &str) -> Markup {
    html! {
        section #found aria-labelledby="searches" {
            h2 #searches { "Before the first price" }
            p {
                "The policy leaves bounds to a private search (auto). Each role pays once for what \
                it found, before it sees a price. Nothing was charged yet."
            }
            @match due.after {
                Some(after) => {
                    p .lead {
                        (percent(due.left - after)) " of your budget, once; " (percent(after))
                        " left after"
                    }
                    form method="post" action="/price#found" {
                        (token_field(token))
                        input type="hidden" name="sql" value=(sql);
                        input type="hidden" name="pay" value="searches";
                        div .buttons {
                            button .primary {
                                "Pay " (percent(due.left - after)) " and show the price"
                            }
                        }
                    }
                }
                None => p .refused role="alert" {
                    "It costs more than is left of your budget. Ask the data owner for a larger \
                    budget, or to write the bounds in the policy."
                }
            }
        }
    }
}

/// A section that says why nothing was done.
pub fn note(title: &str, why: &str) -> Markup {
    html! {
        section #found aria-labelledby="note" {
            h2 #note { (title) }
            p .refused role="alert" { (why) }
        }
    }
}
