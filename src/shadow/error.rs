//! Separates errors of the statement from errors of the server.

use tokio_postgres::error::{DbError, ErrorPosition};

use super::ShadowError;
use crate::refusal::{Refusal, reason, sqlstate};

impl From<tokio_postgres::Error> for ShadowError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(database) => report(database),
            // Anything but a report of the server is a broken connection or protocol; a value that
            // could not be encoded is our bug.
            None if error.is_closed()
                || std::error::Error::source(&error).is_some_and(|s| s.is::<std::io::Error>()) =>
            {
                Self::Lost(error.to_string())
            }
            None => Self::Failed(error.to_string()),
        }
    }
}

fn report(error: &DbError) -> ShadowError {
    let code = error.code().code();
    let class = code.get(..2).unwrap_or(code);
    match class {
        "57" if code == sqlstate::QUERY_CANCELED.code => ShadowError::Refusal(Refusal {
            reason: reason::STATEMENT_CANCELLED,
            ..refusal(code, error)
        }),
        // The server goes down, or refuses to come up.
        "57" => ShadowError::Lost(format!("SQLSTATE {code}")),
        // A malformed binary parameter. Class 08 itself would make a pool believe that the
        // connection died.
        "08" if code == sqlstate::PROTOCOL_VIOLATION.code => {
            ShadowError::Refusal(refusal(sqlstate::INVALID_BINARY_REPRESENTATION.code, error))
        }
        // 53400 would look like an exhausted budget.
        "53" => ShadowError::Refusal(Refusal::new(
            reason::SHADOW_MEMORY,
            "query needs more memory or disk than the shadow database may use",
        )),
        "08" | "40" | "55" | "58" | "F0" | "HV" | "XX" => {
            ShadowError::Failed(format!("SQLSTATE {code}"))
        }
        _ => ShadowError::Refusal(refusal(code, error)),
    }
}

fn refusal(code: &str, error: &DbError) -> Refusal {
    let position = match error.position() {
        Some(ErrorPosition::Original(position)) => Some(*position),
        Some(ErrorPosition::Internal { .. }) | None => None,
    };
    Refusal {
        detail: error.detail().map(str::to_owned),
        hint: error.hint().map(str::to_owned),
        ..Refusal::of_postgres(code, error.message()).at(position)
    }
}
