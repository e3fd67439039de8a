//! The statement of a release's vector: three nested SELECTs that clip what one unit adds, and
//! return exact integers per group.

use num_bigint::BigUint;
use sqlparser::ast::{self, BinaryOperator as B};

use super::base_rows::{BaseRows, base_rows};
use super::clip::{Clip, eight_bytes};
use super::coordinates::{Coordinate, Mask, PRESENCE};
use super::grouping_sets::{group_columns, over_sets};
use super::row_integer::{divided, integer, integer_type, lacks, narrowed, within};
use crate::analyze::{AnalyzedRelease, PlanningEffort};
use crate::catalog::Type;
use crate::ir::{ColumnInfo, End, Expr, SET_COLUMN};
use crate::mechanism::{Mechanism, Norm};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::rewrite::Block;
use crate::rewrite::emit::expression::{Expressions, weigh};
use crate::rewrite::emit::guard::{guard, internal};
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::emit::sql;

/// The number of rows of the mask.
fn count_of(mask: &Mask, expressions: &Expressions<'_>) -> Result<ast::Expr, Refusal> {
    let mut conditions = Vec::new();
    if let Some(filter) = &mask.filter {
        conditions.push(sql::nested(expressions.condition(filter)?));
    }
    if let Some(value) = &mask.not_null {
        conditions.push(sql::is_not_null(expressions.presence(value)?));
    }
    Ok(sql::aggregate("count", None, sql::all(conditions)))
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
    pub mechanism: Mechanism,
    /// Most groups of a unit, kept by hash; enforced where keys are released by threshold.
    pub groups_per_unit: Option<u32>,
    /// The catalog proves that no unit's vector exceeds the clip, and no clip is emitted.
    pub within_clip: bool,
    /// Where clips are chosen from a look: the blocks whose units are sorted into bins.
    pub blocks: &'a [Block],
    /// Whether each row's integer is clamped to its range once more. That is so where no clip
    /// follows, so that the sum does not rest on what is emitted below it.
    pub clamps_again: bool,
    pub effort: &'a PlanningEffort,
}

