//! The last levels of a statement whose clips are chosen from a look: each unit's bin in each
//! block, and exact sums by group and bin.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};
use sqlparser::ast::{self, BinaryOperator as B};

use super::bins::{Bins, CandidateId};
use super::clip::VALUE_BITS;
use super::clipped_aggregate::{ClippedAggregate, positions};
use super::coordinate::{Coordinate, PRESENCE};
use super::row_lengths::ceil_sqrt;
use crate::catalog::Type;
use crate::mechanism::Norm;
use crate::rewrite::Block;
use crate::rewrite::emit::sql;

/// Names of the columns that say a unit's bin, and of the number of units.
pub(super) fn bin(block: usize) -> String {
    format!("b{block}")
}

pub(super) const UNITS: &str = "c";

/// The largest number of eight bytes: longer than every bin of those that are narrow.
const PAST_ALL: i64 = i64::MAX;

impl ClippedAggregate<'_> {
    /// The most that one unit may add to each coordinate of a group, in steps of the base grid. In
    /// a block of narrow bins, the weighted squares of one group then fit eight bytes together; of
    /// all groups, where groups are columns. A unit that adds more is far longer than the ceiling:
    /// 64 times with sixteen columns.
    pub(super) fn magnitudes(&self) -> Vec<u64> {
        let mut most = vec![1 << VALUE_BITS; self.coordinates.len()];
        for block in self.blocks.iter().filter(|block| block.bins.is_narrow()) {
            let count = BigUint::from(block.coordinates.len());
            let each = block.bins.longest() / ceil_sqrt(&count);
            for (at, weight) in block.coordinates.iter().zip(&block.weights) {
                most[at.0] = if self.coordinates[*at] == Coordinate::Presence {
                    // It is shared out among the groups afterwards.
                    1
                } else {
                    (&each / weight).to_u64().unwrap_or(0)
                };
            }
        }
        most
    }

    /// Whether a unit's groups are one row, and need no window.
    pub(super) fn is_whole(&self) -> bool {
        self.release.one_group_per_unit || self.groups().is_empty()
    }

    /// The blocks whose units have to be sorted.
    fn blocks_to_sort(&self) -> impl Iterator<Item = (usize, &Block)> {
        let blocks = self.blocks.iter().enumerate();
        blocks.filter(|(_, block)| !self.has_one_bin(block))
    }

    /// Whether every unit is known to be in the first bin of a block.
    ///
    /// # Guarantee
    /// So it is where the block is a presence that the unit's groups share
    /// ([`Self::equal_share`]): its squared length over the kept groups, of which there is one at
    /// least, is between 1 and [`PRESENCE`]^2.
    pub(super) fn has_one_bin(&self, block: &Block) -> bool {
        let [at] = block.coordinates.as_slice() else {
            return false;
        };
        let limit = self.groups_per_unit.map(u64::from);
        self.coordinates[*at] == Coordinate::Presence
            && self.norm == Norm::L2
            && limit.is_some_and(|limit| (1..=PRESENCE).contains(&limit))
            && block.weights.iter().all(BigUint::is_one)
            && *block.bins.clip(CandidateId::LEAST) >= BigUint::from(PRESENCE)
    }

    /// Exact sums by group and bin, over the groups of each unit.
    pub(super) fn bin_sums(&self, groups: ast::Query) -> ast::Query {
        let lengths = self.lengths(groups);
        let mut projection = self.carry(false, sql::bare);
        projection.push(ast::SelectItem::UnnamedExpr(sql::bare("r")));
        for (at, block) in self.blocks_to_sort() {
            projection.push(sql::alias(self.number_of(block, at), &bin(at)));
        }
        let bins = sql::select(
            projection,
            vec![sql::tables(sql::derived_table(lengths, "q"))],
            None,
            Vec::new(),
        );
        self.sums(bins)
    }

    /// The squared length of each unit's vector in each block, over all its groups, and the number
    /// of the row among the unit's.
    fn lengths(&self, groups: ast::Query) -> ast::Query {
        let is_whole = self.is_whole();
        let mut projection = self.carry(false, sql::bare);
        for (at, block) in self.blocks_to_sort() {
            let own = squared_length(block);
            let length = if is_whole {
                own
            } else {
                sql::over("sum", vec![own], sql::bare("u"), Vec::new())
            };
            projection.push(sql::alias(length, &length_name(at)));
        }
        let first = if is_whole {
            sql::number_literal("1")
        } else if self.groups_per_unit.is_some() {
            sql::bare("r")
        } else {
            sql::over("row_number", Vec::new(), sql::bare("u"), Vec::new())
        };
        projection.push(sql::alias(first, "r"));
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(groups, "p"))],
            None,
            Vec::new(),
        )
    }

    /// The number of a unit's bin, by its squared length.
    fn number_of(&self, block: &Block, at: usize) -> ast::Expr {
        let length = sql::bare(&length_name(at));
        if !block.bins.is_narrow() {
            return bin_number(length, &block.bins);
        }
        // The sum over a unit's groups is a numeric, and may be larger.
        let length = if self.is_whole() {
            length
        } else {
            let kept = vec![length, sql::number_literal(&PAST_ALL.to_string())];
            sql::cast(sql::call("least", kept), &Type::Int8)
        };
        bucket(length, &block.bins, &Type::Int8)
    }

    /// Sums by group and bin, for one block after the other. Where the bin is known, the rows of
    /// the first other block have it too: all units are in them, each in one.
    ///
    /// With several blocks to sort, rows are first added up by the bins of all of them: few rows
    /// are left for the grouping sets, which the workers of a Citus cluster cannot compute.
    fn sums(&self, bins: ast::Query) -> ast::Query {
        let sorted: Vec<String> = self.blocks_to_sort().map(|(at, _)| bin(at)).collect();
        if sorted.len() < 2 {
            return self.sums_of_blocks(bins, &sorted);
        }
        let groups = self.groups();
        let named = groups.iter().chain(&sorted);
        let mut projection: Vec<ast::SelectItem> = named
            .map(|name| ast::SelectItem::UnnamedExpr(sql::bare(name)))
            .collect();
        let by = positions(1, projection.len());
        for i in 0..self.coordinates.len() {
            let name = format!("v{i}");
            let sum = sql::aggregate("sum", Some(sql::bare(&name)), None);
            projection.push(sql::alias(sum, &name));
        }
        projection.push(sql::alias(first_rows(), "r"));
        let from = vec![sql::tables(sql::derived_table(bins, "s"))];
        let by_all = sql::select(projection, from, None, by);
        self.sums_of_blocks(by_all, &sorted)
    }

    /// Sums by group and the bin of each of these blocks. Of one block, `r` is the number of a row
    /// among the unit's; of several, how many units have their first row there.
    fn sums_of_blocks(&self, bins: ast::Query, names: &[String]) -> ast::Query {
        let groups = self.groups();
        let text = |expr| sql::cast(expr, &Type::Text);
        let column = |name: &String| sql::alias(text(sql::column("s", name)), name);
        let mut projection: Vec<ast::SelectItem> = groups.iter().map(column).collect();
        for (at, block) in self.blocks.iter().enumerate() {
            projection.push(if self.has_one_bin(block) {
                sql::alias(first_bin(names), &bin(at))
            } else {
                column(&bin(at))
            });
        }
        for i in 0..self.coordinates.len() {
            let name = format!("v{i}");
            let sum = sql::aggregate("sum", Some(sql::column("s", &name)), None);
            projection.push(sql::alias(text(sum), &name));
        }
        let units = if names.len() > 1 {
            sql::aggregate("sum", Some(sql::column("s", "r")), None)
        } else {
            first_rows()
        };
        projection.push(sql::alias(text(units), UNITS));
        let by = |block: &String| -> Vec<ast::Expr> {
            let names = groups.iter().chain(std::iter::once(block));
            names.map(|name| sql::column("s", name)).collect()
        };
        let keys = match names {
            [] => groups.iter().map(|name| sql::column("s", name)).collect(),
            [block] => by(block),
            blocks => vec![ast::Expr::GroupingSets(blocks.iter().map(by).collect())],
        };
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(bins, "s"))],
            None,
            keys,
        )
    }
}

