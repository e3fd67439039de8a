//! The statement of a release: three nested SELECTs that clip and bound what one unit adds, and return exact integers per group.

use num_bigint::BigUint;
use sqlparser::ast::{self, BinaryOperator as B};

use super::expression::Expressions;
use super::partials::{Mask, Partial};
use super::relation::Flat;
use super::sql;
use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::catalog::Type;
use crate::mechanism::Mechanism;
use crate::policy::{Policy, Scalar};
use crate::refusal::Refusal;
use crate::resolve::{ColumnInfo, Expr};

/// Longest text that may become a group key, in bytes; a longer one counts as NULL.
const KEY_BYTES_MAX: &str = "1000";

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
        let Flat { from, mut conditions, cells } = flat;
        let expressions = Expressions { cells: &cells, relations: None };
        let mut keys = Vec::new();
        for (expr, rule) in &self.release.keys {
            let (key, _) = expressions.emit(expr)?;
            let key = canonical(key, &expr.data_type, rule);
            if let Some(condition) = self.domain_condition(expr, rule, &key) {
                conditions.push(condition);
            }
            keys.push(key);
        }
        let condition = sql::all(conditions.into_iter().map(sql::nested).collect());
        let mut projection: Vec<ast::SelectItem> = Vec::new();
        if self.release.one_row_per_unit {
            projection.extend(keys.iter().enumerate().map(|(i, k)| sql::aliased(sql::cast(k.clone(), &Type::Text), &format!("k{i}"))));
            for (i, coordinate) in self.coordinates.iter().enumerate() {
                projection.push(sql::aliased(sql::cast(self.partial(coordinate, &expressions)?, &Type::Text), &format!("v{i}")));
            }
            return Ok(sql::select(projection, vec![from], condition, positions(1, keys.len())));
        }
        let unit = expressions.emit(&Expr::column(self.release.lineage.units[0], self.release.lineage.data_type.clone()))?.0;
        // The unit stays bare: no clamp, no cast, so that a cluster distributed by it can push this level down.
        let unit = cells.get(&self.release.lineage.units[0]).map_or(unit, |cell| cell.raw.clone());
        projection.push(sql::aliased(unit, "u"));
        projection.extend(keys.iter().enumerate().map(|(i, k)| sql::aliased(k.clone(), &format!("k{i}"))));
        for (i, coordinate) in self.coordinates.iter().enumerate() {
            projection.push(sql::aliased(self.partial(coordinate, &expressions)?, &format!("v{i}")));
        }
        let per_unit = sql::select(projection, vec![from], condition, positions(1, keys.len() + 1));
        Ok(self.summed(self.normed(self.capped(per_unit))))
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
                let (emitted, range) = expressions.emit(value)?;
                // A bare bounded column carries exactly this clip already.
                let is_clipped = value.as_column().is_some() && range == lattice.bounds && expressions.cells[&value.columns()[0]].clamp.is_some();
                let integer = lattice.sql(emitted, is_clipped, &value.data_type);
                let integer = if *centred {
                    let doubled = sql::binary(sql::number("2"), B::Multiply, integer);
                    sql::binary(doubled, B::Minus, sql::number(&lattice.centre_twice().to_string()))
                } else {
                    integer
                };
                let narrow = coordinate.magnitude() < 1 << 31;
                let integer = if narrow { sql::cast(integer, &Type::Int4) } else { integer };
                let filter = filter.as_ref().map(|f| expressions.condition(f)).transpose()?;
                Ok(sql::call("coalesce", vec![sql::aggregate("sum", Some(integer), filter), sql::number("0")]))
            }
        }
    }

    /// Values outside a declared domain are dropped before any bounding, so that they use up nobody's bound.
    fn domain_condition(&self, expr: &Expr, rule: &KeyRule, key: &ast::Expr) -> Option<ast::Expr> {
        let KeyRule::Domain(values) = rule else { return None };
        let declared = self
            .inlined_columns(expr)
            .iter()
            .any(|info| info.origin.is_some_and(|(table, position)| self.policy.tables[table.0].columns[position].domain.is_some()));
        if !declared {
            return None;
        }
        let list: Vec<ast::Expr> = values.iter().flatten().map(|v| sql::constant(Some(v), &expr.data_type)).collect();
        let listed = if list.is_empty() {
            sql::value(ast::Value::Boolean(false))
        } else {
            ast::Expr::InList { expr: Box::new(sql::nested(key.clone())), list, negated: false }
        };
        if !values.contains(&None) {
            return Some(listed);
        }
        Some(ast::Expr::BinaryOp { left: Box::new(listed), op: B::Or, right: Box::new(sql::is_null(key.clone())) })
    }

    /// Scanned columns behind an expression, computed ones followed to their definitions.
    fn inlined_columns(&self, expr: &Expr) -> Vec<&ColumnInfo> {
        expr.columns()
            .into_iter()
            .flat_map(|id| match self.release.computed.iter().find(|(computed, _)| *computed == id) {
                Some((_, definition)) => self.inlined_columns(definition),
                None => vec![&self.columns[id.0 as usize]],
            })
            .collect()
    }

    /// Level 2, first half: at most so many groups of a unit, by a keyed hash order that is a function of the set of its groups.
    fn capped(&self, per_unit: ast::Query) -> ast::Query {
        let Some(limit) = self.groups_per_unit else { return per_unit };
        let hash = self.release.keys.iter().enumerate().fold(sql::number("0"), |seed, (i, _)| {
            let text = sql::call("coalesce", vec![sql::cast(sql::bare(&format!("k{i}")), &Type::Text), sql::text("")]);
            sql::call("hashtextextended", vec![text, seed])
        });
        let mut order = vec![hash];
        order.extend(self.release.keys.iter().enumerate().map(|(i, (expr, _))| collated(sql::bare(&format!("k{i}")), &expr.data_type)));
        let mut projection = self.carried(true);
        projection.push(sql::aliased(sql::over("row_number", Vec::new(), sql::bare("u"), order), "r"));
        let ranked = sql::select(projection, vec![sql::tables(sql::derived(per_unit, "g"))], None, Vec::new());
        let kept = sql::binary(sql::bare("r"), B::LtEq, sql::number(&limit.to_string()));
        sql::select(self.carried(true), vec![sql::tables(sql::derived(ranked, "h"))], Some(kept), Vec::new())
    }

    fn carried(&self, with_unit: bool) -> Vec<ast::SelectItem> {
        let unit = with_unit.then(|| "u".to_owned());
        let keys = (0..self.release.keys.len()).map(|i| format!("k{i}"));
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
        let norm = if self.release.keys.is_empty() { norm } else { sql::over("sum", vec![norm], sql::bare("u"), Vec::new()) };
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
        let mut projection: Vec<ast::SelectItem> =
            (0..self.release.keys.len()).map(|i| sql::aliased(sql::cast(sql::bare(&format!("k{i}")), &Type::Text), &format!("k{i}"))).collect();
        for (i, refine) in self.refine.iter().enumerate() {
            let value = sql::cast(sql::bare(&format!("v{i}")), &Type::Numeric(None));
            let refined = sql::binary(value, B::Multiply, sql::number(&(BigUint::from(1u8) << *refine).to_string()));
            let scaled = sql::call("div", vec![sql::binary(refined.clone(), B::Multiply, sql::number(&self.clip.to_string())), divisor.clone()]);
            let clipped = sql::case(vec![(above(), scaled)], Some(refined));
            let total = sql::call("coalesce", vec![sql::aggregate("sum", Some(clipped), None), sql::number("0")]);
            projection.push(sql::aliased(sql::cast(total, &Type::Text), &format!("v{i}")));
        }
        let keys = (0..self.release.keys.len()).map(|i| sql::column("s", &format!("k{i}"))).collect();
        sql::select(projection, vec![sql::tables(sql::derived(normed, "s"))], None, keys)
    }
}

