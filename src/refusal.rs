//! What a client may learn about a failure: PostgreSQL's error fields. They are built from the SQL,
//! the policy and released values only.

/// SQLSTATE codes that pgveil raises itself.
pub mod sqlstate {
    pub const SYNTAX_ERROR: &str = "42601";
    pub const UNDEFINED_TABLE: &str = "42P01";
    pub const UNDEFINED_COLUMN: &str = "42703";
    pub const AMBIGUOUS_COLUMN: &str = "42702";
    pub const GROUPING_ERROR: &str = "42803";
    pub const UNDEFINED_FUNCTION: &str = "42883";
    pub const DATATYPE_MISMATCH: &str = "42804";
    pub const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const OUT_OF_MEMORY: &str = "53200";
    pub const CONFIGURATION_LIMIT_EXCEEDED: &str = "53400";
    pub const QUERY_CANCELED: &str = "57014";
    pub const STATEMENT_TOO_COMPLEX: &str = "54001";
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    pub const INTERNAL_ERROR: &str = "XX000";
    /// pgveil's own: the noise would hide every possible answer.
    pub const USELESS_QUESTION: &str = "PV001";
    /// A noisy look saw too few units to choose a clip, or to show a group.
    pub const TOO_FEW_UNITS: &str = "PV002";
}

/// Where a part of the statement begins in the client's text. Comparisons and digests ignore it:
/// two parts that differ only in their positions are equal.
#[derive(Clone, Copy, Default)]
pub struct TextPosition(pub Option<u32>);

impl std::fmt::Debug for TextPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TextPosition")
    }
}

impl PartialEq for TextPosition {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What the code asks about a refusal. Behaviour depends on this, never on the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// A name of a table or a column that is not in scope.
    UnknownName,
    /// A column that is neither a group key nor inside an aggregate, or a misplaced aggregate.
    Grouping,
    /// The statement would show rows of a private table.
    PrivateRows,
    /// Text that is not valid SQL.
    Syntax,
    /// Valid SQL that pgveil does not answer.
    Unsupported,
    /// More rows or memory than an answer may take.
    TooLarge,
    /// The budget does not cover the statement.
    Exhausted,
    Cancelled,
    /// A failure of pgveil itself.
    Internal,
    Other,
}

impl RefusalKind {
    /// The one place that reads SQLSTATEs.
    fn of(sqlstate: &str) -> Self {
        match sqlstate {
            sqlstate::UNDEFINED_TABLE | sqlstate::UNDEFINED_COLUMN => Self::UnknownName,
            sqlstate::GROUPING_ERROR => Self::Grouping,
            sqlstate::SYNTAX_ERROR => Self::Syntax,
            sqlstate::FEATURE_NOT_SUPPORTED => Self::Unsupported,
            sqlstate::PROGRAM_LIMIT_EXCEEDED | sqlstate::OUT_OF_MEMORY => Self::TooLarge,
            sqlstate::CONFIGURATION_LIMIT_EXCEEDED => Self::Exhausted,
            sqlstate::QUERY_CANCELED => Self::Cancelled,
            other if other.starts_with("XX") => Self::Internal,
            _ => Self::Other,
        }
    }
}

/// One refusal in PostgreSQL's style: lowercase message without a full stop; detail and hint are
/// sentences.
///
/// The text may depend on the SQL, the policy, the ledger and released values; never on a private
/// row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// 1-based character position in the client's statement, where the parser knows it.
    pub position: Option<u32>,
    /// Set by the constructors.
    pub kind: RefusalKind,
}

impl Refusal {
    pub fn new(sqlstate: &str, message: impl Into<String>) -> Self {
        Self {
            sqlstate: sqlstate.to_owned(),
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            kind: RefusalKind::of(sqlstate),
        }
    }

    /// 0A000 with a free message. [`Self::unsupported`] serves where a short name says it all.
    pub fn feature_not_supported(message: impl Into<String>) -> Self {
        Self::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
    }

    /// 0A000: valid SQL for which no sound private answer is known; `construct` is its short name.
    pub fn unsupported(construct: impl std::fmt::Display) -> Self {
        Self::feature_not_supported(format!("{construct} is not supported over private tables"))
    }

    /// 42501: the statement would show rows of a private table; `advice` says what to do instead.
    pub fn private_rows(advice: &str) -> Self {
        let mut refusal = Self::denied(format!(
            "rows of a private table are not shown{}{advice}",
            if advice.is_empty() { "" } else { "; " }
        ));
        refusal.kind = RefusalKind::PrivateRows;
        refusal
    }

    /// 42501: the policy forbids it.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn at(mut self, position: Option<u32>) -> Self {
        self.position = position;
        self
    }

    /// Sets the position unless an inner part of the statement has set it.
    pub fn within(self, position: impl FnOnce() -> Option<u32>) -> Self {
        if self.position.is_some() {
            self
        } else {
            self.at(position())
        }
    }
}
