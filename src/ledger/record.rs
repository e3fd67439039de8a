//! The record of events: statements, logins, acts of operators and of the owner. Who, when, from
//! where, the outcome and the cost. No SQL and no literal. The policies in force have a separate
//! table (`ledger::policies`).
//!
//! A statement and its plan are named by keyed digests. The key never leaves the ledger, so that a
//! reader of the record cannot check a guess of a statement.

mod file;
mod ledger;
mod line;
mod log;
mod recent;
mod rows;

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::charge::{Fingerprint, KeyedPlanDigest, KeyedStatementDigest};
use crate::mechanism::Loss;
use crate::refusal::Ending;

pub use file::RecordFile;
pub use line::json;
pub(super) use line::policy_json;
pub(super) use log::RecordLog;
pub use recent::NewestWithin;
#[cfg(test)]
pub(in crate::ledger) use recent::STATEMENTS_OF_ROLE;
pub use rows::{LOGINS_KEPT, STATEMENTS_KEPT};

/// How many letters are kept of a name that a client chose: as many as PostgreSQL keeps bytes.
const NAME_MAX: usize = 63;
/// Tables that are named of one statement.
const TABLES_MAX: usize = 32;
const SECOND: i64 = 1_000_000;

/// The way by which something was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Via {
    /// PostgreSQL's protocol.
    Wire,
    /// The operators' pages.
    Console,
    /// The analysts' pages.
    Desk,
    /// A command on the proxy's machine.
    #[default]
    Command,
}

impl Via {
    pub fn name(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::Console => "console",
            Self::Desk => "desk",
            Self::Command => "command",
        }
    }

    fn of_name(name: &str) -> Self {
        [Self::Wire, Self::Console, Self::Desk]
            .into_iter()
            .find(|via| via.name() == name)
            .unwrap_or_default()
    }
}

/// Where a question, a login or an act comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    pub via: Via,
    pub address: Option<IpAddr>,
    /// What the client calls itself, shortened.
    pub application: String,
    /// The operator who asked in a role's terms.
    pub actor: Option<String>,
}

/// A name that a client chose, fit for every store and log: short, on one line, and ASCII.
pub fn short_name(name: &str) -> String {
    let mut short = String::new();
    for letter in name.chars().take(NAME_MAX) {
        if letter == ' ' || letter.is_ascii_graphic() {
            short.push(letter);
        } else {
            short.extend(letter.escape_default());
        }
    }
    short
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answered: with fresh noise, from the catalogs, or from public rows.
    Answered,
    /// Answered entirely from earlier releases.
    Reused,
    /// EXPLAIN.
    Explained,
    /// Not run, and nothing charged.
    Refused,
    /// Something broke; the charge remains.
    Failed,
}

impl Verdict {
    pub const ALL: [Self; 5] = [
        Self::Answered,
        Self::Reused,
        Self::Explained,
        Self::Refused,
        Self::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Reused => "reused",
            Self::Explained => "explained",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }

    fn of_name(name: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|verdict| verdict.name() == name)
            .unwrap_or(Self::Failed)
    }
}

/// What a record says of a statement.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedStatement {
    pub statement: KeyedStatementDigest,
    /// The digest of the plan, or of what the first debit names; `None` without a plan.
    pub plan: Option<KeyedPlanDigest>,
    /// `schema.table` of the plan, at most some dozens.
    pub tables: Vec<String>,
    /// The statement without its constants and without names that the policy does not show; `None`
    /// unless the policy asks for it, and for a text that could not be read as a statement.
    pub shape: Option<String>,
    pub verdict: Verdict,
    /// What was charged for it.
    pub loss: Loss,
}

/// The recorded event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Statement(LoggedStatement),
    Login,
    /// An act of an operator or the owner: one word for it, its object, and the reason.
    Act {
        act: String,
        target: String,
        why: String,
    },
}

impl Event {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Statement(_) => "statement",
            Self::Login => "login",
            Self::Act { .. } => "act",
        }
    }
}

