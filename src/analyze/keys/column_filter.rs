//! Conditions on one column alone, checked against the column's possible values. The constants of
//! an IN list are looked up in a set: comparing each of them with each value would take too long.

use std::collections::HashSet;
use std::mem::discriminant;

use crate::catalog::Type;
use crate::ir::evaluate::{NotEvaluable, evaluate};
use crate::ir::functions::Function;
use crate::ir::{ColumnId, Expr, Node};
use crate::policy::Scalar;

/// The conditions on a column.
pub(in crate::analyze) struct ColumnFilter<'e> {
    id: ColumnId,
    conditions: Vec<(&'e Expr, Option<List<'e>>)>,
}

/// `column IN (…)` of constants of one kind, whose equality is plain.
struct List<'e> {
    values: HashSet<Plain<'e>>,
    negated: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Plain<'e> {
    Bool(bool),
    Int(i64),
    Date(i32),
    Timestamp(i64),
    Text(&'e str),
}

impl<'e> Plain<'e> {
    fn of(value: &'e Scalar) -> Option<Self> {
        match value {
            Scalar::Bool(value) => Some(Self::Bool(*value)),
            Scalar::Int(value) => Some(Self::Int(*value)),
            Scalar::Date(value) => Some(Self::Date(*value)),
            Scalar::Timestamp(value) => Some(Self::Timestamp(*value)),
            Scalar::Text(value) => Some(Self::Text(value)),
            Scalar::Decimal(_) | Scalar::Interval { .. } => None,
        }
    }
}

impl List<'_> {
    /// A value of the list's kind is looked up.
    fn holds_kind_of(&self, value: &Plain) -> bool {
        self.values
            .iter()
            .next()
            .is_some_and(|one| discriminant(one) == discriminant(value))
    }
}

impl<'e> ColumnFilter<'e> {
    pub(in crate::analyze) fn new(
        id: ColumnId,
        conditions: impl IntoIterator<Item = &'e Expr>,
    ) -> Self {
        let about_this = conditions.into_iter().filter(|c| c.columns() == [id]);
        Self {
            id,
            conditions: about_this.map(|c| (c, list(c, id, false))).collect(),
        }
    }

    /// The conditions that are evaluated for each of the values, not looked up.
    pub(in crate::analyze) fn evaluated_conditions(
        &self,
        values: &[Option<Scalar>],
    ) -> Vec<&'e Expr> {
        let is_looked_up = |list: &List| {
            values
                .iter()
                .flatten()
                .all(|value| Plain::of(value).is_some_and(|plain| list.holds_kind_of(&plain)))
        };
        self.conditions
            .iter()
            .filter(|(_, list)| !list.as_ref().is_some_and(is_looked_up))
            .map(|(condition, _)| *condition)
            .collect()
    }

    /// False only where a condition excludes the value.
    pub(in crate::analyze) fn by(&self, value: &Option<Scalar>) -> bool {
        self.conditions.iter().all(|(condition, list)| {
            let plain = value.as_ref().and_then(Plain::of);
            match (list, plain) {
                (Some(list), Some(plain)) if list.holds_kind_of(&plain) => {
                    list.values.contains(&plain) != list.negated
                }
                _ => match evaluate(condition, &[(self.id, value.clone())]) {
                    Ok(holds) => holds == Some(Scalar::Bool(true)),
                    Err(NotEvaluable) => true,
                },
            }
        })
    }
}

/// The list, where the condition is one of constants of one kind.
fn list(condition: &Expr, id: ColumnId, negated: bool) -> Option<List<'_>> {
    let Node::Call {
        function,
        arguments,
    } = &condition.node
    else {
        return None;
    };
    match (function, arguments.as_slice()) {
        (Function::Not, [inner]) => list(inner, id, !negated),
        (Function::In, [subject, items @ ..]) if is_column(subject, id) => {
            let values = items
                .iter()
                .map(|item| item.as_literal().and_then(Plain::of))
                .collect::<Option<HashSet<_>>>()?;
            let first = values.iter().next()?;
            values
                .iter()
                .all(|value| discriminant(value) == discriminant(first))
                .then(|| List {
                    values: values.clone(),
                    negated,
                })
        }
        _ => None,
    }
}

/// The column, or a text as PostgreSQL compares it.
fn is_column(expr: &Expr, id: ColumnId) -> bool {
    match &expr.node {
        Node::Cast(inner) => {
            let is_text = matches!(inner.data_type, Type::Text | Type::Varchar(_))
                && expr.data_type == Type::Text;
            is_text && inner.as_column() == Some(id)
        }
        _ => expr.as_column() == Some(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ColumnId = ColumnId(3);

    fn listed(values: impl IntoIterator<Item = Option<Scalar>>, data_type: &Type) -> Expr {
        let items = values
            .into_iter()
            .map(|value| Expr::literal(value, data_type.clone()));
        Expr::call(
            Function::In,
            [Expr::column(ID, data_type.clone())]
                .into_iter()
                .chain(items)
                .collect(),
            Type::Bool,
        )
    }

    fn not(expr: Expr) -> Expr {
        Expr::call(Function::Not, vec![expr], Type::Bool)
    }

    /// A look-up in the set agrees with evaluation, for every kind of value and list.
    #[test]
    fn lists_say_what_evaluation_says() {
        let (int, text) = (
            |n: i64| Some(Scalar::Int(n)),
            |t: &str| Some(Scalar::Text(t.to_owned())),
        );
        let decimal = |t: &str| Some(Scalar::Decimal(t.to_owned()));
        let lists = [
            listed([int(1), int(2)], &Type::Int4),
            listed([int(1), None], &Type::Int4),
            listed([int(1), decimal("2.0")], &Type::Numeric(None)),
            listed([text("a"), text("b ")], &Type::Text),
            listed([Some(Scalar::Date(7))], &Type::Date),
            listed([Some(Scalar::Bool(true))], &Type::Bool),
        ];
        let values = [
            int(1),
            int(2),
            int(3),
            None,
            decimal("1"),
            decimal("2"),
            text("a"),
            text("b"),
            Some(Scalar::Date(7)),
            Some(Scalar::Bool(false)),
        ];
        for list in lists
            .iter()
            .flat_map(|list| [list.clone(), not(list.clone()), not(not(list.clone()))])
        {
            let met = ColumnFilter::new(ID, [&list]);
            for value in &values {
                let wanted = match evaluate(&list, &[(ID, value.clone())]) {
                    Ok(holds) => holds == Some(Scalar::Bool(true)),
                    Err(NotEvaluable) => true,
                };
                assert_eq!(met.by(value), wanted, "{list:?} {value:?}");
            }
        }
    }

    /// There are as many values as listed ones: work by their product would not end.
    #[test]
    fn many_values_are_held_against_a_long_list() {
        let list = listed((0..50_000).map(|n| Some(Scalar::Int(n * 2))), &Type::Int4);
        let other = not(listed(
            (0..50_000).map(|n| Some(Scalar::Int(n * 3))),
            &Type::Int4,
        ));
        let elsewhere = Expr::call(
            Function::Equal,
            vec![Expr::column(ColumnId(4), Type::Int4); 2],
            Type::Bool,
        );
        let met = ColumnFilter::new(ID, [&list, &other, &elsewhere]);
        assert_eq!(
            (0..50_000)
                .filter(|n| met.by(&Some(Scalar::Int(*n))))
                .count(),
            16_666
        );
    }
}
