//! The last levels of a statement whose clips are chosen from a look: each unit's bin in each
//! block, and exact sums by group and bin.

use num_bigint::BigUint;
use num_traits::One;
use sqlparser::ast::{self, BinaryOperator as B};

use super::bins::Bins;
use super::clipped_aggregate::ClippedAggregate;
use super::grouping_sets::group_columns;
use crate::catalog::Type;
use crate::rewrite::Block;
use crate::rewrite::emit::sql;

/// Names of the columns that say a unit's bin, and of the number of units.
fn bin(block: usize) -> String {
    format!("b{block}")
}

const UNITS: &str = "c";

impl ClippedAggregate<'_> {
    /// Exact sums by group and bin, over the groups of each unit.
    pub(super) fn binned(&self, groups: ast::Query) -> ast::Query {
        let lengths = self.lengths(groups);
        let mut projection = self.carried(false, sql::bare);
        projection.push(ast::SelectItem::UnnamedExpr(sql::bare("r")));
        for (at, block) in self.blocks.iter().enumerate() {
            projection.push(sql::aliased(number_of(block, at), &bin(at)));
        }
        let bins = sql::select(
            projection,
            vec![sql::tables(sql::derived(lengths, "q"))],
            None,
            Vec::new(),
        );
        self.sums(bins)
    }

    /// The squared length of each unit's vector in each block, over all its groups, and the number
    /// of the row among the unit's.
    fn lengths(&self, groups: ast::Query) -> ast::Query {
        // A unit's groups are then one row.
        let is_whole = self.release.one_group_per_unit || group_columns(self.release).is_empty();
        let mut projection = self.carried(false, sql::bare);
        for (at, block) in self.blocks.iter().enumerate() {
            let own = squared(block);
            let length = if is_whole {
                own
            } else {
                sql::over("sum", vec![own], sql::bare("u"), Vec::new())
            };
            projection.push(sql::aliased(length, &length_name(at)));
        }
        let first = if is_whole {
            sql::number("1")
        } else {
            sql::over("row_number", Vec::new(), sql::bare("u"), Vec::new())
        };
        projection.push(sql::aliased(first, "r"));
        sql::select(
            projection,
            vec![sql::tables(sql::derived(groups, "p"))],
            None,
            Vec::new(),
        )
    }

    /// Sums by group and bin, for one block after the other.
    fn sums(&self, bins: ast::Query) -> ast::Query {
        let groups = group_columns(self.release);
        let text = |expr| sql::cast(expr, &Type::Text);
        let names: Vec<String> = (0..self.blocks.len()).map(bin).collect();
        let mut projection: Vec<ast::SelectItem> = groups
            .iter()
            .chain(&names)
            .map(|name| sql::aliased(text(sql::column("s", name)), name))
            .collect();
        for i in 0..self.coordinates.len() {
            let name = format!("v{i}");
            let sum = sql::aggregate("sum", Some(sql::column("s", &name)), None);
            projection.push(sql::aliased(text(sum), &name));
        }
        let is_first = sql::binary(sql::column("s", "r"), B::Eq, sql::number("1"));
        let units = sql::aggregate("count", None, Some(is_first));
        projection.push(sql::aliased(text(units), UNITS));
        let by = |block: &String| -> Vec<ast::Expr> {
            let names = groups.iter().chain(std::iter::once(block));
            names.map(|name| sql::column("s", name)).collect()
        };
        let keys = match names.as_slice() {
            [block] => by(block),
            blocks => vec![ast::Expr::GroupingSets(blocks.iter().map(by).collect())],
        };
        sql::select(
            projection,
            vec![sql::tables(sql::derived(bins, "s"))],
            None,
            keys,
        )
    }
}

fn length_name(block: usize) -> String {
    format!("n{block}")
}

/// The squared length of one group's part of a block, as a numeric: no product of eight-byte
/// numbers fits eight bytes.
fn squared(block: &Block) -> ast::Expr {
    let terms = block.coordinates.iter().zip(&block.weights);
    let terms = terms.map(|(at, weight)| {
        let value = sql::cast(sql::bare(&format!("v{at}")), &Type::Numeric(None));
        let weighed = if weight.is_one() {
            value
        } else {
            sql::nested(sql::binary(
                value,
                B::Multiply,
                sql::number(&weight.to_string()),
            ))
        };
        sql::binary(weighed.clone(), B::Multiply, weighed)
    });
    terms
        .reduce(|a, b| sql::binary(a, B::Plus, b))
        .unwrap_or_else(|| sql::number("0"))
}

/// The number of a unit's bin, by its squared length.
fn number_of(block: &Block, at: usize) -> ast::Expr {
    bin_number(sql::bare(&length_name(at)), &block.bins)
}

/// The number of the bin that a squared length, a numeric, is in.
pub(in crate::rewrite) fn bin_number(squared: ast::Expr, bins: &Bins) -> ast::Expr {
    let thresholds = bins.thresholds();
    let elem = thresholds
        .iter()
        .map(|squared: &BigUint| sql::number(&squared.to_string()))
        .collect();
    let array = ast::Expr::Array(ast::Array { elem, named: true });
    let array = sql::cast_to_array(array, &Type::Numeric(None));
    sql::call("width_bucket", vec![squared, array])
}
