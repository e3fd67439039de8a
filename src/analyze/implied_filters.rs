//! The FILTER that a CASE stands for: outside `x = 1` the rows of `sum(CASE WHEN x = 1 THEN y ELSE
//! 0 END)` add nothing.

use super::exclusive_filters::exclusive_filters;
use super::inline;
use crate::ir::{Aggregate, ColumnId, ColumnInfo, Expr, Node, Operation};
use crate::policy::{Policy, Scalar};

/// With at least this many filters that exclude each other, sums by FILTER have less noise than
/// sums of every row.
const PIVOT: usize = 3;

/// An aggregate of a release, and a simpler one that may replace it.
pub(super) struct Filtered {
    pub aggregate: Aggregate,
    /// The aggregate over the value of the CASE itself, where the CASE's condition is its FILTER.
    pub simpler: Option<Aggregate>,
}

/// The aggregates of a release, where those of a pivot that is written with CASE have its
/// conditions as FILTERs too.
///
/// # Guarantee
/// Each aggregate has the same released value with and without the FILTER.
/// - A row that does not meet the FILTER adds nothing: its argument is NULL, which no aggregate
///   counts, or 0 in a sum.
/// - If no row meets the FILTER, PostgreSQL's sum is 0 or NULL. A released sum is 0 plus noise in
///   both cases.
/// - For each row that meets the FILTER, the simpler aggregate has the argument of the original.
pub(super) fn with_implied_filters(
    aggregates: &[Aggregate],
    computed: &[(ColumnId, Expr)],
    policy: &Policy,
    columns: &[ColumnInfo],
) -> Vec<Filtered> {
    let filtered = |aggregate: &Aggregate| {
        let own = aggregate.filter.as_ref().map(|f| inline(f, computed));
        match implied_condition(&aggregate.operation, computed) {
            Some((condition, value)) => {
                let filter = Expr::and(own.into_iter().chain([condition]).collect());
                (filter, value)
            }
            None => (own, None),
        }
    };
    let filters: Vec<(Option<Expr>, Option<Expr>)> = aggregates.iter().map(filtered).collect();
    let all = filters.iter().filter_map(|(filter, _)| filter.as_ref());
    let classes = exclusive_filters(all, computed, policy, columns);
    let in_pivot = |filter: &Expr| {
        let class = classes.iter().find(|class| class.contains(filter));
        class.is_some_and(|class| class.len() >= PIVOT)
    };
    let with = |(aggregate, (filter, value)): (&Aggregate, (Option<Expr>, Option<Expr>))| {
        let Some(filter) = filter.filter(in_pivot) else {
            return Filtered {
                aggregate: aggregate.clone(),
                simpler: None,
            };
        };
        let filtered = Aggregate {
            filter: Some(filter),
            ..aggregate.clone()
        };
        let simpler = value.and_then(|value| aggregate.operation.over(value));
        let simpler = simpler.map(|operation| Aggregate {
            operation,
            ..filtered.clone()
        });
        Filtered {
            aggregate: filtered,
            simpler,
        }
    };
    aggregates.iter().zip(filters).map(with).collect()
}

/// The condition of the rows that change an aggregate, and the value that it takes from them. A 0
/// with decimals gives its decimals to the sum, and so stays.
fn implied_condition(
    operation: &Operation,
    computed: &[(ColumnId, Expr)],
) -> Option<(Expr, Option<Expr>)> {
    let (value, is_sum) = operation.adds()?;
    let Node::Case {
        branches,
        otherwise,
    } = inline(value, computed).node
    else {
        return None;
    };
    let adds_nothing = otherwise
        .as_deref()
        .is_none_or(|value| is_null(value) || (is_sum && is_zero(value)));
    let has_decimals = otherwise.as_deref().is_some_and(has_decimals);
    match <[(Expr, Expr); 1]>::try_from(branches) {
        Ok([(condition, value)]) if adds_nothing => {
            Some((condition, (!has_decimals).then_some(value)))
        }
        Ok(_) | Err(_) => None,
    }
}

fn is_null(value: &Expr) -> bool {
    match &value.node {
        Node::Literal(None) => true,
        Node::Cast(inner) => is_null(inner),
        Node::Literal(Some(_)) | Node::Column(_) | Node::Constant(_) => false,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => false,
    }
}

fn has_decimals(value: &Expr) -> bool {
    match &value.node {
        Node::Literal(Some(Scalar::Decimal(text))) => text.contains('.'),
        Node::Cast(inner) => has_decimals(inner),
        Node::Literal(_) | Node::Column(_) | Node::Constant(_) => false,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => false,
    }
}

/// The number 0 of some type.
fn is_zero(value: &Expr) -> bool {
    match &value.node {
        Node::Literal(Some(Scalar::Int(number))) => *number == 0,
        Node::Literal(Some(Scalar::Decimal(text))) => text.parse() == Ok(0f64),
        Node::Cast(inner) => value.data_type.is_number() && is_zero(inner),
        Node::Literal(_) | Node::Column(_) | Node::Constant(_) => false,
        Node::Call { .. } | Node::Case { .. } | Node::Exists { .. } => false,
    }
}
