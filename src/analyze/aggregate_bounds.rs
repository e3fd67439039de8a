//! The bounds of an aggregate: the range of its argument, whether it may be NULL, and for distinct
//! values how many a unit adds.

use super::Lineage;
use super::cardinality::GroupedRows;
use super::interval::Interval;
use super::keys::{KeyRule, Keys};
use super::nullability::Nullability;
use super::range::Ranges;
use crate::aggregates::{self, Bound, BoundedAggregate, PairLimits};
use crate::ir::literal::type_name;
use crate::ir::{Aggregate, Distinct, Expr, Node};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// Everything that bounds the aggregates of one release.
pub struct AggregateBounds<'a> {
    pub ranges: Ranges<'a>,
    pub nullability: Nullability<'a>,
    pub lineage: &'a Lineage,
    pub grouped_rows: &'a GroupedRows<'a>,
    /// Finds rules for values that are counted or chosen, as if these were keys.
    pub ruled: &'a Keys<'a>,
    pub keys: &'a [(Expr, KeyRule)],
}

impl AggregateBounds<'_> {
    /// Bounds one aggregate.
    ///
    /// # Guarantee
    /// As [`crate::ir::Operation::bound`]: there is a clip for every row's argument, whatever the
    /// row holds. The filter that is returned leaves the rows that the operation is over.
    ///
    /// # Errors
    /// 0A000 where no range is known, or where the aggregate has no sound answer.
    pub fn aggregate(&self, aggregate: &Aggregate) -> Result<BoundedAggregate, Refusal> {
        let Aggregate {
            operation,
            filter,
            data_type,
            place: _,
        } = aggregate;
        let Bound {
            operation,
            mut conditions,
        } = operation.bound(self)?;
        // In whatever order the arguments are written, the rows are the same.
        conditions.sort_by_cached_key(|condition| format!("{condition:?}"));
        let filter = conditions
            .into_iter()
            .fold(filter.clone(), |filter, added| {
                Expr::and(filter.into_iter().chain([added]).collect())
            });
        Ok(BoundedAggregate {
            filter,
            operation,
            data_type: data_type.clone(),
        })
    }

    fn rule(&self, value: &Expr, name: &str) -> Result<KeyRule, Refusal> {
        let refused = |_| {
            Refusal::unsupported(
                reason::AGGREGATE_TYPE,
                format!(
                    "{name} of a value of this collation or of type {}",
                    type_name(&value.data_type)
                ),
            )
        };
        let ruled = self.ruled.rule(value);
        self.ruled.effort.within()?;
        ruled.map_err(refused)
    }
}

impl aggregates::Bounds for AggregateBounds<'_> {
    fn range(&self, value: &Expr) -> Interval {
        self.ranges.of(value)
    }

    fn may_be_null(&self, value: &Expr) -> bool {
        self.nullability.may_be_null(value)
    }

    /// At most the rows that one unit may have; where lists say which values and groups there are,
    /// at most the number of their combinations.
    fn pair_limits(&self, values: &Distinct, name: &str) -> Result<PairLimits, Refusal> {
        let all = match values {
            Distinct::Value(value) => std::slice::from_ref(value),
            Distinct::Row(values) => values.as_slice(),
        };
        let mut listed = 1u64;
        for value in all {
            listed = listed.saturating_mul(count(&self.rule(value, name)?));
        }
        let cells = self
            .keys
            .iter()
            .fold(listed, |cells, (_, rule)| cells.saturating_mul(count(rule)));
        let rows = self.lineage.rows_per_unit.max(1);
        let in_all = rows.min(self.grouped_rows.combinations(all)).min(cells);
        Ok(PairLimits {
            in_all,
            in_group: in_all
                .min(self.grouped_rows.combinations_in_group(all))
                .min(listed),
        })
    }

    fn listed_values(
        &self,
        value: &Expr,
        name: &str,
    ) -> Result<Option<Vec<Option<Scalar>>>, Refusal> {
        Ok(match self.rule(value, name)? {
            KeyRule::Domain(values) => Some(values),
            KeyRule::Threshold => None,
        })
    }

    fn is_read_once(&self, column: &Expr) -> bool {
        let column = column.as_column();
        column.is_some_and(|column| self.grouped_rows.is_read_once(column))
    }

    fn counted_unit(&self, values: &Distinct) -> Option<Option<Expr>> {
        counted_unit(values, self.lineage)
    }
}

/// The number of values that a rule lists; no bound where values come from the data.
fn count(rule: &KeyRule) -> u64 {
    match rule {
        KeyRule::Domain(values) => values.len().max(1) as u64,
        KeyRule::Threshold => u64::MAX,
    }
}

/// COUNT(DISTINCT unit), also as COUNT(DISTINCT CASE WHEN condition THEN unit END): with the
/// condition.
fn counted_unit(values: &Distinct, lineage: &Lineage) -> Option<Option<Expr>> {
    let Distinct::Value(argument) = values else {
        return None;
    };
    let is_unit = |e: &Expr| e.as_column().is_some_and(|id| lineage.units.contains(&id));
    if is_unit(argument) {
        return Some(None);
    }
    if let Node::Case {
        branches,
        otherwise,
    } = &argument.node
        && let [(condition, result)] = branches.as_slice()
        && otherwise
            .as_ref()
            .is_none_or(|e| e.node == Node::Literal(None))
        && is_unit(result)
    {
        return Some(Some(condition.clone()));
    }
    None
}
