//! Bounds on the rows of one unit, below joins, subqueries and windows that would multiply them.

use super::lineage::Lineage;
use crate::ir::{ColumnId, Edge, Expr, Frame, FrameMode, Relation, Window, WindowFunction};

/// A relation with an enforced bound on the rows of each unit.
pub(super) struct BoundedRows {
    pub relation: Relation,
    pub lineage: Lineage,
    /// Conditions that are applied below the bound, and need not be repeated above it.
    pub sunk: Vec<Expr>,
}

/// Keeps at most `rows_per_unit` rows of each unit. Conditions that read the relation alone are
/// applied first, so that the bound falls on the rows that are asked for.
///
/// # Guarantee
/// Each unit has at most `lineage.rows_enforced` rows in the relation that is returned, whatever
/// the tables hold. The emitted statement keeps the first rows in an order that depends on their
/// values alone, so the rows that stay are a function of the set of that unit's rows.
pub(super) fn bound(relation: Relation, lineage: Lineage, conditions: &[Expr]) -> BoundedRows {
    if lineage.rows_enforced.is_some() {
        return BoundedRows {
            relation,
            lineage,
            sunk: Vec::new(),
        };
    }
    let own = relation.made_at_any_depth();
    let sunk: Vec<Expr> = conditions
        .iter()
        .filter(|c| is_about(c, &own))
        .cloned()
        .collect();
    let input = Box::new(filter(relation, sunk.clone()));
    let rows = lineage.rows_per_unit;
    let relation = Relation::Bounded {
        input,
        unit: lineage.units[0],
        rows,
    };
    BoundedRows {
        relation,
        lineage: Lineage {
            rows_enforced: Some(rows),
            ..lineage
        },
        sunk,
    }
}

/// The relation where the conditions hold.
pub(super) fn filter(relation: Relation, conditions: Vec<Expr>) -> Relation {
    match Expr::and(conditions) {
        Some(predicate) => Relation::Filter {
            input: Box::new(relation),
            predicate,
        },
        None => relation,
    }
}

/// Whether a condition reads these columns alone, and no subquery.
fn is_about(condition: &Expr, own: &[ColumnId]) -> bool {
    let columns = condition.columns();
    condition.relations().is_empty()
        && !columns.is_empty()
        && columns.iter().all(|id| own.contains(id))
}

/// Widest frame, in rows on either side of the current one, that may be computed again for each
/// row.
const FRAME_ROWS_MAX: i64 = 100;

/// Whether rows leave the frame as it moves. PostgreSQL may then compute the aggregate of all
/// remaining rows again for each row.
pub(super) fn is_quadratic(window: &Window) -> bool {
    let Some(Frame { mode, start, end }) = &window.frame else {
        return false;
    };
    let width = |edge: &Edge| match edge {
        Edge::Current => Some(0),
        Edge::Before(offset) | Edge::After(offset) => match offset.as_literal() {
            Some(crate::policy::Scalar::Int(rows)) => Some(*rows),
            _ => None,
        },
        Edge::First | Edge::Last => None,
    };
    let is_narrow = *mode == FrameMode::Rows
        && [start, end]
            .into_iter()
            .all(|edge| width(edge).is_some_and(|rows| rows <= FRAME_ROWS_MAX));
    matches!(window.ranked, WindowFunction::Aggregate(_)) && *start != Edge::First && !is_narrow
}
