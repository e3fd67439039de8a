//! The place of a column in its table.

/// The place of a column in [`super::Table::columns`]. Other numbers of a summary or a search are
/// places of tables in [`super::Policy::tables`], and of keys in a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnPosition(pub usize);
