//! The facts that a client may learn about a failure: PostgreSQL's error fields. They are built
//! from the SQL, the policy and released values only.

mod ending;
pub mod reason;
pub mod sqlstate;

pub use ending::Ending;
pub use reason::Reason;

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

/// The kind of a refusal, which its entry in the list of reasons gives. Behaviour depends on it,
/// never on the texts or on the SQLSTATE.
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

/// One refusal in PostgreSQL's style: lowercase message without a full stop; detail and hint are
/// sentences.
///
/// The text may depend on the SQL, the policy, the ledger and released values; never on a private
/// row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub reason: Reason,
    /// The reason's own, or the one that PostgreSQL reported.
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// 1-based character position in the client's statement, where the parser knows it.
    pub position: Option<u32>,
}

impl Refusal {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self::with_code(reason, reason.sqlstate(), message)
    }

    fn with_code(reason: Reason, sqlstate: &str, message: impl Into<String>) -> Self {
        Self {
            reason,
            sqlstate: sqlstate.to_owned(),
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
        }
    }

    /// Valid SQL for which no sound private answer is known; `construct` is its short name.
    pub fn unsupported(reason: Reason, construct: impl std::fmt::Display) -> Self {
        Self::new(
            reason,
            format!("{construct} is not supported over private tables"),
        )
    }

    /// The statement would show rows of a private table; `advice` says what to do instead.
    pub fn private_rows(advice: &str) -> Self {
        let message = format!(
            "rows of a private table are not shown{}{advice}",
            if advice.is_empty() { "" } else { "; " }
        );
        Self::new(reason::PRIVATE_ROWS, message)
    }

    /// An error about the statement that PostgreSQL reported, under PostgreSQL's own code.
    pub fn of_postgres(sqlstate: &str, message: &str) -> Self {
        Self::with_code(reason::POSTGRES_ERROR, sqlstate, message)
    }

    pub fn kind(&self) -> RefusalKind {
        self.reason.kind()
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The refusal with detail and hint in its message, on lines as psql has them.
    pub fn in_message(self) -> Self {
        let mut message = self.message;
        for (name, text) in [("DETAIL", &self.detail), ("HINT", &self.hint)] {
            if let Some(text) = text {
                message = format!("{message}\n{name}:  {text}");
            }
        }
        Self {
            message,
            detail: None,
            hint: None,
            ..self
        }
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
