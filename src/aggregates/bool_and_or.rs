//! BOOL_AND, EVERY and BOOL_OR: whether any row is false, or true.

use super::call::{Call, Resolved, require_type};
use super::names::{AggregateName, DistinctForm};
use crate::ir::Operation;
use sqlparser::ast::{self, BinaryOperator as B};

use super::arithmetic::{float_literal, measure};
use super::best_case::{BestCase, Expected, dot, expect_error, rounded_text, three_digits};
use super::bounded::{Bounded, Bounds, Counts, Layout, TextRead, ValuesRead};
use super::estimate::Estimate;
use super::measure_id::MeasureId;
use super::unbounded::{Calls, Clamped, Facts, Unbounded};
use super::value::{Columns, Divisor, Foreseen, Group, OutputValue};
use super::{Bound, BoundedOperation, Output};
use crate::catalog::Type;
use crate::ir::functions::Function;
use crate::ir::{Expr, Interval, Quantifier, sql};
use crate::mechanism::normal;
use crate::policy::Scalar;
use crate::refusal::Refusal;

/// How many standard deviations of its noise a count may show even if no row is counted.
const DOUBT: f64 = 2.0;

/// BOOL_AND (All) or BOOL_OR (Any): the filter leaves the rows that are false, or true, and the
/// question is whether there are any.
#[derive(Debug, Clone, PartialEq)]
pub struct BoundedBool(pub Quantifier);

/// BOOL_AND or BOOL_OR as the query writes it.
pub(super) struct UnboundedBool<'o> {
    pub value: &'o Expr,
    pub of: Quantifier,
}

impl<'o> Unbounded<'o> for UnboundedBool<'o> {
    /// The rows that are counted are those that are false, or true.
    fn bound(&self, _bounds: &dyn Bounds) -> Result<Bound, Refusal> {
        let test = match self.of {
            Quantifier::All => Function::IsFalse,
            Quantifier::Any => Function::IsTrue,
        };
        Ok(Bound {
            operation: BoundedOperation::BoolAndOr(BoundedBool(self.of)),
            conditions: vec![Expr::call(test, vec![self.value.clone()], Type::Bool)],
        })
    }

    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal> {
        let name = match self.of {
            Quantifier::All => "bool_and",
            Quantifier::Any => "bool_or",
        };
        calls.of(name, self.value)
    }

    fn range(&self, _rows: f64, _may_be_empty: bool, _of: &dyn Fn(&Expr) -> Interval) -> Interval {
        Interval::ALL
    }

    fn facts(&self) -> Facts<'o> {
        Facts::of_all_values(Clamped::Values)
    }

    fn exact(&self, _name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal> {
        Ok(None)
    }
}

/// The names that they answer to.
pub(super) const NAMES: &[AggregateName] = &[
    AggregateName::new("bool_and", |c| call(c, Quantifier::All), DistinctForm::Same),
    AggregateName::new("every", |c| call(c, Quantifier::All), DistinctForm::Same),
    AggregateName::new("bool_or", |c| call(c, Quantifier::Any), DistinctForm::Same),
];

pub(super) fn call(call: &dyn Call, of: Quantifier) -> Resolved {
    let value = call.value()?;
    let result = (value.data_type == Type::Bool).then_some(Type::Bool);
    let result = require_type(call, result, &value.data_type)?;
    Ok((Operation::BoolAndOr { value, of }, result))
}

impl Bounded for BoundedBool {
    /// The rows that the condition picks are counted.
    fn reads(&self) -> ValuesRead<'_> {
        ValuesRead::Values(Vec::new())
    }

    fn value_over_no_rows(&self) -> Option<Scalar> {
        Some(Scalar::Bool(self.0 == Quantifier::All))
    }

    fn counts(&self) -> Counts<'_> {
        Counts::OfAllRows
    }

    fn reads_text(&self) -> TextRead {
        TextRead::Compared
    }

    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal> {
        Ok(Output::BoolAndOr(BoolOutput {
            count: layout.rows(filter),
            of: self.0,
        }))
    }
}

/// The value that is shown: whether the count of rows is so small that it may be zero (All), or
/// larger (Any).
#[derive(Debug, Clone, PartialEq)]
pub struct BoolOutput {
    pub count: MeasureId,
    pub of: Quantifier,
}

impl OutputValue for BoolOutput {
    fn name(&self) -> &'static str {
        "truth"
    }

    fn measures(&self) -> Vec<MeasureId> {
        vec![self.count]
    }

    fn foreseen(&self) -> Foreseen<'_> {
        Foreseen::Chance
    }

    /// Whether no row (All) or some row (Any) seems to be counted.
    fn sql(&self, columns: &dyn Columns) -> ast::Expr {
        let comparison = match self.of {
            Quantifier::All => B::LtEq,
            Quantifier::Any => B::Gt,
        };
        sql::binary(
            measure(self.count),
            comparison,
            float_literal((DOUBT * columns.deviation(self.count)).ceil()),
        )
    }

    fn is_unbounded(&self) -> bool {
        false
    }

    fn divisor(&self) -> Option<Divisor> {
        None
    }

    fn estimate(&self, group: &dyn Group) -> Option<Estimate> {
        Some(whether(&group.part(self.count)?, self.of))
    }

    fn best(&self, best: &dyn BestCase) -> Option<Expected> {
        let count = best.noise(self.count)?;
        let error = best.z() * dot(&count, &count).sqrt();
        let is_hidden = error >= best.rows() - 0.5;
        Some(expect_error(
            f64::INFINITY,
            is_hidden.then(|| {
                format!(
                    "would be true or false by chance: noise of ±{} hides about {} rows",
                    three_digits(error),
                    rounded_text(best.rows())
                )
            }),
        ))
    }
}

/// 1 for true: whether no row (All) or some row (Any) was counted. The error is that of a coin with
/// the probability that the normal law gives to some row.
fn whether(rows: &Estimate, of: Quantifier) -> Estimate {
    let chance = normal::cdf((rows.value - 0.5) / rows.error().max(f64::MIN_POSITIVE));
    let some = |rows: f64| f64::from(u8::from(rows >= 0.5));
    let (low, high) = (some(rows.low), some(rows.high));
    let error = (chance * (1.0 - chance)).max(0.0).sqrt();
    let (value, low, high) = match of {
        Quantifier::Any => (chance, low, high),
        Quantifier::All => (1.0 - chance, 1.0 - high, 1.0 - low),
    };
    Estimate::new(value, vec![error], 1.0).between(low, high)
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Quantifier, whether};

    #[test]
    fn a_flag_is_known_where_the_count_is_far_from_none() {
        let ends = |rows: f64, of| {
            let found = whether(&Estimate::new(rows, vec![10.0], 1.96), of);
            (found.low, found.high)
        };
        assert_eq!(ends(100.0, Quantifier::Any), (1.0, 1.0));
        assert_eq!(ends(100.0, Quantifier::All), (0.0, 0.0));
        assert_eq!(ends(5.0, Quantifier::Any), (0.0, 1.0));
        assert_eq!(ends(-50.0, Quantifier::All), (1.0, 1.0));
        assert!(whether(&Estimate::new(0.5, vec![10.0], 1.96), Quantifier::Any).error() > 0.49);
    }
}
