//! Statements that PostgreSQL knows and pgveil does not run.

use crate::refusal::{Refusal, reason};

/// First words of statements that change data, schema, rights or the server.
const CHANGES: [&str; 29] = [
    "INSERT",
    "UPDATE",
    "DELETE",
    "MERGE",
    "TRUNCATE",
    "CREATE",
    "ALTER",
    "DROP",
    "COMMENT",
    "GRANT",
    "REVOKE",
    "LOCK",
    "REINDEX",
    "CLUSTER",
    "VACUUM",
    "ANALYZE",
    "ANALYSE",
    "REFRESH",
    "CHECKPOINT",
    "DO",
    "CALL",
    "SECURITY",
    "REASSIGN",
    "IMPORT",
    "NOTIFY",
    "LOAD",
    "REPACK",
    "UPSERT",
    "REPLACE",
];

/// The refusal of a statement by its first words; `None` where it may be a query.
pub(super) fn by_first_word(first: &str) -> Option<Refusal> {
    CHANGES.contains(&first).then(|| changes(first))
}

/// 42501: pgveil only reads.
pub(super) fn changes(what: &str) -> Refusal {
    Refusal::new(
        reason::READ_ONLY,
        format!("cannot execute {what}: pgveil answers SELECT queries only"),
    )
    .detail("Data, schema and rights cannot be changed through pgveil.")
    .hint("Connect to the database itself to change anything.")
}

/// 0A000: part of PostgreSQL, not of pgveil.
pub(super) fn not_offered(what: &str) -> Refusal {
    Refusal::new(
        reason::UNSUPPORTED_STATEMENT,
        format!("{what} is not supported by pgveil"),
    )
}
