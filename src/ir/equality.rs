//! The comparison that an equality uses. A unique key proves nothing under a comparison that is
//! less strict than the key's index.

use super::expression::{Expr, Node};
use super::functions::Function;
use super::relation::{ColumnId, ColumnInfo};
use crate::catalog::{Collation, Equality, Type};
use crate::policy::{ColumnPosition, Policy};

impl Expr {
    /// The two sides of an `=`.
    pub fn sides_of_equality(&self) -> Option<&[Expr; 2]> {
        match &self.node {
            Node::Call {
                function: Function::Equal,
                arguments,
            } => arguments.as_slice().try_into().ok(),
            _ => None,
        }
    }

    /// Each column that this condition equates with an expression, and the expression.
    pub fn equated_columns(&self) -> impl Iterator<Item = (ColumnId, &Expr)> {
        let pairs = self
            .sides_of_equality()
            .map(|[a, b]| [(a, b), (b, a)])
            .into_iter()
            .flatten();
        pairs.filter_map(|(one, other)| Some((one.as_column()?, other)))
    }
}

/// The comparison that `column = other` uses; `None` unless it is known to be as strict as `=` of
/// the column's own type.
pub fn equality(
    column: ColumnId,
    other: &Expr,
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Option<Equality> {
    let own = &columns[column.0 as usize].data_type;
    if !is_as_strict(own, &other.data_type) {
        return None;
    }
    let mut loose: Option<&Collation> = None;
    for id in std::iter::once(column).chain(other.columns()) {
        match collation(&columns[id.0 as usize], policy)? {
            Collated::Strictly => {}
            Collated::Loosely(own) if loose.is_none_or(|known| known == own) => loose = Some(own),
            // PostgreSQL has no such operator for two different types.
            Collated::Loosely(_) => return None,
        }
    }
    Some(loose.map_or(Equality::Exact, |collation| {
        Equality::Under(collation.clone())
    }))
}

enum Collated<'a> {
    /// Only identical texts are equal: the collation is deterministic, or the type is not a text.
    Strictly,
    Loosely(&'a Collation),
}

/// `None` if unknown: a text that is computed from others has their collation.
fn collation<'a>(info: &ColumnInfo, policy: &'a Policy) -> Option<Collated<'a>> {
    if !may_be_loose(&info.data_type) {
        return Some(Collated::Strictly);
    }
    let Some((table, ColumnPosition(at))) = info.origin else {
        let all_strict = policy
            .tables
            .iter()
            .flat_map(|table| &table.columns)
            .all(|column| column.deterministic_collation);
        return all_strict.then_some(Collated::Strictly);
    };
    let column = &policy.tables[table.0].columns[at];
    if column.deterministic_collation {
        return Some(Collated::Strictly);
    }
    // A type that defines equality differently (citext) cannot be used here.
    let is_text = matches!(
        info.data_type,
        Type::Text | Type::Varchar(_) | Type::Char(_)
    );
    column
        .collation
        .as_ref()
        .filter(|_| is_text)
        .map(Collated::Loosely)
}

fn may_be_loose(data_type: &Type) -> bool {
    match data_type {
        Type::Text | Type::Varchar(_) | Type::Char(_) | Type::Other { .. } => true,
        Type::Bool
        | Type::Int2
        | Type::Int4
        | Type::Int8
        | Type::Numeric(_)
        | Type::Float4
        | Type::Float8 => false,
        Type::Uuid
        | Type::Date
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_) => false,
    }
}

/// Whether two values of the column's type must be equal to each other if both equal the same value
/// of the other type.
fn is_as_strict(own: &Type, other: &Type) -> bool {
    match own {
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_) => matches!(
            other,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_)
        ),
        Type::Float4 | Type::Float8 => matches!(other, Type::Float4 | Type::Float8),
        // Compared with a padded text, a text loses its trailing blanks.
        Type::Text | Type::Varchar(_) => matches!(other, Type::Text | Type::Varchar(_)),
        Type::Char(_) => matches!(other, Type::Char(_) | Type::Text | Type::Varchar(_)),
        Type::Date => matches!(other, Type::Date | Type::Timestamp),
        // Compared with a timestamptz, two timestamps coincide where clocks are put forward.
        Type::Bool
        | Type::Uuid
        | Type::Timestamp
        | Type::Timestamptz
        | Type::Interval
        | Type::Time
        | Type::Enum(_)
        | Type::Other { .. } => own == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_compared_as_strictly_or_not() {
        let numeric = Type::Numeric(Some((9, 2)));
        let strict = [
            (Type::Int4, numeric.clone()),
            (Type::Varchar(Some(3)), Type::Text),
            (Type::Char(Some(3)), Type::Text),
            (Type::Float4, Type::Float8),
        ];
        let loose = [
            (Type::Int8, Type::Float8),
            (numeric, Type::Float8),
            (Type::Text, Type::Char(Some(3))),
            (Type::Timestamp, Type::Timestamptz),
        ];
        assert!(strict.iter().all(|(own, other)| is_as_strict(own, other)));
        assert!(!loose.iter().any(|(own, other)| is_as_strict(own, other)));
    }
}
