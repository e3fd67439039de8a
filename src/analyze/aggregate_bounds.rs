//! What bounds an aggregate: the range of its argument, whether it may be NULL, and for distinct
//! values how many a unit adds.

use super::cardinality::GroupedRows;
use super::interval::Interval;
use super::keys::{KeyRule, Keys};
use super::nullability::Nullability;
use super::range::Ranges;
use super::{BoundedAggregate, BoundedOperation, Dispersion, Joint, Lineage, PairLimits, Ranks};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::literal::{integer_range, type_name};
use crate::ir::{
    Aggregate, Distinct, Expr, Fractions, Moment, Node, Operation, Paired, Quantifier,
};
use crate::refusal::{Refusal, reason};

/// Everything that bounds the aggregates of one release.
pub struct Bounds<'a> {
    pub ranges: Ranges<'a>,
    pub nullability: Nullability<'a>,
    pub lineage: &'a Lineage,
    pub grouped_rows: &'a GroupedRows<'a>,
    /// Rules values that are counted or chosen as if they were keys.
    pub ruled: &'a Keys<'a>,
    pub keys: &'a [(Expr, KeyRule)],
}

impl Bounds<'_> {
    /// Bounds one aggregate.
    ///
    /// # Guarantee
    /// The range that is returned is a clip for every row's argument, whatever the row holds: it
    /// decides accuracy and noise, never whether there is a clip. Conditions that the operation
    /// implies (complete pairs, rows that are false or true) become part of the filter.
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
        let range = |value: &Expr, name: &str| finite(value, &self.ranges, name);
        let nullable = |e: &Expr| self.nullability.may_be_null(e);
        let mut conditions = Vec::new();
        let operation = match operation {
            Operation::CountRows => BoundedOperation::CountRows,
            Operation::Count(argument) => BoundedOperation::Count {
                argument: argument.clone(),
                nullable: nullable(argument),
            },
            Operation::Distinct(values) => self.distinct_count(values, &mut conditions)?,
            Operation::Sum(argument) => BoundedOperation::Sum {
                argument: argument.clone(),
                range: range(argument, "SUM")?,
                nullable: nullable(argument),
            },
            Operation::Average(argument) => BoundedOperation::Average {
                argument: argument.clone(),
                range: range(argument, "AVG")?,
                nullable: nullable(argument),
            },
            Operation::Unlike { value, moment } => self.distinct_moment(value, *moment)?,
            Operation::Variance { value, kind } => BoundedOperation::Dispersion {
                argument: value.clone(),
                range: range(value, "VARIANCE or STDDEV")?,
                nullable: nullable(value),
                kind: Dispersion::Spread(*kind),
            },
            Operation::Paired { y, x, kind } => {
                let (y, x) = (exact(y), exact(x));
                let complete = [y, x].into_iter().filter(|e| nullable(e));
                conditions.extend(
                    complete.map(|e| Expr::call(Function::IsNotNull, vec![e.clone()], Type::Bool)),
                );
                paired(y, x, *kind, &self.ranges)?
            }
            Operation::Truth { value, of } => {
                conditions.push(counted_rows(value, *of));
                BoundedOperation::Truth(*of)
            }
            Operation::Extreme { value, end } => {
                self.ranked(value, Ranks::End(*end), "MIN or MAX")?
            }
            Operation::Quantile {
                value,
                fractions,
                continuous,
                descending,
            } => self.quantile(value, fractions, *continuous, *descending)?,
            Operation::Mode {
                value,
                descending: _,
            } => self.mode(value)?,
        };
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

    /// A count of the unit itself counts units; any other one counts values.
    fn distinct_count(
        &self,
        values: &Distinct,
        conditions: &mut Vec<Expr>,
    ) -> Result<BoundedOperation, Refusal> {
        match counted_unit(values, self.lineage) {
            Some(condition) => {
                conditions.extend(condition);
                Ok(BoundedOperation::CountUnits)
            }
            None => Ok(BoundedOperation::Distinct {
                values: values.clone(),
                per_unit_max: self.distinct(values, "COUNT(DISTINCT …)")?,
            }),
        }
    }

    fn quantile(
        &self,
        value: &Expr,
        fractions: &Fractions,
        continuous: bool,
        descending: bool,
    ) -> Result<BoundedOperation, Refusal> {
        let ranks = Ranks::Fractions(if descending {
            fractions.turned()
        } else {
            fractions.clone()
        });
        if continuous {
            self.ranked(exact(value), ranks, "PERCENTILE_CONT")
        } else {
            self.ranked(value, ranks, "PERCENTILE_DISC")
        }
    }

    fn distinct_moment(
        &self,
        argument: &Expr,
        moment: Moment,
    ) -> Result<BoundedOperation, Refusal> {
        let name = match moment {
            Moment::Sum => "SUM(DISTINCT …)",
            Moment::Mean => "AVG(DISTINCT …)",
            Moment::Spread(_) => "VARIANCE or STDDEV(DISTINCT …)",
        };
        let per_unit_max = self.distinct(&Distinct::Value(argument.clone()), name)?;
        Ok(BoundedOperation::Unlike {
            argument: argument.clone(),
            range: finite(argument, &self.ranges, name)?,
            per_unit_max,
            moment,
        })
    }

    /// Most (group, value) pairs that are kept of one unit: no more than it may have rows, and,
    /// where the values and the groups are known, no more than there are.
    fn distinct(&self, values: &Distinct, name: &str) -> Result<PairLimits, Refusal> {
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

    fn ranked(&self, value: &Expr, ranks: Ranks, name: &str) -> Result<BoundedOperation, Refusal> {
        let ordered = match &value.data_type {
            Type::Int2
            | Type::Int4
            | Type::Int8
            | Type::Numeric(_)
            | Type::Float4
            | Type::Float8 => true,
            Type::Date | Type::Timestamp => true,
            Type::Bool
            | Type::Text
            | Type::Varchar(_)
            | Type::Char(_)
            | Type::Uuid
            | Type::Timestamptz
            | Type::Interval => false,
            Type::Time | Type::Enum(_) | Type::Other { .. } => false,
        };
        if !ordered {
            return Err(Refusal::unsupported(
                reason::AGGREGATE_TYPE,
                format!("{name} of a value of type {}", type_name(&value.data_type)),
            )
            .hint(
                "Numbers, dates and timestamps without time zone have bounds, within which a \
                    private answer is chosen; GROUP BY shows other values.",
            ));
        }
        Ok(BoundedOperation::Ranked {
            argument: value.clone(),
            range: finite(value, &self.ranges, name)?,
            ranks,
        })
    }

    fn mode(&self, value: &Expr) -> Result<BoundedOperation, Refusal> {
        match self.rule(value, "MODE()")? {
            KeyRule::Domain(values) if values.iter().any(Option::is_some) => {
                Ok(BoundedOperation::Mode {
                    argument: value.clone(),
                    values: values.into_iter().flatten().collect(),
                })
            }
            KeyRule::Domain(_) | KeyRule::Threshold => Err(Refusal::unsupported(
                reason::VALUE_DOMAIN_UNKNOWN,
                "MODE() of a value \
                whose domain is not known",
            )
            .hint(
                "Ask the data owner to declare the column's values, or group by it and order \
                    by the count.",
            )),
        }
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

/// How many values a rule lists; no bound where they come from the data.
fn count(rule: &KeyRule) -> u64 {
    match rule {
        KeyRule::Domain(values) => values.len().max(1) as u64,
        KeyRule::Threshold => u64::MAX,
    }
}

/// The rows that BOOL_AND or BOOL_OR count: those that are false, or true.
fn counted_rows(value: &Expr, of: Quantifier) -> Expr {
    let test = match of {
        Quantifier::All => Function::IsFalse,
        Quantifier::Any => Function::IsTrue,
    };
    Expr::call(test, vec![value.clone()], Type::Bool)
}

/// A statistic of pairs; the filter leaves complete ones.
fn paired(
    y: &Expr,
    x: &Expr,
    kind: Paired,
    ranges: &Ranges<'_>,
) -> Result<BoundedOperation, Refusal> {
    let range = |e: &Expr| finite_pair(e, ranges);
    let joint = |kind: Joint| {
        Ok(BoundedOperation::Joint {
            y: y.clone(),
            y_range: range(y)?,
            x: x.clone(),
            x_range: range(x)?,
            kind,
        })
    };
    let average = |e: &Expr| {
        Ok(BoundedOperation::Average {
            argument: e.clone(),
            range: range(e)?,
            nullable: false,
        })
    };
    let squares = |e: &Expr| {
        Ok(BoundedOperation::Dispersion {
            argument: e.clone(),
            range: range(e)?,
            nullable: false,
            kind: Dispersion::Squares,
        })
    };
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

/// The number before its cast to float8, which keeps its value: its fixed-point grid is exact.
fn exact(expr: &Expr) -> &Expr {
    match &expr.node {
        Node::Cast(inner)
            if integer_range(&inner.data_type).is_some()
                || matches!(inner.data_type, Type::Numeric(_)) =>
        {
            inner
        }
        _ => expr,
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

/// The range of one argument of a statistic of pairs.
fn finite_pair(argument: &Expr, ranges: &Ranges<'_>) -> Result<Interval, Refusal> {
    let range = ranges.of(argument);
    if range.is_finite() {
        return Ok(range);
    }
    Err(Refusal::new(
        reason::VALUE_RANGE_UNKNOWN,
        "CORR, COVAR and REGR need bounds for both arguments",
    )
    .hint(
        "Clamp each argument inline, as in CORR(LEAST(GREATEST(y, 0), 100), x), add \
            conditions such as WHERE y BETWEEN 0 AND 100, or ask the data owner to declare bounds.",
    ))
}

fn finite(argument: &Expr, ranges: &Ranges<'_>, name: &str) -> Result<Interval, Refusal> {
    let range = ranges.of(argument);
    if !range.is_finite() {
        return Err(Refusal::unsupported(
            reason::VALUE_RANGE_UNKNOWN,
            format!("{name} of a value whose range is not known"),
        )
        .hint(
            "Clamp it inline, as in SUM(LEAST(GREATEST(x, 0), 100)), add a condition such as \
                WHERE x BETWEEN 0 AND 100, or ask the data owner to declare bounds.",
        ));
    }
    Ok(range)
}