impl ClippedAggregate<'_> {
    /// The whole statement. Columns: `k0`, `k1`, … (keys as text), then `v0`, `v1`, … (exact
    /// integers as text, on the refined grid where a clip is emitted, on the base grid otherwise).
    ///
    /// # Guarantee
    /// With a clip: for every unit, whatever rows the tables hold, the weighted vector that it adds
    /// over all groups and grouping sets has a norm of at most `clip` (L2 under Gaussian noise, L1
    /// under Laplace), in units of the base grid. Where `groups_per_unit` is set, the unit adds to
    /// at most that many groups; which groups it keeps depends on the set of its groups alone. One
    /// factor scales the whole vector, in exact integers that are rounded towards zero.
    ///
    /// Without one (`within_clip`): each row adds an integer within [`Coordinate::range`] to each
    /// coordinate of its group.
    ///
    /// With `blocks`: exact sums by group and bin, which nothing clips. After the keys come, for
    /// each block, the number of the unit's bin ([`Bins::thresholds`]); then the coordinates on the
    /// base grid, and how many units have their first row here. Each unit is in one bin of each
    /// block, by the length of its vector over all groups and grouping sets; a row of the result
    /// has the bin of one block alone. A coordinate of one unit and group is within 2^62, or less
    /// ([`Self::magnitudes`]).
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
        let BaseRows {
            from,
            condition,
            cells,
            keys,
            unit,
        } = base_rows(self.release, self.policy, self.columns, flat)?;
        let expressions = Expressions {
            cells: &cells,
            relations: None,
        };
        let bound = if self.within_clip {
            Bound::Proved
        } else if self.blocks.is_empty() {
            Bound::Clipped(Clip::new(self.clip, self.weights, self.mechanism.norm()))
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
            projection.push(sql::aliased(unit, "u"));
        }
        projection.extend(
            keys.iter()
                .enumerate()
                .map(|(i, k)| sql::aliased(shown(k.clone()), &format!("k{i}"))),
        );
        let grouped = positions(1, projection.len());
        let mut spent = 0;
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            let partial = self.unit_total(coordinate, &expressions)?;
            spent = weigh(spent, &partial, self.effort)?;
            let partial = bound.clamped(i, partial);
            projection.push(sql::aliased(shown(partial), &format!("v{i}")));
        }
        let finest = sql::select(projection, vec![from], condition, grouped);
        if flat {
            return Ok(finest);
        }
        let groups = self.rolled(finest, &bound);
        Ok(match bound {
            Bound::Proved => self.printed(groups),
            Bound::Clipped(clip) => self.summed(&clip, self.normed(&clip, self.capped(groups))),
            Bound::Binned(_) => self.binned(self.capped(groups)),
        })
    }

    /// Between levels 1 and 2: the groups of every grouping set, from those of all keys. What one
    /// unit adds to a group of a set is summed; its presence stays one.
    fn rolled(&self, finest: ast::Query, bound: &Bound) -> ast::Query {
        if self.release.sets.is_empty() {
            return finest;
        }
        let (groups, from) = over_sets(self.release, finest);
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        let is_proved = matches!(bound, Bound::Proved);
        if !is_proved {
            projection.push(sql::aliased(sql::column("g", "u"), "u"));
        }
        projection.extend(groups);
        let grouped = positions(1, projection.len());
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            let is_presence =
                matches!(coordinate, Coordinate::Units { .. } | Coordinate::Presence) && !is_proved;
            let together = if is_presence { "max" } else { "sum" };
            let total = sql::aggregate(together, Some(sql::column("g", &format!("v{i}"))), None);
            projection.push(sql::aliased(bound.clamped(i, total), &format!("v{i}")));
        }
        sql::select(projection, from, None, grouped)
    }

    /// Everything as text.
    fn printed(&self, rows: ast::Query) -> ast::Query {
        let names = group_columns(self.release)
            .into_iter()
            .chain((0..self.coordinates.len()).map(|i| format!("v{i}")));
        let projection = names
            .map(|name| sql::aliased(sql::cast(sql::bare(&name), &Type::Text), &name))
            .collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(rows, "s"))],
            None,
            Vec::new(),
        )
    }

    /// Level 1: what one unit adds to one group.
    pub(in crate::rewrite) fn unit_total(
        &self,
        coordinate: &Coordinate,
        expressions: &Expressions<'_>,
    ) -> Result<ast::Expr, Refusal> {
        match coordinate {
            Coordinate::Rows { mask } => count_of(mask, expressions),
            Coordinate::Flags { filter } => {
                let met = count_of(
                    &Mask {
                        filter: Some(filter.clone()),
                        not_null: None,
                    },
                    expressions,
                )?;
                let twice = sql::binary(sql::number("2"), B::Multiply, met);
                Ok(sql::binary(
                    twice,
                    B::Minus,
                    sql::aggregate("count", None, None),
                ))
            }
            Coordinate::Nulls { filter, value } => {
                let mut conditions = Vec::new();
                if let Some(filter) = filter {
                    conditions.push(sql::nested(expressions.condition(filter)?));
                }
                conditions.push(sql::is_null(expressions.presence(value)?));
                Ok(sql::aggregate("count", None, sql::all(conditions)))
            }
            // One row of a unit in a group: as many units as rows.
            Coordinate::Units { mask } if self.within_clip => count_of(mask, expressions),
            // Shared out once the unit's groups are known.
            Coordinate::Units {
                mask:
                    Mask {
                        filter: None,
                        not_null: None,
                    },
            }
            | Coordinate::Presence => Ok(sql::number("1")),
            Coordinate::Units { mask } => {
                let any = sql::binary(count_of(mask, expressions)?, B::Gt, sql::number("0"));
                Ok(sql::case(
                    vec![(any, sql::number("1"))],
                    Some(sql::number("0")),
                ))
            }
            Coordinate::Share { filter, .. }
            | Coordinate::Values { filter, .. }
            | Coordinate::Lacks { filter, .. }
            | Coordinate::Products { filter, .. } => self.summed_over(
                self.row_integer(coordinate, expressions)?,
                filter.as_ref(),
                expressions,
            ),
        }
    }

    /// The integer of one row, for coordinates that add up values.
    fn row_integer(
        &self,
        coordinate: &Coordinate,
        expressions: &Expressions<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let (integer, data_type) = match coordinate {
            Coordinate::Share {
                filter: _,
                value,
                fixed_point,
                end,
            } => {
                let data_type = integer_type(fixed_point);
                let plain = integer(value, fixed_point, false, &data_type, expressions)?;
                let distance = match end {
                    End::Least => {
                        sql::binary(plain, B::Minus, sql::number(&fixed_point.lower.to_string()))
                    }
                    End::Greatest => {
                        sql::binary(sql::number(&fixed_point.upper.to_string()), B::Minus, plain)
                    }
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
            Coordinate::Lacks {
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
                let product = divided(
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
            narrowed(kept, coordinate)
        })
    }

    fn within_range(&self, integer: ast::Expr, coordinate: &Coordinate) -> ast::Expr {
        if self.clamps_again {
            within(integer, coordinate.range())
        } else {
            integer
        }
    }

    /// The sum of a row's integer over the rows of a filter; 0 over none.
    fn summed_over(
        &self,
        integer: ast::Expr,
        filter: Option<&Expr>,
        expressions: &Expressions<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let filter = filter.map(|f| expressions.condition(f)).transpose()?;
        Ok(sql::call(
            "coalesce",
            vec![
                sql::aggregate("sum", Some(integer), filter),
                sql::number("0"),
            ],
        ))
    }

    /// Level 2, first half: at most `groups_per_unit` groups of a unit, the first by a fixed hash
    /// and then by key. Which ones stay is a function of the set of the unit's groups.
    fn capped(&self, per_unit: ast::Query) -> ast::Query {
        let Some(limit) = self.groups_per_unit else {
            return per_unit;
        };
        let mut order = vec![hash_of(&group_columns(self.release))];
        if !self.release.sets.is_empty() {
            order.push(sql::bare(SET_COLUMN));
        }
        order.extend(
            self.release
                .keys
                .iter()
                .enumerate()
                .map(|(i, (expr, _))| collated(sql::bare(&format!("k{i}")), &expr.data_type)),
        );
        let mut projection = self.carried(true, sql::bare);
        projection.push(sql::aliased(
            sql::over("row_number", Vec::new(), sql::bare("u"), order),
            "r",
        ));
        let presence = self
            .coordinates
            .iter()
            .position(|c| *c == Coordinate::Presence)
            .map(|at| format!("v{at}"));
        if presence.is_some() {
            projection.push(sql::aliased(
                sql::over("count", vec![sql::bare("u")], sql::bare("u"), Vec::new()),
                "t",
            ));
        }
        let ranked = sql::select(
            projection,
            vec![sql::tables(sql::derived(per_unit, "g"))],
            None,
            Vec::new(),
        );
        let kept = sql::binary(sql::bare("r"), B::LtEq, sql::number(&limit.to_string()));
        let carried = self.carried(true, |name| {
            if presence.as_deref() == Some(name) {
                self.shared(name, limit)
            } else {
                sql::bare(name)
            }
        });
        sql::select(
            carried,
            vec![sql::tables(sql::derived(ranked, "h"))],
            Some(kept),
            Vec::new(),
        )
    }

    /// A unit's presence in one of its groups, shared among those that are kept. The root of a
    /// float8 has the right whole part for integers below 2^52.
    fn shared(&self, presence: &str, limit: u32) -> ast::Expr {
        let groups = sql::call(
            "least",
            vec![sql::bare("t"), sql::number(&limit.to_string())],
        );
        let each = match self.mechanism.norm() {
            Norm::L2 => {
                let squared =
                    sql::binary(sql::number(&PRESENCE.pow(2).to_string()), B::Divide, groups);
                sql::cast(
                    sql::call(
                        "floor",
                        vec![sql::call("sqrt", vec![sql::cast(squared, &Type::Float8)])],
                    ),
                    &Type::Int8,
                )
            }
            Norm::L1 => sql::binary(sql::number(&PRESENCE.to_string()), B::Divide, groups),
        };
        sql::binary(sql::bare(presence), B::Multiply, each)
    }

    /// Every column under its name, mapped by `made`.
    pub(super) fn carried(
        &self,
        with_unit: bool,
        made: impl Fn(&str) -> ast::Expr,
    ) -> Vec<ast::SelectItem> {
        let unit = with_unit.then(|| "u".to_owned());
        let keys = group_columns(self.release);
        let values = (0..self.coordinates.len()).map(|i| format!("v{i}"));
        let item = |name: String| match made(&name) {
            plain @ ast::Expr::Identifier(_) => ast::SelectItem::UnnamedExpr(plain),
            other => sql::aliased(other, &name),
        };
        unit.into_iter()
            .chain(keys)
            .chain(values)
            .map(item)
            .collect()
    }

    /// Level 2, second half: the norm of the unit's whole vector, over all its groups; NULL where
    /// it is within the clip.
    fn normed(&self, clip: &Clip, groups: ast::Query) -> ast::Query {
        let values: Vec<ast::Expr> = (0..self.coordinates.len())
            .map(|i| sql::bare(&format!("v{i}")))
            .collect();
        let own = clip.norm(&values);
        let is_whole = self.release.one_group_per_unit || group_columns(self.release).is_empty();
        let norm = if is_whole {
            own
        } else {
            sql::over("sum", vec![own], sql::bare("u"), Vec::new())
        };
        let mut projection = self.carried(false, sql::bare);
        projection.push(sql::aliased(clip.excess(norm), "n"));
        let level = sql::select(
            projection,
            vec![sql::tables(sql::derived(groups, "p"))],
            None,
            Vec::new(),
        );
        // Otherwise PostgreSQL would compute the norm again wherever the next level reads it.
        if is_whole {
            sql::computed_once(level)
        } else {
            level
        }
    }

    /// Level 3: one factor for the unit's whole vector where its norm is above the clip, in exact
    /// integers; then sums per group.
    fn summed(&self, clip: &Clip, normed: ast::Query) -> ast::Query {
        let groups = group_columns(self.release);
        let mut projection: Vec<ast::SelectItem> = groups
            .iter()
            .map(|name| sql::aliased(sql::cast(sql::bare(name), &Type::Text), name))
            .collect();
        for (i, refine) in self.refine.iter().enumerate() {
            let refined = BigUint::from(1u8) << *refine;
            let value = || sql::bare(&format!("v{i}"));
            let sum = |of: ast::Expr, rows: ast::Expr| {
                sql::call(
                    "coalesce",
                    vec![
                        sql::aggregate("sum", Some(of), Some(rows)),
                        sql::number("0"),
                    ],
                )
            };
            let whole = sql::binary(
                sum(value(), sql::is_null(sql::bare("n"))),
                B::Multiply,
                sql::number(&refined.to_string()),
            );
            let cut = sum(
                clip.factor(value(), &refined, sql::bare("n")),
                sql::is_not_null(sql::bare("n")),
            );
            projection.push(sql::aliased(
                sql::cast(sql::binary(whole, B::Plus, cut), &Type::Text),
                &format!("v{i}"),
            ));
        }
        let keys = groups.iter().map(|name| sql::column("s", name)).collect();
        sql::select(
            projection,
            vec![sql::tables(sql::derived(normed, "s"))],
            None,
            keys,
        )
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
    fn clamped(&self, at: usize, value: ast::Expr) -> ast::Expr {
        match self {
            Self::Proved => value,
            Self::Clipped(clip) => clip.clamped(at, value),
            Self::Binned(most) => eight_bytes(value, most[at]),
        }
    }
}

/// `first, first + 1, …` as GROUP BY positions.
pub(in crate::rewrite) fn positions(first: usize, count: usize) -> Vec<ast::Expr> {
    (first..first + count)
        .map(|i| sql::number(&i.to_string()))
        .collect()
}

/// A hash of the columns' values. Equal values have one spelling here, and so one hash.
pub(in crate::rewrite) fn hash_of(columns: &[String]) -> ast::Expr {
    hashed(
        columns
            .iter()
            .map(|name| sql::cast(sql::bare(name), &Type::Text))
            .collect(),
    )
}

/// A hash of the texts.
pub(in crate::rewrite) fn hashed(texts: Vec<ast::Expr>) -> ast::Expr {
    let next = |seed, text| {
        sql::call(
            "hashtextextended",
            vec![sql::call("coalesce", vec![text, sql::text("")]), seed],
        )
    };
    texts.into_iter().fold(sql::number("0"), next)
}

/// An order that no locale can change.
pub(in crate::rewrite) fn collated(expr: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Text | Type::Varchar(_) | Type::Char(_) => ast::Expr::Collate {
            expr: Box::new(expr),
            collation: sql::name(&["C"]),
        },
        _ => expr,
    }
}
