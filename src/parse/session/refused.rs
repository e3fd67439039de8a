//! Statements that PostgreSQL knows and pgveil does not run.

use sqlparser::tokenizer::Token;

use super::words::Words;
use crate::refusal::Refusal;

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
pub(super) fn by_first_word(first: &str, words: &mut Words<'_>) -> Option<Refusal> {
    if CHANGES.contains(&first) {
        return Some(changes(first));
    }
    match first {
        "DECLARE" | "FETCH" | "MOVE" | "CLOSE" => Some(not_offered(&format!("the SQL cursor statement {first}"))),
        "PREPARE" if words.keywords(&["PREPARE", "TRANSACTION"]) => Some(not_offered("two-phase commit")),
        "PREPARE" | "EXECUTE" => Some(not_offered(&format!("the SQL statement {first}"))),
        "COPY" => Some(copy(words)),
        _ => None,
    }
}

/// 42501: pgveil only reads.
pub(super) fn changes(what: &str) -> Refusal {
    Refusal::denied(format!("cannot execute {what}: pgveil answers SELECT queries only"))
        .detail("Data, schema and rights cannot be changed through pgveil.")
        .hint("Connect to the database itself to change anything.")
}

/// 0A000: part of PostgreSQL, not of pgveil.
pub(super) fn not_offered(what: &str) -> Refusal {
    Refusal::new(crate::refusal::sqlstate::FEATURE_NOT_SUPPORTED, format!("{what} is not supported by pgveil"))
}

/// COPY writes when FROM follows outside parentheses.
fn copy(words: &mut Words<'_>) -> Refusal {
    let mut depth = 0_i32;
    while let Some(token) = words.peek() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ if depth == 0 && words.peek_keyword().as_deref() == Some("FROM") => return changes("COPY FROM"),
            _ => {}
        }
        words.next();
    }
    not_offered("COPY TO").hint("Send the SELECT itself.")
}