/// `first, first + 1, …` as GROUP BY positions.
fn positions(first: usize, count: usize) -> Vec<ast::Expr> {
    (first..first + count).map(|i| sql::number(&i.to_string())).collect()
}

/// One spelling for all equal values: the spelling of a popular key must not be one person's.
fn canonical(key: ast::Expr, data_type: &Type, rule: &KeyRule) -> ast::Expr {
    match data_type {
        Type::Numeric(_) => sql::call("trim_scale", vec![key]),
        Type::Float4 | Type::Float8 => sql::binary(sql::nested(key), B::Plus, sql::cast(sql::number("0"), &Type::Float8)),
        // A listed value is printed from its list, and is as long as that says.
        Type::Text | Type::Varchar(_) if *rule == KeyRule::Threshold => {
            let short = sql::binary(sql::call("octet_length", vec![key.clone()]), B::LtEq, sql::number(KEY_BYTES_MAX));
            sql::case(vec![(short, key)], None)
        }
        Type::Text | Type::Varchar(_) | Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Char(_) | Type::Uuid => key,
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Other { .. } => key,
    }
}

/// An order that no locale can change.
fn collated(expr: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Text | Type::Varchar(_) => ast::Expr::Collate { expr: Box::new(expr), collation: sql::name(&["C"]) },
        _ => expr,
    }
}

/// A scalar's canonical text, as the emitted statement returns it for a key of this type.
pub fn key_text(value: &Scalar, data_type: &Type) -> String {
    let text = sql::scalar_text(value);
    match data_type {
        // trim_scale: no trailing zeros after the point.
        Type::Numeric(_) if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => text,
    }
}
