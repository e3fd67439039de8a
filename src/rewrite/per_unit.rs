//! Grouping, windows, unions and bounds within one unit, as derived tables. Their results are
//! exact, cannot fail, and are functions of the set of a unit's rows.

mod aggregate_call;
pub(in crate::rewrite) mod pairs;
mod window_call;

use std::collections::HashMap;

use sqlparser::ast;

use super::emit::column::EmittedColumn;
use super::emit::expression::ExpressionEmitter;
use super::emit::relation::{Flat, Relations, fence, typed_column};
use super::emit::sql;
use super::vector::kept_groups::hash;
use crate::catalog::Type;
use crate::ir::{Aggregate, ColumnId, Relation, Window};
use crate::refusal::{Refusal, reason};
use crate::resolve::query_of;
use aggregate_call::aggregate_call;
use window_call::window_call;

/// The column with a row's number among those of its unit.
const PLACE: &str = "place";

impl Relations<'_> {
    /// GROUP BY: keys keep their identity and clamps, in one spelling for all equal values.
    pub(super) fn group(
        &self,
        input: &Relation,
        keys: &[ColumnId],
        aggregates: &[(ColumnId, Aggregate)],
    ) -> Result<Flat, Refusal> {
        let flat = self.emit(input)?;
        let expressions = ExpressionEmitter {
            cells: &flat.cells,
            relations: None,
        };
        let alias = self.alias();
        let (mut projection, mut cells, mut group_by) = (Vec::new(), HashMap::new(), Vec::new());
        for id in keys {
            let cell = expressions.cell(*id)?;
            let name = format!("c{}", id.0);
            projection.push(sql::alias(
                self.spent_on(one_spelling(cell.raw.clone(), &cell.data_type))?,
                &name,
            ));
            group_by.push(sql::number_literal(&projection.len().to_string()));
            cells.insert(
                *id,
                EmittedColumn {
                    raw: sql::column(&alias, &name),
                    ..cell.clone()
                },
            );
        }
        for (id, aggregate) in aggregates.iter().filter(|(id, _)| self.needed.contains(id)) {
            let name = format!("c{}", id.0);
            projection.push(sql::alias(
                self.spent_on(aggregate_call(aggregate, &expressions, None)?)?,
                &name,
            ));
            cells.insert(
                *id,
                typed_column(sql::column(&alias, &name), &aggregate.data_type),
            );
        }
        if projection.is_empty() {
            projection.push(sql::alias(sql::null(), "nothing"));
        }
        // PostgreSQL pushes conditions on keys below the grouping, each with a copy of the key;
        // those on aggregates stay above.
        let keys = group_by.len();
        let query = sql::select(
            projection,
            vec![flat.from],
            sql::all(flat.conditions.into_iter().map(sql::nest).collect()),
            group_by,
        );
        let query = fence(query, keys);
        Ok(Flat {
            from: sql::tables(sql::derived_table(query, &alias)),
            conditions: Vec::new(),
            cells,
        })
    }
}

