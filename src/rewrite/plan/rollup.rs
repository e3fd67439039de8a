//! Families of releases, whose answers can be roll-ups of each other: which rows they read, and
//! which exact integers they add up.
//!
//! Two releases of one family read the same FROM for the same units. Where one is grouped more
//! finely, by listed keys that are all shown, the exact integers of the coarser one are sums over
//! the finer one's groups that meet the coarser one's additional conditions. Sums of the finer
//! one's noisy integers answer the coarser question, as post-processing.

mod filtered;
mod readings;

pub use filtered::{FilteredCoordinate, OtherRows};
pub use readings::Reading;

use num_integer::Integer;
use sha2::{Digest, Sha256};

use super::bins::{ColumnBins, lists_all_bins};
use super::sql_digest::{CoordinateDigest, SqlDigest};
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::{Expr, JoinKind, Relation};
use crate::refusal::Refusal;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::price::{Bounding, Portion};
use crate::rewrite::release_statements::Emission;
use crate::rewrite::vector::base_rows::{base_rows, inlined_columns};
use crate::rewrite::vector::clipped_aggregate::ClippedAggregate;
use crate::rewrite::vector::coordinate::{Coordinate, Count, Mask, Measure};
use crate::rewrite::vector::coordinate_id::CoordinateId;
use crate::rewrite::vector::rotation::made_of;
use crate::rewrite::{Price, ReleasePlan};

/// Digest of the parts that the releases of one family share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyDigest([u8; 32]);

impl FamilyDigest {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A release's family, and what roll-ups compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Digest of the policy's version, FROM, the unit and the bound on its rows. Conditions, keys
    /// and aggregates are not part of it.
    pub digest: FamilyDigest,
    /// The epsilon of its statement.
    pub epsilon: f64,
    pub conditions: Vec<Condition>,
    /// Parallel to the release's keys.
    pub keys: Vec<Grouping>,
    /// Columns that conditions, keys and filters read, and values whose moments are released.
    pub columns: Vec<Reading>,
    /// The digest of each coordinate of the plain layout; `None` where a group's value is not the
    /// sum of the values of finer groups.
    pub coordinates: Vec<Option<CoordinateDigest>>,
    /// Parallel to the coordinates: those that count the rows of a filter.
    pub filtered: Vec<Option<FilteredCoordinate>>,
    /// The totals that the released coordinates give.
    pub totals: Vec<Total>,
}

/// A conjunct of WHERE.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Digest of the emitted SQL. Equal texts are equal conditions, since FROM is the same.
    pub digest: SqlDigest,
    /// `None` where it reads a subquery or is within a join.
    pub expr: Option<Expr>,
}

/// A key.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// Digest of the emitted SQL.
    pub digest: SqlDigest,
    pub expr: Expr,
    /// Whether every row that meets the conditions has one of the listed values.
    pub is_whole: bool,
    /// If the key numbers the bins of a column.
    pub bins: Option<ColumnBins>,
}

/// An exact total over rows: a sum of multiples of released coordinates, divided.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Total {
    #[serde(rename = "name")]
    pub digest: CoordinateDigest,
    pub terms: Vec<(CoordinateId, i64)>,
    pub divisor: u64,
}