/// How many units have their first row among these.
fn first_rows() -> ast::Expr {
    let is_first = sql::binary(sql::column("s", "r"), B::Eq, sql::number_literal("1"));
    sql::aggregate("count", None, Some(is_first))
}

/// The number of a bin that all units are in, in the rows of the first block that is sorted.
fn first_bin(sorted: &[String]) -> ast::Expr {
    match sorted {
        [first, _, ..] => {
            let is_first = sql::is_not_null(sql::column("s", first));
            sql::case(vec![(is_first, sql::text_literal("1"))], None)
        }
        [] | [_] => sql::text_literal("1"),
    }
}

fn length_name(block: usize) -> String {
    format!("n{block}")
}

/// The squared length of one group's part of a block: in eight bytes where [`magnitudes`] lets it
/// fit, else as a numeric.
///
/// [`magnitudes`]: ClippedAggregate::magnitudes
fn squared_length(block: &Block) -> ast::Expr {
    let terms = block.coordinates.iter().zip(&block.weights);
    let terms = terms.map(|(at, weight)| {
        let value = sql::bare(&format!("v{}", at.0));
        let value = if block.bins.is_narrow() {
            value
        } else {
            sql::cast(value, &Type::Numeric(None))
        };
        let weighed = if weight.is_one() {
            value
        } else {
            sql::nest(sql::binary(
                value,
                B::Multiply,
                sql::number_literal(&weight.to_string()),
            ))
        };
        sql::binary(weighed.clone(), B::Multiply, weighed)
    });
    terms
        .reduce(|a, b| sql::binary(a, B::Plus, b))
        .unwrap_or_else(|| sql::number_literal("0"))
}

/// The number of the bin that a squared length, a numeric, is in.
pub(in crate::rewrite) fn bin_number(squared: ast::Expr, bins: &Bins) -> ast::Expr {
    bucket(squared, bins, &Type::Numeric(None))
}

fn bucket(squared: ast::Expr, bins: &Bins, data_type: &Type) -> ast::Expr {
    let thresholds = bins.thresholds();
    let elem = thresholds
        .iter()
        .map(|squared: &BigUint| sql::number_literal(&squared.to_string()))
        .collect();
    let array = ast::Expr::Array(ast::Array { elem, named: true });
    let array = sql::cast_to_array(array, data_type);
    sql::call("width_bucket", vec![squared, array])
}
