//! The error of all stages of a query, and the part that a client may see.

use crate::refusal::{Refusal, reason};

/// Why a statement was not answered. Each stage has a variant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("parse: {0}")]
    Parse(Refusal),
    #[error("resolve: {0}")]
    Resolve(Refusal),
    #[error("analyze: {0}")]
    Analyze(Refusal),
    #[error("rewrite: {0}")]
    Rewrite(Refusal),
    /// The budget does not cover the statement; nothing was charged.
    #[error("ledger: {0}")]
    Ledger(Refusal),
    /// The released values are too little to go on. The charge stands.
    #[error("release: {0}")]
    Release(Refusal),
    /// The shadow's own error about the statement or about released values.
    #[error("shadow: {0}")]
    Shadow(Refusal),
    /// The statement was cancelled; a charge stands.
    #[error("cancelled")]
    Cancelled,
    /// The ledger could not be read or written, and nothing is charged or answered without it. What
    /// was charged by then stays charged. The operator's log has the cause under the incident id.
    #[error("the ledger is out of reach, incident {incident}")]
    LedgerOutOfReach { incident: String },
    /// Anything else. The operator's log has the cause under the incident id.
    #[error("internal error, incident {incident}")]
    Internal { incident: String },
}

impl Error {
    /// The error as the client sees it.
    pub fn report(&self) -> Refusal {
        match self {
            Self::Parse(r)
            | Self::Resolve(r)
            | Self::Analyze(r)
            | Self::Rewrite(r)
            | Self::Ledger(r)
            | Self::Release(r)
            | Self::Shadow(r) => r.clone(),
            Self::Cancelled => Refusal::new(
                reason::STATEMENT_CANCELLED,
                "canceling statement due to user request",
            )
            .detail("What was charged by then stays charged."),
            Self::LedgerOutOfReach { incident } => Refusal::new(
                reason::LEDGER_OUT_OF_REACH,
                "the ledger of budgets is out of reach",
            )
            .detail(format!(
                "Nothing is charged or answered without it. The operator's log has the cause under \
                    incident {incident}."
            ))
            .hint("Try again later, or tell the operator."),
            Self::Internal { incident } => Refusal::new(reason::INTERNAL_ERROR, "internal error")
                .detail(format!(
                    "The operator's log has the cause under incident {incident}."
                )),
        }
    }
}
