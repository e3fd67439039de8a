//! Expressions that many coordinates mention, such as the probability in a step of a logistic
//! regression. Each is computed once a row, in a subquery of FROM that reads the row.

use sqlparser::ast;

use super::base_rows::BaseRows;
use super::coordinate::{Coordinate, Mask};
use crate::analyze::{AnalyzedRelease, PlanningEffort};
use crate::ir::{ColumnId, Expr};
use crate::refusal::Refusal;
use crate::rewrite::emit::column::EmittedColumn;
use crate::rewrite::emit::expression::{ExpressionEmitter, weigh};
use crate::rewrite::emit::sql;

/// An expression, and the column that has its values.
type Known = (Expr, Expr);

/// The coordinates, with columns in place of what the release's aggregates mention many times; the
/// subqueries with these columns are added to the rows. `first` is a column that nothing has yet.
///
/// # Guarantee
/// Each coordinate has the same value for every row. A column is NULL where its expression is, and
/// lies in the interval that the emitted expression enforces itself. A subquery gives exactly one
/// row for each row that it reads, and nothing in it can fail.
///
/// # Errors
/// As [`ExpressionEmitter::emit`], and 54001 where all of them are too large together.
pub(super) fn share_terms(
    (release, coordinates): (&AnalyzedRelease, &[Coordinate]),
    first: ColumnId,
    rows: &mut BaseRows,
    effort: &PlanningEffort,
) -> Result<Vec<Coordinate>, Refusal> {
    let mut known: Vec<Known> = Vec::new();
    let mut spent = 0;
    for (number, level) in levels(release).iter().enumerate() {
        let alias = format!("once{number}");
        let mut projection = Vec::new();
        let mut made = Vec::new();
        for expr in level {
            let expressions = ExpressionEmitter {
                cells: &rows.cells,
                relations: None,
            };
            let (computed, range) = expressions.emit(&over(&known, expr))?;
            spent = weigh(spent, &computed, effort)?;
            let name = format!("c{}", made.len());
            projection.push(sql::alias(computed, &name));
            let id = ColumnId(first.0 + (known.len() + made.len()) as u32);
            let cell = EmittedColumn {
                raw: sql::column(&alias, &name),
                clamp: None,
                data_type: expr.data_type.clone(),
                known: range,
            };
            made.push((id, expr, cell));
        }
        if made.is_empty() {
            continue;
        }
        rows.from.joins.push(lateral(projection, &alias));
        for (id, expr, cell) in made {
            known.push((expr.clone(), Expr::column(id, expr.data_type.clone())));
            rows.cells.insert(id, cell);
        }
    }
    let coordinates = coordinates.iter().cloned();
    Ok(coordinates.map(|c| over_columns(&known, c)).collect())
}

/// What is computed once, by what it is computed from: the rows' own columns first. Aggregates that
/// mention the same have it once.
fn levels(release: &AnalyzedRelease) -> Vec<Vec<Expr>> {
    let mut levels: Vec<Vec<Expr>> = Vec::new();
    for aggregate in &release.aggregates {
        let own = aggregate.operation.computed_once();
        levels.resize(levels.len().max(own.len()), Vec::new());
        // Every sum has its filter.
        let filter = aggregate.filter.iter().filter(|_| !own.is_empty());
        let first = filter.map(|filter| (0, filter));
        let others = own.iter().enumerate();
        let others = others.flat_map(|(at, level)| level.iter().map(move |expr| (at, expr)));
        for (at, expr) in first.chain(others) {
            if !levels.iter().flatten().any(|known| known == expr) {
                levels[at].push(expr.clone());
            }
        }
    }
    levels
}

/// `JOIN LATERAL (SELECT … OFFSET 0) AS alias ON true`. Without OFFSET, PostgreSQL would compute an
/// expression at each of its mentions.
fn lateral(projection: Vec<ast::SelectItem>, alias: &str) -> ast::Join {
    let query = sql::select(projection, Vec::new(), None, Vec::new());
    let on = ast::JoinConstraint::On(sql::value(ast::Value::Boolean(true)));
    ast::Join {
        relation: ast::TableFactor::Derived {
            lateral: true,
            subquery: Box::new(sql::computed_once(query)),
            alias: Some(sql::table_alias(alias)),
            sample: None,
        },
        global: false,
        join_operator: ast::JoinOperator::Inner(on),
    }
}

fn over(known: &[Known], expr: &Expr) -> Expr {
    let column = |part: &Expr| {
        let mut known = known.iter();
        let found = known.find(|(computed, _)| computed == part);
        found.map(|(_, column)| column.clone())
    };
    expr.clone().replace_parts(&column)
}

fn over_columns(known: &[Known], coordinate: Coordinate) -> Coordinate {
    if known.is_empty() {
        return coordinate;
    }
    let of = |expr: Expr| over(known, &expr);
    let masked = |Mask { filter, not_null }| Mask {
        filter: filter.map(of),
        not_null: not_null.map(of),
    };
    match coordinate {
        Coordinate::Rows { mask } => Coordinate::Rows { mask: masked(mask) },
        Coordinate::Units { mask } => Coordinate::Units { mask: masked(mask) },
        Coordinate::Flags { filter } => Coordinate::Flags { filter: of(filter) },
        Coordinate::Nulls { filter, value } => Coordinate::Nulls {
            filter: filter.map(of),
            value: of(value),
        },
        Coordinate::Values {
            filter,
            value,
            fixed_point,
            centred,
        } => Coordinate::Values {
            filter: filter.map(of),
            value: of(value),
            fixed_point,
            centred,
        },
        Coordinate::SquareComplement {
            filter,
            value,
            fixed_point,
        } => Coordinate::SquareComplement {
            filter: filter.map(of),
            value: of(value),
            fixed_point,
        },
        Coordinate::Products { filter, y, x } => Coordinate::Products {
            filter: filter.map(of),
            y: (of(y.0), y.1),
            x: (of(x.0), x.1),
        },
        Coordinate::DistanceFromEnd {
            filter,
            value,
            fixed_point,
            end,
        } => Coordinate::DistanceFromEnd {
            filter: filter.map(of),
            value: of(value),
            fixed_point,
            end,
        },
        Coordinate::Presence => Coordinate::Presence,
    }
}
