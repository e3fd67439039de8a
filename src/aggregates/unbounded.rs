//! An aggregate as the query writes it: its bounds, and its value over the rows of one unit, where
//! no noise is added (GROUP BY, windows and subqueries within a unit).

use sqlparser::ast;

use super::{Bound, Bounds};
use crate::catalog::Type;
use crate::ir::{Distinct, Expr, Fractions, Interval, Operation, PairStatistic};
use crate::refusal::Refusal;

/// An aggregate as the query writes it, which lives as long as its operation.
///
/// A method with a default only saves work: an aggregate that leaves it out keeps every guarantee.
pub trait Unbounded<'o> {
    /// Bounds it.
    ///
    /// # Guarantee
    /// The range that is kept is a clip for every row's argument, whatever the row holds: it
    /// decides accuracy and noise, never whether there is a clip. Conditions that the operation
    /// implies (complete pairs, rows that are false or true) are returned with it.
    ///
    /// # Requires
    /// `bounds.range` is where the values lie as far as is known; it need not hold for every row.
    ///
    /// # Errors
    /// 0A000 where no range is known, or where the aggregate has no sound answer.
    fn bound(&self, bounds: &dyn Bounds) -> Result<Bound, Refusal>;

    /// Its call over the rows of one unit.
    ///
    /// # Guarantee
    /// A function of the set of the rows.
    ///
    /// # Errors
    /// The errors of its arguments.
    fn sql(&self, calls: &dyn Calls) -> Result<ast::Expr, Refusal>;

    /// Where its results lie over the at most `rows` rows of one unit, whose values lie where `of`
    /// says. `may_be_empty`: whether it may see no row.
    ///
    /// # Guarantee
    /// It chooses clips only: each result is clamped to it where it is added up.
    fn range(&self, rows: f64, may_be_empty: bool, of: &dyn Fn(&Expr) -> Interval) -> Interval;

    /// Its facts for the stages.
    fn facts(&self) -> Facts<'o>;

    /// The expression that replaces the aggregate within one unit's rows, so that the result is a
    /// function of their set: a sum of floats depends on the order of rows. `None`: the aggregate
    /// stays as it is. The type is PostgreSQL's where it differs. `name` is the call's.
    ///
    /// # Errors
    /// 0A000 for forms that have no exact value over one unit's rows.
    fn exact(&self, name: &str) -> Result<Option<(Operation, Option<Type>)>, Refusal>;

    /// The one value that it adds up, where a row without one adds nothing, and whether a row with
    /// a zero adds nothing either.
    fn adds(&self) -> Option<(&'o Expr, bool)> {
        None
    }

    /// An aggregate that adds up one value, over another value instead; `None` for other
    /// aggregates.
    fn over(&self, _value: Expr) -> Option<Operation> {
        None
    }
}

/// Facts about an aggregate for the stages. Nothing has a default, so that a new aggregate states
/// all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Facts<'o> {
    pub clamped: Clamped,
    /// Whether the result is a number of rows or values: 0 of no row.
    pub is_count: bool,
    /// Whether its call gives the order of values, so that it is no window call: PERCENTILE and
    /// MODE.
    pub is_ordered_set: bool,
    /// Whether a row in which one of its arguments is NULL adds nothing.
    pub skips_nulls: bool,
    pub compares: ComparisonKind,
    pub ties: Ties<'o>,
}

impl<'o> Facts<'o> {
    /// Facts of an aggregate that computes a number from all values that are not NULL.
    pub(super) fn of_all_values(clamped: Clamped) -> Self {
        Self {
            clamped,
            is_count: false,
            is_ordered_set: false,
            skips_nulls: true,
            compares: ComparisonKind::Order,
            ties: Ties::Hidden,
        }
    }

    /// Facts of an aggregate that returns one of the values; `name` is what messages call it.
    pub(super) fn of_one_value(value: &'o Expr, name: &'static str) -> Self {
        Self {
            ties: Ties::Shown(value, name),
            ..Self::of_all_values(Clamped::Values)
        }
    }

