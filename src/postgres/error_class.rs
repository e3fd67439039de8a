//! What an error code of PostgreSQL says about the statement, the session or the server.

use tokio_postgres::error::SqlState;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The statement was cancelled, or took too long.
    Cancelled,
    /// The server ends the session: it goes down, refuses to come up, or has dropped the database.
    SessionEnds,
    /// Another intervention of an operator.
    Intervention,
    /// A malformed message, for example a malformed binary parameter.
    ProtocolViolation,
    /// Memory, disk or connections ran out.
    InsufficientResources,
    /// The server or the connection failed, or other sessions are in the way.
    Failure,
    /// An error of the statement.
    Statement,
}

impl ErrorClass {
    pub fn of(code: &SqlState) -> Self {
        match *code {
            SqlState::QUERY_CANCELED => return Self::Cancelled,
            SqlState::PROTOCOL_VIOLATION => return Self::ProtocolViolation,
            _ => {}
        }
        let code = code.code();
        match code.get(..2) {
            Some("57") if code.starts_with("57P0") => Self::SessionEnds,
            Some("57") => Self::Intervention,
            Some("53") => Self::InsufficientResources,
            // Connections; rollbacks; locks and states; the system; configuration; foreign data;
            // internal errors.
            Some("08" | "40" | "55" | "58" | "F0" | "HV" | "XX") => Self::Failure,
            Some(_) | None => Self::Statement,
        }
    }
}
