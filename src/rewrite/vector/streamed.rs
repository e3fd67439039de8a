//! The rows of a vector whose clips are chosen from a look, for
//! [`RowStream`](crate::rewrite::RowStream): what each row adds to its unit and group, and how that
//! becomes sums by group and bin.

use sqlparser::ast;

use super::base_rows::{BaseRows, base_rows};
use super::clipped_aggregate::ClippedAggregate;
use super::computed_once::share_terms;
use super::coordinate::{Coordinate, Mask};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::{ColumnId, Expr};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::{ExpressionEmitter, weigh};
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::emit::sql;
use crate::rewrite::stream::{
    Cell, CellReading, Fold, FoldBlock, FoldResult, KeptGroups, group_column, unit_column,
};

/// The sum of four billion integers below this fits eight bytes.
const NARROW: u64 = 1 << 31;

/// From this many listed groups on, rows are read and added up in less time than the database
/// takes.
const MANY_GROUPS: usize = 32;

impl ClippedAggregate<'_> {
    /// The rows below level 1, and the fold that makes of them what [`Self::statement`] returns.
    /// `None` where the database needs no window for it, or where a column has no form in which
    /// equal values are equal bytes.
    ///
    /// # Guarantee
    /// As that of [`Self::statement`] with `blocks`: a row adds the same integers as there.
    ///
    /// # Errors
    /// As [`Self::statement`].
    pub fn stream(
        &self,
        flat: impl FnOnce() -> Result<Flat, Refusal>,
    ) -> Result<Option<(ast::Query, Fold)>, Refusal> {
        let is_simple = self.release.sets.is_empty() && self.listed.is_empty();
        if self.blocks.is_empty() || self.is_whole() || !is_simple || !self.has_many_groups() {
            return Ok(None);
        }
        let mut rows = base_rows(self.release, self.policy, self.columns, flat()?)?;
        let unused = ColumnId(self.columns.len() as u32);
        let coordinates = (self.release, self.coordinates);
        let coordinates = share_terms(coordinates, unused, &mut rows, self.effort)?;
        let types = self.release.keys.iter().map(|(key, _)| &key.data_type);
        let keys = rows.keys.iter().zip(types);
        let keys: Option<Vec<_>> = keys.map(|(key, of)| group_column(key, of)).collect();
        let unit = unit_column(&rows.unit, &self.release.lineage.data_type);
        let (Some(keys), Some(unit)) = (keys, unit) else {
            return Ok(None);
        };
        let cells = self.cells(&coordinates, &rows)?;
        let mut projection = vec![sql::alias(unit, "u")];
        let named = |(at, key): (usize, &ast::Expr)| sql::alias(key.clone(), &format!("k{at}"));
        projection.extend(keys.iter().map(|(key, _)| key).enumerate().map(named));
        let most = self.magnitudes();
        let fold = Fold {
            groups: keys.iter().map(|(_, column)| *column).collect(),
            cells: cells
                .iter()
                .zip(most)
                .map(|((reading, _), most)| Cell {
                    reading: *reading,
                    most,
                })
                .collect(),
            result: self.bins_of_fold(),
        };
        let columns = cells.into_iter().filter_map(|(_, column)| column);
        let columns = columns.enumerate();
        projection.extend(columns.map(|(at, column)| sql::alias(column, &format!("v{at}"))));
        let query = sql::select(projection, vec![rows.from], rows.condition, Vec::new());
        Ok(Some((query, fold)))
    }

    /// Whether a unit may be in many groups. In few, the database's windows see few rows of it.
    fn has_many_groups(&self) -> bool {
        let mut rules = self.release.keys.iter().map(|(_, rule)| rule);
        let listed = rules.try_fold(1usize, |all, rule| match rule {
            KeyRule::Domain(values) => Some(all.saturating_mul(values.len())),
            KeyRule::Threshold => None,
        });
        listed.is_none_or(|listed| listed >= MANY_GROUPS)
    }

    /// What a row adds to each coordinate, and the column that says so where there is one.
    fn cells(
        &self,
        coordinates: &[Coordinate],
        rows: &BaseRows,
    ) -> Result<Vec<(CellReading, Option<ast::Expr>)>, Refusal> {
        let expressions = ExpressionEmitter {
            cells: &rows.cells,
            relations: None,
        };
        let mut spent = 0;
        let mut cells = Vec::new();
        for coordinate in coordinates {
            let (reading, column) = self.cell(coordinate, &expressions)?;
            if let Some(column) = &column {
                spent = weigh(spent, column, self.effort)?;
            }
            cells.push((reading, column));
        }
        Ok(cells)
    }

    fn cell(
        &self,
        coordinate: &Coordinate,
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<(CellReading, Option<ast::Expr>), Refusal> {
        Ok(match coordinate {
            Coordinate::Presence => (CellReading::AnyRow, None),
            Coordinate::Rows { mask } => match condition(mask, expressions)? {
                None => (CellReading::EveryRow, None),
                met => (CellReading::Condition, met),
            },
            Coordinate::Units { mask } => match condition(mask, expressions)? {
                None => (CellReading::AnyRow, None),
                met => (CellReading::AnyCondition, met),
            },
            Coordinate::Flags { filter } => {
                (CellReading::Sign, Some(expressions.condition(filter)?))
            }
            Coordinate::Nulls { filter, value } => {
                let filter = filter.as_ref().map(|f| expressions.condition(f));
                let mut conditions: Vec<ast::Expr> =
                    filter.transpose()?.map(sql::nest).into_iter().collect();
                conditions.push(sql::is_null(expressions.presence(value)?));
                (CellReading::Condition, sql::all(conditions))
            }
            Coordinate::DistanceFromEnd { filter, .. }
            | Coordinate::Values { filter, .. }
            | Coordinate::SquareComplement { filter, .. }
            | Coordinate::Products { filter, .. } => {
                let integer = sql::cast(self.row_integer(coordinate, expressions)?, &Type::Int8);
                let met = |filter: &Expr| -> Result<ast::Expr, Refusal> {
                    let met = expressions.condition(filter)?;
                    Ok(sql::case(vec![(met, integer.clone())], None))
                };
                let column = filter.as_ref().map_or_else(|| Ok(integer.clone()), met)?;
                let reading = if coordinate.magnitude() < NARROW {
                    CellReading::Integer
                } else {
                    CellReading::WideInteger
                };
                (reading, Some(column))
            }
        })
    }

    fn bins_of_fold(&self) -> FoldResult {
        let mut presence = self.coordinates.iter();
        let presence = presence.position(|c| *c == Coordinate::Presence);
        let blocks = self.blocks.iter().map(|block| {
            let cells = block.coordinates.iter().zip(&block.weights);
            let cells = cells.map(|(at, weight)| (at.0, weight.clone()));
            FoldBlock {
                cells: if self.has_one_bin(block) {
                    Vec::new()
                } else {
                    cells.collect()
                },
                thresholds: block.bins.thresholds(),
            }
        });
        FoldResult::Bins {
            kept: self.groups_per_unit.map(|limit| KeptGroups {
                limit,
                presence,
                norm: self.norm,
            }),
            blocks: blocks.collect(),
        }
    }
}

/// Whether a row counts; `None` where every row does.
fn condition(
    mask: &Mask,
    expressions: &ExpressionEmitter<'_>,
) -> Result<Option<ast::Expr>, Refusal> {
    let mut conditions = Vec::new();
    if let Some(filter) = &mask.filter {
        conditions.push(sql::nest(expressions.condition(filter)?));
    }
    if let Some(value) = &mask.not_null {
        conditions.push(sql::is_not_null(expressions.presence(value)?));
    }
    Ok(sql::all(conditions))
}
