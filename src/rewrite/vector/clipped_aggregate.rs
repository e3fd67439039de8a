//! The statement of a release's vector: three nested SELECTs that clip what one unit adds, and
//! return exact integers per group.

use num_bigint::BigUint;
use sqlparser::ast::{self, BinaryOperator as B};

use super::base_rows::{BaseRows, base_rows};
use super::clip::{Clip, eight_bytes};
use super::computed_once::share_terms;
use super::coordinate::{Coordinate, Mask};
use super::grouping_sets::{group_columns, over_sets};
use super::row_integer::{divide, integer, integer_type, lacks, narrow, within};
use crate::analyze::{AnalyzedRelease, PlanningEffort};
use crate::catalog::Type;
use crate::ir::{ColumnId, ColumnInfo, End, Expr};
use crate::mechanism::Norm;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rewrite::Block;
use crate::rewrite::emit::expression::{ExpressionEmitter, weigh};
use crate::rewrite::emit::guard::{guard, internal};
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::emit::sql;

/// The number of rows of the mask, in one group where groups are columns.
fn count_of(
    mask: &Mask,
    group: Option<&ast::Expr>,
    expressions: &ExpressionEmitter<'_>,
) -> Result<ast::Expr, Refusal> {
    let mut conditions: Vec<ast::Expr> = group.cloned().into_iter().collect();
    if let Some(filter) = &mask.filter {
        conditions.push(sql::nest(expressions.condition(filter)?));
    }
    if let Some(value) = &mask.not_null {
        conditions.push(sql::is_not_null(expressions.presence(value)?));
    }
    Ok(sql::aggregate("count", None, sql::all(conditions)))
}

/// A group whose keys are listed.
pub struct ListedGroup {
    /// Whether a row is in it.
    pub(super) condition: ast::Expr,
    /// The text of each key, or NULL.
    pub(super) keys: Vec<ast::Expr>,
}

/// Everything that the three levels are built from.
pub struct ClippedAggregate<'a> {
    pub release: &'a AnalyzedRelease,
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
    pub coordinates: &'a [Coordinate],
    pub weights: &'a [BigUint],
    pub clip: &'a BigUint,
    /// By how many bits each coordinate's grid is refined after the clip.
    pub refine: &'a [u32],
    /// In which `clip` bounds a unit's vector.
    pub norm: Norm,
    /// Most groups of a unit, kept by hash; enforced where keys are released by threshold.
    pub groups_per_unit: Option<u32>,
    /// The catalog proves that no unit's vector exceeds the clip, and no clip is emitted.
    pub within_clip: bool,
    /// Where clips are chosen from a look: the blocks whose units are sorted into bins.
    pub blocks: &'a [Block],
    /// Whether each row's integer is clamped to its range once more. That is so where no clip
    /// follows, so that the sum does not rest on what is emitted below it.
    pub clamps_again: bool,
    /// Whether the statement is run. In one that is only digested, the norm is always a level.
    pub is_run: bool,
    /// The groups that are columns: `coordinates` has those of each group, one after the other.
    pub listed: &'a [ListedGroup],
    pub effort: &'a PlanningEffort,
}

