//! How something ended for its client.

use super::sqlstate::{SUCCESSFUL_COMPLETION, SqlState};
use super::{Reason, Refusal};

/// How a statement or a login ended for its client. Its printed and stored form is the SQLSTATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    /// With this SQLSTATE: the reason's own, or the one that PostgreSQL reported.
    Failed(String),
}

impl Ending {
    /// The reverse of [`Ending::sqlstate`].
    pub fn of_sqlstate(sqlstate: &str) -> Self {
        if sqlstate == SUCCESSFUL_COMPLETION.code {
            Self::Succeeded
        } else {
            Self::Failed(sqlstate.to_owned())
        }
    }

    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Succeeded => SUCCESSFUL_COMPLETION.code,
            Self::Failed(sqlstate) => sqlstate,
        }
    }
}

impl From<SqlState> for Ending {
    fn from(state: SqlState) -> Self {
        Self::of_sqlstate(state.code)
    }
}

impl From<Reason> for Ending {
    fn from(reason: Reason) -> Self {
        Self::of_sqlstate(reason.sqlstate())
    }
}

impl From<&Refusal> for Ending {
    fn from(refusal: &Refusal) -> Self {
        Self::of_sqlstate(&refusal.sqlstate)
    }
}
