//! The values that an expression or a column may have, listed without the data.

use super::derived_domain::{self, Listed};
use super::time_conditions::may_hold_within;
use super::{ColumnFilter, Keys, over_rows};
use crate::analyze::interval::MICROS_PER_DAY;
use crate::catalog::Type;
use crate::ir::evaluate::evaluate;
use crate::ir::functions::Function;
use crate::ir::literal::{integer_range, is_beyond};
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::{ColumnBounds, Scalar};

/// Most values that are listed for the columns of one key.
pub(super) const VALUES_MAX: usize = 50_000;

impl Keys<'_> {
    /// Every value that the expression takes over the listed values of its columns, where these
    /// meet the conditions on them. `parts` are subexpressions that count as columns.
    ///
    /// # Guarantee
    /// The list depends on the statement and the policy alone. A row whose value is not in it is in
    /// no group: it is left out of the answer, and no group appears for it.
    pub(super) fn by_values(&self, expr: &Expr, parts: &[Listed]) -> Option<Vec<Option<Scalar>>> {
        let columns = expr.columns();
        let mut assignments: Vec<Vec<(ColumnId, Option<Scalar>)>> = vec![Vec::new()];
        for id in columns {
            let values = match parts.iter().find(|(part, _)| *part == id) {
                Some((_, values)) => values.clone(),
                None if self.is_timestamp(id) => self.days(id, expr)?,
                None => self.column_values(id)?,
            };
            if assignments.len().saturating_mul(values.len()) > VALUES_MAX {
                return None;
            }
            assignments = assignments
                .into_iter()
                .flat_map(|assigned| {
                    values.iter().map(move |value| {
                        let mut assigned = assigned.clone();
                        assigned.push((id, value.clone()));
                        assigned
                    })
                })
                .collect();
        }
        self.effort.spend(assignments.len(), [expr])?;
        let mut domain: Vec<Option<Scalar>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for assignment in assignments {
            let value = evaluate(expr, &assignment).ok()?;
            if seen.insert(format!("{value:?}")) {
                domain.push(value);
            }
        }
        // NULL is shown last, as PostgreSQL sorts it.
        domain.sort_by_key(Option::is_none);
        Some(domain)
    }

    fn column_values(&self, id: ColumnId) -> Option<Vec<Option<Scalar>>> {
        let info = &self.columns[id.0 as usize];
        if let Some((_, definition)) = self.computed.iter().find(|(made, _)| *made == id) {
            return self.missing_or_computed(id, definition);
        }
        let (table, position) = info.origin?;
        let column = &self.policy.tables[table.0].columns[position.0];
        let listed = match (&column.domain, &column.bounds, &column.data_type) {
            (Some(values), _, _) => values.clone(),
            (None, _, Type::Bool) => vec![Scalar::Bool(false), Scalar::Bool(true)],
            (None, Some(bounds), data_type) => {
                between(bounds, data_type).or_else(|| self.asked_for(id))?
            }
            (None, None, _) => self.asked_for(id)?,
        };
        let mut values: Vec<Option<Scalar>> = listed.into_iter().map(Some).collect();
        if info.nullable || self.null_extended.contains(&id) {
            values.push(None);
        }
        self.retain(id, &mut values)?;
        Some(values)
    }

    /// Keeps the values that no condition on this column alone excludes.
    fn retain(&self, id: ColumnId, values: &mut Vec<Option<Scalar>>) -> Option<()> {
        let met = ColumnFilter::new(id, self.conditions.iter().copied());
        self.effort
            .spend(values.len(), met.evaluated_conditions(values))?;
        values.retain(|value| met.by(value));
        Some(())
    }

    pub(super) fn about(&self, id: ColumnId) -> Vec<&Expr> {
        self.conditions
            .iter()
            .copied()
            .filter(|c| c.columns() == [id])
            .collect()
    }

    /// The values of a computed column that an outer join may replace by NULL.
    fn missing_or_computed(&self, id: ColumnId, definition: &Expr) -> Option<Vec<Option<Scalar>>> {
        let mut values = self.domain(&over_rows(definition, self.computed, self.null_extended))?;
        if !values.contains(&None) {
            values.push(None);
        }
        self.retain(id, &mut values)?;
        Some(values)
    }

    /// Values of a column that the query itself lists: `x IN (1, 2)`, `x = 'a'`, or whole numbers
    /// and days between conditions.
    fn asked_for(&self, id: ColumnId) -> Option<Vec<Scalar>> {
        let data_type = &self.columns[id.0 as usize].data_type;
        let is_text = data_type.is_string();
        let is_subject = |e: &Expr| match &e.node {
            Node::Cast(inner) => {
                is_text && e.data_type == Type::Text && inner.as_column() == Some(id)
            }
            _ => e.as_column() == Some(id),
        };
        let listed = self
            .conditions
            .iter()
            .find_map(|condition| match &condition.node {
                Node::Call {
                    function: Function::In,
                    arguments,
                }
                | Node::Call {
                    function: Function::Equal,
                    arguments,
                } => match arguments.as_slice() {
                    [subject, list @ ..] if is_subject(subject) => list
                        .iter()
                        .map(|e| e.as_literal().map(|value| as_stored(value, data_type)))
                        .collect::<Option<Vec<_>>>(),
                    _ => None,
                },
                _ => None,
            });
        let is_of_type = |value: &Scalar| match value {
            Scalar::Int(_) => matches!(data_type, Type::Int2 | Type::Int4 | Type::Int8),
            Scalar::Decimal(_) => matches!(data_type, Type::Numeric(_)),
            Scalar::Text(_) => is_text && self.is_deterministic(id),
            Scalar::Date(_) => *data_type == Type::Date,
            Scalar::Bool(_) | Scalar::Timestamp(_) | Scalar::Interval { .. } => false,
        };
        if let Some(values) = listed.filter(|values| {
            values
                .iter()
                .all(|value| is_of_type(value) && !is_beyond(value))
        }) {
            return Some(
                values
                    .into_iter()
                    .filter(|value| is_held(value, data_type))
                    .collect(),
            );
        }
        // The contents of a public table are not the query's own list: only its conditions are.
        let is_public = self.columns[id.0 as usize]
            .origin
            .is_some_and(|(table, at)| self.policy.tables[table.0].columns[at.0].extent.is_some());
        if is_public && !self.conditions.iter().any(|c| c.columns() == [id]) {
            return None;
        }
        let between = derived_domain::integers(self.range(&Expr::column(id, data_type.clone())))?;
        match data_type {
            // A sum of small integers may leave its type and is clamped to it: such values are not
            // listed.
            Type::Int2 | Type::Int4 | Type::Int8 => {
                let (lower, upper) = integer_range(data_type)?;
                between
                    .map(|value| {
                        (lower..=upper)
                            .contains(&value)
                            .then_some(Scalar::Int(value))
                    })
                    .collect()
            }
            Type::Date => between
                .map(|day| i32::try_from(day).ok().map(Scalar::Date))
                .collect(),
            _ => None,
        }
    }

    fn is_timestamp(&self, id: ColumnId) -> bool {
        matches!(
            self.columns[id.0 as usize].data_type,
            Type::Timestamp | Type::Timestamptz
        )
    }

    /// The first instant of every day of a bounded timestamp, for an expression that depends on the
    /// day alone.
    fn days(&self, id: ColumnId, expr: &Expr) -> Option<Vec<Option<Scalar>>> {
        let info = &self.columns[id.0 as usize];
        info.origin?;
        let range = self.range(&Expr::column(id, info.data_type.clone()));
        let day = |micros: f64| (micros / MICROS_PER_DAY as f64).floor() as i64;
        let (first, last) = (day(range.lo), day(range.hi));
        if !day_grained(expr, id) || !range.is_finite() || last - first >= VALUES_MAX as i64 {
            return None;
        }
        let about_this = self.about(id);
        self.effort
            .spend((last - first) as usize, about_this.iter().copied())?;
        let mut days: Vec<Option<Scalar>> = (first..=last)
            .filter(|day| {
                let ends = [day * MICROS_PER_DAY, (day + 1) * MICROS_PER_DAY - 1];
                may_hold_within(&about_this, id, ends)
            })
            .map(|day| Some(Scalar::Timestamp(day * MICROS_PER_DAY)))
            .collect();
        if info.nullable || self.null_extended.contains(&id) {
            days.push(None);
        }
        Some(days)
    }
}

