//! The base of every statement of a release: its rows, their unit, and their keys, each key in one
//! spelling.

use std::collections::HashMap;

use sqlparser::ast::{self, BinaryOperator as B};

use crate::analyze::{AnalyzedRelease, KeyRule};
use crate::catalog::Type;
use crate::ir::{ColumnId, ColumnInfo, Expr};
use crate::policy::{Policy, Scalar};
use crate::refusal::Refusal;
use crate::rewrite::emit::column::EmittedColumn;
use crate::rewrite::emit::comparison::blank_ended;
use crate::rewrite::emit::expression::ExpressionEmitter;
use crate::rewrite::emit::relation::Flat;
use crate::rewrite::emit::sql;

/// Longest text that may become a group key, in bytes; a longer one counts as NULL.
const KEY_BYTES_MAX: u32 = 1000;

/// The rows of a release.
pub struct BaseRows {
    pub from: ast::TableWithJoins,
    pub condition: Option<ast::Expr>,
    pub cells: HashMap<ColumnId, EmittedColumn>,
    /// Each in one spelling.
    pub keys: Vec<ast::Expr>,
    /// The bare column, without clamp or cast: a cluster that is distributed by it can then push
    /// the grouping down. Where periods are prepaid, with the period of the row: each period of a
    /// unit is then bounded as a unit is otherwise.
    pub unit: ast::Expr,
}

/// The rows of a release, its keys emitted.
///
/// # Guarantee
/// Rows whose key is outside a listed domain are left out. Equal keys have one spelling.
///
/// # Errors
/// 0A000 for a key that cannot be made total.
pub fn base_rows(
    release: &AnalyzedRelease,
    policy: &Policy,
    columns: &[ColumnInfo],
    flat: Flat,
) -> Result<BaseRows, Refusal> {
    let Flat {
        from,
        mut conditions,
        cells,
    } = flat;
    let expressions = ExpressionEmitter {
        cells: &cells,
        relations: None,
    };
    let mut keys = Vec::new();
    for (expr, rule) in &release.keys {
        let plain = expressions.emit(expr)?.0;
        let key = if is_short(expr, columns) {
            plain
        } else {
            canonical(plain, &expr.data_type, rule)
        };
        if let Some(condition) = domain_condition(release, policy, columns, expr, rule, &key) {
            conditions.push(condition);
        }
        keys.push(key);
    }
    let condition = sql::all(conditions.into_iter().map(sql::nest).collect());
    let unit = release.lineage.units[0];
    let unit = match cells.get(&unit) {
        Some(cell) => cell.raw.clone(),
        None => {
            expressions
                .emit(&Expr::column(unit, release.lineage.data_type.clone()))?
                .0
        }
    };
    let unit = match &release.by_period {
        None => unit,
        Some(by_period) => ast::Expr::Tuple(vec![unit, expressions.emit(&by_period.period)?.0]),
    };
    Ok(BaseRows {
        from,
        condition,
        cells,
        keys,
        unit,
    })
}

/// Values outside a declared domain are dropped before any bounding, so that they use up nobody's
/// bound.
fn domain_condition(
    release: &AnalyzedRelease,
    policy: &Policy,
    columns: &[ColumnInfo],
    expr: &Expr,
    rule: &KeyRule,
    key: &ast::Expr,
) -> Option<ast::Expr> {
    let KeyRule::Domain(values) = rule else {
        return None;
    };
    let declared = inlined_columns(release, columns, expr).iter().any(|info| {
        info.origin.is_some_and(|(table, position)| {
            policy.tables[table.0].columns[position.0].domain.is_some()
        })
    });
    if !declared {
        return None;
    }
    let listed = values.iter().flatten();
    let list: Vec<ast::Expr> = listed.map(|v| listed_value(v, &expr.data_type)).collect();
    let listed = if list.is_empty() {
        sql::value(ast::Value::Boolean(false))
    } else {
        ast::Expr::InList {
            expr: Box::new(sql::nest(key.clone())),
            list,
            negated: false,
        }
    };
    if !values.contains(&None) {
        return Some(listed);
    }
    Some(ast::Expr::BinaryOp {
        left: Box::new(listed),
        op: B::Or,
        right: Box::new(sql::is_null(key.clone())),
    })
}

/// A listed value, as a key of this type is compared with it.
pub(super) fn listed_value(value: &Scalar, data_type: &Type) -> ast::Expr {
    match data_type {
        Type::Char(_) => blank_ended(&key_text(value, data_type)),
        data_type => sql::constant(Some(value), data_type),
    }
}

/// Scanned columns behind an expression, computed ones followed to their definitions.
pub(in crate::rewrite) fn inlined_columns<'c>(
    release: &AnalyzedRelease,
    columns: &'c [ColumnInfo],
    expr: &Expr,
) -> Vec<&'c ColumnInfo> {
    expr.columns()
        .into_iter()
        .flat_map(|id| {
            match release
                .computed
                .iter()
                .find(|(computed, _)| *computed == id)
            {
                Some((_, definition)) => inlined_columns(release, columns, definition),
                None => vec![&columns[id.0 as usize]],
            }
        })
        .collect()
}

/// A stored text that is too short to need a cap. (A character has at most four bytes.)
fn is_short(expr: &Expr, columns: &[ColumnInfo]) -> bool {
    let is_stored = |id: ColumnId| columns[id.0 as usize].origin.is_some();
    match expr.data_type {
        Type::Varchar(Some(length)) | Type::Char(Some(length)) => {
            length <= KEY_BYTES_MAX / 4 && expr.as_column().is_some_and(is_stored)
        }
        _ => false,
    }
}

/// One spelling for all equal values: the spelling of a popular key must not be one person's.
pub(in crate::rewrite) fn canonical(key: ast::Expr, data_type: &Type, rule: &KeyRule) -> ast::Expr {
    match data_type {
        // Compared and grouped by its own type, whose statistics and indexes apply. All statements
        // print keys as texts: without blanks at the end.
        Type::Char(_) if *rule != KeyRule::Threshold => key,
        Type::Char(_) => canonical(sql::cast(key, &Type::Text), &Type::Text, rule),
        Type::Numeric(_) => sql::call("trim_scale", vec![key]),
        Type::Float4 | Type::Float8 => sql::binary(
            sql::nest(key),
            B::Plus,
            sql::cast(sql::number_literal("0"), &Type::Float8),
        ),
        // A listed value is printed from its list, and is as long as that says.
        Type::Text | Type::Varchar(_) if *rule == KeyRule::Threshold => {
            let short = sql::binary(
                sql::call("octet_length", vec![key.clone()]),
                B::LtEq,
                sql::number_literal(&KEY_BYTES_MAX.to_string()),
            );
            sql::case(vec![(short, key)], None)
        }
        Type::Text
        | Type::Varchar(_)
        | Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Uuid => key,
        Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => key,
    }
}

/// A scalar's canonical text, as the emitted statement returns it for a key of this type.
pub fn key_text(value: &Scalar, data_type: &Type) -> String {
    let text = sql::scalar_text(value);
    match data_type {
        // trim_scale: no trailing zeros after the point.
        Type::Timestamptz => format!("{text}+00"),
        Type::Char(_) => text.trim_end_matches(' ').to_owned(),
        Type::Numeric(_) if text.contains('.') => {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        _ => text,
    }
}
