//! Why an answer could not be made once its query was planned.

use crate::error::Error;
use crate::execute;

pub(super) enum RunError {
    /// The database failed after the charge.
    Backend(execute::Error),
    Other(Error),
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
