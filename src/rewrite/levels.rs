//! The statement of a release: three nested SELECTs that clip and bound what one unit adds, and return exact integers per group.

use num_bigint::BigUint;
use sqlparser::ast::{self, BinaryOperator as B};

use super::expression::Expressions;
use super::ground::{Ground, ground};
use super::lattice::Lattice;
use super::partials::{Mask, Partial};
use super::relation::Flat;
use super::rolled::{group_columns, over_sets};
use super::sql;
use crate::analyze::AnalyzedRelease;
use crate::catalog::Type;
use crate::mechanism::Mechanism;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::resolve::{ColumnInfo, Expr, SET_COLUMN};

/// Everything the levels are built from.
pub struct Levels<'a> {
    pub release: &'a AnalyzedRelease,
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
    pub coordinates: &'a [Partial],
    pub weights: &'a [BigUint],
    pub clip: &'a BigUint,
    /// Bits each coordinate's lattice is refined by, after the clip.
    pub refine: &'a [u32],
    pub mechanism: Mechanism,
    /// Most groups of a unit, kept by hash; enforced where keys are released by threshold.
    pub groups_per_unit: Option<u32>,
}

impl Levels<'_> {
    /// The whole statement. Columns: `k0`, `k1`, … (keys as text), then `v0`, `v1`, … (exact integers as text, on the refined lattice where a clip is emitted, on
    /// the base lattice otherwise).
    pub fn statement(&self, flat: Flat) -> Result<ast::Query, Refusal> {
        let Ground { from, condition, cells, keys, unit } = ground(self.release, self.policy, self.columns, flat)?;
        let expressions = Expressions { cells: &cells, relations: None };
        let one_row = self.release.one_row_per_unit;
        let flat = one_row && self.release.sets.is_empty();
        // The last level prints everything as text; here that is this one.
        let shown = |expr: ast::Expr| if flat { sql::cast(expr, &Type::Text) } else { expr };
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        if !one_row {
            projection.push(sql::aliased(unit, "u"));
        }
        projection.extend(keys.iter().enumerate().map(|(i, k)| sql::aliased(shown(k.clone()), &format!("k{i}"))));
        let grouped = positions(1, projection.len());
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            projection.push(sql::aliased(shown(self.partial(coordinate, &expressions)?), &format!("v{i}")));
        }
        let finest = sql::select(projection, vec![from], condition, grouped);
        Ok(match (one_row, flat) {
            (true, true) => finest,
            (true, false) => self.printed(self.rolled(finest)),
            (false, _) => self.summed(self.normed(self.capped(self.rolled(finest)))),
        })
    }

    /// Between levels 1 and 2: every grouping set's groups from those of all keys. Parts of one unit in one group of a set add up; its presence stays one.
    fn rolled(&self, finest: ast::Query) -> ast::Query {
        if self.release.sets.is_empty() {
            return finest;
        }
        let (groups, from) = over_sets(self.release, finest);
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        if !self.release.one_row_per_unit {
            projection.push(sql::aliased(sql::column("g", "u"), "u"));
        }
        projection.extend(groups);
        let grouped = positions(1, projection.len());
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            let is_presence = matches!(coordinate, Partial::Units { .. }) && !self.release.one_row_per_unit;
            let together = if is_presence { "max" } else { "sum" };
            projection.push(sql::aliased(sql::aggregate(together, Some(sql::column("g", &format!("v{i}"))), None), &format!("v{i}")));
        }
        sql::select(projection, from, None, grouped)
    }

    /// Everything as text.
    fn printed(&self, rows: ast::Query) -> ast::Query {
        let names = group_columns(self.release).into_iter().chain((0..self.coordinates.len()).map(|i| format!("v{i}")));
        let projection = names.map(|name| sql::aliased(sql::cast(sql::bare(&name), &Type::Text), &name)).collect();
        sql::select(projection, vec![sql::tables(sql::derived(rows, "s"))], None, Vec::new())
    }

    /// Level 1: what one unit adds to one group.
    fn partial(&self, coordinate: &Partial, expressions: &Expressions<'_>) -> Result<ast::Expr, Refusal> {
        let rows = |mask: &Mask| -> Result<ast::Expr, Refusal> {
            let mut conditions = Vec::new();
            if let Some(filter) = &mask.filter {
                conditions.push(sql::nested(expressions.condition(filter)?));
            }
            if let Some(value) = &mask.not_null {
                conditions.push(sql::is_not_null(expressions.presence(value)?));
            }
            Ok(sql::aggregate("count", None, sql::all(conditions)))
        };
        match coordinate {
            Partial::Rows { mask } => rows(mask),
            Partial::Flags { filter } => {
                let met = rows(&Mask { filter: Some(filter.clone()), not_null: None })?;
                let twice = sql::binary(sql::number("2"), B::Multiply, met);
                Ok(sql::binary(twice, B::Minus, sql::aggregate("count", None, None)))
            }
            Partial::Units { mask } if self.release.one_row_per_unit => rows(mask),
            Partial::Units { mask: Mask { filter: None, not_null: None } } => Ok(sql::number("1")),
            Partial::Units { mask } => {
                let any = sql::binary(rows(mask)?, B::Gt, sql::number("0"));
                Ok(sql::case(vec![(any, sql::number("1"))], Some(sql::number("0"))))
            }
            Partial::Nulls { filter, value } => {
                let mut conditions = Vec::new();
                if let Some(filter) = filter {
                    conditions.push(sql::nested(expressions.condition(filter)?));
                }
                conditions.push(sql::is_null(expressions.presence(value)?));
                Ok(sql::aggregate("count", None, sql::all(conditions)))
            }
            Partial::Values { filter, value, lattice, centred } => {
                let integer = integer(value, lattice, *centred, expressions)?;
                self.summed_over(integer, coordinate, filter.as_ref(), expressions)
            }
            Partial::Lacks { filter, value, lattice } => {
                let distance = integer(value, lattice, true, expressions)?;
                self.summed_over(lacks(distance, lattice), coordinate, filter.as_ref(), expressions)
            }
            Partial::Products { filter, y: (y, y_lattice), x: (x, x_lattice) } => {
                let product = sql::binary(integer(y, y_lattice, true, expressions)?, B::Multiply, integer(x, x_lattice, true, expressions)?);
                self.summed_over(divided(product, y_lattice.divisor_with(x_lattice)), coordinate, filter.as_ref(), expressions)
            }
        }
    }

    /// The sum of a row's integer over the rows of a filter; 0 over none.
    fn summed_over(
        &self,
        integer: ast::Expr,
        coordinate: &Partial,
        filter: Option<&Expr>,
        expressions: &Expressions<'_>,
    ) -> Result<ast::Expr, Refusal> {
        let narrow = coordinate.magnitude() < 1 << 31;
        let integer = if narrow { sql::cast(integer, &Type::Int4) } else { integer };
        let filter = filter.map(|f| expressions.condition(f)).transpose()?;
        Ok(sql::call("coalesce", vec![sql::aggregate("sum", Some(integer), filter), sql::number("0")]))
    }

    /// Level 2, first half: at most so many groups of a unit, by a keyed hash order that is a function of the set of its groups.
    fn capped(&self, per_unit: ast::Query) -> ast::Query {
        let Some(limit) = self.groups_per_unit else { return per_unit };
        let mut order = vec![hash_of(&group_columns(self.release))];
        if !self.release.sets.is_empty() {
            order.push(sql::bare(SET_COLUMN));
        }
        order.extend(self.release.keys.iter().enumerate().map(|(i, (expr, _))| collated(sql::bare(&format!("k{i}")), &expr.data_type)));
        let mut projection = self.carried(true);
        projection.push(sql::aliased(sql::over("row_number", Vec::new(), sql::bare("u"), order), "r"));
        let ranked = sql::select(projection, vec![sql::tables(sql::derived(per_unit, "g"))], None, Vec::new());
        let kept = sql::binary(sql::bare("r"), B::LtEq, sql::number(&limit.to_string()));
        sql::select(self.carried(true), vec![sql::tables(sql::derived(ranked, "h"))], Some(kept), Vec::new())
    }

    fn carried(&self, with_unit: bool) -> Vec<ast::SelectItem> {
        let unit = with_unit.then(|| "u".to_owned());
        let keys = group_columns(self.release);
        let values = (0..self.coordinates.len()).map(|i| format!("v{i}"));
        unit.into_iter().chain(keys).chain(values).map(|name| ast::SelectItem::UnnamedExpr(sql::bare(&name))).collect()
    }

    /// Level 2: the norm of the unit's whole vector, over all its groups.
    fn normed(&self, groups: ast::Query) -> ast::Query {
        let terms = self.weights.iter().enumerate().map(|(i, weight)| {
            let value = sql::cast(sql::bare(&format!("v{i}")), &Type::Numeric(None));
            let weighted = sql::binary(value, B::Multiply, sql::number(&weight.to_string()));
            match self.mechanism {
                Mechanism::Gaussian => sql::binary(weighted.clone(), B::Multiply, weighted),
                Mechanism::Laplace => sql::call("abs", vec![weighted]),
            }
        });
        let norm = terms.reduce(|a, b| sql::binary(a, B::Plus, b)).unwrap_or_else(|| sql::number("0"));
        let norm = if group_columns(self.release).is_empty() { norm } else { sql::over("sum", vec![norm], sql::bare("u"), Vec::new()) };
        let mut projection = self.carried(false);
        projection.push(sql::aliased(norm, "n"));
        sql::select(projection, vec![sql::tables(sql::derived(groups, "p"))], None, Vec::new())
    }

    /// Level 3: one factor for the unit's whole vector where its norm is above the clip, in exact integers; then sums per group.
    fn summed(&self, normed: ast::Query) -> ast::Query {
        let (limit, divisor) = match self.mechanism {
            // floor(sqrt(n)) + 1 is above the norm, whatever numeric's square root rounds to.
            Mechanism::Gaussian => {
                (self.clip * self.clip, sql::binary(sql::call("floor", vec![sql::call("sqrt", vec![sql::bare("n")])]), B::Plus, sql::number("1")))
            }
            Mechanism::Laplace => (self.clip.clone(), sql::bare("n")),
        };
        let above = || sql::binary(sql::bare("n"), B::Gt, sql::number(&limit.to_string()));
        let groups = group_columns(self.release);
        let mut projection: Vec<ast::SelectItem> = groups.iter().map(|name| sql::aliased(sql::cast(sql::bare(name), &Type::Text), name)).collect();
        for (i, refine) in self.refine.iter().enumerate() {
            let value = sql::cast(sql::bare(&format!("v{i}")), &Type::Numeric(None));
            let refined = sql::binary(value, B::Multiply, sql::number(&(BigUint::from(1u8) << *refine).to_string()));
            let scaled = sql::call("div", vec![sql::binary(refined.clone(), B::Multiply, sql::number(&self.clip.to_string())), divisor.clone()]);
            let clipped = sql::case(vec![(above(), scaled)], Some(refined));
            let total = sql::call("coalesce", vec![sql::aggregate("sum", Some(clipped), None), sql::number("0")]);
            projection.push(sql::aliased(sql::cast(total, &Type::Text), &format!("v{i}")));
        }
        let keys = groups.iter().map(|name| sql::column("s", name)).collect();
        sql::select(projection, vec![sql::tables(sql::derived(normed, "s"))], None, keys)
    }
}

