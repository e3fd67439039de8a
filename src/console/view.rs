//! The parts that every page of the console has.

use maud::{Markup, html};

use crate::policy::Rights;
use crate::web::chart::Bar;
use crate::web::page::{PageReader, SiteTexts};
pub use crate::web::page::{minute, table, text_markup, token_field};

pub const SITE: SiteTexts = SiteTexts {
    name: "console",
    footer: "No page here shows a row or a stored answer, or changes the policy. What loosens is a \
        command on the owner's machine.",
    home: "Overview",
    login: (
        "Operator",
        "Operators are listed in the policy, under `operators:`. Roles that ask questions do not \
            log in here.",
    ),
};

/// Why nothing was done, with the place to which forms lead.
pub fn hindrance(why: &str) -> Markup {
    html! { p #found .refused role="alert" { (why) } }
}

const PAGES: [(&str, &str, Rights); 6] = [
    ("/", "Overview", Rights::Watch),
    ("/budgets", "Budgets", Rights::Own),
    ("/statements", "Statements", Rights::Own),
    ("/explore", "Explore", Rights::Own),
    ("/policy", "Policy", Rights::Own),
    ("/checks", "Checks", Rights::Own),
];

pub fn who(name: &str, rights: Rights) -> PageReader {
    let allowed = PAGES.iter().filter(|(_, _, needed)| *needed <= rights);
    PageReader {
        words: format!("{name} may {}", rights.words()),
        pages: allowed.map(|(path, name, _)| (*path, *name)).collect(),
    }
}

/// A bar of what is left of a budget.
pub fn left_bar(label: &str, fraction: f64) -> Bar {
    Bar {
        label: label.to_owned(),
        value: 100.0 * fraction,
        interval: None,
        exact: None,
        is_new: false,
    }
}
