//! Drafts a policy from the catalog of a database: read, propose, ask, write.
//!
//! It reads catalogs alone, under a role that may SELECT no table. It writes a guess only after a
//! human has confirmed it. It writes only files that the reader of policies and the check against
//! the catalog accept.

mod catalog_view;
mod columns;
mod ddl;
mod decide;
mod decisions;
mod draft;
mod links;
mod name_hints;
mod password;
mod possibly_private;
mod propose;
mod questions;
mod request;
mod shared_entries;
mod unit_paths;
mod units;
mod validate;
mod write;
mod yaml;

pub use catalog_view::{CatalogFacts, CatalogView, ColumnAt, read};
pub use columns::Form;
pub use ddl::{DdlAdvice, advice};
pub use decide::decide;
pub use decisions::Decisions;
pub use draft::Draft;
pub use links::{Link, LinkBasis};
pub use password::make_password;
pub use propose::Proposal;
pub use questions::{Questions, Terminal, Valid};
pub use request::Request;
pub use unit_paths::UnitPath;
pub use validate::hold;
pub use write::{LineSubject, OpenDecisionMark, Width, lines};

/// Why no draft was made.
#[derive(Debug)]
pub enum Stop {
    /// A flag is wrong.
    Usage(String),
    /// Something essential is open, and nobody can be asked. The flags are those that would do.
    Undecided {
        message: String,
        flags: Vec<String>,
    },
    /// The person asked ended the questions.
    Interrupted,
    Failed(String),
}

/// The text of a file.
pub fn text_of(lines: &[(String, LineSubject)]) -> String {
    let mut text = String::new();
    for (line, _) in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `schema.table.column` as flags read it.
pub fn flag_name(seen: &CatalogView, at: ColumnAt) -> String {
    let (table, column) = (seen.table(at.table), seen.column(at));
    yaml::join_dotted(&[&table.schema, &table.name, &column.name])
        .unwrap_or_else(|| seen.column_name(at))
}

/// Names as a terminal may show them: control characters are escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}') {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A word of a command line, in quotes where a shell would read it otherwise.
pub fn shell(word: &str) -> String {
    let is_plain = word
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_.,=:/-".contains(c));
    if is_plain && !word.is_empty() {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests;
