//! Aggregates as exact functions of the set of a unit's rows.

use crate::ir::aggregate::Aggregate;
use crate::refusal::Refusal;

/// Makes the aggregate a function of the set of a unit's rows. The sum of floats depends on their
/// order, so floats are added as numerics.
pub(in crate::resolve) fn exact(aggregate: Aggregate, name: &str) -> Result<Aggregate, Refusal> {
    Ok(match aggregate.operation.exact(name)? {
        Some((operation, data_type)) => Aggregate {
            operation,
            data_type: data_type.unwrap_or(aggregate.data_type),
            ..aggregate
        },
        None => aggregate,
    })
}
