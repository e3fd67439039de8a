//! The parts that every page of the desk has, and a price.

use maud::{Markup, html};

use crate::engine::{Price, percent};
use crate::web::course;
use crate::web::page::{Site, Who, hidden, table, text};

pub const SITE: Site = Site {
    name: "desk",
    footer: "Prices are free. What is charged is in your role's account, here as in psql.",
    home: "Ask",
    login: (
        "Role",
        "The role and the password by which you connect with psql.",
    ),
};

pub fn who(role: &str) -> Who {
    Who {
        words: format!("logged in as {role}"),
        pages: vec![
            ("/", "Ask"),
            ("/budget", "My budget"),
            ("/statements", "My statements"),
        ],
    }
}

/// What a question costs, how far off its answer will be, and the button that runs it.
pub fn price(price: &Price, (quote, sql): (u64, &str), token: &str) -> Markup {
    let (first, rest) = price
        .lines
        .split_first()
        .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let errors: Vec<Vec<Markup>> = price
        .errors()
        .iter()
        .map(|(name, within)| vec![text(name), text(within.text())])
        .collect();
    html! {
        section #found aria-labelledby="price" {
            h2 #price { "Price" }
            p .lead { (first) }
            @if !errors.is_empty() {
                (table("How far off it will be", &["Of the answer", "95 %"], &[1], &errors))
            }
            @for caution in &price.cautions { p .note { "Caution: " (caution) } }
            @if let Some((useless, refuses)) = &price.useless {
                div .refused {
                    p { "The noise would hide the answer: " (useless.message) "." }
                    @if let Some(hint) = &useless.hint { p { "Hint: " (hint) } }
                    @if *refuses { p { "It is refused, at no cost." } }
                }
            }
            @if let Some(epsilon) = price.at_most {
                p .note {
                    "This is the price of a first answer. The epsilon that it shows to be needed \
                    for pgveil.target_error is bought next, for epsilon " (epsilon)
                    " at most in all."
                }
            }
            pre tabindex="0" aria-label="The statement of this price" { (sql) }
            (run(price, quote, token))
            @if let Some(curve) = &price.curve {
                details {
                    summary { "The error at other prices (SET pgveil.epsilon before the SELECT)" }
                    (course::curve(curve))
                }
            }
            details {
                summary { "The plan, as EXPLAIN prints it" }
                pre tabindex="0" { (rest.join("\n")) }
            }
        }
    }
}

fn run(price: &Price, quote: u64, token: &str) -> Markup {
    let refuses = price.useless.as_ref().is_some_and(|(_, refuses)| *refuses);
    let words = match price.after {
        _ if refuses => return html! {},
        None => {
            let why = "What is left of the budget does not cover it.";
            return html! { p .refused role="alert" { (why) } };
        }
        Some(_) if price.is_free() => "Run, free".to_owned(),
        Some(after) => format!(
            "Run at this price: {} of the budget",
            percent(price.left - after)
        ),
    };
    html! {
        form method="post" action="/run#found" {
            (hidden(token))
            input type="hidden" name="quote" value=(quote);
            div .buttons { button .primary { (words) } }
        }
        p .note {
            "Where it would cost anything else by then, nothing is charged, and the new price is \
            shown."
        }
    }
}