impl Relations<'_> {
    /// Window calls over the rows of one unit. Where the order of rows matters, they are ordered by
    /// every column that is read, so that tied rows are equal.
    pub(super) fn window(
        &self,
        input: &Relation,
        columns: &[(ColumnId, Window)],
    ) -> Result<Flat, Refusal> {
        let flat = self.emit(input)?;
        let expressions = ExpressionEmitter {
            cells: &flat.cells,
            relations: None,
        };
        let alias = self.alias();
        let mut ids: Vec<&ColumnId> = flat
            .cells
            .keys()
            .filter(|id| self.needed.contains(id))
            .collect();
        ids.sort();
        let mut ties = Vec::new();
        let (mut projection, mut cells) = (Vec::new(), HashMap::new());
        for id in ids {
            let cell = &flat.cells[id];
            let name = format!("c{}", id.0);
            projection.push(sql::alias(self.spent_on(cell.raw.clone())?, &name));
            ties.extend(spelled_out(cell)?);
            cells.insert(
                *id,
                EmittedColumn {
                    raw: sql::column(&alias, &name),
                    ..cell.clone()
                },
            );
        }
        let given = projection.len();
        for (id, window) in columns.iter().filter(|(id, _)| self.needed.contains(id)) {
            let name = format!("c{}", id.0);
            projection.push(sql::alias(
                self.spent_on(window_call(window, &expressions, &ties)?)?,
                &name,
            ));
            cells.insert(
                *id,
                typed_column(sql::column(&alias, &name), &window.data_type),
            );
        }
        if projection.is_empty() {
            projection.push(sql::alias(sql::null(), "nothing"));
        }
        let query = sql::select(
            projection,
            vec![flat.from],
            sql::all(flat.conditions.into_iter().map(sql::nest).collect()),
            Vec::new(),
        );
        // PostgreSQL pushes conditions on a window's partition below it.
        let query = fence(query, given);
        Ok(Flat {
            from: sql::tables(sql::derived_table(query, &alias)),
            conditions: Vec::new(),
            cells,
        })
    }

    /// At most `rows` rows of each unit, the first by a hash of every column that is read and then
    /// by those columns.
    ///
    /// # Guarantee
    /// Each unit has at most `rows` rows, and which ones stay is a function of the set of that
    /// unit's rows.
    pub(super) fn bound_rows(
        &self,
        input: &Relation,
        unit: ColumnId,
        rows: u64,
    ) -> Result<Flat, Refusal> {
        let flat = self.emit(input)?;
        let alias = self.alias();
        let mut ids: Vec<&ColumnId> = flat
            .cells
            .keys()
            .filter(|id| self.needed.contains(id))
            .collect();
        ids.sort();
        let mut order = Vec::new();
        let (mut projection, mut cells) = (Vec::new(), HashMap::new());
        // Named by position: a column's id depends on the rest of the statement.
        for (at, id) in ids.into_iter().enumerate() {
            let cell = &flat.cells[id];
            let name = format!("c{at}");
            projection.push(sql::alias(self.spent_on(cell.raw.clone())?, &name));
            // All rows of a unit have the same value in the unit's column.
            order.extend(if *id == unit {
                Vec::new()
            } else {
                ordered_as_text(cell)
            });
            cells.insert(
                *id,
                EmittedColumn {
                    raw: sql::column(&alias, &name),
                    ..cell.clone()
                },
            );
        }
        let given = projection.len();
        let texts = order
            .iter()
            .map(|value| sql::cast(value.clone(), &Type::Text))
            .collect();
        order.insert(0, hash(texts));
        let unit = ExpressionEmitter {
            cells: &flat.cells,
            relations: None,
        }
        .cell(unit)?
        .raw
        .clone();
        projection.push(sql::alias(
            sql::over("row_number", Vec::new(), unit, order),
            PLACE,
        ));
        let query = sql::select(
            projection,
            vec![flat.from],
            sql::all(flat.conditions.into_iter().map(sql::nest).collect()),
            Vec::new(),
        );
        let kept = sql::binary(
            sql::column(&alias, PLACE),
            ast::BinaryOperator::LtEq,
            sql::number_literal(&rows.to_string()),
        );
        self.bounded.borrow_mut().insert(alias.clone(), rows);
        Ok(Flat {
            from: sql::tables(sql::derived_table(fence(query, given), &alias)),
            conditions: vec![kept],
            cells,
        })
    }

    /// UNION ALL of the arms, column by column.
    pub(super) fn union(
        &self,
        columns: &[ColumnId],
        arms: &[(Relation, Vec<ColumnId>)],
    ) -> Result<Flat, Refusal> {
        let mut united: Option<ast::SetExpr> = None;
        for (arm, ids) in arms {
            let flat = self.emit(arm)?;
            let expressions = ExpressionEmitter {
                cells: &flat.cells,
                relations: None,
            };
            let mut projection = Vec::new();
            for (id, column) in ids.iter().zip(columns) {
                let cell = expressions.cell(*id)?;
                let value =
                    self.spent_on(of_default_collation(cell.raw.clone(), &cell.data_type))?;
                projection.push(sql::alias(value, &format!("c{}", column.0)));
            }
            let query = sql::select(
                projection,
                vec![flat.from],
                sql::all(flat.conditions.into_iter().map(sql::nest).collect()),
                Vec::new(),
            );
            let query = fence(query, ids.len());
            let query = if query.limit_clause.is_some() {
                Box::new(ast::SetExpr::Query(Box::new(query)))
            } else {
                query.body
            };
            united = Some(match united {
                None => *query,
                Some(left) => ast::SetExpr::SetOperation {
                    left: Box::new(left),
                    op: ast::SetOperator::Union,
                    set_quantifier: ast::SetQuantifier::All,
                    right: query,
                },
            });
        }
        let alias = self.alias();
        let body = united.ok_or_else(super::emit::guard::internal)?;
        let cell = |id: &ColumnId| {
            (
                *id,
                typed_column(
                    sql::column(&alias, &format!("c{}", id.0)),
                    &self.columns[id.0 as usize].data_type,
                ),
            )
        };
        let cells = columns.iter().map(cell).collect();
        Ok(Flat {
            from: sql::tables(sql::derived_table(query_of(body), &alias)),
            conditions: Vec::new(),
            cells,
        })
    }
}

