//! Why a statement is refused: the list of all reasons. Each has an id that stays when the words of
//! its refusals change, and says what to write instead. docs/refusals.md is made from it.

use super::RefusalKind;
use super::sqlstate::SqlState;

/// One entry of the list. Only the files of the list make one, so a refusal without an entry does
/// not compile.
#[derive(Clone, Copy)]
pub struct Reason(&'static Entry);

struct Entry {
    id: &'static str,
    sqlstate: SqlState,
    kind: RefusalKind,
    why: &'static str,
    instead: &'static str,
}

impl Reason {
    /// Names the reason in kebab-case, not the place. It never changes.
    pub fn id(self) -> &'static str {
        self.0.id
    }

    pub fn sqlstate(self) -> &'static str {
        self.0.sqlstate.code
    }

    pub fn kind(self) -> RefusalKind {
        self.0.kind
    }

    pub fn why(self) -> &'static str {
        self.0.why
    }

    pub fn instead(self) -> &'static str {
        self.0.instead
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Reason {}

impl std::fmt::Debug for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.id())
    }
}

/// Entries as `CONSTANT = "id", SQLSTATE, Kind, "why", "what to write instead";`, and the list of
/// them.
macro_rules! reasons {
    ($($name:ident = $id:literal, $state:ident, $kind:ident, $why:literal, $instead:literal;)*) => {
        use crate::refusal::reason::{Entry, Reason};
        use crate::refusal::{RefusalKind, sqlstate};

        $(
            #[doc = $why]
            pub const $name: Reason = Reason(&Entry {
                id: $id,
                sqlstate: sqlstate::$state,
                kind: RefusalKind::$kind,
                why: $why,
                instead: $instead,
            });
        )*

        pub(super) const ALL: &[(&str, Reason)] = &[$((stringify!($name), $name)),*];
    };
}

/// Reasons that belong together.
pub struct Theme {
    pub title: &'static str,
    /// Each with the name of its constant.
    pub reasons: &'static [(&'static str, Reason)],
}

macro_rules! themes {
    ($($file:ident: $title:literal,)*) => {
        $(mod $file;)*
        $(pub use $file::*;)*

        pub const THEMES: &[Theme] = &[$(Theme { title: $title, reasons: $file::ALL }),*];
    };
}

themes! {
    text: "The text of a statement",
    statements: "Statements that are not run",
    names: "Names",
    rows: "Private rows, views and catalogs",
    groups: "Groups and collations",
    aggregates: "Aggregates",
    expressions: "Functions, operators and types",
    values: "Constants and values",
    subqueries: "Joins, subqueries and unions",
    windows: "Windows",
    budget: "Budget and accuracy",
    limits: "Size and time",
    policy: "The policy and its tables",
    settings: "Settings",
    session: "Transactions, cursors and prepared statements",
    connections: "Connections",
    other: "Other errors, warnings and notices",
}