/// One record.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// When it began, since 1970 by the proxy's clock, cut to whole seconds. When a statement ended
    /// would show how long it took.
    pub microseconds: i64,
    /// The role or the operator.
    pub name: String,
    /// The process number of the session; 0 without one.
    pub session: i32,
    pub origin: Origin,
    pub ending: Ending,
    pub event: Event,
}

impl Record {
    /// A record of this moment, for something that went well.
    pub fn now(name: &str, session: i32, origin: Origin, event: Event) -> Self {
        Self::at(now(), name, session, origin, event)
    }

    /// A record of something that began at that moment, in microseconds since 1970.
    pub fn at(microseconds: i64, name: &str, session: i32, origin: Origin, event: Event) -> Self {
        Self {
            microseconds: whole_seconds(microseconds),
            name: name.to_owned(),
            session,
            origin,
            ending: Ending::Succeeded,
            event,
        }
    }

    /// The SQLSTATE that the client got; 00000 where all went well.
    pub fn sqlstate(&self) -> &str {
        self.ending.sqlstate()
    }

    #[must_use]
    pub fn with_ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }
}

/// Microseconds since 1970, by the machine's clock.
pub fn now() -> i64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_micros();
    i64::try_from(since_1970).unwrap_or(i64::MAX)
}

fn whole_seconds(microseconds: i64) -> i64 {
    microseconds - microseconds.rem_euclid(SECOND)
}

/// The key of the ledger's digests.
#[derive(Clone, Copy)]
pub(super) struct DigestKey([u8; 32]);

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey")
    }
}

impl DigestKey {
    pub(super) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// HMAC-SHA-256 of the SHA-256 of a statement as pgveil prints it.
    pub(super) fn of_statement(&self, sql: &str) -> KeyedStatementDigest {
        self.of_older_statement(Sha256::digest(sql).into())
    }

    /// The keyed digest of the plain one in a record of an older format.
    pub(super) fn of_older_statement(&self, digest: [u8; 32]) -> KeyedStatementDigest {
        KeyedStatementDigest::new(self.key_digest(digest))
    }

    pub(super) fn of_plan(&self, plan: Fingerprint) -> KeyedPlanDigest {
        KeyedPlanDigest::new(self.key_digest(*plan.as_bytes()))
    }

    /// Zeros, which stand for nothing, stay zeros.
    fn key_digest(&self, digest: [u8; 32]) -> [u8; 32] {
        if digest == [0; 32] {
            return digest;
        }
        // HMAC takes a key of any length; the branch keeps this free of panics.
        let Ok(mut keyed) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return [0; 32];
        };
        keyed.update(&digest);
        keyed.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_two_ledgers_have_nothing_in_common() {
        let (one, other) = (DigestKey::new([1; 32]), DigestKey::new([2; 32]));
        let sql = "SELECT 1";
        assert_eq!(one.of_statement(sql), one.of_statement(sql));
        assert_ne!(one.of_statement(sql), other.of_statement(sql));
        let plain: [u8; 32] = Sha256::digest(sql).into();
        assert_ne!(one.of_statement(sql).as_bytes(), &plain);
        assert_eq!(one.of_older_statement(plain), one.of_statement(sql));
        let plan = one.of_plan(Fingerprint::new(plain));
        assert_eq!(plan.as_bytes(), one.of_statement(sql).as_bytes());
        assert_eq!(
            one.of_older_statement([0; 32]),
            KeyedStatementDigest::UNREAD
        );
        assert_eq!(format!("{one:?}"), "DigestKey");
    }

    #[test]
    fn times_are_cut_to_whole_seconds() {
        assert_eq!(whole_seconds(1_999_999), 1_000_000);
        assert_eq!(whole_seconds(-1), -1_000_000);
        let record = Record::now("ann", 0, Origin::default(), Event::Login);
        assert_eq!(record.microseconds % SECOND, 0);
    }

    #[test]
    fn names_of_clients_stay_on_one_line() {
        assert_eq!(short_name("a\n\u{1b}[31m"), "a\\n\\u{1b}[31m");
        assert_eq!(short_name("o'brien \"C:\\app\""), "o'brien \"C:\\app\"");
        assert_eq!(short_name(&"é".repeat(200)), "\\u{e9}".repeat(NAME_MAX));
    }
}
