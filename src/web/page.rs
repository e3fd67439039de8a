//! The parts of every page behind a login: head, navigation, messages, tables, refusals. All text
//! is escaped by maud.

use maud::{DOCTYPE, Markup, html};

use crate::calendar::MICROS_PER_DAY;
use crate::ledger::date;
use crate::mechanism::Loss;
use crate::refusal::Refusal;

/// The texts of a site on each page.
pub struct SiteTexts {
    pub name: &'static str,
    pub footer: &'static str,
    /// The path and the name of the page that messages lead back to.
    pub home: &'static str,
    /// How the login calls whoever logs in, and who that is.
    pub login: (&'static str, &'static str),
}

/// The reader of the page, and the paths and names of the pages that they may open.
pub struct PageReader {
    pub words: String,
    pub pages: Vec<(&'static str, &'static str)>,
}

impl SiteTexts {
    /// A whole page, with the token of its forms; without a session it has no navigation. A title
    /// begins with the name of its page in the navigation, and a colon may follow.
    pub fn page(&self, title: &str, who: Option<(&PageReader, &str)>, body: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                (super::head(&format!("{title} – pgveil {}", self.name)))
                body {
                    a .skip href="#main" { "Skip to the page" }
                    header {
                        h1 { a href="/" { "pgveil" } " " (self.name) }
                        @if let Some((who, token)) = who { (navigation(title, who, token)) }
                    }
                    main #main tabindex="-1" { (body) }
                    footer { p { (self.footer) } }
                }
            }
        }
    }

    /// The page before a session; `typed` is a statement that the session's end would lose.
    pub fn login(&self, why: Option<&str>, typed: Option<&str>) -> Markup {
        let (label, about) = self.login;
        let body = html! {
            section .login aria-labelledby="login" {
                h2 #login { "Log in" }
                @if let Some(why) = why { p #why .refused role="alert" { (why) } }
                form method="post" action="/login" {
                    label for="name" { (label) }
                    input #name name="name" autocomplete="username" autocapitalize="off"
                        spellcheck="false" maxlength="63" required autofocus
                        aria-describedby=[why.map(|_| "why")];
                    label for="password" { "Password" }
                    input #password name="password" type="password"
                        autocomplete="current-password" maxlength="1024" required
                        aria-describedby=[why.map(|_| "why")];
                    div .buttons { button .primary { "Log in" } }
                }
                p .note { (about) }
            }
            @if let Some(typed) = typed {
                section aria-labelledby="kept" {
                    h2 #kept { "What you typed" }
                    pre tabindex="0" { (typed) }
                }
            }
        };
        self.page("Log in", None, &body)
    }

    /// A page of one message.
    pub fn message(&self, title: &str, text: &str) -> Markup {
        html! {
            section aria-labelledby="message" {
                h2 #message { (title) }
                p role="alert" { (text) }
                p { a href="/" { (self.home) } }
            }
        }
    }
}

fn navigation(title: &str, who: &PageReader, token: &str) -> Markup {
    let page = title.split(':').next().unwrap_or_default();
    html! {
        div .top {
            nav aria-label="Pages" {
                ul {
                    @for (path, name) in &who.pages {
                        li {
                            a href=(path) aria-current=[(*name == page).then_some("page")] {
                                (name)
                            }
                        }
                    }
                }
            }
            form .leave method="post" action="/logout" {
                (token_field(token))
                span .note { (who.words) }
                button { "Log out" }
            }
        }
    }
}

/// The token of a form.
pub fn token_field(token: &str) -> Markup {
    html! { input type="hidden" name="token" value=(token); }
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

/// The value as text of a page.
pub fn text_markup(text: impl std::fmt::Display) -> Markup {
    html! { (text.to_string()) }
}

/// A refusal as psql shows it, with its place in the text.
pub fn refusal(refusal: &Refusal, sql: &str) -> Markup {
    let pointed = refusal.position.and_then(|at| super::point_at(at, sql));
    html! {
        section #found aria-labelledby="refused" {
            h2 #refused { "Refused" }
            div .refused role="alert" {
                p {
                    strong { (refusal.message) } " "
                    span .figure { "SQLSTATE " (refusal.sqlstate) }
                }
                @if let Some(pointed) = pointed { pre tabindex="0" { (pointed) } }
                @if let Some(detail) = &refusal.detail { p { (detail) } }
                @if let Some(hint) = &refusal.hint { p { "Hint: " (hint) } }
            }
        }
    }
}

/// The name of a statement in records, cut as tables show it.
pub fn digest(short: &str) -> Markup {
    html! { p .note { "Statement " code { (short) } ", as My statements names it." } }
}

/// The form of a statement: its text as it was typed.
pub fn statement(sql: &str) -> Markup {
    html! {
        label for="sql" { "SQL, as in psql" }
        textarea #sql name="sql" rows=(sql.lines().count().clamp(4, 16)) spellcheck="false"
            autocomplete="off" autocapitalize="off" required { "\n" (sql) }
    }
}

/// The charge, in words.
pub fn charge_words(loss: &Loss) -> String {
    if loss.is_zero() {
        return "free".to_owned();
    }
    format!("mu {:.4}", loss.mu_squared.to_f64().sqrt())
}

/// A moment to the minute, UTC: exact times would show how long statements took.
pub fn minute(microseconds: i64) -> String {
    let (day, of_day) = (
        microseconds.div_euclid(MICROS_PER_DAY),
        microseconds.rem_euclid(MICROS_PER_DAY),
    );
    let minutes = of_day / 60_000_000;
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{} {hour:02}:{minute:02}", date(day * MICROS_PER_DAY))
}
