//! FILTER conditions at most one of which holds for a row, as in a pivot: `x = 1`, `x = 2`.

use super::inline;
use super::per_unit::is_deterministic;
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::is_beyond;
use crate::ir::{ColumnId, ColumnInfo, Expr, Node};
use crate::policy::{Policy, Scalar};

/// Filters of which at most one holds for any row.
struct Class {
    subject: Expr,
    /// The values of the subject for which some member may hold.
    values: Vec<Scalar>,
    members: Vec<Expr>,
}

/// The filters of aggregates in classes of at least two; no filter is in two of them.
///
/// # Guarantee
/// For each row, whatever it holds, at most one filter of a class is true. Each filter of a class
/// demands that one and the same expression equals one of some constants. The expression has one
/// value in a row, and no two filters share a constant. The constants differ as they are emitted,
/// by the type's own equality, and texts byte for byte under deterministic collations.
pub(super) fn exclusive_filters<'f>(
    filters: impl Iterator<Item = &'f Expr>,
    computed: &[(ColumnId, Expr)],
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Vec<Vec<Expr>> {
    let mut classes: Vec<Class> = Vec::new();
    for filter in filters {
        if classes.iter().any(|class| class.members.contains(filter)) {
            continue;
        }
        let mut demands = filter.conjuncts().into_iter().filter_map(demand);
        let is_exact = |subject: &Expr| {
            !subject.data_type.is_string()
                || is_deterministic(&inline(subject, computed), policy, columns)
        };
        let Some((subject, values)) = demands.find(|(subject, _)| is_exact(subject)) else {
            continue;
        };
        let fits = |class: &&mut Class| {
            class.subject == subject && values.iter().all(|value| !class.values.contains(value))
        };
        match classes.iter_mut().find(fits) {
            Some(class) => {
                class.values.extend(values);
                class.members.push(filter.clone());
            }
            None => classes.push(Class {
                subject,
                values,
                members: vec![filter.clone()],
            }),
        }
    }
    let shared = classes.into_iter().filter(|class| class.members.len() > 1);
    shared.map(|class| class.members).collect()
}

/// The expression that a condition demands to equal one of some constants.
fn demand(condition: &Expr) -> Option<(Expr, Vec<Scalar>)> {
    if !condition.relations().is_empty() {
        return None;
    }
    if let Node::Column(_) = condition.node {
        return Some((condition.clone(), vec![Scalar::Bool(true)]));
    }
    let Node::Call {
        function,
        arguments,
    } = &condition.node
    else {
        return None;
    };
    match (function, arguments.as_slice()) {
        (Function::Not, [subject]) => Some((subject.clone(), vec![Scalar::Bool(false)])),
        (Function::Equal, [one, other]) => listed_constants(one, std::slice::from_ref(other))
            .or_else(|| listed_constants(other, std::slice::from_ref(one))),
        (Function::In, [subject, list @ ..]) => listed_constants(subject, list),
        _ => None,
    }
}

/// Constants of a type whose different constants are different values.
fn listed_constants(subject: &Expr, list: &[Expr]) -> Option<(Expr, Vec<Scalar>)> {
    let constant = |expr: &Expr| {
        // A date beyond those that pgveil computes with is emitted as the last of them.
        let value = expr
            .as_literal()
            .filter(|value| expr.data_type == subject.data_type && !is_beyond(value))?;
        let is_exact = matches!(
            (&subject.data_type, value),
            (Type::Bool, Scalar::Bool(_))
                | (Type::Int2 | Type::Int4 | Type::Int8, Scalar::Int(_))
                | (Type::Text | Type::Varchar(_), Scalar::Text(_))
                | (Type::Date, Scalar::Date(_))
        );
        is_exact.then(|| value.clone())
    };
    let values = list.iter().map(constant).collect::<Option<Vec<_>>>()?;
    Some((subject.clone(), values))
}