/// The family of a release; `None` where neither a coarser nor a finer question can have a part in
/// it. That is so without a vector, with keys by threshold, with constants from other releases, and
/// with narrower bounds than the policy's, which cut finer groups in another way.
pub(in crate::rewrite) fn family(
    emission: &Emission<'_>,
    plan: &ReleasePlan,
    plain: &[Coordinate],
    portion: &Portion<'_>,
) -> Result<Option<Family>, Refusal> {
    let Some(price) = &plan.price else {
        return Ok(None);
    };
    let session_settings = &portion.terms.session_settings;
    let narrowed =
        session_settings.groups_per_unit.is_some() || session_settings.rows_per_unit.is_some();
    if !has_listed_groups(plan) || narrowed || !emission.order.ids.is_empty() {
        return Ok(None);
    }
    let flat = emission.flat()?;
    let mut digest = Sha256::new();
    digest.update(emission.policy.version.as_bytes());
    digest.update(flat.from.to_string().as_bytes());
    let conditions = emission.conditions(&flat)?;
    let base_rows = base_rows(
        emission.release,
        emission.policy,
        emission.analyzed.columns(),
        flat,
    )?;
    digest.update(
        format!(
            " {} {:?} {}",
            base_rows.unit, emission.release.rows_by_tables, emission.release.one_row_per_unit
        )
        .as_bytes(),
    );
    let expressions = ExpressionEmitter {
        cells: &base_rows.cells,
        relations: None,
    };
    let keys = emission.groupings(&expressions)?;
    let bounding = price.no_bounding();
    // Digests are the same with a clip and without.
    let levels = ClippedAggregate {
        clamps_again: false,
        is_run: false,
        ..emission.levels(plain, price, &bounding)
    };
    let digest_of = |coordinate: &Coordinate| {
        Ok::<_, Refusal>(coordinate_digest(
            coordinate,
            levels
                .unit_total(coordinate, None, &expressions)?
                .to_string(),
        ))
    };
    let one_group = price.within_clip || emission.release.one_group_per_unit;
    let coordinates = plain
        .iter()
        .map(|c| c.adds_up(one_group).then(|| digest_of(c)).transpose())
        .collect::<Result<Vec<_>, Refusal>>()?;
    let filtered = plain
        .iter()
        .map(|c| FilteredCoordinate::of(c, digest_of))
        .collect::<Result<Vec<_>, Refusal>>()?;
    let totals = totals(plan, plain, &coordinates, digest_of)?;
    // Moments of values that follow from keys are sums of counts by these keys.
    let moments = plain.iter().filter(|_| plan.models().next().is_some());
    let read = read_in_sums(&conditions, &keys, &filtered);
    let read = read.chain(moments.flat_map(Coordinate::expressions));
    let columns = emission.readings(read, &expressions)?;
    Ok(Some(Family {
        digest: FamilyDigest(digest.finalize().into()),
        epsilon: portion.epsilon,
        conditions,
        keys,
        columns,
        coordinates,
        filtered,
        totals,
    }))
}

/// What conditions, keys and filters compute.
fn read_in_sums<'e>(
    conditions: &'e [Condition],
    keys: &'e [Grouping],
    filtered: &'e [Option<FilteredCoordinate>],
) -> impl Iterator<Item = &'e Expr> {
    let conditions = conditions.iter().filter_map(|c| c.expr.as_ref());
    let keys = keys.iter().map(|key| &key.expr);
    let filters = filtered.iter().flatten().map(|of| &of.filter);
    conditions.chain(keys).chain(filters)
}

/// All groups are known without the data, and every combination of keys occurs.
fn has_listed_groups(plan: &ReleasePlan) -> bool {
    let has_threshold = plan
        .price
        .as_ref()
        .is_some_and(|price| price.threshold.is_some());
    plan.has_listed_keys() && !has_threshold && plan.tuples.is_empty()
}

/// The totals that the released coordinates give: each coordinate itself, and those that measures
/// derive.
fn totals(
    plan: &ReleasePlan,
    plain: &[Coordinate],
    digests: &[Option<CoordinateDigest>],
    digest_of: impl Fn(&Coordinate) -> Result<CoordinateDigest, Refusal>,
) -> Result<Vec<Total>, Refusal> {
    let mut totals: Vec<Total> = digests
        .iter()
        .enumerate()
        .filter_map(|(at, digest)| Some(Total::of((*digest)?, vec![(CoordinateId(at), 1)], 1)))
        .collect();
    for measure in &plan.measures {
        if let Some((coordinate, (terms, divisor))) = derive(measure, plain)
            && let digest = digest_of(&coordinate)?
            && totals.iter().all(|known| known.digest != digest)
        {
            totals.push(Total::of(digest, terms, divisor));
        }
    }
    Ok(totals
        .into_iter()
        .filter_map(|total| total.into_released(&plan.coordinates))
        .collect())
}

impl Total {
    fn of(digest: CoordinateDigest, terms: Vec<(CoordinateId, i64)>, divisor: u64) -> Self {
        Self {
            digest,
            terms,
            divisor,
        }
    }

