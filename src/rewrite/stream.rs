//! Statements whose rows pgveil adds up itself, where the database would sort or hash many groups
//! of each unit several times: what the rows hold, and how they are added up.

use num_bigint::BigUint;

use crate::catalog::Type;
use crate::mechanism::Norm;
use crate::rewrite::emit::sql;
use sqlparser::ast;

/// How rows are added up. A row's columns are the unit, the group's columns, and the cells that are
/// read.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// The keys; then, where values are counted or chosen, the value's columns.
    pub groups: Vec<Column>,
    /// What a row adds to its unit and group.
    pub cells: Vec<Cell>,
    pub result: FoldResult,
}

/// How a column's binary form is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// Two, four or eight bytes. Its text is the number.
    Integer,
    /// Equal values have equal bytes. The text of a group's column is these bytes.
    Bytes,
}

/// What a row adds to one integer of its unit and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    pub reading: CellReading,
    /// The integer of one unit and group is clamped to this magnitude, after it is summed.
    pub most: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellReading {
    /// 1 for each row; no column.
    EveryRow,
    /// 1 if the unit has a row; no column.
    AnyRow,
    /// A truth value: 1 for each row where it is true.
    Condition,
    /// A truth value: 1 if it is true in any row.
    AnyCondition,
    /// A truth value: 1 for each row where it is true, -1 for every other.
    Sign,
    /// An integer below 2^31 that is added; NULL adds nothing.
    Integer,
    /// A larger integer that is added; NULL adds nothing.
    WideInteger,
}

impl CellReading {
    pub fn has_column(self) -> bool {
        !matches!(self, Self::EveryRow | Self::AnyRow)
    }
}

/// What is made of the integers of each unit and group.
#[derive(Debug, Clone, PartialEq)]
pub enum FoldResult {
    /// Sums by group and bin, for each block. The columns of a row are the keys, the number of the
    /// bin in each block, the sums, and the number of units whose first row it has.
    Bins {
        kept: Option<KeptGroups>,
        blocks: Vec<FoldBlock>,
    },
    /// The number of each group's distinct values. `keys` of the group's columns are keys; the
    /// others are the value. One unit counts for its first pairs, by hash.
    Distinct {
        keys: usize,
        in_all: u64,
        in_group: u64,
        /// Whether a value that is NULL is not counted.
        skips_null: bool,
    },
    /// Rows by group, value and bin of their unit. The columns of a row are the keys, the value,
    /// the number of the bin, the rows, and the number of units whose first row it has.
    RowBins {
        keys: usize,
        /// Whether a unit's length is the root of the sum over groups of squared rows; otherwise it
        /// is the number of its rows.
        by_group: bool,
        /// Squared lengths in ascending order: as many of them as do not exceed a unit's squared
        /// length is the number of its bin.
        thresholds: Vec<BigUint>,
    },
}

/// The groups of a unit that count where keys are released by threshold: the first by hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptGroups {
    pub limit: u32,
    /// The cell that is a presence, which the kept groups share.
    pub presence: Option<usize>,
    pub norm: Norm,
}

/// A block of cells whose length decides the bin of a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldBlock {
    /// Each cell with its weight. Empty where every unit is in the first bin.
    pub cells: Vec<(usize, BigUint)>,
    /// Squared lengths in ascending order: as many of them as do not exceed a unit's squared length
    /// is the number of its bin.
    pub thresholds: Vec<BigUint>,
}

/// A column of the group in a form that is equal where the values are, and how it is read. `None`
/// where no such form is at hand.
///
/// # Requires
/// `expr` has one spelling for all equal values ([`super::vector::base_rows::BaseRows::keys`]), so
/// that their texts are equal too.
pub(in crate::rewrite) fn group_column(
    expr: &ast::Expr,
    data_type: &Type,
) -> Option<(ast::Expr, Column)> {
    let text = || (sql::cast(expr.clone(), &Type::Text), Column::Bytes);
    Some(match data_type {
        Type::Int2 | Type::Int4 | Type::Int8 => {
            (sql::cast(expr.clone(), data_type), Column::Integer)
        }
        Type::Text | Type::Varchar(_) => (expr.clone(), Column::Bytes),
        Type::Char(_)
        | Type::Bool
        | Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Time
        | Type::Enum(_) => text(),
        // One day and 24 hours are equal.
        Type::Interval | Type::Other { .. } => return None,
    })
}

/// The unit's column in a form whose bytes are equal where units are. `None` where no such form is
/// at hand. (A unit of a nondeterministic collation is refused when the policy is checked.)
pub(in crate::rewrite) fn unit_column(unit: &ast::Expr, data_type: &Type) -> Option<ast::Expr> {
    Some(match data_type {
        Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Text
        | Type::Varchar(_)
        | Type::Bool
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Time => unit.clone(),
        // Without blanks at the end; a label.
        Type::Char(_) | Type::Enum(_) => sql::cast(unit.clone(), &Type::Text),
        Type::Numeric(_) | Type::Float4 | Type::Float8 | Type::Interval | Type::Other { .. } => {
            return None;
        }
    })
}
