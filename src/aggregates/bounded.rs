//! The interface between a bounded aggregate and the stages: its questions about a release's rows,
//! and the traits that answer them.

use super::Output;
use super::choice_id::ChoiceId;
use super::choice_value;
use super::measure_id::MeasureId;
use crate::catalog::Type;
use crate::ir::literal::integer_range;
use crate::ir::{Distinct, End, Expr, Fractions, Interval, Node};
use crate::policy::Scalar;
use crate::refusal::{Refusal, reason};

/// A bounded aggregate, in its own file.
pub trait Bounded {
    /// The values that it reads, without the filter.
    fn reads(&self) -> ValuesRead<'_>;

    /// Its value over no row, without noise: 0 for counts and sums; `None`, that is NULL, for a
    /// mean or a chosen value.
    fn value_over_no_rows(&self) -> Option<Scalar>;

    /// Which row counts it needs.
    fn counts(&self) -> Counts<'_>;

    /// How it reads a text.
    fn reads_text(&self) -> TextRead;

    /// How many parts of a statement's budget it gets, where it is one of the steps that have all
    /// parts together.
    fn parts(&self) -> Option<u32> {
        None
    }

    /// Expressions that many of its summands mention, to be computed once a row: first those of
    /// columns, then those that mention the ones before, and so on.
    fn computed_once(&self) -> &[Vec<Expr>] {
        &[]
    }

    /// The conditions of rows that it counts itself, where it counts others than those of its
    /// filter.
    fn own_filters(&self, _filter: &Option<Expr>) -> Vec<Expr> {
        Vec::new()
    }

    /// Lays it out as coordinates of the vector, or asks a choice.
    ///
    /// # Errors
    /// 0A000 for a value whose range has no fixed-point grid.
    fn lay_out(&self, filter: &Option<Expr>, layout: &mut dyn Layout) -> Result<Output, Refusal>;
}

/// The values that an aggregate reads from each row.
#[derive(Debug, Clone, PartialEq)]
pub enum ValuesRead<'a> {
    /// One value, which is clipped to a range and added up.
    Summand(&'a Summand),
    /// Any values; empty where rows or units are counted.
    Values(Vec<&'a Expr>),
}

impl<'a> ValuesRead<'a> {
    pub(super) fn values(self) -> Vec<&'a Expr> {
        match self {
            Self::Summand(summand) => vec![&summand.value],
            Self::Values(values) => values,
        }
    }

    /// The range to which summed values are clipped.
    pub(super) fn range(self) -> Option<Interval> {
        match self {
            Self::Summand(summand) => Some(summand.range),
            Self::Values(_) => None,
        }
    }
}

/// Which row counts an aggregate needs. Aggregates with the same filter share them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Counts<'a> {
    /// All rows; their number is its value.
    AllRows,
    /// All rows; its value is computed from their number.
    OfAllRows,
    /// All rows, to divide two sums by.
    OfPairs { y: &'a Expr, x: &'a Expr },
    /// Rows where the value is not NULL, to divide by.
    OfValues { value: &'a Expr, nullable: bool },
    /// No rows, except the NULLs of a sum that is centred.
    OfSum { value: &'a Expr, nullable: bool },
    /// No count that others share.
    Nothing,
}

/// How a text argument is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRead {
    /// Whether the value is NULL.
    Presence,
    /// Compared with others.
    Compared,
    /// One of the values is shown.
    Shown,
}

/// A value that is added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Summand {
    pub value: Expr,
    pub range: Interval,
    pub nullable: bool,
}

/// The measures of one value: sums of its distances from the middle of `range`, and of their
/// squares; or of distances from zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Centred {
    pub sum: MeasureId,
    pub squares: MeasureId,
    pub range: Interval,
}

/// How many of one unit's distinct (group, value) pairs are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairLimits {
    /// In all groups.
    pub in_all: u64,
    /// In one group, where there are no grouping sets; never more than in all.
    pub in_group: u64,
}

/// The measures of many conditions that may all hold for a row.
#[derive(Debug, Clone, PartialEq)]
pub struct BitMeasures {
    /// The number of rows.
    pub rows: MeasureId,
    /// For each condition, the number of rows that meet it, or that number less half of the rows.
    pub bits: Vec<MeasureId>,
    /// Whether half of the rows are taken off.
    pub is_centred: bool,
}

/// Which ranks in the order of values are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranks {
    End(End),
    Fractions(Fractions),
}

/// The facts that `analyze` knows about the aggregated rows.
pub trait Bounds {
    /// Where the value lies, by the policy's bounds and the conditions on the rows. It chooses a
    /// clip and never replaces one.
    fn range(&self, value: &Expr) -> Interval;