/// A row's integer as bigint: clipped, on the value's lattice, centred (`2 q - (lower + upper)`) or plain; NULL stays NULL.
pub(super) fn integer(value: &Expr, lattice: &Lattice, centred: bool, expressions: &Expressions<'_>) -> Result<ast::Expr, Refusal> {
    let (emitted, range) = expressions.emit(value)?;
    // A bare bounded column carries exactly this clip already.
    let is_clipped = value.as_column().is_some() && range == lattice.bounds && expressions.cells[&value.columns()[0]].clamp.is_some();
    let integer = lattice.sql(emitted, is_clipped, &value.data_type);
    if !centred {
        return Ok(integer);
    }
    let doubled = sql::binary(sql::number("2"), B::Multiply, integer);
    Ok(sql::binary(doubled, B::Minus, sql::number(&lattice.centre_twice().to_string())))
}

/// What the square of a centred integer lacks to the most it can be.
pub(super) fn lacks(distance: ast::Expr, lattice: &Lattice) -> ast::Expr {
    let most = sql::number(&(u128::from(lattice.spread()).pow(2)).to_string());
    let lacks = sql::binary(most, B::Minus, sql::binary(distance.clone(), B::Multiply, distance));
    divided(lacks, lattice.divisor_with(lattice))
}

/// Integer division towards zero, which keeps a product's bound.
fn divided(product: ast::Expr, divisor: u64) -> ast::Expr {
    if divisor == 1 { product } else { sql::binary(product, B::Divide, sql::number(&divisor.to_string())) }
}

/// `first, first + 1, …` as GROUP BY positions.
pub(super) fn positions(first: usize, count: usize) -> Vec<ast::Expr> {
    (first..first + count).map(|i| sql::number(&i.to_string())).collect()
}

/// A number that depends on the columns' values alone; equal values have one spelling here.
pub(super) fn hash_of(columns: &[String]) -> ast::Expr {
    columns.iter().fold(sql::number("0"), |seed, name| {
        let text = sql::call("coalesce", vec![sql::cast(sql::bare(name), &Type::Text), sql::text("")]);
        sql::call("hashtextextended", vec![text, seed])
    })
}

/// An order that no locale can change.
pub(super) fn collated(expr: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Text | Type::Varchar(_) => ast::Expr::Collate { expr: Box::new(expr), collation: sql::name(&["C"]) },
        _ => expr,
    }
}
