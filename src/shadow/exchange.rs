//! Plain data that the wire, the engine and the shadow hand on: who asks, what is bound, what a statement gives.

use bytes::Bytes;

use super::stock::Share;
use crate::policy::Wishes;

/// Who asks, and the session settings that reach an answer.
#[derive(Debug, Clone)]
pub struct Asker {
    /// The policy role, which is the user that logged in.
    pub role: String,
    /// The settings `pgveil.*`.
    pub wishes: Wishes,
    /// Settings of PostgreSQL that reach the printed form of a value: (name, value), names from a fixed list
    /// (`TimeZone`, `DateStyle`, `IntervalStyle`, `extra_float_digits`, `bytea_output`). Values are not yet checked by PostgreSQL.
    pub settings: Vec<(String, String)>,
    /// Schemas of unqualified names, in order.
    pub search_path: Vec<String>,
    /// Where the rows of answers are counted.
    pub share: Share,
}

impl Asker {
    /// Whether what is printed reads back as the same value: other styles of dates name zones by words that mean several, and fewer digits lose some.
    pub fn prints_exactly(&self) -> bool {
        self.settings.iter().all(|(name, value)| match name.as_str() {
            "DateStyle" => value.starts_with("ISO"),
            "extra_float_digits" => value.parse::<i64>().is_ok_and(|digits| digits > 0),
            _ => true,
        })
    }

    /// The same, printing so. The order of day and month, in which texts are read, stays.
    #[must_use]
    pub fn printing_exactly(mut self) -> Self {
        for (name, value) in [("DateStyle", "ISO"), ("extra_float_digits", "1")] {
            self.settings.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// How a value travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Text,
    Binary,
}

/// One bound parameter, as the client sent it; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    pub format: Format,
    pub value: Option<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    pub name: String,
    /// PostgreSQL's type OID.
    pub type_oid: u32,
    /// pg_type.typlen.
    pub type_size: i16,
    pub type_modifier: i32,
}

/// Types of a statement's parameters and columns; free, touches no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Type OID of each parameter.
    pub parameters: Vec<u32>,
    pub columns: Vec<ColumnDescription>,
}