    fn may_be_null(&self, value: &Expr) -> bool;

    /// Most (group, value) pairs that are kept of one unit.
    ///
    /// # Errors
    /// 0A000 where the values cannot be compared; `name` is the aggregate's.
    fn pair_limits(&self, values: &Distinct, name: &str) -> Result<PairLimits, Refusal>;

    /// The values that are known without the data; `None` where they come from it.
    ///
    /// # Errors
    /// As [`Self::pair_limits`].
    fn listed_values(
        &self,
        value: &Expr,
        name: &str,
    ) -> Result<Option<Vec<Option<Scalar>>>, Refusal>;

    /// Whether each row of the column's table is in one row at most.
    fn is_read_once(&self, column: &Expr) -> bool;

    /// Whether the values are the privacy unit itself, and under which condition.
    fn counted_unit(&self, values: &Distinct) -> Option<Option<Expr>>;
}

impl dyn Bounds + '_ {
    /// The range of a value, where it has two ends.
    pub(super) fn finite(&self, value: &Expr, name: &str) -> Result<Interval, Refusal> {
        let range = self.range(value);
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

    /// A value that is added up.
    pub(super) fn summand(&self, value: &Expr, name: &str) -> Result<Summand, Refusal> {
        Ok(Summand {
            value: value.clone(),
            range: self.finite(value, name)?,
            nullable: self.may_be_null(value),
        })
    }
}

/// What `rewrite` offers: measures of the vector, and choices. Equal ones are asked once.
pub trait Layout {
    /// The number of rows of the filter.
    fn rows(&mut self, filter: &Option<Expr>) -> MeasureId;

    /// The number of all rows, and of those that meet each of many conditions, which may all hold
    /// for a row.
    fn bits(&mut self, conditions: &[Expr]) -> BitMeasures;

    /// The number of rows of the filter where the value is not NULL.
    fn present(&mut self, value: &Expr, filter: &Option<Expr>) -> MeasureId;

    /// The number of units that have a row of the filter.
    fn units(&mut self, filter: &Option<Expr>) -> MeasureId;

    /// A sum.
    ///
    /// # Errors
    /// 0A000 where the range has no fixed-point grid.
    fn sum(&mut self, summand: &Summand, filter: &Option<Expr>) -> Result<MeasureId, Refusal>;

    /// A sum and the number of its values.
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn mean(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, MeasureId), Refusal>;

    /// The number of values, and their first two moments about the middle of the range, or about
    /// zero where that serves a look better.
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn moments(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, Centred), Refusal>;

    /// Like [`Self::moments`], but always about the middle of the range.
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn centred_moments(
        &mut self,
        summand: &Summand,
        filter: &Option<Expr>,
    ) -> Result<(MeasureId, Centred), Refusal>;

    /// A text to order values by, that does not depend on the order in which they are written.
    fn place(&self, value: &Expr) -> String;

    /// The moments of pairs. Those of (x, y) are those of (y, x).
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn pairs(
        &mut self,
        y: (&Expr, Interval),
        x: (&Expr, Interval),
        filter: &Option<Expr>,
    ) -> Result<Pairs, Refusal>;

    /// A choice that counts distinct values.
    fn distinct_count(
        &mut self,
        values: &Distinct,
        limits: PairLimits,
        filter: &Option<Expr>,
    ) -> ChoiceId;

    /// A choice that adds up distinct values, with their squares where these are asked for; and
    /// the range of its grid.
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn distinct_sum(
        &mut self,
        value: (&Expr, Interval),
        limits: PairLimits,
        filter: &Option<Expr>,
        with_squares: bool,
    ) -> Result<(ChoiceId, Interval), Refusal>;

    /// Values at ranks.
    ///
    /// # Errors
    /// As [`Self::sum`].
    fn values_at_ranks(
        &mut self,
        value: (&Expr, Interval),
        ranks: &Ranks,
        filter: &Option<Expr>,
    ) -> Result<choice_value::ChoiceOutput, Refusal>;

    /// The most frequent of these values.
    fn most_frequent(
        &mut self,
        value: &Expr,
        values: &[Scalar],
        filter: &Option<Expr>,
    ) -> choice_value::ChoiceOutput;
}

/// The measures of pairs of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pairs {
    pub count: MeasureId,
    pub y: Centred,
    pub x: Centred,
    pub products: MeasureId,
}

/// The number before its cast to float8, which keeps its value: its fixed-point grid is exact.
pub(super) fn exact(expr: &Expr) -> &Expr {
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
