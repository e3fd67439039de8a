//! Keys that number the bins of a column: `width_bucket(x, ARRAY[20, 35])`.

use serde::{Deserialize, Serialize};

use super::sql_digest::SqlDigest;
use crate::analyze::KeyRule;
use crate::catalog::Type;
use crate::ir::evaluate::ValueSpan;
use crate::ir::functions::Function;
use crate::ir::literal::{as_number, integer_range};
use crate::ir::{ColumnId, ColumnInfo, Expr, Node};
use crate::policy::{BIN_SCALE_MAX, Policy, Scalar};
use crate::refusal::Refusal;

/// The bins of a bounded column. Its values lie within the bounds, because every expression reads
/// it with its clamp.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ColumnBins {
    /// Digest of the column's emitted SQL.
    pub column: SqlDigest,
    /// Ascending: the lower bound, where each further bin begins, and the upper bound.
    edges: Vec<Scalar>,
}

impl ColumnBins {
    /// The bins that a key numbers from 0 on; `None` where it is no such key.
    ///
    /// # Errors
    /// Those of `digest`.
    pub(in crate::rewrite) fn of(
        key: &Expr,
        columns: &[ColumnInfo],
        policy: &Policy,
        digest: impl Fn(&Expr) -> Result<SqlDigest, Refusal>,
    ) -> Result<Option<Self>, Refusal> {
        let Some((id, limits)) = column_and_limits(key) else {
            return Ok(None);
        };
        let info = &columns[id.0 as usize];
        let Some((table, at)) = info.origin else {
            return Ok(None);
        };
        let column = &policy.tables[table.0].columns[at.0];
        let Some(bounds) = column.bounds.as_ref().filter(|_| column.domain.is_none()) else {
            return Ok(None);
        };
        let ends = std::iter::once(&bounds.lower)
            .chain(limits)
            .chain([&bounds.upper]);
        let Some(edges) = ends.map(|edge| as_edge(edge, &info.data_type)).collect() else {
            return Ok(None);
        };
        let bins = Self {
            column: digest(&Expr::column(id, info.data_type.clone()))?,
            edges,
        };
        let numbers = bins
            .edges
            .iter()
            .map(as_number)
            .collect::<Option<Vec<f64>>>();
        let ascends = numbers.is_some_and(|n| n.windows(2).all(|pair| pair[0] < pair[1]));
        Ok(ascends.then_some(bins))
    }

    /// The column's values in the bin of this number; `None` where there is no such bin.
    pub fn span(&self, number: i64) -> Option<ValueSpan> {
        let at = usize::try_from(number).ok()?;
        let (first, next) = (self.edges.get(at)?, self.edges.get(at + 1)?);
        let is_last = at + 2 == self.edges.len();
        let before = match next {
            Scalar::Int(next) => Some(Scalar::Int(next - 1)),
            Scalar::Date(next) => Some(Scalar::Date(next - 1)),
            Scalar::Timestamp(next) => Some(Scalar::Timestamp(next - 1)),
            _ => None,
        };
        let (end, has_end) = match before.filter(|_| !is_last) {
            Some(before) => (before, true),
            None => (next.clone(), is_last),
        };
        Some(ValueSpan {
            first: first.clone(),
            end,
            has_end,
        })
    }
}

/// Whether a key numbers bins, and every number that it can have is listed. NULL is, where the key
/// may be NULL.
pub(super) fn lists_all_bins(key: &Expr, rule: &KeyRule) -> bool {
    let (
        Node::Call {
            function: Function::Thresholds,
            arguments,
        },
        KeyRule::Domain(values),
    ) = (&key.node, rule)
    else {
        return false;
    };
    let mut numbers = (0..arguments.len() as i64).map(|number| Some(Scalar::Int(number)));
    numbers.all(|number| values.contains(&number))
}

/// The column whose bins an expression numbers, and where all but the first one begin.
fn column_and_limits(key: &Expr) -> Option<(ColumnId, Vec<&Scalar>)> {
    let Node::Call {
        function: Function::Thresholds,
        arguments,
    } = &key.node
    else {
        return None;
    };
    let [subject, limits @ ..] = arguments.as_slice() else {
        return None;
    };
    let column = match &subject.node {
        Node::Cast(inner) if is_widened(&inner.data_type, &subject.data_type) => inner,
        _ => subject,
    };
    let limits = limits.iter().map(Expr::as_literal).collect::<Option<_>>()?;
    Some((column.as_column()?, limits))
}

/// Whether a cast changes no value.
fn is_widened(from: &Type, to: &Type) -> bool {
    match (from, to) {
        (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8) => true,
        (Type::Numeric(_), Type::Numeric(None)) => true,
        (from, to) => from == to,
    }
}

/// An edge as the values of the column are compared with it.
fn as_edge(edge: &Scalar, data_type: &Type) -> Option<Scalar> {
    match (data_type, edge) {
        (data_type, Scalar::Int(_)) if integer_range(data_type).is_some() => Some(edge.clone()),
        (Type::Date, Scalar::Date(_)) => Some(edge.clone()),
        (Type::Timestamp | Type::Timestamptz, Scalar::Timestamp(_)) => Some(edge.clone()),
        // A real is compared with the edge as a real, and so with another number.
        (Type::Float8, Scalar::Decimal(_) | Scalar::Int(_)) => as_decimal(edge),
        // Others are rounded in computations, but not in comparisons.
        (Type::Numeric(Some((_, scale))), Scalar::Decimal(_) | Scalar::Int(_)) => {
            as_decimal(edge).filter(|_| *scale <= BIN_SCALE_MAX)
        }
        _ => None,
    }
}

fn as_decimal(edge: &Scalar) -> Option<Scalar> {
    match edge {
        Scalar::Int(value) => Some(Scalar::Decimal(value.to_string())),
        Scalar::Decimal(_) => Some(edge.clone()),
        _ => None,
    }
}
