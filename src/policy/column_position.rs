//! The place of a column in its table.

/// The place of a column in [`super::Table::columns`]. The table of a summary or a search is a
/// bare number: its place in [`super::Policy::tables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnPosition(pub usize);
