//! The common parts of pages by HTTP: access, logins, sessions, limits, headers, TLS, charts. Pages
//! are made on the server and have no scripts.

pub mod answer;
pub mod chart;
pub mod guard;
pub mod history_chart;
pub mod intervals;
pub mod login;
pub mod login_throttle;
pub mod page;
pub mod rate_limit;
pub mod server;
pub mod session;
pub mod site;
pub mod spending;

use maud::{Markup, html};

/// The head of a page, for screens of every width, light or dark.
pub fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            title { (title) }
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            link rel="stylesheet" href="/style.css";
        }
    }
}

/// `0.9649` as `96.5 %`.
pub fn share(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

/// A fraction as a length in SVG.
pub fn width(fraction: f64) -> String {
    format!("{:.2}%", 100.0 * fraction.clamp(0.0, 1.0))
}

/// Colours, text, buttons, tables and charts, which every page has.
pub const STYLE: &str = include_str!("web/style.css");

/// [`STYLE`], and what pages behind a login have in addition.
pub const SITE_STYLE: &str = concat!(include_str!("web/style.css"), include_str!("web/site.css"));

/// The line of a position in SQL, and a caret under it.
pub fn point_at(position: u32, sql: &str) -> Option<String> {
    let mut left = usize::try_from(position).ok()?.checked_sub(1)?;
    for line in sql.split('\n') {
        let length = line.chars().count();
        if left <= length {
            return Some(format!("{line}\n{}^", " ".repeat(left)));
        }
        left -= length + 1;
    }
    None
}
