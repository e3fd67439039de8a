//! Errors of stages, as the engine reports them.

use crate::error::Error;
use crate::ledger;
use crate::parse::Query;
use crate::shadow::ShadowError;

/// What the shadow refused, or could not do.
pub(super) fn shadow_error(error: ShadowError) -> Error {
    match error {
        // The position is in our own printing of the statement, not in the client's text.
        ShadowError::Refusal(refusal) => Error::Shadow(refusal.at(None)),
        other @ (ShadowError::Lost(_) | ShadowError::Failed(_) | ShadowError::Start(_)) => {
            internal("shadow", &other)
        }
    }
}

/// Logs the cause under an incident number, which the client gets.
pub(super) fn internal(stage: &str, cause: &dyn std::fmt::Display) -> Error {
    let incident = format!("{:016x}", rand::random::<u64>());
    tracing::error!(stage, incident, %cause, "internal error");
    Error::Internal { incident }
}

/// The ledger could not be read or written: 58030. Errors that no outage explains are internal.
pub(super) fn ledger_failed(cause: &ledger::Error) -> Error {
    if !cause.is_outage() {
        return internal("ledger", cause);
    }
    let incident = format!("{:016x}", rand::random::<u64>());
    tracing::error!(stage = "ledger", incident, %cause, "the ledger is out of reach");
    Error::LedgerOutOfReach { incident }
}

/// An error in the analyst's own statement. PostgreSQL read our printing of it, so the position is
/// translated to the analyst's text.
pub(super) fn error_in_text(query: &Query, error: ShadowError) -> Error {
    match error {
        ShadowError::Refusal(refusal) => {
            let place = refusal
                .position
                .and_then(|printed| crate::parse::with_room(|| query.place_of_printed(printed)));
            Error::Shadow(refusal.at(place))
        }
        other => shadow_error(other),
    }
}
