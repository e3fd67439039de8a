//! What a statement has been resolved to so far.

use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::{ColumnId, ColumnInfo, MiddleId, MiddleQuery, Release, TableId};
use crate::policy::ViewKind;

#[derive(Default)]
pub(super) struct Output {
    pub columns: Vec<ColumnInfo>,
    pub releases: Vec<Release>,
    pub middles: Vec<MiddleQuery>,
    /// Each constant of a release: its middle query and column there, and its type.
    pub bound: Vec<((MiddleId, usize), Type)>,
    pub public_tables: Vec<TableId>,
    pub views: Vec<ViewKind>,
    /// Scans of the release that is being resolved. They are numbered within it.
    pub scans: usize,
}

impl Output {
    pub fn new_column(&mut self, info: ColumnInfo) -> ColumnId {
        self.columns.push(info);
        ColumnId((self.columns.len() - 1) as u32)
    }

    pub fn column_expr(&self, id: ColumnId) -> Expr {
        Expr::column(id, self.columns[id.0 as usize].data_type.clone())
    }
}
