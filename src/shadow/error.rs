//! Separates errors of the statement from errors of the server.

use tokio_postgres::error::{DbError, ErrorPosition};

use super::ShadowError;
use crate::postgres::ErrorClass;
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
    match ErrorClass::of(error.code()) {
        ErrorClass::Cancelled => ShadowError::Refusal(Refusal {
            reason: reason::STATEMENT_CANCELLED,
            ..refusal(code, error)
        }),
        ErrorClass::SessionEnds | ErrorClass::Intervention => {
            ShadowError::Lost(format!("SQLSTATE {code}"))
        }
        // A malformed binary parameter. Class 08 itself would make a pool believe that the
        // connection died.
        ErrorClass::ProtocolViolation => {
            ShadowError::Refusal(refusal(sqlstate::INVALID_BINARY_REPRESENTATION.code, error))
        }
        // 53400 would look like an exhausted budget.
        ErrorClass::InsufficientResources => ShadowError::Refusal(Refusal::new(
            reason::SHADOW_MEMORY,
            "query needs more memory or disk than the shadow database may use",
        )),
        ErrorClass::Failure => ShadowError::Failed(format!("SQLSTATE {code}")),
        ErrorClass::Statement => ShadowError::Refusal(refusal(code, error)),
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
