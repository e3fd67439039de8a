//! Plain data that the wire, the engine and the shadow exchange: the requester, bound values, and
//! descriptions of results.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::ledger::Origin;
use crate::memory::MemoryShare;
use crate::policy::SessionSettings;
use crate::refusal::Ending;

/// The role that asks, and the session settings that affect an answer.
#[derive(Debug, Clone)]
pub struct Requester {
    /// The policy role, which is the user that logged in.
    pub role: String,
    /// The settings `pgveil.*`.
    pub session_settings: SessionSettings,
    /// Settings of PostgreSQL that affect the printed form of a value: (name, value), names from a
    /// fixed list (`TimeZone`, `DateStyle`, `IntervalStyle`, `extra_float_digits`, `bytea_output`).
    /// PostgreSQL has not checked the values yet.
    pub settings: Vec<(String, String)>,
    /// Schemas of unqualified names, in order.
    pub search_path: Vec<String>,
    /// The process number in the session's BackendKeyData; 0 without a session.
    pub process: i32,
    /// Where the question comes from, for the owner's record.
    pub origin: Origin,
    /// What the client got, where it gave the question up before its end.
    pub given_up: Arc<OnceLock<Ending>>,
    /// The memory that rows of answers count towards.
    pub share: MemoryShare,
}

impl Requester {
    /// The setting in force: the last one of its name.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings
            .iter()
            .rev()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Whether printed values read back as the same value. Other styles of dates abbreviate time
    /// zones ambiguously, and fewer digits lose some.
    pub fn prints_exactly(&self) -> bool {
        self.setting("DateStyle")
            .is_none_or(|style| style.starts_with("ISO"))
            && self
                .setting("extra_float_digits")
                .is_none_or(|digits| digits.parse().is_ok_and(|digits: i64| digits > 0))
    }

    /// Whether each value also has only one printed form.
    pub fn prints_plainly(&self) -> bool {
        self.prints_exactly()
            && self
                .setting("IntervalStyle")
                .is_none_or(|style| style == "postgres")
    }

    /// The requester with settings that print each value in one form. ISO is appended to the
    /// DateStyle instead of replacing it: this keeps the order of day and month, in which texts are
    /// read.
    #[must_use]
    pub fn printing_plainly(mut self) -> Self {
        for (name, value) in [
            ("DateStyle", "ISO"),
            ("IntervalStyle", "postgres"),
            ("extra_float_digits", "1"),
        ] {
            self.settings.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

/// The format of a value on the wire.
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

/// Types of a statement's parameters and columns. Free, and reads no data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Type OID of each parameter.
    pub parameters: Vec<u32>,
    pub columns: Vec<ColumnDescription>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_setting_of_a_name_counts() {
        let settings = [
            ("TimeZone", "UTC"),
            ("datestyle", "SQL, DMY"),
            ("IntervalStyle", "iso_8601"),
            ("extra_float_digits", "0"),
        ];
        let settings = settings
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let requester = Requester {
            role: String::new(),
            session_settings: SessionSettings::default(),
            settings,
            search_path: Vec::new(),
            process: 0,
            origin: Default::default(),
            given_up: Default::default(),
            share: MemoryShare::default(),
        };
        assert!(!requester.prints_exactly() && !requester.prints_plainly());
        let plain = requester.clone().printing_plainly();
        assert!(plain.prints_exactly() && plain.prints_plainly());
        assert!(
            plain.settings.starts_with(&requester.settings),
            "the order of day and month is lost"
        );
        let with_setting = |name, value: &str| {
            let mut requester = plain.clone();
            requester
                .settings
                .push((str::to_owned(name), value.to_owned()));
            (requester.prints_exactly(), requester.prints_plainly())
        };
        assert_eq!(
            [
                with_setting("IntervalStyle", "iso_8601"),
                with_setting("DateStyle", "German"),
                with_setting("extra_float_digits", "-1")
            ],
            [(true, false), (false, false), (false, false)]
        );
    }
}
