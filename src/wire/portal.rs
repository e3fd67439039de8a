//! State that a session keeps between messages: prepared statements, and portals with the rows not
//! yet fetched.

use std::sync::Arc;

use bytes::Bytes;

use super::copy::Writer;
use super::message::SentRow;
use crate::engine::{Argument, ColumnDescription, Format, HeldMemory, Requester};
use crate::parse::Statement;
use crate::refusal::{Reason, Refusal};

/// A parsed and described statement.
pub(super) struct Prepared {
    /// `None` is the empty query.
    pub(super) statement: Option<Statement>,
    pub(super) parameters: Vec<u32>,
    /// `None` where it returns no rows.
    pub(super) columns: Option<Vec<ColumnDescription>>,
    /// The search_path under which its names were resolved.
    pub(super) path: Vec<String>,
    /// Its memory, with its columns.
    pub(super) bytes: usize,
    /// The statement's bytes, of the session's memory share.
    pub(super) _held: HeldMemory,
}

/// A statement with its values, answered once.
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    pub(super) arguments: Vec<Argument>,
    /// The settings at its Bind, under which the arguments are read.
    pub(super) requester: Requester,
    /// The formats that Bind gave: empty, one for all, or one for each column.
    pub(super) formats: Vec<Format>,
    /// The columns that Describe reported. FETCH and EXECUTE have the columns of what they name.
    pub(super) columns: Option<Vec<ColumnDescription>>,
    pub(super) progress: Progress,
    pub(super) bytes: usize,
    pub(super) _held: HeldMemory,
}

pub(super) enum Progress {
    Bound,
    /// Answered and charged. These rows are left.
    Fetching {
        rows: std::vec::IntoIter<SentRow>,
        tag: String,
        /// The rows' memory.
        _held: Option<HeldMemory>,
    },
    /// Ran to its end, or failed. It never runs again.
    Spent,
}

/// The result of one statement.
pub(super) struct Reply {
    /// Severity and text of NoticeResponse messages.
    pub(super) notices: Vec<(&'static str, Refusal)>,
    pub(super) columns: Option<Vec<ColumnDescription>>,
    pub(super) rows: Vec<SentRow>,
    /// Without the row count.
    pub(super) tag: String,
    /// The format of values in the simple protocol, which requests none. Empty means text.
    pub(super) formats: Vec<Format>,
    /// COPY: the rows go out as a stream.
    pub(super) copy: Option<Writer>,
    /// The memory of an answer's rows.
    pub(super) held: Option<HeldMemory>,
}

impl Reply {
    pub(super) fn done(tag: impl Into<String>) -> Self {
        Self {
            notices: Vec::new(),
            columns: None,
            rows: Vec::new(),
            tag: tag.into(),
            formats: Vec::new(),
            copy: None,
            held: None,
        }
    }

    pub(super) fn warning(mut self, reason: Reason, message: &str) -> Self {
        self.notices
            .push(("WARNING", Refusal::new(reason, message)));
        self
    }

    pub(super) fn texts(
        tag: &str,
        columns: Vec<ColumnDescription>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let rows = rows
            .into_iter()
            .map(|row| {
                row.into_iter()
                    .map(|value| Some(Bytes::from(value)))
                    .collect()
            })
            .collect();
        Self {
            columns: Some(columns),
            rows,
            ..Self::done(tag)
        }
    }
}

/// PostgreSQL's command tag: statements that return rows of a query count them.
pub(super) fn command_tag(tag: &str, rows: usize) -> String {
    if matches!(tag, "SELECT" | "FETCH" | "COPY") {
        format!("{tag} {rows}")
    } else {
        tag.to_owned()
    }
}

/// The approximate memory of the description of some columns.
pub(super) fn columns_weight(columns: Option<&[ColumnDescription]>) -> usize {
    columns
        .into_iter()
        .flatten()
        .map(|column| size_of::<ColumnDescription>() + column.name.len())
        .sum()
}

/// The approximate memory of a portal's settings.
pub(super) fn settings_weight(requester: &Requester) -> usize {
    let texts = requester
        .settings
        .iter()
        .flat_map(|(name, value)| [name, value])
        .chain(&requester.search_path);
    texts.map(|text| size_of::<String>() + text.len()).sum()
}

/// A column of type text.
pub(super) fn text_column(name: &str) -> ColumnDescription {
    ColumnDescription {
        name: name.to_owned(),
        type_oid: 25,
        type_size: -1,
        type_modifier: -1,
    }
}

/// One format for each column.
pub(super) fn format_of_each(formats: &[Format], columns: usize) -> Vec<Format> {
    match formats {
        [] => vec![Format::Text; columns],
        [one] => vec![*one; columns],
        many => many.to_vec(),
    }
}
