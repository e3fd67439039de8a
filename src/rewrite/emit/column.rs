//! Columns as emitted expressions read them.

use sqlparser::ast;

use crate::analyze::interval::Interval;
use crate::catalog::Type;

/// A column as the relation below offers it.
#[derive(Debug, Clone)]
pub struct EmittedColumn {
    /// The bare reference.
    pub raw: ast::Expr,
    /// Bounds for the clamp of every use except a comparison: (as SQL, as numbers). `None` if the
    /// type needs no clamp.
    pub clamp: Option<(ast::Expr, ast::Expr, Interval)>,
    pub data_type: Type,
    /// The range of the values after the clamp, or without a clamp (a computed column of a derived
    /// table).
    pub known: Interval,
}