    /// The total of coordinates in the plain layout, in terms of those that are released.
    fn into_released(self, coordinates: &[Coordinate]) -> Option<Self> {
        let made: Vec<(Vec<(CoordinateId, i64)>, u64)> = self
            .terms
            .iter()
            .map(|(at, _)| made_of(coordinates, *at))
            .collect();
        let common = made.iter().try_fold(1u64, |common, (_, divisor)| {
            (common / common.gcd(divisor)).checked_mul(*divisor)
        })?;
        let mut terms = Vec::new();
        for ((parts, divisor), (_, factor)) in made.into_iter().zip(&self.terms) {
            let factor = factor.checked_mul(i64::try_from(common / divisor).ok()?)?;
            for (at, times) in parts {
                terms.push((at, times.checked_mul(factor)?));
            }
        }
        Some(Self {
            digest: self.digest,
            terms,
            divisor: self.divisor.checked_mul(common)?,
        })
    }
}

fn coordinate_digest(coordinate: &Coordinate, sql: String) -> CoordinateDigest {
    CoordinateDigest(SqlDigest::of(&match coordinate {
        Coordinate::Rows { .. }
        | Coordinate::Flags { .. }
        | Coordinate::Nulls { .. }
        | Coordinate::Units { .. }
        | Coordinate::Presence => sql,
        Coordinate::Values {
            filter: _,
            value: _,
            fixed_point,
            centred: _,
        }
        | Coordinate::DistanceFromEnd {
            filter: _,
            value: _,
            fixed_point,
            end: _,
        }
        | Coordinate::SquareComplement {
            filter: _,
            value: _,
            fixed_point,
        } => format!("{sql} {fixed_point:?}"),
        Coordinate::Products {
            filter: _,
            y: (_, y),
            x: (_, x),
        } => format!("{sql} {y:?} {x:?}"),
    }))
}

/// Multiples of coordinates, and what their sum is divided by.
type Multiples = (Vec<(CoordinateId, i64)>, u64);

/// For a measure that is a count or a sum: the coordinate that would give it directly, and the
/// released coordinates that it is computed from.
fn derive(measure: &Measure, coordinates: &[Coordinate]) -> Option<(Coordinate, Multiples)> {
    match measure {
        Measure::Count(count) => {
            let (mask, rows) = count_source(count, coordinates)?;
            Some((Coordinate::Rows { mask }, rows))
        }
        Measure::Sum {
            values,
            count: Some(count),
            fixed_point,
        } => {
            let (_, (rows, divisor)) = count_source(count, coordinates)?;
            let Coordinate::Values {
                filter,
                value,
                fixed_point: _,
                centred: true,
            } = coordinates.get(values.0)?
            else {
                return None;
            };
            // The sum of 2 q - (lower + upper), and the rows' own share of the centre.
            let mut terms = vec![(*values, i64::try_from(divisor).ok()?)];
            for (coordinate, factor) in rows {
                terms.push((coordinate, factor.checked_mul(fixed_point.centre_twice())?));
            }
            let plain = Coordinate::Values {
                filter: filter.clone(),
                value: value.clone(),
                fixed_point: fixed_point.clone(),
                centred: false,
            };
            Some((plain, (terms, divisor * 2)))
        }
        Measure::Sum {
            values: _,
            count: None,
            fixed_point: _,
        }
        | Measure::Centred { .. } => None,
        Measure::Squares { .. } | Measure::Products { .. } => None,
    }
}

/// The rows that a count counts, and the coordinates that it is computed from.
fn count_source(count: &Count, coordinates: &[Coordinate]) -> Option<(Mask, Multiples)> {
    let Count { rows, all, nulls } = count;
    let (filter, not_null) = match coordinates.get(rows.0)? {
        Coordinate::Rows {
            mask: Mask { filter, not_null },
        } => (filter.clone(), not_null.clone()),
        Coordinate::Flags { filter } => (Some(filter.clone()), None),
        Coordinate::Units { .. }
        | Coordinate::Presence
        | Coordinate::Nulls { .. }
        | Coordinate::Values { .. } => return None,
        Coordinate::DistanceFromEnd { .. }
        | Coordinate::SquareComplement { .. }
        | Coordinate::Products { .. } => {
            return None;
        }
    };
    let (mut terms, divisor) = match all {
        Some(all) => (vec![(*rows, 1), (*all, 1)], 2),
        None => (vec![(*rows, 1)], 1),
    };
    let not_null = match (nulls, not_null) {
        (None, not_null) => not_null,
        (Some(nulls), None) => {
            let Coordinate::Nulls { filter: of, value } = coordinates.get(nulls.0)? else {
                return None;
            };
            if *of != filter {
                return None;
            }
            terms.push((*nulls, -divisor));
            Some(value.clone())
        }
        (Some(_), Some(_)) => return None,
    };
    Some((Mask { filter, not_null }, (terms, divisor.unsigned_abs())))
}