    /// Facts of an aggregate that returns one of the values, in an order that the call gives.
    pub(super) fn ordered_set(value: &'o Expr) -> Self {
        Self {
            is_ordered_set: true,
            ..Self::of_one_value(value, "a percentile or mode")
        }
    }
}

/// How the aggregate treats equal values that may print in different ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ties<'o> {
    /// The result does not show which of them it saw.
    Hidden,
    /// The result shows one of several equal values. The text is what messages call the aggregate.
    Shown(&'o Expr, &'static str),
    /// The result counts equal values as one.
    Counted(&'o Distinct),
}

/// The range to which results are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clamped {
    /// A number of rows.
    Rows,
    /// The largest sum of a unit's rows.
    Sums,
    /// A result lies where the values do.
    Values,
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonKind {
    /// Only NULL differs from the rest.
    Nothing,
    Equality,
    Order,
}

/// What `rewrite` offers: calls over the rows of a group, or of a window, with the aggregate's
/// FILTER.
pub trait Calls {
    /// `count(*)`.
    fn rows(&self) -> ast::Expr;

    /// The number of rows where the value is not NULL.
    ///
    /// # Errors
    /// The errors of the value.
    fn present(&self, value: &Expr) -> Result<ast::Expr, Refusal>;

    /// The number of distinct values. A bare column is counted as it is stored: a clamp would make
    /// one out of two values.
    ///
    /// # Errors
    /// The errors of the values.
    fn distinct_count(&self, values: &Distinct) -> Result<ast::Expr, Refusal>;

    /// `name(value)`.
    ///
    /// # Errors
    /// The errors of the value.
    fn of(&self, name: &str, value: &Expr) -> Result<ast::Expr, Refusal>;

    /// `name(DISTINCT value)`.
    ///
    /// # Errors
    /// The errors of the value.
    fn of_distinct(&self, name: &str, value: &Expr) -> Result<ast::Expr, Refusal>;

    /// `name(fraction) WITHIN GROUP (ORDER BY value)`, `descending` or not.
    ///
    /// # Errors
    /// The errors of the value; XX000 for several fractions.
    fn ordered_set(
        &self,
        name: &str,
        fraction: Option<&Fractions>,
        value: (&Expr, bool),
    ) -> Result<ast::Expr, Refusal>;

    /// A statistic of pairs, from exact sums.
    ///
    /// # Errors
    /// The errors of the values.
    fn pairs(&self, y: &Expr, x: &Expr, kind: PairStatistic) -> Result<ast::Expr, Refusal>;

    /// One spelling for all equal results.
    fn one_spelling(&self, call: ast::Expr) -> ast::Expr;
}

/// The sum of up to `rows` values.
pub(super) fn sum_of(one: Interval, rows: f64) -> Interval {
    Interval::new(
        if one.lo < 0.0 { one.lo * rows } else { one.lo },
        if one.hi > 0.0 { one.hi * rows } else { one.hi },
    )
}

/// Values within an interval have at most this variance: a quarter of its width squared (Popoviciu
/// 1935).
pub(super) fn most_variance(one: Interval) -> f64 {
    let spread = one.hi - one.lo;
    spread * spread / 4.0
}

pub(super) fn is_float(value: &Expr) -> bool {
    matches!(value.data_type, Type::Float4 | Type::Float8)
}

/// What adds up floats becomes the same over numerics, whose sums do not depend on the order of
/// rows. `None` for other values.
pub(super) fn exact_sum(
    value: &Expr,
    over: impl FnOnce(Expr) -> Operation,
) -> Option<(Operation, Option<Type>)> {
    let numeric = Type::Numeric(None);
    is_float(value).then(|| (over(value.clone().cast(numeric.clone())), Some(numeric)))
}
