//! Statements about the session itself: settings, transactions, cursors, prepared statements.

use sqlparser::ast;

use super::Statement;
use crate::refusal::Refusal;

/// A statement that is answered at the edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {}

/// Statements that sqlparser does not take, by a small grammar of our own; `None` where the text is none of them.
pub(super) fn from_text(_sql: &str) -> Result<Option<Session>, Refusal> {
    Ok(None)
}

pub(super) fn classify(_statement: ast::Statement) -> Result<Statement, Refusal> {
    Err(Refusal::unsupported("this statement"))
}
