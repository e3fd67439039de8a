//! The facts in a label: whose rows a relation holds, and which columns are their unit.

use crate::catalog::Type;
use crate::ir::{ColumnId, Relation, Scan, TableId};
use crate::policy::{ColumnPosition, Protection, Table, Unit};

/// Says whose rows a relation has.
#[derive(Debug, Clone, PartialEq)]
pub enum Label {
    /// Computed from public and released rows only.
    Public,
    /// Every row belongs to exactly one unit.
    Private(Lineage),
}

/// How rows belong to units.
///
/// # Guarantee
/// [`Labels::label`](super::label::Labels::label) makes lineages and proves what `units`,
/// `rows_enforced` and `points` say, for every content of the tables that the catalog admits.
/// `rows_per_unit` is a choice: it bounds nothing by itself. Prices rest on the emitted clip, or,
/// where there is none, on `rows_enforced` and on what the release is proved to have
/// ([`AnalyzedRelease::one_row_per_unit`](super::AnalyzedRelease::one_row_per_unit) and the like).
#[derive(Debug, Clone, PartialEq)]
pub struct Lineage {
    /// Columns that *are* the unit here: each holds it in every row, NOT NULL, of one type with a
    /// deterministic collation. Never empty.
    pub units: Vec<ColumnId>,
    pub data_type: Type,
    /// How many rows one unit is expected to have at most. It chooses the clip. A unit with more
    /// rows is clipped: nothing private rests on this number.
    pub rows_per_unit: u64,
    /// The most rows that one unit has here, by an emitted bound, by grouping, or by the primary
    /// key of the unit's own table; `None` where nothing bounds them.
    pub rows_enforced: Option<u64>,
    /// Whether a private row may be joined with any number of public rows.
    pub is_multiplied: bool,
    /// Columns whose equal values belong to one unit. Each holds the value of a column that
    /// identifies a row of a private table: it is that column, or a foreign key to it, on the path
    /// to the unit or with the unit's column. That it identifies a row may be the owner's claim
    /// alone. So where a join rests on points, the equality of the units is added to it: a claim
    /// that is wrong costs rows, and never pairs two units.
    pub(super) points: Vec<Point>,
}

/// A column here, and the column of a table that identifies a row, whose value it has.
pub(super) type Point = (ColumnId, TableId, ColumnPosition);

/// The one scan under filters and projections.
pub fn only_scan(relation: &Relation) -> Option<&Scan> {
    match relation {
        Relation::Scan(scan) => Some(scan),
        Relation::Filter {
            input,
            predicate: _,
        }
        | Relation::Project { input, columns: _ } => only_scan(input),
        Relation::Join { .. }
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. }
        | Relation::Constants(_) => None,
        Relation::Bounded { .. } => None,
    }
}

/// The unit of a private table.
pub fn unit_of(table: &Table) -> Option<&Unit> {
    match &table.protection {
        Protection::Private(unit) => Some(unit),
        Protection::Public => None,
    }
}
