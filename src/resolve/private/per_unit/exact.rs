//! Aggregates as exact functions of the set of a unit's rows.

use crate::catalog::Type;
use crate::ir::aggregate::{Aggregate, Fractions, Moment, Operation};
use crate::ir::expression::{Expr, Node};
use crate::refusal::{Refusal, reason};

/// Makes the aggregate a function of the set of a unit's rows. The sum of floats depends on their
/// order, so floats are added as numerics.
pub(in crate::resolve) fn exact(aggregate: Aggregate, name: &str) -> Result<Aggregate, Refusal> {
    let Aggregate {
        operation,
        filter,
        data_type,
        place,
    } = aggregate;
    check_exact(&operation, name)?;
    let is_float = |e: &Expr| matches!(e.data_type, Type::Float4 | Type::Float8);
    let numeric = Type::Numeric(None);
    let (operation, data_type) = match operation {
        Operation::Sum(value) if is_float(&value) => {
            (Operation::Sum(value.cast(numeric.clone())), numeric)
        }
        Operation::Average(value) if is_float(&value) => {
            (Operation::Average(value.cast(numeric.clone())), numeric)
        }
        Operation::Unlike { value, moment } if is_float(&value) => (
            Operation::Unlike {
                value: value.cast(numeric.clone()),
                moment,
            },
            numeric,
        ),
        Operation::Variance { value, kind } if is_float(&value) => (
            Operation::Variance {
                value: value.cast(numeric.clone()),
                kind,
            },
            numeric,
        ),
        Operation::Paired { y, x, kind } => (
            Operation::Paired {
                y: decimal(y),
                x: decimal(x),
                kind,
            },
            data_type,
        ),
        other @ (Operation::Quantile { .. } | Operation::Mode { .. }) => (other, data_type),
        other @ (Operation::CountRows
        | Operation::Count(_)
        | Operation::Distinct(_)
        | Operation::Sum(_)
        | Operation::Average(_)) => (other, data_type),
        other @ (Operation::Variance { .. }
        | Operation::Extreme { .. }
        | Operation::Truth { .. }) => (other, data_type),
        other @ Operation::Unlike { .. } => (other, data_type),
    };
    Ok(Aggregate {
        operation,
        filter,
        data_type,
        place,
    })
}

/// Refuses aggregates that have no exact form within one unit.
pub(super) fn check_exact(operation: &Operation, name: &str) -> Result<(), Refusal> {
    match operation {
        Operation::Sum(value)
        | Operation::Unlike {
            value,
            moment: Moment::Sum,
        } if value.data_type == Type::Float4 => Err(Refusal::unsupported(
            reason::AGGREGATE_TYPE,
            format!("{name}() of type real within one unit"),
        )
        .hint("Cast the value to double precision.")),
        Operation::Quantile {
            fractions: Fractions::Array(_),
            ..
        } => Err(Refusal::unsupported(
            reason::PERCENTILE_FRACTION,
            format!("{name}() of several fractions within one unit"),
        )
        .hint("Call it once for each fraction.")),
        Operation::CountRows
        | Operation::Count(_)
        | Operation::Distinct(_)
        | Operation::Sum(_)
        | Operation::Average(_)
        | Operation::Unlike { .. } => Ok(()),
        Operation::Variance { .. }
        | Operation::Paired { .. }
        | Operation::Quantile { .. }
        | Operation::Mode { .. }
        | Operation::Extreme { .. }
        | Operation::Truth { .. } => Ok(()),
    }
}

/// The value as a numeric, without a detour over float8.
pub(super) fn decimal(value: Expr) -> Expr {
    match value.node {
        Node::Cast(inner)
            if matches!(
                inner.data_type,
                Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric(_)
            ) =>
        {
            inner.cast(Type::Numeric(None))
        }
        node => Expr {
            node,
            data_type: value.data_type,
        }
        .cast(Type::Numeric(None)),
    }
}