/// Orders rows by a column, and equal values with different spellings by their text.
///
/// # Errors
/// 0A000 for a type that has no order.
fn spelled_out(cell: &EmittedColumn) -> Result<Vec<ast::Expr>, Refusal> {
    let ast::Expr::CompoundIdentifier(_) = &cell.raw else {
        // The column is computed from the others.
        return Ok(Vec::new());
    };
    let bytes = |expr: ast::Expr| ast::Expr::Collate {
        expr: Box::new(expr),
        collation: sql::name(&["C"]),
    };
    Ok(match &cell.data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz => vec![cell.raw.clone()],
        Type::Time | Type::Enum(_) => vec![cell.raw.clone()],
        Type::Text | Type::Varchar(_) => vec![bytes(cell.raw.clone())],
        Type::Numeric(_) | Type::Float4 | Type::Float8 | Type::Char(_) | Type::Interval => {
            vec![bytes(sql::cast(cell.raw.clone(), &Type::Text))]
        }
        Type::Other { .. } => {
            return Err(Refusal::unsupported(
                reason::UNEXPECTED_FORM,
                "a window over rows with a column that has no order",
            ));
        }
    })
}

/// Distinguishes rows by a column; a value of a type without an order is compared by its text.
fn ordered_as_text(cell: &EmittedColumn) -> Vec<ast::Expr> {
    let text = || ast::Expr::Collate {
        expr: Box::new(sql::cast(cell.raw.clone(), &Type::Text)),
        collation: sql::name(&["C"]),
    };
    spelled_out(cell).unwrap_or_else(|_| vec![text()])
}

/// The value with the default collation. Arms with different collations would leave the column
/// without one, and PostgreSQL would raise an error at the first comparison.
fn of_default_collation(value: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Text | Type::Varchar(_) | Type::Char(_) => sql::nest(ast::Expr::Collate {
            expr: Box::new(sql::nest(value)),
            collation: sql::name(&["default"]),
        }),
        _ => value,
    }
}

/// One spelling for all equal values, so that a group's value does not depend on the rows' order.
fn one_spelling(key: ast::Expr, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Numeric(None) => sql::call("trim_scale", vec![key]),
        Type::Char(None) => sql::cast(sql::cast(key, &Type::Text), data_type),
        Type::Float4 | Type::Float8 => sql::binary(
            sql::nest(key),
            ast::BinaryOperator::Plus,
            sql::cast(sql::number_literal("0"), data_type),
        ),
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(Some(_))
        | Type::Text
        | Type::Varchar(_) => key,
        Type::Char(Some(_))
        | Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval => key,
        Type::Time | Type::Enum(_) | Type::Other { .. } => key,
    }
}
