//! Conditions that no row can meet: they contradict a column's complete list of values, or the
//! bounds that its values are clamped to.

use std::mem::discriminant;

use super::{ColumnFilter, Keys, listed_values};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::is_beyond;
use crate::ir::{ColumnId, Expr, Node, TableId};
use crate::policy::{Column, ColumnPosition, Protection, Scalar, Table};

/// Longest constant for which a similar value is looked for, in characters.
const LIKE_MAX: usize = 100;

/// Why no row can meet a release's conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct NoRow {
    /// The column whose conditions exclude all its values.
    pub table: TableId,
    pub position: ColumnPosition,
    pub because: NoRowReason,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NoRowReason {
    /// A condition compares the column with a constant that is not listed; perhaps the listed value
    /// `like` was meant.
    Unlisted {
        constant: Scalar,
        like: Option<Scalar>,
    },
    /// The conditions lie outside its bounds, to which the statement clamps its values.
    Outside(Scalar, Scalar),
    /// The conditions contradict each other, or exclude each listed value.
    Contradiction,
}

impl Keys<'_> {
    /// Why no row can meet the conditions; `None` where one may.
    ///
    /// # Guarantee
    /// The policy, the query and the session's settings decide it, never a private row, and never
    /// a value that was released before: [`Node::Constant`] is not evaluated. So an answer for no
    /// row reveals nothing, whether or not the policy's word holds.
    pub(in crate::analyze) fn no_row(&self) -> Option<NoRow> {
        let mut ids: Vec<ColumnId> = self.conditions.iter().flat_map(|c| c.columns()).collect();
        ids.sort();
        ids.dedup();
        ids.into_iter().find_map(|id| self.excludes_all(id))
    }

    /// The reason, if the conditions on this column alone exclude every value that it can have.
    fn excludes_all(&self, id: ColumnId) -> Option<NoRow> {
        let info = self.columns.get(id.0 as usize)?;
        let (table, position) = info.origin?;
        let Table {
            columns,
            protection,
            ..
        } = &self.policy.tables[table.0];
        let column = &columns[position.0];
        if *protection == Protection::Public {
            return None;
        }
        let about: Vec<&Expr> = self.about(id);
        let constants: Vec<&Scalar> = about.iter().flat_map(|c| literals(c)).collect();
        // Such a constant is compared with the stored value, not with the clamped one.
        if about.is_empty() || constants.iter().any(|value| is_beyond(value)) {
            return None;
        }
        if about.iter().any(|condition| maps_case(condition)) {
            return None;
        }
        let possible = possible(column)?;
        let mut values: Vec<Option<Scalar>> = possible.iter().cloned().map(Some).collect();
        if info.nullable || self.null_extended.contains(&id) {
            values.push(None);
        }
        let met = ColumnFilter::new(id, about.iter().copied());
        self.effort
            .spend(values.len(), met.evaluated_conditions(&values))?;
        if values.iter().any(|value| met.by(value)) {
            return None;
        }
        Some(NoRow {
            table,
            position,
            because: because(column, &possible, &about),
        })
    }
}

/// Every value but NULL that the column can have where rows are selected: those of a list that the
/// policy calls complete, or those within bounds, to which the statement clamps all others.
fn possible(column: &Column) -> Option<Vec<Scalar>> {
    match (&column.domain, &column.bounds, &column.data_type) {
        // Decimals that differ may be one float. An enum may get labels, and an answer for no row
        // asks the database nothing, so that it would not notice.
        (Some(_), _, Type::Float4 | Type::Float8 | Type::Enum(_)) => None,
        (Some(values), _, _) => column.is_complete.then(|| values.clone()),
        (None, _, Type::Bool) => Some(vec![Scalar::Bool(false), Scalar::Bool(true)]),
        (None, Some(bounds), data_type) => listed_values::between(bounds, data_type),
        (None, None, _) => None,
    }
}

/// Which letters are pairs depends on the collation.
fn maps_case(condition: &Expr) -> bool {
    let mut found = false;
    condition.walk(&mut |expr| {
        found |= matches!(
            &expr.node,
            Node::Call {
                function: Function::Lower | Function::Upper | Function::Initcap,
                arguments: _,
            }
        );
    });
    found
}

fn literals(condition: &Expr) -> Vec<&Scalar> {
    let mut found = Vec::new();
    condition.walk(&mut |expr| {
        if let Node::Literal(Some(value)) = &expr.node {
            found.push(value);
        }
    });
    found
}

/// Constants that a condition demands the column to be equal to.
fn sought(condition: &Expr) -> Vec<&Scalar> {
    match &condition.node {
        Node::Call {
            function: Function::Equal | Function::In,
            arguments,
        } => arguments.iter().filter_map(Expr::as_literal).collect(),
        _ => Vec::new(),
    }
}

fn because(column: &Column, possible: &[Scalar], conditions: &[&Expr]) -> NoRowReason {
    let is_unlisted = |value: &&&Scalar| {
        let is_of_kind = |listed: &Scalar| discriminant(listed) == discriminant(**value);
        possible.first().is_some_and(is_of_kind) && !possible.contains(value)
    };
    if let (None, Some(bounds)) = (&column.domain, &column.bounds) {
        let mut constants = conditions.iter().flat_map(|c| literals(c));
        return if constants.any(|value| is_unlisted(&&value)) {
            NoRowReason::Outside(bounds.lower.clone(), bounds.upper.clone())
        } else {
            NoRowReason::Contradiction
        };
    }
    let sought: Vec<&Scalar> = conditions.iter().flat_map(|c| sought(c)).collect();
    let Some(unlisted) = sought.iter().find(is_unlisted) else {
        return NoRowReason::Contradiction;
    };
    let like = possible
        .iter()
        .filter_map(|value| match (value, unlisted) {
            (Scalar::Text(one), Scalar::Text(other)) => Some((distance(one, other)?, value)),
            _ => None,
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, value)| value.clone());
    NoRowReason::Unlisted {
        constant: (*unlisted).clone(),
        like,
    }
}

/// How many letters differ, whatever their case; `None` where more than two do, or a third of them.
fn distance(one: &str, other: &str) -> Option<usize> {
    let letters = |text: &str| -> Vec<char> {
        text.trim_end()
            .chars()
            .take(LIKE_MAX + 1)
            .flat_map(char::to_lowercase)
            .collect()
    };
    let (one, other) = (letters(one), letters(other));
    let most = 2.min(other.len() / 3);
    if one.len().max(other.len()) > LIKE_MAX || one.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (place, with) in other.iter().enumerate() {
            let replaced = before + usize::from(letter != with);
            before = row[place + 1];
            row[place + 1] = replaced.min(before + 1).min(row[place] + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn spellings_are_alike_within_two_letters() {
        for (one, other, wanted) in [
            ("50-74K", "50-74k", Some(0)),
            ("white", "whit", Some(1)),
            ("white", "hwite", None),
            ("Probable Homeowner", "probable homewoner", Some(2)),
            ("Probable Homeowner", "Probable Owner", None),
            ("a", "b", None),
            ("", "", Some(0)),
            ("white", "black", None),
        ] {
            assert_eq!(distance(one, other), wanted, "{one} {other}");
        }
    }
}
