//! Relations as FROM and WHERE: scans with their clamps, filters, derived columns and joins. Nested
//! SELECTs only where an outer join needs one.

use std::collections::HashMap;

use sqlparser::ast;

use super::column::EmittedColumn;
use super::constants;
use super::expression::{ExpressionEmitter, weigh};
use super::guard::bound;
use super::sql;
use crate::analyze::PlanningEffort;
use crate::analyze::guarded_ranges::of_constant;
use crate::analyze::interval::{Interval, of_type, scalar};
use crate::catalog::Type;
use crate::ir::{ColumnId, ColumnInfo, Expr, JoinKind, Relation, Scan, ScanId};
use crate::parse::is_constant;
use crate::policy::{Column, Policy, Scalar, numeric_holds};
use crate::refusal::Refusal;

/// A relation as one FROM item, the conditions its rows meet, and where its columns are.
#[derive(Clone)]
pub struct Flat {
    pub from: ast::TableWithJoins,
    pub conditions: Vec<ast::Expr>,
    pub cells: HashMap<ColumnId, EmittedColumn>,
}

/// Emits relations of one query.
pub struct Relations<'a> {
    pub policy: &'a Policy,
    pub columns: &'a [ColumnInfo],
    /// Columns that are read anywhere. Derived tables leave out the others.
    pub needed: Vec<ColumnId>,
    /// Columns of scans that are left out, by the scan that reads the same row.
    pub same: &'a HashMap<ScanId, Vec<Vec<ColumnId>>>,
    /// Numbers derived tables.
    pub derived: std::cell::Cell<usize>,
    /// Total size of the expressions emitted so far.
    pub spent: std::cell::Cell<usize>,
    /// The bounds of derived tables on the rows of one unit, by alias.
    pub bounded: std::cell::RefCell<HashMap<String, u64>>,
    pub effort: &'a PlanningEffort,
}

