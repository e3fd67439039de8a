//! Window calls in our own tree: what is computed of each row from the other rows of its partition.

use super::operation::{Aggregate, Operation};
use super::tree::Expr;
use crate::catalog::Type;

/// One window call over its default frame. `analyze` adds the unit to the partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    pub ranked: Ranked,
    pub partition: Vec<Expr>,
    pub order: Vec<Order>,
    /// PostgreSQL's result type, but for floats that are added as numerics.
    pub data_type: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ranked {
    RowNumber,
    Rank,
    DenseRank,
    /// NTILE of so many tiles.
    Tile(i64),
    /// LAG (below 0) and LEAD: the value that many rows on.
    Neighbour {
        value: Expr,
        offset: i64,
    },
    /// FIRST_VALUE.
    First(Expr),
    /// Over the rows up to the last that ties with this one, or over all where nothing orders them.
    Aggregate(Aggregate),
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
            Ranked::RowNumber | Ranked::Rank | Ranked::DenseRank | Ranked::Tile(_) => Vec::new(),
            Ranked::Neighbour { value, offset: _ } | Ranked::First(value) => vec![value],
            Ranked::Aggregate(aggregate) => aggregate.reads(),
        };
        own.into_iter().chain(&self.partition).chain(self.order.iter().map(|o| &o.expr)).collect()
    }

    /// The call with every expression mapped.
    ///
    /// # Errors
    /// Those of `map`.
    pub fn try_map<E>(self, map: &mut impl FnMut(Expr) -> Result<Expr, E>) -> Result<Self, E> {
        let ranked = match self.ranked {
            other @ (Ranked::RowNumber | Ranked::Rank | Ranked::DenseRank | Ranked::Tile(_)) => other,
            Ranked::Neighbour { value, offset } => Ranked::Neighbour { value: map(value)?, offset },
            Ranked::First(value) => Ranked::First(map(value)?),
            Ranked::Aggregate(Aggregate { operation, filter, data_type }) => {
                let operation = match operation {
                    Operation::Count(e) => Operation::Count(map(e)?),
                    Operation::Sum(e) => Operation::Sum(map(e)?),
                    Operation::Average(e) => Operation::Average(map(e)?),
                    Operation::Unlike { value, moment } => Operation::Unlike { value: map(value)?, moment },
                    Operation::Variance { value, kind } => Operation::Variance { value: map(value)?, kind },
                    Operation::Extreme { value, end } => Operation::Extreme { value: map(value)?, end },
                    Operation::Truth { value, of } => Operation::Truth { value: map(value)?, of },
                    Operation::Mode(e) => Operation::Mode(map(e)?),
                    Operation::Quantile { value, fractions, continuous } => Operation::Quantile { value: map(value)?, fractions, continuous },
                    Operation::Paired { y, x, kind } => Operation::Paired { y: map(y)?, x: map(x)?, kind },
                    other @ (Operation::CountRows | Operation::Distinct(_)) => other,
                };
                Ranked::Aggregate(Aggregate { operation, filter: filter.map(&mut *map).transpose()?, data_type })
            }
        };
        let partition = self.partition.into_iter().map(&mut *map).collect::<Result<_, E>>()?;
        let order = self.order.into_iter().map(|o| Ok(Order { expr: map(o.expr)?, ..o })).collect::<Result<_, E>>()?;
        Ok(Self { ranked, partition, order, data_type: self.data_type })
    }
}
