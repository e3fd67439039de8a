//! One finding in a policy file: its place, the fault, and the expected value.

use std::fmt;

/// A position in the policy file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    pub line: usize,
    pub column: usize,
}

impl Location {
    /// The first character of the file, for findings about the whole.
    pub const START: Self = Self { line: 1, column: 1 };
}

/// A value and where the policy file says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct At<T> {
    pub place: Location,
    pub value: T,
}

/// One error or warning about a policy file. The message never holds a secret: no password, no
/// value of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    pub file: String,
    pub place: Location,
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file, self.place.line, self.place.column, self.message
        )
    }
}

/// Collects all errors, so that one pass over the file repairs them all.
#[derive(Debug)]
pub(super) struct Findings {
    file: String,
    pub errors: Vec<PolicyError>,
    pub warnings: Vec<PolicyError>,
}

impl Findings {
    pub fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn error(&mut self, place: Location, message: impl Into<String>) {
        self.errors.push(PolicyError {
            file: self.file.clone(),
            place,
            message: message.into(),
        });
    }

    pub fn warning(&mut self, place: Location, message: impl Into<String>) {
        self.warnings.push(PolicyError {
            file: self.file.clone(),
            place,
            message: message.into(),
        });
    }

    /// The warnings, where there are no errors.
    pub fn into_warnings(self) -> Vec<PolicyError> {
        self.warnings
    }

    /// The errors in the order of the file.
    pub fn into_errors(mut self) -> Vec<PolicyError> {
        self.errors.sort_by_key(|e| e.place);
        self.errors
    }
}