impl Relations<'_> {
    pub fn emit(&self, relation: &Relation) -> Result<Flat, Refusal> {
        match relation {
            Relation::Scan(scan) => Ok(self.scan(scan)),
            Relation::Constants(rows) => {
                let types: Vec<Type> = rows
                    .columns
                    .iter()
                    .map(|id| self.columns[id.0 as usize].data_type.clone())
                    .collect();
                let (from, cells) = constants::rows(rows, &types, &rows.number.alias());
                Ok(Flat {
                    from: sql::tables(from),
                    conditions: Vec::new(),
                    cells: rows.columns.iter().copied().zip(cells).collect(),
                })
            }
            Relation::Filter { input, predicate } => {
                let mut flat = self.emit(input)?;
                for conjunct in predicate.conjuncts() {
                    let condition = ExpressionEmitter {
                        cells: &flat.cells,
                        relations: Some(self),
                    }
                    .condition(conjunct)?;
                    flat.conditions.push(self.spent_on(condition)?);
                }
                Ok(flat)
            }
            Relation::Project { input, columns } => {
                let mut flat = self.emit(input)?;
                for (id, expr) in columns {
                    let (sql, known) = ExpressionEmitter {
                        cells: &flat.cells,
                        relations: Some(self),
                    }
                    .emit(expr)?;
                    let sql = self.spent_on(sql)?;
                    flat.cells.insert(
                        *id,
                        EmittedColumn {
                            raw: sql,
                            clamp: None,
                            data_type: expr.data_type.clone(),
                            known,
                        },
                    );
                }
                Ok(flat)
            }
            Relation::Join {
                kind,
                left,
                right,
                on,
            } => self.join(*kind, left, right, on.as_ref()),
            Relation::Group {
                input,
                keys,
                aggregates,
            } => self.group(input, keys, aggregates),
            Relation::Window { input, columns } => self.window(input, columns),
            Relation::Union { columns, arms } => self.union(columns, arms),
            Relation::Bounded { input, unit, rows } => self.bound_rows(input, *unit, *rows),
        }
    }

    fn scan(&self, scan: &Scan) -> Flat {
        let table = &self.policy.tables[scan.table.0];
        let alias = scan.number.alias();
        let same = self.same.get(&scan.number).into_iter().flatten();
        let cells = std::iter::once(&scan.columns)
            .chain(same)
            .flat_map(|ids| ids.iter().zip(&table.columns))
            .map(|(id, column)| (*id, scan_column(&alias, column)))
            .collect();
        Flat {
            from: sql::tables(sql::table(&table.schema, &table.name, &alias)),
            conditions: Vec::new(),
            cells,
        }
    }

    fn join(
        &self,
        kind: JoinKind,
        left: &Relation,
        right: &Relation,
        on: Option<&Expr>,
    ) -> Result<Flat, Refusal> {
        let mut left = self.emit(left)?;
        let mut right = self.emit(right)?;
        if kind == JoinKind::Left && (!right.conditions.is_empty() || is_computed(&right))
            || !right.from.joins.is_empty()
        {
            right = self.nest(right)?;
        }
        let ast::TableWithJoins { relation, joins: _ } = right.from;
        left.cells.extend(right.cells);
        let on = match on {
            Some(on) => self.spent_on(
                ExpressionEmitter {
                    cells: &left.cells,
                    relations: None,
                }
                .condition(on)?,
            )?,
            None => sql::value(ast::Value::Boolean(true)),
        };
        let constraint = ast::JoinConstraint::On(on);
        let join_operator = match kind {
            JoinKind::Inner => ast::JoinOperator::Inner(constraint),
            JoinKind::Left => ast::JoinOperator::LeftOuter(constraint),
        };
        left.from.joins.push(ast::Join {
            relation,
            global: false,
            join_operator,
        });
        left.conditions.extend(right.conditions);
        Ok(left)
    }

    /// A name for the next derived table.
    pub(in crate::rewrite) fn alias(&self) -> String {
        format!("d{}", self.derived.replace(self.derived.get() + 1))
    }

    /// The relation as a derived table, for the nullable side of an outer join: its conditions and
    /// computed columns must stay inside.
    fn nest(&self, flat: Flat) -> Result<Flat, Refusal> {
        let alias = self.alias();
        let mut projection = Vec::new();
        let mut cells = HashMap::new();
        let mut ids: Vec<&ColumnId> = flat
            .cells
            .keys()
            .filter(|id| self.needed.contains(id))
            .collect();
        ids.sort();
        // By position: the number of a column depends on the rest of the statement.
        for (at, id) in ids.into_iter().enumerate() {
            let cell = &flat.cells[id];
            let name = format!("c{at}");
            projection.push(sql::alias(self.spent_on(cell.raw.clone())?, &name));
            cells.insert(
                *id,
                EmittedColumn {
                    raw: sql::column(&alias, &name),
                    ..cell.clone()
                },
            );
        }
        if projection.is_empty() {
            projection.push(sql::alias(sql::null(), "nothing"));
        }
        let columns = projection.len();
        let query = fence(
            sql::select(
                projection,
                vec![flat.from],
                sql::all(flat.conditions),
                Vec::new(),
            ),
            columns,
        );
        Ok(Flat {
            from: sql::tables(sql::derived_table(query, &alias)),
            conditions: Vec::new(),
            cells,
        })
    }

    /// Emits the expression and adds its size to the statement's.
    pub(in crate::rewrite) fn spent_on(&self, expr: ast::Expr) -> Result<ast::Expr, Refusal> {
        self.spent.set(weigh(self.spent.get(), &expr, self.effort)?);
        Ok(expr)
    }
}

/// The size of a computed column is counted once, so PostgreSQL must compute it once. Without this
/// fence it may inline any of the first `columns` at each mention above.
pub(in crate::rewrite) fn fence(query: ast::Query, columns: usize) -> ast::Query {
    let computes = |item: &ast::SelectItem| {
        !matches!(
            item,
            ast::SelectItem::ExprWithAlias { expr, alias: _ } if is_plain(expr)
        )
    };
    match &*query.body {
        ast::SetExpr::Select(select) if select.projection.iter().take(columns).any(computes) => {
            sql::computed_once(query)
        }
        _ => query,
    }
}

