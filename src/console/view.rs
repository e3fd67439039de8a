//! What every page has: head, navigation, messages, tables. All text is escaped by maud.

use maud::{DOCTYPE, Markup, html};

use crate::calendar::MICROS_PER_DAY;
use crate::ledger::date;
use crate::policy::Rights;
use crate::web::chart::Bar;

/// For every login that fails: which part was wrong is not said.
pub const WRONG: &str = "Name, password or certificate is wrong.";

const PAGES: [(&str, &str, Rights); 6] = [
    ("/", "Overview", Rights::Watch),
    ("/budgets", "Budgets", Rights::Own),
    ("/statements", "Statements", Rights::Own),
    ("/explore", "Explore", Rights::Own),
    ("/policy", "Policy", Rights::Own),
    ("/checks", "Checks", Rights::Own),
];

/// Whose page it is, and the token of its forms.
pub struct Who<'a> {
    pub name: &'a str,
    pub rights: Rights,
    pub token: &'a str,
}

/// A whole page; without a session it has no navigation.
pub fn page(title: &str, who: Option<&Who<'_>>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (crate::web::head(&format!("{title} – pgveil console")))
            body {
                a .skip href="#main" { "Skip to the page" }
                header {
                    h1 { a href="/" { "pgveil" } " console" }
                    @if let Some(who) = who { (navigation(title, who)) }
                }
                main #main tabindex="-1" { (body) }
                footer {
                    p {
                        "No page here shows a row or a stored answer, or changes the policy. What \
                        loosens is a command on the owner's machine."
                    }
                }
            }
        }
    }
}

fn navigation(title: &str, who: &Who<'_>) -> Markup {
    html! {
        div .top {
            nav aria-label="Pages" {
                ul {
                    @for (path, name, rights) in PAGES {
                        @if rights <= who.rights {
                            li {
                                a href=(path) aria-current=[(name == title).then_some("page")] {
                                    (name)
                                }
                            }
                        }
                    }
                }
            }
            form .leave method="post" action="/logout" {
                (hidden(who.token))
                span .note { (who.name) " may " (who.rights.words()) }
                button { "Log out" }
            }
        }
    }
}

/// The token of a form.
pub fn hidden(token: &str) -> Markup {
    html! { input type="hidden" name="token" value=(token); }
}

/// The page before a session.
pub fn login(why: Option<&str>) -> Markup {
    let body = html! {
        section .login aria-labelledby="login" {
            h2 #login { "Log in" }
            @if let Some(why) = why { p .refused role="alert" { (why) } }
            form method="post" action="/login" {
                label for="name" { "Operator" }
                input #name name="name" autocomplete="username" autocapitalize="off"
                    spellcheck="false" maxlength="63" required autofocus;
                label for="password" { "Password" }
                input #password name="password" type="password" autocomplete="current-password"
                    maxlength="1024" required;
                div .buttons { button .primary { "Log in" } }
            }
            p .note {
                "Operators are listed in the policy, under " code { "operators:" } ". Roles that \
                ask questions do not log in here."
            }
        }
    };
    page("Log in", None, &body)
}

/// A page of one message.
pub fn message(title: &str, text: &str) -> Markup {
    html! {
        section aria-labelledby="message" {
            h2 #message { (title) }
            p { (text) }
            p { a href="/" { "Overview" } }
        }
    }
}

/// A table; columns of which `numbers` has the place are aligned right.
pub fn table(caption: &str, header: &[&str], numbers: &[usize], rows: &[Vec<Markup>]) -> Markup {
    let class = |at: usize| numbers.contains(&at).then_some("number");
    html! {
        div .scroll tabindex="0" role="group" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    @for (at, name) in header.iter().enumerate() {
                        th scope="col" class=[class(at)] { (name) }
                    }
                } }
                tbody {
                    @for row in rows {
                        tr { @for (at, cell) in row.iter().enumerate() {
                            td class=[class(at)] { (cell) }
                        } }
                    }
                }
            }
        }
    }
}

pub fn text(text: impl std::fmt::Display) -> Markup {
    html! { (text.to_string()) }
}

/// A bar of what is left of a budget.
pub fn left(label: &str, fraction: f64) -> Bar {
    Bar {
        label: label.to_owned(),
        value: 100.0 * fraction,
        interval: None,
        exact: None,
    }
}

/// A moment to the minute, UTC: exact times would tell how long statements took.
pub fn minute(microseconds: i64) -> String {
    let (day, of_day) = (
        microseconds.div_euclid(MICROS_PER_DAY),
        microseconds.rem_euclid(MICROS_PER_DAY),
    );
    let minutes = of_day / 60_000_000;
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{} {hour:02}:{minute:02}", date(day * MICROS_PER_DAY))
}
