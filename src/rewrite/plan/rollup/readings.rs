//! Columns as the expressions of a release read them.

use super::SqlDigest;
use crate::catalog::Type;
use crate::ir::{ColumnId, Expr};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::release_statements::Emission;

/// A column as expressions read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub id: ColumnId,
    /// Its name, for messages.
    pub name: String,
    /// Digest of the emitted SQL.
    pub digest: SqlDigest,
    /// Whether expressions read it as it is stored, without a clamp. Comparisons of two columns,
    /// and with infinities, read a clamped column without its clamp.
    pub is_bare: bool,
    /// Whether equal values of its type have one spelling.
    pub is_printed_once: bool,
}

impl Emission<'_> {
    /// The columns of some expressions.
    pub(super) fn readings<'e>(
        &self,
        read: impl Iterator<Item = &'e Expr>,
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<Vec<Reading>, Refusal> {
        let mut ids: Vec<ColumnId> = read.flat_map(Expr::columns).collect();
        ids.sort();
        ids.dedup();
        let mut readings = Vec::new();
        for id in ids {
            let info = &self.analyzed.columns()[id.0 as usize];
            let is_deterministic = || {
                info.origin.is_some_and(|(table, at)| {
                    self.policy.tables[table.0].columns[at.0].deterministic_collation
                })
            };
            let is_printed_once = match &info.data_type {
                Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Date | Type::Enum(_) => {
                    true
                }
                Type::Text | Type::Varchar(_) => is_deterministic(),
                // Equal values of these types have several spellings, or the text of a moment
                // depends on the zone.
                Type::Numeric(_)
                | Type::Float4
                | Type::Float8
                | Type::Char(_)
                | Type::Uuid
                | Type::Timestamp
                | Type::Timestamptz
                | Type::Interval
                | Type::Time
                | Type::Other { .. } => false,
            };
            if let Some(cell) = expressions.cells.get(&id) {
                let sql = expressions
                    .emit(&Expr::column(id, info.data_type.clone()))?
                    .0
                    .to_string();
                readings.push(Reading {
                    id,
                    name: info.name.clone(),
                    digest: SqlDigest::of(&sql),
                    is_bare: cell.clamp.is_none(),
                    is_printed_once,
                });
            }
        }
        Ok(readings)
    }
}