fn is_plain(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner)
        | ast::Expr::Collate {
            expr: inner,
            collation: _,
        } => is_plain(inner),
        ast::Expr::CompoundIdentifier(_) => true,
        other => is_constant(other),
    }
}

/// Some column is not a plain reference.
fn is_computed(flat: &Flat) -> bool {
    flat.cells
        .values()
        .any(|c| !matches!(c.raw, ast::Expr::CompoundIdentifier(_)))
}

/// A table's column with the clamp that every computation on it goes through.
fn scan_column(alias: &str, column: &Column) -> EmittedColumn {
    let raw = sql::column(alias, &column.name);
    let data_type = &column.data_type;
    let declared = column
        .bounds
        .as_ref()
        .and_then(|b| Some((scalar(&b.lower)?, scalar(&b.upper)?, b)));
    if let Some((lo, hi, bounds)) = declared {
        // A bound that is rounded to the type may lie outside the bound that the grid was built
        // for.
        let written = match data_type {
            Type::Float4 => &Type::Float8,
            Type::Numeric(Some((precision, scale)))
                if ![&bounds.lower, &bounds.upper]
                    .into_iter()
                    .all(|b| is_held(b, *precision, *scale)) =>
            {
                &Type::Numeric(None)
            }
            other => other,
        };
        let constant = |s| sql::constant(Some(s), written);
        return EmittedColumn {
            raw,
            clamp: Some((
                constant(&bounds.lower),
                constant(&bounds.upper),
                Interval::new(lo, hi),
            )),
            data_type: data_type.clone(),
            known: Interval::new(
                of_constant(&bounds.lower, written).lo,
                of_constant(&bounds.upper, written).hi,
            ),
        };
    }
    typed_column(raw, data_type)
}

fn is_held(bound: &Scalar, precision: u16, scale: i16) -> bool {
    matches!(bound, Scalar::Decimal(text) if numeric_holds(precision, scale, text))
}

/// A column of which only the type is declared.
pub(in crate::rewrite) fn typed_column(raw: ast::Expr, data_type: &Type) -> EmittedColumn {
    let limit = of_type(data_type);
    let clamp = match data_type {
        // Integers cannot leave their type; numerics and floats hold NaN and infinities, dates hold
        // infinities and years no arithmetic survives.
        Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz => Some((
            bound(limit.lo, data_type),
            bound(limit.hi, data_type),
            limit,
        )),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Text
        | Type::Varchar(_)
        | Type::Char(_) => None,
        Type::Uuid | Type::Interval | Type::Time | Type::Enum(_) | Type::Other { .. } => None,
    };
    EmittedColumn {
        raw,
        clamp,
        data_type: data_type.clone(),
        known: limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ColumnBounds;

    /// A private search for bounds finds powers of two, which may lie outside the type.
    #[test]
    fn bounds_that_the_type_would_round_are_plain_numerics() {
        let price = |precision, scale, upper: &str| {
            let decimal = |text: &str| Scalar::Decimal(text.to_owned());
            let column = Column {
                not_null: false,
                bounds: Some(ColumnBounds {
                    lower: decimal("0"),
                    upper: decimal(upper),
                }),
                ..Column::plain("price", Type::Numeric(Some((precision, scale))))
            };
            scan_column("t", &column)
                .clamp
                .map(|(_, upper, _)| upper.to_string())
                .unwrap()
        };
        assert_eq!(price(6, -2, "256"), "CAST('256' AS NUMERIC)");
        assert_eq!(price(6, -2, "300"), "CAST('300' AS NUMERIC(6,-2))");
        assert_eq!(price(6, 2, "0.125"), "CAST('0.125' AS NUMERIC)");
        assert_eq!(price(6, 2, "0.25"), "CAST('0.25' AS NUMERIC(6,2))");
        assert_eq!(price(3, -2, "99960"), "CAST('99960' AS NUMERIC)");
    }
}