/// False for a text that is longer than a column of this type can store.
fn is_held(value: &Scalar, data_type: &Type) -> bool {
    match (value, data_type) {
        (Scalar::Text(text), Type::Char(Some(length))) => text.chars().count() <= *length as usize,
        _ => true,
    }
}

/// A constant as a column of this type stores it.
fn as_stored(value: &Scalar, data_type: &Type) -> Scalar {
    match value {
        Scalar::Text(text) => Scalar::Text(data_type.as_stored(text.clone())),
        other => other.clone(),
    }
}

/// Whether the column is only read through a field or truncation of a day or longer.
fn day_grained(expr: &Expr, id: ColumnId) -> bool {
    match &expr.node {
        Node::Column(column) => *column != id,
        Node::Literal(_) | Node::Constant(_) => true,
        Node::Exists { .. } => false,
        Node::Cast(inner) => {
            (inner.as_column() == Some(id) && expr.data_type == Type::Date)
                || day_grained(inner, id)
        }
        Node::Case {
            branches,
            otherwise,
        } => {
            branches
                .iter()
                .all(|(c, r)| day_grained(c, id) && day_grained(r, id))
                && otherwise.as_ref().is_none_or(|e| day_grained(e, id))
        }
        Node::Call {
            function: Function::Extract | Function::DatePart | Function::DateTrunc,
            arguments,
        } => match arguments.as_slice() {
            [field, operand] if operand.as_column() == Some(id) => {
                let within_days = |field: &str| {
                    matches!(
                        field,
                        "hour" | "minute" | "second" | "millisecond" | "microsecond" | "epoch"
                    )
                };
                matches!(field.as_literal(), Some(Scalar::Text(f)) if !within_days(f))
            }
            _ => arguments.iter().all(|a| day_grained(a, id)),
        },
        Node::Call {
            function: Function::Formatted,
            arguments,
        } => match arguments.as_slice() {
            [operand, format] if operand.as_column() == Some(id) => {
                let within_days = |format: &str| {
                    ["HH", "MI", "SS", "MS", "US", "FF", "AM", "PM"]
                        .iter()
                        .any(|pattern| format.contains(pattern))
                };
                matches!(format.as_literal(), Some(Scalar::Text(f)) if !within_days(f))
            }
            _ => arguments.iter().all(|a| day_grained(a, id)),
        },
        Node::Call {
            function: _,
            arguments,
        } => arguments.iter().all(|a| day_grained(a, id)),
    }
}

