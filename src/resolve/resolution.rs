//! The parts of a statement that are resolved so far.

use crate::catalog::Type;
use crate::ir::expression::Expr;
use crate::ir::{
    ColumnId, ColumnInfo, MiddleColumn, MiddleQuery, Release, ScanId, TableId, view_alias,
};
use crate::policy::ViewKind;

#[derive(Default)]
pub(super) struct Resolution {
    pub columns: Vec<ColumnInfo>,
    pub releases: Vec<Release>,
    pub middles: Vec<MiddleQuery>,
    /// Each constant of a release, and its type.
    pub bound: Vec<(MiddleColumn, Type)>,
    pub public_tables: Vec<TableId>,
    pub views: Vec<ViewKind>,
    /// The number of the next scan of the release that is being resolved.
    pub scans: ScanId,
}

impl Resolution {
    pub fn new_column(&mut self, info: ColumnInfo) -> ColumnId {
        self.columns.push(info);
        ColumnId((self.columns.len() - 1) as u32)
    }

    /// The view that a name of the outer query stands for.
    pub fn opened_view(&self, names: &[String]) -> Option<ViewKind> {
        let [name] = names else { return None };
        let is_named = |view: &&ViewKind| view_alias(**view) == *name;
        self.views.iter().find(is_named).copied()
    }

    pub fn column_expr(&self, id: ColumnId) -> Expr {
        Expr::column(id, self.columns[id.0 as usize].data_type.clone())
    }
}
