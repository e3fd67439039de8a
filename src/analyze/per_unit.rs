//! Steps within one unit: which keys and aggregates are functions of the set of a unit's rows, and
//! where their results lie.

use super::inline;
use super::interval::Interval;
use super::range::Ranges;
use crate::aggregates::Ties;
use crate::catalog::Type;
use crate::ir::{Aggregate, ColumnId, ColumnInfo, Distinct, Expr};
use crate::policy::Policy;
use crate::refusal::{Refusal, reason};

/// Refuses a key whose equal values have several spellings, of which one row would decide.
///
/// # Errors
/// 0A000, by the key's type.
pub(super) fn check_key(
    key: &Expr,
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Result<(), Refusal> {
    match &key.data_type {
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(_)
        | Type::Float4
        | Type::Float8
        | Type::Uuid => Ok(()),
        Type::Date | Type::Timestamp | Type::Timestamptz | Type::Time | Type::Enum(_) => Ok(()),
        Type::Text | Type::Varchar(_) | Type::Char(_) if is_deterministic(key, policy, columns) => {
            Ok(())
        }
        Type::Text | Type::Varchar(_) | Type::Char(_) => Err(Refusal::unsupported(
            reason::NONDETERMINISTIC_COLLATION,
            "GROUP BY a column with a nondeterministic collation",
        )),
        Type::Interval | Type::Other { .. } => {
            let name = crate::ir::literal::type_name(&key.data_type);
            Err(Refusal::unsupported(
                reason::GROUP_KEY_TYPE,
                format!("GROUP BY a value of type {name}"),
            )
            .hint("Cast it to text, or group by another column."))
        }
    }
}

/// Refuses to show one of several values that a collation takes for equal: a key above would have
/// the spelling of one row.
///
/// # Errors
/// 0A000 for text under such a collation.
pub(super) fn check_shown(
    value: &Expr,
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Result<(), Refusal> {
    match &value.data_type {
        Type::Text | Type::Varchar(_) | Type::Char(_)
            if !is_deterministic(value, policy, columns) =>
        {
            Err(Refusal::unsupported(
                reason::NONDETERMINISTIC_COLLATION,
                "a window over a column with a nondeterministic collation",
            ))
        }
        _ => Ok(()),
    }
}

/// Every text column read has a collation under which equal means the same bytes.
pub(super) fn is_deterministic(expr: &Expr, policy: &Policy, columns: &[ColumnInfo]) -> bool {
    expr.columns()
        .iter()
        .all(|id| match columns[id.0 as usize].origin {
            Some((table, position)) => {
                policy.tables[table.0].columns[position.0].deterministic_collation
            }
            None => true,
        })
}

/// Refuses an aggregate that shows one of several equal values.
///
/// # Errors
/// 0A000 for a least or greatest text under a collation that takes different texts for equal.
pub(super) fn check_aggregate(
    aggregate: &Aggregate,
    computed: &[(ColumnId, Expr)],
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Result<(), Refusal> {
    let (value, name) = match aggregate.operation.facts().ties {
        Ties::Hidden => return Ok(()),
        Ties::Counted(values) => return check_counted(values),
        Ties::Shown(value, name) => (value, name),
    };
    if !is_deterministic(&inline(value, computed), policy, columns) {
        return Err(Refusal::unsupported(
            reason::NONDETERMINISTIC_COLLATION,
            format!("{name} of a column with a nondeterministic collation"),
        ));
    }
    if is_unspelled(&value.data_type) {
        let given = crate::ir::literal::type_name(&value.data_type);
        return Err(Refusal::unsupported(
            reason::AGGREGATE_TYPE,
            format!("{name} of a value of type {given}"),
        ));
    }
    Ok(())
}

/// Refuses values that PostgreSQL compares only where other values of the row are equal: whether
/// that fails depends on the rows.
fn check_counted(values: &Distinct) -> Result<(), Refusal> {
    let is_uncompared = |value: &Expr| matches!(value.data_type, Type::Other { .. });
    match values.values().iter().any(is_uncompared) {
        true => Err(Refusal::unsupported(
            reason::AGGREGATE_TYPE,
            "COUNT(DISTINCT …) of a value of this type within one group of rows",
        )),
        false => Ok(()),
    }
}

/// Equal values may be printed in different ways that no function unifies, or there is no order at
/// all.
fn is_unspelled(data_type: &Type) -> bool {
    matches!(
        data_type,
        Type::Char(None) | Type::Interval | Type::Other { .. }
    )
}

/// The range of an aggregate's results over at most `rows` rows of one unit; it chooses clips only.
/// `may_be_empty`: whether the aggregate may see no row, also without a FILTER.
pub(super) fn range(
    aggregate: &Aggregate,
    (rows, may_be_empty): (u64, bool),
    ranges: &Ranges<'_>,
) -> Interval {
    let may_be_empty = may_be_empty || aggregate.filter.is_some();
    let of = |value: &Expr| ranges.of(value);
    aggregate
        .operation
        .range_within_unit(rows as f64, may_be_empty, &of)
}