impl ClippedAggregate<'_> {
    /// The whole statement. Columns: `k0`, `k1`, … (keys as text), then `v0`, `v1`, … (exact
    /// integers as text, on the refined grid where a clip is emitted, on the base grid otherwise).
    ///
    /// # Guarantee
    /// With a clip: for every unit, whatever rows the tables hold, the weighted vector that it adds
    /// over all groups and grouping sets has a norm of at most `clip` (in L1 or L2: `norm`), in
    /// units of the base grid. Where `groups_per_unit` is set, the unit adds to at most that many
    /// groups; which groups it keeps depends on the set of its groups alone. One factor scales the
    /// whole vector, in exact integers that are rounded towards zero.
    ///
    /// Without one (`within_clip`): each row adds an integer within [`Coordinate::range`] to each
    /// coordinate of its group.
    ///
    /// With `blocks`: exact sums by group and bin, which nothing clips. After the keys come, for
    /// each block, the number of the unit's bin ([`Bins::thresholds`]); then the coordinates on the
    /// base grid, and how many units have their first row here. Each unit is in one bin of each
    /// block, by the length of its vector over all groups and grouping sets. For each block, the
    /// rows of the result that have a bin of it count each unit once. A coordinate of one unit and
    /// group is within 2^62, or less ([`Self::magnitudes`]).
    ///
    /// In all cases the result is a function of the multiset of rows (but for which of a unit's
    /// groups counts it: their sum over all groups of a bin is), an exact integer for each
    /// coordinate, and no value in a row makes the statement fail.
    ///
    /// # Requires
    /// Every row belongs to exactly one unit ([`crate::analyze::Label`]). With `within_clip`, the
    /// catalog proves that a unit has one row, or at most `cells` rows; its fingerprint is checked
    /// in the transaction that runs the statement.
    ///
    /// # Reference
    /// Clipping the norm of all that one unit adds: Abadi et al. 2016 (arXiv 1607.00133), section
    /// 3.1, there for gradients. [`super::clip`] says why a unit's groups are scaled and not
    /// chosen.
    pub fn statement(&self, flat: Flat) -> Result<ast::Query, Refusal> {
        let mut rows = base_rows(self.release, self.policy, self.columns, flat)?;
        let unused = ColumnId(self.columns.len() as u32);
        let coordinates = (self.release, self.coordinates);
        let coordinates = share_terms(coordinates, unused, &mut rows, self.effort)?;
        let over_shared = ClippedAggregate {
            coordinates: &coordinates,
            ..*self
        };
        over_shared.levels(rows)
    }

    /// The levels of the statement.
    pub(super) fn levels(&self, rows: BaseRows) -> Result<ast::Query, Refusal> {
        let BaseRows {
            from,
            condition,
            cells,
            mut keys,
            unit,
        } = rows;
        if !self.listed.is_empty() {
            keys.clear();
        }
        let expressions = ExpressionEmitter {
            cells: &cells,
            relations: None,
        };
        let bound = if self.within_clip {
            Bound::Proved
        } else if self.blocks.is_empty() {
            Bound::Clipped(Clip::new(self.clip, self.weights, self.norm))
        } else {
            Bound::Binned(self.magnitudes())
        };
        let is_proved = matches!(bound, Bound::Proved);
        let flat = is_proved && self.release.sets.is_empty();
        // The last level prints everything as text. Without a clip this is the last.
        let shown = |expr: ast::Expr| {
            if flat {
                sql::cast(expr, &Type::Text)
            } else {
                expr
            }
        };
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        if !is_proved {
            projection.push(sql::alias(unit, "u"));
        }
        // Without a clip, nothing ranks a unit's groups.
        let hash = (!is_proved).then(|| self.hash_below(&keys)).flatten();
        let has_hash = hash.is_some();
        projection.extend(hash.map(|hash| sql::alias(hash, "h")));
        projection.extend(
            keys.iter()
                .enumerate()
                .map(|(i, k)| sql::alias(shown(k.clone()), &format!("k{i}"))),
        );
        let grouped = positions(1, projection.len());
        let mut spent = 0;
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            let summed = self.unit_total(coordinate, self.group_of(i), &expressions)?;
            spent = weigh(spent, &summed, self.effort)?;
            let summed = bound.clamp(i, summed);
            projection.push(sql::alias(shown(summed), &format!("v{i}")));
        }
        let finest = sql::select(projection, vec![from], condition, grouped);
        if flat {
            return Ok(finest);
        }
        let groups = self.roll_up(finest, &bound);
        Ok(match bound {
            Bound::Proved => self.print_keys(groups),
            Bound::Clipped(clip) => self.sum_clipped(
                &clip,
                self.add_norm(&clip, self.cap_groups(groups, has_hash)),
            ),
            Bound::Binned(_) => self.bin_sums(self.cap_groups(groups, has_hash)),
        })
    }

    /// Where groups are columns, whether a row is in the group of a coordinate.
    fn group_of(&self, coordinate: usize) -> Option<&ast::Expr> {
        let each = self.coordinates.len().checked_div(self.listed.len())?;
        let group = coordinate.checked_div(each)?;
        self.listed.get(group).map(|group| &group.condition)
    }

    /// The columns that name a group in the levels.
    pub(super) fn groups(&self) -> Vec<String> {
        if self.listed.is_empty() {
            group_columns(self.release)
        } else {
            Vec::new()
        }
    }

    /// Between levels 1 and 2: the groups of every grouping set, from those of all keys. What one
    /// unit adds to a group of a set is summed; its presence stays one.
    fn roll_up(&self, finest: ast::Query, bound: &Bound) -> ast::Query {
        if self.release.sets.is_empty() {
            return finest;
        }
        let (groups, from) = over_sets(self.release, finest);
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        let is_proved = matches!(bound, Bound::Proved);
        if !is_proved {
            projection.push(sql::alias(sql::column("g", "u"), "u"));
        }
        projection.extend(groups);
        let grouped = positions(1, projection.len());
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            let is_presence =
                matches!(coordinate, Coordinate::Units { .. } | Coordinate::Presence) && !is_proved;
            let together = if is_presence { "max" } else { "sum" };
            let total = sql::aggregate(together, Some(sql::column("g", &format!("v{i}"))), None);
            projection.push(sql::alias(bound.clamp(i, total), &format!("v{i}")));
        }
        sql::select(projection, from, None, grouped)
    }

    /// Everything as text.
    fn print_keys(&self, rows: ast::Query) -> ast::Query {
        let names = group_columns(self.release)
            .into_iter()
            .chain((0..self.coordinates.len()).map(|i| format!("v{i}")));
        let projection = names
            .map(|name| sql::alias(sql::cast(sql::bare(&name), &Type::Text), &name))
            .collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived_table(rows, "s"))],
            None,
            Vec::new(),
        )
    }

    /// Level 1: what one unit adds to one group; where groups are columns, to this one.
    pub(in crate::rewrite) fn unit_total(
        &self,
        coordinate: &Coordinate,
        group: Option<&ast::Expr>,
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<ast::Expr, Refusal> {
        match coordinate {
            Coordinate::Rows { mask } => count_of(mask, group, expressions),
            Coordinate::Flags { filter } => {
                let met = count_of(
                    &Mask {
                        filter: Some(filter.clone()),
                        not_null: None,
                    },
                    group,
                    expressions,
                )?;
                let twice = sql::binary(sql::number_literal("2"), B::Multiply, met);
                Ok(sql::binary(
                    twice,
                    B::Minus,
                    sql::aggregate("count", None, group.cloned()),
                ))
            }
            Coordinate::Nulls { filter, value } => {
                let mut conditions: Vec<ast::Expr> = group.cloned().into_iter().collect();
                if let Some(filter) = filter {
                    conditions.push(sql::nest(expressions.condition(filter)?));
                }
                conditions.push(sql::is_null(expressions.presence(value)?));
                Ok(sql::aggregate("count", None, sql::all(conditions)))
            }
            // One row of a unit in a group: as many units as rows.
            Coordinate::Units { mask } if self.within_clip => count_of(mask, group, expressions),
            // Shared out once the unit's groups are known.
            Coordinate::Units {
                mask:
                    Mask {
                        filter: None,
                        not_null: None,
                    },
            }
            | Coordinate::Presence
                if group.is_none() =>
            {
                Ok(sql::number_literal("1"))
            }
            Coordinate::Presence => Err(internal()),
            Coordinate::Units { mask } => {
                let any = sql::binary(
                    count_of(mask, group, expressions)?,
                    B::Gt,
                    sql::number_literal("0"),
                );
                Ok(sql::case(
                    vec![(any, sql::number_literal("1"))],
                    Some(sql::number_literal("0")),
                ))
            }
            Coordinate::DistanceFromEnd { filter, .. }
            | Coordinate::Values { filter, .. }
            | Coordinate::SquareComplement { filter, .. }
            | Coordinate::Products { filter, .. } => self.summed_over(
                self.row_integer(coordinate, expressions)?,
                (filter.as_ref(), group),
                expressions,
            ),
        }
    }

    /// The integer of one row, for coordinates that add up values.
    pub(super) fn row_integer(
        &self,
        coordinate: &Coordinate,
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let (integer, data_type) = match coordinate {
            Coordinate::DistanceFromEnd {
                filter: _,
                value,
                fixed_point,
                end,
            } => {
                let data_type = integer_type(fixed_point);
                let plain = integer(value, fixed_point, false, &data_type, expressions)?;
                let distance = match end {
                    End::Least => sql::binary(
                        plain,
                        B::Minus,
                        sql::number_literal(&fixed_point.lower.to_string()),
                    ),
                    End::Greatest => sql::binary(
                        sql::number_literal(&fixed_point.upper.to_string()),
                        B::Minus,
                        plain,
                    ),
                };
                (distance, data_type)
            }
            Coordinate::Values {
                filter: _,
                value,
                fixed_point,
                centred,
            } => {
                let data_type = integer_type(fixed_point);
                let integer = integer(value, fixed_point, *centred, &data_type, expressions)?;
                (integer, data_type)
            }
            Coordinate::SquareComplement {
                filter: _,
                value,
                fixed_point,
            } => {
                let distance = integer(value, fixed_point, true, &Type::Int8, expressions)?;
                let lacks = guard(distance, 2, &Type::Int8, |distance| {
                    lacks(distance, fixed_point)
                })?;
                (lacks, Type::Int8)
            }
            Coordinate::Products {
                filter: _,
                y: (y, y_grid),
                x: (x, x_grid),
            } => {
                let wide = |value, fixed_point| {
                    integer(value, fixed_point, true, &Type::Int8, expressions)
                };
                let product = divide(
                    sql::binary(wide(y, y_grid)?, B::Multiply, wide(x, x_grid)?),
                    y_grid.divisor_with(x_grid),
                );
                (product, Type::Int8)
            }
            Coordinate::Rows { .. }
            | Coordinate::Flags { .. }
            | Coordinate::Nulls { .. }
            | Coordinate::Units { .. }
            | Coordinate::Presence => return Err(internal()),
        };
        let kept = self.within_range(integer, coordinate);
        Ok(if data_type == Type::Int4 {
            kept
        } else {
            narrow(kept, coordinate)
        })
    }

    fn within_range(&self, integer: ast::Expr, coordinate: &Coordinate) -> ast::Expr {
        if self.clamps_again {
            within(integer, coordinate.range())
        } else {
            integer
        }
    }

    /// The sum of a row's integer over the rows of a filter and group; 0 over none.
    fn summed_over(
        &self,
        integer: ast::Expr,
        (filter, group): (Option<&Expr>, Option<&ast::Expr>),
        expressions: &ExpressionEmitter<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let filter = filter.map(|f| expressions.condition(f)).transpose()?;
        let filter = match group {
            None => filter,
            Some(_) => {
                // The cheaper one first.
                let conditions = group.cloned().into_iter().chain(filter.map(sql::nest));
                sql::all(conditions.collect())
            }
        };
        Ok(sql::call(
            "coalesce",
            vec![
                sql::aggregate("sum", Some(integer), filter),
                sql::number_literal("0"),
            ],
        ))
    }

    /// Every column under its name, mapped by `made`.
    pub(super) fn carry(
        &self,
        with_unit: bool,
        made: impl Fn(&str) -> ast::Expr,
    ) -> Vec<ast::SelectItem> {
        let unit = with_unit.then(|| "u".to_owned());
        let keys = self.groups();
        let values = (0..self.coordinates.len()).map(|i| format!("v{i}"));
        let item = |name: String| match made(&name) {
            plain @ ast::Expr::Identifier(_) => ast::SelectItem::UnnamedExpr(plain),
            other => sql::alias(other, &name),
        };
        unit.into_iter()
            .chain(keys)
            .chain(values)
            .map(item)
            .collect()
    }
}

/// By what one unit's vector is bounded.
enum Bound {
    /// By the catalog: one pass.
    Proved,
    Clipped(Clip),
    /// By a clip that is chosen later; each coordinate's most of one unit and group.
    Binned(Vec<u64>),
}

impl Bound {
    /// A coordinate of one unit and group, kept within eight bytes.
    fn clamp(&self, at: usize, value: ast::Expr) -> ast::Expr {
        match self {
            Self::Proved => value,
            Self::Clipped(clip) => clip.clamp(at, value),
            Self::Binned(most) => eight_bytes(value, most[at]),
        }
    }
}

/// `first, first + 1, …` as GROUP BY positions.
pub(in crate::rewrite) fn positions(first: usize, count: usize) -> Vec<ast::Expr> {
    (first..first + count)
        .map(|i| sql::number_literal(&i.to_string()))
        .collect()
}
