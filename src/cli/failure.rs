//! The failure of a command: a message with a remedy, and an exit code.

use std::process::ExitCode;

use crate::policy::PolicyError;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is invalid: exit code 2.
    Usage(String),
    /// The policy does not hold: exit code 3.
    Policy(Vec<PolicyError>),
    /// Something essential is not decided: exit code 3. `ways` are lines that say how to decide it.
    Undecided { message: String, ways: Vec<String> },
    /// Any other failure: exit code 1. `remedy` is a sentence that says what to do.
    Runtime {
        message: String,
        remedy: Option<String>,
    },
    /// A change of the policy, printed already, lets somebody learn more: exit code 4.
    Loosened,
    /// The message is printed already: exit code 1.
    Shown,
    /// Ctrl-C or SIGTERM came before the work was done: exit code 1.
    Interrupted,
}

impl Failure {
    /// A failure without a remedy.
    pub fn new(message: impl std::fmt::Display) -> Self {
        Self::Runtime {
            message: message.to_string(),
            remedy: None,
        }
    }

    /// A failure and what to do about it.
    pub fn with_remedy(message: impl std::fmt::Display, remedy: impl Into<String>) -> Self {
        Self::Runtime {
            message: message.to_string(),
            remedy: Some(remedy.into()),
        }
    }

    /// The failure in one line, for the log.
    pub fn in_a_line(&self) -> String {
        match self {
            Self::Usage(message) => message.clone(),
            Self::Undecided { message, ways: _ } => message.clone(),
            Self::Policy(errors) => errors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
            Self::Runtime { message, remedy } => {
                format!("{message}. {}", remedy.as_deref().unwrap_or_default())
                    .trim_end()
                    .to_owned()
            }
            Self::Loosened => "the change loosens the policy".to_owned(),
            Self::Shown | Self::Interrupted => "interrupted".to_owned(),
        }
    }

    /// Prints the failure to stderr.
    pub fn print(&self) {
        match self {
            Self::Usage(message) => eprintln!("error: {message}"),
            Self::Policy(errors) => {
                for error in errors {
                    eprintln!("{error}");
                }
                let errors = errors.len();
                eprintln!(
                    "error: the policy does not hold ({errors} error{})",
                    if errors == 1 { "" } else { "s" }
                );
            }
            Self::Undecided { message, ways } => {
                eprintln!("undecided: {message}");
                ways.iter().for_each(|way| eprintln!("  {way}"));
            }
            Self::Runtime { message, remedy } => {
                eprintln!("error: {message}");
                if let Some(remedy) = remedy {
                    eprintln!("{remedy}");
                }
            }
            Self::Shown | Self::Loosened => {}
            Self::Interrupted => eprintln!("interrupted"),
        }
    }

    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Policy(_) | Self::Undecided { .. } => ExitCode::from(3),
            Self::Loosened => ExitCode::from(4),
            Self::Runtime { .. } | Self::Shown | Self::Interrupted => ExitCode::FAILURE,
        }
    }
}
