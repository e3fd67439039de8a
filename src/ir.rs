//! The intermediate representation: relations, expressions, aggregates, functions and literals, as
//! all stages after `resolve` read them.

pub mod aggregate;
mod aggregate_id;
pub mod equality;
pub mod evaluate;
pub mod expression;
pub mod functions;
pub mod grouping;
pub mod interval;
pub mod literal;
pub mod relation;
pub mod sql;
pub mod uncertainty;
mod unknown;
pub mod window;

pub use aggregate::{
    Aggregate, Distinct, End, Fractions, Moment, Operation, PairStatistic, Quantifier,
    ReportStatistic, VarianceKind,
};
pub use aggregate_id::AggregateId;
pub use equality::equality;
pub use expression::{Expr, Node};
pub use grouping::{GroupingSet, KeyId, SetId};
pub use interval::Interval;
pub use relation::{
    ColumnId, ColumnInfo, ConstantId, ConstantRows, JoinKind, Key, MiddleColumn, MiddleId,
    MiddleQuery, MiddleRows, Relation, Release, ReleaseId, ResolvedQuery, SET_COLUMN, Scan, ScanId,
    TableId, aggregate_column, key_column, release_alias, view_alias,
};
pub use uncertainty::{Formula, Statistic, Uncertainty};
pub use window::{Edge, Frame, FrameMode, Order, Position, Window, WindowFunction};