impl Emission<'_> {
    /// The conjuncts of the outermost WHERE as they are emitted, with those expressions that can be
    /// evaluated again.
    fn conditions(&self, flat: &Flat) -> Result<Vec<Condition>, Refusal> {
        let expressions = ExpressionEmitter {
            cells: &flat.cells,
            relations: None,
        };
        let mut known: Vec<(String, Expr)> = Vec::new();
        for expr in conjuncts(&self.release.input) {
            // Within a derived table, other columns may have the same names.
            let is_visible = expr.relations().is_empty()
                && expr.columns().iter().all(|id| flat.cells.contains_key(id));
            if is_visible {
                known.push((expressions.condition(expr)?.to_string(), expr.clone()));
            }
        }
        let condition_of = |condition: &sqlparser::ast::Expr| {
            let sql = condition.to_string();
            let expr = known
                .iter()
                .find(|(text, _)| *text == sql)
                .map(|(_, expr)| expr.clone());
            Condition {
                digest: SqlDigest::of(&sql),
                expr,
            }
        };
        Ok(flat.conditions.iter().map(condition_of).collect())
    }

    fn groupings(&self, expressions: &ExpressionEmitter<'_>) -> Result<Vec<Grouping>, Refusal> {
        let columns = self.analyzed.columns();
        let grouping = |(expr, rule): &(Expr, KeyRule)| {
            let declared = inlined_columns(self.release, columns, expr);
            let has_all_bins = lists_all_bins(expr, rule);
            // Without a list of the policy or a public table's values, the bounds, the conditions
            // or the type gave the list.
            let is_whole = declared.iter().all(|info| {
                let is_known = has_all_bins || info.data_type == Type::Bool;
                info.origin.map_or(is_known, |(table, at)| {
                    let column = &self.policy.tables[table.0].columns[at.0];
                    column.domain.as_ref().map_or(
                        column.data_type == Type::Bool || column.extent.is_none(),
                        |_| column.is_complete,
                    )
                })
            });
            let digest = |expr: &Expr| {
                Ok::<_, Refusal>(SqlDigest::of(&expressions.emit(expr)?.0.to_string()))
            };
            Ok(Grouping {
                digest: digest(expr)?,
                bins: ColumnBins::of(expr, columns, self.policy, digest)?.filter(|_| is_whole),
                expr: expr.clone(),
                is_whole,
            })
        };
        self.release.keys.iter().map(grouping).collect()
    }

    pub(in crate::rewrite) fn levels<'a>(
        &'a self,
        coordinates: &'a [Coordinate],
        price: &'a Price,
        bounding: &'a Bounding,
    ) -> ClippedAggregate<'a> {
        ClippedAggregate {
            effort: self.analyzed.effort(),
            release: self.release,
            policy: self.policy,
            columns: self.analyzed.columns(),
            coordinates,
            weights: &price.weights,
            clip: &bounding.clip,
            refine: &bounding.refine,
            norm: bounding.norm,
            groups_per_unit: price.groups_per_unit,
            within_clip: price.within_clip,
            blocks: price.look.as_ref().map_or(&[], |look| &look.blocks),
            clamps_again: price.within_clip,
            is_run: bounding.is_run,
            listed: &[],
        }
    }
}

/// The WHERE conditions on this level that every aggregated row meets.
fn conjuncts(relation: &Relation) -> Vec<&Expr> {
    match relation {
        Relation::Filter { input, predicate } => conjuncts(input)
            .into_iter()
            .chain(predicate.conjuncts())
            .collect(),
        Relation::Project { input, columns: _ } => conjuncts(input),
        Relation::Join {
            kind: JoinKind::Inner,
            left,
            right,
            on: _,
        } => conjuncts(left)
            .into_iter()
            .chain(conjuncts(right))
            .collect(),
        Relation::Join {
            kind: JoinKind::Left,
            left,
            right: _,
            on: _,
        } => conjuncts(left),
        Relation::Scan(_)
        | Relation::Constants(_)
        | Relation::Group { .. }
        | Relation::Window { .. }
        | Relation::Union { .. } => Vec::new(),
        Relation::Bounded { .. } => Vec::new(),
    }
}
