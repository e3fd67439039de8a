//! The intermediate representation: relations, expressions, aggregates, functions and literals, as
//! all stages after `resolve` read them.

pub mod aggregate;
pub mod equality;
pub mod evaluate;
pub mod expression;
pub mod functions;
pub mod interval;
pub mod literal;
pub mod relation;
pub mod sql;
pub mod uncertainty;
mod unknown;
pub mod window;

pub use aggregate::{
    Aggregate, Distinct, End, Fractions, Moment, Operation, PairStatistic, Quantifier, VarianceKind,
};
pub use equality::equality;
pub use expression::{Expr, Node};
pub use interval::Interval;
pub use relation::{
    ColumnId, ColumnInfo, ConstantId, ConstantRows, JoinKind, Key, MiddleId, MiddleQuery,
    MiddleRows, Relation, Release, ReleaseId, ResolvedQuery, SET_COLUMN, Scan, TableId,
    aggregate_column, key_column, release_alias, view_alias,
};
pub use uncertainty::{Formula, Statistic, Uncertainty};
pub use window::{Edge, Frame, FrameMode, Order, Position, Window, WindowFunction};