/// The results of a CASE whose branches are all constants.
pub(in crate::analyze) fn constant_branches(expr: &Expr) -> Option<Vec<Option<Scalar>>> {
    let Node::Case {
        branches,
        otherwise,
    } = &expr.node
    else {
        return None;
    };
    let mut values: Vec<Option<Scalar>> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for result in branches.iter().map(|(_, r)| r).chain(otherwise.as_deref()) {
        let Node::Literal(value) = &result.node else {
            return None;
        };
        if seen.insert(format!("{value:?}")) {
            values.push(value.clone());
        }
    }
    if otherwise.is_none() && !values.contains(&None) {
        values.push(None);
    }
    values.sort_by_key(Option::is_none);
    Some(values)
}

pub(super) fn between(bounds: &ColumnBounds, data_type: &Type) -> Option<Vec<Scalar>> {
    values_between(bounds, data_type)?;
    match (&bounds.lower, &bounds.upper) {
        (Scalar::Int(lo), Scalar::Int(hi)) => Some((*lo..=*hi).map(Scalar::Int).collect()),
        (Scalar::Date(lo), Scalar::Date(hi)) => Some((*lo..=*hi).map(Scalar::Date).collect()),
        _ => None,
    }
}

/// How many values of this type lie within the bounds; `None` where they are too many to be listed.
pub fn values_between(bounds: &ColumnBounds, data_type: &Type) -> Option<usize> {
    let (lo, hi) = match (data_type, &bounds.lower, &bounds.upper) {
        (Type::Int2 | Type::Int4 | Type::Int8, Scalar::Int(lo), Scalar::Int(hi)) => (*lo, *hi),
        (Type::Date, Scalar::Date(lo), Scalar::Date(hi)) => (i64::from(*lo), i64::from(*hi)),
        // Timestamps are listed by their days: only fields of a day or longer are evaluated, and a
        // bare timestamp is not a listed key.
        _ => return None,
    };
    usize::try_from(hi.checked_sub(lo)?.checked_add(1)?)
        .ok()
        .filter(|count| (1..=VALUES_MAX).contains(count))
}
