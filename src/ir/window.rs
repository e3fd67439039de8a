//! Window calls: values computed for each row from the other rows of its partition.

use super::aggregate::Aggregate;
use super::expression::Expr;
use crate::catalog::Type;

/// One window call. `analyze` adds the unit to the partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub ranked: WindowFunction,
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    /// `None` is the default frame: up to the last peer of this row, or the whole partition without
    /// ORDER BY.
    pub frame: Option<Frame>,
    /// PostgreSQL's result type, except for floats, which are added as numerics.
    pub data_type: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    /// CUME_DIST.
    CumeDist,
    /// NTILE, with the number of tiles.
    Ntile(i64),
    /// LAG (negative) and LEAD: the value this many rows further on.
    LagLead {
        value: Expr,
        offset: i64,
    },
    /// The value at a place of the frame.
    NthValue {
        value: Expr,
        place: Position,
    },
    /// Over the rows of the frame.
    Aggregate(Aggregate),
}

/// FIRST_VALUE, LAST_VALUE and NTH_VALUE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    First,
    Last,
    /// Counted from 1.
    Nth(i64),
}

/// Which rows around the current one a call reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub mode: FrameMode,
    pub start: Edge,
    pub end: Edge,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameMode {
    Rows,
    Range,
    Groups,
}

/// An end of a frame; offsets are constants, never negative, of the type that the frame's mode
/// takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Edge {
    First,
    Before(Expr),
    Current,
    After(Expr),
    Last,
}

impl Frame {
    /// Distances are measured in the ordering value itself.
    pub fn measures(&self) -> bool {
        self.mode == FrameMode::Range
            && [&self.start, &self.end]
                .into_iter()
                .any(|edge| matches!(edge, Edge::Before(_) | Edge::After(_)))
    }
}

/// One term of ORDER BY.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

impl Window {
    /// Every expression that it reads.
    pub fn reads(&self) -> Vec<&Expr> {
        let own = match &self.ranked {
            WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile(_) => Vec::new(),
            WindowFunction::LagLead { value, offset: _ }
            | WindowFunction::NthValue { value, place: _ } => {
                vec![value]
            }
            WindowFunction::Aggregate(aggregate) => aggregate.reads(),
        };
        own.into_iter()
            .chain(&self.partition)
            .chain(self.order.iter().map(|o| &o.expr))
            .collect()
    }

    /// The call with every expression mapped.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn try_map<E>(self, map: &mut impl FnMut(Expr) -> Result<Expr, E>) -> Result<Self, E> {
        let ranked = match self.ranked {
            other @ (WindowFunction::RowNumber
            | WindowFunction::Rank
            | WindowFunction::DenseRank
            | WindowFunction::PercentRank
            | WindowFunction::CumeDist
            | WindowFunction::Ntile(_)) => other,
            WindowFunction::LagLead { value, offset } => WindowFunction::LagLead {
                value: map(value)?,
                offset,
            },
            WindowFunction::NthValue { value, place } => WindowFunction::NthValue {
                value: map(value)?,
                place,
            },
            WindowFunction::Aggregate(Aggregate {
                operation,
                filter,
                data_type,
                place,
            }) => {
                let operation = operation.try_map(map)?;
                WindowFunction::Aggregate(Aggregate {
                    operation,
                    filter: filter.map(&mut *map).transpose()?,
                    data_type,
                    place,
                })
            }
        };
        let partition = self
            .partition
            .into_iter()
            .map(&mut *map)
            .collect::<Result<_, E>>()?;
        let order = self
            .order
            .into_iter()
            .map(|o| {
                Ok(Order {
                    expr: map(o.expr)?,
                    ..o
                })
            })
            .collect::<Result<_, E>>()?;
        Ok(Self {
            ranked,
            partition,
            order,
            frame: self.frame,
            data_type: self.data_type,
        })
    }
}
