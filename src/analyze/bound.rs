//! What bounds an aggregate's values: ranges, NULLs, and the pieces it falls into.

use super::interval::Interval;
use super::range::Ranges;
use super::{BoundedAggregate, BoundedOperation, Dispersion, Joint, Lineage, Nullability};
use crate::catalog::Type;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::resolve::catalogue::Function;
use crate::resolve::literal::integer_range;
use crate::resolve::{Aggregate, ColumnId, Distinct, Expr, Node, Operation, Paired, Quantifier};

/// Bounds one aggregate.
///
/// # Errors
/// 0A000 where no range is known, or nothing sound answers the aggregate.
pub fn bound(
    aggregate: &Aggregate,
    ranges: &Ranges<'_>,
    nullability: &Nullability<'_>,
    lineage: &Lineage,
    policy: &Policy,
) -> Result<BoundedAggregate, Refusal> {
    let Aggregate { operation, filter, data_type } = aggregate;
    let mut filter = filter.clone();
    let mut narrow = |condition: Expr| filter = Expr::and(filter.take().into_iter().chain([condition]).collect());
    let nullable = |e: &Expr| nullability.may_be_null(e);
    let operation = match operation {
        Operation::CountRows => BoundedOperation::CountRows,
        Operation::Count(argument) => BoundedOperation::Count { argument: argument.clone(), nullable: nullable(argument) },
        Operation::Distinct(Distinct::Value(argument)) => {
            let (unit, condition) = counted_unit(argument, lineage, policy)?;
            debug_assert!(lineage.units.contains(&unit));
            condition.into_iter().for_each(narrow);
            BoundedOperation::CountUnits
        }
        Operation::Sum(argument) => {
            BoundedOperation::Sum { argument: argument.clone(), range: finite(argument, ranges, "SUM")?, nullable: nullable(argument) }
        }
        Operation::Average(argument) => {
            BoundedOperation::Average { argument: argument.clone(), range: finite(argument, ranges, "AVG")?, nullable: nullable(argument) }
        }
        Operation::Variance { value, kind } => {
            let range = finite(value, ranges, "VARIANCE or STDDEV")?;
            BoundedOperation::Dispersion { argument: value.clone(), range, nullable: nullable(value), kind: Dispersion::Spread(*kind) }
        }
        Operation::Paired { y, x, kind } => {
            let (y, x) = (exact(y), exact(x));
            [y, x].into_iter().filter(|e| nullable(e)).for_each(|e| narrow(Expr::call(Function::IsNotNull, vec![e.clone()], Type::Bool)));
            paired(y, x, *kind, ranges)?
        }
        Operation::Truth { value, of } => {
            let counted = match of {
                Quantifier::All => Function::IsFalse,
                Quantifier::Any => Function::IsTrue,
            };
            narrow(Expr::call(counted, vec![value.clone()], Type::Bool));
            BoundedOperation::Truth(*of)
        }
        Operation::Distinct(Distinct::Row(_)) => return Err(unbounded("COUNT(DISTINCT …) of a row")),
        Operation::Extreme { .. } => return Err(unbounded("MIN and MAX")),
        Operation::Quantile { .. } => return Err(unbounded("PERCENTILE_CONT and PERCENTILE_DISC")),
        Operation::Mode(_) => return Err(unbounded("MODE()")),
    };
    Ok(BoundedAggregate { filter, operation, data_type: data_type.clone() })
}

/// A statistic of pairs; the filter leaves complete ones.
fn paired(y: &Expr, x: &Expr, kind: Paired, ranges: &Ranges<'_>) -> Result<BoundedOperation, Refusal> {
    let range = |e: &Expr| finite(e, ranges, "a statistic of pairs");
    let joint = |kind: Joint| Ok(BoundedOperation::Joint { y: y.clone(), y_range: range(y)?, x: x.clone(), x_range: range(x)?, kind });
    let average = |e: &Expr| Ok(BoundedOperation::Average { argument: e.clone(), range: range(e)?, nullable: false });
    let squares = |e: &Expr| Ok(BoundedOperation::Dispersion { argument: e.clone(), range: range(e)?, nullable: false, kind: Dispersion::Squares });
    match kind {
        Paired::Count => Ok(BoundedOperation::CountRows),
        Paired::AverageX => average(x),
        Paired::AverageY => average(y),
        Paired::SquaresX => squares(x),
        Paired::SquaresY => squares(y),
        Paired::CovariancePopulation => joint(Joint::CovariancePopulation),
        Paired::CovarianceSample => joint(Joint::CovarianceSample),
        Paired::Correlation => joint(Joint::Correlation),
        Paired::Products => joint(Joint::Products),
        Paired::Slope => joint(Joint::Slope),
        Paired::Intercept => joint(Joint::Intercept),
        Paired::Determination => joint(Joint::Determination),
    }
}

/// The number before its cast to float8, which keeps its value: its lattice is exact.
fn exact(expr: &Expr) -> &Expr {
    match &expr.node {
        Node::Cast(inner) if integer_range(&inner.data_type).is_some() || matches!(inner.data_type, Type::Numeric(_)) => inner,
        _ => expr,
    }
}

fn unbounded(what: &str) -> Refusal {
    Refusal::unsupported(what).hint("COUNT, SUM and AVG are answered.")
}

/// COUNT(DISTINCT unit), also as COUNT(DISTINCT CASE WHEN condition THEN unit END).
fn counted_unit(argument: &Expr, lineage: &Lineage, policy: &Policy) -> Result<(ColumnId, Option<Expr>), Refusal> {
    let is_unit = |e: &Expr| e.as_column().filter(|id| lineage.units.contains(id));
    if let Some(id) = is_unit(argument) {
        return Ok((id, None));
    }
    if let Node::Case { branches, otherwise } = &argument.node
        && let [(condition, result)] = branches.as_slice()
        && otherwise.as_ref().is_none_or(|e| e.node == Node::Literal(None))
        && let Some(id) = is_unit(result)
    {
        return Ok((id, Some(condition.clone())));
    }
    let unit = &policy.privacy.unit;
    Err(Refusal::unsupported(format!("COUNT(DISTINCT …) of anything but the column that identifies the {unit}"))
        .hint("COUNT(*) is answered, and COUNT(DISTINCT …) of that column; GROUP BY shows the values themselves."))
}

fn finite(argument: &Expr, ranges: &Ranges<'_>, name: &str) -> Result<Interval, Refusal> {
    let range = ranges.of(argument);
    if !range.is_finite() {
        return Err(Refusal::unsupported(format!("{name} of a value whose range is not known"))
            .hint("Clamp it inline, as in SUM(LEAST(GREATEST(x, 0), 100)), add a condition such as WHERE x BETWEEN 0 AND 100, or ask the data owner to declare bounds."));
    }
    Ok(range)
}
