//! The reasons why a step of a session fails, and their effects on the session.

use crate::engine::QuestionEnd;
use crate::refusal::{Refusal, reason};

#[derive(Debug)]
pub(super) enum Outcome {
    /// The client gets an error, and the session goes on.
    Refused(Refusal),
    /// The client gets an error, and the session ends.
    Fatal(Refusal),
    /// The client is gone.
    Closed,
}

impl Outcome {
    pub(super) fn protocol(message: impl Into<String>) -> Self {
        Self::Fatal(Refusal::new(reason::PROTOCOL_VIOLATION, message))
    }

    /// The operator stops the server.
    pub(super) fn shutdown() -> Self {
        Self::Fatal(Refusal::new(
            reason::SERVER_STOPS,
            "terminating connection due to administrator command",
        ))
    }
}

impl Outcome {
    /// An operator ends the session.
    pub(super) fn operator_ended() -> Self {
        Self::Fatal(Refusal::new(
            reason::SESSION_ENDED,
            "terminating connection due to administrator command",
        ))
    }
}

impl From<&Outcome> for QuestionEnd {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Refused(refusal) | Outcome::Fatal(refusal) => refusal.into(),
            Outcome::Closed => Self::of_closed_connection(),
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<std::io::Error> for Outcome {
    fn from(_: std::io::Error) -> Self {
        Self::Closed
    }
}
